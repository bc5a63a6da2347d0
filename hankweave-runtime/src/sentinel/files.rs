//! Files of a sentinel's answers: a log to which each answer is added, and on request a file with the last one (SENT-11).

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use hankweave_core::hank::reserved::check_written;
use hankweave_core::id::CodonId;
use hankweave_core::sentinel::{OutputFormat, SentinelAnswer, SentinelConfig, SentinelSettings};
use hankweave_core::time::Timestamp;
use serde_json::json;

use crate::paths::ExecutionDir;
use crate::world::disk::{Disk, Folder, OpenedEntry};
use crate::world::environment::umask_of_user;

/// Folder of sentinels' files, inside the state directory.
const OUTPUTS: &str = "outputs";

/// The files of one sentinel.
#[derive(Debug, Clone)]
pub(super) struct SentinelFiles {
    log: SentinelPath,
    /// File that has only the last answer, if there is to be one.
    last_value: Option<SentinelPath>,
    format: OutputFormat,
    /// Answers are values, one a line.
    is_structured: bool,
    /// Separator of two texts in the log.
    joint: String,
    id: String,
}

/// A relative path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SentinelPath {
    /// In the workspace.
    Workspace(PathBuf),
    /// In the state directory.
    Managed(PathBuf),
}

impl SentinelFiles {
    /// Returns the files. Paths in `settings`, those of the codon's entry, come before those in `config`. The error names the unusable path.
    pub(super) fn of(
        config: &SentinelConfig,
        settings: &SentinelSettings,
        codon: &CodonId,
    ) -> Result<Self, String> {
        let own = config.output.clone().unwrap_or_default();
        let format = config.output_format();
        let named = settings.output_paths.log_file.clone().or(own.file);
        let last_value = settings
            .output_paths
            .last_value_file
            .clone()
            .or(own.last_value_file);
        let is_structured = config.structured_output.is_some();
        let extension = match format {
            OutputFormat::Text if !is_structured => "md",
            OutputFormat::Text | OutputFormat::Jsonl => "jsonl",
        };
        let default_name = || format!("{}-{}.{extension}", config.id, codon.file_stem());
        Ok(Self {
            log: SentinelPath::of(&named.unwrap_or_else(default_name), config.id.as_str())?,
            last_value: last_value
                .map(|path| SentinelPath::of(&path, config.id.as_str()))
                .transpose()?,
            format,
            is_structured,
            joint: config.joint(),
            id: config.id.to_string(),
        })
    }

    /// Returns the paths of the files in the workspace; the sentinels of the codon do not see their changes.
    pub(super) fn in_workspace(&self) -> impl Iterator<Item = String> + '_ {
        let paths = std::iter::once(&self.log).chain(&self.last_value);
        paths.filter_map(|path| match path {
            SentinelPath::Workspace(path) => Some(path.to_string_lossy().into_owned()),
            SentinelPath::Managed(_) => None,
        })
    }

    /// Adds an answer to the log file and makes it the last value. Waits for the disk.
    pub(super) fn write(
        &self,
        disk: &dyn Disk,
        dir: &ExecutionDir,
        answer: &SentinelAnswer,
        at: Timestamp,
    ) -> io::Result<()> {
        let text = &answer.text;
        let line = match self.format {
            _ if self.is_structured => format!("{text}\n"),
            OutputFormat::Text => match self.log.exists(disk, dir)? {
                true => format!("{}{text}", self.joint),
                false => text.clone(),
            },
            OutputFormat::Jsonl => format!(
                "{}\n",
                json!({"text": text, "timestamp": at, "sentinelId": self.id})
            ),
        };
        self.log.append(disk, dir, line.as_bytes())?;
        match &self.last_value {
            Some(path) => match &answer.value {
                Some(value) => path.replace(disk, dir, format!("{value:#}\n").as_bytes()),
                None => path.replace(disk, dir, text.as_bytes()),
            },
            None => Ok(()),
        }
    }
}

impl SentinelPath {
    /// Reads a path: one with `/` in it is relative to the workspace, a bare name is in the folder of the sentinel `id`.
    fn of(path: &str, id: &str) -> Result<Self, String> {
        let mut names = Vec::new();
        for component in Path::new(path).components() {
            match component {
                Component::Normal(name) => names.push(name),
                Component::CurDir => {}
                _ => return Err(format!("`{path}` leads out of its folder")),
            }
        }
        if names.is_empty() {
            return Err(format!("`{path}` names no file"));
        }
        let relative: PathBuf = names.iter().collect();
        check_written(relative.as_os_str().as_bytes()).map_err(|rule| format!("`{path}` {rule}"))?;
        Ok(match path.contains('/') {
            true => Self::Workspace(relative),
            false => Self::Managed(Path::new(OUTPUTS).join(id).join(relative)),
        })
    }

    /// Returns the folder to which the path is relative, and the path.
    fn parts(&self, dir: &ExecutionDir) -> (PathBuf, &Path) {
        match self {
            Self::Workspace(path) => (dir.root().to_owned(), path),
            Self::Managed(path) => (dir.state_dir(), path),
        }
    }

    fn exists(&self, disk: &dyn Disk, dir: &ExecutionDir) -> io::Result<bool> {
        let (root, path) = self.parts(dir);
        Ok(disk.open_folder(&root)?.lookup(path)?.is_some())
    }

    fn append(&self, disk: &dyn Disk, dir: &ExecutionDir, bytes: &[u8]) -> io::Result<()> {
        let (root, path) = self.open(disk, dir)?;
        Ok(root.make(path, |folder, name| self.add(folder, name, bytes))?)
    }

