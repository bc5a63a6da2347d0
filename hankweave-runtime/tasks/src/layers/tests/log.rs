use std::time::Duration;

use super::*;
use crate::model::LogQuery;

// covers: TASK-43
#[tokio::test(start_paused = true)]
async fn lines_are_durable_when_their_level_says() {
    for (durability, syncs) in [
        (Durability::Buffered, [0, 0, 0, 1]),
        (Durability::Batch, [0, 0, 1, 1]),
        (Durability::Each, [1, 2, 3, 3]),
    ] {
        let stage = Stage::new();
        let (disk, files) = stage.faulty(Fault::None);
        let mut log = files.open_log(durability).unwrap();
        log.append(&[]).unwrap();
        assert_eq!((log.sync_due(), disk.syncs()), (None, 0));
        let mut seen = Vec::new();
        for wait in [0, 60, 60] {
            tokio::time::advance(Duration::from_millis(wait)).await;
            log.append(&[line(&files, 1)]).unwrap();
            seen.push(disk.syncs());
        }
        log.sync().unwrap();
        log.sync().unwrap();
        seen.push(disk.syncs());
        assert_eq!(seen, syncs, "{durability:?}");
        log.append(&[line(&files, 1), line(&files, 2)]).unwrap();
        let due = log.sync_due().map(|due| due - tokio::time::Instant::now());
        let waits = (durability == Durability::Batch).then_some(Duration::from_millis(100));
        assert_eq!(due, waits, "{durability:?}");
    }
}

// covers: TASK-43
#[test]
fn lines_of_many_writers_stay_whole() {
    let stage = Stage::new();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let files = stage.files.clone();
            scope.spawn(move || {
                let mut log = files.open_log(Durability::Buffered).unwrap();
                for number in 0..50 {
                    let two = [line(&files, writer), line(&files, number)];
                    log.append(&two).unwrap();
                }
            });
        }
    });
    let logs = stage.files.load_log(&LogQuery::default()).unwrap();
    assert_eq!((logs.entries.len(), logs.broken), (800, 0));
}

// covers: TASK-43
#[test]
fn a_torn_end_gets_its_newline_and_numbers_of_the_registry_are_found() {
    let stage = Stage::new();
    let mut numbered = line(&stage.files, 1);
    numbered.seq = Some(41);
    stage.files.append_log(&[numbered]).unwrap();
    let torn = stage.text(LOGS) + "{\"timestamp\":\"2026";
    stage.write(LOGS, &torn);
    stage.files.append_log(&[line(&stage.files, 2)]).unwrap();
    stage.files.append_log(&[]).unwrap();
    let logs = stage.files.load_log(&LogQuery::default()).unwrap();
    assert_eq!((logs.entries.len(), logs.broken), (2, 1));
    assert!(stage.text(LOGS).starts_with(&format!("{torn}\n{{")));
    assert_eq!(
        stage.files.log_seqs().unwrap().into_iter().collect::<Vec<_>>(),
        [41]
    );
    let second = LogQuery {
        offset: 1,
        limit: Some(9),
        ..LogQuery::default()
    };
    assert_eq!(
        stage.files.load_log(&second).unwrap().entries[0].message,
        "line 2"
    );
}

#[test]
fn decisions_come_back_from_their_file() {
    let stage = Stage::with_task();
    stage.write(
        DECISIONS,
        &(stage.text(DECISIONS) + "## 2026-01-31T12:00:00.000Z\n\n**Age"),
    );
    stage.files.append_decision(&decision()).unwrap();
    let page = stage.files.load_decisions().unwrap();
    assert_eq!((page.entries, page.broken), (vec![decision(), decision()], 1));
}
