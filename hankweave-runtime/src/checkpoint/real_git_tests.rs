//! The repository through the eyes of the `git` program, after everything that we do to it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use hankweave_core::id::RunId;
use hankweave_core::time::Timestamp;

use super::contract::{Fixture, initial, open_git, photograph, request, restore_request};
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

#[test]
fn a_new_repository_has_only_what_git_needs() {
    let fixture = Fixture::git();
    let repository = fixture.path(".hankweave/checkpoints");
    let mut names: Vec<String> = ["", "info", "objects", "refs", "refs/heads"]
        .into_iter()
        .flat_map(|folder| {
            let entries = fs::read_dir(repository.join(folder)).unwrap();
            entries.map(move |entry| Path::new(folder).join(entry.unwrap().file_name()))
        })
        .map(|path| path.to_string_lossy().into_owned())
        // The first commit and its folder, and what the opening leaves.
        .filter(|name| !(name.starts_with("objects/") && name.len() == "objects/00".len()))
        .collect();
    names.sort();
    let needed = [
        "HEAD",
        "config",
        "info",
        "info/attributes",
        "objects",
        "objects/pack",
        "refs",
        "refs/heads",
        "refs/heads/main",
    ];
    assert_eq!(names, needed);
    git(&fixture, &["fsck", "--strict"]);
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

/// A user names a checkpoint with an annotated tag, which is an object of its own.
// covers: G11
#[test]
fn a_tag_of_the_user_is_packed_as_a_tag() {
    let fixture = Fixture::git();
    fixture.write("a.txt", "1");
    let made = fixture.create();
    let user = ["-c", "user.name=ann", "-c", "user.email=ann@x.example"];
    let tag = ["tag", "-a", "-m", "the draft", "draft", made.sha.as_str()];
    if git(&fixture, &[&user[..], &tag].concat()).is_none() {
        eprintln!("skipped: there is no git");
        return;
    }
    assert!(fixture.store.pack().unwrap() > 1);
    git(&fixture, &["fsck", "--strict"]);
    let read = git(&fixture, &["cat-file", "tag", "draft"]).unwrap();
    assert!(read.ends_with("the draft\n"), "{read}");
}

/// A user who runs `git gc` in the repository gets packs in which objects are stored as differences from others.
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

        // Commits without a branch stay while a reference names them; a branch of which no commit stays is deleted.
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
        assert!(!fixture.store.list().unwrap().is_empty(), "the beginning stays");
    }
}

/// The bytes of all objects, in files of their own and in packs.
fn bytes_of_objects(fixture: &Fixture) -> u64 {
    let all = photograph(&fixture.path(".hankweave/checkpoints/objects"));
    all.iter().map(|(.., contents)| contents.len() as u64).sum()
}

/// Unrelated runs: the files and objects of each are removed with it, as loose objects and in a pack.
// covers: RUN-18, RUN-23
#[test]
fn a_run_that_began_anew_goes_with_all_that_it_began_with() {
    for packed in [false, true] {
        let fixture = Fixture::git();
        let files = if packed { git_format::PACKED_FROM } else { 1 };
        let runs: Vec<[Checkpoint; 2]> = (0..6)
            .map(|run| {
                let beginning = initial(&fixture);
                for number in 0..files {
                    // Nothing that could be compressed away.
                    let contents: String = (0..200)
                        .map(|at| format!("{:x}", run * 7_919 + number * 104_729 + at * at))
                        .collect();
                    fixture.write(&format!("file-{number}"), &contents);
                }
                let end = CheckpointRequest {
                    run_id: RunId::new(format!("1736000000000-{run}")).unwrap(),
                    parent: Some(beginning.sha.clone()),
                    ..request(&[])
                };
                [beginning, fixture.store.create(&end).unwrap()]
            })
            .collect();
        let known = fixture.store.list().unwrap();
        for pair in runs.windows(2) {
            // Each was made from the one before it, and none needs another.
            let [[_, _], [beginning, end]] = pair else {
                unreachable!()
            };
            assert_eq!(known[&end.sha].parent.as_ref(), Some(&beginning.sha));
            assert_eq!(known[&beginning.sha].parent.as_ref(), Some(&pair[0][0].sha));
            let all: Vec<_> = runs.iter().flatten().map(|made| &made.sha).collect();
            for made in [beginning, end] {
                assert!(!all.contains(&known[&made.sha].before.as_ref().unwrap()));
            }
        }
        let all = |runs: &[[Checkpoint; 2]]| {
            runs.iter()
                .flatten()
                .map(|made| made.sha.clone())
                .collect::<Vec<_>>()
        };
        let (gone, keep) = (all(&runs[..5]), all(&runs[5..]));
        let gone: BTreeSet<_> = gone.into_iter().collect();
        let before = bytes_of_objects(&fixture);
        let measured = fixture.store.measure_clean(&gone, &keep).unwrap();
        assert_eq!(bytes_of_objects(&fixture), before, "a look changes nothing");
        assert_eq!(fixture.store.clean(&gone, &keep).unwrap(), measured);
        assert_eq!(before - bytes_of_objects(&fixture), measured);
        // Of six versions of the files two stay: what the last run began with, and what it left.
        assert!(measured * 10 > before * 6, "{measured} of {before}");
        assert_eq!(fixture.store.restorable(&keep).unwrap().len(), 2);
        assert_eq!(fixture.store.measure_clean(&gone, &keep).unwrap(), 0);
        let Some(branches) = git(&fixture, &["for-each-ref", "--format=%(refname:short)"]) else {
            return;
        };
        assert_eq!(branches, "main\nrun-1736000000000-5\n");
    }
}

/// What earlier versions have made follows one another, and still goes with the last run that needs it.
// covers: RUN-23
#[test]
fn beginnings_that_follow_one_another_go_with_the_runs_that_are_built_on_them() {
    let fixture = Fixture::git();
    fixture.write("a", "1");
    let first = initial(&fixture);
    // The first commit again, as an earlier version would have made it.
    let tree = git(&fixture, &["rev-parse", &format!("{}^{{tree}}", first.sha)]);
    let Some(tree) = tree else { return };
    let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
    let message = "initial: the project before any codon\n\nTimestamp: 2025-01-04T14:13:20.123Z";
    let commit = [
        &who[..],
        &[
            "commit-tree",
            tree.trim(),
            "-p",
            first.sha.as_str(),
            "-m",
            message,
        ],
    ]
    .concat();
    let second = git(&fixture, &commit).unwrap();
    git(&fixture, &["update-ref", "refs/heads/main", second.trim()]);
    fixture.write("a", "2");
    let third = initial(&fixture);
    let next = request(&[]);
    let end = fixture
        .store
        .create(&CheckpointRequest {
            parent: Some(third.sha.clone()),
            ..next
        })
        .unwrap();
    let gone = BTreeSet::from([
        first.sha.clone(),
        hankweave_core::id::CheckpointSha::new(second.trim()),
    ]);
    let keep = [third.sha, end.sha];
    assert!(fixture.store.clean(&gone, &keep).unwrap() > 0);
    assert_eq!(fixture.store.restorable(&keep).unwrap().len(), 2);
    assert!(!fixture.store.contains(&first.sha).unwrap());
}
