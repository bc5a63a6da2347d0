//! Real registries that stop answering while a worker works, and answer again.

use std::io::Write;
use std::path::{Path, PathBuf};

use hankweave_testing::TinyDisk;
use hankweave_testing::postgres::Cluster;

use super::*;
use crate::postgres::Postgres;
use crate::sqlite::Sqlite;

/// Installs a run that ends when the test permits it.
fn until_told(stage: &Stage) {
    let folder = stage.folder.path().display();
    let script =
        format!("#!/bin/sh\necho > {folder}/started\nwhile ! test -e {folder}/go; do sleep 0.01; done\n");
    std::fs::write(stage.folder.path().join("hankweave"), script).unwrap();
}

/// Ends the run while the registry does not answer, and restores the registry once the worker has noticed.
async fn ends_while_away(stage: &Stage, leave: impl FnOnce(), come_back: impl FnOnce()) {
    let (worked, ()) = stage
        .beside(async |_| {
            stage.until("started").await;
            leave();
            std::fs::write(stage.folder.path().join("go"), "").unwrap();
            while stage.worker.lifecycle().metrics().failed.get() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            come_back();
        })
        .await;
    let completed = WorkerSummary {
        completed: 1,
        ..WorkerSummary::default()
    };
    assert_eq!(worked, completed, "{:?}", stage.status().await);
    assert_eq!(stage.status().await.0, TaskStatus::Completed);
    assert_eq!(stage.state().status, TaskStatus::Completed);
    assert_eq!(ends(stage), 1);
    assert!(stage.coordinator.held().await.unwrap().is_empty());
}

/// Returns the number of log lines about the completion of the task.
fn ends(stage: &Stage) -> usize {
    let lines = stage.lines().into_iter();
    lines.filter(|line| line.starts_with("Task completed")).count()
}

// covers: TASK-101
#[tokio::test]
async fn a_task_completes_once_although_another_program_has_the_file_when_its_run_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let registry = Sqlite::open_with_busy_timeout(&path, World::real().clock, Duration::from_millis(20));
    let stage = stage_on(Arc::new(registry), "", |options| {
        options.lease = Duration::from_secs(20)
    })
    .await;
    until_told(&stage);
    let other = rusqlite::Connection::open(&path).unwrap();
    let run = |sql: &str| other.execute_batch(sql).unwrap();
    ends_while_away(&stage, || run("BEGIN IMMEDIATE"), || run("ROLLBACK")).await;
}

// covers: TASK-102
#[tokio::test]
async fn a_task_completes_once_although_its_database_is_away_when_its_run_ends() {
    let cluster = match Cluster::start(true) {
        Ok(cluster) => cluster,
        Err(skip) => return println!("{skip}"),
    };
    let registry = Postgres::open(&cluster.url("postgres")).await.unwrap();
    let stage = stage_on(Arc::new(registry), "", |options| {
        options.lease = Duration::from_secs(60)
    })
    .await;
    until_told(&stage);
    let (stop, start) = (|| cluster.stop().unwrap(), || cluster.start_again().unwrap());
    ends_while_away(&stage, stop, start).await;
    stage.coordinator.close().await;
}

