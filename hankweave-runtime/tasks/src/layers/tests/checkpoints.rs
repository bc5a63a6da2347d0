use std::os::unix::fs::symlink;

use super::*;
use crate::model::{CheckpointId, LogQuery, Retention};
use crate::testing::{HOUR, SetClock};

fn id(manifest: &crate::model::TaskCheckpointManifest) -> CheckpointId {
    CheckpointId::parse(&manifest.id).unwrap()
}

// covers: TASK-44
#[test]
fn checkpoints_are_copies_and_a_damaged_one_costs_no_other() {
    let stage = Stage::with_task();
    let first = stage.files.create_checkpoint(Some("before the flood")).unwrap();
    stage
        .files
        .update_state(Some(1), |state| pages(state, 2))
        .unwrap();
    let second = stage.files.create_checkpoint(None).unwrap();
    assert_eq!((first.state_version, second.state_version), (Some(1), Some(2)));
    assert_eq!(second.files, [DECISIONS, LOGS, STATE]);
    let copy = |name: &str| stage.text(&format!("{CHECKPOINTS}/{}/{name}", second.id));
    for name in [STATE, LOGS, DECISIONS] {
        assert_eq!(copy(name), stage.text(name));
    }
    stage.write(&format!("{CHECKPOINTS}/checkpoint_1/manifest.json"), "{");
    stage.write(&format!("{CHECKPOINTS}/of others/manifest.json"), "{}");
    stage.write(&format!("{CHECKPOINTS}/.tmp-checkpoint_5/manifest.json"), "{}");
    symlink(&first.id, stage.path(&format!("{CHECKPOINTS}/checkpoint_2"))).unwrap();
    let all = stage.files.checkpoints().unwrap();
    assert_eq!(all.valid, [second.clone(), first.clone()]);
    assert_eq!(all.invalid, ["checkpoint_1", "checkpoint_2", "of others"]);
    assert_eq!(stage.files.checkpoint_id(None).unwrap(), id(&second));
    assert_eq!(
        code(stage.files.checkpoint_id(Some("../x"))),
        "INVALID_CHECKPOINT_ID"
    );
    let absent = CheckpointId::parse("checkpoint_7").unwrap();
    assert_eq!(code(stage.files.read_checkpoint(absent)), "CHECKPOINT_NOT_FOUND");
    assert_eq!(
        code(
            stage
                .files
                .read_checkpoint(CheckpointId::parse("checkpoint_1").unwrap())
        ),
        "CHECKPOINT_CORRUPT"
    );
}

#[test]
fn a_checkpoint_that_another_program_made_is_listed() {
    let stage = Stage::new();
    let state = "{\n  \"taskId\": \"report-7\",\n  \"status\": \"completed\",\n  \"data\": {\n    \"pages\": 3,\n    \"title\": \"Q1 – Übersicht\"\n  },\n  \"lastUpdated\": \"2026-02-03T09:15:00.250Z\",\n  \"checksum\": \"832643dc3e8aa21976c602553dd237155807559b75936065a5d68081eb0a94ed\"\n}";
    let logs = "{\"timestamp\": \"2026-02-03T09:00:00.000Z\", \"level\": \"info\", \"message\": \"Task created\", \"data\": {\"name\": \"Write report\"}}\n{\"timestamp\": \"2026-02-03T09:01:00.000Z\", \"level\": \"info\", \"message\": \"Task started by agent writer\", \"data\": {\"toStatus\": \"running\"}}\n";
    let manifest = "{\n  \"manifestVersion\": 1,\n  \"id\": \"checkpoint_1770110100250\",\n  \"taskId\": \"report-7\",\n  \"timestamp\": \"2026-02-03T09:15:00.250Z\",\n  \"description\": \"before completion\",\n  \"files\": [\n    \"logs.jsonl\",\n    \"state.json\"\n  ],\n  \"checksums\": {\n    \"logs.jsonl\": \"95665eb2e7fec9bbf1395c8568e043a49fea1ffdbb8a911574d56ae5289ad236\",\n    \"state.json\": \"1976004cb9542a2d145df9b5d6047de9f69c8c0e9501c2259827900dfb3f86da\"\n  }\n}";
    let folder = "checkpoints/checkpoint_1770110100250";
    for (name, text) in [(STATE, state), (LOGS, logs)] {
        stage.write(name, text);
        stage.write(&format!("{folder}/{name}"), text);
    }
    stage.write(&format!("{folder}/{MANIFEST}"), manifest);
    let all = stage.files.checkpoints().unwrap();
    assert_eq!((all.valid.len(), all.invalid.len()), (1, 0));
    assert_eq!(all.valid[0].id, "checkpoint_1770110100250");
    let id = id(&all.valid[0]);
    let restored = stage.files.restore_checkpoint(
        id,
        RestoreOptions {
            keep_present: false,
            ..RestoreOptions::default()
        },
    );
    assert_eq!(restored.unwrap().data["pages"], 3);
    assert!(stage.text(LOGS).starts_with(logs));
}

