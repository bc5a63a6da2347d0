//! Finds the checkpoints between which a codon did its work, over all its attempts. Changes by the user between attempts do not count (HANK-66, CLI-23).

use super::{ExecutionThread, ThreadCodon};
use crate::codon::{CodonExecution, CodonStatus};
use crate::document::{HankweaveState, OperationKind};
use crate::id::{CheckpointSha, CodonId};

/// Work of a codon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodonWork {
    /// Start and end of each attempt as checkpoints, oldest attempt first; the start is after the rig set-up. At least one attempt.
    pub attempts: Vec<(CheckpointSha, CheckpointSha)>,
}

impl CodonWork {
    /// Returns the checkpoints with which the first attempt started and the newest one ended; `None` without an attempt.
    #[must_use]
    pub fn ends(&self) -> Option<(&CheckpointSha, &CheckpointSha)> {
        let (first, last) = (self.attempts.first()?, self.attempts.last()?);
        Some((&first.0, &last.1))
    }
}

impl ExecutionThread {
    /// Returns the work that ended with the checkpoint `end`; `None` where no codon of the thread ended with it, or where the start of the work is unknown.
    #[must_use]
    pub fn work_until(&self, state: &HankweaveState, end: &CheckpointSha) -> Option<CodonWork> {
        let ends_there =
            |entry: &ThreadCodon| entry.codon.end_checkpoint().is_some_and(|(_, sha)| sha == end);
        self.work(state, self.codons.iter().position(ends_there)?)
    }

    /// Returns the work of the codon at the position `newest` of the thread: of this attempt, and of the attempts before it since the codon last completed or
    /// was skipped. `None` where no attempt has ended, or the start of the work is unknown.
    #[must_use]
    pub fn work(&self, state: &HankweaveState, newest: usize) -> Option<CodonWork> {
        let first = self.first_attempt(newest)?;
        let mut start = self.files_before(state, first)?;
        let mut attempts = self.attempts_outside_thread(state, first);
        for at in (newest..=first).rev() {
            let next = at.checked_sub(1).filter(|next| *next >= newest);
            let next = next.map(|next| &self.codons[next].codon);
            let next_start = next.and_then(|next| next.start_checkpoint());
            let end = self.codons[at].codon.end_checkpoint().map(|(_, sha)| sha.clone());
            // An attempt that a crash ended has no checkpoint of its end: all that differs at the start of the next attempt counts as its work.
            if let Some(end) = end.or_else(|| next_start.clone()) {
                let after_rig = next.and_then(|next| next.rig_setup_checkpoint().cloned());
                let start_of_next = after_rig.or(next_start).unwrap_or_else(|| end.clone());
                attempts.push((std::mem::replace(&mut start, start_of_next), end));
            }
        }
        (!attempts.is_empty()).then_some(CodonWork { attempts })
    }

    /// Returns the position of the oldest attempt of the codon since it last completed or was skipped.
    fn first_attempt(&self, newest: usize) -> Option<usize> {
        let id = self.codons.get(newest)?.codon.codon_id();
        let older = self.codons[newest + 1..].iter();
        Some(newest + older.take_while(|entry| is_unfinished(&entry.codon, id)).count())
    }

    /// Returns the checkpoint of the files with which the work of the codon at this position started, also where no attempt has ended.
    #[must_use]
    pub fn work_began(&self, state: &HankweaveState, newest: usize) -> Option<CheckpointSha> {
        let first = self.first_attempt(newest)?;
        let oldest = self.attempts_outside_thread(state, first).into_iter().next();
        oldest
            .map(|(start, _)| start)
            .or_else(|| self.files_before(state, first))
    }