/// Lets the lease of a worker end while the registry does not answer. Another worker completes the task once the registry answers again.
async fn is_completed_by_another(stage: &Stage, leave: impl FnOnce(), come_back: impl FnOnce()) {
    let program = stage.folder.path().join("hankweave");
    let folder = stage.folder.path().display().to_string();
    std::fs::write(&program, format!("#!/bin/sh\n{}", until_terminated(&folder))).unwrap();
    let (worked, ()) = stage
        .beside(async |_| {
            stage.until("started").await;
            leave();
            // By the worker's own clock, without an answer of the registry.
            stage.until("terminated").await;
            come_back();
        })
        .await;
    assert_eq!((worked.lost, worked.completed), (1, 0));
    assert_eq!(stage.status().await.0, TaskStatus::Running);
    let now = async || stage.coordinator.now().await.unwrap();
    let held = stage.coordinator.held().await.unwrap();
    for lock in held {
        while lock.lives(now().await) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let mut second = stage.worker.clone();
    let mut options = WorkerOptions::clone(&second.options);
    (options.name, options.orphans) = ("w2".into(), OrphanPolicyConfig::Requeue { tries: 5 });
    // Only the lease of the first worker must end.
    options.lease = Duration::from_secs(60);
    second.options = Arc::new(options);
    std::fs::write(&program, format!("#!/bin/sh\n{CODON}")).unwrap();
    assert_eq!(second.work(&Shutdown::new()).await.unwrap().completed, 1);
    let (status, row) = stage.status().await;
    assert_eq!(
        (status, &row["attempt"], &row["agentId"], ends(stage)),
        (TaskStatus::Completed, &json!(2), &json!("w2"), 1)
    );
}

fn with_a_short_lease(options: &mut WorkerOptions) {
    options.orphans = OrphanPolicyConfig::Leave;
    options.lease = Duration::from_secs(2);
}

// covers: TASK-102
#[tokio::test]
async fn a_task_whose_lease_ends_while_its_database_is_away_is_stopped_and_completed_by_another() {
    let cluster = match Cluster::start(true) {
        Ok(cluster) => cluster,
        Err(skip) => return println!("{skip}"),
    };
    let registry = Postgres::open(&cluster.url("postgres")).await.unwrap();
    let stage = stage_on(Arc::new(registry), "", with_a_short_lease).await;
    let (stop, start) = (|| cluster.stop().unwrap(), || cluster.start_again().unwrap());
    is_completed_by_another(&stage, stop, start).await;
    stage.coordinator.close().await;
}

/// Returns a task of a registry on its own disk, and the path of a file that fills the disk.
async fn stage_on_tiny_disk(disk: &TinyDisk, change: impl FnOnce(&mut WorkerOptions)) -> (Stage, PathBuf) {
    let path = disk.path().join("registry.db");
    let registry = Sqlite::open(&path, World::real().clock).await.unwrap();
    let stage = stage_on(Arc::new(registry), "", change).await;
    (stage, disk.path().join("ballast"))
}

/// Fills the disk of this file.
fn fill(ballast: &Path) {
    let mut file = std::fs::File::create(ballast).unwrap();
    let full = loop {
        if let Err(error) = file.write(&[0; 4096]) {
            break error;
        }
    };
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{full}");
}

/// Checks that each step of the task has exactly one log line.
async fn has_no_half_step(stage: &Stage) {
    let row = stage.row().await;
    let lines = stage.coordinator.log_lines(stage.files.id().clone(), 0).await;
    let seqs: Vec<u64> = lines.unwrap().iter().filter_map(|line| line.seq).collect();
    assert!(seqs.iter().copied().eq(1..=row.log_seq), "{seqs:?}");
    assert_eq!(row.version, row.log_seq, "a line a step");
    stage.coordinator.close().await;
}

// covers: TASK-117
#[tokio::test]
async fn a_task_completes_once_although_its_registry_has_no_room_when_its_run_ends() {
    let disk = match TinyDisk::mount(1024) {
        Ok(disk) => disk,
        Err(skip) => return println!("{skip}"),
    };
    let (stage, ballast) = stage_on_tiny_disk(&disk, |options| options.lease = Duration::from_secs(20)).await;
    until_told(&stage);
    let empty = || std::fs::remove_file(&ballast).unwrap();
    ends_while_away(&stage, || fill(&ballast), empty).await;
    has_no_half_step(&stage).await;
}

// covers: TASK-117
#[tokio::test]
async fn a_task_whose_lease_ends_while_its_registry_has_no_room_is_completed_by_another() {
    let disk = match TinyDisk::mount(1024) {
        Ok(disk) => disk,
        Err(skip) => return println!("{skip}"),
    };
    let (stage, ballast) = stage_on_tiny_disk(&disk, with_a_short_lease).await;
    let empty = || std::fs::remove_file(&ballast).unwrap();
    is_completed_by_another(&stage, || fill(&ballast), empty).await;
    has_no_half_step(&stage).await;
}
