//! Contract of every checkpoint store, run against each of them over real folders.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use hankweave_core::codon::CheckpointType;
use hankweave_core::id::{CheckpointSha, CodonId, RunId};
use hankweave_core::time::Timestamp;
use hankweave_testing::git::SoundAtEnd;

use super::*;

/// A workspace with a store. Its fields are dropped in this order, and git checks the repository first.
pub(super) struct Fixture {
    _sound: Option<SoundAtEnd>,
    pub(super) folder: tempfile::TempDir,
    pub(super) workspace: PathBuf,
    pub(super) store: Box<dyn CheckpointStore>,
}

impl Fixture {
    pub(super) fn git() -> Self {
        let fixture = Self::git_to_damage();
        let repository = fixture.path(".hankweave/checkpoints");
        Self {
            _sound: Some(SoundAtEnd(repository)),
            ..fixture
        }
    }

    /// Makes a store for a repository that the test damages, with which git then finds fault in the end.
    pub(super) fn git_to_damage() -> Self {
        Self::with(|workspace| Box::new(open_git(workspace).0))
    }

    fn memory() -> Self {
        Self::with(|workspace| Box::new(MemoryCheckpoints::new(workspace)))
    }

    fn with(store: impl FnOnce(&Path) -> Box<dyn CheckpointStore>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("project");
        fs::create_dir_all(workspace.join(".hankweave")).unwrap();
        let store = store(&workspace);
        Self {
            _sound: None,
            folder,
            workspace,
            store,
        }
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.workspace.join(path)
    }

    pub(super) fn write(&self, path: &str, contents: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    #[track_caller]
    pub(super) fn reads(&self, path: &str, contents: &str) {
        assert_eq!(fs::read_to_string(self.path(path)).unwrap(), contents, "{path}");
    }

    #[track_caller]
    pub(super) fn create(&self) -> Checkpoint {
        self.store.create(&request(&[])).unwrap()
    }

    #[track_caller]
    fn restore(&self, target: &Checkpoint, left: &Checkpoint) -> RestoreReport {
        self.store.restore(&restore_request(target, left)).unwrap()
    }

    /// The files of `checkpoint`, as what was added since the empty checkpoint `empty`.
    fn files(&self, empty: &Checkpoint, checkpoint: &Checkpoint) -> Vec<String> {
        let changes = self.store.diff(&empty.sha, &checkpoint.sha).unwrap();
        changes.iter().map(|change| change.path.to_string()).collect()
    }
}

/// Opens the checkpoints of `workspace`.
pub(super) fn open_git(workspace: &Path) -> (GitCheckpoints, OpenReport) {
    GitCheckpoints::open(&open_request(workspace)).unwrap()
}

pub(super) fn open_request(workspace: &Path) -> OpenStoreRequest {
    OpenStoreRequest {
        repository: workspace.join(".hankweave/checkpoints"),
        workspace: workspace.to_owned(),
        at: Timestamp::from_millis(1_736_000_000_000),
        nonce: "nonce".to_owned(),
        most_bytes: MAX_FILE_BYTES,
    }
}

pub(super) fn request(patterns: &[&str]) -> CheckpointRequest {
    CheckpointRequest {
        kind: CheckpointType::Completed,
        run_id: RunId::new("1736000000000-a").unwrap(),
        codon_id: CodonId::new("review").unwrap(),
        codon_name: "Review".to_owned(),
        patterns: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
        left_out: BTreeSet::new(),
        parent: None,
        at: Timestamp::from_millis(1_736_000_000_123),
        duration: None,
    }
}

pub(super) fn restore_request(target: &Checkpoint, left: &Checkpoint) -> RestoreRequest {
    RestoreRequest {
        target: target.sha.clone(),
        left: Some(left.sha.clone()),
        spares_changed: false,
        safety: None,
        at: Timestamp::from_millis(1_736_000_001_000),
    }
}

pub(super) fn initial(fixture: &Fixture) -> Checkpoint {
    let at = Timestamp::from_millis(1_736_000_000_000);
    fixture
        .store
        .initial(&InitialRequest {
            patterns: Vec::new(),
            at,
        })
        .unwrap()
}

fn reasons(checkpoint: &Checkpoint) -> Vec<(String, SkipReason)> {
    checkpoint
        .skipped
        .iter()
        .map(|skipped| (skipped.path.to_string(), skipped.reason))
        .collect()
}

/// Everything in a folder, to see that nothing changed.
pub(super) fn photograph(folder: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut seen = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let contents = if meta.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else if meta.is_symlink() {
                fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes()
            } else {
                fs::read(&path).unwrap()
            };
            seen.push((path, meta.mode(), contents));
        }
    }
    seen.sort();
    seen
}

