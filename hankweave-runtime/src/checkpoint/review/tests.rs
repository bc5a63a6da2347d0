//! Branches in a repository that the `git` program has made and reads.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hankweave_testing::git::assert_sound;

use super::*;
use crate::checkpoint::contract::Fixture;

const MARK: &str = "refs/hankweave/task/x-1";

/// Runs git in a folder without the user's configuration.
#[track_caller]
fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn run(folder: &Path, arguments: &[&str]) -> std::process::Output {
    let mut git = Command::new("git");
    git.current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    let settings = [
        "user.name=ann",
        "user.email=ann@localhost",
        "protocol.file.allow=always",
        "init.defaultBranch=main",
    ];
    git.args(settings.iter().flat_map(|setting| ["-c", *setting]));
    git.args(arguments).output().expect("git can be started")
}

/// A repository of the user's with one commit, and a workspace with checkpoints.
struct Stage {
    fixture: Fixture,
    user: PathBuf,
}

impl Stage {
    /// `None` where there is no git.
    fn new() -> Option<Self> {
        if Command::new("git").arg("--version").output().is_err() {
            eprintln!("skipped: there is no git");
            return None;
        }
        let fixture = Fixture::git();
        let user = fixture.folder.path().join("user");
        fs::create_dir(&user).unwrap();
        git(&user, &["init", "-q"]);
        let stage = Self { fixture, user };
        stage.commit("README", "hello");
        Some(stage)
    }

    fn branch(&self) -> ReviewBranch {
        self.called("task/x")
    }

    fn called(&self, name: &str) -> ReviewBranch {
        ReviewBranch {
            repository: self.user.clone(),
            name: name.to_owned(),
            mark: MARK.to_owned(),
            folder: vec![".task-memory".to_owned(), "x".to_owned()],
        }
    }

    fn git(&self, arguments: &[&str]) -> String {
        git(&self.user, arguments)
    }

    fn commit(&self, file: &str, text: &str) {
        fs::write(self.user.join(file), text).unwrap();
        self.git(&["add", file]);
        self.git(&["commit", "-q", "-m", file]);
    }

    /// Makes a checkpoint and shows it.
    fn show(&self) -> Result<(), ReviewError> {
        let work = ReviewRequest {
            checkpoints: self.fixture.path(".hankweave/checkpoints"),
            checkpoint: self.fixture.create().sha,
            message: "task x\n".to_owned(),
            at: Timestamp::from_millis(1_736_000_000_000),
        };
        self.branch().show(&work)
    }

    #[track_caller]
    fn refuses(&self, name: &str, why: &[&str]) {
        let before = self.git(&["for-each-ref"]);
        let told = self.called(name).check().unwrap_err().to_string();
        assert!(why.iter().all(|part| told.contains(part)), "{told}");
        assert_eq!(self.git(&["for-each-ref"]), before);
    }
}

// covers: TASK-109
#[test]
fn a_branch_begins_at_head_and_gets_the_files_of_each_checkpoint_once() {
    let Some(stage) = Stage::new() else { return };
    stage.branch().check().unwrap();
    stage.branch().start().unwrap();
    stage.branch().start().unwrap();
    let head = stage.git(&["rev-parse", "main"]);
    assert_eq!(stage.git(&["rev-parse", "task/x"]), head);
    stage.show().unwrap();
    assert_eq!(
        stage.git(&["rev-parse", "task/x"]),
        head,
        "there is nothing to show"
    );
    stage.commit("more", "of the user");
    stage.fixture.write("report/a.txt", "one");
    stage.fixture.write("b.txt", "two");
    for _ in 0..2 {
        stage.show().unwrap();
        let changed = stage.git(&["diff", "--name-status", "main...task/x"]);
        assert_eq!(changed, "A\t.task-memory/x/b.txt\nA\t.task-memory/x/report/a.txt");
        assert_eq!(
            stage.git(&["rev-list", "--count", &format!("{head}..task/x")]),
            "1"
        );
    }
    assert_eq!(
        stage.git(&["log", "-1", "--format=%an %s", "task/x"]),
        "hankweave task x"
    );
    // Additions of the user stay.
    stage.git(&["checkout", "-q", "task/x"]);
    stage.commit("note", "well done");
    stage.git(&["checkout", "-q", "main"]);
    fs::remove_file(stage.fixture.path("b.txt")).unwrap();
    stage.fixture.write("report/a.txt", "other");
    stage.branch().check().unwrap();
    stage.show().unwrap();
    assert_eq!(
        stage.git(&["show", "task/x:.task-memory/x/report/a.txt"]),
        "other"
    );
    let files = stage.git(&["ls-tree", "-r", "--name-only", "task/x"]);
    assert_eq!(files, ".task-memory/x/report/a.txt\nREADME\nnote");
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    // A branch that the user has deleted starts again.
    stage.git(&["branch", "-q", "-D", "task/x"]);
    stage.show().unwrap();
    let files = stage.git(&["ls-tree", "-r", "--name-only", "task/x"]);
    assert_eq!(files, ".task-memory/x/report/a.txt\nREADME\nmore");
    assert_sound(&stage.user.join(".git"));
}

