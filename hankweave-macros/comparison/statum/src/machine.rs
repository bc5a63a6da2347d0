use data::{Executed, Loaded};
use statum::{machine, state, transition};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CodonPhase {
    Preparing,
    Starting,
    Initializing,
    Running,
    CompletingSentinels,
}

#[state]
#[derive(Debug, Clone, PartialEq)]
pub enum CodonState {
    Preparing {
        rig_setup_checkpoint: Option<String>,
    },
    Starting {
        rig_setup_checkpoint: Option<String>,
        sentinels: Loaded,
    },
    Initializing {
        rig_setup_checkpoint: Option<String>,
        sentinels: Loaded,
        claude_pid: u32,
        claude_log_path: String,
        previous_session_id: Option<String>,
    },
    Running {
        rig_setup_checkpoint: Option<String>,
        sentinels: Loaded,
        claude_pid: u32,
        claude_log_path: String,
        previous_session_id: Option<String>,
        claude_session_id: String,
        current_cost: u64,
        current_tokens: u64,
        assistant_message_count: u32,
    },
    CompletingSentinels {
        rig_setup_checkpoint: Option<String>,
        sentinels: Loaded,
        claude_pid: u32,
        claude_log_path: String,
        previous_session_id: Option<String>,
        claude_session_id: String,
        current_cost: u64,
        current_tokens: u64,
        assistant_message_count: u32,
    },
    Completed {
        rig_setup_checkpoint: Option<String>,
        previous_session_id: Option<String>,
        claude_session_id: String,
        claude_log_path: String,
        end_time: i64,
        exit_code: i32,
        final_cost: u64,
        final_tokens: u64,
        sentinels: Executed,
        completion_checkpoint: String,
        result_message_received: bool,
    },
    Failed {
        end_time: i64,
        failed_during: CodonPhase,
        exit_code: i32,
        failure_reason: String,
        error_checkpoint: Option<String>,
        claude_pid: Option<u32>,
        claude_session_id: Option<String>,
        previous_session_id: Option<String>,
        claude_log_path: Option<String>,
        rig_setup_checkpoint: Option<String>,
        partial_cost: u64,
        partial_tokens: u64,
        sentinels: Executed,
    },
    Skipped {
        end_time: i64,
        skipped_during: CodonPhase,
        skip_checkpoint: Option<String>,
        claude_pid: Option<u32>,
        claude_session_id: Option<String>,
        previous_session_id: Option<String>,
        claude_log_path: Option<String>,
        rig_setup_checkpoint: Option<String>,
        partial_cost: u64,
        partial_tokens: u64,
        assistant_message_count: Option<u32>,
        sentinels: Executed,
    },
}

#[machine]
#[derive(Debug, Clone, PartialEq)]
pub struct Codon<CodonState> {
    pub codon_id: String,
    pub start_time: i64,
    pub loop_context: Option<u32>,
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

#[transition]
impl Codon<Preparing> {
    #[must_use]
    pub fn start(self, metadata: Start) -> Codon<Starting> {
        self.transition_map(|state: PreparingData| StartingData {
            rig_setup_checkpoint: state.rig_setup_checkpoint,
            sentinels: metadata.sentinels,
        })
    }

    pub fn fail(self, metadata: Fail) -> Codon<Failed> {
        self.transition_map(|state: PreparingData| Left::from(state).failed(metadata))
    }

    pub fn skip(self, metadata: Skip) -> Codon<Skipped> {
        self.transition_map(|state: PreparingData| Left::from(state).skipped(metadata))
    }
}

impl Codon<Preparing> {
    pub fn set_rig_setup_checkpoint(&mut self, value: Option<String>) {
        self.state_data.rig_setup_checkpoint = value;
    }
}

#[transition]
impl Codon<Starting> {
    #[must_use]
    pub fn initialize(self, metadata: Initialize) -> Codon<Initializing> {
        self.transition_map(|state: StartingData| InitializingData {
            rig_setup_checkpoint: state.rig_setup_checkpoint,
            sentinels: state.sentinels,
            claude_pid: metadata.claude_pid,
            claude_log_path: metadata.claude_log_path,
            previous_session_id: metadata.previous_session_id,
        })
    }

    pub fn fail(self, metadata: Fail) -> Codon<Failed> {
        self.transition_map(|state: StartingData| Left::from(state).failed(metadata))
    }

