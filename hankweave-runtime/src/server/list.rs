//! Server of many records at one port: their list, and each record under a path of its own (WIRE-51).
//!
//! A record is opened when a client asks for it. At most [`MAX_OPEN`] are open: opening another one closes the one that no client has and that was requested
//! least recently.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::door::Rooms;
use super::limits::ServerLimits;
use super::port::OwnPort;
use super::record::FoldedRecord;
use super::token::AccessTokens;
use super::{Bound, RunTexts, ServeError, ServerOptions, Shared};
use crate::error::chain;
use crate::paths::ExecutionDir;
use crate::world::World;
use crate::world::ids::hex;

/// Most records that are open at the same time.
const MAX_OPEN: usize = 16;

/// Most characters of the folder's name, and bytes of the checksum of its path, in the name of a record.
const NAME_CHARACTERS: usize = 32;
const NAME_BYTES: usize = 8;

/// Source of a list of records.
pub trait RunList: fmt::Debug + Send + Sync {
    /// Returns the list at this moment, as JSON.
    fn listed(&self) -> BoxFuture<'_, Arc<str>>;

    /// Returns the execution directory of a name in the list.
    fn directory(&self, name: &str) -> Option<PathBuf>;

    /// Returns the source of texts about the runs in a directory; without it no report is sent.
    fn texts(&self, directory: &Path) -> Option<Arc<dyn RunTexts>>;
}

/// Returns the name of an execution directory in a list: the name of its folder and a part of the checksum of its path.
/// The name is valid in an address.
#[must_use]
pub fn record_name(directory: &Path) -> String {
    let folder = directory.file_name().unwrap_or_default().to_string_lossy();
    let safe_character = |c: char| match c.is_ascii_alphanumeric() {
        true => c.to_ascii_lowercase(),
        false => '-',
    };
    let folder: String = folder.chars().take(NAME_CHARACTERS).map(safe_character).collect();
    let digest = Sha256::digest(directory.as_os_str().as_encoded_bytes());
    format!("{folder}-{}", hex(&digest[..NAME_BYTES]))
}

/// A list with its port; no client is answered yet.
#[derive(Debug)]
pub struct ListServer {
    bound: Bound,
    world: World,
    list: Arc<dyn RunList>,
}

impl ListServer {
    /// Takes a port for the list of the runs below `root`. Its tokens are those of the environment, or new ones.
    ///
    /// # Errors
    ///
    /// [`ServeError`]; no port is taken then.
    pub async fn open(
        world: &World,
        root: &Path,
        list: Arc<dyn RunList>,
        options: ServerOptions,
    ) -> Result<Self, ServeError> {
        let tokens = AccessTokens::of_process(world)?;
        let own = OwnPort::listen_for_list(world, root, options.address);
        Ok(Self {
            bound: Bound::bind_at(tokens, world, own, options).await?,
            world: world.clone(),
            list,
        })
    }

    /// Returns the address of the list with the token for reading. For the user only.
    #[must_use]
    pub fn read_only_address(&self) -> String {
        self.bound.read_only_address()
    }

    /// Answers clients until `stop` is done. No client can command anything here, whatever the token.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let closing = CancellationToken::new();
        let records = ListedRecords {
            world: self.world,
            list: self.list,
            port: self.bound.address().port(),
            limits: self.bound.options.limits.clone(),
            closing: closing.clone(),
            open: Mutex::default(),
        };
        let rooms = Rooms::Many(records);
        self.bound
            .serve(rooms, closing, std::future::pending(), stop)
            .await;
    }
}

/// Records of a list, some of which are open.
pub(super) struct ListedRecords {
    world: World,
    list: Arc<dyn RunList>,
    port: u16,
    limits: ServerLimits,
    closing: CancellationToken,
    /// Open records; the one that was requested last comes last.
    open: Mutex<Vec<OpenRecord>>,
}

/// A record that is open or being opened. It stays open as long as a clone is held.
#[derive(Debug, Clone)]
pub(super) struct OpenRecord {
    directory: PathBuf,
    /// Empty while the record is being opened.
    cell: Arc<OnceCell<FollowedRecord>>,
}

/// A record with the task that follows its journal.
#[derive(Debug)]
struct FollowedRecord {
    shared: Arc<Shared>,
    /// Follows the journal until it is dropped.
    _work: AbortOnDropHandle<()>,
}

impl fmt::Debug for ListedRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ListedRecords")
    }
}

impl OpenRecord {
    pub(super) fn shared(&self) -> Option<Arc<Shared>> {
        Some(Arc::clone(&self.cell.get()?.shared))
    }

    /// Whether the server of the record has stopped by itself, as when the journal cannot be read any more.
    fn has_ended(&self) -> bool {
        self.cell
            .get()
            .is_some_and(|followed| followed.shared.closing.is_cancelled())
    }

    /// Whether no client has it: the list holds the only clone.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.cell) == 1
    }
}

impl ListedRecords {
    pub(super) async fn listed(&self) -> Arc<str> {
        self.list.listed().await
    }

