//! Storage of file contents: the traits with which a snapshot stores them, their errors, and the checksums of objects.

use std::io::{self, Read, Seek};

use git2::{ErrorClass, ErrorCode, ObjectType, Oid};
use sha1_smol::Sha1;

/// Size of a chunk that is read, inflated and written together, in bytes.
pub(super) const AT_ONCE: u64 = 64 << 10;

/// Why an object could not be written or read: what was tried, and the cause.
#[derive(Debug, thiserror::Error)]
#[error("failed to {action}")]
pub struct ObjectError {
    /// Attempted action, such as "write a blob".
    pub action: &'static str,
    /// The cause, from git or from the operating system.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl ObjectError {
    /// A conversion for `map_err` that remembers what was tried.
    pub(super) fn at<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        action: &'static str,
    ) -> impl Fn(E) -> Self {
        move |source| Self {
            action,
            source: source.into(),
        }
    }
}

/// Why the content of an object could not be copied.
#[derive(Debug)]
pub(super) enum ContentError {
    /// The object cannot be read, or its content does not fit its name.
    Object(git2::Error),
    /// The copy could not be written.
    Sink(io::Error),
}

impl ContentError {
    pub(super) fn into_git(self) -> git2::Error {
        match self {
            Self::Object(error) => error,
            Self::Sink(error) => as_git(error),
        }
    }
}

/// Returns the error for the damaged object `id`.
pub(super) fn damaged(id: Oid, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the object {id} {what}"))
}

/// Converts an error: one of the system stays such an error, any other counts as damage for
/// [`if_readable`](super::repository::if_readable).
pub(super) fn as_git(error: io::Error) -> git2::Error {
    let class = match error.raw_os_error() {
        Some(_) => ErrorClass::Os,
        None => ErrorClass::Zlib,
    };
    git2::Error::new(ErrorCode::GenericError, class, error.to_string())
}

/// Stores the contents of files.
pub(super) trait BlobStore: Sync {
    /// Announces how many files will come; called before the first writer is asked for.
    fn expect(&self, _files: usize) -> Result<(), ObjectError> {
        Ok(())
    }

    /// A writer of its own, so that several threads can write.
    fn writer(&self) -> Result<Box<dyn BlobWriter + '_>, ObjectError>;
}

/// Stores contents and returns their id.
pub(super) trait BlobWriter {
    fn write(&self, contents: &[u8]) -> Result<Oid, ObjectError>;

    /// Writes a file of `length` bytes that is too large for memory; `None` when it changes meanwhile.
    fn write_from(&self, source: &mut dyn ReadSeek, length: u64) -> Result<Option<Oid>, WriteError>;
}

/// A file that is read in pieces, if need be again from its beginning.
pub(super) trait ReadSeek: Read + Seek {}

impl<T: Read + Seek> ReadSeek for T {}

/// Why the contents of a file could not be stored.
#[derive(Debug)]
pub(super) enum WriteError {
    /// The file could not be read.
    Source(io::Error),
    /// Its content could not be written.
    Store(ObjectError),
}

impl WriteError {
    pub(super) fn writing(error: io::Error) -> Self {
        Self::Store(ObjectError::at("write an object")(error))
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Source(error)
    }
}

/// Computes the ids of contents and stores nothing: for finding out what would be stored.
#[derive(Debug)]
pub(super) struct OnlyIds;

impl BlobStore for OnlyIds {
    fn writer(&self) -> Result<Box<dyn BlobWriter + '_>, ObjectError> {
        Ok(Box::new(Self))
    }
}

impl BlobWriter for OnlyIds {
    fn write(&self, contents: &[u8]) -> Result<Oid, ObjectError> {
        Oid::hash_object(ObjectType::Blob, contents).map_err(ObjectError::at("hash a file"))
    }

    fn write_from(&self, source: &mut dyn ReadSeek, length: u64) -> Result<Option<Oid>, WriteError> {
        source.rewind()?;
        sum_of(source, length, &mut |_| Ok(()))
    }
}

/// Begins the checksum of an object; its content must follow.
pub(super) fn begin_sum(kind: ObjectType, length: u64) -> Sha1 {
    Sha1::from(format!("{kind} {length}\0"))
}

/// Returns the name of the next `length` bytes of `source` as the content of a file; `None` if there are fewer. Passes
/// each chunk to `take` as well.
pub(super) fn sum_of(
    source: &mut dyn ReadSeek,
    length: u64,
    take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<Option<Oid>, WriteError> {
    let mut sum = begin_sum(ObjectType::Blob, length);
    let mut left = length;
    let mut buffer = vec![0; AT_ONCE as usize];
    while left > 0 {
        let wanted = AT_ONCE.min(left) as usize;
        let read = match source.read(&mut buffer[..wanted]) {
            Ok(0) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(WriteError::Source)?,
        };
        sum.update(&buffer[..read]);
        take(&buffer[..read]).map_err(WriteError::writing)?;
        left -= read as u64;
    }
    Oid::from_bytes(&sum.digest().bytes())
        .map(Some)
        .map_err(|error| WriteError::writing(io::Error::other(error)))
}