// covers: TASK-45
#[test]
fn a_restore_brings_the_data_back_and_keeps_what_was_there() {
    let stage = Stage::with_task();
    let first = stage.files.create_checkpoint(None).unwrap();
    stage
        .files
        .update_state(Some(3), |state| pages(state, 2))
        .unwrap();
    let options = RestoreOptions {
        status: Some(TaskStatus::Failed),
        token: Some(4),
        ..RestoreOptions::default()
    };
    let state = stage.files.restore_checkpoint(id(&first), options).unwrap();
    assert_eq!(
        (&state.data["pages"], state.status),
        (&json!(1), TaskStatus::Failed)
    );
    assert_eq!((state.version, state.fencing_token), (Some(3), Some(4)));
    assert_eq!(stage.files.load_state().unwrap(), Some(state));
    let kept = stage.files.checkpoints().unwrap().valid.remove(0);
    assert_eq!(kept.description, format!("before restore of {}", first.id));
    let lines = || stage.files.load_log(&LogQuery::default()).unwrap().entries;
    assert_eq!(lines().len(), 3);
    let without = RestoreOptions {
        keep_present: false,
        ..options
    };
    stage.files.restore_checkpoint(id(&first), without).unwrap();
    let messages: Vec<_> = lines().into_iter().map(|line| line.message).collect();
    assert_eq!(
        messages,
        ["line 1", "line 2", "Checkpoint restored", "Checkpoint restored"]
    );
    assert_eq!(stage.files.checkpoints().unwrap().valid.len(), 2);
    stage.files.restore_checkpoint(id(&kept), without).unwrap();
    assert_eq!(stage.files.load_state().unwrap().unwrap().data["pages"], 2);
    let stale = RestoreOptions {
        token: Some(2),
        ..options
    };
    assert_eq!(
        code(stage.files.restore_checkpoint(id(&first), stale)),
        "STALE_TOKEN"
    );
}

// covers: TASK-44
#[test]
fn a_step_that_is_tried_again_leaves_one_checkpoint_until_a_file_changes() {
    let stage = Stage::with_task();
    let descriptions = || {
        let all = stage.files.checkpoints().unwrap().valid;
        all.into_iter().map(|one| one.description).collect::<Vec<_>>()
    };
    stage.files.ensure_checkpoint("before completion").unwrap();
    stage.files.ensure_checkpoint("before completion").unwrap();
    assert_eq!(descriptions(), ["before completion"]);
    stage
        .files
        .update_state(Some(3), |state| pages(state, 2))
        .unwrap();
    stage.files.ensure_checkpoint("before completion").unwrap();
    stage.files.ensure_checkpoint("after it").unwrap();
    assert_eq!(
        descriptions(),
        ["after it", "before completion", "before completion"]
    );
}

// covers: TASK-45
#[test]
fn a_spoiled_checkpoint_changes_nothing() {
    for name in [STATE, LOGS, DECISIONS, MANIFEST] {
        let stage = Stage::with_task();
        let first = stage.files.create_checkpoint(None).unwrap();
        let spoiled = format!("{CHECKPOINTS}/{}/{name}", first.id);
        stage.write(&spoiled, &(stage.text(&spoiled) + "x"));
        let before = stage.everything();
        let restored = stage
            .files
            .restore_checkpoint(id(&first), RestoreOptions::default());
        assert_eq!(code(restored), "CHECKPOINT_CORRUPT", "{name}");
        assert_eq!(
            code(stage.files.compress_checkpoint(id(&first))),
            "CHECKPOINT_CORRUPT"
        );
        assert_eq!(stage.everything(), before);
    }
}

