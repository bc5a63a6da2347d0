//! Server to client events (WIRE-15, WIRE-19).

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AgentAction, BudgetCeiling, BudgetRow, BudgetTotals, CleanupStatus, CurrentFigures, DescribedLoop,
    ExitStatus, FailedDirectory, FailedPath, FileAction, FileNode, HankTitle, IdleReason, LeftOutFile,
    ListedCheckpoint, ProgressKind, RestoreStatus, RigStream, RunEnding, SentinelOrigin, SentinelTokens,
};
use crate::agent::FailureReason;
use crate::codon::{BudgetExceeded, CheckpointType, ChosenAgent, CodonExecution, UnloadReason};
use crate::cost::{TokenUsage, Usd};
use crate::event::StateEvent;
use crate::hank::{Allocation, RehearsedKind};
use crate::id::{CheckpointSha, CodonId, LoopId, RunId, SentinelId, SessionId};
use crate::shape::Named;
use crate::time::Timestamp;

/// Event, as clients get it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Named)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "data", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Event {
    /// The state document changed.
    #[serde(rename = "state.transition")]
    StateTransition {
        /// The name of the state event.
        transition_type: Cow<'static, str>,
        /// The run that it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_id: Option<RunId>,
        /// The codon that it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        codon_id: Option<CodonId>,
        /// The state event itself.
        transition: Box<StateEvent>,
        /// The figures of the document after it.
        resulting_state: CurrentFigures,
    },
    /// A codon's agent reported its session.
    #[serde(rename = "codon.started")]
    CodonStarted {
        /// The codon.
        codon_id: CodonId,
        /// Its name for people.
        codon_name: String,
        /// Its description.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        codon_description: Option<String>,
        /// The agent's session.
        session_id: SessionId,
        /// The session that it resumed, or that its own session copies.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        previous_session_id: Option<SessionId>,
        /// When the codon started.
        start_time: Timestamp,
        /// Front matter of its prompt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_metadata: Option<Value>,
        /// Name of the agent; absent in older journals.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// Requested model, where one is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// A codon ended: completed, failed or skipped.
    #[serde(rename = "codon.completed")]
    CodonCompleted {
        /// The codon.
        codon_id: CodonId,
        /// Whether it completed.
        success: bool,
        /// Cost, in US dollars, also when it was skipped; without its sentinels.
        cost: Usd,
        /// Additional cost of its sentinels, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sentinel_cost: Option<Usd>,
        /// Set when it cost more, by an unknown amount.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_is_lower_bound: Option<bool>,
        /// Milliseconds from its start to its end.
        duration: u64,
        /// How its agent ended.
        exit_status: ExitStatus,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure_reason: Option<FailureReason>,
        /// The failure does not stop the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure_ignored: Option<bool>,
        /// The limit of its budget that it reached.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget_exceeded: Option<BudgetExceeded>,
        /// Number of checkpointed files that differ from its start, if they were compared.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        files_changed: Option<u64>,
        /// Its result, where it was asked for one and completed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
    },
    /// A codon starts with another agent or model than its own.
    #[serde(rename = "codon.fallback")]
    CodonFallback {
        /// The codon.
        codon_id: CodonId,
        /// Agent and model, what they replace, and why.
        #[serde(flatten)]
        chosen: ChosenAgent,
        /// Whether it continues the session of the agent before; a new session starts with a summary of the work so far.
        same_session: bool,
    },
    /// The agent of a codon gets its prompt.
    #[serde(rename = "codon.prompted")]
    CodonPrompted {
        /// The codon.
        codon_id: CodonId,
        /// Prompt as the agent gets it, cut.
        prompt: String,
        /// Its length in characters before it was cut; absent where it is whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        original_length: Option<usize>,
    },
    /// A codon succeeded, and its agent continues in its session.
    #[serde(rename = "codon.extended")]
    CodonExtended {
        /// The codon.
        codon_id: CodonId,
        /// Its name for people.
        codon_name: String,
        /// Which extension this is, counted from 1.
        extension_number: u64,
        /// Prompt of the extension, as in the hank.
        exhaust_with_prompt: String,
        /// The tokens of the codon so far.
        cumulative_tokens: TokenUsage,
        /// Cost so far, in US dollars.
        cumulative_cost: Usd,
    },
    /// The agent wrote, thought or did something.
    #[serde(rename = "assistant.action")]
    AssistantAction {
        /// The codon.
        codon_id: CodonId,
        /// Kind of action.
        action: AgentAction,
        /// The text.
        content: String,
        /// The tool, when it uses one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_name: Option<String>,
        /// Its input as the agent gave it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_input: Option<Value>,
        /// The id under which the result will come.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_use_id: Option<String>,
        /// The tool use that started the sub-agent which does this; absent for the agent itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_tool_use_id: Option<String>,
    },
    /// A tool answered the agent.
    #[serde(rename = "tool.result")]
    ToolResult {
        /// The codon.
        codon_id: CodonId,
        /// Which use of a tool.
        tool_use_id: String,
        /// The tool.
        tool_name: String,
        /// The answer, cut.
        result: String,
        /// Whether it was cut.
        truncated: bool,
        /// Its length in characters before it was cut.
        original_length: usize,
        /// Milliseconds from the use to the answer.
        execution_time_ms: u64,
        /// Whether the tool failed.
        is_error: bool,
        /// The tool use that started the sub-agent which is answered; absent for the agent itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_tool_use_id: Option<String>,
    },
    /// Usage of a codon so far, with all its processes: published after each message of a model, and when the agent reports another sum at its end.
    #[serde(rename = "token.usage")]
    TokenUsage {
        /// The codon.
        codon_id: CodonId,
        /// Prompt tokens outside the cache, of the codon so far.
        input_tokens: u64,
        /// Tokens that models wrote, of the codon so far.
        output_tokens: u64,
        /// Tokens written to the cache, of the codon so far.
        cache_creation_tokens: u64,
        /// Tokens read from the cache, of the codon so far.
        cache_read_tokens: u64,
        /// Cost of the codon so far, in US dollars; without its sentinels.
        total_cost: Usd,
        /// Set when it has cost more, by an amount that is not known yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_is_lower_bound: Option<bool>,
        /// The model, when it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model_id: Option<String>,
        /// Usage of the message itself. Absent when the sum at the end of the agent is reported, and in journals of older versions, in which
        /// the fields above have what was new in the message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<TokenUsage>,
        /// How many tokens the conversation of the agent itself has by now; absent for sub-agents.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context_tokens: Option<u64>,
        /// How many fit in, when that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context_window: Option<u64>,
    },
    /// A line of the agent was too long to be read; its log has it.
    #[serde(rename = "output.truncated")]
    OutputTruncated {
        /// The codon.
        codon_id: CodonId,
        /// Length of the line in bytes, without its line break.
        length: u64,
        /// SHA-256 of these bytes, in hexadecimal digits.
        sha256: String,
    },
    /// A line of the agent was no JSON object; its log has it.
    #[serde(rename = "output.unparsed")]
    OutputUnparsed {
        /// The codon.
        codon_id: CodonId,
        /// The first characters of the line.
        start: String,
    },
    /// A line that a command of a rig, or a check, printed.
    #[serde(rename = "rig.output")]
    RigOutput {
        /// The codon.
        codon_id: CodonId,
        /// Stream of the line.
        stream: RigStream,
        /// The line without its end.
        line: String,
        /// Item of the rig, counted from 0; the number of items for the check. Commands before a copy of result files are counted by themselves.
        command_index: usize,
    },
    /// The rig is set up.
    #[serde(rename = "rig.setup.completed")]
    RigSetupCompleted {
        /// The codon.
        codon_id: CodonId,
        /// `command` for one item, `commands` for several.
        rig_type: String,
        /// How many items.
        command_count: usize,
        /// How long they took, in milliseconds.
        duration_ms: u64,
        /// Whether a checkpoint was made after it.
        created_checkpoint: bool,
    },
    /// An item of the rig failed.
    #[serde(rename = "rig.setup.failed")]
    RigSetupFailed {
        /// The codon.
        codon_id: CodonId,
        /// `command_failed`, `timeout` or `other`.
        failure_type: String,
        /// The exit code of a command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i64>,
        /// Which item, counted from 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command_index: Option<usize>,
        /// Whether set-up continued.
        ignored: bool,
    },
    /// An iteration of a loop ended.
    #[serde(rename = "loop.iteration.completed")]
    LoopIterationCompleted {
        /// The loop.
        loop_id: LoopId,
        /// The iteration, counted from 0.
        iteration: u32,
        /// How long it took, in milliseconds.
        duration_ms: u64,
        /// Cost, in US dollars.
        cost_usd: Usd,
        /// Input and output tokens.
        tokens_used: u64,
        /// Whether no further iteration follows.
        is_final: bool,
        /// Why none follows: `iteration_limit`, `context_exceeded`, `check_passed` or `failure`; absent when a budget was used up, which
        /// `codon.completed` reports.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        termination_reason: Option<String>,
    },
    /// Files of a codon, or of a loop that has ended, went to the archive.
    #[serde(rename = "archive.completed")]
    ArchiveCompleted {
        /// The codon or the loop.
        codon_id: CodonId,
        /// Former paths of the files, relative to the workspace.
        archived_paths: Vec<String>,
    },
    /// Some did, others could not be moved.
    #[serde(rename = "archive.partial")]
    ArchivePartial {
        /// The codon or the loop.
        codon_id: CodonId,
        /// Former paths of the files, relative to the workspace.
        archived_paths: Vec<String>,
        /// Those that stayed.
        failed_paths: Vec<FailedPath>,
    },
    /// Copies of a codon's rig were removed from the workspace, because the codon was rolled back.
    #[serde(rename = "rollback.rigCleanup")]
    RollbackRigCleanup {
        /// The codon.
        codon_id: CodonId,
        /// Its name for people.
        codon_name: String,
        /// Paths of the copies, relative to the workspace.
        directories: Vec<String>,
        /// How far it has come.
        status: CleanupStatus,
        /// Paths that were removed; absent as long as it continues.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        successful_cleanups: Option<Vec<String>>,
        /// Paths that stayed; absent as long as it continues.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed_cleanups: Option<Vec<FailedDirectory>>,
        /// Why nothing could be done at all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// Files came back from the archive, because the codon that had moved them was gone back on.
    #[serde(rename = "rollback.archiveRestore")]
    RollbackArchiveRestore {
        /// The codon or the loop.
        codon_id: CodonId,
        /// Current paths of the files.
        restored_paths: Vec<String>,
        /// Those that stayed in the archive.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        failed_paths: Vec<FailedPath>,
        /// Outcome in one word.
        status: RestoreStatus,
    },
    /// A run with budgets ends.
    #[serde(rename = "budget.summary")]
    BudgetSummary {
        /// Total budget.
        ceiling: BudgetCeiling,
        /// How codons and loops share the dollars.
        allocation: Allocation,
        /// One for each entry of the plan, in its order.
        rows: Vec<BudgetRow>,
        /// Everything together, runs that were left by going back included.
        totals: BudgetTotals,
    },
    /// State of the run after the event before it; only in journals of older versions.
    #[serde(rename = "state.snapshot")]
    StateSnapshot {
        /// The codon that has not ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        current_codon: Option<Arc<CodonExecution>>,
        /// The codons of the thread that have ended, newest first; the 100 newest of them.
        completed_codons: Vec<Arc<CodonExecution>>,
        /// The files that checkpoints hold.
        file_tree: Vec<FileNode>,
        /// All codons of all runs, in US dollars; skipped ones count nothing.
        total_cost: Usd,
        /// Spending of all runs, in US dollars, including skipped codons and sentinels; absent in older journals.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total_spend: Option<Usd>,
        /// How long the codons of the thread took, in milliseconds.
        total_time: u64,
        /// Whether the files have been rolled back and no run has continued from there yet.
        is_rolling_back: bool,
    },
    /// A file of the workspace is not as it was.
    #[serde(rename = "file.updated")]
    FileUpdated {
        /// Relative to the workspace.
        path: String,
        /// The last part of it.
        filename: String,
        /// Kind of change.
        action: FileAction,
        /// Its length in bytes, unless it was deleted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        /// SHA-256 of its content in hexadecimal digits, unless it was deleted or is very large.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fingerprint: Option<String>,
        /// Its content, when the run was asked to publish it and it is text of moderate length.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// `false` for a file that no checkpoint holds and only a sentinel watches; absent for the others.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpointed: Option<bool>,
    },
    /// The files of the workspace, after some have changed.
    #[serde(rename = "filetree.updated")]
    FiletreeUpdated {
        /// Top level of the tree.
        tree: Vec<FileNode>,
    },
    /// The recorded checkpoints, because a client asked for them.
    #[serde(rename = "checkpoint.list")]
    CheckpointList {
        /// The run that was asked for, else the newest one.
        run_id: RunId,
        /// Its branch.
        current_branch: String,
        /// Newest first.
        checkpoints: Vec<ListedCheckpoint>,
    },
    /// Files that belong to a checkpoint are not in it, and they are others than before.
    #[serde(rename = "checkpoint.incomplete")]
    CheckpointIncomplete {
        /// The codon; absent for the files before the first one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        codon_id: Option<CodonId>,
        /// The checkpoint.
        sha: CheckpointSha,
        /// The first of them, in the order of their paths.
        left_out: Vec<LeftOutFile>,
        /// How many there are.
        count: u64,
    },
    /// The files are about to be rolled back.
    #[serde(rename = "rollback.started")]
    RollbackStarted {
        /// The newest run.
        from_run: RunId,
        /// The newest codon of its thread.
        from_codon: Option<CodonId>,
        /// The codon that is rolled back to.
        to_codon: Option<CodonId>,
        /// Its checkpoint.
        to_checkpoint: CheckpointSha,
        /// When in the life of that codon it was made.
        checkpoint_type: Option<CheckpointType>,
        /// The codons that are left, newest first.
        codons_to_process: Vec<CodonId>,
    },
    /// How far a rollback has come.
    #[serde(rename = "rollback.progress")]
    RollbackProgress {
        /// This step, counted from 1.
        current_step: usize,
        /// How many there are.
        total_steps: usize,
        /// Description of the step.
        message: String,
    },
    /// A rollback has come to a checkpoint.
    #[serde(rename = "rollback.codonCheckpoint")]
    RollbackCodonCheckpoint {
        /// The codon that it is of.
        codon_id: CodonId,
        /// The name of that codon for people; its id when it has none.
        codon_name: String,
        /// The commit.
        checkpoint: CheckpointSha,
        /// When in the life of the codon it was made.
        checkpoint_type: Option<CheckpointType>,
        /// Description of the step.
        message: String,
    },
    /// A run continues from the point to which the files were rolled back.
    #[serde(rename = "rollback.completed")]
    RollbackCompleted {
        /// The newest run, whose files the rollback replaces.
        from_run: RunId,
        /// The run that continues from there.
        to_run: RunId,
        /// The checkpoint.
        checkpoint: CheckpointSha,
        /// The codon that it is of.
        codon_id: Option<CodonId>,
        /// The name of that codon for people.
        codon_name: Option<String>,
        /// When in the life of that codon it was made.
        checkpoint_type: Option<CheckpointType>,
        /// Whether codons start by themselves.
        auto_restart: bool,
    },
    /// A sentinel watches a codon.
    #[serde(rename = "sentinel.loaded")]
    SentinelLoaded {
        /// The sentinel.
        sentinel_id: SentinelId,
        /// The codon that it watches.
        codon_id: CodonId,
        /// The model that it asks; `command` when it has a command.
        model: String,
        /// `event` or `sequence`.
        trigger_type: String,
        /// `immediate`, `debounce`, `count` or `timeWindow`.
        execution_strategy: String,
        /// Whether earlier answers go along.
        conversational: bool,
        /// Origin of the configuration.
        source: SentinelOrigin,
        /// The file that it is in, relative to the folder of the hank.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source_path: Option<String>,
    },
    /// A sentinel acts on events.
    #[serde(rename = "sentinel.triggered")]
    SentinelTriggered {
        /// The sentinel.
        sentinel_id: SentinelId,
        /// The codon.
        codon_id: CodonId,
        /// How often it was triggered, this time included.
        trigger_number: u64,
        /// `immediate`, `debounce`, `count` or `timeWindow`.
        strategy: String,
        /// How many events it acts on.
        event_count: usize,
        /// How often it has to act after this.
        queue_size: usize,
    },
    /// A sentinel has answered.
    #[serde(rename = "sentinel.output")]
    SentinelOutput {
        /// The sentinel.
        sentinel_id: SentinelId,
        /// The codon.
        codon_id: CodonId,
        /// Which time it was.
        trigger_number: u64,
        /// `text` or `structured`.
        output_type: String,
        /// Text, or an object.
        content: Value,
        /// Cost of the answer, in US dollars.
        cost: Usd,
        /// Set when it has cost more, by an unknown amount.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_is_lower_bound: Option<bool>,
        /// Tokens of the answer.
        tokens: SentinelTokens,
        /// How many events it is about.
        event_count: usize,
    },
    /// A sentinel has failed to answer.
    #[serde(rename = "sentinel.error")]
    SentinelError {
        /// The sentinel.
        sentinel_id: SentinelId,
        /// The codon.
        codon_id: CodonId,
        /// `command-failed`, `llm-call-failed`, `template-render-failed` or `file-write-failed`.
        error_type: String,
        /// Description of the problem.
        message: String,
        /// Whether another attempt may succeed.
        retriable: bool,
        /// How many failures there were in a row.
        consecutive_failure_count: u64,
    },
    /// A sentinel watches no longer.
    #[serde(rename = "sentinel.unloaded")]
    SentinelUnloaded {
        /// The sentinel.
        sentinel_id: SentinelId,
        /// The codon.
        codon_id: CodonId,
        /// Why.
        reason: UnloadReason,
        /// Of a fatal error: `template`, `configuration`, `corruption` or `resource`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_type: Option<String>,
        /// Cost, in US dollars.
        final_cost: Usd,
        /// Set when it has cost more, by an unknown amount.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_is_lower_bound: Option<bool>,
        /// How many times to act it has given up, because too many waited or nothing might be asked any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dropped: Option<u64>,
        /// How often it asked, failures included.
        llm_call_count: u64,
    },
    /// Description of a run that starts: facts that the plan does not have. Sent once a run.
    #[serde(rename = "run.described")]
    RunDescribed {
        /// Name and version of the hank, if it has any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hank: Option<HankTitle>,
        /// Purpose in a sentence: the description of the hank, else the first line of its first prompt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        goal: Option<String>,
        /// Total budget in US dollars.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_dollars: Option<Usd>,
        /// Total budget in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_time_ms: Option<u64>,
        /// Loops in the order of the hank.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        loops: Vec<DescribedLoop>,
        /// It is a rehearsal: no agent of the hank works, and nothing is asked, checked or spent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        rehearsal: bool,
    },
    /// A rehearsal has left out a step of a real run.
    #[serde(rename = "rehearsal.step")]
    RehearsalStep {
        /// Codon of the step.
        codon_id: CodonId,
        /// Kind of step.
        kind: RehearsedKind,
        /// Question, command, number of iterations, or sentinel.
        text: String,
    },
    /// The record takes four fifths or more of the room that it may, after what nothing needs was removed.
    #[serde(rename = "disk.usage")]
    DiskUsage {
        /// Length of all files of the record, each in blocks of 4 KiB.
        used_bytes: u64,
        /// Limit, from `maxDiskGb`.
        limit_bytes: u64,
    },
    /// A codon waits for the approval of a user; `server.idle` follows.
    #[serde(rename = "approval.requested")]
    ApprovalRequested {
        /// Codon that waits.
        codon_id: CodonId,
        /// Question for the user.
        question: String,
    },
    /// The check of a codon or of its loop has run.
    #[serde(rename = "check.completed")]
    CheckCompleted {
        /// Codon after which it ran.
        codon_id: CodonId,
        /// Loop that ends once it passes; absent for the check of the codon itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        loop_id: Option<LoopId>,
        /// Command.
        run: String,
        /// The command ended with 0.
        passed: bool,
        /// Time that the command took, in milliseconds.
        duration_ms: u64,
        /// How it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        /// Last line of its output that is not blank, cut at 400 bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        says: Option<String>,
    },
    /// The run takes a command of a client up; its effects follow.
    #[serde(rename = "command.accepted")]
    CommandAccepted {
        /// Type of the command.
        command: String,
        /// Name of the client, as in the answer to its handshake.
        client_id: String,
        /// Codon that the command names or meets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        codon_id: Option<CodonId>,
        /// Reason that the client gave.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// User whose command it is, where the client has reported one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A run continues that was suspended with its agents, as by Ctrl+Z. The time counts against no limit.
    #[serde(rename = "run.continued")]
    RunContinued {
        /// Run.
        run_id: RunId,
        /// When it was suspended.
        suspended_at: Timestamp,
        /// Time for which it was suspended, in milliseconds.
        suspended_ms: u64,
    },
    /// A run has ended; follows the state event of its end.
    #[serde(rename = "run.ended")]
    RunEnded {
        /// Run.
        run_id: RunId,
        /// Outcome in one word.
        outcome: RunEnding,
        /// Cause for people, unless the run completed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
    /// Nothing runs.
    #[serde(rename = "server.idle")]
    ServerIdle {
        /// Why.
        reason: IdleReason,
        /// Reason for people.
        message: String,
    },
    /// An activity that takes its time continues. Sent when it starts, or at most twice a second while it lasts; the event after it shows its end.
    #[serde(rename = "progress")]
    Progress {
        /// The codon that it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        codon_id: Option<CodonId>,
        /// Kind of activity.
        kind: ProgressKind,
        /// For people: a command, or why something is waited for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject: Option<String>,
        /// Amount of it that is done: files, items of a rig that have ended, or attempts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        done: Option<u64>,
        /// How much there is of it, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<u64>,
        /// When a wait ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ends_at: Option<Timestamp>,
    },
    /// Something worth knowing.
    #[serde(rename = "info")]
    Info {
        /// Message.
        message: String,
    },
    /// Something went wrong.
    #[serde(rename = "error")]
    Error {
        /// Description of the problem.
        message: String,
        /// Whether the runtime stops because of it.
        fatal: bool,
        /// The codon that it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        codon: Option<CodonId>,
        /// `fatal`, `codon`, `operation` or `warning`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        severity: Option<String>,
        /// Attempted operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        /// A name for programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
}
