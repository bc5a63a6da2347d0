//! Behaviour of the git store after crashes and losses: unfinished restores, missing objects, old safety checkpoints.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use git2::Repository;
use hankweave_core::id::RunId;
use hankweave_core::time::Timestamp;
use rustix::fs::FileType;

use super::contract::{Fixture, open_git, request, restore_request};
use super::*;

fn repository(fixture: &Fixture) -> PathBuf {
    fixture.path(".hankweave/checkpoints")
}

/// Returns the path of the object that `spec` names, in git's notation.
fn object(fixture: &Fixture, spec: &str) -> PathBuf {
    let folder = repository(fixture);
    let opened = Repository::open_bare(&folder).unwrap();
    let id = opened.revparse_single(spec).unwrap().id().to_string();
    folder.join("objects").join(&id[..2]).join(&id[2..])
}

fn lose(fixture: &Fixture, spec: &str) {
    fs::remove_file(object(fixture, spec)).unwrap();
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

/// The files of loose objects, in order.
fn loose_objects(fixture: &Fixture) -> Vec<PathBuf> {
    let folder = repository(fixture).join("objects");
    let entries = |folder: PathBuf| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let by_name = entries(folder).filter(|path| path.file_name().unwrap().len() == 2);
    let mut files: Vec<_> = by_name.flat_map(entries).collect();
    files.sort();
    files
}

// covers: P8, G6, F2, F3
#[test]
fn what_an_unfinished_checkpoint_left_is_not_taken_for_durable() {
    let [finished, unfinished] = [Fixture::git(), Fixture::git()];
    for fixture in [&finished, &unfinished] {
        fixture.write("folder/a", "1");
    }
    let before = loose_objects(&unfinished);
    let created = finished.create();
    // Its objects have their names and no content: so a power loss leaves them, and so a disk that refused them.
    for object in loose_objects(&finished) {
        let place = repository(&unfinished).join(object.strip_prefix(repository(&finished)).unwrap());
        if !before.contains(&place) {
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, "").unwrap();
        }
    }
    assert_eq!(unfinished.create().sha, created.sha);
    let history = GitHistory::open(&repository(&unfinished)).unwrap().unwrap();
    assert_eq!(history.inspect(std::slice::from_ref(&created.sha)).unwrap(), [[]]);
    assert_eq!(loose_objects(&unfinished).len(), loose_objects(&finished).len());
}

/// A power loss or a bad disk can leave the beginning of any object.
// covers: G10, F21
#[test]
fn an_object_that_ends_too_early_is_found_and_keeps_nobody_waiting() {
    let fixture = Fixture::git_to_damage();
    fixture.write("folder/a", &"some content ".repeat(500));
    let (first, second) = two_versions(&fixture);
    let objects = loose_objects(&fixture);
    let (done, ended) = std::sync::mpsc::channel();
    let all = [first.sha.clone(), second.sha.clone()];
    std::thread::spawn(move || {
        let mut of_others = 0;
        for object in objects {
            let whole = fs::read(&object).unwrap();
            fs::set_permissions(&object, fs::Permissions::from_mode(0o644)).unwrap();
            let mut unnoticed = 0;
            for length in (0..whole.len()).step_by(7) {
                fs::write(&object, &whole[..length]).unwrap();
                let history = GitHistory::open(&repository(&fixture)).unwrap().unwrap();
                history.known().unwrap();
                history.restorable(&all).unwrap();
                let good = history.inspect(&all).unwrap().iter().all(Vec::is_empty);
                unnoticed += usize::from(good);
                let restored = fixture.store.plan_restore(&restore_request(&first, &second));
                assert!(restored.is_ok() || !good, "{object:?}");
            }
            fs::write(&object, whole).unwrap();
            // The checkpoint before any run, and its empty folder, belong to none of the two.
            of_others += usize::from(unnoticed > 0);
        }
        // At last the one without which a repository has no beginning.
        let opened = Repository::open_bare(repository(&fixture)).unwrap();
        let main = opened.revparse_single("main").unwrap().id().to_string();
        let main = repository(&fixture)
            .join("objects")
            .join(&main[..2])
            .join(&main[2..]);
        let half = fs::read(&main).unwrap();
        fs::write(&main, &half[..half.len() / 2]).unwrap();
        done.send((of_others, open_git(&fixture.workspace).1.mended))
    });
    let deadline = std::time::Duration::from_secs(60);
    assert_eq!(ended.recv_timeout(deadline), Ok((2, true)));
}

