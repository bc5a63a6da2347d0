//! How often packs are opened and folders are read, counted and not timed.

use hankweave_core::id::RunId;

use super::contract::{Fixture, open_git, request, restore_request};
use super::git_format::counts::count;
use super::*;

/// Folders of the larger of two trees, each with one file; the smaller has half of them.
const FOLDERS: usize = 1_200;

/// Returns a project with this number of folders: one checkpoint is in a pack, and one folder differs in a second checkpoint.
fn project(folders: usize) -> (Fixture, Checkpoint, Checkpoint) {
    let fixture = Fixture::git();
    for number in 0..folders {
        fixture.write(&format!("tree/{number}/file"), &number.to_string());
    }
    let first = fixture.create();
    fixture.write("tree/7/file", "changed");
    let second = fixture.create();
    (fixture, first, second)
}

// covers: G13
#[test]
fn a_start_opens_each_pack_once_and_reads_each_folder_once() {
    for folders in [FOLDERS / 2, FOLDERS] {
        let (fixture, first, second) = project(folders);
        let both = [first.sha, second.sha];
        let (found, packs, trees) = count(|| {
            let (again, _) = open_git(&fixture.workspace);
            again.restorable(&both).unwrap()
        });
        assert_eq!(found.len(), 2);
        // Once for the cache of the newest checkpoint, and once for what is only in the other one.
        assert!(packs <= 2, "{packs} packs were opened for {folders} folders");
        // The first folder of the repository, and of each checkpoint the outermost two and the one that differs.
        assert!(trees <= folders + 8, "{trees} folders were read of {folders}");
    }
}

// covers: G13
#[test]
fn folders_that_are_the_same_in_two_checkpoints_are_not_read() {
    for folders in [FOLDERS / 2, FOLDERS] {
        let (fixture, first, second) = project(folders);
        let (changes, packs, trees) = count(|| fixture.store.diff(&first.sha, &second.sha).unwrap());
        assert_eq!(changes.len(), 1);
        assert!(packs <= 1 && trees <= 6, "{packs} packs, {trees} folders");

        let restore = restore_request(&first, &second);
        let (report, packs, trees) = count(|| fixture.store.restore(&restore).unwrap());
        assert_eq!(report.done.write.len(), 1);
        assert!(packs <= 3 && trees <= 10, "{packs} packs, {trees} folders");
        fixture.reads("tree/7/file", "7");
        let inspected = GitHistory::open(&fixture.path(".hankweave/checkpoints")).unwrap();
        let (damage, packs, _) = count(|| {
            inspected
                .unwrap()
                .inspect(std::slice::from_ref(&first.sha))
                .unwrap()
        });
        assert_eq!((damage, packs), (vec![Vec::new()], 1));
    }
}

/// A checkpoint that copies parts of another one without reading them equals one that reads everything.
#[test]
fn a_checkpoint_is_the_same_with_and_without_a_known_one() {
    let (fixture, first, second) = project(20);
    fixture.write("tree/7/deep/er/file", "1");
    fixture.write("tree.txt", "1");
    let third = fixture.create();
    let opened = repository::open(&fixture.path(".hankweave/checkpoints")).unwrap();
    let reader = history::open_reader(&opened).unwrap();
    let all = [&first, &second, &third];
    for known in all {
        let known = history::load(&reader, &known.sha, None).unwrap();
        for wanted in all {
            let read = history::load(&reader, &wanted.sha, None).unwrap();
            let with = history::load(&reader, &wanted.sha, Some((&known.files, &known.folders))).unwrap();
            assert_eq!((with.files, with.folders), (read.files, read.folders));
        }
    }
    let names = |from: &Checkpoint, to: &Checkpoint| {
        let changes = fixture.store.diff(&from.sha, &to.sha).unwrap();
        changes
            .iter()
            .map(|change| format!("{:?} {}", change.kind, change.path))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(&first, &third),
        [
            "Added tree.txt",
            "Added tree/7/deep/er/file",
            "Modified tree/7/file"
        ]
    );
    assert_eq!(
        names(&third, &second),
        ["Deleted tree.txt", "Deleted tree/7/deep/er/file"]
    );
    fixture.store.restore(&restore_request(&first, &third)).unwrap();
    assert!(!fixture.path("tree.txt").exists() && !fixture.path("tree/7/deep").exists());
}

/// A pack that another process writes while one reads is found, too.
#[test]
fn a_pack_that_comes_later_is_found() {
    let (fixture, first, _) = project(600);
    let opened = repository::open(&fixture.path(".hankweave/checkpoints")).unwrap();
    let reader = history::open_reader(&opened).unwrap();
    history::load(&reader, &first.sha, None).unwrap();
    for number in 0..600 {
        fixture.write(&format!("more/{number}/file"), &format!("more {number}"));
    }
    let run_id = RunId::new("1736000000001-b").unwrap();
    let later = CheckpointRequest {
        run_id,
        ..request(&[])
    };
    let later = fixture.store.create(&later).unwrap();
    assert_eq!(
        history::load(&reader, &later.sha, None).unwrap().files.len(),
        1_200
    );
}