    /// Returns starts and ends of the attempts of the codon before the one at `first` that are no part of the thread, oldest first. A later run has repeated
    /// them with the files as they were, so no rollback has undone their work.
    fn attempts_outside_thread(
        &self,
        state: &HankweaveState,
        first: usize,
    ) -> Vec<(CheckpointSha, CheckpointSha)> {
        let mut attempts = Vec::new();
        let Some(entry) = self
            .codons
            .get(first)
            .filter(|entry| entry.codon_index_in_run == 0)
        else {
            return attempts;
        };
        let id = entry.codon.codon_id();
        let mut runs = state.runs.iter().skip_while(|run| run.run_id != entry.run_id);
        let mut later = runs.next();
        for run in runs {
            let is_continued = later.is_some_and(|later| later.starting_conditions.source().is_some());
            // A cleanup changes no file of the workspace.
            let is_undone = state
                .operations
                .iter()
                .any(|operation| operation.behind == run.run_id && operation.kind != OperationKind::Cleanup);
            if !is_continued || is_undone {
                break;
            }
            let newest_first = run.codons.iter().rev();
            let unfinished = newest_first.take_while(|attempt| is_unfinished(attempt, id));
            let pairs: Vec<_> = unfinished
                .map_while(|attempt| {
                    let start = attempt.rig_setup_checkpoint().cloned();
                    let start = start.or_else(|| attempt.start_checkpoint())?;
                    Some((start, attempt.end_checkpoint()?.1.clone()))
                })
                .collect();
            let is_whole_run = pairs.len() == run.codons.len();
            attempts.extend(pairs);
            // Older runs count only if this one has nothing but attempts of the codon, all of them with known files.
            if !is_whole_run || run.codons.is_empty() {
                break;
            }
            later = Some(run);
        }
        attempts.reverse();
        attempts
    }

    /// Returns the checkpoint of the files with which the codon at this position started, after its rig; `None` where that is unknown.
    #[must_use]
    pub fn files_before(&self, state: &HankweaveState, at: usize) -> Option<CheckpointSha> {
        let entry = self.codons.get(at)?;
        if let Some(rig) = entry.codon.rig_setup_checkpoint() {
            return Some(rig.clone());
        }
        if let Some(start) = entry.codon.start_checkpoint() {
            return Some(start);
        }
        // Records of older versions have no checkpoint of the start: the files are those after the codon before, or those of the run's start.
        if entry.codon_index_in_run > 0 {
            let (_, end) = self.codons.get(at + 1)?.codon.end_checkpoint()?;
            return Some(end.clone());
        }
        let run = state.run(&entry.run_id)?;
        let named = run.starting_conditions.checkpoint();
        let named = named.filter(|sha| !sha.is_blank());
        named.or(state.initial_checkpoint.as_ref()).cloned()
    }
}

