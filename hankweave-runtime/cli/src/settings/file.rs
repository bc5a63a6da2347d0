//! hankweave.json in the working directory.

use std::path::Path;

use hankweave_core::hank::{Level, RuntimeFile};
use hankweave_runtime::hank_files::{RefError, read_named};
use hankweave_runtime::world::disk::{Disk, PathError};

/// Its name; it is looked for in the working directory alone.
pub(super) const NAME: &str = "hankweave.json";

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// `None` when there is no file, or none that could be read.
    pub(super) file: Option<RuntimeFile>,
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// A missing file is fine; one that cannot be read or holds a mistake is not (HANK-56). An error is one of the system's.
pub(super) fn read(disk: &dyn Disk) -> Result<Found, RefError> {
    let unreadable = |reason: String| Found {
        errors: vec![format!("{NAME}: error: {reason}")],
        ..Found::default()
    };
    let bytes = match read_named(disk, Path::new(NAME)) {
        Ok(bytes) => bytes,
        Err(RefError::Path(PathError::Missing)) => return Ok(Found::default()),
        Err(error) if error.is_of_the_system() => return Err(error),
        Err(error) => return Ok(unreadable(hankweave_runtime::error::chain(&error))),
    };
    let Ok(text) = String::from_utf8(bytes) else {
        return Ok(unreadable("the file is not UTF-8 text".to_owned()));
    };
    let file = RuntimeFile::parse(&text);
    let told = |level| {
        let problems = file.problems.iter().filter(move |problem| problem.level == level);
        problems.map(|problem| problem.display_in(NAME)).collect()
    };
    Ok(Found {
        errors: told(Level::Error),
        warnings: told(Level::Warning),
        file: Some(file),
    })
}