macro_rules! contract {
    ($($name:ident,)*) => {
        mod git {
            $(#[test] fn $name() { super::$name(&super::Fixture::git()); })*
        }
        mod memory {
            $(#[test] fn $name() { super::$name(&super::Fixture::memory()); })*
        }
    };
}

contract! {
    an_unchanged_workspace_still_gives_each_codon_its_checkpoint,
    what_stands_before_a_codon_gets_a_checkpoint_where_it_has_changed,
    what_was_created_is_known_with_its_branch_and_message,
    a_run_continues_from_the_checkpoint_it_names,
    a_stale_parent_is_refused,
    without_patterns_everything_is_taken_that_is_not_ignored,
    with_patterns_the_matching_and_the_tracked_are_taken,
    what_must_stay_out_is_reported,
    a_file_larger_than_the_limit_is_reported,
    a_bad_pattern_makes_no_checkpoint,
    an_unknown_checkpoint_is_told_from_an_error,
    only_what_can_be_restored_is_restorable,
    hostile_names_come_back,
    executable_bits_and_links_come_back,
    a_restore_deletes_only_what_the_left_checkpoint_had,
    a_restore_never_writes_through_a_link,
    a_folder_in_the_place_of_a_file_is_saved_and_replaced,
    a_file_in_the_place_of_a_folder_is_saved_and_replaced,
    a_restore_refuses_to_remove_what_it_cannot_save,
    a_restore_makes_no_repository_of_git,
    a_safety_checkpoint_leads_back,
    an_interrupted_restore_can_be_finished,
    a_planned_restore_changes_nothing,
    a_folder_under_a_temporary_name_of_ours_stays,
    what_is_saved_already_is_not_saved_again,
    what_was_changed_since_it_was_saved_is_saved_too,
}

// covers: G12
fn an_unchanged_workspace_still_gives_each_codon_its_checkpoint(fixture: &Fixture) {
    fixture.write("a.txt", "1");
    let (first, second) = (fixture.create(), fixture.create());
    assert_ne!(first.sha, second.sha);
    assert_eq!(second.parent.as_ref(), Some(&first.sha));
    assert_eq!(fixture.store.diff(&first.sha, &second.sha).unwrap(), []);
}

// covers: G12, STATE-71
fn what_stands_before_a_codon_gets_a_checkpoint_where_it_has_changed(fixture: &Fixture) {
    fixture.write("a.txt", "1");
    let before = fixture.create();
    let wanted = CheckpointRequest {
        parent: Some(before.sha.clone()),
        ..request(&[])
    };
    assert_eq!(fixture.store.create_start(&wanted).unwrap(), None);
    // Written again with the same contents.
    fixture.write("a.txt", "1");
    assert_eq!(fixture.store.create_start(&wanted).unwrap(), None);
    fixture.write("b.txt", "2");
    let start = fixture.store.create_start(&wanted).unwrap().unwrap();
    assert_eq!(start.parent.as_ref(), Some(&before.sha));
    assert_eq!(fixture.files(&before, &start), ["b.txt"]);
    assert_eq!(fixture.store.list().unwrap()[&start.sha].kind(), "start");
    assert_eq!(fixture.create().parent, Some(start.sha));
}

fn what_was_created_is_known_with_its_branch_and_message(fixture: &Fixture) {
    fixture.write("a.txt", "1");
    let initial = initial(fixture);
    let created = fixture.create();
    let known = fixture.store.list().unwrap();
    assert_eq!(
        (initial.branch.as_str(), known[&initial.sha].branch.as_str()),
        ("main", "main")
    );
    let known = &known[&created.sha];
    assert_eq!(
        (created.branch.as_str(), created.files),
        ("run-1736000000000-a", 1)
    );
    assert_eq!(known.branch, created.branch);
    assert_eq!(known.parent.as_ref(), Some(&initial.sha));
    assert_eq!(known.timestamp, Timestamp::from_millis(1_736_000_000_123));
    assert!(
        known
            .message
            .starts_with("completed:review [run:1736000000000-a] Review\n\nCodon: review\n")
    );
}

// covers: RUN-18
fn a_run_continues_from_the_checkpoint_it_names(fixture: &Fixture) {
    fixture.write("a.txt", "1");
    let first = fixture.create();
    fixture.write("b.txt", "2");
    fixture.create();
    let run_id = RunId::new("1736000000001-b").unwrap();
    let next = CheckpointRequest {
        run_id,
        parent: Some(first.sha.clone()),
        ..request(&["nothing"])
    };
    let next = fixture.store.create(&next).unwrap();
    assert_eq!(next.parent, Some(first.sha));
    // `a.txt` is tracked by the parent, `b.txt` only by the other branch.
    assert_eq!(next.files, 1);
}

fn a_stale_parent_is_refused(fixture: &Fixture) {
    let first = fixture.create();
    let second = fixture.create();
    let stale = CheckpointRequest {
        parent: Some(first.sha),
        ..request(&[])
    };
    let error = fixture.store.create(&stale).unwrap_err();
    assert!(matches!(error, CheckpointError::BranchMoved { found, .. } if found == second.sha));
}

// covers: HANK-17, G4
fn without_patterns_everything_is_taken_that_is_not_ignored(fixture: &Fixture) {
    let empty = initial(fixture);
    fixture.write(".gitignore", "*.log\n/build/\n");
    fixture.write("deep/.gitignore", "!kept.log\n");
    for path in [
        "a.txt",
        ".env",
        "x.log",
        "build/out",
        "deep/build/out",
        "deep/kept.log",
        "deep/other.log",
    ] {
        fixture.write(path, "");
    }
    let created = fixture.create();
    let expected = [
        ".env",
        ".gitignore",
        "a.txt",
        "deep/.gitignore",
        "deep/build/out",
        "deep/kept.log",
    ];
    assert_eq!(fixture.files(&empty, &created), expected);
}

// covers: HANK-19
fn with_patterns_the_matching_and_the_tracked_are_taken(fixture: &Fixture) {
    let empty = initial(fixture);
    fixture.write("src/a", "1");
    fixture.write("other", "1");
    let first = fixture.store.create(&request(&["src", "!src/secret"])).unwrap();
    assert_eq!(fixture.files(&empty, &first), ["src/a"]);
    fixture.write(".gitignore", "src/\n");
    fixture.write("src/secret", "1");
    fixture.write("src/b", "1");
    fixture.write("src/a", "2");
    let second = fixture.store.create(&request(&["docs", "src"])).unwrap();
    assert_eq!(fixture.files(&first, &second), ["src/a"]);
    fs::remove_file(fixture.path("src/a")).unwrap();
    let third = fixture.store.create(&request(&["src"])).unwrap();
    assert_eq!(third.files, 0);
}

// covers: G4, F15
fn what_must_stay_out_is_reported(fixture: &Fixture) {
    let empty = initial(fixture);
    fixture.write("nested/.git/HEAD", "ref: refs/heads/main\n");
    fixture.write("nested/file", "1");
    fixture.write("submodule/.git", "gitdir: elsewhere\n");
    fixture.write("shouting/.GIT/config", "");
    fixture.write("read_only_data_source/data", "");
    fixture.write("rigArchive/old", "");
    fixture.write("plain/read_only_data_source", "");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        fixture.path("fifo"),
        rustix::fs::Mode::from_raw_mode(0o600),
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(fixture.path("socket")).unwrap();
    fixture.write("unreadable", "1");
    fs::set_permissions(fixture.path("unreadable"), fs::Permissions::from_mode(0o000)).unwrap();
    let root_reads_all = fs::read(fixture.path("unreadable")).is_ok();

    let created = fixture.create();

    let reported = reasons(&created);
    let protected = |path: &str| (path.to_owned(), SkipReason::Protected);
    for path in [
        ".hankweave",
        "nested/.git",
        "submodule/.git",
        "shouting/.GIT",
        "read_only_data_source",
        "rigArchive",
    ] {
        assert!(reported.contains(&protected(path)), "{path}: {reported:?}");
    }
    for path in ["fifo", "socket"] {
        assert!(
            reported.contains(&(path.to_owned(), SkipReason::NotAFile)),
            "{path}: {reported:?}"
        );
    }
    let mut files = fixture.files(&empty, &created);
    if root_reads_all {
        eprintln!("not checked: root reads files of any mode");
        files.retain(|path| path != "unreadable");
    } else {
        assert!(reported.contains(&("unreadable".to_owned(), SkipReason::Unreadable)));
    }
    assert_eq!(files, ["nested/file", "plain/read_only_data_source"]);
}

// covers: F15, G4
fn a_file_larger_than_the_limit_is_reported(fixture: &Fixture) {
    let file = fs::File::create(fixture.path("huge")).unwrap();
    file.set_len(MAX_FILE_BYTES + 1).unwrap();
    let created = fixture.create();
    assert!(reasons(&created).contains(&("huge".to_owned(), SkipReason::TooLarge)));
    assert_eq!(created.files, 0);
}

fn a_bad_pattern_makes_no_checkpoint(fixture: &Fixture) {
    let before = fixture.store.list().unwrap();
    let error = fixture.store.create(&request(&["../outside"])).unwrap_err();
    assert!(matches!(error, CheckpointError::Pattern(_)));
    assert_eq!(fixture.store.list().unwrap(), before);
}

fn an_unknown_checkpoint_is_told_from_an_error(fixture: &Fixture) {
    let created = fixture.create();
    assert!(fixture.store.contains(&created.sha).unwrap());
    let unknown = [
        "",
        "x",
        &created.sha.as_str()[..10],
        "0123456789012345678901234567890123456789",
    ];
    for sha in unknown.map(CheckpointSha::new) {
        assert!(!fixture.store.contains(&sha).unwrap(), "{sha}");
        let missing = fixture.store.verify(&[created.sha.clone(), sha.clone()]).unwrap();
        assert_eq!(missing, std::slice::from_ref(&sha));
        let error = fixture.store.diff(&created.sha, &sha).unwrap_err();
        assert!(matches!(error, HistoryError::Unknown { .. }), "{error}");
    }
}

// covers: G10
fn only_what_can_be_restored_is_restorable(fixture: &Fixture) {
    let created = fixture.create();
    let never = CheckpointSha::new("0123456789012345678901234567890123456789");
    let restorable = fixture.store.restorable(&[created.sha.clone(), never]).unwrap();
    assert_eq!(restorable.keys().collect::<Vec<_>>(), [&created.sha]);
    assert_eq!(
        restorable[&created.sha],
        fixture.store.list().unwrap()[&created.sha]
    );
    assert!(fixture.store.restorable(&[]).unwrap().is_empty());
    assert!(fixture.store.prune(&[]).unwrap().is_empty());
}

// covers: G4
fn hostile_names_come_back(fixture: &Fixture) {
    let names: [&[u8]; 9] = [
        b"new\nline",
        b"tab\t",
        b"-rf",
        b"\xff\xfe",
        b":(magic)",
        b"\"quoted\"",
        b" space ",
        b"*",
        b"back\\slash",
    ];
    let path = |name: &[u8]| fixture.path("odd").join(OsStr::from_bytes(name));
    fs::create_dir(fixture.path("odd")).unwrap();
    for name in names {
        fs::write(path(name), name).unwrap();
    }
    let first = fixture.create();
    assert_eq!(first.files, names.len());
    fs::remove_dir_all(fixture.path("odd")).unwrap();
    let second = fixture.create();
    fixture.restore(&first, &second);
    for name in names {
        assert_eq!(fs::read(path(name)).unwrap(), name);
    }
}

fn executable_bits_and_links_come_back(fixture: &Fixture) {
    fixture.write("run.sh", "#!/bin/sh\n");
    fs::set_permissions(fixture.path("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("run.sh", fixture.path("link")).unwrap();
    symlink("/nowhere", fixture.path("dangling")).unwrap();
    symlink(".", fixture.path("loop")).unwrap();
    let first = fixture.create();
    assert_eq!(first.files, 4);
    fs::set_permissions(fixture.path("run.sh"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_file(fixture.path("link")).unwrap();
    fixture.write("link", "a file now");
    let second = fixture.create();
    let report = fixture.restore(&first, &second);
    assert_eq!(
        report
            .done
            .write
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["link", "run.sh"]
    );
    assert_eq!(
        fs::metadata(fixture.path("run.sh")).unwrap().mode() & 0o100,
        0o100
    );
    assert_eq!(fs::read_link(fixture.path("link")).unwrap(), Path::new("run.sh"));
    assert_eq!(
        fs::read_link(fixture.path("dangling")).unwrap(),
        Path::new("/nowhere")
    );
}

// covers: G8
fn a_restore_deletes_only_what_the_left_checkpoint_had(fixture: &Fixture) {
    fixture.write(".gitignore", "*.log\n");
    fixture.write("a.txt", "1");
    let first = fixture.create();
    fixture.write("a.txt", "2");
    fixture.write("new/deep/b.txt", "2");
    let second = fixture.create();
    fixture.write("later.txt", "3");
    fixture.write("x.log", "3");
    let report = fixture.restore(&first, &second);
    fixture.reads("a.txt", "1");
    fixture.reads("later.txt", "3");
    fixture.reads("x.log", "3");
    assert!(!fixture.path("new").exists());
    assert_eq!(
        report
            .done
            .delete
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["new/deep/b.txt"]
    );
    assert_eq!(
        report
            .done
            .write
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["a.txt"]
    );
}

// covers: G7, F14
fn a_restore_never_writes_through_a_link(fixture: &Fixture) {
    let outside = fixture.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    for name in ["in_folder", "gone", "leaf"] {
        fs::write(outside.join(name), "outside").unwrap();
    }
    fixture.write("folder/in_folder", "1");
    fixture.write("leaf", "1");
    let first = fixture.create();
    fixture.write("folder/gone", "2");
    let second = fixture.create();
    fs::remove_dir_all(fixture.path("folder")).unwrap();
    symlink(&outside, fixture.path("folder")).unwrap();
    fs::remove_file(fixture.path("leaf")).unwrap();
    symlink(outside.join("leaf"), fixture.path("leaf")).unwrap();
    let before = photograph(&outside);

    let report = fixture.restore(&first, &second);

    assert_eq!(photograph(&outside), before);
    fixture.reads("folder/in_folder", "1");
    fixture.reads("leaf", "1");
    assert!(!fixture.path("folder").is_symlink() && !fixture.path("leaf").is_symlink());
    // The links themselves were saved.
    fixture.restore(report.safety.as_ref().unwrap(), &first);
    assert_eq!(fs::read_link(fixture.path("folder")).unwrap(), outside);
    assert_eq!(photograph(&outside), before);
}

fn a_folder_in_the_place_of_a_file_is_saved_and_replaced(fixture: &Fixture) {
    fixture.write(".gitignore", "*.log\n");
    fixture.write("thing", "file");
    let first = fixture.create();
    fs::remove_file(fixture.path("thing")).unwrap();
    fixture.write("thing/inside/x.log", "ignored");
    let second = fixture.create();
    let report = fixture.restore(&first, &second);
    fixture.reads("thing", "file");
    let back = fixture.restore(report.safety.as_ref().unwrap(), &first);
    fixture.reads("thing/inside/x.log", "ignored");
    assert!(back.safety.is_some());
}

// covers: F14
fn a_file_in_the_place_of_a_folder_is_saved_and_replaced(fixture: &Fixture) {
    fixture.write("thing/inside", "1");
    let first = fixture.create();
    fs::remove_dir_all(fixture.path("thing")).unwrap();
    let second = fixture.create();
    fixture.write(".gitignore", "thing\n");
    fixture.write("thing", "untracked and ignored");
    let report = fixture.restore(&first, &second);
    fixture.reads("thing/inside", "1");
    fixture.restore(report.safety.as_ref().unwrap(), &first);
    fixture.reads("thing", "untracked and ignored");
}

fn a_restore_refuses_to_remove_what_it_cannot_save(fixture: &Fixture) {
    fixture.write("thing", "file");
    fixture.write("z", "1");
    let first = fixture.create();
    fs::remove_file(fixture.path("thing")).unwrap();
    fixture.write("thing/.git/HEAD", "a repository of the agent");
    fixture.write("z", "2");
    let second = fixture.create();
    let before = photograph(&fixture.path("thing"));
    let error = fixture
        .store
        .restore(&restore_request(&first, &second))
        .unwrap_err();
    assert!(
        matches!(&error, RestoreError::InTheWay { path, .. } if path.as_bytes() == b"thing/.git"),
        "{error}"
    );
    assert_eq!(photograph(&fixture.path("thing")), before);
    fixture.reads("z", "2");
}

// covers: X13
fn a_restore_makes_no_repository_of_git(fixture: &Fixture) {
    fixture.write("a", "1");
    let parts = ["HEAD", "config", "objects/x", "refs/heads/main"];
    for path in parts {
        fixture.write(path, "x");
    }
    let whole = fixture.create();
    // An existing repository stays one.
    fixture.write("a", "2");
    let changed = fixture.create();
    fixture.restore(&whole, &changed);
    for folder in ["objects", "refs"] {
        fs::remove_dir_all(fixture.path(folder)).unwrap();
    }
    fs::remove_file(fixture.path("HEAD")).unwrap();
    fixture.write("a", "3");
    let plain = fixture.create();
    let refused = fixture
        .store
        .restore(&restore_request(&whole, &plain))
        .unwrap_err();
    assert!(
        matches!(&refused, RestoreError::Repository { path } if path.as_bytes() == b"HEAD"),
        "{refused}"
    );
    fixture.reads("a", "3");
    // The rest of it makes one as well, when a part is there.
    fixture.write("HEAD", "x");
    let head = fixture.create();
    let refused = fixture
        .store
        .restore(&restore_request(&whole, &head))
        .unwrap_err();
    assert!(matches!(refused, RestoreError::Repository { .. }), "{refused}");
}

// covers: G8
fn a_safety_checkpoint_leads_back(fixture: &Fixture) {
    fixture.write("a", "1");
    let first = fixture.create();
    fixture.write("b", "2");
    let second = fixture.create();
    fixture.write("a", "never checkpointed");
    fixture.write("b", "nor this");
    let safety = fixture.restore(&first, &second).safety.unwrap();
    assert!(safety.branch.starts_with("recovery/"));
    assert!(fixture.store.list().unwrap().contains_key(&safety.sha));
    fixture.restore(&safety, &first);
    fixture.reads("a", "never checkpointed");
    fixture.reads("b", "nor this");
}

fn an_interrupted_restore_can_be_finished(fixture: &Fixture) {
    for path in ["a", "b", "c"] {
        fixture.write(path, "1");
    }
    let first = fixture.create();
    for path in ["a", "b", "c", "new/x", "new/y"] {
        fixture.write(path, "2");
    }
    let second = fixture.create();
    // As if it had stopped after deleting one file, writing one, and half of the next.
    fs::remove_file(fixture.path("new/x")).unwrap();
    fixture.write("a", "1");
    fixture.write(".hankweave.restore-0", "half");
    fixture.restore(&first, &second);
    for path in ["a", "b", "c"] {
        fixture.reads(path, "1");
    }
    assert!(!fixture.path("new").exists() && !fixture.path(".hankweave.restore-0").exists());
    let again = fixture.restore(&first, &second);
    assert_eq!(
        (again.safety, again.done),
        (
            None,
            RestorePlan {
                write: vec![],
                delete: vec![],
                spared: vec![],
                absent: vec![],
            }
        )
    );
}

fn a_planned_restore_changes_nothing(fixture: &Fixture) {
    fixture.write("a", "1");
    let first = fixture.create();
    fixture.write("a", "2");
    fixture.write("b", "2");
    let second = fixture.create();
    fixture.write("a", "3");
    let before = photograph(&fixture.workspace);
    let plan = fixture
        .store
        .plan_restore(&restore_request(&first, &second))
        .unwrap();
    assert_eq!(
        (plan.write[0].to_string(), plan.delete[0].to_string()),
        ("a".into(), "b".into())
    );
    assert_eq!(photograph(&fixture.workspace), before);
    let protection = fixture.store.protect(&restore_request(&first, &second));
    assert_eq!(protection.unwrap().plan, plan);
    assert_eq!(fixture.restore(&first, &second).done, plan);
}

/// Returns a workspace with a file in two versions that is about to roll back to the first, after its files were saved.
fn protected(fixture: &Fixture) -> (Checkpoint, RestoreRequest) {
    fixture.write("a", "1");
    fixture.write("b", "1");
    let first = fixture.create();
    fixture.write("a", "2");
    let second = fixture.create();
    fixture.write("a", "never checkpointed");
    let request = restore_request(&first, &second);
    let safety = fixture.store.protect(&request).unwrap().safety.unwrap();
    fixture.reads("a", "never checkpointed");
    let request = RestoreRequest {
        safety: Some(safety.sha.clone()),
        ..request
    };
    (safety, request)
}

// covers: G8
fn what_is_saved_already_is_not_saved_again(fixture: &Fixture) {
    let (safety, request) = protected(fixture);
    let report = fixture.store.restore(&request).unwrap();
    assert_eq!(report.safety, None);
    fixture.reads("a", "1");
    fixture.restore(&safety, &safety);
    fixture.reads("a", "never checkpointed");
    let there = RestoreRequest {
        target: safety.sha,
        ..request
    };
    assert_eq!(fixture.store.protect(&there).unwrap().safety, None);
}

// covers: G8
fn what_was_changed_since_it_was_saved_is_saved_too(fixture: &Fixture) {
    let (_, request) = protected(fixture);
    fixture.write("b", "edited while nobody was looking");
    let second_safety = fixture.store.restore(&request).unwrap().safety.unwrap();
    fixture.reads("b", "1");
    fixture.restore(&second_safety, &second_safety);
    fixture.reads("a", "never checkpointed");
    fixture.reads("b", "edited while nobody was looking");
}

// covers: G7
fn a_folder_under_a_temporary_name_of_ours_stays(fixture: &Fixture) {
    fixture.write("folder/a", "1");
    let first = fixture.create();
    fixture.write("folder/a", "2");
    let second = fixture.create();
    let planted = fixture.path("folder/.hankweave.restore-0");
    fs::create_dir(&planted).unwrap();
    fs::write(planted.join("kept"), "by an agent").unwrap();
    fixture.restore(&first, &second);
    fixture.reads("folder/a", "1");
    fixture.reads("folder/.hankweave.restore-0/kept", "by an agent");
}
