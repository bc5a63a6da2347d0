//! Finds the files with which the work that a rollback undoes had started.
//!
//! A run that goes back by itself restores these files instead of those of its target, so that changes of the user between the target and the start of the work
//! stay (RUN-2, STATE-71).

use super::{ExecutionThread, ThreadCodon};
use crate::codon::{CheckpointType, CodonExecution};
use crate::document::{
    ContinuationReason, ContinuationSource, HankweaveState, RunRecord, StartingConditions,
};
use crate::id::{CheckpointSha, CodonId};

/// Start of the work that a rollback undoes.
#[derive(Debug, Clone)]
pub struct StartOfWork<'t> {
    /// The attempt with which the work started.
    pub first: &'t CodonExecution,
    /// Checkpoint of the files with which `first` started: those of the target, with the changes of the user after it. If the target is a rig set-up, the
    /// checkpoint of the set-up, since no user changes anything between the set-up and the work.
    pub checkpoint: CheckpointSha,
}

// The thread and the runs of the document are newest first, the codons of a run oldest first.
impl ExecutionThread {
    /// Returns the start of the work that a rollback to `target` undoes.
    ///
    /// A retry keeps the files, so it starts with the unfinished work of the attempt before it. Such a series of attempts counts as one work, also across runs.
    ///
    /// `None` if the target is not in the thread, nothing is undone or the start is not recorded.
    #[must_use]
    pub fn start_of_undone<'t>(
        &'t self,
        state: &'t HankweaveState,
        target: &ContinuationSource,
    ) -> Option<StartOfWork<'t>> {
        if target.checkpoint_type(state) == Some(CheckpointType::RigSetup) {
            return self.start_after_set_up(target);
        }
        let undone = match &target.after_codon {
            Some(_) => self.position_of(target)?,
            None => self.codons.len(),
        };
        let oldest = self.codons.get(undone.checked_sub(1)?)?;
        let (mut run, mut index) = (state.run(&oldest.run_id)?, oldest.codon_index_in_run);
        // Only the first attempt of a run may start with what an earlier run has left unfinished.
        while index == 0 && continues_unfinished(state, &run.starting_conditions) {
            (run, index) = series_before(state, run, oldest.codon.codon_id())?;
        }
        let first = run.codons.get(index)?;
        let checkpoint = first.start_checkpoint()?;
        Some(StartOfWork { first, checkpoint })
    }

    /// Returns the start of the attempts that share a set-up, those of later runs that continued from it included.
    fn start_after_set_up(&self, target: &ContinuationSource) -> Option<StartOfWork<'_>> {
        let has_set_up = |entry: &&ThreadCodon| {
            Some(entry.codon.codon_id()) == target.after_codon.as_ref()
                && entry.codon.rig_setup_checkpoint() == Some(&target.checkpoint_sha)
        };
        let from_target = self.codons[self.position_of(target)?..].iter();
        Some(StartOfWork {
            first: &from_target.take_while(has_set_up).last()?.codon,
            checkpoint: target.checkpoint_sha.clone(),
        })
    }

    /// Returns the index of the target's codon in the thread, which is the number of attempts after it.
    fn position_of(&self, target: &ContinuationSource) -> Option<usize> {
        let is_target = |entry: &ThreadCodon| {
            entry.run_id == target.run_id && Some(entry.codon.codon_id()) == target.after_codon.as_ref()
        };
        self.codons.iter().position(is_target)
    }
}

/// Returns the newest run before `run` that has attempts of a codon, and the index in it where its last unbroken series of such attempts starts.
fn series_before<'s>(
    state: &'s HankweaveState,
    run: &RunRecord,
    codon: &CodonId,
) -> Option<(&'s RunRecord, usize)> {
    let position = state.runs.iter().position(|other| other.run_id == run.run_id)?;
    let older = state.runs.iter().skip(position + 1);
    let series_of = |run: &'s RunRecord| {
        let is_attempt = |index: &usize| run.codons.get(*index).is_some_and(|one| one.codon_id() == codon);
        let last = (0..run.codons.len()).rev().find(is_attempt)?;
        let start = (0..=last).rev().take_while(is_attempt).last()?;
        Some((run, start))
    };
    older.map(|run| &**run).find_map(series_of)
}