    /// Opens the record of a name in the list, unless it is open.
    pub(super) async fn open(&self, name: &str) -> Result<OpenRecord, (StatusCode, String)> {
        // A name is known once the list was made. A page from before the start of this server may name a record earlier.
        let mut directory = self.list.directory(name);
        if directory.is_none() {
            self.list.listed().await;
            directory = self.list.directory(name);
        }
        let directory = directory.ok_or((StatusCode::NOT_FOUND, "no such record is listed".to_owned()))?;
        let record = self.find_or_add(directory).ok_or((
            StatusCode::SERVICE_UNAVAILABLE,
            "there are too many records open".to_owned(),
        ))?;
        let following = record.cell.get_or_try_init(|| self.follow(&record.directory));
        match following.await {
            Ok(_) => Ok(record),
            Err(why) => Err((StatusCode::NOT_FOUND, why)),
        }
    }

    /// Returns the record of a directory from the open ones, adding it where it is new; `None` when there is no room, because clients have all open records.
    fn find_or_add(&self, directory: PathBuf) -> Option<OpenRecord> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|record| !record.has_ended());
        let at = open.iter().position(|record| record.directory == directory);
        let record = match at {
            Some(at) => open.remove(at),
            None => OpenRecord {
                directory,
                cell: Arc::default(),
            },
        };
        if open.len() >= MAX_OPEN {
            let idle = open.iter().position(OpenRecord::is_idle)?;
            open.remove(idle);
        }
        open.push(record.clone());
        Some(record)
    }

    /// Reads a record and starts to follow its journal.
    async fn follow(&self, directory: &Path) -> Result<FollowedRecord, String> {
        let (world, dir) = (self.world.clone(), ExecutionDir::new(directory.to_owned()));
        let reading = {
            let (world, dir) = (world.clone(), dir.clone());
            move || FoldedRecord::read(&world, &dir, None)
        };
        let record = world.blocking.run(reading).await;
        let record = record.map_err(|error| chain(&error))?;
        let closing = self.closing.child_token();
        let (shared, work) = record.share(
            &world,
            &dir,
            self.list.texts(directory),
            (self.port, self.limits.clone()),
            closing.clone(),
        );
        let work = async move {
            tokio::select! {
                biased;
                () = closing.cancelled() => {}
                () = work => {}
            }
        };
        Ok(FollowedRecord {
            shared,
            _work: AbortOnDropHandle::new(tokio::spawn(work)),
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    /// A list in which every name is that of a folder.
    #[derive(Debug)]
    struct Folders(PathBuf);

    impl RunList for Folders {
        fn listed(&self) -> BoxFuture<'_, Arc<str>> {
            std::future::ready(Arc::from("{}")).boxed()
        }

        fn directory(&self, name: &str) -> Option<PathBuf> {
            (name != "unknown").then(|| self.0.join(name))
        }

        fn texts(&self, _directory: &Path) -> Option<Arc<dyn RunTexts>> {
            None
        }
    }

    fn records(root: &Path) -> ListedRecords {
        ListedRecords {
            world: World::real(),
            list: Arc::new(Folders(root.to_owned())),
            port: 4_000,
            limits: ServerLimits::default(),
            closing: CancellationToken::new(),
            open: Mutex::default(),
        }
    }

    fn names(records: &ListedRecords) -> Vec<String> {
        let open = records.open.lock().unwrap();
        let name = |record: &OpenRecord| {
            record
                .directory
                .file_name()
                .unwrap()
                .to_string_lossy()
                .into_owned()
        };
        open.iter().map(name).collect()
    }

    // covers: WIRE-51
    #[test]
    fn one_more_record_closes_the_one_that_was_not_asked_for_longest_unless_a_client_has_it() {
        let records = records(Path::new("/work"));
        let place = |name: usize| records.find_or_add(format!("/work/{name}").into());
        let held = place(0).unwrap();
        (1..MAX_OPEN).for_each(|name| drop(place(name)));
        drop(place(1));
        drop(place(MAX_OPEN));
        let open = names(&records);
        assert_eq!(open.len(), MAX_OPEN);
        assert_eq!(open[0], "0", "a client has it");
        assert!(!open.contains(&"2".to_owned()), "{open:?}");
        assert_eq!(open[MAX_OPEN - 2..], ["1".to_owned(), MAX_OPEN.to_string()]);
        drop(held);
        let held: Vec<_> = (0..MAX_OPEN).map(|name| place(name + 100).unwrap()).collect();
        assert!(place(7).is_none(), "clients have all of them");
        drop(held);
        assert!(place(7).is_some());
    }

    // covers: WIRE-51
    #[tokio::test]
    async fn a_record_that_is_not_listed_or_not_there_is_not_found() {
        let root = tempfile::tempdir().unwrap();
        let records = records(root.path());
        for name in ["unknown", "empty"] {
            let refused = records.open(name).await.err();
            assert_eq!(
                refused.map(|(status, _)| status),
                Some(StatusCode::NOT_FOUND),
                "{name}"
            );
        }
    }

    // covers: WIRE-51
    #[test]
    fn the_name_of_a_record_can_stand_in_an_address_and_is_of_one_path_alone() {
        let names = ["/a/Work", "/b/Work", "/a/<b>/../ü", "/"].map(|path| record_name(Path::new(path)));
        for name in &names {
            let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            assert!(is_plain && name.len() <= 64, "{name}");
        }
        assert!(names[0].starts_with("work-") && names[1].starts_with("work-"));
        assert_ne!(names[0], names[1]);
    }
}
