use std::io::ErrorKind;
use std::path::Path;

use hankweave_runtime::world::disk::{AppendFile, DirLock, Disk, replace};

use super::{Crash, Plan, SimDisk, Trouble, TroubleKind};
use crate::rng::Rng;

const FILE: &str = "/state/file";

fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(Rng::new(seed));
    disk.plant(Path::new("/state/old"), 0o600, b"old").unwrap();
    disk
}

fn read(disk: &SimDisk, path: &str) -> Option<Vec<u8>> {
    disk.outside().read(Path::new(path), 1_000).ok()
}

fn open(disk: &SimDisk, plan: Plan) -> (SimDisk, Box<dyn AppendFile>) {
    let life = disk.begin_life(plan);
    let file = life.open_append(Path::new(FILE)).unwrap();
    (life, file)
}

/// Returns the content of `path` after `work` and a loss of power, for many seeds.
fn after_power_loss(path: &str, work: impl Fn(&SimDisk)) -> Vec<Option<Vec<u8>>> {
    let end = |seed| {
        let disk = disk(seed);
        work(&disk.begin_life(Plan::default()));
        disk.end_life(Some(Crash::PowerLoss));
        read(&disk, path)
    };
    (0..100).map(end).collect()
}

#[test]
fn a_name_is_durable_after_the_sync_of_its_directory_and_not_after_that_of_its_file() {
    let made = |disk: &SimDisk| disk.create_new(Path::new(FILE), b"new").unwrap();
    let seen = after_power_loss(FILE, made);
    assert!(seen.contains(&None) && seen.contains(&Some(b"new".to_vec())));
    let seen = after_power_loss(FILE, |disk| {
        made(disk);
        disk.sync_dir(Path::new("/state")).unwrap();
    });
    assert!(seen.iter().all(|content| content.as_deref() == Some(b"new")));
}

#[test]
fn a_rename_may_arrive_before_the_content_it_stands_for() {
    let seen = after_power_loss("/state/old", |disk| {
        let mut file = disk.create_append(Path::new(FILE)).unwrap();
        file.append(b"new").unwrap();
        disk.rename(Path::new(FILE), Path::new("/state/old")).unwrap();
    });
    for content in [&b"old"[..], b"", b"new", b"\0\0\0"] {
        assert!(
            seen.iter().any(|seen| seen.as_deref() == Some(content)),
            "{content:?}"
        );
    }
}

// covers: D1
#[test]
fn a_replaced_file_is_the_old_or_the_new_one_and_the_new_one_when_that_was_told() {
    for n in 0..20 {
        let disk = disk(n);
        let crash_at = Some(n);
        let life = disk.begin_life(Plan {
            crash_at,
            ..Plan::default()
        });
        let told = replace(&life, Path::new("/state/old"), b"new").is_ok();
        disk.end_life(Some(Crash::PowerLoss));
        let content = read(&disk, "/state/old").unwrap();
        assert!(content == b"new" || (content == b"old" && !told), "crash at {n}");
    }
}

#[test]
fn a_killed_life_loses_nothing_and_makes_nothing_durable() {
    let seen: Vec<_> = (0..50)
        .map(|seed| {
            let disk = disk(seed);
            let (life, mut file) = open(&disk, Plan::default());
            file.append(b"written").unwrap();
            life.sync_dir(Path::new("/state")).unwrap();
            disk.end_life(Some(Crash::Kill));
            assert_eq!(read(&disk, FILE).unwrap(), b"written");
            let _next = disk.begin_life(Plan::default());
            disk.end_life(Some(Crash::PowerLoss));
            read(&disk, FILE).unwrap()
        })
        .collect();
    assert!(seen.contains(&b"written".to_vec()) && seen.contains(&Vec::new()));
}

#[test]
fn a_life_that_crashed_reaches_the_disk_no_more_and_its_lock_is_free() {
    let disk = disk(0);
    let (life, mut file) = open(&disk, Plan::default());
    let lock = life.lock_dir(Path::new("/state")).unwrap();
    assert!(matches!(lock, DirLock::Acquired(_)));
    disk.crash_now();
    assert!(file.append(b"late").is_err() && life.read(Path::new("/state/old"), 9).is_err());
    disk.end_life(Some(Crash::Kill));
    let next = disk.begin_life(Plan::default());
    assert!(file.append(b"later still").is_err());
    let lock = next.lock_dir(Path::new("/state")).unwrap();
    assert!(matches!(lock, DirLock::Acquired(_)));
    assert!(matches!(
        next.lock_dir(Path::new("/state")).unwrap(),
        DirLock::Held
    ));
    assert_eq!(read(&disk, FILE).unwrap(), b"");
}

#[test]
fn a_full_disk_takes_a_part_and_still_renames() {
    let full = Trouble {
        first: 1,
        last: 2,
        kind: TroubleKind::Full,
    };
    let disk = disk(5);
    let (life, mut file) = open(
        &disk,
        Plan {
            troubles: vec![full],
            ..Plan::default()
        },
    );
    assert_eq!(
        file.write_all(b"12345678").unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    assert!(b"12345678".starts_with(&read(&disk, FILE).unwrap()));
    life.rename(Path::new("/state/old"), Path::new("/state/new"))
        .unwrap();
    file.write_all(b"again").unwrap();
    assert_eq!((disk.operations(), disk.refusals()), (4, 1));
}

// covers: P5
#[test]
fn a_sync_that_is_tried_again_after_it_failed_makes_nothing_durable() {
    let broken = Trouble {
        first: 2,
        last: 2,
        kind: TroubleKind::Broken,
    };
    let disk = disk(0);
    let (life, mut file) = open(
        &disk,
        Plan {
            troubles: vec![broken],
            ..Plan::default()
        },
    );
    file.write_all(b"lost").unwrap();
    assert!(file.sync_data().is_err());
    file.sync_data().unwrap();
    life.sync_dir(Path::new("/state")).unwrap();
    assert_eq!(read(&disk.durable(), FILE).unwrap(), b"");
}

#[test]
fn a_read_that_the_disk_refuses_changes_nothing() {
    let disk = disk(0);
    let life = disk.begin_life(Plan {
        unreadable: 1..3,
        ..Plan::default()
    });
    let read = || {
        life.read(Path::new("/state/old"), 100)
            .map_err(|error| error.raw_os_error())
    };
    let tries = [read(), read(), read(), read()];
    let old = Ok(b"old".to_vec());
    assert_eq!(tries, [old.clone(), Err(Some(5)), Err(Some(5)), old]);
    assert_eq!((disk.operations(), disk.refusals()), (0, 2));
}
