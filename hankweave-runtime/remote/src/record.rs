//! Records as commits in the checkpoint repository: written like checkpoints, read piece by piece through git.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hankweave_core::time::Timestamp;
use hankweave_runtime::checkpoint::RecordCommit;
use hankweave_runtime::world::World;

use crate::book::WRITTEN;
use crate::contents::{RecordFile, piece_path};
use crate::error::RemoteError;
use crate::git::Git;
use crate::limits::ArrivalLimits;
use crate::manifest::{FILE, RecordManifest};

/// Longest entry of a tree, in bytes.
const LONGEST_ENTRY: usize = 64 << 10;

/// Pieces of a record: path in its tree, and git's name for the content.
pub(crate) type Pieces = BTreeMap<String, String>;

/// Record to be written.
#[derive(Debug)]
pub(crate) struct RecordDraft {
    /// Time of the commit, fixed so that a record always gets the same name.
    pub(crate) at: Timestamp,
    pub(crate) manifest: RecordManifest,
    /// Files of the record, without the manifest.
    pub(crate) contents: Arc<Vec<RecordFile>>,
    pub(crate) pieces: Pieces,
}

/// Record before the one to be written.
#[derive(Debug)]
pub(crate) struct PreviousRecord {
    pub(crate) commit: String,
    pub(crate) manifest: RecordManifest,
    pub(crate) pieces: Pieces,
}

impl PreviousRecord {
    /// Reads the record with this commit name; `None` when it is no longer in the repository.
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
    /// Creates a draft of these files, and computes the names of their pieces.
    pub(crate) async fn new(
        world: &World,
        manifest: RecordManifest,
        contents: Vec<RecordFile>,
        at: Timestamp,
    ) -> Result<Self, RemoteError> {
        let (disk, contents) = (Arc::clone(&world.disk), Arc::new(contents));
        let named = Arc::clone(&contents);
        let name = move || {
            let name = |(path, (content, number)): (String, (&RecordFile, u64))| {
                Ok((path, RecordCommit::blob_name(&content.piece(&*disk, number)?)))
            };
            sources(&named)
                .into_iter()
                .map(name)
                .collect::<Result<Pieces, RemoteError>>()
        };
        Ok(Self {
            pieces: world.blocking.run(name).await?,
            at,
            manifest,
            contents,
        })
    }

    /// Whether this draft has nothing new compared with an earlier record.
    pub(crate) fn has_same_contents_as(&self, earlier: &PreviousRecord) -> bool {
        self.manifest.is_same_history_as(&earlier.manifest) && self.pieces == earlier.pieces
    }

    /// Writes a commit with these parents into the checkpoint repository, and returns its name. Pieces of the record `before` are not written again.
    pub(crate) async fn write(
        &self,
        world: &World,
        repository: PathBuf,
        before: Option<String>,
        parents: Vec<String>,
    ) -> Result<String, RemoteError> {
        let manifest = &self.manifest;
        let text = serde_json::to_vec_pretty(manifest).map_err(|error| RemoteError::Unreadable {
            why: error.to_string(),
        })?;
        let message = format!(
            "record {} of {}\n\ntoken: {}\n",
            manifest.number, manifest.execution, manifest.token
        );
        let mut files = self.pieces.clone();
        files.insert(FILE.to_owned(), RecordCommit::blob_name(&text));
        let (disk, contents, at) = (Arc::clone(&world.disk), Arc::clone(&self.contents), self.at);
        let write = move || {
            let commit = RecordCommit {
                repository: &repository,
                reference: WRITTEN,
                before: before.as_deref(),
                parents: &parents,
                at,
                message: &message,
                files: &files,
            };
            let sources = sources(&contents);
            commit.write(|path| match sources.get(path) {
                Some((content, number)) => Ok(content.piece(&*disk, *number)?),
                None => Ok(text.clone()),
            })
        };
        world.blocking.run(write).await
    }
}

/// Returns the file and the number of each piece, by its path in the record.
fn sources(contents: &[RecordFile]) -> BTreeMap<String, (&RecordFile, u64)> {
    let mut sources = BTreeMap::new();
    for content in contents {
        let numbers = 0..content.pieces();
        sources.extend(numbers.map(|number| (piece_path(&content.path, number), (content, number))));
    }
    sources
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

/// Returns the pieces of a record, within the limits.
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
