//! A record as a commit in the repository of the checkpoints: written in one go by `git fast-import`, read piece by piece.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use hankweave_core::time::Timestamp;
use hankweave_runtime::world::World;
use hankweave_runtime::world::process::Stdin;
use sha1_smol::Sha1;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::book::WRITTEN;
use crate::contents::{RecordFile, piece_path};
use crate::error::RemoteError;
use crate::git::Git;
use crate::limits::ArrivalLimits;
use crate::manifest::{FILE, RecordManifest};

const ACTION: &str = "write the record";

/// The longest entry of a tree, in bytes.
const LONGEST_ENTRY: usize = 64 << 10;

/// The names of the pieces of a record by their paths.
pub(crate) type Pieces = BTreeMap<String, String>;

/// A record that is written, or is about to be.
#[derive(Debug)]
pub(crate) struct RecordDraft {
    /// The time of its commit, so that the same record has the same name whenever it is written.
    pub(crate) at: Timestamp,
    pub(crate) manifest: RecordManifest,
    pub(crate) contents: Arc<Vec<RecordFile>>,
    pub(crate) pieces: Pieces,
}

/// A record that was there before.
#[derive(Debug)]
pub(crate) struct PreviousRecord {
    pub(crate) commit: String,
    pub(crate) manifest: RecordManifest,
    pub(crate) pieces: Pieces,
}

impl PreviousRecord {
    /// Reads the one with this name; `None` when it is not in the repository any more.
    pub(crate) async fn read(git: &Git, commit: &str) -> Result<Option<Self>, RemoteError> {
        let named = format!("{commit}^{{commit}}");
        let exists = git.ask("look for a record", &["cat-file", "-e", &named]).await?;
        match exists.exit.is_success() {
            true => Ok(Some(Self {
                commit: commit.to_owned(),
                manifest: manifest(git, commit).await?,
                pieces: pieces(git, commit, &ArrivalLimits::none()).await?,
            })),
            false => Ok(None),
        }
    }
}

impl RecordDraft {
    /// Names the pieces of these files.
    pub(crate) async fn new(
        world: &World,
        manifest: RecordManifest,
        contents: Vec<RecordFile>,
        at: Timestamp,
    ) -> Result<Self, RemoteError> {
        let (disk, contents) = (Arc::clone(&world.disk), Arc::new(contents));
        let named = Arc::clone(&contents);
        let name = move || {
            let mut pieces = Pieces::new();
            for content in named.iter() {
                for number in 0..content.pieces() {
                    let name = blob_name(&content.piece(&*disk, number)?);
                    pieces.insert(piece_path(&content.path, number), name);
                }
            }
            Ok::<_, RemoteError>(pieces)
        };
        Ok(Self {
            pieces: world.blocking.run(name).await?,
            at,
            manifest,
            contents,
        })
    }

    /// Whether this tells nothing new.
    pub(crate) fn is_as(&self, earlier: &PreviousRecord) -> bool {
        self.manifest.tells_the_same(&earlier.manifest) && self.pieces == earlier.pieces
    }

    /// Writes it as a commit with these parents, of which the first is the record before it if there is one, and returns its name. Pieces that the record before it has
    /// are not written again.
    pub(crate) async fn write(
        &self,
        world: &World,
        git: &Git,
        known: &Pieces,
        parents: &[String],
    ) -> Result<String, RemoteError> {
        let arguments = ["fast-import", "--quiet", "--done", "--force"];
        let mut process = git.start(ACTION, &arguments, Stdin::Open)?;
        let stdin = process.stdin.take();
        let mut feed = FastImport {
            world,
            stdin: stdin.ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?,
            marks: 0,
        };
        let fed = feed.all(self, known, parents).await;
        drop(feed);
        let answer = git.finish(ACTION, process).await?;
        // Git ended before it had read everything: it says why.
        if let (Err(error), true) = (fed, answer.exit.is_success()) {
            return Err(error);
        }
        let printed = answer.or_refused(ACTION)?;
        Ok(printed.trim().to_owned())
    }
}

/// Input of git.
struct FastImport<'w> {
    world: &'w World,
    stdin: Pin<Box<dyn AsyncWrite + Send>>,
    marks: u64,
}

