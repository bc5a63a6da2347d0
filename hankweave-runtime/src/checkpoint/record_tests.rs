//! Records as the `git` program would write them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use hankweave_core::time::Timestamp;

use super::contract::{Fixture, photograph};
use super::*;

const REFERENCE: &str = "refs/hankweave/record";

/// Files of a record, by their paths.
type Files = BTreeMap<String, Vec<u8>>;

/// A record to write, and the one before it.
struct Wanted<'a> {
    before: Option<&'a str>,
    parents: &'a [String],
    message: &'a str,
    files: &'a Files,
}

impl Wanted<'_> {
    const AT: i64 = 1_736_000_000_999;

    /// Writes the commit. Returns its name and the paths of the contents that were asked for.
    fn write(&self, repository: &Path) -> Result<(String, Vec<String>), ObjectError> {
        let names = self.files.iter();
        let names = names.map(|(path, contents)| (path.clone(), RecordCommit::blob_name(contents)));
        let commit = RecordCommit {
            repository,
            reference: REFERENCE,
            before: self.before,
            parents: self.parents,
            at: Timestamp::from_millis(Self::AT),
            message: self.message,
            files: &names.collect(),
        };
        let mut asked = Vec::new();
        let name = commit.write(|path| {
            asked.push(path.to_owned());
            Ok::<_, ObjectError>(self.files[path].clone())
        });
        Ok((name?, asked))
    }

    /// Lets git write it as earlier versions did; `None` when there is no git.
    fn import(&self, repository: &Path) -> Option<String> {
        let mut git = Command::new("git")
            .arg("--git-dir")
            .arg(repository)
            .args(["fast-import", "--quiet", "--done", "--force"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut input = git.stdin.take().unwrap();
        writeln!(input, "commit refs/imported\nmark :1").unwrap();
        let seconds = Self::AT / 1_000;
        writeln!(input, "committer hankweave <hankweave@localhost> {seconds} +0000").unwrap();
        writeln!(input, "data {}\n{}", self.message.len(), self.message).unwrap();
        for (word, parent) in ["from"]
            .into_iter()
            .chain(std::iter::repeat("merge"))
            .zip(self.parents)
        {
            writeln!(input, "{word} {parent}").unwrap();
        }
        writeln!(input, "deleteall").unwrap();
        for (path, contents) in self.files {
            writeln!(input, "M 100644 inline {path}\ndata {}", contents.len()).unwrap();
            input.write_all(contents).unwrap();
            writeln!(input).unwrap();
        }
        writeln!(input, "get-mark :1\ndone").unwrap();
        drop(input);
        let output = git.wait_with_output().unwrap();
        assert!(output.status.success());
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }
}

fn target(repository: &Path) -> Option<String> {
    let text = fs::read_to_string(repository.join(REFERENCE)).ok()?;
    Some(text.trim().to_owned())
}

/// Returns paths whose order as a whole differs from the order of their names, and one that git would quote.
fn files(many: usize) -> Files {
    let odd = [
        "a.b/000000",
        "a/000000",
        "a/000001",
        "a-b/000000",
        "\u{fc} \"x\"/000000",
    ];
    let odd = odd.map(|path| (format!("state/{path}"), path.as_bytes().to_vec()));
    let many = (0..many).map(|number| (format!("state/logs/{number:06}"), vec![b'x'; number]));
    let manifest = ("manifest.json".to_owned(), b"{}".to_vec());
    odd.into_iter().chain(many).chain([manifest]).collect()
}

/// In files of their own and in a pack.
// covers: RUN-28, P8, G6, G11
#[test]
fn a_record_has_the_name_that_git_gives_it_and_of_the_next_one_only_what_is_new_is_written() {
    for many in [10, 300] {
        let fixture = Fixture::git();
        let repository = fixture.path(".hankweave/checkpoints");
        let checkpoints = ["1", "2"].map(|version| {
            fixture.write("file", version);
            fixture.create().sha.to_string()
        });
        let mut files = files(many);
        // What a power loss leaves of an object that nothing names yet.
        let lost = RecordCommit::blob_name(b"a/000000");
        let lost = repository.join("objects").join(&lost[..2]).join(&lost[2..]);
        if many == 10 {
            fs::create_dir_all(lost.parent().unwrap()).unwrap();
            fs::write(&lost, "").unwrap();
        }
        let first = Wanted {
            before: None,
            parents: &checkpoints,
            message: "record 0 of x\n\ntoken: 0\n",
            files: &files,
        };
        let (name, asked) = first.write(&repository).unwrap();
        assert_eq!(asked.len(), files.len());
        assert_eq!(target(&repository).as_ref(), Some(&name));
        let Some(imported) = first.import(&repository) else {
            eprintln!("skipped: there is no git");
            return;
        };
        assert_eq!(name, imported, "{many}");

        let objects = || {
            let all = photograph(&repository.join("objects")).into_iter();
            all.filter(|(.., contents)| !contents.is_empty()).count()
        };
        let there = objects();
        files.insert("state/a/000001".to_owned(), b"more".to_vec());
        files.remove("state/a-b/000000");
        let second = Wanted {
            before: Some(&name),
            parents: &[name.clone(), checkpoints[0].clone()],
            message: "record 1 of x\n\ntoken: 7\n",
            files: &files,
        };
        let (next, asked) = second.write(&repository).unwrap();
        assert_eq!(asked, ["state/a/000001"]);
        // A content, three folders and the commit.
        assert_eq!(objects() - there, 5, "{many}");
        assert_eq!(target(&repository).as_ref(), Some(&next));
        assert_eq!(second.import(&repository), Some(next), "{many}");
    }
}

// covers: G6
#[test]
fn the_reference_of_a_record_stays_where_it_was_when_a_file_changes_or_another_process_moves_it() {
    let fixture = Fixture::git();
    let repository = fixture.path(".hankweave/checkpoints");
    let parents = [fixture.create().sha.to_string()];
    let [one, two] = [files(1), files(2)];
    let wanted = |files| Wanted {
        before: None,
        parents: &parents,
        message: "",
        files,
    };
    let (name, _) = wanted(&one).write(&repository).unwrap();
    let lock = repository.join(format!("{REFERENCE}.lock"));
    fs::write(&lock, "").unwrap();
    assert!(wanted(&two).write(&repository).is_err());
    fs::remove_file(&lock).unwrap();
    let changing = RecordCommit {
        repository: &repository,
        reference: REFERENCE,
        before: Some(&name),
        parents: &parents,
        at: Timestamp::from_millis(Wanted::AT),
        message: "",
        files: &BTreeMap::from([("a".to_owned(), RecordCommit::blob_name(b"1"))]),
    };
    let error = changing
        .write(|_| Ok::<_, ObjectError>(b"2".to_vec()))
        .unwrap_err();
    assert_eq!(error.source.to_string(), "`a` changes");
    assert_eq!(target(&repository), Some(name));
    assert!(!lock.exists());
}
