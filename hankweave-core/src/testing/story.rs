//! Documents, built from stories.

use serde_json::{Map, Value, json};

use crate::agent::InterruptedBy;
use crate::codon::CodonStatus;
use crate::document::{ContinuationSource, HankweaveState, PlanEntry, PlannedCodon, StartingConditions};
use crate::event::{Recorded, StateEvent};
use crate::id::{CheckpointSha, CodonId, Pid, RunId};
use crate::machine::Extra;
use crate::state::{LiveState, Rejected};
use crate::time::Timestamp;

/// A document that grows by one event after the other; each is recorded one second after the last.
///
/// Every method that adds an event panics when the reducer refuses it: a story is true.
#[derive(Debug, Clone, Default)]
pub struct Story {
    live: LiveState,
    events: Vec<Recorded<StateEvent>>,
}

/// How a codon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It completes.
    Completed,
    /// It fails while the agent works.
    Failed,
    /// It is skipped while the agent works.
    Skipped,
    /// It continues, in this state.
    Open(CodonStatus),
}

impl Story {
    /// Nothing has happened.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The plan is made; a codon after `>` continues the conversation of the one before, and `b<a` forks that of `a`.
    #[must_use]
    pub fn plan(self, ids: &[&str]) -> Self {
        let execution_plan = ids.iter().map(|id| entry(id)).collect();
        self.tell(StateEvent::PlanReplaced { execution_plan })
    }

    /// A fresh run starts.
    #[must_use]
    pub fn fresh(self, run: &str) -> Self {
        self.run(run, StartingConditions::fresh(None))
    }

    /// A run starts that continues `parent` after `after`, with the files of `checkpoint`.
    #[must_use]
    pub fn continues(self, run: &str, parent: &str, after: Option<&str>, checkpoint: &str) -> Self {
        let source = ContinuationSource {
            run_id: run_id(parent),
            after_codon: after.map(codon_id),
            checkpoint_sha: CheckpointSha::new(checkpoint),
            extra: Extra::default(),
        };
        self.run(run, StartingConditions::continuation(source, None))
    }

    fn run(self, run: &str, starting_conditions: StartingConditions) -> Self {
        self.tell(StateEvent::RunStarted {
            run_id: run_id(run),
            run_folder: format!("/project/.hankweave/runs/{run}").into(),
            git_branch: format!("run-{run}"),
            starting_conditions,
            server_pid: Pid(7),
        })
    }

    /// The current run ends well.
    #[must_use]
    pub fn run_completes(self) -> Self {
        let run_id = self.current();
        self.tell(StateEvent::RunCompleted { run_id, cause: None })
    }

    /// The current run fails.
    #[must_use]
    pub fn run_fails(self) -> Self {
        let run_id = self.current();
        self.tell(StateEvent::RunFailed {
            run_id,
            interrupted_by: None,
            cause: None,
        })
    }

    /// The current run is interrupted and can continue.
    #[must_use]
    pub fn run_pauses(self, by: InterruptedBy) -> Self {
        let run_id = self.current();
        self.tell(StateEvent::RunFailed {
            run_id,
            interrupted_by: Some(by),
            cause: None,
        })
    }

    /// The current run is found to have crashed.
    #[must_use]
    pub fn run_crashes(self) -> Self {
        let (run_id, detected_at) = (self.current(), self.now());
        self.tell(StateEvent::RunCrashed {
            run_id,
            detected_at,
            last_codon_status: None.into(),
            last_heartbeat: None,
        })
    }

    /// A codon runs in the current run.
    ///
    /// The second word of `id`, if there is one, distinguishes its records: `draft retry` has the rig-setup checkpoint `draft-retry-rig`, the end
    /// checkpoint `draft-retry-end` and the session `draft-retry-session`.
    #[must_use]
    pub fn codon(self, id: &str, ending: Ending) -> Self {
        let (name, mark) = (id.split(' ').next().unwrap_or(id), id.replace(' ', "-"));
        let mut story = self.codon_starts(name);
        let to = match ending {
            Ending::Completed => CodonStatus::Completed,
            Ending::Failed => CodonStatus::Failed,
            Ending::Skipped => CodonStatus::Skipped,
            Ending::Open(status) => status,
        };
        let mut from = CodonStatus::Preparing;
        for next in way_to(to) {
            story = story.step(name, from, *next, &metadata(from, *next, &mark));
            from = *next;
        }
        story
    }

