//! Promises of the git store alone: a repository that git can read, that survives crashes, and that is never stale.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use git2::Repository;
use hankweave_core::id::{CheckpointSha, RunId};
use proptest::prelude::*;

use super::contract::{Fixture, open_git, photograph, request, restore_request};
use super::history::{self, LoadedCheckpoint};
use super::*;

fn repository(fixture: &Fixture) -> std::path::PathBuf {
    fixture.path(".hankweave/checkpoints")
}

fn load(fixture: &Fixture, sha: &CheckpointSha) -> LoadedCheckpoint {
    let opened = Repository::open_bare(repository(fixture)).unwrap();
    history::load(&history::open_reader(&opened).unwrap(), sha, None).unwrap()
}

/// Runs the ordinary git without the user's configuration; `None` when there is no git.
fn git(fixture: &Fixture, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("--git-dir")
        .arg(repository(fixture))
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .ok()?;
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8(output.stdout).unwrap())
}

// covers: RUN-18
#[test]
fn ordinary_git_reads_the_checkpoints() {
    let fixture = Fixture::git();
    fixture.write("src/a", "1");
    fixture.write("src.b", "1");
    fixture.write("src-c/d", "1");
    symlink("a", fixture.path("src/link")).unwrap();
    let created = fixture.create();
    let Some(log) = git(
        &fixture,
        &["log", "--all", "--topo-order", "--format=%H %an <%ae> %ct %s"],
    ) else {
        eprintln!("not checked: there is no git");
        return;
    };
    let line = format!(
        "{} hankweave <hankweave@localhost> 1736000000 completed:review",
        created.sha
    );
    assert!(log.starts_with(&line), "{log}");
    assert_eq!(log.lines().count(), 2);
    let listed = git(&fixture, &["ls-tree", "-r", "--name-only", created.sha.as_str()]).unwrap();
    assert_eq!(listed, "src-c/d\nsrc.b\nsrc/a\nsrc/link\n");
    assert_eq!(
        git(&fixture, &["symbolic-ref", "HEAD"]).unwrap(),
        "refs/heads/main\n"
    );
}

// covers: G1
#[test]
fn a_project_that_is_a_git_repository_stays_as_it_is() {
    let fixture = Fixture::git();
    Repository::init(&fixture.workspace).unwrap();
    fixture.write("a", "1");
    let before = photograph(&fixture.path(".git"));
    let first = fixture.create();
    fixture.write("a", "2");
    let second = fixture.create();
    fixture.store.restore(&restore_request(&first, &second)).unwrap();
    fixture.reads("a", "1");
    assert_eq!(photograph(&fixture.path(".git")), before);
}

// covers: G2, G3, F16
#[test]
fn the_users_git_configuration_and_attributes_do_not_apply() {
    const CHILD: &str = "HANKWEAVE_TEST_GIT_CONFIGURATION";
    if std::env::var_os(CHILD).is_none() {
        let home = tempfile::tempdir().unwrap();
        let config = "[core]\n\tautocrlf = input\n\texcludesFile = ~/ignore\n[commit]\n\tgpgSign = true\n";
        fs::write(home.path().join(".gitconfig"), config).unwrap();
        fs::write(home.path().join("ignore"), "*.txt\n").unwrap();
        let name = "checkpoint::git_tests::the_users_git_configuration_and_attributes_do_not_apply";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env("HOME", home.path())
            .env("XDG_CONFIG_HOME", home.path())
            .env(CHILD, "1")
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && output.contains("1 passed"), "{output}");
        return;
    }
    let fixture = Fixture::git();
    fixture.write("a.txt", "$Id$\r\nline\r\n");
    fixture.write(".gitattributes", "* text eol=lf ident filter=x\n");
    let first = fixture.create();
    assert_eq!(first.files, 2);
    fs::remove_file(fixture.path("a.txt")).unwrap();
    let second = fixture.create();
    fixture.store.restore(&restore_request(&first, &second)).unwrap();
    fixture.reads("a.txt", "$Id$\r\nline\r\n");
}

/// Writes one file and makes a checkpoint, again and again, and asserts that each checkpoint has what was written.
#[track_caller]
fn write_and_create(fixture: &Fixture, rounds: std::ops::Range<u32>) {
    for round in rounds {
        let contents = format!("{round:04}");
        fixture.write("a", &contents);
        let created = fixture.create();
        let blob = load(fixture, &created.sha).files.blobs().next().unwrap();
        let blob = Repository::open_bare(repository(fixture))
            .unwrap()
            .find_blob(blob)
            .unwrap()
            .content()
            .to_vec();
        assert_eq!(blob, contents.as_bytes());
    }
}

