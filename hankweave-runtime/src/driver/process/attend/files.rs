//! Files of the workspace, for an agent that asks its client for them: beneath the folder in which it works, and through no link (X2, X3).

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use hankweave_core::hank::exclude::DATA;
use hankweave_core::hank::reserved::{check_written, is_state_folder};

use crate::world::World;
use crate::world::disk::{Disk, FileKind, Folder, OpenedEntry};

/// The largest file that is looked at, in bytes.
const MOST_SEEN: u64 = 64 << 20;

/// The longest text that is answered, in bytes.
const MOST_ANSWERED: usize = 8 << 20;

/// The permission bits of a new file.
const NEW_FILE: u32 = 0o644;

/// The folder in which an agent works.
#[derive(Debug, Clone)]
pub(super) struct AgentFiles {
    world: World,
    root: PathBuf,
}

/// A way that leads to a file of somebody.
enum RequestedPath {
    /// Beneath the workspace.
    Own(PathBuf),
    /// Beneath the data, which may only be read.
    Data(PathBuf),
}

impl AgentFiles {
    pub(super) fn new(world: &World, root: PathBuf) -> Self {
        let world = world.clone();
        Self { world, root }
    }

    /// The text of a file, or some of its lines; the first one is number 1.
    pub(super) async fn read(
        &self,
        path: String,
        line: Option<u64>,
        limit: Option<u64>,
    ) -> Result<String, String> {
        self.with(path, move |own, path| own.read_now(path, line, limit))
            .await
    }

    /// Replaces the text of a file, or makes it with the folders on its way.
    pub(super) async fn write(&self, path: String, content: String) -> Result<(), String> {
        self.with(path, move |own, path| own.write_now(path, &content))
            .await
    }

    /// A folder of the workspace; the workspace itself when none is named.
    pub(super) async fn folder(&self, path: Option<String>) -> Result<PathBuf, String> {
        match path {
            Some(path) => self.with(path, Self::folder_now).await,
            None => Ok(self.root.clone()),
        }
    }

    async fn with<T: Send + 'static>(
        &self,
        path: String,
        work: impl FnOnce(&Self, &Path) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let own = self.clone();
        let work = move || work(&own, Path::new(&path)).map_err(|why| format!("`{path}` {why}"));
        self.world.blocking.run(work).await
    }

    fn disk(&self) -> &dyn Disk {
        &*self.world.disk
    }

    fn read_now(&self, path: &Path, line: Option<u64>, limit: Option<u64>) -> Result<String, String> {
        let place = self.place(path)?;
        let (root, path) = match &place {
            RequestedPath::Own(path) => (self.root.clone(), path),
            RequestedPath::Data(path) => (
                self.disk()
                    .real_path(&self.root.join(DATA))
                    .map_err(error_message)?,
                path,
            ),
        };
        let folder = self.disk().open_folder(&root).map_err(error_message)?;
        match folder.find(path).map_err(|error| error_message(error.into()))? {
            OpenedEntry::File(file) => text(file.content, line, limit),
            OpenedEntry::Folder(_) => Err("is a folder".to_owned()),
            OpenedEntry::Other(kind) => Err(not_a_file(kind)),
        }
    }

    fn write_now(&self, path: &Path, content: &str) -> Result<(), String> {
        let RequestedPath::Own(path) = self.place(path)? else {
            return Err("is of the data, which is only read".to_owned());
        };
        check_written(path.as_os_str().as_bytes())?;
        let folder = self.disk().open_folder(&self.root).map_err(error_message)?;
        if folder.leads_into_repository(&path).map_err(error_message)? {
            return Err("belongs to git".to_owned());
        }
        let new = format!(".hankweave-{}.tmp", self.world.ids.nonce());
        let written = folder.make(&path, |folder: &dyn Folder, name| {
            let mode = match folder.open(name) {
                Ok(OpenedEntry::File(file)) => file.mode,
                Ok(OpenedEntry::Folder(_)) => return Err(io::ErrorKind::IsADirectory.into()),
                Ok(OpenedEntry::Other(kind)) => return Err(io::Error::other(not_a_file(kind))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => NEW_FILE,
                Err(error) => return Err(error),
            };
            // Nobody ever sees a part of it (AGENT-32).
            folder.replace(name, OsStr::new(&new), |new| {
                folder.create_file(new, mode, &mut content.as_bytes())
            })
        });
        written.map_err(|error| error_message(error.into()))
    }

    fn folder_now(&self, path: &Path) -> Result<PathBuf, String> {
        let RequestedPath::Own(path) = self.place(path)? else {
            return Err("is of the data, which is only read".to_owned());
        };
        let folder = self.disk().open_folder(&self.root).map_err(error_message)?;
        folder
            .folder(&path)
            .map_err(|error| error_message(error.into()))?;
        Ok(self.root.join(path))
    }

    /// Resolves a path by its words; a link on the path is noticed when it is opened.
    fn place(&self, path: &Path) -> Result<RequestedPath, String> {
        let real = || self.disk().real_path(&self.root).ok();
        let inner = match path.strip_prefix(&self.root) {
            Ok(inner) => Some(inner.to_owned()),
            Err(_) => real().and_then(|real| path.strip_prefix(real).ok().map(Path::to_owned)),
        };
        let inner = inner.ok_or("is not beneath the workspace")?;
        let mut parts = inner.components();
        match parts.next() {
            Some(Component::Normal(first)) if is_state_folder(first.as_bytes()) => {
                Err("belongs to hankweave".to_owned())
            }
            Some(Component::Normal(first)) if first == DATA => {
                Ok(RequestedPath::Data(parts.as_path().to_owned()))
            }
            _ => Ok(RequestedPath::Own(inner)),
        }
    }
}

