//! Duration of checkpoints and restores, compared with git's.
//!
//! Ours are durable when they end; git syncs no loose objects. Each round measures both, one after the other, and the
//! medians over the rounds are compared, so that a drift in the machine's speed changes both alike. That is why this is
//! no criterion benchmark. Bytes that git leaves to be written in the background are written before our next turn starts,
//! which would wait for them otherwise.
//!
//! `cargo bench -p hankweave-runtime --bench checkpoint`; `-- first`, `-- next`, `-- restore` or `-- folders` is one part.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark measures the real world"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hankweave_core::codon::CheckpointType;
use hankweave_core::id::{CheckpointSha, CodonId, RunId};
use hankweave_core::time::Timestamp;
use hankweave_runtime::checkpoint::{
    CheckpointRequest, CheckpointStore, GitCheckpoints, MAX_FILE_BYTES, OpenStoreRequest, RestoreRequest,
};
use rustix::fs::sync;
use tempfile::TempDir;

/// Numbers of files in the trees that are checkpointed.
const SIZES: [usize; 2] = [1_000, 20_000];

/// Files that change between two of them.
const CHANGED: usize = 20;

/// Number of files in the tree that is restored.
const RESTORED: usize = 5_000;

/// Folders of the tree in which each file has one of its own.
const FOLDERS: usize = 100_000;

const FIRST_ROUNDS: usize = 5;
const ROUNDS: usize = 15;

fn main() {
    // `cargo test --benches` passes arguments of the test harness; there is nothing to test here.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let chosen = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    println!("medians in milliseconds: ours, git, ours / git");
    for files in SIZES {
        if chosen("first") {
            let times = (0..FIRST_ROUNDS).map(|_| {
                let tree = Tree::new(files);
                sync();
                both(&tree)
            });
            tell(&format!("{files} files, first"), times.collect());
        }
        if chosen("next") {
            next(files);
        }
    }
    if chosen("restore") {
        tell(&format!("{RESTORED} files brought back"), restores());
    }
    if chosen("folders") {
        folders();
    }
}

/// Measures a checkpoint of ours, and one of git's.
fn both(tree: &Tree) -> (Duration, Duration) {
    (
        tree.ours(|tree| drop(tree.take())),
        tree.git("git add -A && git commit -q --allow-empty -m next"),
    )
}

/// All checkpoints but the first.
fn next(files: usize) {
    let tree = Tree::new(files);
    both(&tree);
    let (mut unchanged, mut changed) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        sync();
        (0..CHANGED).for_each(|number| tree.write(number * files / CHANGED, round));
        changed.push(both(&tree));
        sync();
        unchanged.push(both(&tree));
    }
    tell(&format!("{files} files, {CHANGED} changed"), changed);
    tell(&format!("{files} files, unchanged"), unchanged);
}

/// Each pair is of ours and of git's.
fn tell(case: &str, times: Vec<(Duration, Duration)>) {
    let (ours, git) = times.into_iter().unzip();
    let (ours, git) = (median(ours), median(git));
    println!("{case:28} {ours:9.1} {git:9.1} {:6.2}", ours / git);
}

fn median(mut values: Vec<Duration>) -> f64 {
    values.sort_unstable();
    values[values.len() / 2].as_secs_f64() * 1e3
}

/// Restores all files after their removal.
fn restores() -> Vec<(Duration, Duration)> {
    let tree = Tree::new(RESTORED);
    let request = RestoreRequest {
        target: tree.take(),
        left: None,
        spares_changed: false,
        safety: None,
        at: Timestamp::UNIX_EPOCH,
    };
    tree.git("git add -A && git commit -qm first");
    let mut times = Vec::new();
    for _ in 0..FIRST_ROUNDS {
        tree.git("rm -r folder-*");
        sync();
        let ours = tree.ours(|tree| {
            let report = tree
                .store
                .restore(&request)
                .expect("the files can be brought back");
            assert_eq!(report.done.write.len(), RESTORED);
        });
        tree.git("rm -r folder-*");
        times.push((ours, tree.git("git checkout -q HEAD -- .")));
    }
    times
}