#[test]
fn a_second_write_in_the_same_tick_is_not_missed() {
    write_and_create(&Fixture::git(), 0..50);
}

// covers: F3
#[test]
fn a_stat_cache_that_cannot_be_written_costs_no_checkpoint_and_hides_no_write() {
    let mut fixture = Fixture::git();
    write_and_create(&fixture, 0..10);
    // A folder in its place cannot be removed or replaced like a file, not even by root.
    let in_the_way = repository(&fixture).join(stat_cache::TEMPORARY);
    fs::create_dir(&in_the_way).unwrap();
    write_and_create(&fixture, 10..50);
    fs::remove_dir(&in_the_way).unwrap();
    // The next start knows the cache of long ago.
    fixture.store = Box::new(open_git(&fixture.workspace).0);
    write_and_create(&fixture, 50..60);
}

#[test]
fn a_write_that_hides_behind_an_old_time_is_not_missed() {
    let fixture = Fixture::git();
    fixture.write("a", "1");
    let set_time = || {
        let file = fs::File::options().write(true).open(fixture.path("a")).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000))
            .unwrap();
    };
    set_time();
    let first = fixture.create();
    fixture.create();
    fixture.write("a", "2");
    set_time();
    let third = fixture.create();
    assert_eq!(fixture.store.diff(&first.sha, &third.sha).unwrap().len(), 1);
}

#[test]
fn unchanged_files_are_not_read_again_even_after_a_new_start() {
    let fixture = Fixture::git();
    fixture.write("a", "1");
    let past = fs::metadata(fixture.path("a")).unwrap().ctime();
    // The file is trusted once the clock of the file system has moved on.
    let mut trusted = false;
    for _ in 0..100_000 {
        fixture.create();
        let cache = stat_cache::StatCache::load(&repository(&fixture));
        trusted = !cache.stats.is_empty();
        if trusted {
            break;
        }
    }
    assert!(trusted, "the clock of the file system stands still at {past}");
    let (again, report) = open_git(&fixture.workspace);
    assert!(!report.created);
    let before = stat_cache::StatCache::load(&repository(&fixture));
    again.create(&request(&[])).unwrap();
    let after = stat_cache::StatCache::load(&repository(&fixture));
    assert_eq!((before.stats, before.folders), (after.stats, after.folders));
}

#[test]
fn a_lost_cache_costs_nothing_but_time() {
    let fixture = Fixture::git();
    fixture.write("a/b", "1");
    let first = fixture.create();
    fs::write(repository(&fixture).join("stat-cache"), "damaged").unwrap();
    let (again, _) = open_git(&fixture.workspace);
    let second = again.create(&request(&[])).unwrap();
    assert_eq!(again.diff(&first.sha, &second.sha).unwrap(), []);
}

#[test]
fn a_run_id_that_is_no_branch_name_is_refused() {
    let fixture = Fixture::git();
    let request = CheckpointRequest {
        run_id: RunId::new("a b..c").unwrap(),
        ..request(&[])
    };
    assert!(matches!(
        fixture.store.create(&request),
        Err(CheckpointError::InvalidBranch { .. })
    ));
}

#[test]
fn a_missing_file_of_a_checkpoint_is_found_before_anything_changes() {
    let fixture = Fixture::git_to_damage();
    fixture.write("a", "1");
    fixture.write("b", "1");
    let first = fixture.create();
    fixture.write("a", "2");
    fixture.write("b", "2");
    let second = fixture.create();
    let blob = load(&fixture, &first.sha)
        .files
        .get(b"b")
        .unwrap()
        .blob
        .to_string();
    fs::remove_file(
        repository(&fixture)
            .join("objects")
            .join(&blob[..2])
            .join(&blob[2..]),
    )
    .unwrap();
    let missing = fixture
        .store
        .verify(&[first.sha.clone(), second.sha.clone()])
        .unwrap();
    assert_eq!(missing, std::slice::from_ref(&first.sha));
    let error = fixture
        .store
        .restore(&restore_request(&first, &second))
        .unwrap_err();
    assert!(matches!(error, RestoreError::History(_)), "{error}");
    fixture.reads("a", "2");
}