/// Whether this is an attempt of the codon that did not finish it.
fn is_unfinished(attempt: &CodonExecution, id: &CodonId) -> bool {
    attempt.codon_id() == id && !matches!(attempt.status(), CodonStatus::Completed | CodonStatus::Skipped)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::thread::build;

    /// A failed attempt: id, start, rig and end.
    fn failed([id, start, rig, end]: &[&str; 4]) -> Value {
        let mut codon = json!({"codonId": id, "status": "failed", "startTime": "2025-01-04T12:00:00.000Z", "endTime": "2025-01-04T12:00:01.000Z",
            "failedDuring": "running", "exitCode": 1, "failureReason": {"type": "unknown", "retriable": false}, "partialCost": 0,
            "partialTokens": {"inputTokens": 0, "outputTokens": 0, "cacheCreationTokens": 0, "cacheReadTokens": 0}});
        let fields = [
            ("startCheckpoint", start),
            ("rigSetupCheckpoint", rig),
            ("errorCheckpoint", end),
        ];
        for (key, sha) in fields.into_iter().filter(|(_, sha)| !sha.is_empty()) {
            codon[key] = Value::from(*sha);
        }
        codon
    }

    /// The work until `end` in one run with these attempts.
    fn work(attempts: &[[&str; 4]], end: &str) -> Option<Vec<(String, String)>> {
        let document = json!({
            "runs": [{
                "runId": "r", "runFolder": "/p/r", "gitBranch": "run-r", "serverPid": 1, "status": "crashed",
                "startingConditions": {"type": "fresh", "initialCheckpointSha": "s0"},
                "startTime": "2025-01-04T12:00:00.000Z", "endTime": "2025-01-04T12:00:01.000Z",
                "codons": attempts.iter().map(failed).collect::<Vec<_>>(),
            }],
            "currentRunId": null, "executionPlan": [],
        });
        work_in(&document, end)
    }

    fn work_in(document: &Value, end: &str) -> Option<Vec<(String, String)>> {
        let state = crate::document::parse(document.to_string().as_bytes()).unwrap();
        let found = build(&state, None, None).work_until(&state, &CheckpointSha::new(end))?;
        let pair = |(from, to): (CheckpointSha, CheckpointSha)| (from.to_string(), to.to_string());
        Some(found.attempts.into_iter().map(pair).collect())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        let own = |(from, to): &(&str, &str)| ((*from).to_owned(), (*to).to_owned());
        Some(pairs.iter().map(own).collect())
    }

    // covers: HANK-66, CLI-23
    #[test]
    fn the_work_of_a_codon_lies_between_the_beginning_and_the_end_of_each_attempt() {
        let all = [
            ["a", "s1", "", "e1"],
            ["b", "s2", "r2", "e2"],
            ["b", "s3", "r3", "e3"],
            ["b", "s4", "", "e4"],
        ];
        assert_eq!(work(&all, "e1"), pairs(&[("s1", "e1")]));
        assert_eq!(work(&all, "e3"), pairs(&[("r2", "e2"), ("r3", "e3")]));
        assert_eq!(
            work(&all, "e4"),
            pairs(&[("r2", "e2"), ("r3", "e3"), ("s4", "e4")])
        );
        assert_eq!(work(&all, "r3"), None);
    }

    /// The work of `a` in its two attempts, each in a run of its own. The second run continues with the files of the first, and between the two came an
    /// operation of this kind. The oldest run did other work.
    fn work_after(kind: &str) -> Option<Vec<(String, String)>> {
        let run = |id: &str, conditions: Value, codons: Value| {
            json!({"runId": id, "runFolder": "/p/r", "gitBranch": "run-r", "serverPid": 1, "status": "failed", "startingConditions": conditions,
                "startTime": "2025-01-04T12:00:00.000Z", "endTime": "2025-01-04T12:00:01.000Z", "codons": codons})
        };
        let source = json!({"runId": "r2", "afterCodon": null, "checkpointSha": "e1"});
        let again = json!({"type": "continuation", "source": source.clone(), "reason": "continue"});
        let document = json!({
            "runs": [run("r3", again, json!([failed(&["a", "s2", "", "e2"])])),
                run("r2", json!({"type": "fresh"}), json!([failed(&["a", "s1", "", "e1"])])),
                run("r1", json!({"type": "fresh"}), json!([failed(&["b", "s0", "", "e0"])]))],
            "operations": [{"id": "0a", "kind": kind, "command": "x", "at": "2025-01-04T12:00:02.000Z", "behind": "r2", "before": source.clone(),
                "after": source, "files": 0}],
            "currentRunId": null, "executionPlan": [],
        });
        work_in(&document, "e2")
    }

    // covers: HANK-66, RUN-23
    #[test]
    fn a_cleanup_between_two_attempts_undoes_no_work() {
        assert_eq!(work_after("cleanup"), pairs(&[("s1", "e1"), ("s2", "e2")]));
        assert_eq!(work_after("rollback"), pairs(&[("s2", "e2")]));
    }

    // covers: HANK-66, CLI-23
    #[test]
    fn what_a_crash_left_counts_as_work_until_the_next_attempt_starts() {
        let crashed = [["a", "s1", "", ""], ["a", "s2", "", "e2"]];
        assert_eq!(work(&crashed, "e2"), pairs(&[("s1", "s2"), ("s2", "e2")]));
        // Records of older versions have no starts.
        let older = [["a", "", "", "e1"], ["b", "", "", ""], ["b", "", "", "e3"]];
        assert_eq!(work(&older, "e3"), pairs(&[("e1", "e3")]));
        assert_eq!(work(&older, "e1"), pairs(&[("s0", "e1")]));
    }
}
