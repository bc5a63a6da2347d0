//! Files of a record, in pieces: each piece is one object of git. A file that grows at its end shares all pieces but the last
//! with its earlier version.

use std::io;
use std::path::PathBuf;

use hankweave_runtime::world::disk::{Disk, IoError};

/// Length of a piece in bytes; the last one of a file may be shorter.
pub(crate) const PIECE: u64 = 1 << 20;

/// A file as it is to be recorded.
#[derive(Debug)]
pub(crate) struct RecordFile {
    /// Path in the record, with `/`.
    pub(crate) path: String,
    pub(crate) source: FileSource,
}

#[derive(Debug)]
pub(crate) enum FileSource {
    Bytes(Vec<u8>),
    /// A file on disk, and the number of its first bytes that belong to the record.
    File(PathBuf, u64),
}

impl RecordFile {
    /// Returns the length in bytes.
    pub(crate) fn length(&self) -> u64 {
        match &self.source {
            FileSource::Bytes(bytes) => bytes.len() as u64,
            FileSource::File(_, length) => *length,
        }
    }

    pub(crate) fn pieces(&self) -> u64 {
        self.length().div_ceil(PIECE)
    }

    /// Returns a piece by its number, from 0. A file that has become shorter is an error.
    pub(crate) fn piece(&self, disk: &dyn Disk, number: u64) -> Result<Vec<u8>, IoError> {
        let (from, to) = (number * PIECE, ((number + 1) * PIECE).min(self.length()));
        match &self.source {
            FileSource::Bytes(bytes) => Ok(bytes[from as usize..to as usize].to_vec()),
            FileSource::File(path, _) => {
                let read = disk.read_at(path, from, (to - from) as usize);
                let whole = read.and_then(|bytes| match bytes.len() as u64 == to - from {
                    true => Ok(bytes),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                });
                whole.map_err(IoError::at("read", path))
            }
        }
    }
}

/// Returns the path of a piece of `file` in the tree of a record.
pub(crate) fn piece_path(file: &str, number: u64) -> String {
    format!("{file}/{number:06}")
}
