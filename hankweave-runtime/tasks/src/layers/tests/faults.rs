//! Fault injection: each disk operation fails in turn, or is the last one before a crash. Afterwards the files have the old or the new contents.

use std::io::ErrorKind;

use rustix::io::Errno;

use super::*;
use crate::model::{CheckpointId, LogQuery, Retention};

/// Operation on the files of a task.
type Work = fn(&TaskFiles) -> Result<(), LayerError>;

/// Faults of one kind at an operation, and the number of operations at which they can happen.
type Kind = (fn(u64) -> Vec<Fault>, fn(&FaultyDisk) -> u64);

/// Faults of operations that change something, and faults of any operation.
const KINDS: [Kind; 2] = [
    (
        |number| {
            let errors = [ErrorKind::StorageFull, ErrorKind::ReadOnlyFilesystem];
            let errors = errors.map(|error| Fault::FailAt(number, error));
            [&[Fault::CrashAt(number)], &errors[..]].concat()
        },
        FaultyDisk::operations,
    ),
    (
        |number| {
            let errors = [Errno::IO, Errno::MFILE];
            errors
                .map(|error| Fault::ErrorAt(number, error.raw_os_error()))
                .to_vec()
        },
        FaultyDisk::all_operations,
    ),
];

/// Runs `work` on a fresh task with every fault in turn, and passes the remaining files and the answer of `work` to `check`.
fn with_every_fault(
    prepare: impl Fn(&Stage),
    work: impl Fn(&TaskFiles) -> Result<(), LayerError>,
    check: impl Fn(&Stage, Result<(), LayerError>),
) {
    let ends = KINDS.map(|(faults, operations)| {
        let happens = |number, fault| {
            let stage = Stage::with_task();
            prepare(&stage);
            let (disk, files) = stage.faulty(fault);
            let answer = unhindered(|| work(&files));
            if let Err(error) = &answer {
                assert!(is_told(error, fault), "{fault:?} {error:?}");
            }
            sweep(&stage);
            check(&stage, answer);
            operations(&disk) > number
        };
        let all_happen = |number| faults(number).into_iter().all(|fault| happens(number, fault));
        (0..).find(|number| !all_happen(*number))
    });
    assert!(ends[1] > Some(2), "nothing was done");
}

/// Whether the caller should get this error for the fault. An unreadable checkpoint counts as damaged, unless the fault is temporary.
fn is_told(error: &LayerError, fault: Fault) -> bool {
    let is_passing = matches!(fault, Fault::ErrorAt(_, error) if error == Errno::MFILE.raw_os_error());
    let of_checkpoints = [
        "CHECKPOINT_CORRUPT",
        "CHECKPOINT_NOT_FOUND",
        "STATE_UNRECOVERABLE",
    ];
    ["STATE_SAVE_FAILED", "STATE_LOAD_FAILED"].contains(&error.code())
        || (!is_passing && of_checkpoints.contains(&error.code()))
}

/// Sweeps while no other process works there; see [`unhindered`]. No unfinished file may remain.
fn sweep(stage: &Stage) {
    while !stage.files.layers.sweep().unwrap().held.is_empty() {
        std::thread::yield_now();
    }
    if stage.files.path().exists() {
        let unfinished = |path: &String| path.contains(".tmp");
        assert!(!stage.everything().keys().any(unfinished));
    }
}

fn found(stage: &Stage) -> u64 {
    stage.files.load_state().unwrap().unwrap().data["pages"]
        .as_u64()
        .unwrap()
}

// covers: TASK-42, TASK-94
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
            unhindered(|| stage.files.update_state(Some(1), |state| pages(state, 3))).unwrap();
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
    let prepare = |stage: &Stage| drop(unhindered(|| stage.files.create_checkpoint(None)).unwrap());
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
            unhindered(|| stage.files.create_checkpoint(None)).unwrap();
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
        unhindered(|| stage.files.create_checkpoint(Some("wanted"))).unwrap();
        unhindered(|| stage.files.update_state(Some(1), |state| pages(state, 2))).unwrap();
        // An unrelated log, so that the saved lines return as well.
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
                .restore_checkpoint(files.checkpoint_id(None)?, options)
                .map(drop)
        },
        |stage, answer| {
            assert!(if answer.is_ok() {
                found(stage) == 1
            } else {
                [1, 2].contains(&found(stage))
            });
            unhindered(|| stage.files.restore_checkpoint(wanted(&stage.files), options)).unwrap();
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
    let prepare = |stage: &Stage| drop(unhindered(|| stage.files.create_checkpoint(None)).unwrap());
    let newest = |files: &TaskFiles| files.checkpoint_id(None);
    with_every_fault(
        prepare,
        |files| files.compress_checkpoint(newest(files)?),
        |stage, _| {
            let id = newest(&stage.files).unwrap();
            stage.files.read_checkpoint(id).unwrap();
            unhindered(|| stage.files.compress_checkpoint(id)).unwrap();
            stage.files.read_checkpoint(id).unwrap();
        },
    );
}

