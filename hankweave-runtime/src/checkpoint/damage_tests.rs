//! What the git store does after crashes and losses: unfinished restores, missing objects, old safety checkpoints.

use std::fs;
use std::path::PathBuf;

use git2::Repository;
use hankweave_core::id::RunId;
use hankweave_core::time::Timestamp;

use super::contract::{Fixture, open_git, request, restore_request};
use super::*;

fn repository(fixture: &Fixture) -> PathBuf {
    fixture.path(".hankweave/checkpoints")
}

/// Removes the object that `spec`, in git's words, names.
fn lose(fixture: &Fixture, spec: &str) {
    let folder = repository(fixture);
    let opened = Repository::open_bare(&folder).unwrap();
    let id = opened.revparse_single(spec).unwrap().id().to_string();
    fs::remove_file(folder.join("objects").join(&id[..2]).join(&id[2..])).unwrap();
}

/// Three files in two versions, each with its checkpoint.
fn two_versions(fixture: &Fixture) -> (Checkpoint, Checkpoint) {
    let [first, second] = ["1", "2"].map(|version| {
        for path in ["a", "b", "c"] {
            fixture.write(path, version);
        }
        fixture.create()
    });
    (first, second)
}

// covers: G8, F1
#[test]
fn a_restore_that_a_crash_cut_off_keeps_its_first_safety_checkpoint() {
    let fixture = Fixture::git();
    let (first, second) = two_versions(&fixture);
    let safety = fixture.store.protect(&restore_request(&first, &second)).unwrap();
    let request = RestoreRequest {
        safety: Some(safety.safety.unwrap().sha),
        ..restore_request(&first, &second)
    };
    // As if it had stopped behind the first file.
    fixture.write("a", "1");
    let (again, _) = open_git(&fixture.workspace);
    assert_eq!(again.restore(&request).unwrap().safety, None);
    for path in ["a", "b", "c"] {
        fixture.reads(path, "1");
    }
}

// covers: G10, F21
#[test]
fn a_missing_checkpoint_hides_no_other() {
    let fixture = Fixture::git();
    let first = fixture.create();
    let second = fixture.create();
    let third = fixture.create();
    lose(&fixture, third.sha.as_str());
    let all = [&first, &second, &third].map(|checkpoint| checkpoint.sha.clone());
    let restorable = fixture.store.restorable(&all).unwrap();
    assert_eq!(restorable.len(), 2);
    let second = &restorable[&second.sha];
    assert_eq!(
        (&second.parent, &second.branch),
        (&Some(first.sha), &third.branch)
    );
    assert!(
        fixture
            .store
            .known()
            .unwrap()
            .values()
            .all(|known| known.branch == "main")
    );
}

// covers: G10, F21
#[test]
fn folders_and_contents_count_as_parts_of_a_checkpoint() {
    for lost in ["", ":src", ":src/deep", ":src/deep/file"] {
        let fixture = Fixture::git();
        fixture.write("src/deep/file", "1");
        let damaged = fixture.create();
        fixture.write("src/deep/file", "2");
        let whole = fixture.create();
        lose(
            &fixture,
            &format!(
                "{}{}",
                damaged.sha,
                if lost.is_empty() { "^{tree}" } else { lost }
            ),
        );
        let missing = fixture.store.verify(&[damaged.sha.clone(), whole.sha]).unwrap();
        assert_eq!(missing, [damaged.sha], "{lost}");
    }
}

// covers: P8, G10
#[test]
fn what_the_cache_takes_for_stored_is_stored_again_when_it_is_gone() {
    let fixture = Fixture::git();
    fixture.write("folder/a", "1");
    let mut last = fixture.create();
    // The file is trusted once the clock of the file system has moved on.
    while stat_cache::StatCache::load(&repository(&fixture))
        .stats
        .is_empty()
    {
        last = fixture.create();
    }
    for lost in [":folder/a", ":folder"] {
        lose(&fixture, &format!("{}{lost}", last.sha));
        let (again, _) = open_git(&fixture.workspace);
        let other_run = CheckpointRequest {
            run_id: RunId::new(format!("after-{}", lost.len())).unwrap(),
            ..request(&[])
        };
        let created = again.create(&other_run).unwrap();
        assert_eq!(again.verify(std::slice::from_ref(&created.sha)).unwrap(), []);
    }
}

#[test]
fn old_safety_checkpoints_are_forgotten_and_recorded_ones_are_kept() {
    let fixture = Fixture::git();
    let (first, second) = two_versions(&fixture);
    let mut targets = [(&first, &second), (&second, &first)].into_iter().cycle();
    let mut made = Vec::new();
    for round in 0..prune::KEPT + 3 {
        let (target, left) = targets.next().unwrap();
        let restore = RestoreRequest {
            at: Timestamp::from_millis(1_736_000_001_000 + i64::try_from(round).unwrap()),
            ..restore_request(target, left)
        };
        made.push(fixture.store.restore(&restore).unwrap().safety.unwrap());
    }
    let pruned = fixture.store.prune(std::slice::from_ref(&made[1].sha)).unwrap();
    assert_eq!(pruned, [made[2].branch.clone(), made[0].branch.clone()]);
    let known = fixture.store.known().unwrap();
    let kept: Vec<bool> = made
        .iter()
        .map(|safety| known.contains_key(&safety.sha))
        .collect();
    assert_eq!(kept[..4], [false, true, false, true]);
    assert!(known.contains_key(&second.sha), "runs keep their branches");
    assert_eq!(fixture.store.prune(&[]).unwrap(), [made[1].branch.clone()]);
}
