//! Repository shapes that libgit2 may open (G2).
//!
//! libgit2 opens the files of a repository by their paths. It follows links, waits at a pipe for a writer, and reads a
//! file of any length into memory. It also follows alternates, a common directory and includes. So we check in advance
//! what it would open: folders must be folders, files must be regular and of a sensible length, and nothing may point
//! elsewhere. Loose objects are read by [`git_format`](super::git_format).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;

use crate::world::disk::{Disk as _, FileKind, RealDisk, kind_in, list_in, open_dir, open_folder_in};

/// Largest configuration that is read, in bytes.
const CONFIG_BYTES: u64 = 64 << 10;

/// Longest file of a reference, in bytes.
const REFERENCE_BYTES: u64 = 4 << 10;

/// Longest `packed-refs`, the list of references that `git pack-refs` writes, in bytes.
pub(super) const PACKED_REFERENCES_BYTES: u64 = 64 << 20;

/// Longest file that libgit2 maps into memory, an index of packs or a graph of commits, and longest log of a reference, in bytes.
const MAPPED_BYTES: u64 = 4 << 30;

/// Maximum depth of nested folders inside `refs`.
const MAX_DEPTH: usize = 16;

/// Files of the outermost folder that libgit2 or we open, and the maximum length of each, in bytes.
const FILES: [(&str, u64); 4] = [
    ("config", CONFIG_BYTES),
    ("HEAD", REFERENCE_BYTES),
    ("packed-refs", PACKED_REFERENCES_BYTES),
    ("stat-cache", MAPPED_BYTES),
];

/// Files that make a repository part of another one, or change its history. We never write these.
const ELSEWHERE: [&str; 4] = ["commondir", "gitdir", "config.worktree", "shallow"];

/// Harmless sections of the configuration. Others may pull in files or run programs.
const SECTIONS: [&str; 9] = [
    "core",
    "gc",
    "commit",
    "pack",
    "repack",
    "receive",
    "maintenance",
    "user",
    "log",
];

/// Settings in harmless sections that name other files.
const NAMES_OF_FILES: [&str; 3] = ["worktree", "attributesfile", "excludesfile"];

/// Something in a repository that libgit2 must not open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnsafeEntry {
    /// Path relative to the repository.
    pub(super) path: PathBuf,
    pub(super) what: UnsafeReason,
}

/// Why libgit2 must not open an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UnsafeReason {
    /// The entry has this kind, which does not belong there.
    Is(FileKind),
    TooLarge,
    /// The entry makes git read files of other repositories.
    LeadsElsewhere,
    /// The configuration has this section or key, which is not known to be harmless.
    Setting(String),
    /// The file should hold references, and does not. Found when the repository is opened, as it needs the contents.
    NotAReference,
}

