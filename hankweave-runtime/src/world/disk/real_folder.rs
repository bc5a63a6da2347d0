//! The [`Folder`] of the operating system: a directory, reached through its descriptor.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RawMode, flock, fstat, openat, renameat, statat,
};
use rustix::io::Errno;

use super::beneath::open_folder_in;
use super::{FileKind, Folder, OpenFile, OpenedEntry, SharedFile, absent_is, permissions};
use crate::world::environment::umask_of_user;

/// An open directory. It stays the one that was opened, whatever happens to its path.
#[derive(Debug)]
pub(super) struct RealFolder {
    descriptor: File,
}

impl RealFolder {
    pub(super) fn new(descriptor: OwnedFd) -> Self {
        Self {
            descriptor: descriptor.into(),
        }
    }

    /// Opens a regular file in append mode; a missing one is made with `mode`.
    fn open_to_add(&self, name: &OsStr, access: OFlags, mode: RawMode) -> io::Result<File> {
        single(name)?;
        let new = OFlags::CREATE | OFlags::APPEND;
        let flags = access | new | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.descriptor, name, flags, Mode::from_raw_mode(mode))?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

/// Releases a lock of the folder explicitly. A child that is being started has a copy of the descriptor until it runs its
/// program: closing ours alone would leave the folder locked that long.
impl Drop for RealFolder {
    fn drop(&mut self) {
        let _ = flock(&self.descriptor, FlockOperation::Unlock);
    }
}

impl Folder for RealFolder {
    fn open(&self, name: &OsStr) -> io::Result<OpenedEntry> {
        single(name)?;
        // The kind is checked before, because opening some devices has an effect.
        match kind_in(&self.descriptor, name)? {
            FileKind::File | FileKind::Directory => {}
            other => return Ok(OpenedEntry::Other(other)),
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match openat(&self.descriptor, name, flags, Mode::empty()) {
            Err(Errno::LOOP) => return Ok(OpenedEntry::Other(FileKind::Link)),
            opened => opened?,
        };
        let mode = fstat(&opened)?.st_mode;
        Ok(match FileType::from_raw_mode(mode).into() {
            FileKind::File => OpenedEntry::File(OpenFile {
                mode: permissions(mode),
                content: Box::new(File::from(opened)),
            }),
            FileKind::Directory => OpenedEntry::Folder(Box::new(Self::new(opened))),
            other => OpenedEntry::Other(other),
        })
    }

    fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.descriptor)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn read_link(&self, name: &OsStr) -> io::Result<PathBuf> {
        single(name)?;
        let target = rustix::fs::readlinkat(&self.descriptor, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    fn create_folder(&self, name: &OsStr) -> io::Result<()> {
        single(name)?;
        rustix::fs::mkdirat(&self.descriptor, name, Mode::from_raw_mode(0o777))?;
        let Some(umask) = umask_of_user() else {
            return Ok(());
        };
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(&self.descriptor, name, flags, Mode::empty())?;
        // We must be able to write into it, whatever the umask.
        Ok(rustix::fs::fchmod(
            &folder,
            Mode::from_raw_mode((0o777 & !umask | 0o700) as RawMode),
        )?)
    }

    fn create_file(&self, name: &OsStr, mode: u32, content: &mut dyn Read) -> io::Result<()> {
        single(name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // For the owner alone until the content is complete; setting the bits afterwards also gets past the umask.
        let opened = openat(&self.descriptor, name, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(opened);
        io::copy(content, &mut file)?;
        file.set_permissions(Permissions::from_mode(mode))
    }

    fn append_file(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.open_to_add(name, OFlags::WRONLY, 0o666)?;
        file.write_all(bytes)?;
        file.sync_data()
    }

    fn open_shared(&self, name: &OsStr) -> io::Result<Box<dyn SharedFile>> {
        Ok(Box::new(RealSharedFile {
            file: self.open_to_add(name, OFlags::RDWR, 0o600)?,
            expected_length: 0,
        }))
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        single(from)?;
        single(to)?;
        Ok(renameat(&self.descriptor, from, &self.descriptor, to)?)
    }

    fn sync(&self) -> io::Result<()> {
        self.descriptor.sync_all()
    }

    fn try_lock(&self) -> io::Result<bool> {
        match flock(&self.descriptor, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(false),
            taken => Ok(taken.map(|()| true)?),
        }
    }

    fn create_link(&self, name: &OsStr, target: &Path) -> io::Result<()> {
        single(name)?;
        Ok(rustix::fs::symlinkat(target, &self.descriptor, name)?)
    }

    fn remove(&self, name: &OsStr) -> io::Result<()> {
        single(name)?;
        remove_in(&self.descriptor, name)
    }
}

/// Returns the kind of the entry `name`; a link is not followed.
pub(crate) fn kind_in(folder: impl AsFd, name: &OsStr) -> rustix::io::Result<FileKind> {
    let seen = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(seen.st_mode).into())
}

/// Lists the entries of an open folder, in no order: name, kind, and number (inode) on the file system.
pub(crate) fn list_in(folder: impl AsFd) -> io::Result<Vec<(OsString, FileKind, u64)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            // Not every file system reports the kind.
            FileType::Unknown => match kind_in(&folder, name) {
                Err(Errno::NOENT) => continue,
                kind => kind?,
            },
            kind => kind.into(),
        };
        found.push((name.to_owned(), kind, entry.ino()));
    }
    Ok(found)
}

/// Removes an entry, as [`Folder::remove`] does.
pub(super) fn remove_in(folder: impl AsFd, name: &OsStr) -> io::Result<()> {
    let remove = || {
        let flags = match kind_in(&folder, name)? {
            FileKind::Directory => {
                let beneath = open_folder_in(&folder, name)?;
                for (name, ..) in list_in(&beneath)? {
                    remove_in(&beneath, &name)?;
                }
                AtFlags::REMOVEDIR
            }
            _ => AtFlags::empty(),
        };
        Ok(rustix::fs::unlinkat(&folder, name, flags)?)
    };
    absent_is(remove(), ())
}

/// A file in append mode, so that each write goes to the file's end at that moment.
#[derive(Debug)]
struct RealSharedFile {
    file: File,
    /// Length of the file if no other process has added to it since; 0 before the first check.
    expected_length: u64,
}

impl SharedFile for RealSharedFile {
    fn last_byte(&mut self) -> io::Result<Option<u8>> {
        let mut bytes = [0; 2];
        // If exactly one byte comes from here on, no other process has added to the file.
        if let Some(place) = self.expected_length.checked_sub(1)
            && self.file.read_at(&mut bytes, place)? == 1
        {
            return Ok(Some(bytes[0]));
        }
        self.expected_length = self.file.metadata()?.len();
        let Some(place) = self.expected_length.checked_sub(1) else {
            return Ok(None);
        };
        self.file.read_exact_at(&mut bytes[..1], place)?;
        Ok(Some(bytes[0]))
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.expected_length += bytes.len() as u64;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

impl From<FileType> for FileKind {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Pipe,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice | FileType::BlockDevice => Self::Device,
            FileType::Unknown => Self::Unknown,
        }
    }
}

/// Fails unless `name` is a single name: with a slash, or with `.` or `..`, the system would leave the directory.
fn single(name: &OsStr) -> io::Result<()> {
    let bytes = name.as_encoded_bytes();
    if matches!(bytes, b"" | b"." | b"..") || bytes.contains(&b'/') {
        return Err(io::Error::new(
            io::ErrorKind::InvalidFilename,
            "not the name of an entry",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::{Disk, RealDisk};
    use super::*;

    // covers: X2
    #[test]
    fn a_name_never_leads_out_of_the_folder() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("in")).unwrap();
        fs::write(place.path().join("secret"), "x").unwrap();
        symlink("../secret", place.path().join("in/link")).unwrap();
        let folder = RealDisk.open_folder(&place.path().join("in")).unwrap();
        for name in ["..", ".", "", "../secret", "/etc/hostname"] {
            assert!(folder.open(name.as_ref()).is_err(), "{name}");
            assert!(folder.remove(name.as_ref()).is_err(), "{name}");
        }
        assert!(matches!(
            folder.open("link".as_ref()),
            Ok(OpenedEntry::Other(FileKind::Link))
        ));
        assert!(
            folder
                .create_file("link".as_ref(), 0o644, &mut &b"y"[..])
                .is_err()
        );
        assert_eq!(fs::read_to_string(place.path().join("secret")).unwrap(), "x");
    }

    #[test]
    fn removing_takes_links_away_and_leaves_what_they_point_to() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("tree/deep")).unwrap();
        fs::create_dir(place.path().join("kept")).unwrap();
        fs::write(place.path().join("kept/file"), "x").unwrap();
        symlink("../../kept", place.path().join("tree/deep/link")).unwrap();
        let folder = RealDisk.open_folder(place.path()).unwrap();
        folder.remove("tree".as_ref()).unwrap();
        folder.remove("tree".as_ref()).unwrap();
        assert_eq!(folder.names().unwrap(), ["kept"]);
        assert!(place.path().join("kept/file").exists());
    }

