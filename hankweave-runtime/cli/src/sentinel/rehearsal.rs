//! A sentinel that is fed a recorded journal instead of a live run (SENT-12): it is loaded when the agent of a codon starts, and acts at the end of
//! the codon on what is left, as in a run. Time passes as the recorded events say.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use hankweave_core::agent::InterruptedBy;
use hankweave_core::codon::CodonStatus;
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CodonId, RunId};
use hankweave_core::sentinel::{CODON_COMPLETED, ObservedEvent, SentinelConfig, SentinelEngine};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, JournalEntry};
use hankweave_runtime::journal::TailLine;
use serde::Deserialize;

use super::asked::RehearsalOutput;
use crate::recorded::LineSink;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::report::counted;

pub(super) struct Rehearsal<'a> {
    config: &'a SentinelConfig,
    /// Codon to watch; `None` for all codons. The configured id of a codon in a loop selects all its iterations.
    wanted: Option<&'a CodonId>,
    output: RehearsalOutput<'a>,
    watched: Option<WatchedCodon>,
    /// Number of codons watched until now.
    codons: usize,
    firings: usize,
    /// Types of the events that the sentinel got, for the hint after a mistyped type.
    kinds: BTreeSet<String>,
    /// Codons that were not selected, for the hint after a mistyped id.
    others: BTreeSet<String>,
}

/// The codon that the sentinel is loaded for.
struct WatchedCodon {
    run: RunId,
    codon: CodonId,
    engine: SentinelEngine,
    /// Start of the agent, from which the engine counts time.
    since: Timestamp,
    /// The work of the codon has ended; of all later events the sentinel gets only `codon.completed`.
    waits_for_end: bool,
}

/// Effect of a journal line on the watched codon.
enum CodonPhase {
    /// The agent of a wanted codon starts: the sentinel is loaded.
    Begins(RunId, CodonId),
    /// The agent has ended well: the sentinel acts on the events that it has collected.
    Drains,
    /// The codon failed or was skipped: the collected events are dropped, and only its published end may still count.
    Ends,
    /// A stop of the run, or a pause for which a sentinel asked, ended the codon: its published end does not count either.
    IsLeft,
    /// Anything else; the sentinel may see the line.
    Nothing,
}

impl<'a> Rehearsal<'a> {
    pub(super) fn new(
        config: &'a SentinelConfig,
        wanted: Option<&'a CodonId>,
        output: RehearsalOutput<'a>,
    ) -> Self {
        Self {
            config,
            wanted,
            output,
            watched: None,
            codons: 0,
            firings: 0,
            kinds: BTreeSet::new(),
            others: BTreeSet::new(),
        }
    }

    /// Whether no codon was watched.
    pub(super) fn is_empty(&self) -> bool {
        self.codons == 0
    }

    /// Returns the error for a selected codon whose agent has not started in the journal.
    pub(super) fn nothing_of(self, codon: &CodonId) -> CliError {
        let others: Vec<String> = self.others.into_iter().collect();
        let hint = match others.is_empty() {
            true => "no agent has begun here yet".to_owned(),
            false => format!("there is something of: {}", others.join(", ")),
        };
        let message = format!("no agent of a codon `{codon}` has begun in this journal");
        CliError::new(CliErrorKind::Input, message).hint(hint)
    }

    /// Returns the result in one line.
    pub(super) fn summary(&self) -> String {
        let (id, codons) = (&self.config.id, counted(self.codons, "codon"));
        if self.firings > 0 {
            return format!(
                "{id} would have acted {} in {codons}",
                counted(self.firings, "time")
            );
        }
        let kinds: Vec<&str> = self.kinds.iter().map(String::as_str).collect();
        match kinds.is_empty() {
            true => format!("{id} would have been shown nothing: no agent has begun in this journal"),
            false => format!(
                "{id} would never have acted in {codons}; the types of the events there are {}",
                kinds.join(", ")
            ),
        }
    }

    fn is_wanted(&self, codon: &CodonId) -> bool {
        self.wanted
            .is_none_or(|wanted| wanted == codon || wanted.as_str() == codon.configured())
    }

    /// Returns the effect of a line on the watched codon, and notes a codon that was not selected.
    fn phase_of(&mut self, line: TailLine<'_>) -> CodonPhase {
        let entry = (line.kind == "state.transition").then(|| JournalEntry::from_json(line.bytes).ok());
        let Some(Event::StateTransition { transition, .. }) = entry.flatten().map(|entry| entry.event) else {
            return CodonPhase::Nothing;
        };
        let StateEvent::CodonTransitioned {
            run_id,
            codon_id,
            from,
            to,
            metadata,
        } = *transition
        else {
            return CodonPhase::Nothing;
        };
        if to == CodonStatus::Starting {
            if self.is_wanted(&codon_id) {
                return CodonPhase::Begins(run_id, codon_id);
            }
            self.others.insert(codon_id.configured().to_owned());
        }
        let is_watched = |watched: &WatchedCodon| watched.run == run_id && watched.codon == codon_id;
        if !self.watched.as_ref().is_some_and(is_watched) {
            return CodonPhase::Nothing;
        }
        let interrupted_by = metadata.and_then(|metadata| {
            let reason = metadata.get("failureReason")?;
            InterruptedBy::deserialize(&reason["interruptedBy"]).ok()
        });
        match (from, to) {
            _ if matches!(
                interrupted_by,
                Some(InterruptedBy::Stop | InterruptedBy::Sentinel)
            ) =>
            {
                CodonPhase::IsLeft
            }
            (_, CodonStatus::Failed | CodonStatus::Skipped) => CodonPhase::Ends,
            (CodonStatus::Running, _) => CodonPhase::Drains,
            _ => CodonPhase::Nothing,
        }
    }