/// Measures a start and a rollback in a tree of very many folders. Of git's commands, the first walks through all
/// objects, as a start does, and the second compares two trees.
fn folders() {
    let tree = Tree::new(0);
    (0..FOLDERS).for_each(|number| tree.write_alone(number, 0));
    let commit = "git add -A && git commit -q --allow-empty -m next && git repack -adq";
    let mut checkpoints = Vec::new();
    for round in 0..2 {
        (0..CHANGED).for_each(|number| tree.write_alone(number * FOLDERS / CHANGED, round));
        checkpoints.push(tree.take());
        tree.git(commit);
    }
    let (mut starts, mut restores) = (Vec::new(), Vec::new());
    let mut here = 1;
    for _ in 0..FIRST_ROUNDS {
        sync();
        let ours = tree.ours(|tree| {
            let (store, _) = GitCheckpoints::open(&tree.request()).expect("the repository can be opened");
            let whole = store
                .restorable(&checkpoints)
                .expect("the repository can be read");
            assert_eq!(whole.len(), 2);
        });
        starts.push((ours, tree.git("git rev-list --objects --all >/dev/null")));
        let request = RestoreRequest {
            target: checkpoints[1 - here].clone(),
            left: Some(checkpoints[here].clone()),
            spares_changed: false,
            safety: None,
            at: Timestamp::UNIX_EPOCH,
        };
        let ours = tree.ours(|tree| {
            let report = tree
                .store
                .restore(&request)
                .expect("the files can be brought back");
            assert_eq!(report.done.write.len(), CHANGED);
        });
        let git = tree.git(&format!("git checkout -q HEAD~{here} -- ."));
        restores.push((ours, git));
        here = 1 - here;
    }
    tell(&format!("{FOLDERS} folders, start"), starts);
    tell(&format!("{FOLDERS} folders, {CHANGED} back"), restores);
}

/// A folder of small files, 100 in a folder, with a store of ours and a repository of git's for it.
struct Tree {
    workspace: TempDir,
    git: TempDir,
    store: GitCheckpoints,
}

impl Tree {
    fn new(files: usize) -> Self {
        let folder = || tempfile::tempdir().expect("a temporary folder can be made");
        let workspace = folder();
        let request = open_request(workspace.path());
        let (store, _) = GitCheckpoints::open(&request).expect("a repository can be made");
        let tree = Self {
            workspace,
            git: folder(),
            store,
        };
        (0..files).for_each(|number| tree.write(number, 0));
        tree.git("git init -q . && echo .hankweave > \"$GIT_DIR/info/exclude\"");
        tree
    }

    fn write(&self, number: usize, round: usize) {
        let folder = self.workspace.path().join(format!("folder-{}", number / 100));
        fs::create_dir_all(&folder).expect("a folder can be made");
        let text = format!("file {number} in round {round}\n").repeat(20);
        fs::write(folder.join(format!("file-{number}.txt")), text).expect("a file can be written");
    }

    /// A file in a folder of its own.
    fn write_alone(&self, number: usize, round: usize) {
        let folder = format!("part-{}/folder-{number}", number / 1_000);
        let folder = self.workspace.path().join(folder);
        fs::create_dir_all(&folder).expect("a folder can be made");
        fs::write(
            folder.join("file.txt"),
            format!("file {number} in round {round}\n"),
        )
        .expect("a file can be written");
    }

    fn request(&self) -> OpenStoreRequest {
        open_request(self.workspace.path())
    }

    fn take(&self) -> CheckpointSha {
        let request = CheckpointRequest {
            kind: CheckpointType::Completed,
            run_id: RunId::new("1736000000000-a").expect("the id is valid"),
            codon_id: CodonId::new("bench").expect("the id is valid"),
            codon_name: "Bench".to_owned(),
            patterns: Vec::new(),
            left_out: BTreeSet::new(),
            parent: None,
            at: Timestamp::UNIX_EPOCH,
            duration: None,
        };
        self.store.create(&request).expect("a checkpoint can be made").sha
    }

    fn ours(&self, work: impl FnOnce(&Self)) -> Duration {
        let begin = Instant::now();
        work(self);
        begin.elapsed()
    }

    fn git(&self, line: &str) -> Duration {
        let begin = Instant::now();
        shell(self.workspace.path(), self.git.path(), line);
        begin.elapsed()
    }
}

fn open_request(workspace: &Path) -> OpenStoreRequest {
    OpenStoreRequest {
        repository: workspace.join(".hankweave"),
        workspace: workspace.to_owned(),
        at: Timestamp::UNIX_EPOCH,
        nonce: "bench".to_owned(),
        most_bytes: MAX_FILE_BYTES,
    }
}

fn shell(workspace: &Path, repository: &Path, line: &str) {
    let status = Command::new("sh")
        .args(["-c", line])
        .current_dir(workspace)
        .env("GIT_DIR", repository)
        .env("GIT_WORK_TREE", workspace)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "a")))
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "a@b")))
        .stdin(Stdio::null())
        .status();
    assert!(status.is_ok_and(|status| status.success()), "{line}");
}
