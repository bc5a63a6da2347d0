use super::*;
use crate::model::LogQuery;

// covers: TASK-49
#[test]
fn a_broken_state_comes_back_from_the_newest_checkpoint_that_is_whole() {
    let stage = Stage::with_task();
    let older = stage.files.create_checkpoint(None).unwrap();
    stage
        .files
        .update_state(Some(1), |state| pages(state, 2))
        .unwrap();
    let newer = stage.files.create_checkpoint(None).unwrap();
    assert_eq!(
        stage.files.recover(None, None).unwrap().method,
        RecoveredBy::Nothing
    );
    for (spoiled, from, found) in [(None, &newer.id, 2), (Some(&newer.id), &older.id, 1)] {
        if let Some(id) = spoiled {
            stage.write(&format!("{CHECKPOINTS}/{id}/{LOGS}"), "spoiled");
        }
        stage.write(STATE, "broken");
        let recovered = stage.files.recover(Some(TaskStatus::Failed), Some(9)).unwrap();
        assert!(matches!(&recovered.method, RecoveredBy::Checkpoint(id) if id.to_string() == *from));
        assert_eq!(
            (&recovered.state.data["pages"], recovered.state.status),
            (&json!(found), TaskStatus::Failed)
        );
        assert_eq!(stage.text(&recovered.kept.unwrap()), "broken");
        assert_eq!(stage.files.load_state().unwrap(), Some(recovered.state));
    }
    let last = stage
        .files
        .load_log(&LogQuery::default())
        .unwrap()
        .entries
        .pop()
        .unwrap();
    assert_eq!(
        (&*last.message, &last.data.unwrap()["checkpointId"]),
        ("State recovered", &json!(older.id))
    );
}

// covers: TASK-49
#[test]
fn without_a_checkpoint_the_log_tells_the_status_or_nothing_is_touched() {
    let stage = Stage::new();
    assert_eq!(code(stage.files.recover(None, None)), "STATE_UNRECOVERABLE");
    assert!(!stage.files.path().exists());
    stage.write(STATE, "broken");
    stage.write(LOGS, "{\"torn");
    let before = stage.everything();
    assert_eq!(code(stage.files.recover(None, None)), "STATE_UNRECOVERABLE");
    assert_eq!(stage.everything(), before);
    let changes = ["running", "failed"].map(|status| {
        stage
            .files
            .entry(LogLevel::Info, "changed", Some(json!({"toStatus": status})))
    });
    stage.files.append_log(&changes).unwrap();
    stage.files.append_log(&[line(&stage.files, 1)]).unwrap();
    stage.write(LOGS, &(stage.text(LOGS) + "{\"torn again"));
    let recovered = stage.files.recover(None, None).unwrap();
    assert_eq!(
        (recovered.method, recovered.state.status),
        (RecoveredBy::Log, TaskStatus::Failed)
    );
    assert!(recovered.state.data.is_empty());
    let logs = stage.files.load_log(&LogQuery::default()).unwrap();
    assert_eq!((logs.entries.len(), logs.broken), (4, 2));
}

// covers: TASK-50
#[test]
fn a_start_sweeps_away_what_is_unfinished_where_nobody_works() {
    let stage = Stage::with_task();
    let manifest = stage.files.create_checkpoint(None).unwrap();
    let before = stage.everything();
    stage.write("state.json.abc.tmp", "half");
    stage.write(".tmp-x/y", "half");
    stage.write("checkpoints/.tmp-checkpoint_9/state.json", "half");
    stage.write(
        &format!("checkpoints/{}/state.json.gz.1.tmp", manifest.id),
        "half",
    );
    let layers = stage.files.layers.clone();
    std::fs::create_dir(layers.root().join(".tmp-gone-x")).unwrap();
    std::fs::write(layers.root().join("other"), "a file").unwrap();
    let lock = stage.files.lock().unwrap();
    let swept = layers.sweep().unwrap();
    assert_eq!(
        (swept.removed, swept.held),
        (vec![".tmp-gone-x".to_owned()], vec![TASK.to_owned()])
    );
    assert_eq!(code(stage.files.remove()), "RESOURCE_LOCKED");
    drop(lock);
    assert_eq!(layers.sweep().unwrap().removed.len(), 4);
    assert_eq!(stage.everything(), before);
    stage.files.remove().unwrap();
    stage.files.remove().unwrap();
    assert_eq!(std::fs::read_dir(layers.root()).unwrap().count(), 1);
}