    /// Lets the sentinel act on collected events that have become due by `now`; each action has the time at which it became due.
    fn act_on_timers(&mut self, now: Timestamp) -> io::Result<()> {
        while let Some(watched) = self.watched.as_mut().filter(|watched| !watched.waits_for_end) {
            let due = watched.engine.due().map(|due| (due, watched.since.after(due)));
            let Some((due, at)) = due.filter(|(_, at)| *at <= now) else {
                break;
            };
            watched.engine.tick(due);
            self.act(at)?;
        }
        Ok(())
    }

    /// Gives the sentinel the event of a line, and lets it act.
    fn observe(&mut self, line: TailLine<'_>, now: Timestamp) -> io::Result<()> {
        let Some(watched) = &mut self.watched else {
            return Ok(());
        };
        if watched.waits_for_end && line.kind != CODON_COMPLETED {
            return Ok(());
        }
        let seen = std::str::from_utf8(line.bytes)
            .ok()
            .and_then(ObservedEvent::from_line);
        let Some(seen) = seen.filter(|seen| !is_own_file(self.config, seen)) else {
            return Ok(());
        };
        self.kinds.insert(seen.kind.clone());
        if watched.engine.is_interested(&seen.kind) {
            watched.engine.see(&Arc::new(seen), now.since(watched.since));
        }
        let acted = self.act(now);
        // While the sentinel waits for the end, only the published end gets this far.
        match self.watched.as_ref().is_some_and(|watched| watched.waits_for_end) {
            true => self.end(now),
            false => acted,
        }
    }

    /// Lets the sentinel act on the remaining events, and unloads it.
    fn end(&mut self, now: Timestamp) -> io::Result<()> {
        if let Some(watched) = &mut self.watched {
            watched.engine.flush();
        }
        let acted = self.act(now);
        self.watched = None;
        acted
    }

    /// Keeps the sentinel loaded until the published end of the codon if it acts on that end, and unloads it otherwise. Returns whether it acts.
    fn wait_for_end(&mut self) -> bool {
        let waits = self.config.acts_on_end();
        match &mut self.watched {
            Some(watched) if waits => watched.waits_for_end = true,
            _ => self.watched = None,
        }
        waits
    }

    /// Prints the actions that are due.
    fn act(&mut self, at: Timestamp) -> io::Result<()> {
        let Some(watched) = &mut self.watched else {
            return Ok(());
        };
        while let Some(firing) = watched.engine.next_firing() {
            self.firings += 1;
            self.output
                .print_firing(&watched.run, &watched.codon, &firing, at)?;
        }
        Ok(())
    }
}

impl LineSink for Rehearsal<'_> {
    fn line(&mut self, line: TailLine<'_>) -> io::Result<()> {
        let Some(now) = time(line) else {
            return Ok(());
        };
        self.act_on_timers(now)?;
        match self.phase_of(line) {
            CodonPhase::Begins(run, codon) => {
                self.codons += 1;
                self.watched = Some(WatchedCodon {
                    run,
                    codon,
                    engine: SentinelEngine::new(self.config),
                    since: now,
                    waits_for_end: false,
                });
                Ok(())
            }
            CodonPhase::Nothing => self.observe(line, now),
            CodonPhase::Drains => {
                self.observe(line, now)?;
                if let Some(watched) = &mut self.watched {
                    watched.engine.flush();
                }
                let acted = self.act(now);
                self.wait_for_end();
                acted
            }
            CodonPhase::Ends => {
                if self.wait_for_end()
                    && let Some(watched) = &mut self.watched
                {
                    // Moves the collected events into the queue, which is then dropped.
                    watched.engine.flush();
                    watched.engine.give_up();
                }
                Ok(())
            }
            CodonPhase::IsLeft => {
                self.watched = None;
                Ok(())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

fn time(line: TailLine<'_>) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Stamped {
        timestamp: Timestamp,
    }
    serde_json::from_slice::<Stamped>(line.bytes)
        .ok()
        .map(|stamped| stamped.timestamp)
}

/// Whether the event is about a file that the sentinel writes itself, which a run does not show it.
fn is_own_file(config: &SentinelConfig, seen: &ObservedEvent) -> bool {
    let path = seen.data.get("path").and_then(|path| path.as_str());
    let Some(output) = config.output.as_ref().filter(|_| seen.kind == "file.updated") else {
        return false;
    };
    let own = output.file.iter().chain(&output.last_value_file);
    // A name without `/` is a file in the state directory, not one of the workspace.
    let mut own = own.filter(|path| path.contains('/'));
    own.any(|own| Some(own.trim_start_matches("./")) == path)
}