    pub fn skip(self, metadata: Skip) -> Codon<Skipped> {
        self.transition_map(|state: StartingData| Left::from(state).skipped(metadata))
    }
}

#[transition]
impl Codon<Initializing> {
    #[must_use]
    pub fn run(self, metadata: Run) -> Codon<Running> {
        self.transition_map(|state: InitializingData| RunningData {
            rig_setup_checkpoint: state.rig_setup_checkpoint,
            sentinels: state.sentinels,
            claude_pid: state.claude_pid,
            claude_log_path: state.claude_log_path,
            previous_session_id: state.previous_session_id,
            claude_session_id: metadata.claude_session_id,
            current_cost: 0,
            current_tokens: 0,
            assistant_message_count: 0,
        })
    }

    pub fn fail(self, metadata: Fail) -> Codon<Failed> {
        self.transition_map(|state: InitializingData| Left::from(state).failed(metadata))
    }

    pub fn skip(self, metadata: Skip) -> Codon<Skipped> {
        self.transition_map(|state: InitializingData| Left::from(state).skipped(metadata))
    }
}

#[transition]
impl Codon<Running> {
    #[must_use]
    pub fn complete_sentinels(self) -> Codon<CompletingSentinels> {
        self.transition_map(|state: RunningData| CompletingSentinelsData {
            rig_setup_checkpoint: state.rig_setup_checkpoint,
            sentinels: state.sentinels,
            claude_pid: state.claude_pid,
            claude_log_path: state.claude_log_path,
            previous_session_id: state.previous_session_id,
            claude_session_id: state.claude_session_id,
            current_cost: state.current_cost,
            current_tokens: state.current_tokens,
            assistant_message_count: state.assistant_message_count,
        })
    }

    pub fn complete(self, metadata: Complete) -> Codon<Completed> {
        self.transition_map(|state: RunningData| CompletedData {
            rig_setup_checkpoint: state.rig_setup_checkpoint,
            previous_session_id: state.previous_session_id,
            claude_session_id: state.claude_session_id,
            claude_log_path: state.claude_log_path,
            end_time: metadata.end_time,
            exit_code: 0,
            final_cost: state.current_cost,
            final_tokens: state.current_tokens,
            sentinels: state.sentinels.into(),
            completion_checkpoint: metadata.completion_checkpoint,
            result_message_received: metadata.result_message_received,
        })
    }

    pub fn fail(self, metadata: Fail) -> Codon<Failed> {
        self.transition_map(|state: RunningData| Left::from(state).failed(metadata))
    }

    pub fn skip(self, metadata: Skip) -> Codon<Skipped> {
        self.transition_map(|state: RunningData| Left::from(state).skipped(metadata))
    }
}

impl Codon<Running> {
    pub fn add_current_cost(&mut self, delta: u64) {
        self.state_data.current_cost += delta;
    }

    pub fn add_current_tokens(&mut self, delta: u64) {
        self.state_data.current_tokens += delta;
    }

    pub fn add_assistant_message_count(&mut self, delta: u32) {
        self.state_data.assistant_message_count += delta;
    }
}

#[transition]
impl Codon<CompletingSentinels> {
    pub fn complete(self, metadata: Complete) -> Codon<Completed> {
        self.transition_map(|state: CompletingSentinelsData| CompletedData {
            rig_setup_checkpoint: state.rig_setup_checkpoint,
            previous_session_id: state.previous_session_id,
            claude_session_id: state.claude_session_id,
            claude_log_path: state.claude_log_path,
            end_time: metadata.end_time,
            exit_code: 0,
            final_cost: state.current_cost,
            final_tokens: state.current_tokens,
            sentinels: state.sentinels.into(),
            completion_checkpoint: metadata.completion_checkpoint,
            result_message_received: metadata.result_message_received,
        })
    }

    pub fn fail(self, metadata: Fail) -> Codon<Failed> {
        self.transition_map(|state: CompletingSentinelsData| Left::from(state).failed(metadata))
    }

    pub fn skip(self, metadata: Skip) -> Codon<Skipped> {
        self.transition_map(|state: CompletingSentinelsData| Left::from(state).skipped(metadata))
    }
}

impl Codon<CompletingSentinels> {
    pub fn add_current_cost(&mut self, delta: u64) {
        self.state_data.current_cost += delta;
    }

    pub fn add_current_tokens(&mut self, delta: u64) {
        self.state_data.current_tokens += delta;
    }