    /// Adds bytes to the file `name`, which is made if missing. In the workspace a new file has the user's permissions, in the state directory it is private.
    fn add(&self, folder: &dyn Folder, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        if let (Self::Workspace(_), Some(umask)) = (self, umask_of_user())
            && is_missing(folder.open(name))
        {
            // The owner may always write, whatever the umask: the next line adds to the file.
            let mode = 0o666 & !umask | 0o600;
            folder.create_file(name, mode, &mut io::empty())?;
        }
        folder.append_file(name, bytes)
    }

    /// Opens the folder to which the path is relative, for writing; returns it with the path. Fails for a path of the workspace that git itself would read.
    fn open(&self, disk: &dyn Disk, dir: &ExecutionDir) -> io::Result<(Box<dyn Folder>, &Path)> {
        let (root, path) = self.parts(dir);
        if let Self::Managed(path) = self {
            // Folders in the state directory are private. They are made here, because `Folder::make` would make them with the user's umask.
            let folder = path.parent().unwrap_or(path);
            disk.make_private_dirs(&root.join(folder))?;
        }
        let root = disk.open_folder(&root)?;
        let is_of_git = match self {
            Self::Workspace(path) => root.leads_into_repository(path)?,
            Self::Managed(_) => false,
        };
        match is_of_git {
            true => Err(io::Error::other(format!("`{}` belongs to git", path.display()))),
            false => Ok((root, path)),
        }
    }

    /// Writes the file anew, without a temporary file: a checkpoint that is made meanwhile would contain that.
    fn replace(&self, disk: &dyn Disk, dir: &ExecutionDir, bytes: &[u8]) -> io::Result<()> {
        let (root, path) = self.open(disk, dir)?;
        let put = root.make(path, |folder, name| {
            match folder.open(name) {
                Ok(OpenedEntry::Folder(_)) => return Err(io::ErrorKind::IsADirectory.into()),
                Ok(OpenedEntry::File(_) | OpenedEntry::Other(_)) => folder.remove(name)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            self.add(folder, name, bytes)
        });
        Ok(put?)
    }
}

fn is_missing(opened: io::Result<OpenedEntry>) -> bool {
    opened.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::world::disk::RealDisk;

    fn outputs(output: serde_json::Value) -> Result<SentinelFiles, String> {
        let config =
            serde_json::from_value(json!({"id": "s", "name": "S", "command": ["x"], "output": output,
            "trigger": {"type": "event", "on": ["*"]}, "execution": {"strategy": "immediate"}}))
            .unwrap();
        SentinelFiles::of(
            &config,
            &SentinelSettings::default(),
            &CodonId::new("a#1").unwrap(),
        )
    }

    fn said(text: &str) -> SentinelAnswer {
        SentinelAnswer {
            text: text.to_owned(),
            ..SentinelAnswer::default()
        }
    }

    // covers: SENT-11
    #[test]
    fn answers_are_added_to_the_log_and_the_last_one_stands_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".hankweave")).unwrap();
        let dir = ExecutionDir::new(folder.path().to_owned());
        let both = outputs(json!({"lastValueFile": "notes/last.txt"})).unwrap();
        for text in ["one", "two"] {
            both.write(&RealDisk, &dir, &said(text), Timestamp::UNIX_EPOCH)
                .unwrap();
        }
        let read = |path: &str| fs::read_to_string(folder.path().join(path)).unwrap();
        assert_eq!(read(".hankweave/outputs/s/s-a-1.md"), "one\n---\ntwo");
        assert_eq!(read("notes/last.txt"), "two");
        assert_eq!(both.in_workspace().collect::<Vec<_>>(), ["notes/last.txt"]);
        let lines = outputs(json!({"format": "jsonl", "file": "all.jsonl"})).unwrap();
        lines
            .write(&RealDisk, &dir, &said("one"), Timestamp::UNIX_EPOCH)
            .unwrap();
        assert!(read(".hankweave/outputs/s/all.jsonl").starts_with(r#"{"text":"one","timestamp":"1970"#));
    }

    // covers: SENT-11, X13
    #[test]
    fn no_answer_leads_out_of_the_workspace() {
        for path in [
            "../x",
            "/etc/x",
            "a/../../x",
            ".git/config",
            ".hankweave/state.json",
            ".",
            "./.GIT/x",
            "vendor/lib/.git/config",
            "vendor/lib/GIT~1/config",
            "vendor/.git. /config",
            "vendor/.hankweave/token",
        ] {
            assert!(outputs(json!({"file": path})).is_err(), "{path}");
        }
        let folder = tempfile::tempdir().unwrap();
        let dir = ExecutionDir::new(folder.path().join("work"));
        fs::create_dir(dir.root()).unwrap();
        symlink("..", dir.root().join("out")).unwrap();
        fs::write(folder.path().join("secret"), "x").unwrap();
        symlink("../secret", dir.root().join("link")).unwrap();
        for path in ["out/x", "./link"] {
            let written = outputs(json!({"file": path})).unwrap().write(
                &RealDisk,
                &dir,
                &said("no"),
                Timestamp::UNIX_EPOCH,
            );
            assert!(written.is_err(), "{path}");
        }
        for part in ["bare/objects", "bare/refs"] {
            fs::create_dir_all(dir.root().join(part)).unwrap();
        }
        let head = outputs(json!({"file": "bare/HEAD"})).unwrap();
        head.write(
            &RealDisk,
            &dir,
            &said("ref: refs/heads/main"),
            Timestamp::UNIX_EPOCH,
        )
        .unwrap_err();
        assert!(!dir.root().join("bare/HEAD").exists());
        assert!(!folder.path().join("x").exists());
        assert_eq!(fs::read_to_string(folder.path().join("secret")).unwrap(), "x");
    }
}