    #[test]
    fn two_writers_add_to_one_file_and_one_holds_its_folder() {
        let place = tempfile::tempdir().unwrap();
        let open = || RealDisk.open_folder(place.path()).unwrap();
        let (one, other) = (open(), open());
        let mut first = one.open_shared("log".as_ref()).unwrap();
        let mut second = other.open_shared("log".as_ref()).unwrap();
        assert_eq!(first.last_byte().unwrap(), None);
        first.add(b"a\n").unwrap();
        second.add(b"b\n").unwrap();
        first.add(b"c.").unwrap();
        second.sync_data().unwrap();
        assert_eq!(first.last_byte().unwrap(), Some(b'.'));
        assert_eq!(second.last_byte().unwrap(), Some(b'.'));
        one.rename("log".as_ref(), "new".as_ref()).unwrap();
        one.sync().unwrap();
        assert_eq!(fs::read_to_string(place.path().join("new")).unwrap(), "a\nb\nc.");
        assert!(one.rename("new".as_ref(), "../new".as_ref()).is_err());
        symlink("new", place.path().join("link")).unwrap();
        assert!(one.open_shared("link".as_ref()).is_err());
        assert!(one.try_lock().unwrap() && !other.try_lock().unwrap());
        drop(one);
        assert!(other.try_lock().unwrap());
    }

    // covers: TASK-42
    #[test]
    fn a_lock_ends_with_its_folder_although_a_child_has_a_copy_of_it() {
        let place = tempfile::tempdir().unwrap();
        let folder = RealFolder::new(open_folder_in(rustix::fs::CWD, place.path()).unwrap());
        let copy = rustix::io::fcntl_dupfd_cloexec(&folder.descriptor, 0).unwrap();
        assert!(folder.try_lock().unwrap());
        drop(folder);
        assert!(RealDisk.open_folder(place.path()).unwrap().try_lock().unwrap());
        drop(copy);
    }

    #[test]
    fn a_new_file_has_exactly_the_given_permissions() {
        let place = tempfile::tempdir().unwrap();
        let folder = RealDisk.open_folder(place.path()).unwrap();
        folder
            .create_file("run".as_ref(), 0o777, &mut &b"#!"[..])
            .unwrap();
        let OpenedEntry::File(file) = folder.open("run".as_ref()).unwrap() else {
            panic!("it is a file")
        };
        assert_eq!(file.mode, 0o777);
    }
}
