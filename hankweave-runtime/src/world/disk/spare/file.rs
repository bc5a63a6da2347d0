//! Files of a state directory that are open for appending, and kept in the spare record at the same time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::{AppendFile, Disk, RealDisk, SyncFile};
use super::{Inner, Spare, exists};

/// An open file of a state directory. Before each change, a missing name of the file is put back. A file and its hard link
/// in the spare record are changed by one write, a copy by a second write.
#[derive(Debug)]
pub(super) struct SparedFile {
    file: Box<dyn AppendFile>,
    /// Path in the state directory.
    path: PathBuf,
    /// Path in the spare record.
    spare_path: PathBuf,
    /// The file at `spare_path` if it is a copy, because the spare record is on another file system.
    copy: Option<Box<dyn AppendFile>>,
    spare: Arc<Spare>,
}

impl SparedFile {
    /// Keeps `file`, which was opened for `path`. It may be the file of the spare record, if only that has it.
    pub(super) fn boxed(file: Box<dyn AppendFile>, path: &Path, spare: Arc<Spare>) -> Box<dyn AppendFile> {
        let Some(spare_path) = spare.spare_path(path) else {
            return file;
        };
        if !spare.is_watched(path) {
            spare.with(|inner| spare.keep(inner, path));
            return file;
        }
        let mut kept = Self {
            file,
            path: path.to_owned(),
            spare_path,
            copy: None,
            spare: Arc::clone(&spare),
        };
        spare.with(|inner| kept.ensure_spare_file(inner));
        Box::new(kept)
    }

    /// Makes sure that the spare record has the file as well: as a second name, or as a copy that is opened here.
    fn ensure_spare_file(&mut self, inner: &mut Inner) {
        self.copy = None;
        if inner.given_up || self.file.is_at(&self.spare_path) || !self.spare.keep(inner, &self.path) {
            return;
        }
        if !self.file.is_at(&self.spare_path) {
            match open_at(&self.spare_path, self.file.length()) {
                Ok(copy) => self.copy = Some(copy),
                Err(error) => self.spare.give_up(inner, &error),
            }
        }
    }

    /// Puts the record back if a name of the file is missing, and continues in the file that has the name `path` then.
    ///
    /// While a removal continues, the name may be lost again. Then the file of the spare record is used until the next write.
    fn ensure_names(&mut self, inner: &mut Inner) -> io::Result<()> {
        // Without a copy, the name in the spare record is a second name of the file.
        let names = if self.copy.is_some() { 1 } else { 2 };
        if inner.given_up || self.file.links().is_none_or(|links| links >= names) {
            return Ok(());
        }
        if !self.file.is_at(&self.path) {
            if !self.spare.put_back(inner) {
                return Err(lost(&self.path));
            }
            let length = self.file.length();
            // A missing file is not opened: that would make an empty one.
            let put_back = match !inner.is_pending && exists(&self.path) {
                true => open_at(&self.path, length).ok(),
                false => None,
            };
            match put_back {
                Some(file) => self.file = file,
                // The file was removed again, so the file of the spare record continues alone.
                None if !self.file.is_at(&self.spare_path) => self.file = open_at(&self.spare_path, length)?,
                None => {}
            }
        }
        self.ensure_spare_file(inner);
        Ok(())
    }

    /// Runs a step that changes the file, also on the copy.
    fn change(&mut self, step: impl Fn(&mut dyn AppendFile) -> io::Result<()>) -> io::Result<()> {
        let spare = Arc::clone(&self.spare);
        // Under one lock, so that nothing is put back between the check of the names and the step: a copy made in between
        // would lack the change.
        spare.with(|inner| {
            self.ensure_names(inner)?;
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

/// Opens a file to continue after its first `length` bytes; fails if it has fewer.
fn open_at(path: &Path, length: u64) -> io::Result<Box<dyn AppendFile>> {
    let mut file = RealDisk.open_append(path)?;
    if file.length() < length {
        return Err(lost(path));
    }
    file.rewind(length)?;
    Ok(file)
}

fn lost(path: &Path) -> io::Error {
    let message = format!("`{}` is gone and cannot be put back", path.display());
    io::Error::new(io::ErrorKind::NotFound, message)
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
