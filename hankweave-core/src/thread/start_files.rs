//! Files with which the work began that a rollback undoes (RUN-2, STATE-71).

use super::{ExecutionThread, ThreadCodon};
use crate::codon::CheckpointType;
use crate::document::{ContinuationReason, ContinuationSource, HankweaveState, StartingConditions};
use crate::id::CheckpointSha;

/// Beginning of the work that a rollback undoes.
#[derive(Debug, Clone)]
pub struct StartOfWork<'t> {
    /// The oldest codon that is undone.
    pub first: &'t ThreadCodon,
    /// Checkpoint of the files with which it started: those of the target, with all changes of the user since then.
    pub checkpoint: CheckpointSha,
}

impl ExecutionThread {
    /// Returns the beginning of the work that a rollback to `source` undoes.
    ///
    /// `None` where it is not recorded, and where the files of that moment held unfinished work already: those of an attempt that the user ran again with the
    /// files as they were, or of a rig. A rollback to the end of a set-up undoes the attempts that had it.
    #[must_use]
    pub fn start_of_undone(
        &self,
        state: &HankweaveState,
        source: &ContinuationSource,
    ) -> Option<StartOfWork<'_>> {
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
            let first = self.codons[target..].iter().take_while(has_it).last()?;
            let checkpoint = source.checkpoint_sha.clone();
            return Some(StartOfWork { first, checkpoint });
        }
        let count = match &source.after_codon {
            Some(_) => self.codons.iter().position(is_target)?,
            None => self.codons.len(),
        };
        let first = self.codons.get(count.checked_sub(1)?)?;
        let run = state.run(&first.run_id)?;
        if first.codon_index_in_run == 0 && holds_work(state, &run.starting_conditions) {
            return None;
        }
        let checkpoint = first.codon.start_checkpoint()?;
        Some(StartOfWork { first, checkpoint })
    }
}

/// Whether a run that started this way began with unfinished work in its files.
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

    /// One run that was cut off in `b`, after `a`, and that began this way.
    fn found(conditions: serde_json::Value, after: Option<&str>) -> Option<(String, String)> {
        let codon = |id: &str, start: &str| {
            json!({"codonId": id, "status": "failed", "startTime": "2025-01-04T12:00:00.000Z", "endTime": "2025-01-04T12:00:01.000Z",
                "failedDuring": "running", "exitCode": -1, "failureReason": {"type": "unknown", "retriable": false}, "partialCost": 0,
                "partialTokens": {"inputTokens": 0, "outputTokens": 0, "cacheCreationTokens": 0, "cacheReadTokens": 0},
                "startCheckpoint": start})
        };
        let document = json!({
            "runs": [{
                "runId": "r", "runFolder": "/p/r", "gitBranch": "run-r", "serverPid": 1, "status": "crashed",
                "startingConditions": conditions, "startTime": "2025-01-04T12:00:00.000Z", "endTime": "2025-01-04T12:00:01.000Z",
                "codons": [codon("a", "s1"), codon("a", "s2"), codon("b", "s3")],
            }],
            "currentRunId": null, "executionPlan": [],
        });
        let state = crate::document::parse(document.to_string().as_bytes()).unwrap();
        let mut source = ContinuationSource::beginning_of(&"r".parse().unwrap());
        source.after_codon = after.map(|id| id.parse().unwrap());
        let thread = build(&state, None, None);
        let found = thread.start_of_undone(&state, &source)?;
        Some((
            found.first.codon.codon_id().to_string(),
            found.checkpoint.to_string(),
        ))
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
        // The files held what an earlier attempt had done.
        assert_eq!(found(again("retry"), None), None);
        assert_eq!(found(again("retry"), Some("a")), of("b", "s3"));
    }
}
