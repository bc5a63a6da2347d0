//! What one can type in an execution directory.

use std::time::Duration;

use hankweave_core::agent::InterruptedBy;
use hankweave_core::budget::{Ceiling, CeilingUse};
use hankweave_core::codon::CodonStatus;
use hankweave_core::plan::Decision;
use hankweave_core::wire::Event;

use super::StatusView;
use crate::typed::Change;

impl StatusView<'_> {
    /// What one can type here, with what it does.
    pub(super) fn commands(&self) -> Vec<(String, String)> {
        let Self {
            state, thread, typed, ..
        } = self;
        let mut commands = Vec::new();
        let mut offer = |command: String, purpose: &str| commands.push((command, purpose.to_owned()));
        let Some(run) = state.runs.front() else {
            return commands;
        };
        if self.is_working(run) {
            offer(typed.command("attach"), "follows it");
            if let Some((id, _)) = self.asked() {
                let approve = format!("approve {id}");
                offer(typed.command(&approve), &format!("lets {id} begin"));
                offer(
                    typed.command(&format!("{approve} --deny")),
                    "ends the run before it",
                );
            }
            if let Some(Decision::Start(entry)) = self.decision.as_ref().filter(|_| !thread.has_running_codon)
            {
                let starts = format!("starts {}, unless that happens by itself", entry.codon_id);
                offer(typed.command("next"), &starts);
            }
            offer(typed.command("stop"), "stops it; the next run goes on");
            return commands;
        }
        let newest = thread.codons.first().map(|entry| entry.codon.as_ref());
        if let Some(cut_off) = run.open_codon() {
            let id = cut_off.codon_id();
            if cut_off.claude_session_id().is_some() {
                let goes_on = format!("keeps the files and lets {id} go on in its session");
                offer(typed.run_with(&[Change::Set("recover", "session")]), &goes_on);
            }
            offer(typed.run(), self.way_back());
            let again = format!("keeps the files and runs {id} again from its beginning");
            offer(typed.run_with(&[Change::Set("recover", "crash-point")]), &again);
        } else if let Some(next) = thread.next_codon_id.as_ref().filter(|_| self.is_stopped()) {
            if thread.own_session().is_some() {
                let goes_on = format!("keeps the files and lets {next} go on in its session");
                offer(typed.run_with(&[Change::Set("recover", "session")]), &goes_on);
            }
            offer(
                typed.run(),
                &format!("{}, unless `onFailure` says otherwise", self.way_back()),
            );
            let again = format!("keeps the files and runs {next} again from its beginning");
            offer(typed.run_with(&[Change::Set("recover", "crash-point")]), &again);
        } else if let Some((id, denied)) = self.asked() {
            let approve = format!("approve {id}");
            offer(
                typed.approval(id),
                &format!("lets {id} begin{}", if denied { " after all" } else { "" }),
            );
            if !denied {
                offer(
                    typed.command(&format!("{approve} --deny")),
                    "says that it may not",
                );
            }
        } else if let Some(next) = &thread.next_codon_id {
            let goes_on = typed.run_with_more(self.more(), self.patience());
            offer(goes_on, &format!("goes on with {next}"));
        } else if let Some(failed) = newest.filter(|_| self.is_blocked()) {
            let id = failed.codon_id();
            offer(
                typed.run(),
                &format!("{}, unless `onFailure` says otherwise", self.way_back()),
            );
            offer(
                typed.run_with(&[Change::Set("recover", "crash-point")]),
                &format!("keeps the files and runs {id} again"),
            );
            if failed.rig_setup_checkpoint().is_some() {
                offer(
                    typed.command(&format!("rollback --codon {id} --at rig-setup")),
                    &format!("takes the files back to where {id} began"),
                );
            }
        }
        if newest.is_some() {
            offer(
                typed.command("thread"),
                "lists the checkpoints to which `rollback --to SHA` goes back",
            );
        }
        if self.unfinished.is_some() && thread.next_codon_id.is_none() && !self.is_blocked() {
            offer(typed.run(), "finishes that");
        }
        offer(
            typed.run_with(&[Change::Flag("new")]),
            "starts from the first codon; the history stays",
        );
        commands
    }

    /// Where the next run goes back to by itself.
    fn way_back(&self) -> &'static str {
        let mut codons = self.thread.codons.iter();
        match codons.any(|entry| entry.codon.status() == CodonStatus::Completed) {
            true => "goes back to the last success and on from there",
            false => "goes back to where the work began, for nothing has completed",
        }
    }

    /// How long the next run would have to be allowed to wait for a limit at which the last one paused.
    fn patience(&self) -> Option<Duration> {
        let paused = self.state.runs.front().and_then(|run| run.interrupted_by);
        match (&self.decision, paused) {
            (Some(Decision::Retry(retry)), Some(InterruptedBy::UsageLimit)) => {
                let left = Some(retry.remaining(self.now)).filter(|left| !left.is_zero())?;
                Some(retry.limit?.waited.saturating_add(left))
            }
            _ => None,
        }
    }

    /// With how much more a run goes on that paused at a ceiling.
    fn more(&self) -> Ceiling {
        let Some(Event::BudgetSummary { ceiling, .. }) = &self.budget else {
            return Ceiling::default();
        };
        let paused = self.state.runs.front().and_then(|run| run.interrupted_by);
        if paused != Some(InterruptedBy::Ceiling) {
            return Ceiling::default();
        }
        let seconds = ceiling.max_time_seconds;
        let ceiling = Ceiling {
            max_dollars: ceiling.max_dollars,
            max_time: seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        };
        CeilingUse::of(Duration::ZERO, ceiling, self.state).more()
    }

    /// Whether the newest codon was stopped with its run, so that somebody may choose where it goes on.
    fn is_stopped(&self) -> bool {
        self.thread.interruption().is_some_and(|by| !by.is_pause())
    }
}
