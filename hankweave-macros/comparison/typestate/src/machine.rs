pub use codon::*;
use data::{Executed, Loaded};
use typestate::typestate;

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

#[typestate]
pub mod codon {
    use super::*;

    #[automaton]
    #[derive(Debug, Clone, PartialEq)]
    pub struct Codon {
        pub codon_id: String,
        pub start_time: i64,
        pub loop_context: Option<u32>,
    }

    #[state]
    #[derive(Debug, Clone, PartialEq)]
    pub struct Preparing {
        pub rig_setup_checkpoint: Option<String>,
    }

    pub trait Preparing {
        fn new(codon_id: String, start_time: i64, loop_context: Option<u32>) -> Preparing;
        fn set_rig_setup_checkpoint(&mut self, value: Option<String>);
        fn start(self, metadata: Start) -> Starting;
        fn fail(self, metadata: Fail) -> Failed;
        fn skip(self, metadata: Skip) -> Skipped;
    }

    #[state]
    #[derive(Debug, Clone, PartialEq)]
    pub struct Starting {
        pub rig_setup_checkpoint: Option<String>,
        pub sentinels: Loaded,
    }

    pub trait Starting {
        fn initialize(self, metadata: Initialize) -> Initializing;
        fn fail(self, metadata: Fail) -> Failed;
        fn skip(self, metadata: Skip) -> Skipped;
    }

    #[state]
    #[derive(Debug, Clone, PartialEq)]
    pub struct Initializing {
        pub rig_setup_checkpoint: Option<String>,
        pub sentinels: Loaded,
        pub claude_pid: u32,
        pub claude_log_path: String,
        pub previous_session_id: Option<String>,
    }

    pub trait Initializing {
        fn run(self, metadata: Run) -> Running;
        fn fail(self, metadata: Fail) -> Failed;
        fn skip(self, metadata: Skip) -> Skipped;
    }

    #[state]
    #[derive(Debug, Clone, PartialEq)]
    pub struct Running {
        pub rig_setup_checkpoint: Option<String>,
        pub sentinels: Loaded,
        pub claude_pid: u32,
        pub claude_log_path: String,
        pub previous_session_id: Option<String>,
        pub claude_session_id: String,
        pub current_cost: u64,
        pub current_tokens: u64,
        pub assistant_message_count: u32,
    }

    pub trait Running {
        fn add_current_cost(&mut self, delta: u64);
        fn add_current_tokens(&mut self, delta: u64);
        fn add_assistant_message_count(&mut self, delta: u32);
        fn complete_sentinels(self) -> CompletingSentinels;
        fn complete(self, metadata: Complete) -> Completed;
        fn fail(self, metadata: Fail) -> Failed;
        fn skip(self, metadata: Skip) -> Skipped;
    }

    #[state]
    #[derive(Debug, Clone, PartialEq)]
    pub struct CompletingSentinels {
        pub rig_setup_checkpoint: Option<String>,
        pub sentinels: Loaded,
        pub claude_pid: u32,
        pub claude_log_path: String,
        pub previous_session_id: Option<String>,
        pub claude_session_id: String,
        pub current_cost: u64,
        pub current_tokens: u64,
        pub assistant_message_count: u32,
    }

    pub trait CompletingSentinels {
        fn add_current_cost(&mut self, delta: u64);
        fn add_current_tokens(&mut self, delta: u64);
        fn add_assistant_message_count(&mut self, delta: u32);
        fn complete(self, metadata: Complete) -> Completed;
        fn fail(self, metadata: Fail) -> Failed;
        fn skip(self, metadata: Skip) -> Skipped;
    }

    #[state]
    #[derive(Debug, Clone, PartialEq)]
    pub struct Completed {
        pub rig_setup_checkpoint: Option<String>,
        pub previous_session_id: Option<String>,
        pub claude_session_id: String,
        pub claude_log_path: String,
        pub end_time: i64,
        pub exit_code: i32,
        pub final_cost: u64,
        pub final_tokens: u64,
        pub sentinels: Executed,
        pub completion_checkpoint: String,
        pub result_message_received: bool,
    }

