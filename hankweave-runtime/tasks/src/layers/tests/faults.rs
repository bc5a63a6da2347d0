//! Each operation of the disk fails in its turn, or is the last before a crash. What is there afterwards is what was there before, or what was wanted.

use std::io;

use super::*;
use crate::model::{CheckpointId, LogQuery};

/// Does `work` on a fresh task with every fault in turn, and lets `check` look at what is left, with the answer that `work` gave.
fn with_every_fault(
    prepare: impl Fn(&Stage),
    work: impl Fn(&TaskFiles) -> Result<(), LayerError>,
    check: impl Fn(&Stage, Result<(), LayerError>),
) {
    let plans = |n| [Fault::CrashAt(n), Fault::FailAt(n, io::ErrorKind::StorageFull)];
    for number in 0.. {
        let mut happened = false;
        for fault in plans(number) {
            let stage = Stage::with_task();
            prepare(&stage);
            let (disk, files) = stage.faulty(fault);
            let answer = work(&files);
            happened |= disk.operations() > number;
            if let Err(error) = &answer {
                assert!(
                    ["STATE_SAVE_FAILED", "STATE_LOAD_FAILED"].contains(&error.code()),
                    "{fault:?} {error:?}"
                );
            }
            stage.files.layers.sweep().unwrap();
            let unfinished = |path: &String| path.contains(".tmp");
            assert!(!stage.everything().keys().any(unfinished), "{fault:?}");
            check(&stage, answer);
        }
        if !happened {
            assert!(number > 2, "nothing was done");
            return;
        }
    }
}

fn found(stage: &Stage) -> u64 {
    stage.files.load_state().unwrap().unwrap().data["pages"]
        .as_u64()
        .unwrap()
}

// covers: TASK-42
#[test]
fn a_state_is_the_old_one_or_the_new_one() {
    let work = |files: &TaskFiles| files.update_state(Some(1), |state| pages(state, 2)).map(drop);
    with_every_fault(
        |_| {},
        work,
        |stage, answer| {
            assert!(if answer.is_ok() {
                found(stage) == 2
            } else {
                [1, 2].contains(&found(stage))
            });
            stage
                .files
                .update_state(Some(1), |state| pages(state, 3))
                .unwrap();
        },
    );
}

// covers: TASK-43
#[test]
fn a_log_keeps_every_line_that_was_promised() {
    let work = |files: &TaskFiles| files.append_log(&[line(files, 3), line(files, 4)]);
    with_every_fault(
        |_| {},
        work,
        |stage, answer| {
            stage.files.append_log(&[line(&stage.files, 5)]).unwrap();
            let logs = stage.files.load_log(&LogQuery::default()).unwrap();
            let all: Vec<_> = logs.entries.iter().map(|entry| &entry.message[5..]).collect();
            assert!(
                all.starts_with(&["1", "2"]) && all.ends_with(&["5"]) && logs.broken < 2,
                "{all:?}"
            );
            assert!(answer.is_err() || all == ["1", "2", "3", "4", "5"], "{all:?}");
        },
    );
}

// covers: TASK-44
#[test]
fn a_checkpoint_is_there_as_a_whole_or_not_at_all() {
    let prepare = |stage: &Stage| drop(stage.files.create_checkpoint(None).unwrap());
    with_every_fault(
        prepare,
        |files| files.create_checkpoint(None).map(drop),
        |stage, answer| {
            let all = stage.files.checkpoints().unwrap();
            assert!(all.invalid.is_empty() && all.valid.len() + usize::from(answer.is_err()) >= 2);
            for manifest in &all.valid {
                stage
                    .files
                    .read_checkpoint(CheckpointId::parse(&manifest.id).unwrap())
                    .unwrap();
            }
            stage.files.create_checkpoint(None).unwrap();
            assert_eq!(
                stage.files.checkpoints().unwrap().valid.len(),
                all.valid.len() + 1
            );
        },
    );
}

// covers: TASK-45
#[test]
fn a_restore_that_was_cut_short_is_done_again() {
    let prepare = |stage: &Stage| {
        stage.files.create_checkpoint(Some("wanted")).unwrap();
        stage
            .files
            .update_state(Some(1), |state| pages(state, 2))
            .unwrap();
        // A log of another life, so that the lines come back as well.
        std::fs::remove_file(stage.path(LOGS)).unwrap();
    };
    let wanted = |files: &TaskFiles| {
        let all = files.checkpoints().unwrap().valid;
        let manifest = all
            .iter()
            .find(|manifest| manifest.description == "wanted")
            .unwrap();
        CheckpointId::parse(&manifest.id).unwrap()
    };
    let options = RestoreOptions {
        token: Some(1),
        ..RestoreOptions::default()
    };
    with_every_fault(
        prepare,
        |files| {
            files
                .restore_checkpoint(CheckpointId::parse(&files.checkpoints()?.valid[0].id)?, options)
                .map(drop)
        },
        |stage, answer| {
            assert!(if answer.is_ok() {
                found(stage) == 1
            } else {
                [1, 2].contains(&found(stage))
            });
            stage
                .files
                .restore_checkpoint(wanted(&stage.files), options)
                .unwrap();
            let logs = stage.files.load_log(&LogQuery::default()).unwrap();
            let lines = logs
                .entries
                .iter()
                .filter(|entry| entry.message.starts_with("line"));
            assert_eq!((found(stage), lines.count()), (1, 2));
        },
    );
}

// covers: TASK-47
#[test]
fn a_checkpoint_is_whole_at_every_moment_while_it_is_packed() {
    let prepare = |stage: &Stage| drop(stage.files.create_checkpoint(None).unwrap());
    let newest = |files: &TaskFiles| files.checkpoint_id(None);
    with_every_fault(
        prepare,
        |files| files.compress_checkpoint(newest(files)?),
        |stage, _| {
            let id = newest(&stage.files).unwrap();
            stage.files.read_checkpoint(id).unwrap();
            stage.files.compress_checkpoint(id).unwrap();
            stage.files.read_checkpoint(id).unwrap();
        },
    );
}

// covers: TASK-49
#[test]
fn a_recovery_that_was_cut_short_is_done_again() {
    let prepare = |stage: &Stage| {
        stage.files.create_checkpoint(None).unwrap();
        stage.write(STATE, "broken");
    };
    with_every_fault(
        prepare,
        |files| files.recover(None, None).map(drop),
        |stage, answer| {
            let again = stage.files.recover(None, None).unwrap();
            assert!(answer.is_err() || again.method == RecoveredBy::Nothing);
            assert_eq!(found(stage), 1);
            let is_kept = stage.everything().into_values().any(|bytes| bytes == b"broken");
            assert!(is_kept, "nothing is thrown away");
        },
    );
}