    fn codon_starts(self, id: &str) -> Self {
        let run_id = self.current();
        let codon_id = codon_id(id);
        let planned = self.state().planned(&codon_id);
        let loop_context = planned.and_then(|entry| entry.loop_context.clone());
        self.tell(StateEvent::CodonStarted {
            run_id,
            codon_id,
            loop_context,
            chosen_agent: None,
            start_checkpoint: None,
        })
    }

    fn step(self, id: &str, from: CodonStatus, to: CodonStatus, metadata: &Value) -> Self {
        let run_id = self.current();
        self.tell(StateEvent::CodonTransitioned {
            run_id,
            codon_id: codon_id(id),
            from,
            to,
            metadata: metadata.as_object().cloned(),
        })
    }

    /// Something happens.
    #[must_use]
    pub fn tell(mut self, event: StateEvent) -> Self {
        self.try_tell(event).expect("a story is true");
        self
    }

    /// Adds an event that the reducer may refuse.
    ///
    /// # Errors
    ///
    /// Returns the reducer's refusal; the story is then unchanged.
    pub fn try_tell(&mut self, event: StateEvent) -> Result<(), Rejected> {
        let recorded = Recorded {
            seq: self.events.len() as u64 + 1,
            at: self.now(),
            event,
        };
        self.live.apply(&recorded)?;
        self.events.push(recorded);
        Ok(())
    }

    /// The document, with its totals.
    #[must_use]
    pub fn live(&self) -> &LiveState {
        &self.live
    }

    /// The document.
    #[must_use]
    pub fn state(&self) -> &HankweaveState {
        self.live.document()
    }

    /// Everything that happened.
    #[must_use]
    pub fn events(&self) -> &[Recorded<StateEvent>] {
        &self.events
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_736_000_000_000 + self.events.len() as i64 * 1_000)
    }

    fn current(&self) -> RunId {
        let current = self.state().current_run_id.clone();
        current.expect("the story has a run that continues")
    }
}

fn run_id(text: &str) -> RunId {
    RunId::new(text).expect("the story names runs well")
}

fn codon_id(text: &str) -> CodonId {
    CodonId::new(text).expect("the story names codons well")
}

fn entry(text: &str) -> PlanEntry {
    let (id, mode) = match (text.strip_prefix('>'), text.split_once('<')) {
        (Some(id), _) => (id, json!("continue-previous")),
        (None, Some((id, forked))) => (id, json!({"fork": forked})),
        (None, None) => (text, json!("fresh")),
    };
    let codon_id = codon_id(id);
    let mut codon = Map::new();
    codon.insert("id".to_owned(), json!(codon_id.configured()));
    codon.insert("continuationMode".to_owned(), mode);
    PlanEntry {
        codon: PlannedCodon::from(codon),
        codon_id,
        loop_context: None,
        extra: Map::new(),
    }
}

/// The states that a codon goes through after preparing.
pub(super) fn way_to(status: CodonStatus) -> &'static [CodonStatus] {
    use CodonStatus::{
        Completed, CompletingSentinels, Failed, Initializing, Preparing, Running, Skipped, Starting,
    };
    match status {
        Preparing => &[],
        Starting => &[Starting],
        Initializing => &[Starting, Initializing],
        Running => &[Starting, Initializing, Running],
        CompletingSentinels => &[Starting, Initializing, Running, CompletingSentinels],
        Completed => &[Starting, Initializing, Running, Completed],
        Failed => &[Starting, Initializing, Running, Failed],
        Skipped => &[Starting, Initializing, Running, Skipped],
    }
}

/// Everything that `to` demands.
pub(super) fn metadata(from: CodonStatus, to: CodonStatus, mark: &str) -> Value {
    let end = format!("{mark}-end");
    match to {
        CodonStatus::Preparing | CodonStatus::CompletingSentinels => json!({}),
        CodonStatus::Starting => json!({"checkpointSha": format!("{mark}-rig")}),
        CodonStatus::Initializing => {
            json!({"claudePid": 9, "claudeLogPath": format!("runs/r/{mark}-claude.log")})
        }
        CodonStatus::Running => json!({"claudeSessionId": format!("{mark}-session")}),
        CodonStatus::Completed => json!({"checkpointSha": end, "resultMessageReceived": true}),
        CodonStatus::Failed => json!({
            "exitCode": 1, "failedDuring": from, "checkpointSha": end,
            "failureReason": {"type": "unknown", "retriable": false, "message": "told so"},
        }),
        CodonStatus::Skipped => json!({"skippedDuring": from, "checkpointSha": end}),
    }
}