// covers: G10, F21, G1
#[test]
fn what_a_crash_left_is_removed_at_the_next_start() {
    let fixture = Fixture::git();
    let created = fixture.create();
    let repository = repository(&fixture);
    let locks = [
        "HEAD.lock",
        "config.lock",
        "packed-refs.lock",
        "refs/heads/run-x.lock",
        "objects/pack/tmp_pack_checkpoint",
        "objects/tmp_object_git2_x",
        "stat-cache.tmp",
    ];
    for lock in locks {
        fs::write(repository.join(lock), "").unwrap();
    }
    let unfinished = fixture.path(".hankweave/checkpoints.tmp-old");
    fs::create_dir(&unfinished).unwrap();
    let (store, report) = open_git(&fixture.workspace);
    assert_eq!(report.removed.len(), locks.len() + 1);
    assert!(!unfinished.exists() && locks.iter().all(|lock| !repository.join(lock).exists()));
    assert!(store.contains(&created.sha).unwrap());
    store.create(&request(&[])).unwrap();
}

// covers: G10, F21
#[test]
fn a_broken_repository_is_moved_aside_and_never_deleted() {
    let damage: [fn(&Path); 2] = [
        |repository| fs::remove_dir_all(repository.join("objects")).unwrap(),
        |repository| {
            fs::remove_dir_all(repository).unwrap();
            fs::write(repository, "not a folder").unwrap();
        },
    ];
    for damage in damage {
        let fixture = Fixture::git();
        let lost = fixture.create();
        damage(&repository(&fixture));
        let (store, report) = open_git(&fixture.workspace);
        assert!(report.created && report.moved_aside.unwrap().exists());
        assert!(!store.contains(&lost.sha).unwrap());
        store.create(&request(&[])).unwrap();
    }
}

// covers: G10, F21
#[test]
fn a_lost_first_commit_costs_no_other_checkpoint() {
    let damage: [fn(&Path); 5] = [
        |repository| fs::remove_file(repository.join("HEAD")).unwrap(),
        |repository| fs::remove_file(repository.join("refs/heads/main")).unwrap(),
        |repository| fs::remove_dir_all(repository.join("refs")).unwrap(),
        |repository| {
            fs::rename(repository.join("refs"), repository.with_file_name("refs")).unwrap();
            symlink("../refs", repository.join("refs")).unwrap();
        },
        |repository| {
            let main = fs::read_to_string(repository.join("refs/heads/main")).unwrap();
            let object = repository
                .join("objects")
                .join(&main[..2])
                .join(main[2..].trim_end());
            fs::remove_file(object).unwrap();
        },
    ];
    for damage in damage {
        let fixture = Fixture::git();
        fixture.write("a", "1");
        let kept = fixture.create();
        damage(&repository(&fixture));
        let (store, report) = open_git(&fixture.workspace);
        assert!(report.mended && !report.created, "{report:?}");
        assert_eq!(report.moved_aside, None);
        assert_eq!(store.verify(std::slice::from_ref(&kept.sha)).unwrap(), []);
        store.create(&request(&[])).unwrap();
        assert_eq!(open_git(&fixture.workspace).1, OpenReport::default());
    }
}

// covers: G2
#[test]
fn a_setting_that_could_lead_elsewhere_is_never_read_and_set_aside() {
    let settings = [
        "[include]\n\tpath = /etc/passwd",
        "[filter \"x\"]",
        "[alias] x = !sh",
        "[core]\n\tsshCommand = x",
    ];
    for setting in settings {
        let fixture = Fixture::git();
        let created = fixture.create();
        let config = repository(&fixture).join("config");
        let good = fs::read_to_string(&config).unwrap();
        let text = format!("{good}{setting}\n");
        fs::write(&config, &text).unwrap();
        let Err(HistoryError::Read(refused)) = GitHistory::open(&repository(&fixture)) else {
            panic!("{setting} was read")
        };
        assert!(
            refused.source.to_string().contains("which is not ours"),
            "{refused:?}"
        );
        let (store, report) = open_git(&fixture.workspace);
        let [(_, kept)] = &report.set_aside[..] else {
            panic!("{setting}: {report:?}")
        };
        assert_eq!(fs::read_to_string(kept).unwrap(), text);
        assert_eq!(fs::read_to_string(&config).unwrap(), good);
        assert!(store.contains(&created.sha).unwrap());
    }
}

