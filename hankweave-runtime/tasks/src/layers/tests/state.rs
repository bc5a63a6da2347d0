use super::*;

const SEALED: &str = "{\n  \"taskId\": \"report-7\",\n  \"status\": \"completed\",\n  \"data\": {\n    \"pages\": 3,\n    \"title\": \"Q1 – Übersicht\"\n  },\n  \"lastUpdated\": \"2026-02-03T09:15:00.250Z\",\n  \"checksum\": \"832643dc3e8aa21976c602553dd237155807559b75936065a5d68081eb0a94ed\"\n}";

// covers: TASK-40
#[test]
fn a_state_that_others_sealed_is_read_and_a_damaged_one_is_left_as_it_is() {
    let stage = Stage::new();
    assert_eq!(stage.files.load_state().unwrap(), None);
    assert!(!stage.folder.path().join("root").exists());
    stage.write(STATE, SEALED);
    let state = stage.files.load_state().unwrap().unwrap();
    assert_eq!(
        (state.status, &state.data["pages"]),
        (TaskStatus::Completed, &json!(3))
    );
    for (damaged, expected) in [
        (SEALED[..90].to_owned(), "STATE_LOAD_FAILED"),
        (String::new(), "STATE_LOAD_FAILED"),
        (SEALED.replace("report-7", "report-8"), "STATE_VALIDATION_FAILED"),
        (SEALED.replace(": 3", ": 4"), "STATE_VALIDATION_FAILED"),
    ] {
        stage.write(STATE, &damaged);
        assert_eq!(code(stage.files.load_state()), expected);
        assert_eq!(
            code(stage.files.update_state(None, |state| pages(state, 9))),
            expected
        );
        assert_eq!(code(stage.files.create_checkpoint(None)), expected);
        assert_eq!(stage.text(STATE), damaged);
    }
    stage.write(
        STATE,
        &SEALED.replace(
            "832643dc3e8aa21976c602553dd237155807559b75936065a5d68081eb0a94ed",
            &"0".repeat(90),
        ),
    );
    assert_eq!(code(stage.files.load_state()), "STATE_VALIDATION_FAILED");
    assert!(stage.files.import_legacy_state().unwrap());
    assert_eq!(stage.text(STATE), SEALED);
    assert!(!stage.files.import_legacy_state().unwrap());
}

// covers: TASK-41, TASK-42
#[test]
fn a_stale_writer_and_an_earlier_version_change_nothing() {
    let stage = Stage::with_task();
    let state = stage
        .files
        .update_state(Some(7), |state| pages(state, 2))
        .unwrap();
    assert_eq!((state.version, state.fencing_token), (Some(2), Some(7)));
    let before = stage.text(STATE);
    assert_eq!(
        code(stage.files.update_state(Some(6), |state| pages(state, 3))),
        "STALE_TOKEN"
    );
    assert_eq!(code(stage.files.save_state(&state)), "VERSION_CONFLICT");
    let mut too_large = state.clone();
    too_large.version = Some(3);
    too_large.data.insert("n".into(), json!(1u64 << 60));
    assert_eq!(code(stage.files.save_state(&too_large)), "STATE_SAVE_FAILED");
    assert_eq!(stage.text(STATE), before);
    let mut next = state;
    next.version = Some(3);
    stage.files.save_state(&next).unwrap();
    assert_eq!(stage.files.load_state().unwrap(), Some(next));
    assert_eq!(std::fs::read_dir(stage.files.path()).unwrap().count(), 3);
}

// covers: TASK-42
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_writers_none_loses_what_another_wrote() {
    let stage = Stage::with_task();
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let files = stage.files.clone();
            tokio::spawn(async move {
                let mut written = 0;
                for _ in 0..20 {
                    let once = files.run(|files| {
                        files.update_state(Some(1), |state| {
                            let pages = state.data["pages"].as_u64().unwrap();
                            super::pages(state, pages + 1);
                        })
                    });
                    // A writer that finds the folder locked three times gives up with an error.
                    match once.await {
                        Ok(_) => written += 1,
                        Err(error) => assert_eq!(error.code(), "RESOURCE_LOCKED"),
                    }
                }
                written
            })
        })
        .collect();
    let mut written = 1;
    for writer in writers {
        written += writer.await.unwrap();
    }
    let state = stage.files.load_state().unwrap().unwrap();
    assert_eq!(
        (state.data["pages"].as_u64(), state.version),
        (Some(written), Some(written))
    );
    assert!(written > 20, "{written}");
}