    pub trait Completed {
        fn close(self);
    }

    #[state]
    #[derive(Debug, Clone, PartialEq)]
    pub struct Failed {
        pub end_time: i64,
        pub failed_during: CodonPhase,
        pub exit_code: i32,
        pub failure_reason: String,
        pub error_checkpoint: Option<String>,
        pub claude_pid: Option<u32>,
        pub claude_session_id: Option<String>,
        pub previous_session_id: Option<String>,
        pub claude_log_path: Option<String>,
        pub rig_setup_checkpoint: Option<String>,
        pub partial_cost: u64,
        pub partial_tokens: u64,
        pub sentinels: Executed,
    }

    pub trait Failed {
        fn close(self);
    }

    #[state]
    #[derive(Debug, Clone, PartialEq)]
    pub struct Skipped {
        pub end_time: i64,
        pub skipped_during: CodonPhase,
        pub skip_checkpoint: Option<String>,
        pub claude_pid: Option<u32>,
        pub claude_session_id: Option<String>,
        pub previous_session_id: Option<String>,
        pub claude_log_path: Option<String>,
        pub rig_setup_checkpoint: Option<String>,
        pub partial_cost: u64,
        pub partial_tokens: u64,
        pub assistant_message_count: Option<u32>,
        pub sentinels: Executed,
    }

    pub trait Skipped {
        fn close(self);
    }
}

impl PreparingState for Codon<Preparing> {
    fn new(codon_id: String, start_time: i64, loop_context: Option<u32>) -> Codon<Preparing> {
        Codon {
            codon_id,
            start_time,
            loop_context,
            state: Preparing {
                rig_setup_checkpoint: None,
            },
        }
    }

    fn set_rig_setup_checkpoint(&mut self, value: Option<String>) {
        self.state.rig_setup_checkpoint = value;
    }

    fn start(self, metadata: Start) -> Codon<Starting> {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            state: Starting {
                rig_setup_checkpoint: self.state.rig_setup_checkpoint,
                sentinels: metadata.sentinels,
            },
        }
    }

    fn fail(self, metadata: Fail) -> Codon<Failed> {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            state: Left::from(self.state).failed(metadata),
        }
    }

    fn skip(self, metadata: Skip) -> Codon<Skipped> {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            state: Left::from(self.state).skipped(metadata),
        }
    }
}

impl StartingState for Codon<Starting> {
    fn initialize(self, metadata: Initialize) -> Codon<Initializing> {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            state: Initializing {
                rig_setup_checkpoint: self.state.rig_setup_checkpoint,
                sentinels: self.state.sentinels,
                claude_pid: metadata.claude_pid,
                claude_log_path: metadata.claude_log_path,
                previous_session_id: metadata.previous_session_id,
            },
        }
    }

    fn fail(self, metadata: Fail) -> Codon<Failed> {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            state: Left::from(self.state).failed(metadata),
        }
    }

    fn skip(self, metadata: Skip) -> Codon<Skipped> {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            state: Left::from(self.state).skipped(metadata),
        }
    }
}

impl InitializingState for Codon<Initializing> {
    fn run(self, metadata: Run) -> Codon<Running> {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            state: Running {
                rig_setup_checkpoint: self.state.rig_setup_checkpoint,
                sentinels: self.state.sentinels,
                claude_pid: self.state.claude_pid,
                claude_log_path: self.state.claude_log_path,
                previous_session_id: self.state.previous_session_id,
                claude_session_id: metadata.claude_session_id,
                current_cost: 0,
                current_tokens: 0,
                assistant_message_count: 0,
            },
        }
    }

    fn fail(self, metadata: Fail) -> Codon<Failed> {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            state: Left::from(self.state).failed(metadata),
        }
    }

    fn skip(self, metadata: Skip) -> Codon<Skipped> {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            state: Left::from(self.state).skipped(metadata),
        }
    }
}

