//! Files that grow while they are kept twice.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::{AppendFile, Disk, RealDisk, SyncFile, remove_if_present};
use super::{MOST_TRIES, Spare};

/// An open file of a state directory. Before each write it is looked at whether it still has its name.
#[derive(Debug)]
pub(super) struct SparedFile {
    file: Box<dyn AppendFile>,
    path: PathBuf,
    spare: Arc<Spare>,
    /// The copy, where the two are no links to one file.
    copy: Option<Box<dyn AppendFile>>,
}

impl SparedFile {
    /// Keeps `file`, which was opened at `path`.
    pub(super) fn boxed(file: Box<dyn AppendFile>, path: &Path, spare: Arc<Spare>) -> Box<dyn AppendFile> {
        let is_linked = file.links().is_some_and(|links| links > 1);
        if !is_linked {
            spare.keep(path);
        }
        if !spare.is_watched(path) {
            return file;
        }
        let mut file = Self {
            file,
            path: path.to_owned(),
            spare,
            copy: None,
        };
        file.open_copy();
        Box::new(file)
    }

    fn open_copy(&mut self) {
        if !self.spare.copies() || self.spare.has_given_up() {
            return;
        }
        let copy = RealDisk
            .open_append(&self.spare.copy_of(&self.path))
            .and_then(|mut copy| {
                copy.rewind(self.file.length())?;
                Ok(copy)
            });
        match copy {
            Ok(copy) => self.copy = Some(copy),
            Err(error) => self.spare.or_give_up(Err(error)),
        }
    }

    /// Makes sure that the file has its name, or puts it back with all else that is gone.
    fn stand(&mut self) -> io::Result<()> {
        if self.spare.has_given_up() {
            return Ok(());
        }
        let names = if self.copy.is_some() { 1 } else { 2 };
        match self.file.links() {
            Some(links) if links < names => self.mend(),
            Some(_) | None => Ok(()),
        }
    }

    fn mend(&mut self) -> io::Result<()> {
        for _ in 1..MOST_TRIES {
            if self.file.is_at(&self.path) {
                // Only the second name was gone, or neither is any more.
                self.keep();
                return Ok(());
            }
            if !self.spare.with(|inner| self.spare.put_back(inner)) {
                break;
            }
            if self.copy.is_some() {
                match self.reopen() {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    reopened => reopened?,
                }
            }
        }
        let gone = format!("`{}` is gone and cannot be put back", self.path.display());
        Err(io::Error::new(io::ErrorKind::NotFound, gone))
    }

    fn keep(&self) {
        let names = if self.copy.is_some() { 1 } else { 2 };
        if self.file.links() < Some(names) {
            self.spare.keep(&self.path);
        }
    }

    /// Goes on in the file that was made of the copy.
    fn reopen(&mut self) -> io::Result<()> {
        let length = self.file.length();
        remove_if_present(&RealDisk, &self.path)?;
        self.spare
            .tree
            .place(&self.spare.copy_of(&self.path), &self.path)?;
        self.file = RealDisk.open_append(&self.path)?;
        self.file.rewind(length)
    }

    fn write_copy(&mut self, step: impl FnOnce(&mut dyn AppendFile) -> io::Result<()>) {
        if let Some(copy) = &mut self.copy
            && let Err(error) = step(&mut **copy)
        {
            self.copy = None;
            self.spare.or_give_up(Err(error));
        }
    }
}

impl AppendFile for SparedFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stand()?;
        self.file.write_all(bytes)?;
        self.write_copy(|copy| copy.write_all(bytes));
        Ok(())
    }

    fn syncer(&self) -> Arc<dyn SyncFile> {
        self.file.syncer()
    }

    fn rewind(&mut self, length: u64) -> io::Result<()> {
        self.file.rewind(length)?;
        self.write_copy(|copy| copy.rewind(length));
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.truncate(length)?;
        self.write_copy(|copy| copy.truncate(length));
        Ok(())
    }

    fn length(&self) -> u64 {
        self.file.length()
    }
}