/// A foreign entry in the place of an object is found without waiting for it and without more memory than an object may need.
// covers: G10, F21
#[test]
fn what_is_no_object_of_ours_is_found_and_neither_waited_for_nor_inflated() {
    let fixture = Fixture::git_to_damage();
    fixture.write("folder/a", "some content");
    let created = fixture.create();
    let opened = Repository::open_bare(repository(&fixture)).unwrap();
    let name = |spec: &str| {
        let found = opened.revparse_single(&format!("{}{spec}", created.sha));
        found.unwrap().id().to_string()
    };
    let objects = ["", ":", ":folder", ":folder/a"].map(name);
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for (place, object) in objects.iter().enumerate() {
            // The store has these folders in memory and does not need them in the repository.
            let is_folder = [1, 2].contains(&place);
            let file = repository(&fixture)
                .join("objects")
                .join(&object[..2])
                .join(&object[2..]);
            let whole = fs::read(&file).unwrap();
            for stand_in in 0..5 {
                fs::remove_file(&file).unwrap();
                match stand_in {
                    0 => make_special(&file, FileType::Fifo),
                    4 => make_special(&file, FileType::Socket),
                    1 => std::os::unix::fs::symlink("/dev/zero", &file).unwrap(),
                    // One header claims a terabyte, the other five bytes; both objects have more content than that.
                    2 => fs::write(&file, bomb(b"tree 1099511627776\0")).unwrap(),
                    _ => fs::write(&file, bomb(b"blob 5\0")).unwrap(),
                }
                let history = GitHistory::open(&repository(&fixture)).unwrap().unwrap();
                let found = history.inspect(std::slice::from_ref(&created.sha)).unwrap();
                assert!(!found[0].is_empty(), "{object} {stand_in}");
                history.known().unwrap();
                let request = RestoreRequest {
                    left: None,
                    ..restore_request(&created, &created)
                };
                fixture.write("folder/a", "other");
                let restored = fixture
                    .store
                    .plan_restore(&request)
                    .and_then(|_| fixture.store.protect(&request));
                assert!(restored.is_err() || is_folder, "{object} {stand_in}");
                fixture.reads("folder/a", "other");
            }
            fs::remove_file(&file).unwrap();
            fs::write(&file, whole).unwrap();
        }
        done.send(())
    });
    let deadline = std::time::Duration::from_secs(60);
    assert_eq!(ended.recv_timeout(deadline), Ok(()));
}

fn make_special(path: &Path, kind: FileType) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
}

/// A header and very many zeros after it, compressed.
fn bomb(header: &[u8]) -> Vec<u8> {
    let mut stream = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    stream.write_all(header).unwrap();
    stream.write_all(&vec![0; 16 << 20]).unwrap();
    stream.finish().unwrap()
}

// covers: P8
#[test]
fn what_a_finished_checkpoint_holds_is_not_stored_twice() {
    let fixture = Fixture::git();
    fixture.write("a", "1");
    fixture.create();
    let mut objects = loose_objects(&fixture);
    let written = |path: &PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    let before: Vec<_> = objects.iter().map(written).collect();
    // Content that exists already, only later, and once more elsewhere.
    fixture.write("a", "1");
    fixture.write("b", "1");
    fixture.create();
    assert_eq!(objects.iter().map(written).collect::<Vec<_>>(), before);
    objects.extend(loose_objects(&fixture));
    objects.sort();
    objects.dedup();
    assert_eq!(objects.len(), before.len() + 2, "a tree and a commit");
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
    // As if it had stopped after the first file.
    fixture.write("a", "1");
    let (again, _) = open_git(&fixture.workspace);
    assert_eq!(again.restore(&request).unwrap().safety, None);
    for path in ["a", "b", "c"] {
        fixture.reads(path, "1");
    }
}

// covers: G8, P9, F1, F21
#[test]
fn a_restore_removes_what_an_interrupted_one_has_left() {
    let fixture = Fixture::git();
    fixture.write("d/e", "1");
    let (first, second) = two_versions(&fixture);
    let left = [".hankweave.restore-0", "d/.hankweave.restore-1"];
    // As if it had stopped after the last file, and once in the middle.
    for target in [(&second, &second), (&first, &second)] {
        for path in left {
            fixture.write(path, "what was there before");
        }
        let folder = fixture.path(".hankweave.restore-2");
        fs::create_dir_all(&folder).unwrap();
        fixture
            .store
            .restore(&restore_request(target.0, target.1))
            .unwrap();
        for path in left {
            assert!(!fixture.path(path).exists(), "{path}");
        }
        assert!(folder.exists(), "a folder is somebody else's");
    }
}

// covers: G10, F21
#[test]
fn a_missing_checkpoint_hides_no_other() {
    let fixture = Fixture::git_to_damage();
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
            .list()
            .unwrap()
            .values()
            .all(|known| known.branch == "main")
    );
}

