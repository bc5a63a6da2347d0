use data::{Executed, Loaded};
use state_shift::{impl_state, type_state};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CodonPhase {
    Preparing,
    Starting,
    Initializing,
    Running,
    CompletingSentinels,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    pub sentinels: Loaded,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Initialize {
    pub claude_pid: u32,
    pub claude_log_path: String,
    pub previous_session_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub claude_session_id: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Complete {
    pub end_time: i64,
    pub completion_checkpoint: String,
    pub result_message_received: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Fail {
    pub end_time: i64,
    pub exit_code: i32,
    pub failure_reason: String,
    pub error_checkpoint: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Skip {
    pub end_time: i64,
    pub skip_checkpoint: Option<String>,
}

#[type_state(
    states = (Preparing, Starting, Initializing, Running, CompletingSentinels, Completed, Failed, Skipped),
    slots = (Preparing)
)]
#[derive(Debug, Clone, PartialEq)]
pub struct Codon {
    pub codon_id: String,
    pub start_time: i64,
    pub loop_context: Option<u32>,
    pub rig_setup_checkpoint: Option<String>,
    pub sentinels: Option<Loaded>,
    pub executed: Executed,
    pub claude_pid: Option<u32>,
    pub claude_log_path: Option<String>,
    pub previous_session_id: Option<String>,
    pub claude_session_id: Option<String>,
    pub current_cost: u64,
    pub current_tokens: u64,
    pub assistant_message_count: Option<u32>,
    pub end_time: Option<i64>,
    pub exit_code: Option<i32>,
    pub completion_checkpoint: Option<String>,
    pub result_message_received: Option<bool>,
    pub ended_during: Option<CodonPhase>,
    pub failure_reason: Option<String>,
    pub error_checkpoint: Option<String>,
    pub skip_checkpoint: Option<String>,
}

#[impl_state]
impl Codon {
    #[require(Preparing)]
    pub fn new(codon_id: String, start_time: i64, loop_context: Option<u32>) -> Codon {
        Codon {
            codon_id,
            start_time,
            loop_context,
            rig_setup_checkpoint: None,
            sentinels: None,
            executed: Executed::default(),
            claude_pid: None,
            claude_log_path: None,
            previous_session_id: None,
            claude_session_id: None,
            current_cost: 0,
            current_tokens: 0,
            assistant_message_count: None,
            end_time: None,
            exit_code: None,
            completion_checkpoint: None,
            result_message_received: None,
            ended_during: None,
            failure_reason: None,
            error_checkpoint: None,
            skip_checkpoint: None,
        }
    }

    #[require(Preparing)]
    #[switch_to(Starting)]
    pub fn start(self, metadata: Start) -> Codon {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            sentinels: Some(metadata.sentinels),
            executed: self.executed,
            claude_pid: self.claude_pid,
            claude_log_path: self.claude_log_path,
            previous_session_id: self.previous_session_id,
            claude_session_id: self.claude_session_id,
            current_cost: self.current_cost,
            current_tokens: self.current_tokens,
            assistant_message_count: self.assistant_message_count,
            end_time: self.end_time,
            exit_code: self.exit_code,
            completion_checkpoint: self.completion_checkpoint,
            result_message_received: self.result_message_received,
            ended_during: self.ended_during,
            failure_reason: self.failure_reason,
            error_checkpoint: self.error_checkpoint,
            skip_checkpoint: self.skip_checkpoint,
        }
    }

    #[require(Starting)]
    #[switch_to(Initializing)]
    pub fn initialize(self, metadata: Initialize) -> Codon {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            sentinels: self.sentinels,
            executed: self.executed,
            claude_pid: Some(metadata.claude_pid),
            claude_log_path: Some(metadata.claude_log_path),
            previous_session_id: metadata.previous_session_id,
            claude_session_id: self.claude_session_id,
            current_cost: self.current_cost,
            current_tokens: self.current_tokens,
            assistant_message_count: self.assistant_message_count,
            end_time: self.end_time,
            exit_code: self.exit_code,
            completion_checkpoint: self.completion_checkpoint,
            result_message_received: self.result_message_received,
            ended_during: self.ended_during,
            failure_reason: self.failure_reason,
            error_checkpoint: self.error_checkpoint,
            skip_checkpoint: self.skip_checkpoint,
        }
    }

    #[require(Initializing)]
    #[switch_to(Running)]
    pub fn run(self, metadata: Run) -> Codon {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            sentinels: self.sentinels,
            executed: self.executed,
            claude_pid: self.claude_pid,
            claude_log_path: self.claude_log_path,
            previous_session_id: self.previous_session_id,
            claude_session_id: Some(metadata.claude_session_id),
            current_cost: self.current_cost,
            current_tokens: self.current_tokens,
            assistant_message_count: Some(0),
            end_time: self.end_time,
            exit_code: self.exit_code,
            completion_checkpoint: self.completion_checkpoint,
            result_message_received: self.result_message_received,
            ended_during: self.ended_during,
            failure_reason: self.failure_reason,
            error_checkpoint: self.error_checkpoint,
            skip_checkpoint: self.skip_checkpoint,
        }
    }

    #[require(Running)]
    #[switch_to(CompletingSentinels)]
    pub fn complete_sentinels(self) -> Codon {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            sentinels: self.sentinels,
            executed: self.executed,
            claude_pid: self.claude_pid,
            claude_log_path: self.claude_log_path,
            previous_session_id: self.previous_session_id,
            claude_session_id: self.claude_session_id,
            current_cost: self.current_cost,
            current_tokens: self.current_tokens,
            assistant_message_count: self.assistant_message_count,
            end_time: self.end_time,
            exit_code: self.exit_code,
            completion_checkpoint: self.completion_checkpoint,
            result_message_received: self.result_message_received,
            ended_during: self.ended_during,
            failure_reason: self.failure_reason,
            error_checkpoint: self.error_checkpoint,
            skip_checkpoint: self.skip_checkpoint,
        }
    }

    #[require(Running)]
    #[switch_to(Completed)]
    pub fn complete(self, metadata: Complete) -> Codon {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            sentinels: None,
            executed: self.sentinels.map(Executed::from).unwrap_or_default(),
            claude_pid: self.claude_pid,
            claude_log_path: self.claude_log_path,
            previous_session_id: self.previous_session_id,
            claude_session_id: self.claude_session_id,
            current_cost: self.current_cost,
            current_tokens: self.current_tokens,
            assistant_message_count: self.assistant_message_count,
            end_time: Some(metadata.end_time),
            exit_code: Some(0),
            completion_checkpoint: Some(metadata.completion_checkpoint),
            result_message_received: Some(metadata.result_message_received),
            ended_during: self.ended_during,
            failure_reason: self.failure_reason,
            error_checkpoint: self.error_checkpoint,
            skip_checkpoint: self.skip_checkpoint,
        }
    }

    #[require(CompletingSentinels)]
    #[switch_to(Completed)]
    pub fn complete(self, metadata: Complete) -> Codon {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            sentinels: None,
            executed: self.sentinels.map(Executed::from).unwrap_or_default(),
            claude_pid: self.claude_pid,
            claude_log_path: self.claude_log_path,
            previous_session_id: self.previous_session_id,
            claude_session_id: self.claude_session_id,
            current_cost: self.current_cost,
            current_tokens: self.current_tokens,
            assistant_message_count: self.assistant_message_count,
            end_time: Some(metadata.end_time),
            exit_code: Some(0),
            completion_checkpoint: Some(metadata.completion_checkpoint),
            result_message_received: Some(metadata.result_message_received),
            ended_during: self.ended_during,
            failure_reason: self.failure_reason,
            error_checkpoint: self.error_checkpoint,
            skip_checkpoint: self.skip_checkpoint,
        }
    }

    #[require(Preparing)]
    #[switch_to(Failed)]
    pub fn fail(self, metadata: Fail) -> Codon {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            sentinels: None,
            executed: self.sentinels.map(Executed::from).unwrap_or_default(),
            claude_pid: self.claude_pid,
            claude_log_path: self.claude_log_path,
            previous_session_id: self.previous_session_id,
            claude_session_id: self.claude_session_id,
            current_cost: self.current_cost,
            current_tokens: self.current_tokens,
            assistant_message_count: self.assistant_message_count,
            end_time: Some(metadata.end_time),
            exit_code: Some(metadata.exit_code),
            completion_checkpoint: self.completion_checkpoint,
            result_message_received: self.result_message_received,
            ended_during: Some(CodonPhase::Preparing),
            failure_reason: Some(metadata.failure_reason),
            error_checkpoint: metadata.error_checkpoint,
            skip_checkpoint: self.skip_checkpoint,
        }
    }

    #[require(Preparing)]
    #[switch_to(Skipped)]
    pub fn skip(self, metadata: Skip) -> Codon {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            sentinels: None,
            executed: self.sentinels.map(Executed::from).unwrap_or_default(),
            claude_pid: self.claude_pid,
            claude_log_path: self.claude_log_path,
            previous_session_id: self.previous_session_id,
            claude_session_id: self.claude_session_id,
            current_cost: self.current_cost,
            current_tokens: self.current_tokens,
            assistant_message_count: self.assistant_message_count,
            end_time: Some(metadata.end_time),
            exit_code: self.exit_code,
            completion_checkpoint: self.completion_checkpoint,
            result_message_received: self.result_message_received,
            ended_during: Some(CodonPhase::Preparing),
            failure_reason: self.failure_reason,
            error_checkpoint: self.error_checkpoint,
            skip_checkpoint: metadata.skip_checkpoint,
        }
    }

    #[require(Starting)]
    #[switch_to(Failed)]
    pub fn fail(self, metadata: Fail) -> Codon {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            sentinels: None,
            executed: self.sentinels.map(Executed::from).unwrap_or_default(),
            claude_pid: self.claude_pid,
            claude_log_path: self.claude_log_path,
            previous_session_id: self.previous_session_id,
            claude_session_id: self.claude_session_id,
            current_cost: self.current_cost,
            current_tokens: self.current_tokens,
            assistant_message_count: self.assistant_message_count,
            end_time: Some(metadata.end_time),
            exit_code: Some(metadata.exit_code),
            completion_checkpoint: self.completion_checkpoint,
            result_message_received: self.result_message_received,
            ended_during: Some(CodonPhase::Starting),
            failure_reason: Some(metadata.failure_reason),
            error_checkpoint: metadata.error_checkpoint,
            skip_checkpoint: self.skip_checkpoint,
        }
    }

    #[require(Starting)]
    #[switch_to(Skipped)]
    pub fn skip(self, metadata: Skip) -> Codon {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            sentinels: None,
            executed: self.sentinels.map(Executed::from).unwrap_or_default(),
            claude_pid: self.claude_pid,
            claude_log_path: self.claude_log_path,
            previous_session_id: self.previous_session_id,
            claude_session_id: self.claude_session_id,
            current_cost: self.current_cost,
            current_tokens: self.current_tokens,
            assistant_message_count: self.assistant_message_count,
            end_time: Some(metadata.end_time),
            exit_code: self.exit_code,
            completion_checkpoint: self.completion_checkpoint,
            result_message_received: self.result_message_received,
            ended_during: Some(CodonPhase::Starting),
            failure_reason: self.failure_reason,
            error_checkpoint: self.error_checkpoint,
            skip_checkpoint: metadata.skip_checkpoint,
        }
    }

    #[require(Initializing)]
    #[switch_to(Failed)]
    pub fn fail(self, metadata: Fail) -> Codon {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            sentinels: None,
            executed: self.sentinels.map(Executed::from).unwrap_or_default(),
            claude_pid: self.claude_pid,
            claude_log_path: self.claude_log_path,
            previous_session_id: self.previous_session_id,
            claude_session_id: self.claude_session_id,
            current_cost: self.current_cost,
            current_tokens: self.current_tokens,
            assistant_message_count: self.assistant_message_count,
            end_time: Some(metadata.end_time),
            exit_code: Some(metadata.exit_code),
            completion_checkpoint: self.completion_checkpoint,
            result_message_received: self.result_message_received,
            ended_during: Some(CodonPhase::Initializing),
            failure_reason: Some(metadata.failure_reason),
            error_checkpoint: metadata.error_checkpoint,
            skip_checkpoint: self.skip_checkpoint,
        }
    }

    #[require(Initializing)]
    #[switch_to(Skipped)]
    pub fn skip(self, metadata: Skip) -> Codon {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            sentinels: None,
            executed: self.sentinels.map(Executed::from).unwrap_or_default(),
            claude_pid: self.claude_pid,
            claude_log_path: self.claude_log_path,
            previous_session_id: self.previous_session_id,
            claude_session_id: self.claude_session_id,
            current_cost: self.current_cost,
            current_tokens: self.current_tokens,
            assistant_message_count: self.assistant_message_count,
            end_time: Some(metadata.end_time),
            exit_code: self.exit_code,
            completion_checkpoint: self.completion_checkpoint,
            result_message_received: self.result_message_received,
            ended_during: Some(CodonPhase::Initializing),
            failure_reason: self.failure_reason,
            error_checkpoint: self.error_checkpoint,
            skip_checkpoint: metadata.skip_checkpoint,
        }
    }

    #[require(Running)]
    #[switch_to(Failed)]
    pub fn fail(self, metadata: Fail) -> Codon {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            sentinels: None,
            executed: self.sentinels.map(Executed::from).unwrap_or_default(),
            claude_pid: self.claude_pid,
            claude_log_path: self.claude_log_path,
            previous_session_id: self.previous_session_id,
            claude_session_id: self.claude_session_id,
            current_cost: self.current_cost,
            current_tokens: self.current_tokens,
            assistant_message_count: self.assistant_message_count,
            end_time: Some(metadata.end_time),
            exit_code: Some(metadata.exit_code),
            completion_checkpoint: self.completion_checkpoint,
            result_message_received: self.result_message_received,
            ended_during: Some(CodonPhase::Running),
            failure_reason: Some(metadata.failure_reason),
            error_checkpoint: metadata.error_checkpoint,
            skip_checkpoint: self.skip_checkpoint,
        }
    }

    #[require(Running)]
    #[switch_to(Skipped)]
    pub fn skip(self, metadata: Skip) -> Codon {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            sentinels: None,
            executed: self.sentinels.map(Executed::from).unwrap_or_default(),
            claude_pid: self.claude_pid,
            claude_log_path: self.claude_log_path,
            previous_session_id: self.previous_session_id,
            claude_session_id: self.claude_session_id,
            current_cost: self.current_cost,
            current_tokens: self.current_tokens,
            assistant_message_count: self.assistant_message_count,
            end_time: Some(metadata.end_time),
            exit_code: self.exit_code,
            completion_checkpoint: self.completion_checkpoint,
            result_message_received: self.result_message_received,
            ended_during: Some(CodonPhase::Running),
            failure_reason: self.failure_reason,
            error_checkpoint: self.error_checkpoint,
            skip_checkpoint: metadata.skip_checkpoint,
        }
    }

    #[require(CompletingSentinels)]
    #[switch_to(Failed)]
    pub fn fail(self, metadata: Fail) -> Codon {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            sentinels: None,
            executed: self.sentinels.map(Executed::from).unwrap_or_default(),
            claude_pid: self.claude_pid,
            claude_log_path: self.claude_log_path,
            previous_session_id: self.previous_session_id,
            claude_session_id: self.claude_session_id,
            current_cost: self.current_cost,
            current_tokens: self.current_tokens,
            assistant_message_count: self.assistant_message_count,
            end_time: Some(metadata.end_time),
            exit_code: Some(metadata.exit_code),
            completion_checkpoint: self.completion_checkpoint,
            result_message_received: self.result_message_received,
            ended_during: Some(CodonPhase::CompletingSentinels),
            failure_reason: Some(metadata.failure_reason),
            error_checkpoint: metadata.error_checkpoint,
            skip_checkpoint: self.skip_checkpoint,
        }
    }

    #[require(CompletingSentinels)]
    #[switch_to(Skipped)]
    pub fn skip(self, metadata: Skip) -> Codon {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            sentinels: None,
            executed: self.sentinels.map(Executed::from).unwrap_or_default(),
            claude_pid: self.claude_pid,
            claude_log_path: self.claude_log_path,
            previous_session_id: self.previous_session_id,
            claude_session_id: self.claude_session_id,
            current_cost: self.current_cost,
            current_tokens: self.current_tokens,
            assistant_message_count: self.assistant_message_count,
            end_time: Some(metadata.end_time),
            exit_code: self.exit_code,
            completion_checkpoint: self.completion_checkpoint,
            result_message_received: self.result_message_received,
            ended_during: Some(CodonPhase::CompletingSentinels),
            failure_reason: self.failure_reason,
            error_checkpoint: self.error_checkpoint,
            skip_checkpoint: metadata.skip_checkpoint,
        }
    }
}

impl Codon<Preparing> {
    pub fn set_rig_setup_checkpoint(&mut self, value: Option<String>) {
        self.rig_setup_checkpoint = value;
    }
}

impl Codon<Running> {
    pub fn add_current_cost(&mut self, delta: u64) {
        self.current_cost += delta;
    }

    pub fn add_current_tokens(&mut self, delta: u64) {
        self.current_tokens += delta;
    }

    pub fn add_assistant_message_count(&mut self, delta: u32) {
        self.assistant_message_count = self.assistant_message_count.map(|count| count + delta);
    }
}

impl Codon<CompletingSentinels> {
    pub fn add_current_cost(&mut self, delta: u64) {
        self.current_cost += delta;
    }

    pub fn add_current_tokens(&mut self, delta: u64) {
        self.current_tokens += delta;
    }

    pub fn add_assistant_message_count(&mut self, delta: u32) {
        self.assistant_message_count = self.assistant_message_count.map(|count| count + delta);
    }
}
