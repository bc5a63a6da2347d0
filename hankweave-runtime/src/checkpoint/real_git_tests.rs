//! The repository through the eyes of the `git` program, after everything that we do to it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use hankweave_core::id::RunId;
use hankweave_core::time::Timestamp;

use super::contract::{Fixture, open_git, photograph, request, restore_request};
use super::*;

/// Runs git without the user's configuration; `None` when there is no git.
fn git(fixture: &Fixture, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("--git-dir")
        .arg(fixture.path(".hankweave/checkpoints"))
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &said)
}

/// The files of the workspace without our own.
fn files(workspace: &Path) -> Vec<(std::path::PathBuf, u32, Vec<u8>)> {
    let ours = workspace.join(".hankweave");
    let all = photograph(workspace).into_iter();
    let relative = |(path, mode, contents): (std::path::PathBuf, u32, Vec<u8>)| {
        (path.strip_prefix(workspace).unwrap().to_owned(), mode, contents)
    };
    all.filter(|(path, ..)| !path.starts_with(&ours))
        .map(relative)
        .collect()
}

// covers: G3, G6, G11, F15
#[test]
fn git_finds_nothing_wrong_after_packs_restores_and_pruning() {
    let fixture = Fixture::git();
    for number in 0..git_format::PACKED_FROM + 100 {
        fixture.write(
            &format!("folder {}/file-{number}", number / 50),
            &format!("{number}\n"),
        );
    }
    fixture.write("odd/new\nline \u{e9}", "1");
    let first = fixture.create();
    let packs = fs::read_dir(fixture.path(".hankweave/checkpoints/objects/pack")).unwrap();
    assert_eq!(packs.count(), 2, "many files become one pack with its index");
    let as_first = files(&fixture.workspace);

    fs::remove_dir_all(fixture.path("folder 3")).unwrap();
    fixture.write("folder 1/file-60", "other");
    let second = fixture.create();
    for round in 0..2 * i64::try_from(prune::KEPT).unwrap() {
        let (target, left) = if round % 2 == 0 {
            (&first, &second)
        } else {
            (&second, &first)
        };
        let at = Timestamp::from_millis(1_736_000_002_000 + round);
        let restore = RestoreRequest {
            at,
            ..restore_request(target, left)
        };
        fixture.store.restore(&restore).unwrap();
    }
    assert_eq!(fixture.store.prune(&[]).unwrap().len(), prune::KEPT);
    fixture.write("folder 1/file-60", "other again");
    let (again, _) = open_git(&fixture.workspace);
    let run_id = RunId::new("1736000000001-b").unwrap();
    let third = CheckpointRequest {
        run_id,
        parent: Some(second.sha.clone()),
        ..request(&[])
    };
    let third = again.create(&third).unwrap();

    let Some(log) = git(&fixture, &["log", "--format=%H", third.branch.as_str()]) else {
        eprintln!("skipped: there is no git");
        return;
    };
    let newest: Vec<&str> = log.lines().take(3).collect();
    assert_eq!(
        newest,
        [third.sha.as_str(), second.sha.as_str(), first.sha.as_str()]
    );

    let elsewhere = fixture.folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let work_tree = format!("--work-tree={}", elsewhere.display());
    git(
        &fixture,
        &[
            &work_tree,
            "-c",
            "core.bare=false",
            "checkout",
            "-q",
            "-f",
            "--detach",
            first.sha.as_str(),
            "--",
        ],
    );
    let mut checked_out = files(&elsewhere);
    checked_out.sort();
    assert_eq!(checked_out, as_first);
}