fn error_message(error: io::Error) -> String {
    error.to_string()
}

fn not_a_file(kind: FileKind) -> String {
    match kind {
        FileKind::Link => "is a symbolic link".to_owned(),
        _ => "is no regular file".to_owned(),
    }
}

/// The wanted lines. All together are bounded, and not each of them.
fn text(content: impl Read, line: Option<u64>, limit: Option<u64>) -> Result<String, String> {
    let mut content = BufReader::new(content.take(MOST_SEEN + 1));
    let first = line.unwrap_or(1).max(1);
    let mut wanted = Vec::new();
    let mut number = 0;
    loop {
        let before = wanted.len();
        let read = content.read_until(b'\n', &mut wanted).map_err(error_message)?;
        number += 1;
        if read == 0 {
            break;
        }
        if number < first {
            wanted.truncate(before);
        } else if limit.is_some_and(|limit| number - first >= limit) {
            wanted.truncate(before);
            break;
        }
        if wanted.len() > MOST_ANSWERED {
            return Err(format!("is longer than {} MiB", MOST_ANSWERED >> 20));
        }
    }
    String::from_utf8(wanted).map_err(|_| "is no text".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::world::disk::RealDisk;

    fn stage() -> (tempfile::TempDir, AgentFiles) {
        let place = tempfile::tempdir().unwrap();
        for folder in ["work/in/side", "work/.hankweave", "data"] {
            fs::create_dir_all(place.path().join(folder)).unwrap();
        }
        fs::write(place.path().join("secret"), "s").unwrap();
        fs::write(place.path().join("data/table"), "d").unwrap();
        fs::write(place.path().join("work/in/text"), "one\ntwo\nthree").unwrap();
        symlink("../secret", place.path().join("work/way-out")).unwrap();
        symlink("..", place.path().join("work/up")).unwrap();
        symlink("../data", place.path().join("work").join(DATA)).unwrap();
        let workspace = AgentFiles::new(&World::real(), place.path().join("work"));
        (place, workspace)
    }

    async fn read(workspace: &AgentFiles, path: &str) -> Result<String, String> {
        let path = workspace.root.join(path).to_string_lossy().into_owned();
        workspace.read(path, None, None).await
    }

    async fn write(workspace: &AgentFiles, path: &str) -> Result<(), String> {
        let path = workspace.root.join(path).to_string_lossy().into_owned();
        workspace.write(path, "new".to_owned()).await
    }

    // covers: AGENT-26, X2, X3
    #[tokio::test]
    async fn nothing_outside_of_the_workspace_is_read_or_written() {
        let (place, workspace) = stage();
        for path in [
            "../secret",
            "in/../../secret",
            "way-out",
            "up/secret",
            "/etc/passwd",
            ".hankweave/state.json",
            "",
        ] {
            read(&workspace, path).await.unwrap_err();
            write(&workspace, path).await.unwrap_err();
        }
        let in_capitals = read(&workspace, ".HankWeave/state.json").await.unwrap_err();
        assert!(in_capitals.ends_with("belongs to hankweave"), "{in_capitals}");
        let relative = workspace.read("in/text".to_owned(), None, None).await;
        assert_eq!(relative.unwrap_err(), "`in/text` is not beneath the workspace");
        write(&workspace, "in").await.unwrap_err();
        read(&workspace, "in").await.unwrap_err();
        assert_eq!(fs::read_to_string(place.path().join("secret")).unwrap(), "s");
        for path in ["../x", "way-out", "up", "in/text", "nothing", DATA] {
            let path = workspace.root.join(path).to_string_lossy().into_owned();
            workspace.folder(Some(path)).await.unwrap_err();
        }
        let inner = workspace.root.join("in/side");
        let named = workspace.folder(Some(inner.to_string_lossy().into_owned())).await;
        assert_eq!(named, Ok(inner));
        assert_eq!(workspace.folder(None).await, Ok(workspace.root.clone()));
    }

    // covers: AGENT-26
    #[tokio::test]
    async fn files_are_replaced_and_made_and_the_data_is_only_read() {
        let (place, workspace) = stage();
        let own = place.path().join("work/in/text");
        fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
        write(&workspace, "in/text").await.unwrap();
        write(&workspace, "deep/down/file").await.unwrap();
        assert_eq!(read(&workspace, "in/text").await.unwrap(), "new");
        assert_eq!(read(&workspace, "deep/down/file").await.unwrap(), "new");
        assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o755);
        let table = format!("{DATA}/table");
        assert_eq!(read(&workspace, &table).await.unwrap(), "d");
        write(&workspace, &table).await.unwrap_err();
        assert_eq!(fs::read_to_string(place.path().join("data/table")).unwrap(), "d");
    }

    /// Settings and hooks of git start programs, whatever an agent may execute itself.
    // covers: AGENT-26, X13
    #[tokio::test]
    async fn nothing_that_git_reads_for_itself_is_written() {
        let (place, workspace) = stage();
        for folder in [".git", "in/.git", "bare/objects", "bare/refs"] {
            fs::create_dir_all(place.path().join("work").join(folder)).unwrap();
        }
        fs::write(place.path().join("work/.git/config"), "old").unwrap();
        for path in [
            ".git/config",
            ".git/hooks/post-commit",
            ".GIT/config",
            "in/.git/config",
            "new/.git",
            "new/git~1/config",
            "bare/HEAD",
            "in/.hankweave/token",
        ] {
            write(&workspace, path).await.unwrap_err();
        }
        assert_eq!(read(&workspace, ".git/config").await.unwrap(), "old");
        write(&workspace, ".gitignore").await.unwrap();
        write(&workspace, "bare/README").await.unwrap();
    }

    /// Whoever has the old file open reads it to its end, a new one that cannot be written whole takes no place, and nothing else is left.
    // covers: AGENT-32
    #[tokio::test]
    async fn a_file_is_replaced_whole_or_not_at_all() {
        let (place, workspace) = stage();
        let own = place.path().join("work/in/text");
        let mut before = fs::File::open(&own).unwrap();
        write(&workspace, "in/text").await.unwrap();
        let mut read = String::new();
        before.read_to_string(&mut read).unwrap();
        assert_eq!(read, "one\ntwo\nthree");
        let folder = RealDisk.open_folder(&place.path().join("work/in")).unwrap();
        let new = |name: &OsStr| folder.create_file(name, NEW_FILE, &mut &b"x"[..]);
        let refused = folder.replace(OsStr::new("side"), OsStr::new("new"), new);
        refused.expect_err("a folder has the name");
        let names = folder.names().unwrap();
        assert_eq!(names, ["side", "text"]);
        assert_eq!(fs::read_to_string(own).unwrap(), "new");
    }

    #[tokio::test]
    async fn some_lines_of_a_file_are_read_and_only_text_is() {
        let (place, workspace) = stage();
        let path = workspace.root.join("in/text").to_string_lossy().into_owned();
        for (line, limit, wanted) in [
            (None, None, "one\ntwo\nthree"),
            (Some(0), Some(1), "one\n"),
            (Some(2), Some(1), "two\n"),
            (Some(2), None, "two\nthree"),
            (Some(9), Some(9), ""),
            (None, Some(0), ""),
        ] {
            let read = workspace.read(path.clone(), line, limit).await;
            assert_eq!(read.as_deref(), Ok(wanted), "{line:?} {limit:?}");
        }
        fs::write(place.path().join("work/bytes"), b"\xff").unwrap();
        assert!(
            read(&workspace, "bytes")
                .await
                .unwrap_err()
                .ends_with("is no text")
        );
        let long = fs::File::create(place.path().join("work/long")).unwrap();
        long.set_len(MOST_SEEN * 2).unwrap();
        assert!(
            read(&workspace, "long")
                .await
                .unwrap_err()
                .contains("longer than")
        );
    }
}