impl RunningState for Codon<Running> {
    fn add_current_cost(&mut self, delta: u64) {
        self.state.current_cost += delta;
    }

    fn add_current_tokens(&mut self, delta: u64) {
        self.state.current_tokens += delta;
    }

    fn add_assistant_message_count(&mut self, delta: u32) {
        self.state.assistant_message_count += delta;
    }

    fn complete_sentinels(self) -> Codon<CompletingSentinels> {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            state: CompletingSentinels {
                rig_setup_checkpoint: self.state.rig_setup_checkpoint,
                sentinels: self.state.sentinels,
                claude_pid: self.state.claude_pid,
                claude_log_path: self.state.claude_log_path,
                previous_session_id: self.state.previous_session_id,
                claude_session_id: self.state.claude_session_id,
                current_cost: self.state.current_cost,
                current_tokens: self.state.current_tokens,
                assistant_message_count: self.state.assistant_message_count,
            },
        }
    }

    fn complete(self, metadata: Complete) -> Codon<Completed> {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            state: Completed {
                rig_setup_checkpoint: self.state.rig_setup_checkpoint,
                previous_session_id: self.state.previous_session_id,
                claude_session_id: self.state.claude_session_id,
                claude_log_path: self.state.claude_log_path,
                end_time: metadata.end_time,
                exit_code: 0,
                final_cost: self.state.current_cost,
                final_tokens: self.state.current_tokens,
                sentinels: self.state.sentinels.into(),
                completion_checkpoint: metadata.completion_checkpoint,
                result_message_received: metadata.result_message_received,
            },
        }
    }

    fn fail(self, metadata: Fail) -> Codon<Failed> {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            state: Left::from(self.state).failed(metadata),
        }
    }

    fn skip(self, metadata: Skip) -> Codon<Skipped> {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            state: Left::from(self.state).skipped(metadata),
        }
    }
}

impl CompletingSentinelsState for Codon<CompletingSentinels> {
    fn add_current_cost(&mut self, delta: u64) {
        self.state.current_cost += delta;
    }

    fn add_current_tokens(&mut self, delta: u64) {
        self.state.current_tokens += delta;
    }

    fn add_assistant_message_count(&mut self, delta: u32) {
        self.state.assistant_message_count += delta;
    }

    fn complete(self, metadata: Complete) -> Codon<Completed> {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            state: Completed {
                rig_setup_checkpoint: self.state.rig_setup_checkpoint,
                previous_session_id: self.state.previous_session_id,
                claude_session_id: self.state.claude_session_id,
                claude_log_path: self.state.claude_log_path,
                end_time: metadata.end_time,
                exit_code: 0,
                final_cost: self.state.current_cost,
                final_tokens: self.state.current_tokens,
                sentinels: self.state.sentinels.into(),
                completion_checkpoint: metadata.completion_checkpoint,
                result_message_received: metadata.result_message_received,
            },
        }
    }

    fn fail(self, metadata: Fail) -> Codon<Failed> {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            state: Left::from(self.state).failed(metadata),
        }
    }

    fn skip(self, metadata: Skip) -> Codon<Skipped> {
        Codon {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
            state: Left::from(self.state).skipped(metadata),
        }
    }
}

impl CompletedState for Codon<Completed> {
    fn close(self) {}
}

impl FailedState for Codon<Failed> {
    fn close(self) {}
}

impl SkippedState for Codon<Skipped> {
    fn close(self) {}
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
    fn failed(self, metadata: Fail) -> Failed {
        Failed {
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

    fn skipped(self, metadata: Skip) -> Skipped {
        Skipped {
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

impl From<Preparing> for Left {
    fn from(state: Preparing) -> Self {
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

impl From<Starting> for Left {
    fn from(state: Starting) -> Self {
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

impl From<Initializing> for Left {
    fn from(state: Initializing) -> Self {
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

impl From<Running> for Left {
    fn from(state: Running) -> Self {
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

impl From<CompletingSentinels> for Left {
    fn from(state: CompletingSentinels) -> Self {
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
