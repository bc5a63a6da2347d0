use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};
use tempfile::TempDir;

use super::{LoadHankError, LoadedHank, RefError, load};
use crate::world::disk::RealDisk;

/// A folder with a hank of one codon; `more` is added to the codon.
fn folder(more: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        r#"{{"globalSystemPromptFile": "global.md", "hank": [{{"id": "a", "name": "A", "model": "sonnet", "continuationMode": "fresh", {more}}}]}}"#
    );
    fs::write(folder.path().join("hank.json"), text).unwrap();
    fs::write(folder.path().join("global.md"), "global\n").unwrap();
    folder
}

fn problems(loaded: &LoadedHank) -> Vec<String> {
    loaded
        .problems
        .iter()
        .map(|problem| format!("{}: {}", problem.path, problem.message))
        .collect()
}

#[track_caller]
fn check(folder: &Path, expected: &[&str]) {
    let loaded = load(folder).unwrap();
    assert_eq!(problems(&loaded), expected);
    assert!(loaded.problems.iter().all(|problem| problem.position.is_some()));
}

fn fifo(path: &Path) {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

const PROMPTS: &str = r#""promptFile": ["p.md", "sub/q.md"], "appendSystemPromptText": "own""#;

#[test]
fn a_hank_is_found_by_its_folder_and_by_its_file() {
    let folder = folder(r#""promptText": "x""#);
    for path in [folder.path().to_owned(), folder.path().join("hank.json")] {
        let loaded = load(&path).unwrap();
        assert!(loaded.hank.is_some());
        assert_eq!(loaded.root, folder.path().canonicalize().unwrap());
    }
}

// covers: HANK-70
#[test]
fn a_hank_jsonc_is_found_and_two_hanks_are_an_error() {
    let folder = folder(r#""promptText": "x""#);
    let path = |name: &str| folder.path().join(name);
    fs::rename(path("hank.json"), path("hank.jsonc")).unwrap();
    let loaded = load(folder.path()).unwrap();
    assert!(loaded.hank.is_some());
    assert_eq!(loaded.file, path("hank.jsonc"));
    fs::write(path("hank.json"), "{}").unwrap();
    let both = load(folder.path());
    assert!(matches!(both, Err(LoadHankError::TwoHanksInFolder { .. })));
    assert!(load(&path("hank.jsonc")).unwrap().hank.is_some());
}

#[test]
fn what_cannot_be_a_hank_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    assert!(matches!(
        load(folder.path()),
        Err(LoadHankError::NoHankInFolder { .. })
    ));
    assert!(matches!(
        load(&path("none.json")),
        Err(LoadHankError::Missing { .. })
    ));
    fifo(&path("pipe"));
    let pipe = load(&path("pipe"));
    assert!(matches!(
        pipe,
        Err(LoadHankError::Unreadable {
            source: RefError::NotAFile { kind: "a named pipe" },
            ..
        })
    ));
    fs::write(path("large"), vec![b' '; (4 << 20) + 1]).unwrap();
    assert!(matches!(
        load(&path("large")),
        Err(LoadHankError::Unreadable {
            source: RefError::TooLarge,
            ..
        })
    ));
    fs::create_dir(path("hank.json")).unwrap();
    let folder = load(folder.path());
    assert!(matches!(
        folder,
        Err(LoadHankError::Unreadable {
            source: RefError::NotAFile { kind: "a folder" },
            ..
        })
    ));
}

#[test]
fn prompts_are_joined_without_their_front_matter_and_system_prompts_begin_with_the_global_one() {
    let folder = folder(PROMPTS);
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::write(folder.path().join("p.md"), "---\nname: First\n---\none\n").unwrap();
    fs::write(folder.path().join("sub/q.md"), "---\nname: Second\n---\ntwo\n").unwrap();
    let loaded = load(folder.path()).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    let codon = loaded.hank.as_ref().unwrap().codon("a").unwrap();
    let prompt = loaded.prompt_text(&RealDisk, codon).unwrap();
    assert_eq!(
        (prompt.text.as_str(), prompt.metadata.name.as_deref()),
        ("one\n\ntwo\n", Some("First"))
    );
    assert_eq!(
        loaded.system_prompt(&RealDisk, codon).unwrap().as_deref(),
        Some("global\n\nown")
    );
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_prompt() {
    let folder = folder(r#""promptFile": ["p.md", "q.md"], "appendSystemPromptFile": "s.md""#);
    for (name, text) in [("p.md", "one"), ("q.md", "two"), ("s.md", "own")] {
        fs::write(folder.path().join(name), format!("\u{feff}{text}")).unwrap();
    }
    let loaded = load(folder.path()).unwrap();
    let codon = loaded.hank.as_ref().unwrap().codon("a").unwrap();
    assert_eq!(loaded.prompt_text(&RealDisk, codon).unwrap().text, "one\n\ntwo");
    let system = loaded.system_prompt(&RealDisk, codon).unwrap().unwrap();
    assert!(
        system.ends_with("own") && !system.contains('\u{feff}'),
        "{system:?}"
    );
}

// covers: X2, F17
#[test]
fn every_kind_of_file_that_is_no_prompt_is_reported_at_once_without_blocking() {
    let names = r#"["missing.md", "dir", "pipe", "socket", "link.md", "linked/x.md", "file/x.md", "large.md", "bytes.md"]"#;
    let folder = folder(&format!(r#""promptFile": {names}"#));
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("dir")).unwrap();
    fs::write(path("dir/x.md"), "x").unwrap();
    fifo(&path("pipe"));
    let _socket = UnixListener::bind(path("socket")).unwrap();
    symlink(path("dir/x.md"), path("link.md")).unwrap();
    symlink("dir", path("linked")).unwrap();
    fs::write(path("file"), "x").unwrap();
    fs::write(path("large.md"), vec![b'x'; (4 << 20) + 1]).unwrap();
    fs::write(path("bytes.md"), b"\xff").unwrap();
    check(
        folder.path(),
        &[
            "hank[0].promptFile[0]: `missing.md` does not exist",
            "hank[0].promptFile[1]: `dir` is a folder, not a regular file",
            "hank[0].promptFile[2]: `pipe` is a named pipe, not a regular file",
            "hank[0].promptFile[3]: `socket` is a socket, not a regular file",
            "hank[0].promptFile[4]: `link.md`: `link.md` is a symbolic link; a hank holds its files itself",
            "hank[0].promptFile[5]: `linked/x.md`: `linked` is a symbolic link; a hank holds its files itself",
            "hank[0].promptFile[6]: `file/x.md`: `file` is not a folder",
            "hank[0].promptFile[7]: `large.md` is larger than 4 MiB",
            "hank[0].promptFile[8]: `bytes.md` is not UTF-8 text",
        ],
    );
}

// covers: HANK-9
#[test]
fn empty_and_huge_prompts_are_warnings() {
    let folder = folder(PROMPTS);
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::write(folder.path().join("p.md"), " \n").unwrap();
    fs::write(folder.path().join("sub/q.md"), vec![b'x'; (1 << 20) + 1]).unwrap();
    let loaded = load(folder.path()).unwrap();
    let expected = [
        "hank[0].promptFile[0]: the file is empty",
        "hank[0].promptFile[1]: the file is larger than 1 MiB",
    ];
    assert_eq!(
        (problems(&loaded), loaded.problems.errors()),
        (expected.map(str::to_owned).to_vec(), 0)
    );
}

#[test]
fn files_are_looked_at_even_when_the_text_has_errors() {
    let folder = folder(r#""promptFile": "missing.md", "zzz": 1"#);
    let found = problems(&load(folder.path()).unwrap());
    assert_eq!(found.len(), 2, "{found:?}");
}

// covers: HANK-51
#[test]
fn a_sentinel_in_a_file_of_its_own_is_read_too() {
    let sentinel = |more: &str| {
        format!(
            r#"{{"id": "s", "name": "S", "model": "a/b", "trigger": {{"type": "event", "on": ["*"]}},
            "execution": {{"strategy": "immediate"}}, {more}}}"#
        )
    };
    let folder = folder(r#""promptText": "x", "sentinels": [{"sentinelConfig": "sentinels/s.json"}]"#);
    let file = folder.path().join("sentinels/s.json");
    fs::create_dir(folder.path().join("sentinels")).unwrap();
    fs::write(&file, sentinel(r#""userPromptFile": "../prompts/look.md""#)).unwrap();
    let at = "hank[0].sentinels[0].sentinelConfig:";
    let prompts = folder.path().join("prompts");
    let _ = fs::remove_dir_all(&prompts);
    let missing = "`sentinels/../prompts/look.md` does not exist";
    check(folder.path(), &[&format!("{at} {missing}")]);
    fs::create_dir(&prompts).unwrap();
    fs::write(prompts.join("look.md"), "{{ event.path }}").unwrap();
    let unknown = "speaks of `event`; there are sentinelId, runId, codonId, trigger, events";
    check(
        folder.path(),
        &[&format!("{at} `sentinels/../prompts/look.md` {unknown}")],
    );
    fs::write(prompts.join("look.md"), "{{ events[0].data.path }}").unwrap();
    check(folder.path(), &[]);
    fs::write(&file, sentinel(r#""userPromptFile": "../../look.md", "when": 1"#)).unwrap();
    let place = "hank[0].sentinels[0].sentinelConfig: sentinels/s.json";
    check(
        folder.path(),
        &[
            &format!(
                "{place}:2:71: error: userPromptFile: `../../look.md` must not lead out of the folder of the hank"
            ),
            &format!("{place}:2:88: error: when: `when` is not a key of a sentinel"),
        ],
    );
    fs::write(&file, "{").unwrap();
    check(
        folder.path(),
        &[&format!("{place}:1:1: error: not JSON: unterminated object")],
    );
}

// covers: HANK-55
#[test]
fn the_id_of_a_sentinel_in_a_file_stands_once_in_a_codon() {
    let sentinel = |id: &str| {
        format!(
            r#"{{"id": "{id}", "name": "S", "model": "a/b", "trigger": {{"type": "event", "on": ["*"]}},
            "execution": {{"strategy": "immediate"}}, "userPromptText": "x"}}"#
        )
    };
    let entries = [
        sentinel("same"),
        r#""s.json""#.to_owned(),
        sentinel("other"),
        r#""t.json""#.to_owned(),
        r#""t.json""#.to_owned(),
    ];
    let entries = entries.map(|config| format!(r#"{{"sentinelConfig": {config}}}"#));
    let folder = folder(&format!(
        r#""promptText": "x", "sentinels": [{}]"#,
        entries.join(", ")
    ));
    fs::write(folder.path().join("s.json"), sentinel("same")).unwrap();
    fs::write(folder.path().join("t.json"), sentinel("third")).unwrap();
    check(
        folder.path(),
        &[
            "hank[0].sentinels[1].sentinelConfig: sentinel id `same` is already used by hank[0].sentinels[0].sentinelConfig",
            "hank[0].sentinels[4].sentinelConfig: sentinel id `third` is already used by hank[0].sentinels[3].sentinelConfig",
        ],
    );
}

// covers: HANK-14
#[test]
fn a_copied_folder_holds_no_links_or_special_files_and_is_copied_without_repositories() {
    let copy = r#""promptText": "x", "rigSetup": [{"type": "copy", "copy": {"from": "tpl", "to": "t"}}]"#;
    let folder = folder(copy);
    let path = |name: &str| folder.path().join("tpl").join(name);
    fs::create_dir_all(path("a/b")).unwrap();
    fs::write(path("a/b/c"), "x").unwrap();
    check(folder.path(), &[]);
    symlink("/etc", path("a/link")).unwrap();
    fifo(&path("a/b/pipe"));
    fs::create_dir(path(".GIT")).unwrap();
    fs::write(path("a/b/.gitignore"), "c").unwrap();
    check(
        folder.path(),
        &[
            "hank[0].rigSetup[0].copy.from: cannot copy `tpl`: `a/b/.gitignore` would be ignored; only the .gitignore at the top of the hank is read",
            "hank[0].rigSetup[0].copy.from: cannot copy `tpl`: `a/b/pipe` is a named pipe, not a regular file",
            "hank[0].rigSetup[0].copy.from: cannot copy `tpl`: `a/link` is a symbolic link",
            "hank[0].rigSetup[0].copy.from: a copy of `tpl` leaves `.GIT` out",
        ],
    );
}

#[test]
fn a_file_that_became_a_link_after_loading_is_not_read() {
    let folder = folder(r#""promptFile": "p.md""#);
    let prompt = folder.path().join("p.md");
    fs::write(&prompt, "x").unwrap();
    let loaded = load(folder.path()).unwrap();
    let codon = loaded.hank.as_ref().unwrap().codon("a").unwrap();
    fs::remove_file(&prompt).unwrap();
    symlink("/etc/hostname", &prompt).unwrap();
    let error = loaded.prompt_text(&RealDisk, codon).unwrap_err();
    assert!(matches!(error.source, RefError::Link { .. }), "{error:?}");
    assert!(matches!(
        loaded.read_ref(&RealDisk, "../x"),
        Err(RefError::Spelling(_))
    ));
}