/// Whether a run that started this way continues unfinished work: a retry keeps all files, and a start from a set-up those of a codon that has not ended.
fn continues_unfinished(state: &HankweaveState, conditions: &StartingConditions) -> bool {
    let StartingConditions::Continuation { source, reason, .. } = conditions else {
        return false;
    };
    let is_from_set_up = source.checkpoint_type(state) == Some(CheckpointType::RigSetup);
    is_from_set_up || *reason == Some(ContinuationReason::Retry)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::thread::build;

    fn attempt(id: &str, start: &str) -> serde_json::Value {
        json!({"codonId": id, "status": "failed", "startTime": "2025-01-04T12:00:00.000Z", "endTime": "2025-01-04T12:00:01.000Z",
            "failedDuring": "running", "exitCode": -1, "failureReason": {"type": "unknown", "retriable": false}, "partialCost": 0,
            "partialTokens": {"inputTokens": 0, "outputTokens": 0, "cacheCreationTokens": 0, "cacheReadTokens": 0},
            "startCheckpoint": start})
    }

    /// Returns the first undone attempt and its checkpoint, in a run with two attempts of `a` and one of `b` that started under `conditions`.
    fn found(conditions: serde_json::Value, after: Option<&str>) -> Option<(String, String)> {
        let document = json!({
            "runs": [{
                "runId": "r", "runFolder": "/p/r", "gitBranch": "run-r", "serverPid": 1, "status": "crashed",
                "startingConditions": conditions, "startTime": "2025-01-04T12:00:00.000Z", "endTime": "2025-01-04T12:00:01.000Z",
                "codons": [attempt("a", "s1"), attempt("a", "s2"), attempt("b", "s3")],
            }],
            "currentRunId": null, "executionPlan": [],
        });
        let state = crate::document::parse(document.to_string().as_bytes()).unwrap();
        let mut source = ContinuationSource::beginning_of(&"r".parse().unwrap());
        source.after_codon = after.map(|id| id.parse().unwrap());
        let thread = build(&state, None, None);
        let found = thread.start_of_undone(&state, &source)?;
        Some((found.first.codon_id().to_string(), found.checkpoint.to_string()))
    }

    // covers: RUN-2, STATE-71
    #[test]
    fn work_began_with_the_files_of_the_first_attempt_that_is_undone() {
        let of = |id: &str, sha: &str| Some((id.to_owned(), sha.to_owned()));
        let fresh = || json!({"type": "fresh"});
        assert_eq!(found(fresh(), None), of("a", "s1"));
        assert_eq!(found(fresh(), Some("a")), of("b", "s3"));
        assert_eq!(found(fresh(), Some("b")), None);
        assert_eq!(found(fresh(), Some("unknown")), None);
        let again = |reason: &str| json!({"type": "continuation", "source": {"runId": "q", "afterCodon": null, "checkpointSha": ""}, "reason": reason});
        assert_eq!(found(again("continue"), None), of("a", "s1"));
        // The files held the work of an earlier attempt, which has no record.
        assert_eq!(found(again("retry"), None), None);
        assert_eq!(found(again("retry"), Some("a")), of("b", "s3"));
    }

    /// The thread has two runs that retry `b`, and before them one that attempted `b` twice in a row.
    // covers: RUN-2, STATE-71
    #[test]
    fn work_that_was_run_again_with_its_files_began_with_its_first_attempt() {
        let run = |id: &str, conditions: serde_json::Value, codons: &[(&str, &str)]| {
            let codons: Vec<_> = codons.iter().map(|(id, start)| attempt(id, start)).collect();
            json!({"runId": id, "runFolder": "/p/r", "gitBranch": "run-r", "serverPid": 1, "status": "crashed",
                "startingConditions": conditions, "startTime": "2025-01-04T12:00:00.000Z", "endTime": "2025-01-04T12:00:01.000Z", "codons": codons})
        };
        let source = json!({"runId": "r1", "afterCodon": "a", "checkpointSha": "s0"});
        let again = json!({"type": "continuation", "source": source, "reason": "retry"});
        let document = json!({
            "runs": [run("r3", again.clone(), &[("b", "s5")]), run("r2", again, &[("b", "s4")]),
                run("r1", json!({"type": "fresh"}), &[("b", "s0"), ("a", "s1"), ("b", "s2"), ("b", "s3")])],
            "currentRunId": null, "executionPlan": [],
        });
        let state = crate::document::parse(document.to_string().as_bytes()).unwrap();
        let source = ContinuationSource {
            after_codon: Some("a".parse().unwrap()),
            ..ContinuationSource::beginning_of(&"r1".parse().unwrap())
        };
        let thread = build(&state, None, None);
        let found = thread.start_of_undone(&state, &source).unwrap();
        assert_eq!(found.checkpoint.as_str(), "s2", "{thread:#?}");
    }
}
