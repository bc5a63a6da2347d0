//! Files that grow while they are kept twice.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::{AppendFile, Disk, RealDisk, SyncFile};
use super::{Inner, Spare, exists};

/// An open file of a state directory. Each write goes to the file that both names lead to, and puts the record back if a
/// name is missing.
#[derive(Debug)]
pub(super) struct SparedFile {
    file: Box<dyn AppendFile>,
    path: PathBuf,
    /// Path in the spare record.
    second: PathBuf,
    /// The file there, where it is another one, on another file system.
    copy: Option<Box<dyn AppendFile>>,
    spare: Arc<Spare>,
}

impl SparedFile {
    /// Keeps `file`, which was opened for `path` and may already be the one in the spare record.
    pub(super) fn boxed(file: Box<dyn AppendFile>, path: &Path, spare: Arc<Spare>) -> Box<dyn AppendFile> {
        let Some(second) = spare.second(path) else {
            return file;
        };
        if !spare.is_watched(path) {
            spare.with(|inner| spare.keep(inner, path));
            return file;
        }
        let mut kept = Self {
            file,
            path: path.to_owned(),
            second,
            copy: None,
            spare: Arc::clone(&spare),
        };
        spare.with(|inner| kept.pair(inner));
        Box::new(kept)
    }

    /// Makes sure that the spare record has the file as well.
    fn pair(&mut self, inner: &mut Inner) {
        self.copy = None;
        if inner.given_up || self.file.is_at(&self.second) || !self.spare.keep(inner, &self.path) {
            return;
        }
        if !self.file.is_at(&self.second) {
            match open_at(&self.second, self.file.length()) {
                Ok(copy) => self.copy = Some(copy),
                Err(error) => self.spare.give_up(inner, &error),
            }
        }
    }

    /// Puts the record back if a name of the file is missing, and continues in the file that has the name then.
    ///
    /// While a removal continues, the name may be lost again. The spare record has the file until the next write.
    fn stand(&mut self, inner: &mut Inner) -> io::Result<()> {
        let names = if self.copy.is_some() { 1 } else { 2 };
        if inner.given_up || self.file.links().is_none_or(|links| links >= names) {
            return Ok(());
        }
        if !self.file.is_at(&self.path) {
            if !self.spare.put_back(inner) {
                return Err(gone(&self.path));
            }
            let length = self.file.length();
            let back = match inner.is_pending {
                true => None,
                // Opening would make an empty file.
                false if !exists(&self.path) => None,
                false => open_at(&self.path, length).ok(),
            };
            match back {
                Some(file) => self.file = file,
                // Removed again, so the spare record continues alone.
                None if !self.file.is_at(&self.second) => self.file = open_at(&self.second, length)?,
                None => {}
            }
        }
        self.pair(inner);
        Ok(())
    }

    /// Runs a step that changes the file, also on the copy.
    fn change(&mut self, step: impl Fn(&mut dyn AppendFile) -> io::Result<()>) -> io::Result<()> {
        let spare = Arc::clone(&self.spare);
        // Nothing is put back between the check of the names and the step: the file might be copied too early.
        spare.with(|inner| {
            self.stand(inner)?;
            step(&mut *self.file)?;
            if let Some(copy) = &mut self.copy
                && let Err(error) = step(&mut **copy)
            {
                self.copy = None;
                spare.give_up(inner, &error);
            }
            Ok(())
        })
    }
}

/// Opens a file that has at least `length` bytes, to continue after these.
fn open_at(path: &Path, length: u64) -> io::Result<Box<dyn AppendFile>> {
    let mut file = RealDisk.open_append(path)?;
    if file.length() < length {
        return Err(gone(path));
    }
    file.rewind(length)?;
    Ok(file)
}

fn gone(path: &Path) -> io::Error {
    let gone = format!("`{}` is gone and cannot be put back", path.display());
    io::Error::new(io::ErrorKind::NotFound, gone)
}

impl AppendFile for SparedFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.change(|file| file.write_all(bytes))
    }

    fn syncer(&self) -> Arc<dyn SyncFile> {
        self.file.syncer()
    }

    fn rewind(&mut self, length: u64) -> io::Result<()> {
        self.change(|file| file.rewind(length))
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.change(|file| file.truncate(length))
    }

    fn length(&self) -> u64 {
        self.file.length()
    }
}
