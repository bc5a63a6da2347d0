//! The codon machine: 8 states, 16 edges, and what each step demands.
//!
//! This declaration is the only table of states in the project. The typed `Codon<S>`, the stored [`CodonExecution`], the transition events and every
//! diagram come from it (STATE-8, STATE-9, STATE-10, STATE-13, STATE-14, STATE-19).

use std::path::PathBuf;

use super::LoopContext;
use super::sentinels::{Executed, Loaded, Sentinels};
use crate::agent::FailureReason;
use crate::cost::{RecordedTokens, Usd};
use crate::id::{CheckpointSha, CodonId, Pid, SessionId};
use crate::machine;
use crate::machine::Extra;
use crate::time::Timestamp;

/// One execution of a codon, as stored in state.json.
#[machine(Codon, tests, schema = "schema", fields = crate::shape::of_machine)]
#[serde(tag = "status", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum CodonExecution {
    /// Fields of every state.
    #[shared]
    Base {
        /// The codon of the execution plan that this record runs.
        codon_id: CodonId,
        /// When the record was opened.
        start_time: Timestamp,
        /// Position in a loop, if the codon belongs to one.
        loop_context: Option<LoopContext>,
        /// Names that other versions wrote; kept as they are.
        #[extra]
        extra: Extra,
    },

    /// States that can end before the work is done.
    #[group]
    #[to(fail => Failed, skip => Skipped)]
    Unfinished,

    /// Fields of a codon that ended before its work was done.
    #[group]
    Abandoned {
        /// The process id of the agent, if it was spawned.
        #[carry]
        #[serde(rename = "claudePid")]
        agent_pid: Option<Pid>,
        /// The conversation, if the agent named one.
        #[carry]
        #[serde(rename = "claudeSessionId")]
        agent_session_id: Option<SessionId>,
        /// The session that the agent was asked to resume.
        #[carry]
        previous_session_id: Option<SessionId>,
        /// The raw output of the agent, relative to `.hankweave`.
        #[carry]
        #[serde(rename = "claudeLogPath")]
        agent_log_path: Option<PathBuf>,
        /// The checkpoint after rig set-up.
        #[carry]
        rig_setup_checkpoint: Option<CheckpointSha>,
        /// Spending until then.
        #[carry(current_cost)]
        partial_cost: Usd,
        /// The tokens used until then.
        #[carry(current_tokens)]
        partial_tokens: RecordedTokens,
        /// The sentinels that watched this codon.
        #[carry]
        #[serde(default, skip_serializing_if = "Sentinels::is_none")]
        sentinels: Sentinels<Executed>,
    },

    /// Rig set-up runs; there is no agent yet.
    #[initial]
    #[within(Unfinished)]
    #[to(start => Starting)]
    Preparing {
        /// The checkpoint after rig set-up, once it is made.
        #[live(start = None)]
        rig_setup_checkpoint: Option<CheckpointSha>,
    },

    /// The agent is being spawned.
    #[within(Unfinished)]
    #[to(initialize => Initializing)]
    Starting {
        /// The checkpoint after rig set-up; absent when the codon has no rig.
        rig_setup_checkpoint: Option<CheckpointSha>,
        /// The sentinels that watch this codon.
        #[live(start = Sentinels::none())]
        #[serde(default, skip_serializing_if = "Sentinels::is_none")]
        sentinels: Sentinels<Loaded>,
    },

    /// The agent runs and has not yet reported its session.
    #[within(Unfinished)]
    #[to(run => Running)]
    #[keeps(rig_setup_checkpoint, sentinels)]
    Initializing {
        /// The process id of the agent.
        #[serde(rename = "claudePid")]
        agent_pid: Pid,
        /// The raw output of the agent, relative to `.hankweave`.
        #[serde(rename = "claudeLogPath")]
        agent_log_path: PathBuf,
        /// The session that the agent was asked to resume.
        previous_session_id: Option<SessionId>,
    },

    /// The agent works.
    #[within(Unfinished)]
    #[to(complete_sentinels => CompletingSentinels, complete => Completed)]
    #[keeps(
        rig_setup_checkpoint,
        sentinels,
        agent_pid,
        agent_log_path,
        previous_session_id
    )]
    Running {
        /// The agent's own name for the conversation.
        #[serde(rename = "claudeSessionId")]
        agent_session_id: SessionId,
        /// Cost of the codon so far, in US dollars.
        #[live(start = Usd::ZERO, add)]
        current_cost: Usd,
        /// The tokens used so far.
        #[live(start = RecordedTokens::default(), add)]
        current_tokens: RecordedTokens,
        /// The messages that the agent has written so far.
        #[live(start = 0)]
        assistant_message_count: u64,
    },

    /// The agent has ended; sentinels finish their work.
    #[serde(alias = "completing_sentinels")]
    #[within(Unfinished)]
    #[to(complete => Completed)]
    #[same_as(Running)]
    CompletingSentinels,

    /// The agent succeeded and its work is in a checkpoint.
    #[terminal]
    #[keeps(rig_setup_checkpoint, previous_session_id, agent_session_id, agent_log_path)]
    #[tolerates(agent_pid, current_cost, current_tokens, assistant_message_count)]
    Completed {
        /// When the codon ended.
        end_time: Timestamp,
        /// Always 0.
        #[fixed(0)]
        exit_code: i64,
        /// Cost of the codon, in US dollars.
        #[carry(current_cost)]
        final_cost: Usd,
        /// The tokens that the codon used.
        #[carry(current_tokens)]
        final_tokens: RecordedTokens,
        /// The sentinels that watched this codon.
        #[carry]
        #[serde(default, skip_serializing_if = "Sentinels::is_none")]
        sentinels: Sentinels<Executed>,
        /// The checkpoint of the finished work.
        completion_checkpoint: CheckpointSha,
        /// Whether the agent closed its stream with a result.
        result_message_received: bool,
    },

    /// The codon did not succeed.
    #[within(Abandoned)]
    #[terminal]
    Failed {
        /// When the codon ended.
        end_time: Timestamp,
        /// The state that the codon failed in.
        #[origin]
        failed_during: CodonPhase,
        /// The agent's exit code; 128 + n after signal n; -1 when it never ran or was lost.
        exit_code: i64,
        /// Why it failed.
        failure_reason: FailureReason,
        /// A checkpoint of the files that the codon left.
        error_checkpoint: Option<CheckpointSha>,
    },

    /// A person chose to skip the codon, or nothing was left of its budget at its start.
    #[within(Abandoned)]
    #[terminal]
    Skipped {
        /// When the codon ended.
        end_time: Timestamp,
        /// The state that the codon was skipped in.
        #[origin]
        skipped_during: CodonPhase,
        /// A checkpoint of the files that the codon left.
        skip_checkpoint: Option<CheckpointSha>,
        /// The messages that the agent had written, if it ran.
        #[carry]
        assistant_message_count: Option<u64>,
    },
}