// covers: G10, F21
#[test]
fn folders_and_contents_count_as_parts_of_a_checkpoint() {
    for lost in ["", ":src", ":src/deep", ":src/deep/file"] {
        let fixture = Fixture::git_to_damage();
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

// covers: P8, G10, F21
#[test]
fn what_the_cache_takes_for_stored_is_stored_again_when_it_is_gone_or_damaged() {
    let fixture = Fixture::git_to_damage();
    fixture.write("folder/a", "1");
    let mut last = fixture.create();
    // The file is trusted once the clock of the file system has moved on.
    while stat_cache::StatCache::load(&repository(&fixture))
        .stats
        .is_empty()
    {
        last = fixture.create();
    }
    let damaged = |path: &Path| {
        fs::remove_file(path).unwrap();
        fs::write(path, [0; 100]).unwrap();
    };
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 4] = [
        (":folder/a", |path| fs::remove_file(path).unwrap()),
        (":folder", |path| fs::remove_file(path).unwrap()),
        (":folder", damaged),
        (":folder", |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir_all(path.join("inner")).unwrap();
        }),
    ];
    for (number, (spec, damage)) in damages.into_iter().enumerate() {
        damage(&object(&fixture, &format!("{}{spec}", last.sha)));
        let (again, _) = open_git(&fixture.workspace);
        let other_run = CheckpointRequest {
            run_id: RunId::new(format!("after-{number}")).unwrap(),
            ..request(&[])
        };
        let created = again.create(&other_run).unwrap();
        assert_eq!(again.verify(std::slice::from_ref(&created.sha)).unwrap(), []);
    }
}

/// Contents with other bytes are there, so only reading them shows it: all of them are read before the first file changes.
// covers: G8, F21
#[test]
fn a_restore_that_needs_damaged_contents_changes_no_file() {
    let fixture = Fixture::git_to_damage();
    let (first, second) = two_versions(&fixture);
    let contents = object(&fixture, &format!("{}:c", first.sha));
    fs::set_permissions(&contents, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&contents, [0; 100]).unwrap();
    let error = fixture
        .store
        .restore(&restore_request(&first, &second))
        .unwrap_err();
    assert!(matches!(error, RestoreError::History(_)), "{error}");
    for path in ["a", "b", "c"] {
        fixture.reads(path, "2");
    }
}

/// Objects that are damaged in a pack are written again as loose objects, and these are the ones to read.
// covers: P8, G10
#[test]
fn an_object_that_was_written_anew_is_read_instead_of_the_damaged_one_in_a_pack() {
    // To git an object of 15 bytes, which cannot be inflated, and one of a kind that does not exist.
    for byte in [0x1f, 0] {
        let fixture = Fixture::git_to_damage();
        fixture.write("kept/a", "1");
        for number in 0..git_format::PACKED_FROM {
            fixture.write(&format!("many/{number}"), &number.to_string());
        }
        let damaged = fixture.create();
        let packs = fs::read_dir(repository(&fixture).join("objects/pack")).unwrap();
        let packs = packs.map(|entry| entry.unwrap().path());
        for pack in packs.filter(|path| path.extension().is_some_and(|extension| extension == "pack")) {
            let mut bytes = fs::read(&pack).unwrap();
            let body = 12..bytes.len() - 20;
            bytes[body].fill(byte);
            fs::remove_file(&pack).unwrap();
            fs::write(&pack, bytes).unwrap();
        }
        let history = GitHistory::open(&repository(&fixture)).unwrap().unwrap();
        let found = history.inspect(std::slice::from_ref(&damaged.sha)).unwrap();
        assert_ne!(found, [[]], "{byte}");
        fs::remove_dir_all(fixture.path("many")).unwrap();
        let (again, _) = open_git(&fixture.workspace);
        let other_run = CheckpointRequest {
            run_id: RunId::new("after").unwrap(),
            ..request(&[])
        };
        let created = again.create(&other_run).unwrap();
        assert_eq!(again.verify(std::slice::from_ref(&created.sha)).unwrap(), []);
        assert_eq!(history.inspect(std::slice::from_ref(&created.sha)).unwrap(), [[]]);
        assert_eq!(history.files(&created.sha).unwrap().len(), 1);
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
    let known = fixture.store.list().unwrap();
    let kept: Vec<bool> = made
        .iter()
        .map(|safety| known.contains_key(&safety.sha))
        .collect();
    assert_eq!(kept[..4], [false, true, false, true]);
    assert!(known.contains_key(&second.sha), "runs keep their branches");
    assert_eq!(fixture.store.prune(&[]).unwrap(), [made[1].branch.clone()]);
}
