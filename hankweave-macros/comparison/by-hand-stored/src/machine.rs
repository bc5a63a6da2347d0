use std::ops::Deref;

use data::{Executed, Loaded};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

#[derive(Debug, PartialEq)]
pub struct Codon<S>(S);

fn success<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    match i32::deserialize(deserializer)? {
        0 => Ok(0),
        other => Err(D::Error::custom(format!(
            "exitCode is {other}, but a completed codon has 0"
        ))),
    }
}

impl<S> Deref for Codon<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodonPhase {
    Preparing,
    Starting,
    Initializing,
    Running,
    CompletingSentinels,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Preparing {
    pub codon_id: String,
    pub start_time: i64,
    pub loop_context: Option<u32>,
    pub rig_setup_checkpoint: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Starting {
    pub codon_id: String,
    pub start_time: i64,
    pub loop_context: Option<u32>,
    pub rig_setup_checkpoint: Option<String>,
    pub sentinels: Loaded,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Initializing {
    pub codon_id: String,
    pub start_time: i64,
    pub loop_context: Option<u32>,
    pub rig_setup_checkpoint: Option<String>,
    pub sentinels: Loaded,
    pub claude_pid: u32,
    pub claude_log_path: String,
    pub previous_session_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Running {
    pub codon_id: String,
    pub start_time: i64,
    pub loop_context: Option<u32>,
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompletingSentinels {
    pub codon_id: String,
    pub start_time: i64,
    pub loop_context: Option<u32>,
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Completed {
    pub codon_id: String,
    pub start_time: i64,
    pub loop_context: Option<u32>,
    pub rig_setup_checkpoint: Option<String>,
    pub previous_session_id: Option<String>,
    pub claude_session_id: String,
    pub claude_log_path: String,
    pub end_time: i64,
    #[serde(deserialize_with = "success")]
    pub exit_code: i32,
    pub final_cost: u64,
    pub final_tokens: u64,
    pub sentinels: Executed,
    pub completion_checkpoint: String,
    pub result_message_received: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failed {
    pub codon_id: String,
    pub start_time: i64,
    pub loop_context: Option<u32>,
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Skipped {
    pub codon_id: String,
    pub start_time: i64,
    pub loop_context: Option<u32>,
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Start {
    pub sentinels: Loaded,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Initialize {
    pub claude_pid: u32,
    pub claude_log_path: String,
    pub previous_session_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Run {
    pub claude_session_id: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Complete {
    pub end_time: i64,
    pub completion_checkpoint: String,
    pub result_message_received: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fail {
    pub end_time: i64,
    pub exit_code: i32,
    pub failure_reason: String,
    pub error_checkpoint: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Skip {
    pub end_time: i64,
    pub skip_checkpoint: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum CodonExecution {
    Preparing(Preparing),
    Starting(Starting),
    Initializing(Initializing),
    Running(Running),
    CompletingSentinels(CompletingSentinels),
    Completed(Completed),
    Failed(Failed),
    Skipped(Skipped),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodonStatus {
    Preparing,
    Starting,
    Initializing,
    Running,
    CompletingSentinels,
    Completed,
    Failed,
    Skipped,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", content = "metadata", rename_all = "snake_case")]
pub enum CodonTransition {
    Start(Start),
    Initialize(Initialize),
    Run(Run),
    CompleteSentinels,
    Complete(Complete),
    Fail(Fail),
    Skip(Skip),
}

/// A step that the state does not have; the value comes back.
#[derive(Debug)]
pub struct InvalidTransition {
    pub value: Box<CodonExecution>,
    pub from: CodonStatus,
    pub to: CodonStatus,
}

impl CodonTransition {
    pub fn target(&self) -> CodonStatus {
        match self {
            Self::Start(_) => CodonStatus::Starting,
            Self::Initialize(_) => CodonStatus::Initializing,
            Self::Run(_) => CodonStatus::Running,
            Self::CompleteSentinels => CodonStatus::CompletingSentinels,
            Self::Complete(_) => CodonStatus::Completed,
            Self::Fail(_) => CodonStatus::Failed,
            Self::Skip(_) => CodonStatus::Skipped,
        }
    }
}

impl CodonExecution {
    pub fn status(&self) -> CodonStatus {
        match self {
            Self::Preparing(_) => CodonStatus::Preparing,
            Self::Starting(_) => CodonStatus::Starting,
            Self::Initializing(_) => CodonStatus::Initializing,
            Self::Running(_) => CodonStatus::Running,
            Self::CompletingSentinels(_) => CodonStatus::CompletingSentinels,
            Self::Completed(_) => CodonStatus::Completed,
            Self::Failed(_) => CodonStatus::Failed,
            Self::Skipped(_) => CodonStatus::Skipped,
        }
    }

    pub fn codon_id(&self) -> &String {
        match self {
            Self::Preparing(state) => &state.codon_id,
            Self::Starting(state) => &state.codon_id,
            Self::Initializing(state) => &state.codon_id,
            Self::Running(state) => &state.codon_id,
            Self::CompletingSentinels(state) => &state.codon_id,
            Self::Completed(state) => &state.codon_id,
            Self::Failed(state) => &state.codon_id,
            Self::Skipped(state) => &state.codon_id,
        }
    }

    pub fn start_time(&self) -> i64 {
        match self {
            Self::Preparing(state) => state.start_time,
            Self::Starting(state) => state.start_time,
            Self::Initializing(state) => state.start_time,
            Self::Running(state) => state.start_time,
            Self::CompletingSentinels(state) => state.start_time,
            Self::Completed(state) => state.start_time,
            Self::Failed(state) => state.start_time,
            Self::Skipped(state) => state.start_time,
        }
    }

    pub fn loop_context(&self) -> Option<u32> {
        match self {
            Self::Preparing(state) => state.loop_context,
            Self::Starting(state) => state.loop_context,
            Self::Initializing(state) => state.loop_context,
            Self::Running(state) => state.loop_context,
            Self::CompletingSentinels(state) => state.loop_context,
            Self::Completed(state) => state.loop_context,
            Self::Failed(state) => state.loop_context,
            Self::Skipped(state) => state.loop_context,
        }
    }

    pub fn apply(self, transition: CodonTransition) -> Result<Self, InvalidTransition> {
        use CodonTransition::*;
        match (self, transition) {
            (Self::Preparing(state), Start(metadata)) => Ok(Self::Starting(Codon(state).start(metadata).0)),
            (Self::Preparing(state), Fail(metadata)) => Ok(Self::Failed(Codon(state).fail(metadata).0)),
            (Self::Preparing(state), Skip(metadata)) => Ok(Self::Skipped(Codon(state).skip(metadata).0)),
            (Self::Starting(state), Initialize(metadata)) => {
                Ok(Self::Initializing(Codon(state).initialize(metadata).0))
            }
            (Self::Starting(state), Fail(metadata)) => Ok(Self::Failed(Codon(state).fail(metadata).0)),
            (Self::Starting(state), Skip(metadata)) => Ok(Self::Skipped(Codon(state).skip(metadata).0)),
            (Self::Initializing(state), Run(metadata)) => Ok(Self::Running(Codon(state).run(metadata).0)),
            (Self::Initializing(state), Fail(metadata)) => Ok(Self::Failed(Codon(state).fail(metadata).0)),
            (Self::Initializing(state), Skip(metadata)) => Ok(Self::Skipped(Codon(state).skip(metadata).0)),
            (Self::Running(state), CompleteSentinels) => {
                Ok(Self::CompletingSentinels(Codon(state).complete_sentinels().0))
            }
            (Self::Running(state), Complete(metadata)) => {
                Ok(Self::Completed(Codon(state).complete(metadata).0))
            }
            (Self::Running(state), Fail(metadata)) => Ok(Self::Failed(Codon(state).fail(metadata).0)),
            (Self::Running(state), Skip(metadata)) => Ok(Self::Skipped(Codon(state).skip(metadata).0)),
            (Self::CompletingSentinels(state), Complete(metadata)) => {
                Ok(Self::Completed(Codon(state).complete(metadata).0))
            }
            (Self::CompletingSentinels(state), Fail(metadata)) => {
                Ok(Self::Failed(Codon(state).fail(metadata).0))
            }
            (Self::CompletingSentinels(state), Skip(metadata)) => {
                Ok(Self::Skipped(Codon(state).skip(metadata).0))
            }
            (value, transition) => Err(InvalidTransition {
                from: value.status(),
                to: transition.target(),
                value: Box::new(value),
            }),
        }
    }
}

impl TryFrom<CodonExecution> for Codon<Preparing> {
    type Error = CodonExecution;

    fn try_from(value: CodonExecution) -> Result<Self, CodonExecution> {
        match value {
            CodonExecution::Preparing(state) => Ok(Self(state)),
            other => Err(other),
        }
    }
}

impl From<Codon<Preparing>> for CodonExecution {
    fn from(codon: Codon<Preparing>) -> Self {
        Self::Preparing(codon.0)
    }
}

impl TryFrom<CodonExecution> for Codon<Starting> {
    type Error = CodonExecution;

    fn try_from(value: CodonExecution) -> Result<Self, CodonExecution> {
        match value {
            CodonExecution::Starting(state) => Ok(Self(state)),
            other => Err(other),
        }
    }
}

impl From<Codon<Starting>> for CodonExecution {
    fn from(codon: Codon<Starting>) -> Self {
        Self::Starting(codon.0)
    }
}

impl TryFrom<CodonExecution> for Codon<Initializing> {
    type Error = CodonExecution;

    fn try_from(value: CodonExecution) -> Result<Self, CodonExecution> {
        match value {
            CodonExecution::Initializing(state) => Ok(Self(state)),
            other => Err(other),
        }
    }
}

impl From<Codon<Initializing>> for CodonExecution {
    fn from(codon: Codon<Initializing>) -> Self {
        Self::Initializing(codon.0)
    }
}

impl TryFrom<CodonExecution> for Codon<Running> {
    type Error = CodonExecution;

    fn try_from(value: CodonExecution) -> Result<Self, CodonExecution> {
        match value {
            CodonExecution::Running(state) => Ok(Self(state)),
            other => Err(other),
        }
    }
}

impl From<Codon<Running>> for CodonExecution {
    fn from(codon: Codon<Running>) -> Self {
        Self::Running(codon.0)
    }
}

impl TryFrom<CodonExecution> for Codon<CompletingSentinels> {
    type Error = CodonExecution;

    fn try_from(value: CodonExecution) -> Result<Self, CodonExecution> {
        match value {
            CodonExecution::CompletingSentinels(state) => Ok(Self(state)),
            other => Err(other),
        }
    }
}

impl From<Codon<CompletingSentinels>> for CodonExecution {
    fn from(codon: Codon<CompletingSentinels>) -> Self {
        Self::CompletingSentinels(codon.0)
    }
}

impl TryFrom<CodonExecution> for Codon<Completed> {
    type Error = CodonExecution;

    fn try_from(value: CodonExecution) -> Result<Self, CodonExecution> {
        match value {
            CodonExecution::Completed(state) => Ok(Self(state)),
            other => Err(other),
        }
    }
}

impl From<Codon<Completed>> for CodonExecution {
    fn from(codon: Codon<Completed>) -> Self {
        Self::Completed(codon.0)
    }
}

impl TryFrom<CodonExecution> for Codon<Failed> {
    type Error = CodonExecution;

    fn try_from(value: CodonExecution) -> Result<Self, CodonExecution> {
        match value {
            CodonExecution::Failed(state) => Ok(Self(state)),
            other => Err(other),
        }
    }
}

impl From<Codon<Failed>> for CodonExecution {
    fn from(codon: Codon<Failed>) -> Self {
        Self::Failed(codon.0)
    }
}

impl TryFrom<CodonExecution> for Codon<Skipped> {
    type Error = CodonExecution;

    fn try_from(value: CodonExecution) -> Result<Self, CodonExecution> {
        match value {
            CodonExecution::Skipped(state) => Ok(Self(state)),
            other => Err(other),
        }
    }
}

impl From<Codon<Skipped>> for CodonExecution {
    fn from(codon: Codon<Skipped>) -> Self {
        Self::Skipped(codon.0)
    }
}

impl Codon<Preparing> {
    #[must_use]
    pub fn new(codon_id: String, start_time: i64, loop_context: Option<u32>) -> Self {
        Self(Preparing {
            codon_id,
            start_time,
            loop_context,
            rig_setup_checkpoint: None,
        })
    }

    pub fn set_rig_setup_checkpoint(&mut self, value: Option<String>) {
        self.0.rig_setup_checkpoint = value;
    }

    #[must_use]
    pub fn start(self, metadata: Start) -> Codon<Starting> {
        Codon(Starting {
            codon_id: self.0.codon_id,
            start_time: self.0.start_time,
            loop_context: self.0.loop_context,
            rig_setup_checkpoint: self.0.rig_setup_checkpoint,
            sentinels: metadata.sentinels,
        })
    }

    pub fn fail(self, metadata: Fail) -> Codon<Failed> {
        Left::from(self.0).failed(metadata)
    }

    pub fn skip(self, metadata: Skip) -> Codon<Skipped> {
        Left::from(self.0).skipped(metadata)
    }
}

impl Codon<Starting> {
    #[must_use]
    pub fn initialize(self, metadata: Initialize) -> Codon<Initializing> {
        Codon(Initializing {
            codon_id: self.0.codon_id,
            start_time: self.0.start_time,
            loop_context: self.0.loop_context,
            rig_setup_checkpoint: self.0.rig_setup_checkpoint,
            sentinels: self.0.sentinels,
            claude_pid: metadata.claude_pid,
            claude_log_path: metadata.claude_log_path,
            previous_session_id: metadata.previous_session_id,
        })
    }

    pub fn fail(self, metadata: Fail) -> Codon<Failed> {
        Left::from(self.0).failed(metadata)
    }

    pub fn skip(self, metadata: Skip) -> Codon<Skipped> {
        Left::from(self.0).skipped(metadata)
    }
}

impl Codon<Initializing> {
    #[must_use]
    pub fn run(self, metadata: Run) -> Codon<Running> {
        Codon(Running {
            codon_id: self.0.codon_id,
            start_time: self.0.start_time,
            loop_context: self.0.loop_context,
            rig_setup_checkpoint: self.0.rig_setup_checkpoint,
            sentinels: self.0.sentinels,
            claude_pid: self.0.claude_pid,
            claude_log_path: self.0.claude_log_path,
            previous_session_id: self.0.previous_session_id,
            claude_session_id: metadata.claude_session_id,
            current_cost: 0,
            current_tokens: 0,
            assistant_message_count: 0,
        })
    }

    pub fn fail(self, metadata: Fail) -> Codon<Failed> {
        Left::from(self.0).failed(metadata)
    }

    pub fn skip(self, metadata: Skip) -> Codon<Skipped> {
        Left::from(self.0).skipped(metadata)
    }
}

impl Codon<Running> {
    pub fn add_current_cost(&mut self, delta: u64) {
        self.0.current_cost += delta;
    }

    pub fn add_current_tokens(&mut self, delta: u64) {
        self.0.current_tokens += delta;
    }

    pub fn add_assistant_message_count(&mut self, delta: u32) {
        self.0.assistant_message_count += delta;
    }

    #[must_use]
    pub fn complete_sentinels(self) -> Codon<CompletingSentinels> {
        Codon(CompletingSentinels {
            codon_id: self.0.codon_id,
            start_time: self.0.start_time,
            loop_context: self.0.loop_context,
            rig_setup_checkpoint: self.0.rig_setup_checkpoint,
            sentinels: self.0.sentinels,
            claude_pid: self.0.claude_pid,
            claude_log_path: self.0.claude_log_path,
            previous_session_id: self.0.previous_session_id,
            claude_session_id: self.0.claude_session_id,
            current_cost: self.0.current_cost,
            current_tokens: self.0.current_tokens,
            assistant_message_count: self.0.assistant_message_count,
        })
    }

    pub fn complete(self, metadata: Complete) -> Codon<Completed> {
        Codon(Completed {
            codon_id: self.0.codon_id,
            start_time: self.0.start_time,
            loop_context: self.0.loop_context,
            rig_setup_checkpoint: self.0.rig_setup_checkpoint,
            previous_session_id: self.0.previous_session_id,
            claude_session_id: self.0.claude_session_id,
            claude_log_path: self.0.claude_log_path,
            end_time: metadata.end_time,
            exit_code: 0,
            final_cost: self.0.current_cost,
            final_tokens: self.0.current_tokens,
            sentinels: self.0.sentinels.into(),
            completion_checkpoint: metadata.completion_checkpoint,
            result_message_received: metadata.result_message_received,
        })
    }

    pub fn fail(self, metadata: Fail) -> Codon<Failed> {
        Left::from(self.0).failed(metadata)
    }

    pub fn skip(self, metadata: Skip) -> Codon<Skipped> {
        Left::from(self.0).skipped(metadata)
    }
}

impl Codon<CompletingSentinels> {
    pub fn add_current_cost(&mut self, delta: u64) {
        self.0.current_cost += delta;
    }

    pub fn add_current_tokens(&mut self, delta: u64) {
        self.0.current_tokens += delta;
    }

    pub fn add_assistant_message_count(&mut self, delta: u32) {
        self.0.assistant_message_count += delta;
    }

    pub fn complete(self, metadata: Complete) -> Codon<Completed> {
        Codon(Completed {
            codon_id: self.0.codon_id,
            start_time: self.0.start_time,
            loop_context: self.0.loop_context,
            rig_setup_checkpoint: self.0.rig_setup_checkpoint,
            previous_session_id: self.0.previous_session_id,
            claude_session_id: self.0.claude_session_id,
            claude_log_path: self.0.claude_log_path,
            end_time: metadata.end_time,
            exit_code: 0,
            final_cost: self.0.current_cost,
            final_tokens: self.0.current_tokens,
            sentinels: self.0.sentinels.into(),
            completion_checkpoint: metadata.completion_checkpoint,
            result_message_received: metadata.result_message_received,
        })
    }

    pub fn fail(self, metadata: Fail) -> Codon<Failed> {
        Left::from(self.0).failed(metadata)
    }

    pub fn skip(self, metadata: Skip) -> Codon<Skipped> {
        Left::from(self.0).skipped(metadata)
    }
}

/// What a codon that fails or is skipped takes along from any state.
struct Left {
    phase: CodonPhase,
    codon_id: String,
    start_time: i64,
    loop_context: Option<u32>,
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
    fn failed(self, metadata: Fail) -> Codon<Failed> {
        Codon(Failed {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
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
        })
    }

    fn skipped(self, metadata: Skip) -> Codon<Skipped> {
        Codon(Skipped {
            codon_id: self.codon_id,
            start_time: self.start_time,
            loop_context: self.loop_context,
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
        })
    }
}

impl From<Preparing> for Left {
    fn from(state: Preparing) -> Self {
        Self {
            phase: CodonPhase::Preparing,
            codon_id: state.codon_id,
            start_time: state.start_time,
            loop_context: state.loop_context,
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
            codon_id: state.codon_id,
            start_time: state.start_time,
            loop_context: state.loop_context,
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
            codon_id: state.codon_id,
            start_time: state.start_time,
            loop_context: state.loop_context,
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
            codon_id: state.codon_id,
            start_time: state.start_time,
            loop_context: state.loop_context,
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
            codon_id: state.codon_id,
            start_time: state.start_time,
            loop_context: state.loop_context,
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
