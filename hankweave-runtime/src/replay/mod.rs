//! Replay of a recorded execution, for `hankweave replay` (RUN-22). The events of the journal are applied in their order,
//! and the output of agents is decoded from their logs again.
//!
//! Nothing is started. The results of rigs, checks, sentinels, checkpoints and clients are taken from the journal, and so
//! is the growth of costs. Four facts from the logs are compared with the record: the output of agents, their sessions,
//! how they ended, and the tokens and costs that they used in total.

mod difference;
mod stream;

use std::io;
use std::sync::Arc;

use hankweave_core::codon::{CodonExecution, CodonStatus};
use hankweave_core::cost::UsageTotals;
use hankweave_core::cost::pricing::Prices;
use hankweave_core::document::HankweaveState;
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CodonId, RunId, SessionId};
use hankweave_core::state::LiveState;
use hankweave_core::wire::{Event, JournalEntry};
use serde_json::{Map, Value};

pub use self::difference::Difference;
use self::difference::first;
use self::stream::ReplayStream;
use crate::counting::Counting;
use crate::driver::LogContext;
use crate::paths::ExecutionDir;
use crate::world::disk::Disk;

/// Plays the entries of a journal in their order.
#[derive(Debug)]
pub struct Replay {
    disk: Arc<dyn Disk>,
    dir: ExecutionDir,
    /// State after the events so far.
    live: LiveState,
    /// Models and prices with which the newest run counted costs.
    counting: Counting,
    /// The log of the current attempt of a codon.
    stream: Option<ReplayStream>,
    outcome: Replayed,
}

/// Result of a replay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replayed {
    /// Number of events that were played.
    pub events: u64,
    /// Number of these events that came out of the logs of agents.
    pub from_logs: u64,
    /// Number of attempts of codons that were compared with their logs.
    pub compared: u64,
    /// Number of events that were removed from the journal because it was too large; their codons are not compared.
    pub removed: u64,
    /// Number of attempts that were not compared: their logs lack the usage, or were not read to the end.
    pub told: u64,
    /// First difference between the record and the replay.
    pub difference: Option<Difference>,
}