// covers: G10, F21
#[test]
fn damage_to_one_name_of_a_branch_hides_no_other() {
    let fixture = Fixture::git();
    let created = fixture.create();
    let repository = repository(&fixture);
    let zeros = [0; 100];
    let line = format!("{} refs/heads/packed\n", created.sha);
    fs::write(repository.join("packed-refs"), [line.as_bytes(), &zeros].concat()).unwrap();
    fs::write(repository.join("refs/heads/torn"), &zeros[..41]).unwrap();
    fs::write(repository.join("HEAD"), zeros).unwrap();
    assert!(fixture.store.list().is_err());
    // A forbidden entry is found first, and then the names as well.
    fs::write(repository.join("commondir"), "..").unwrap();
    let (store, report) = open_git(&fixture.workspace);
    assert_eq!(report.set_aside.len(), 4, "{report:?}");
    assert_eq!(report.moved_aside, None);
    let opened = Repository::open_bare(&repository).unwrap();
    assert!(opened.find_reference("refs/heads/packed").is_ok());
    assert!(store.list().unwrap().contains_key(&created.sha));
    store.create(&request(&[])).unwrap();
    assert_eq!(open_git(&fixture.workspace).1.set_aside, []);
}

// covers: G2, X5
#[test]
fn nothing_in_the_repository_leads_elsewhere_or_keeps_anybody_waiting() {
    for part in [
        "info",
        "refs",
        "refs/heads",
        "objects/info",
        "objects/pack",
        "objects",
    ] {
        let fixture = Fixture::git();
        fixture.create();
        let (folder, elsewhere) = (
            repository(&fixture).join(part),
            fixture.folder.path().join("elsewhere"),
        );
        fs::create_dir_all(&folder).unwrap();
        fs::rename(&folder, &elsewhere).unwrap();
        symlink(&elsewhere, &folder).unwrap();
        let before = photograph(&elsewhere);
        assert!(fixture.store.create(&request(&[])).is_err(), "{part}");
        let (store, report) = open_git(&fixture.workspace);
        assert_eq!(report.set_aside.len(), 1, "{part}: {report:?}");
        store.create(&request(&[])).unwrap();
        assert_eq!(photograph(&elsewhere), before, "{part}");
    }
}

/// A file that is too large to be read into memory as a whole is stored, compared, restored and verified in chunks.
// covers: G3, G6
#[test]
fn a_large_file_goes_through_in_pieces() {
    let fixture = Fixture::git();
    let noise = |seed: u64| -> Vec<u8> {
        let mut state = seed;
        let next = move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed);
            (state >> 56) as u8
        };
        (0..3 << 20).map(next).collect()
    };
    let path = fixture.path("large");
    fs::write(&path, noise(1)).unwrap();
    let first = fixture.create();
    let blob = load(&fixture, &first.sha).files.get(b"large").unwrap().blob;
    assert_eq!(
        blob,
        git2::Oid::hash_object(git2::ObjectType::Blob, &noise(1)).unwrap()
    );
    let opened = Repository::open_bare(repository(&fixture)).unwrap();
    assert!(opened.find_blob(blob).unwrap().content() == noise(1));
    fs::write(&path, noise(3)).unwrap();
    fs::write(fixture.path("copy"), noise(3)).unwrap();
    let second = fixture.create();
    let history = GitHistory::open(&repository(&fixture)).unwrap().unwrap();
    let all = [first.sha.clone(), second.sha.clone()];
    assert_eq!(history.inspect(&all).unwrap(), [[], []]);
    let report = fixture.store.restore(&restore_request(&first, &second)).unwrap();
    assert!(fs::read(&path).unwrap() == noise(1) && !fixture.path("copy").exists());
    assert_eq!(report.done.write.len(), 1);
}

#[test]
fn changed_settings_are_written_again() {
    let fixture = Fixture::git();
    let config = repository(&fixture).join("config");
    let good = fs::read_to_string(&config).unwrap();
    fs::write(&config, good.replace("autocrlf = false", "autocrlf = true")).unwrap();
    open_git(&fixture.workspace);
    assert_eq!(fs::read_to_string(&config).unwrap(), good);
    let mode = fs::metadata(repository(&fixture)).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "others can read the repository");
}

#[test]
fn a_history_is_read_without_changing_anything() {
    let fixture = Fixture::git();
    let created = fixture.create();
    fs::write(repository(&fixture).join("HEAD.lock"), "").unwrap();
    let before = photograph(&fixture.workspace);
    let history = GitHistory::open(&repository(&fixture)).unwrap().unwrap();
    assert!(history.known().unwrap().contains_key(&created.sha));
    assert_eq!(photograph(&fixture.workspace), before);
    assert!(GitHistory::open(&fixture.path("missing")).unwrap().is_none());
    assert!(GitHistory::open(&fixture.workspace).is_err());
}