impl FastImport<'_> {
    async fn all(
        &mut self,
        draft: &RecordDraft,
        known: &Pieces,
        parents: &[String],
    ) -> Result<(), RemoteError> {
        let mut tree = String::new();
        let text = serde_json::to_vec_pretty(&draft.manifest).map_err(|error| failed(error.into()))?;
        let mark = self.blob(&text).await?;
        tree.push_str(&format!("M 100644 :{mark} {FILE}\n"));
        for (index, content) in draft.contents.iter().enumerate() {
            for number in 0..content.pieces() {
                let path = piece_path(&content.path, number);
                let name = &draft.pieces[&path];
                if known.get(&path) == Some(name) {
                    tree.push_str(&format!("M 100644 {name} {path}\n"));
                    continue;
                }
                let (disk, contents) = (Arc::clone(&self.world.disk), Arc::clone(&draft.contents));
                let read = move || contents[index].piece(&*disk, number);
                let piece = self.world.blocking.run(read).await?;
                if blob_name(&piece) != *name {
                    return Err(failed(io::Error::other(format!("`{path}` changes"))));
                }
                let mark = self.blob(&piece).await?;
                tree.push_str(&format!("M 100644 :{mark} {path}\n"));
            }
        }
        self.commit(draft, parents, &tree).await
    }

    async fn blob(&mut self, bytes: &[u8]) -> Result<u64, RemoteError> {
        self.marks += 1;
        self.write_command(&format!("blob\nmark :{}\ndata {}\n", self.marks, bytes.len()))
            .await?;
        self.write(bytes).await?;
        self.write_command("\n").await?;
        Ok(self.marks)
    }

    async fn commit(
        &mut self,
        draft: &RecordDraft,
        parents: &[String],
        tree: &str,
    ) -> Result<(), RemoteError> {
        self.marks += 1;
        let (mark, manifest) = (self.marks, &draft.manifest);
        let message = format!(
            "record {} of {}\n\ntoken: {}\n",
            manifest.number, manifest.execution, manifest.token
        );
        let seconds = draft.at.as_millis() / 1_000;
        let mut text = format!("commit {WRITTEN}\nmark :{mark}\n");
        text.push_str(&format!(
            "committer hankweave <hankweave@localhost> {seconds} +0000\n"
        ));
        text.push_str(&format!("data {}\n{message}\n", message.len()));
        let words = std::iter::once("from").chain(std::iter::repeat("merge"));
        for (word, parent) in words.zip(parents) {
            text.push_str(&format!("{word} {parent}\n"));
        }
        text.push_str(&format!("deleteall\n{tree}\nget-mark :{mark}\ndone\n"));
        self.write_command(&text).await?;
        self.stdin.flush().await.map_err(failed)
    }

    async fn write_command(&mut self, text: &str) -> Result<(), RemoteError> {
        self.write(text.as_bytes()).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), RemoteError> {
        self.stdin.write_all(bytes).await.map_err(failed)
    }
}

fn failed(source: io::Error) -> RemoteError {
    RemoteError::Process {
        action: ACTION,
        source,
    }
}

/// Returns git's name for these bytes.
fn blob_name(bytes: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", bytes.len()).as_bytes());
    hash.update(bytes);
    hash.digest().to_string()
}

/// Returns the manifest of a record.
pub(crate) async fn manifest(git: &Git, commit: &str) -> Result<RecordManifest, RemoteError> {
    let name = format!("{commit}:{FILE}");
    let answer = git.ask("read a record", &["cat-file", "blob", &name]).await?;
    match answer.exit.is_success() {
        true => RecordManifest::parse(&answer.printed),
        false => Err(RemoteError::corrupt(format!("{FILE}: {}", answer.said))),
    }
}

/// The pieces of a record, as far as they are within the limits.
pub(crate) async fn pieces(git: &Git, commit: &str, limits: &ArrivalLimits) -> Result<Pieces, RemoteError> {
    let mut pieces = Pieces::new();
    let mut entries = 0;
    let visit = |entry: &[u8]| {
        entries += 1;
        if entries > limits.entries {
            return Err(RemoteError::TooLarge {
                what: format!("the record has more than {} pieces and folders", limits.entries),
            });
        }
        let entry = std::str::from_utf8(entry)
            .ok()
            .and_then(|entry| entry.split_once('\t'));
        let parsed = entry.and_then(|(facts, path)| match facts.split(' ').collect::<Vec<_>>()[..] {
            ["100644", "blob", name] => Some((path, Some(name))),
            ["040000", "tree", _] => Some((path, None)),
            _ => None,
        });
        let (path, name) =
            parsed.ok_or_else(|| RemoteError::corrupt("it holds something that is no file"))?;
        if let Some(name) = name.filter(|_| path != FILE) {
            pieces.insert(path.to_owned(), name.to_owned());
        }
        Ok(())
    };
    let arguments = ["ls-tree", "-r", "-t", "-z", "--full-tree", commit];
    git.each_line("list a record", &arguments, 0, LONGEST_ENTRY, visit)
        .await?;
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_name_that_git_gives_them() {
        assert_eq!(blob_name(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(blob_name(b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
    }
}