impl fmt::Display for UnsafeEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` in the checkpoint repository ", self.path.display())?;
        match &self.what {
            UnsafeReason::Is(kind) => write!(f, "is {kind}"),
            UnsafeReason::TooLarge => f.write_str("is larger than it may be"),
            UnsafeReason::LeadsElsewhere => f.write_str("leads to other places"),
            UnsafeReason::Setting(setting) => write!(f, "has the setting `{setting}`, which is not ours"),
            UnsafeReason::NotAReference => f.write_str(
                "is damaged, so checkpoints that only it named are found through the recorded runs alone",
            ),
        }
    }
}

impl std::error::Error for UnsafeEntry {}

/// Returns all entries of `repository` that libgit2 must not open. Of the contents, only the settings of the configuration
/// are checked here.
pub(super) fn unsafe_entries(repository: &Path) -> io::Result<Vec<UnsafeEntry>> {
    let mut scan = RepositoryScan::default();
    let root: OwnedFd = open_dir(repository)?.into();
    scan.at_top(&root)?;
    // A configuration that is no file, or is too large, must not be read.
    let is_readable = scan.found.iter().all(|entry| entry.path != Path::new("config"));
    if is_readable {
        scan.found.extend(foreign_setting(repository)?);
    }
    Ok(scan.found)
}

/// Fails with the first unsafe entry that libgit2 would open.
pub(super) fn check(repository: &Path) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let is_opened = |entry: &UnsafeEntry| {
        let name = entry.path.file_name().unwrap_or_default().as_bytes();
        // Every file of these folders is read, whatever its name, and every index beside a pack; locks are not.
        let is_read =
            entry.path.starts_with("refs") || entry.path.starts_with("logs") || name.ends_with(b".idx");
        let is_ignored = name.ends_with(b".lock") || (is_unfinished(name) && !is_read);
        name != b"stat-cache" && !is_ignored
    };
    match unsafe_entries(repository)?.into_iter().find(is_opened) {
        Some(entry) => Err(entry.into()),
        None => Ok(()),
    }
}

#[derive(Default)]
struct RepositoryScan {
    /// The folder that is being checked.
    path: PathBuf,
    found: Vec<UnsafeEntry>,
}

impl RepositoryScan {
    fn at_top(&mut self, root: &OwnedFd) -> io::Result<()> {
        for (name, kind) in entries(root)? {
            match name.as_bytes() {
                b"refs" | b"logs" => self.inside(root, &name, |scan, folder| scan.references(&folder, 0))?,
                b"objects" => self.inside(root, &name, Self::objects)?,
                b"info" => self.inside(root, &name, Self::info)?,
                name if is_unfinished(name) => self.file(root, OsStr::from_bytes(name), kind, u64::MAX)?,
                other if ELSEWHERE.iter().any(|name| name.as_bytes() == other) => {
                    self.note(&name, UnsafeReason::LeadsElsewhere);
                }
                other => {
                    if let Some((_, most)) = FILES.iter().find(|(name, _)| name.as_bytes() == other) {
                        self.file(root, &name, kind, *most)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn info(&mut self, folder: OwnedFd) -> io::Result<()> {
        for (name, kind) in entries(&folder)? {
            match name.as_bytes() {
                b"grafts" => self.note(&name, UnsafeReason::LeadsElsewhere),
                _ => self.file(&folder, &name, kind, CONFIG_BYTES)?,
            }
        }
        Ok(())
    }

    fn objects(&mut self, folder: OwnedFd) -> io::Result<()> {
        for (name, kind) in entries(&folder)? {
            match name.as_bytes() {
                b"info" => self.inside(&folder, &name, Self::objects_info)?,
                b"pack" => self.inside(&folder, &name, Self::packs)?,
                // Loose objects are in folders named after the first two digits of their ids.
                [_, _] => self.folder(&name, kind),
                other if is_unfinished(other) => self.file(&folder, &name, kind, u64::MAX)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn objects_info(&mut self, folder: OwnedFd) -> io::Result<()> {
        for (name, kind) in entries(&folder)? {
            match name.as_bytes() {
                b"alternates" | b"http-alternates" => self.note(&name, UnsafeReason::LeadsElsewhere),
                b"commit-graphs" => self.folder(&name, kind),
                _ => self.file(&folder, &name, kind, MAPPED_BYTES)?,
            }
        }
        Ok(())
    }

    fn packs(&mut self, folder: OwnedFd) -> io::Result<()> {
        for (name, kind) in entries(&folder)? {
            // Packs themselves are read in parts.
            let is_mapped = name.as_bytes().ends_with(b".idx") || name == *"multi-pack-index";
            let most = if is_mapped { MAPPED_BYTES } else { u64::MAX };
            self.file(&folder, &name, kind, most)?;
        }
        Ok(())
    }

    fn references(&mut self, folder: &OwnedFd, depth: usize) -> io::Result<()> {
        for (name, kind) in entries(folder)? {
            let is_lock = name.as_bytes().ends_with(b".lock");
            if kind == FileKind::Directory && !is_lock && depth < MAX_DEPTH {
                self.inside(folder, &name, |scan, folder| scan.references(&folder, depth + 1))?;
            } else {
                let is_log = self.path.starts_with("logs");
                self.file(
                    folder,
                    &name,
                    kind,
                    if is_log { MAPPED_BYTES } else { REFERENCE_BYTES },
                )?;
            }
        }
        Ok(())
    }

    /// Opens the folder `name` and calls `look` with it; notes an entry that is no folder.
    fn inside(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        look: impl FnOnce(&mut Self, OwnedFd) -> io::Result<()>,
    ) -> io::Result<()> {
        let folder = match open_folder_in(parent, name.as_bytes()) {
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let kind = kind_in(parent, name)?;
                self.note(name, UnsafeReason::Is(kind));
                return Ok(());
            }
            folder => folder?,
        };
        self.path.push(name);
        look(self, folder)?;
        self.path.pop();
        Ok(())
    }

    /// Notes the entry unless it is a folder. The content of the folder is not checked.
    fn folder(&mut self, name: &OsStr, kind: FileKind) {
        if kind != FileKind::Directory {
            self.note(name, UnsafeReason::Is(kind));
        }
    }

    /// Notes the entry unless it is a regular file of at most `most` bytes.
    fn file(&mut self, parent: &OwnedFd, name: &OsStr, kind: FileKind, most: u64) -> io::Result<()> {
        if kind != FileKind::File {
            self.note(name, UnsafeReason::Is(kind));
            return Ok(());
        }
        if most == u64::MAX {
            return Ok(());
        }
        let length = match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()), // Removed since it was listed, as lock files are.
            seen => u64::try_from(seen?.st_size).unwrap_or(0),
        };
        if length > most {
            self.note(name, UnsafeReason::TooLarge);
        }
        Ok(())
    }

    fn note(&mut self, name: &OsStr, what: UnsafeReason) {
        let path = self.path.join(name);
        self.found.push(UnsafeEntry { path, what });
    }
}

/// Whether the name is one that git or we give to unfinished files.
fn is_unfinished(name: &[u8]) -> bool {
    name.starts_with(b"tmp_") || name.ends_with(b".lock") || name.ends_with(b".tmp")
}

/// Returns the names in a folder, ordered, and their kinds.
fn entries(folder: &OwnedFd) -> io::Result<Vec<(OsString, FileKind)>> {
    let listed = list_in(folder)?.into_iter();
    let mut found: Vec<_> = listed.map(|(name, kind, _)| (name, kind)).collect();
    found.sort_unstable_by(|left, right| left.0.cmp(&right.0));
    Ok(found)
}

/// Returns the first setting of the configuration that is not known to be harmless.
fn foreign_setting(repository: &Path) -> io::Result<Option<UnsafeEntry>> {
    let text = match RealDisk.read(&repository.join("config"), CONFIG_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => String::from_utf8_lossy(&text?).to_lowercase(),
    };
    let setting = text.lines().find_map(|line| foreign_part(line.trim()));
    Ok(setting.map(|setting| UnsafeEntry {
        path: "config".into(),
        what: UnsafeReason::Setting(setting),
    }))
}

/// Returns the section or key in a line of lower-case configuration, if it is not known to be harmless. Only the plainest
/// syntax counts as harmless, so that libgit2 cannot read a line in another way than we do.
fn foreign_part(line: &str) -> Option<String> {
    if line.is_empty() || line.starts_with(['#', ';']) {
        return None;
    }
    if let Some(section) = line.strip_prefix('[') {
        let harmless = section
            .strip_suffix(']')
            .is_some_and(|name| SECTIONS.contains(&name));
        return (!harmless).then(|| section.trim_end_matches(']').to_owned());
    }
    let key = line.split('=').next().unwrap_or(line).trim();
    let plain = !key.is_empty()
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let harmless =
        plain && !line.ends_with('\\') && !key.ends_with("command") && !NAMES_OF_FILES.contains(&key);
    (!harmless).then(|| key.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use git2::Repository;

    use super::*;

    // covers: G2, F21
    #[test]
    fn what_libgit2_must_not_meet_is_found_wherever_it_is() {
        type Change = fn(&Path);
        let changes: [(&str, Change); 18] = [
            ("config", |path| {
                fs::write(path, "[include]\n\tpath = x\n").unwrap()
            }),
            ("HEAD", |path| symlink("/dev/zero", path).unwrap()),
            ("packed-refs", |path| make_pipe(path)),
            ("commondir", |path| fs::write(path, "..").unwrap()),
            ("shallow", |path| fs::write(path, "").unwrap()),
            ("config.lock", |path| fs::create_dir(path).unwrap()),
            ("info", |path| symlink("/tmp", path).unwrap()),
            ("info/grafts", |path| fs::write(path, "").unwrap()),
            ("objects/info/alternates", |path| fs::write(path, "/").unwrap()),
            ("objects/info", |path| symlink("/tmp", path).unwrap()),
            ("objects/ab", |path| symlink("/tmp", path).unwrap()),
            ("objects/pack/pack-x.idx", |path| make_pipe(path)),
            ("refs", |path| symlink("/tmp", path).unwrap()),
            ("refs/heads", |path| symlink("/tmp", path).unwrap()),
            ("refs/heads/a/b", |path| make_pipe(path)),
            ("refs/heads/tmp_x", |path| make_pipe(path)),
            ("objects/pack/tmp_a.idx", |path| make_pipe(path)),
            ("refs/heads/c", |path| {
                fs::write(path, vec![b'0'; 1 << 20]).unwrap()
            }),
        ];
        for (name, change) in changes {
            let folder = tempfile::tempdir().unwrap();
            Repository::init_bare(folder.path()).unwrap();
            fs::write(folder.path().join("config"), "[core]\n\tbare = true\n").unwrap();
            assert_eq!(unsafe_entries(folder.path()).unwrap(), []);
            let path = folder.path().join(name);
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            change(&path);
            let found = unsafe_entries(folder.path()).unwrap();
            assert_eq!(found.len(), 1, "{name}: {found:?}");
            assert_eq!(found[0].path, Path::new(name));
            assert_eq!(check(folder.path()).is_err(), name != "config.lock", "{name}");
        }
    }

    fn make_pipe(path: &Path) {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    #[test]
    fn only_the_plainest_form_of_harmless_settings_is_let_through() {
        for good in ["", "# x", "[core]", "bare = true", "logallrefupdates", "auto=0"] {
            assert_eq!(foreign_part(good), None, "{good}");
        }
        for bad in [
            "[include]",
            "[core] x = 1",
            "[includeif \"x\"]",
            "[ core]",
            "[core \"x\"]",
            "sshcommand = x",
            "worktree = /",
            "a = b\\",
            "\u{feff}[core]",
            "path",
        ] {
            // A key without a section of its own belongs to the section in front of it, which was checked.
            assert_eq!(foreign_part(bad).is_some(), bad != "path", "{bad}");
        }
    }
}