// covers: TASK-49, TASK-94
#[test]
fn a_recovery_that_was_cut_short_is_done_again() {
    let prepare = |stage: &Stage| {
        unhindered(|| stage.files.create_checkpoint(None)).unwrap();
        stage.write(STATE, "broken");
    };
    with_every_fault(
        prepare,
        |files| files.recover(None, None).map(drop),
        |stage, answer| {
            let again = unhindered(|| stage.files.recover(None, None)).unwrap();
            assert!(answer.is_err() || again.method == RecoveredBy::Nothing);
            assert_eq!(found(stage), 1);
            let is_kept = stage.everything().into_values().any(|bytes| bytes == b"broken");
            assert!(is_kept, "nothing is thrown away");
        },
    );
}

// covers: TASK-94
#[test]
fn a_page_of_decisions_keeps_every_one_that_was_promised() {
    with_every_fault(
        |_| {},
        |files| files.append_decision(&decision()),
        |stage, answer| {
            stage.files.append_decision(&decision()).unwrap();
            let page = stage.files.load_decisions().unwrap();
            let whole = page.entries.iter().filter(|entry| **entry == decision());
            assert!(whole.count() >= if answer.is_ok() { 3 } else { 2 } && page.broken < 2);
        },
    );
}

// covers: TASK-94
#[test]
fn what_cannot_be_read_is_told_and_stays_as_it_is() {
    let prepare = |stage: &Stage| drop(unhindered(|| stage.files.create_checkpoint(None)).unwrap());
    let reads: [Work; 6] = [
        |files| files.load_state().map(drop),
        |files| files.load_log(&LogQuery::default()).map(drop),
        |files| files.log_seqs().map(drop),
        |files| files.load_decisions().map(drop),
        |files| files.checkpoints().map(drop),
        |files| files.read_checkpoint(files.checkpoint_id(None)?).map(drop),
    ];
    for read in reads {
        with_every_fault(prepare, read, |stage, _| {
            let before = stage.everything();
            read(&stage.files).unwrap();
            assert_eq!(stage.everything(), before);
            assert_eq!((before.len(), found(stage)), (7, 1));
        });
    }
}

// covers: TASK-94
#[test]
fn a_rotation_that_was_cut_short_is_done_again() {
    let keeps_one = Retention {
        last: 1,
        days: 0,
        weeks: 0,
        ..Retention::default()
    };
    let prepare = |stage: &Stage| {
        for _ in 0..3 {
            unhindered(|| stage.files.create_checkpoint(None)).unwrap();
        }
    };
    with_every_fault(
        prepare,
        |files| files.rotate_checkpoints(&keeps_one).map(drop),
        |stage, _| {
            let newest = stage.files.checkpoint_id(None).unwrap();
            stage.files.read_checkpoint(newest).unwrap();
            unhindered(|| stage.files.rotate_checkpoints(&keeps_one)).unwrap();
            let left = stage.files.checkpoints().unwrap();
            assert_eq!((left.valid.len(), left.invalid.len()), (1, 0));
            assert_eq!(left.valid[0].id, newest.to_string());
        },
    );
}

// covers: TASK-94
#[test]
fn behind_a_removal_nothing_of_a_task_is_there_or_all_of_it() {
    let prepare = |stage: &Stage| drop(unhindered(|| stage.files.create_checkpoint(None)).unwrap());
    with_every_fault(prepare, TaskFiles::remove, |stage, answer| {
        match stage.files.path().exists() {
            true => assert!(answer.is_err() && stage.everything().len() == 7),
            false => assert_eq!(stage.files.layers.tasks().unwrap(), []),
        }
        unhindered(|| stage.files.remove()).unwrap();
        assert!(!stage.files.path().exists());
    });
}

// covers: TASK-94
#[test]
fn a_legacy_state_is_taken_over_as_a_whole_or_stays() {
    let prepare = |stage: &Stage| {
        let text = stage.text(STATE);
        let sum = text.split('"').find(|word| word.len() == 64).unwrap();
        let text = text.replace(sum, &"0".repeat(90));
        stage.write(STATE, &text);
    };
    with_every_fault(
        prepare,
        |files| files.import_legacy_state().map(drop),
        |stage, answer| {
            let again = unhindered(|| stage.files.import_legacy_state()).unwrap();
            assert!(answer.is_err() || !again);
            assert_eq!(found(stage), 1);
        },
    );
}
