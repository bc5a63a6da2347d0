//! decisions.md: decisions of agents, for people (TASK-11, TASK-69). Agents write them as JSON lines into [`SAID`] in their workspace; after each codon the
//! worker copies new ones into decisions.md.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;

use hankweave_core::time::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::DECISIONS;
use super::error::LayerError;
use super::figures::{Layer, LayerOperation};
use super::files::TaskFiles;
use super::folder::{enter, open, read};
use super::lines::each_line;
use crate::model::{AgentDecision, Decisions};

/// Folder of the agents' work, inside the folder of a task.
pub const WORKSPACE: &str = "workspace";

/// File of agents' decisions in the workspace, one JSON object per line.
pub const SAID: &str = "decisions.jsonl";

/// Number of bytes of [`SAID`] that are read at most. Agents write the file, so nothing else limits it.
const MOST: u64 = 1 << 20;

/// Decision as an agent writes it; `agent` and `timestamp` may be absent.
#[derive(Deserialize)]
struct DecisionLine {
    decision: String,
    #[serde(default)]
    reasoning: String,
    agent: Option<String>,
    timestamp: Option<Timestamp>,
    metadata: Option<Map<String, Value>>,
}

impl DecisionLine {
    fn decision(self, agent: &str, now: Timestamp) -> AgentDecision {
        let without_breaks = |text: String| text.replace('\n', " ");
        AgentDecision {
            timestamp: self.timestamp.unwrap_or(now),
            agent: without_breaks(self.agent.unwrap_or_else(|| agent.to_owned())),
            decision: without_breaks(self.decision),
            reasoning: self.reasoning,
            metadata: self.metadata,
        }
    }
}

/// Returns the content that identifies a decision, without its agent and time.
fn content(decision: &AgentDecision) -> String {
    let metadata = decision.metadata.clone().map(Value::Object);
    Value::from(vec![
        decision.decision.clone().into(),
        decision.reasoning.clone().into(),
        metadata.unwrap_or_default(),
    ])
    .to_string()
}

impl TaskFiles {
    /// Adds to the page the decisions in `decisions.jsonl` of the agents' workspace that the page lacks, and returns their number. Skips lines that
    /// are no decision. The page keeps decisions that the file lacks, so a rollback of the workspace to an earlier checkpoint removes none.
    ///
    /// # Errors
    ///
    /// Fails like [`load_decisions`](Self::load_decisions) and [`append_decision`](Self::append_decision).
    pub fn take_over_decisions(&self, agent: &str) -> Result<usize, LayerError> {
        let (mut decisions, mut broken) = (Vec::new(), 0);
        self.each_decision_line(|line| match line.map(serde_json::from_slice::<DecisionLine>) {
            Some(Ok(decision)) => decisions.push(decision.decision(agent, self.now())),
            _ if line.is_some_and(|line| line.trim_ascii().is_empty()) => {}
            _ => broken += 1,
        })?;
        if decisions.is_empty() && broken == 0 {
            return Ok(0);
        }
        if broken > 0 {
            tracing::warn!(taskId = %self.id, lines = broken, "lines of decisions.jsonl are no decisions");
        }
        // Counted, because a decision may occur several times.
        let mut on_page: BTreeMap<String, usize> = BTreeMap::new();
        for decision in self.load_decisions()?.entries {
            *on_page.entry(content(&decision)).or_default() += 1;
        }
        let mut added = 0;
        for decision in decisions {
            match on_page.get_mut(&content(&decision)) {
                Some(count) if *count > 0 => *count -= 1,
                _ => {
                    self.append_decision(&decision)?;
                    added += 1;
                }
            }
        }
        Ok(added)
    }

    /// Calls `each` with every line of [`SAID`], or with `None` for a line that is too long.
    fn each_decision_line(&self, each: impl FnMut(Option<&[u8]>)) -> Result<(), LayerError> {
        let Some(folder) = self.open()? else { return Ok(()) };
        let read = || {
            let workspace = enter(&*folder, WORKSPACE)?;
            let file = workspace.map(|workspace| open(&*workspace, SAID)).transpose()?;
            match file.flatten() {
                Some(file) => each_line(file.take(MOST), each),
                None => Ok(()),
            }
        };
        read().map_err(self.load_error(SAID))
    }

    /// Appends a decision, in one write, and makes it durable.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::model::TaskError::InvalidArgument) when agent or decision have several lines, else [`LayerError::Save`].
    pub fn append_decision(&self, decision: &AgentDecision) -> Result<(), LayerError> {
        self.traced(Layer::Decisions, LayerOperation::Save, || {
            let section = decision.section()?;
            let folder = self.make()?;
            let add = || {
                let mut file = folder.open_shared(OsStr::new(DECISIONS))?;
                let is_torn = !matches!(file.last_byte()?, None | Some(b'\n'));
                let end = if is_torn { "\n\n" } else { "" };
                file.add(format!("{end}{section}").as_bytes())?;
                file.sync_data()?;
                folder.sync()
            };
            add().map_err(self.save_error(DECISIONS))
        })
    }

    /// Returns all decisions. Unreadable sections are skipped and counted.
    ///
    /// # Errors
    ///
    /// Returns [`LayerError::Load`].
    pub fn load_decisions(&self) -> Result<Decisions, LayerError> {
        self.traced(Layer::Decisions, LayerOperation::Load, || {
            let Some(folder) = self.open()? else {
                return Ok(Decisions::default());
            };
            let bytes = read(&*folder, DECISIONS).map_err(self.load_error(DECISIONS))?;
            Ok(Decisions::read(&String::from_utf8_lossy(
                &bytes.unwrap_or_default(),
            )))
        })
    }
}