// covers: TASK-46
#[test]
fn the_oldest_checkpoints_go_and_what_is_not_valid_stays() {
    let stage = Stage::with_task();
    let all: Vec<_> = (0..12)
        .map(|_| id(&stage.files.create_checkpoint(None).unwrap()))
        .collect();
    stage.write(&format!("{CHECKPOINTS}/checkpoint_1/note"), "of a person");
    let retention = Retention {
        last: 10,
        days: 0,
        weeks: 0,
        ..Retention::default()
    };
    assert_eq!(stage.files.rotate_checkpoints(&retention).unwrap(), all[..2]);
    let small = Retention {
        bytes: 1,
        ..retention
    };
    assert_eq!(stage.files.rotate_checkpoints(&small).unwrap(), all[2..11]);
    let left = stage.files.checkpoints().unwrap();
    assert_eq!(
        (id(&left.valid[0]), left.valid.len(), left.invalid),
        (all[11], 1, vec!["checkpoint_1".to_owned()])
    );
}

// covers: TASK-47
#[test]
fn a_packed_checkpoint_is_restored_like_any_other() {
    let stage = Stage::with_task();
    let first = stage.files.create_checkpoint(None).unwrap();
    let plain = stage.files.read_checkpoint(id(&first)).unwrap();
    stage.files.compress_checkpoint(id(&first)).unwrap();
    stage.files.compress_checkpoint(id(&first)).unwrap();
    let mut names: Vec<_> = std::fs::read_dir(stage.path(&format!("{CHECKPOINTS}/{}", first.id)))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["decisions.md", "logs.jsonl.gz", "manifest.json", "state.json.gz"]
    );
    assert_eq!(stage.files.read_checkpoint(id(&first)).unwrap(), plain);
    assert_eq!(stage.files.pack_checkpoints().unwrap(), 0);
    // As after a crash between state and log.
    let logs = format!("{CHECKPOINTS}/{}/{LOGS}", first.id);
    std::fs::remove_file(stage.path(&format!("{logs}.gz"))).unwrap();
    stage.write(&logs, &stage.text(LOGS));
    assert_eq!(stage.files.pack_checkpoints().unwrap(), 1);
    assert!(stage.path(&format!("{logs}.gz")).exists() && !stage.path(&logs).exists());
    assert_eq!(
        stage.files.checkpoints().unwrap().valid,
        std::slice::from_ref(&first)
    );
    stage
        .files
        .update_state(Some(1), |state| pages(state, 2))
        .unwrap();
    let restored = stage.files.restore_checkpoint(
        id(&first),
        RestoreOptions {
            token: Some(1),
            ..RestoreOptions::default()
        },
    );
    assert_eq!(restored.unwrap().data["pages"], 1);
}

// covers: TASK-100
#[test]
fn a_checkpoint_is_the_newest_also_when_the_clock_went_back() {
    let clock = SetClock::at_noon();
    let stage = Stage::with_task();
    let world = World {
        clock: clock.clone(),
        ..World::real()
    };
    let files = files_in(stage.folder.path(), world);
    let mut made = Vec::new();
    for jump in [0, -HOUR, 2 * HOUR, -HOUR, -HOUR] {
        clock.jump(jump);
        files
            .update_state(Some(1), |state| pages(state, made.len() as u64))
            .unwrap();
        made.push(files.create_checkpoint(None).unwrap());
    }
    let noon = id(&made[0]).millis();
    let hour = HOUR as u64;
    let ids: Vec<u64> = made.iter().map(|manifest| id(manifest).millis()).collect();
    assert_eq!(
        ids,
        [noon, noon + 1, noon + hour, noon + hour + 1, noon + hour + 2]
    );
    made.reverse();
    assert_eq!(files.checkpoints().unwrap().valid, made);
    assert_eq!(files.load_state().unwrap().unwrap().version, Some(6));
    let state = files
        .restore_checkpoint(
            id(&made[4]),
            RestoreOptions {
                token: Some(1),
                ..RestoreOptions::default()
            },
        )
        .unwrap();
    assert_eq!((&state.data["pages"], state.version), (&json!(0), Some(7)));
}

// covers: TASK-95
#[test]
fn who_has_lost_the_lock_makes_no_checkpoint() {
    let stage = Stage::with_task();
    stage
        .files
        .update_state(Some(7), |state| pages(state, 2))
        .unwrap();
    let before = stage.everything();
    let stale = stage.files.create_checkpoint_under(Some(6), None);
    assert_eq!((code(stale), stage.everything()), ("STALE_TOKEN", before));
    let made = stage.files.create_checkpoint_under(Some(7), None).unwrap();
    assert_eq!(
        made.description,
        format!("Checkpoint created at {}", made.timestamp)
    );
}