    pub fn add_assistant_message_count(&mut self, delta: u32) {
        self.state_data.assistant_message_count += delta;
    }
}

/// What a codon that fails or is skipped takes along from any state.
struct Left {
    phase: CodonPhase,
    rig_setup_checkpoint: Option<String>,
    sentinels: Executed,
    claude_pid: Option<u32>,
    claude_log_path: Option<String>,
    previous_session_id: Option<String>,
    claude_session_id: Option<String>,
    cost: u64,
    tokens: u64,
    messages: Option<u32>,
}

impl Left {
    fn failed(self, metadata: Fail) -> FailedData {
        FailedData {
            end_time: metadata.end_time,
            failed_during: self.phase,
            exit_code: metadata.exit_code,
            failure_reason: metadata.failure_reason,
            error_checkpoint: metadata.error_checkpoint,
            claude_pid: self.claude_pid,
            claude_session_id: self.claude_session_id,
            previous_session_id: self.previous_session_id,
            claude_log_path: self.claude_log_path,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            partial_cost: self.cost,
            partial_tokens: self.tokens,
            sentinels: self.sentinels,
        }
    }

    fn skipped(self, metadata: Skip) -> SkippedData {
        SkippedData {
            end_time: metadata.end_time,
            skipped_during: self.phase,
            skip_checkpoint: metadata.skip_checkpoint,
            claude_pid: self.claude_pid,
            claude_session_id: self.claude_session_id,
            previous_session_id: self.previous_session_id,
            claude_log_path: self.claude_log_path,
            rig_setup_checkpoint: self.rig_setup_checkpoint,
            partial_cost: self.cost,
            partial_tokens: self.tokens,
            assistant_message_count: self.messages,
            sentinels: self.sentinels,
        }
    }
}

impl From<PreparingData> for Left {
    fn from(state: PreparingData) -> Self {
        Self {
            phase: CodonPhase::Preparing,
            rig_setup_checkpoint: state.rig_setup_checkpoint,
            sentinels: Executed::default(),
            claude_pid: None,
            claude_log_path: None,
            previous_session_id: None,
            claude_session_id: None,
            cost: 0,
            tokens: 0,
            messages: None,
        }
    }
}

impl From<StartingData> for Left {
    fn from(state: StartingData) -> Self {
        Self {
            phase: CodonPhase::Starting,
            rig_setup_checkpoint: state.rig_setup_checkpoint,
            sentinels: state.sentinels.into(),
            claude_pid: None,
            claude_log_path: None,
            previous_session_id: None,
            claude_session_id: None,
            cost: 0,
            tokens: 0,
            messages: None,
        }
    }
}

impl From<InitializingData> for Left {
    fn from(state: InitializingData) -> Self {
        Self {
            phase: CodonPhase::Initializing,
            rig_setup_checkpoint: state.rig_setup_checkpoint,
            sentinels: state.sentinels.into(),
            claude_pid: Some(state.claude_pid),
            claude_log_path: Some(state.claude_log_path),
            previous_session_id: state.previous_session_id,
            claude_session_id: None,
            cost: 0,
            tokens: 0,
            messages: None,
        }
    }
}

impl From<RunningData> for Left {
    fn from(state: RunningData) -> Self {
        Self {
            phase: CodonPhase::Running,
            rig_setup_checkpoint: state.rig_setup_checkpoint,
            sentinels: state.sentinels.into(),
            claude_pid: Some(state.claude_pid),
            claude_log_path: Some(state.claude_log_path),
            previous_session_id: state.previous_session_id,
            claude_session_id: Some(state.claude_session_id),
            cost: state.current_cost,
            tokens: state.current_tokens,
            messages: Some(state.assistant_message_count),
        }
    }
}

impl From<CompletingSentinelsData> for Left {
    fn from(state: CompletingSentinelsData) -> Self {
        Self {
            phase: CodonPhase::CompletingSentinels,
            rig_setup_checkpoint: state.rig_setup_checkpoint,
            sentinels: state.sentinels.into(),
            claude_pid: Some(state.claude_pid),
            claude_log_path: Some(state.claude_log_path),
            previous_session_id: state.previous_session_id,
            claude_session_id: Some(state.claude_session_id),
            cost: state.current_cost,
            tokens: state.current_tokens,
            messages: Some(state.assistant_message_count),
        }
    }
}
