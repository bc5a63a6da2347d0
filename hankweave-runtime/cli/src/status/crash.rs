//! Crash of the newest run, as long as no start has recorded it: the process no longer exists, and the record still says that it runs.

use std::path::Path;

use hankweave_core::codon::CodonStatus;
use hankweave_core::document::RunStatus;
use hankweave_core::id::CodonId;
use hankweave_core::time::Timestamp;
use hankweave_runtime::world::disk::RealDisk;
use hankweave_runtime::{ExecutionDir, inspect};
use serde::Serialize;

use super::StatusView;
use crate::directory::{copied_at, last_sign};

/// Crash that no start has recorded yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnseenCrash {
    /// Codon that was open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) codon_id: Option<CodonId>,
    /// State of that codon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) codon_status: Option<CodonStatus>,
    /// Codon that waited for an approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asked_codon_id: Option<CodonId>,
    /// Last sign of life: the run crashed then at the earliest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<Timestamp>,
    /// Time at which the record was copied here, by a clone, a pull or a copy of the folder, while the run was at work. Where the record came from, the
    /// run may still be at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) copied_at: Option<Timestamp>,
    /// Processes of the run that still work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) left_running: Vec<i32>,
}

impl UnseenCrash {
    /// Returns the crash of the newest run; `None` unless its process no longer exists and no start has recorded the crash.
    pub(super) fn of(execution: &Path, status: &StatusView<'_>) -> Option<Self> {
        let newest = status.state.runs.front();
        let run = newest.filter(|run| run.status == RunStatus::Running && !status.live)?;
        let dir = ExecutionDir::new(execution.to_owned());
        let remote = hankweave_remote::remembered(&RealDisk, &dir).ok().flatten();
        // Only a question that this run has asked has a time after the start of the run.
        let asked = status.question.as_ref();
        let asked = asked.filter(|asked| asked.since > run.start_time);
        Some(Self {
            codon_id: run.open_codon().map(|codon| codon.codon_id().clone()),
            codon_status: run.open_codon().map(|codon| codon.status()),
            asked_codon_id: asked.and_then(|asked| asked.codon.clone()),
            after: last_sign(execution),
            copied_at: remote
                .and_then(|remote| remote.arrived_at)
                .filter(|at| run.start_time < *at)
                .or_else(|| copied_at(execution)),
            left_running: inspect::left_running(&RealDisk, &dir, status.state),
        })
    }

    /// Describes the crash in a sentence, with the time in UTC.
    pub(crate) fn words(&self) -> String {
        let open = self.codon_id.as_ref().zip(self.codon_status);
        match self.copied_at {
            None => crash_words(open, self.asked_codon_id.as_ref(), self.after),
            Some(at) => {
                let during = during(open, self.asked_codon_id.as_ref());
                format!("its record was copied {during}, and this copy of {at} does not show how it went on")
            }
        }
    }

    /// Describes the processes that still work, and what ends them; `None` if there are none.
    pub(crate) fn left_words(&self) -> Option<String> {
        let pids: Vec<String> = self.left_running.iter().map(ToString::to_string).collect();
        let pids = pids.join(" ");
        let (count, verb) = match self.left_running.len() {
            0 => return None,
            1 => ("1 process of the run".to_owned(), "works"),
            count => (format!("{count} processes of the run"), "work"),
        };
        Some(format!(
            "{count} still {verb}: {pids}; the next run ends what it left, `kill {pids}` does so now"
        ))
    }
}

impl StatusView<'_> {
    /// Describes the crash of the newest run if a start has recorded it and no run has followed.
    pub(super) fn recorded_crash(&self) -> Option<String> {
        let run = self
            .state
            .runs
            .front()
            .filter(|run| run.status == RunStatus::Crashed)?;
        let codon = run.codons.last().filter(|codon| codon.crashed())?;
        let after = codon.start_time().after(codon.duration()?);
        // The record of a crashed codon no longer says in which status it crashed, so it counts as at work.
        Some(crash_words(
            Some((codon.codon_id(), CodonStatus::Running)),
            None,
            Some(after),
        ))
    }
}

/// Describes a crash: when it was at the earliest, and the codon that was open with its state, or the one that waited for an approval.
pub(crate) fn crash_words(
    open: Option<(&CodonId, CodonStatus)>,
    asked: Option<&CodonId>,
    after: Option<Timestamp>,
) -> String {
    let during = during(open, asked);
    let after = after.map(|after| format!(", at {after} at the earliest"));
    let after = after.unwrap_or_default();
    format!("its process ended without recording why {during}{after}")
}

/// Describes the work of a run at the time of its crash.
fn during(open: Option<(&CodonId, CodonStatus)>, asked: Option<&CodonId>) -> String {
    match (open, asked) {
        (Some((codon, CodonStatus::Preparing)), _) => format!("in the set-up of {codon}"),
        (Some((codon, _)), _) => format!("while {codon} was at work"),
        (None, Some(codon)) => format!("while {codon} waited for an approval"),
        (None, None) => "between two codons".to_owned(),
    }
}