/// One change of a workspace.
#[derive(Debug, Clone)]
enum Edit {
    Write(usize, u8),
    Executable(usize, bool),
    Link(usize),
    Remove(usize),
    Ignore(usize),
}

/// Files and folders in each other's way.
const PATHS: [&str; 10] = [
    "a",
    "a/b",
    "a/b/c",
    "a.b",
    "a-b/c",
    "d/e/f",
    "d/e/g",
    "d/h",
    "x\ny/\u{e9}",
    "d.e",
];

impl Edit {
    fn apply(&self, workspace: &Path) {
        let clear = |path: &Path| {
            if path.is_dir() && !path.is_symlink() {
                fs::remove_dir_all(path).unwrap();
            } else if path.symlink_metadata().is_ok() {
                fs::remove_file(path).unwrap();
            }
        };
        let place = |path: &str| {
            let mut parent = workspace.to_owned();
            for name in Path::new(path).parent().unwrap() {
                parent.push(name);
                if !parent.is_dir() || parent.is_symlink() {
                    clear(&parent);
                    fs::create_dir(&parent).unwrap();
                }
            }
            let path = workspace.join(path);
            if path.is_dir() || path.is_symlink() {
                clear(&path);
            }
            path
        };
        match *self {
            Self::Write(path, contents) => fs::write(place(PATHS[path]), [contents]).unwrap(),
            Self::Executable(path, on) => {
                let path = workspace.join(PATHS[path]);
                if path.is_file() && !path.is_symlink() {
                    fs::set_permissions(path, fs::Permissions::from_mode(if on { 0o755 } else { 0o644 }))
                        .unwrap();
                }
            }
            Self::Link(path) => {
                let path = place(PATHS[path]);
                clear(&path);
                symlink("target", path).unwrap();
            }
            Self::Remove(path) => clear(&workspace.join(PATHS[path])),
            Self::Ignore(path) => {
                fs::write(workspace.join(".gitignore"), format!("/{}\n", PATHS[path])).unwrap()
            }
        }
    }
}

fn edit() -> impl Strategy<Value = Edit> {
    let path = 0..PATHS.len();
    prop_oneof![
        4 => (path.clone(), any::<u8>()).prop_map(|(path, contents)| Edit::Write(path, contents)),
        1 => (path.clone(), any::<bool>()).prop_map(|(path, on)| Edit::Executable(path, on)),
        1 => path.clone().prop_map(Edit::Link),
        2 => path.clone().prop_map(Edit::Remove),
        1 => path.prop_map(Edit::Ignore),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(10) })]

    #[test]
    fn a_tree_built_with_the_cache_is_the_tree_built_from_nothing(
        rounds in prop::collection::vec(prop::collection::vec(edit(), 0..6), 1..6),
    ) {
        let fixture = Fixture::git();
        let mut all = Vec::new();
        for round in rounds {
            round.iter().for_each(|edit| edit.apply(&fixture.workspace));
            let cached = fixture.create();
            // As long as no entry can be trusted, there is no cache.
            let _ = fs::remove_file(repository(&fixture).join("stat-cache"));
            let (fresh, _) = open_git(&fixture.workspace);
            let run_id = RunId::new(format!("fresh-{}", all.len())).unwrap();
            let again = CheckpointRequest { run_id, parent: Some(cached.sha.clone()), ..request(&[]) };
            let scratch = fresh.create(&again).unwrap();
            let (cached_tree, scratch) = (load(&fixture, &cached.sha), load(&fixture, &scratch.sha));
            prop_assert_eq!(&cached_tree.files, &scratch.files);
            prop_assert_eq!(cached_tree.folders.get(&[][..]), scratch.folders.get(&[][..]));
            all.push(cached);
        }
        // Every checkpoint can be restored from the last one.
        let mut left = all.last().unwrap().clone();
        for target in all.iter().rev() {
            fixture.store.restore(&restore_request(target, &left)).unwrap();
            let plan = fixture.store.plan_restore(&restore_request(target, &left)).unwrap();
            prop_assert!(plan.write.is_empty() && plan.delete.is_empty());
            left = target.clone();
        }
    }
}