// covers: TASK-109
#[test]
fn a_repository_that_has_no_room_for_a_branch_is_refused_with_all_that_is_in_the_way() {
    let Some(stage) = Stage::new() else { return };
    let nowhere = ReviewBranch {
        repository: stage.user.join("nowhere"),
        ..stage.branch()
    };
    let told = nowhere.check().unwrap_err().to_string();
    assert!(
        told.ends_with("nowhere` cannot be used as a git repository"),
        "{told}"
    );
    is_usable(&nowhere.repository).unwrap_err();
    is_usable(&stage.user).unwrap();
    let empty = stage.fixture.folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    git(&empty, &["init", "-q"]);
    let empty = ReviewBranch {
        repository: empty,
        ..stage.branch()
    };
    assert!(empty.check().unwrap_err().to_string().contains("no commit yet"));

    stage.refuses("task/a..b", &["cannot be the name of a branch"]);
    stage.refuses("main/x", &["`main` is in the way", "git branch -m main OTHER"]);
    stage.git(&["branch", "task/x/y"]);
    stage.refuses("task/x", &["`task/x/y` is in the way"]);
    stage.git(&["branch", "-q", "-m", "task/x/y", "task/x"]);
    stage.refuses("task/x", &["`task/x` was made by somebody else"]);
    stage.git(&["branch", "-q", "-D", "task/x"]);

    // A submodule and a file in conflict at once, and a file where the folder is to be.
    let library = stage.fixture.folder.path().join("library");
    fs::create_dir(&library).unwrap();
    git(&library, &["init", "-q"]);
    git(&library, &["commit", "-q", "--allow-empty", "-m", "one"]);
    stage.git(&["submodule", "--quiet", "add", library.to_str().unwrap(), "lib"]);
    stage.commit(".task-memory", "a file");
    fs::write(
        stage.user.join(".git/modules/lib/MERGE_HEAD"),
        git(&library, &["rev-parse", "HEAD"]),
    )
    .unwrap();
    stage.git(&["checkout", "-q", "-b", "other"]);
    stage.commit("README", "theirs");
    stage.git(&["checkout", "-q", "main"]);
    stage.commit("README", "ours");
    assert!(!run(&stage.user, &["merge", "-q", "other"]).status.success());
    let all = [
        "a merge is unfinished",
        "`README` is in conflict",
        "submodule `lib` is in the middle of a merge",
        "`.task-memory` is no folder",
    ];
    stage.refuses("task/x", &all);
}

// covers: TASK-109
#[test]
fn a_commit_waits_at_its_mark_while_the_branch_cannot_be_moved() {
    let Some(stage) = Stage::new() else { return };
    stage.branch().start().unwrap();
    let tree = stage.fixture.folder.path().join("tree");
    stage.git(&["worktree", "add", "-q", tree.to_str().unwrap(), "task/x"]);
    stage.refuses("task/x", &["`task/x` is checked out in", "tree"]);
    stage.fixture.write("a.txt", "one");
    let head = stage.git(&["rev-parse", "main"]);
    for _ in 0..2 {
        let told = stage.show().unwrap_err().to_string();
        assert!(
            told.starts_with(&format!("the commit waits at `{MARK}`")),
            "{told}"
        );
        assert_eq!(stage.git(&["rev-parse", "task/x"]), head);
        assert_eq!(
            stage.git(&["rev-list", "--count", &format!("{head}..{MARK}")]),
            "1"
        );
    }
    git(&tree, &["checkout", "-q", "--detach"]);
    stage.show().unwrap();
    assert_eq!(
        stage.git(&["rev-parse", "task/x"]),
        stage.git(&["rev-parse", MARK])
    );
    // Now it is reset to something else.
    stage.commit("more", "of the user");
    stage.git(&["branch", "-q", "-f", "task/x", "main"]);
    stage.refuses("task/x", &["has gone another way", MARK]);
    stage.fixture.write("a.txt", "two");
    let told = stage.show().unwrap_err().to_string();
    assert!(
        told.contains("the commit waits") && told.contains("another way"),
        "{told}"
    );
    assert_eq!(
        stage.git(&["show", &format!("{MARK}:.task-memory/x/a.txt")]),
        "two"
    );
    assert_eq!(
        stage.git(&["rev-parse", "task/x"]),
        stage.git(&["rev-parse", "main"])
    );
}