impl Replay {
    /// Starts a replay of the execution directory `dir`, before its first event.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, dir: &ExecutionDir) -> Self {
        Self {
            disk,
            dir: dir.clone(),
            live: LiveState::default(),
            counting: Counting::with(Prices::listed()),
            stream: None,
            outcome: Replayed::default(),
        }
    }

    /// Plays one entry. Returns the entry, with output of an agent as it came out of the log. Blocks.
    ///
    /// # Errors
    ///
    /// When the log of an agent cannot be read.
    pub fn play(&mut self, mut entry: JournalEntry) -> io::Result<JournalEntry> {
        self.outcome.events += 1;
        match &mut entry.event {
            Event::StateTransition { transition, .. } => {
                let transition = StateEvent::clone(transition);
                self.transition(&transition)?;
                if let Err(refused) = self.live.apply_event(&transition, entry.timestamp) {
                    let place = format!("event {}", entry.seq);
                    self.differ(Difference::new(place, transition.name(), refused));
                }
            }
            Event::TokenUsage { .. } => {
                if let Some(stream) = &mut self.stream {
                    stream.count_message(&entry.event);
                }
            }
            event if stream::is_of_an_agent(event) => self.replay_output(event)?,
            _ => {}
        }
        Ok(entry)
    }

    /// Skips `removed` missing events. The position of the next recorded output in the agent's log is then unknown, so the current
    /// attempt is not compared with its log.
    pub fn pass_over(&mut self, removed: u64) {
        if removed > 0 {
            self.outcome.removed += removed;
            self.stream = None;
        }
    }

    /// The document that came out of the replay so far.
    #[must_use]
    pub fn state(&self) -> &HankweaveState {
        self.live.document()
    }

    /// Ends the replay, and compares the document that came out with the recorded one.
    #[must_use]
    pub fn end(mut self, recorded: &HankweaveState) -> Replayed {
        if let Some(difference) = first(recorded, self.live.document()) {
            self.differ(difference);
        }
        self.outcome
    }

    /// Notes a difference, if it is the first.
    fn differ(&mut self, difference: Difference) {
        self.outcome.difference.get_or_insert(difference);
    }

    /// Replaces recorded output of the codon's agent by the output from its log.
    fn replay_output(&mut self, event: &mut Event) -> io::Result<()> {
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        let difference = stream.next_output(event)?;
        self.outcome.from_logs += 1;
        difference
            .into_iter()
            .for_each(|difference| self.differ(difference));
        Ok(())
    }

    /// Opens, checks and ends the log of an attempt when the transitions of its codon come.
    fn transition(&mut self, transition: &StateEvent) -> io::Result<()> {
        let (run_id, codon_id, to, metadata) = match transition {
            StateEvent::RunStarted { run_id, .. } => {
                let recorded = Counting::load(&*self.disk, &self.dir, run_id);
                self.counting = recorded.unwrap_or_else(|| Counting::with(Prices::listed()));
                return Ok(());
            }
            StateEvent::CodonTransitioned {
                run_id,
                codon_id,
                to,
                metadata,
                ..
            } => (run_id, codon_id, to, metadata),
            _ => return Ok(()),
        };
        let text = |name: &str| text_of(metadata.as_ref(), name);
        match to {
            CodonStatus::Initializing => {
                // The stored names say "claude" for every agent.
                let log = text("claudeLogPath").map(|log| self.dir.state_dir().join(log));
                let resumed = text("previousSessionId").and_then(|id| SessionId::new(id).ok());
                let open = self.state().run(run_id).and_then(|run| run.codons.last());
                let chosen = open.and_then(|record| record.chosen_agent());
                let past = LogContext {
                    resumed: resumed.as_ref(),
                    model: self.counting.model_of(codon_id, chosen.as_ref()),
                    auth: self.counting.auth_of(codon_id, chosen.as_ref()),
                    before: resumed
                        .as_ref()
                        .map_or_else(UsageTotals::default, |session| self.state().carried_in(session)),
                    prices: &self.counting.prices,
                };
                self.stream = log.and_then(|log| ReplayStream::open(&self.disk, codon_id, log, &past));
            }
            CodonStatus::Running => {
                if let (Some(stream), Some(session)) = (&mut self.stream, text("claudeSessionId")) {
                    let difference = stream.start(&session)?;
                    difference
                        .into_iter()
                        .for_each(|difference| self.differ(difference));
                }
            }
            status if status.is_terminal() => {
                self.compare_end(run_id, codon_id, *status, metadata.as_ref())?
            }
            _ => {}
        }
        Ok(())
    }

    /// Compares the end of a codon with the end of its log.
    fn compare_end(
        &mut self,
        run: &RunId,
        codon: &CodonId,
        to: CodonStatus,
        metadata: Option<&Map<String, Value>>,
    ) -> io::Result<()> {
        let Some(stream) = self.stream.take() else {
            return Ok(());
        };
        let record = self.live.document().run(run).and_then(|run| {
            let mut newest_first = run.codons.iter().rev();
            newest_first.find(|record| record.codon_id() == codon)
        });
        let Some(record) = record.cloned() else {
            return Ok(());
        };
        // An agent that was stopped may have printed more than the run read.
        let was_read_to_end = to == CodonStatus::Completed
            && !metadata.is_some_and(|metadata| metadata.contains_key("budgetExceeded"));
        let ended = stream.end(&record, was_read_to_end)?;
        match ended.is_compared {
            true => self.outcome.compared += 1,
            false => self.outcome.told += 1,
        }
        ended
            .difference
            .into_iter()
            .for_each(|difference| self.differ(difference));
        Ok(())
    }
}

/// Returns the text `name` in the metadata of a transition.
fn text_of(metadata: Option<&Map<String, Value>>, name: &str) -> Option<String> {
    metadata?.get(name)?.as_str().map(str::to_owned)
}

/// Describes what the agent of a codon used: cost and tokens.
fn used(record: &CodonExecution) -> String {
    format!(
        "{}, {}",
        record.agent_cost(),
        stream::in_words(record.agent_tokens())
    )
}
