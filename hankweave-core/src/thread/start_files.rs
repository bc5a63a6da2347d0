//! Files at the start of the work that a rollback undoes (RUN-2, STATE-71).

use super::{ExecutionThread, ThreadCodon};
use crate::codon::{CheckpointType, CodonExecution};
use crate::document::{
    ContinuationReason, ContinuationSource, HankweaveState, RunRecord, StartingConditions,
};
use crate::id::{CheckpointSha, CodonId};

/// Start of the work that a rollback undoes.
#[derive(Debug, Clone)]
pub struct StartOfWork<'t> {
    /// The oldest attempt whose work is undone.
    pub first: &'t CodonExecution,
    /// Checkpoint of the files with which it started: those of the target, with all changes of the user since then.
    pub checkpoint: CheckpointSha,
}

impl ExecutionThread {
    /// Returns the start of the work that a rollback to `source` undoes.
    ///
    /// An attempt that the user ran again with the files as they were, or with those of its rig, began with unfinished work: all of it began with the first of
    /// these attempts. `None` where the beginning is not recorded. A rollback to the end of a set-up undoes the attempts that had it.
    #[must_use]
    pub fn start_of_undone<'t>(
        &'t self,
        state: &'t HankweaveState,
        source: &ContinuationSource,
    ) -> Option<StartOfWork<'t>> {
        let is_target = |entry: &ThreadCodon| {
            entry.run_id == source.run_id && Some(entry.codon.codon_id()) == source.after_codon.as_ref()
        };
        if source.checkpoint_type(state) == Some(CheckpointType::RigSetup) {
            let target = self.codons.iter().position(is_target)?;
            let has_it = |entry: &&ThreadCodon| {
                let set_up = entry.codon.rig_setup_checkpoint();
                Some(entry.codon.codon_id()) == source.after_codon.as_ref()
                    && set_up == Some(&source.checkpoint_sha)
            };
            let first = &self.codons[target..].iter().take_while(has_it).last()?.codon;
            let checkpoint = source.checkpoint_sha.clone();
            return Some(StartOfWork { first, checkpoint });
        }
        let count = match &source.after_codon {
            Some(_) => self.codons.iter().position(is_target)?,
            None => self.codons.len(),
        };
        let first = self.codons.get(count.checked_sub(1)?)?;
        let (mut run, mut index) = (state.run(&first.run_id)?, first.codon_index_in_run);
        while index == 0 && holds_work(state, &run.starting_conditions) {
            (run, index) = attempts_before(state, run, first.codon.codon_id())?;
        }
        let first = run.codons.get(index)?;
        let checkpoint = first.start_checkpoint()?;
        Some(StartOfWork { first, checkpoint })
    }
}

/// Returns the newest run before this one that has attempts of a codon, and the index of the first of the last of them that follow one another.
fn attempts_before<'s>(
    state: &'s HankweaveState,
    run: &RunRecord,
    codon: &CodonId,
) -> Option<(&'s RunRecord, usize)> {
    let newer = state.runs.iter().position(|other| other.run_id == run.run_id)?;
    let before = state.runs.iter().skip(newer + 1);
    let of_run = |run: &'s RunRecord| {
        let is_attempt = |index: &usize| run.codons.get(*index).is_some_and(|one| one.codon_id() == codon);
        let last = (0..run.codons.len()).rev().find(is_attempt)?;
        let first = (0..=last).rev().take_while(is_attempt).last()?;
        Some((run, first))
    };
    before.map(|run| &**run).find_map(of_run)
}

/// Returns whether a run of this origin started with unfinished work in its files.
fn holds_work(state: &HankweaveState, conditions: &StartingConditions) -> bool {
    let StartingConditions::Continuation { source, reason, .. } = conditions else {
        return false;
    };
    let is_rig = source.checkpoint_type(state) == Some(CheckpointType::RigSetup);
    is_rig || *reason == Some(ContinuationReason::Retry)
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

    /// Returns one run that was cut off in `b`, after `a`, and that started this way.
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

    /// After two runs with the files as they were, all of the work started with the first of the attempts.
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
