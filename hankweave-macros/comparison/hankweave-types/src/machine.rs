use data::{Executed, Loaded};
use hankweave_machine::machine;

#[machine(Codon, types)]
#[derive(Debug, Clone, PartialEq)]
pub enum AnyCodon {
    #[shared]
    Base {
        codon_id: String,
        start_time: i64,
        loop_context: Option<u32>,
    },

    #[initial]
    #[to(start => Starting, fail => Failed, skip => Skipped)]
    Preparing {
        #[live(start = None)]
        rig_setup_checkpoint: Option<String>,
    },

    #[to(initialize => Initializing, fail => Failed, skip => Skipped)]
    #[keeps(rig_setup_checkpoint)]
    Starting { sentinels: Loaded },

    #[to(run => Running, fail => Failed, skip => Skipped)]
    #[keeps(rig_setup_checkpoint, sentinels)]
    Initializing {
        claude_pid: u32,
        claude_log_path: String,
        previous_session_id: Option<String>,
    },

    #[to(complete_sentinels => CompletingSentinels, complete => Completed, fail => Failed, skip => Skipped)]
    #[keeps(
        rig_setup_checkpoint,
        sentinels,
        claude_pid,
        claude_log_path,
        previous_session_id
    )]
    Running {
        claude_session_id: String,
        #[live(start = 0, add)]
        current_cost: u64,
        #[live(start = 0, add)]
        current_tokens: u64,
        #[live(start = 0, add)]
        assistant_message_count: u32,
    },

    #[to(complete => Completed, fail => Failed, skip => Skipped)]
    #[same_as(Running)]
    CompletingSentinels,

    #[terminal]
    #[keeps(rig_setup_checkpoint, previous_session_id, claude_session_id, claude_log_path)]
    Completed {
        end_time: i64,
        #[fixed(0)]
        exit_code: i32,
        #[carry(current_cost)]
        final_cost: u64,
        #[carry(current_tokens)]
        final_tokens: u64,
        #[carry]
        sentinels: Executed,
        completion_checkpoint: String,
        result_message_received: bool,
    },

    #[terminal]
    Failed {
        end_time: i64,
        #[origin]
        failed_during: CodonPhase,
        exit_code: i32,
        failure_reason: String,
        error_checkpoint: Option<String>,
        #[carry]
        claude_pid: Option<u32>,
        #[carry]
        claude_session_id: Option<String>,
        #[carry]
        previous_session_id: Option<String>,
        #[carry]
        claude_log_path: Option<String>,
        #[carry]
        rig_setup_checkpoint: Option<String>,
        #[carry(current_cost)]
        partial_cost: u64,
        #[carry(current_tokens)]
        partial_tokens: u64,
        #[carry]
        sentinels: Executed,
    },

    #[terminal]
    Skipped {
        end_time: i64,
        #[origin]
        skipped_during: CodonPhase,
        skip_checkpoint: Option<String>,
        #[carry]
        claude_pid: Option<u32>,
        #[carry]
        claude_session_id: Option<String>,
        #[carry]
        previous_session_id: Option<String>,
        #[carry]
        claude_log_path: Option<String>,
        #[carry]
        rig_setup_checkpoint: Option<String>,
        #[carry(current_cost)]
        partial_cost: u64,
        #[carry(current_tokens)]
        partial_tokens: u64,
        #[carry]
        assistant_message_count: Option<u32>,
        #[carry]
        sentinels: Executed,
    },
}
