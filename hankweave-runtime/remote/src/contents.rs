//! The files of a record, in pieces: a file that grows at its end shares all pieces but the last with its earlier self.

use std::io;
use std::path::PathBuf;

use hankweave_runtime::world::disk::{Disk, IoError};

/// Length of a piece in bytes; the last one of a file may be shorter.
pub(crate) const PIECE: u64 = 1 << 20;

/// A file as it is to be recorded.
#[derive(Debug)]
pub(crate) struct Content {
    /// Where it stands in the record, with `/`.
    pub(crate) path: String,
    pub(crate) source: Source,
}

#[derive(Debug)]
pub(crate) enum Source {
    Bytes(Vec<u8>),
    /// The beginning of a file, so long.
    File(PathBuf, u64),
}

impl Content {
    /// Its length in bytes.
    pub(crate) fn length(&self) -> u64 {
        match &self.source {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::File(_, length) => *length,
        }
    }

    pub(crate) fn pieces(&self) -> u64 {
        self.length().div_ceil(PIECE)
    }

    /// One of its pieces, from 0 on. A file that has become shorter is an error.
    pub(crate) fn piece(&self, disk: &dyn Disk, number: u64) -> Result<Vec<u8>, IoError> {
        let (from, to) = (number * PIECE, ((number + 1) * PIECE).min(self.length()));
        match &self.source {
            Source::Bytes(bytes) => Ok(bytes[from as usize..to as usize].to_vec()),
            Source::File(path, _) => {
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

/// Where a piece of a file stands in the tree of a record.
pub(crate) fn piece_path(file: &str, number: u64) -> String {
    format!("{file}/{number:06}")
}