/// Whoever runs `git gc` in the repository gets packs in which objects are stored by what they differ in from others.
// covers: G11
#[test]
fn what_git_has_packed_as_differences_is_read() {
    for by_offset in ["true", "false"] {
        let fixture = Fixture::git();
        let long: String = (0..5_000).map(|line| format!("line {line}\n")).collect();
        fixture.write("long", &long);
        let first = fixture.create();
        fixture.write("long", &(long + "one more\n"));
        let second = fixture.create();
        let setting = format!("repack.useDeltaBaseOffset={by_offset}");
        if git(&fixture, &["-c", &setting, "repack", "-adfq"]).is_none() {
            eprintln!("skipped: there is no git");
            return;
        }
        let counted = git(&fixture, &["count-objects", "-v"]).unwrap();
        assert!(counted.starts_with("count: 0\n"), "{counted}");
        let packs = git(
            &fixture,
            &["cat-file", "--batch-all-objects", "--batch-check=%(deltabase)"],
        );
        assert!(
            packs.unwrap().lines().any(|base| base != "0".repeat(40)),
            "none is a delta"
        );
        let history = GitHistory::open(&fixture.path(".hankweave/checkpoints"));
        let inspected = history.unwrap().unwrap().inspect(&[first.sha, second.sha]);
        assert_eq!(inspected.unwrap(), [[], []]);
    }
}

/// The number of objects, and of packs.
fn counted(fixture: &Fixture) -> Option<(usize, usize)> {
    let counted = git(fixture, &["count-objects", "-v"])?;
    let number = |name: &str| -> usize {
        let line = counted.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse().unwrap()
    };
    Some((number("count:") + number("in-pack:"), number("packs:")))
}

/// In files of their own, in a pack of ours, and in one of git's, which holds differences.
// covers: RUN-23, G11
#[test]
fn what_only_removed_checkpoints_need_goes_whatever_holds_it() {
    for (packed, by_git) in [(false, false), (true, false), (false, true)] {
        let fixture = Fixture::git();
        let files = if packed { git_format::PACKED_FROM + 10 } else { 10 };
        for number in 0..files {
            fixture.write(&format!("folder/{number}"), &format!("{number}\n"));
        }
        let long: String = (0..5_000).map(|line| format!("line {line}\n")).collect();
        fixture.write("long", &long);
        let first = fixture.create();
        fixture.write("long", &(long + "one more\n"));
        fixture.write("folder/0", "only of the second");
        let second = fixture.create();
        if by_git && git(&fixture, &["repack", "-adfq"]).is_none() {
            eprintln!("skipped: there is no git");
            return;
        }
        let all = counted(&fixture).map(|(objects, _)| objects);
        assert_eq!(
            fixture.store.clean(&BTreeSet::new(), &[]).unwrap(),
            0,
            "all is needed"
        );
        assert_eq!(counted(&fixture).map(|(objects, _)| objects), all);

        let gone = BTreeSet::from([second.sha.clone()]);
        assert!(
            fixture
                .store
                .clean(&gone, std::slice::from_ref(&first.sha))
                .unwrap()
                > 0
        );
        // A commit, two folders and two contents.
        assert_eq!(
            counted(&fixture).map(|(objects, _)| objects),
            all.map(|all| all - 5)
        );
        assert!(fixture.store.restorable(&[second.sha]).unwrap().is_empty());
        assert_eq!(
            fixture
                .store
                .restorable(std::slice::from_ref(&first.sha))
                .unwrap()
                .len(),
            1
        );
        let tip = git(&fixture, &["rev-parse", &first.branch]);
        assert_eq!(tip.as_deref().map(str::trim), Some(first.sha.as_str()));
        assert_eq!(fixture.store.clean(&gone, &[]).unwrap(), 0, "once more");

        // The next checkpoint stores again what was removed.
        let third = fixture.create();
        assert_eq!(
            fixture
                .store
                .restorable(std::slice::from_ref(&third.sha))
                .unwrap()
                .len(),
            1
        );
        git(&fixture, &["fsck", "--strict"]);

        // What no branch leads to stays as well while something names it; a branch of which nothing stays is deleted.
        let gone = BTreeSet::from([first.sha.clone(), third.sha.clone()]);
        fixture
            .store
            .clean(&gone, std::slice::from_ref(&first.sha))
            .unwrap();
        assert_eq!(
            fixture
                .store
                .restorable(&[first.sha.clone(), third.sha])
                .unwrap()
                .len(),
            1
        );
        fixture.store.clean(&gone, &[]).unwrap();
        assert!(fixture.store.restorable(&[first.sha]).unwrap().is_empty());
        assert!(!fixture.store.known().unwrap().is_empty(), "the beginning stays");
    }
}
