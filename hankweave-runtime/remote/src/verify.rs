//! Verification of a record from a remote, in its staging folder, before it replaces anything (RUN-29).

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use hankweave_core::id::CheckpointSha;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::checkpoint::GitHistory;
use hankweave_runtime::error::chain;
use hankweave_runtime::inspect::recorded_checkpoints;
use hankweave_runtime::journal::JournalTail;
use hankweave_runtime::store::StateFiles;
use hankweave_runtime::world::World;

use crate::error::RemoteError;
use crate::limits::ArrivalLimits;
use crate::manifest::RecordManifest;
use crate::record::{Pieces, PreviousRecord};
use crate::sessions;
use crate::snapshot;

/// Checks that a record's tree holds exactly the files of its manifest, and that the record follows the previous one.
pub(crate) fn shape(
    manifest: &RecordManifest,
    pieces: &Pieces,
    before: Option<&PreviousRecord>,
) -> Result<(), RemoteError> {
    // In the order of the pieces' paths, which is not that of the files: `.` sorts before `/`.
    let listed: BTreeSet<String> = manifest.pieces().map(|(_, piece)| piece).collect();
    if !listed.iter().eq(pieces.keys()) {
        return Err(RemoteError::corrupt("its manifest and its files differ"));
    }
    let Some(before) = before.map(|before| &before.manifest) else {
        return Ok(());
    };
    let follows = before.execution == manifest.execution
        && before.number < manifest.number
        && before.token <= manifest.token;
    match follows {
        true => Ok(()),
        false => Err(RemoteError::corrupt("it does not follow the record before it")),
    }
}

/// Checks a staged directory: state, journal and checkpoints must be complete, match each other and be within the limits. Blocks.
pub(crate) fn content(
    world: &World,
    dir: &ExecutionDir,
    manifest: &RecordManifest,
    limits: &ArrivalLimits,
) -> Result<(), RemoteError> {
    let files = StateFiles::new(Arc::clone(&world.disk), None, dir.state_dir());
    let found = files
        .find()
        .map_err(|error| RemoteError::corrupt(chain(&error)))?;
    let state = snapshot::document(&found).map_err(|error| RemoteError::corrupt(error.to_string()))?;
    if found.log.damaged_lines > 0 {
        return Err(RemoteError::corrupt("lines of state.log"));
    }
    let of_its_runs = sessions::of(&state);
    if manifest
        .sessions
        .iter()
        .any(|session| !of_its_runs.contains(session))
    {
        return Err(RemoteError::corrupt("it brings a session of none of its runs"));
    }
    check_journal(world, dir, manifest)?;
    let damaged = |error: &(dyn std::error::Error + 'static)| RemoteError::corrupt(chain(error));
    let history = GitHistory::open(&dir.checkpoints()).map_err(|error| damaged(&error))?;
    let history = history.ok_or_else(|| RemoteError::corrupt("it has no checkpoints"))?;
    let recorded = recorded_checkpoints(&state);
    let of_branches = history.known().map_err(|error| damaged(&error))?.into_keys();
    let all: Vec<CheckpointSha> = manifest
        .checkpoint
        .iter()
        .chain(&recorded)
        .cloned()
        .chain(of_branches)
        .collect();
    limits.check_checkpoints(&history, &all)?;
    // Checkpoints that were lost before the push are not the remote's fault. Only the checkpoint to start with must exist.
    let lost = history.verify(&recorded).map_err(|error| damaged(&error))?;
    for sha in &lost {
        tracing::warn!(%sha, "a checkpoint was lost before the run was pushed");
    }
    let Some(checkpoint) = &manifest.checkpoint else {
        return Ok(());
    };
    let inspected = history
        .inspect(std::slice::from_ref(checkpoint))
        .map_err(|error| damaged(&error))?;
    match inspected.concat().is_empty() {
        true => Ok(()),
        false => Err(RemoteError::corrupt(format!("its checkpoint {checkpoint}"))),
    }
}

/// Checks that the journal is complete, in order, and ends with the manifest's last event.
fn check_journal(world: &World, dir: &ExecutionDir, manifest: &RecordManifest) -> Result<(), RemoteError> {
    let mut tail = JournalTail::new(Arc::clone(&world.disk), dir.events(), 0);
    let (mut last, mut in_order) = (0, true);
    let passed = tail.read(|line| {
        in_order &= line.seq > last;
        last = line.seq;
        ControlFlow::Continue(())
    });
    let passed = passed.map_err(RemoteError::Io)?;
    let is_whole = in_order && passed.unfinished_bytes == 0 && last == manifest.last_event;
    match is_whole {
        true => Ok(()),
        false => Err(RemoteError::corrupt("its journal")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // covers: RUN-29
    #[test]
    fn files_of_which_one_name_begins_with_another_are_those_of_the_manifest() {
        let manifest = json!({"format": 1, "execution": "runs/a", "token": 0, "number": 0, "lastEvent": 0, "meta": {}, "branches": {},
            "files": {"hank/.env": 7, "hank/.env.example": 7, "hank/X": 7, "hank/X.prod": 7}, "sessions": [], "leftBehind": []});
        let manifest = RecordManifest::parse(manifest.to_string().as_bytes()).unwrap();
        let mut pieces: Pieces = manifest
            .pieces()
            .map(|(_, piece)| (piece, "a".repeat(40)))
            .collect();
        shape(&manifest, &pieces, None).unwrap();
        pieces.remove("hank/X/000000").unwrap();
        assert!(shape(&manifest, &pieces, None).is_err());
    }
}
