//! hankweave.json in the working directory, and that of the user.

use std::path::{Path, PathBuf};

use hankweave_core::hank::{RuntimeFile, Severity};
use hankweave_runtime::hank_files::{RefError, read_named};
use hankweave_runtime::world::disk::{Disk, PathError};
use hankweave_runtime::world::environment::Environment;

/// Name of a settings file, in the working directory and in the user's folder for settings.
pub(super) const NAME: &str = "hankweave.json";

/// Returns the path of the user's own file: `hankweave/hankweave.json` in `XDG_CONFIG_HOME`, or in `.config` at home.
pub(crate) fn of_user(environment: &Environment) -> Option<PathBuf> {
    let absolute = |name| {
        let path = environment.get(name).map(Path::new);
        path.filter(|path| path.is_absolute())
    };
    let home = || Some(absolute("HOME")?.join(".config"));
    let folder = absolute("XDG_CONFIG_HOME").map(Path::to_owned).or_else(home)?;
    Some(folder.join("hankweave").join(NAME))
}

/// Contents of the file.
#[derive(Debug, Default)]
pub(super) struct SettingsFile {
    /// `None` when there is no file, or none that could be read.
    pub(super) file: Option<RuntimeFile>,
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// Reads the user's own file. If it cannot be reached, as in the home of another user, it counts as missing: the user did not ask for it.
pub(super) fn read_of_user(disk: &dyn Disk, path: &Path) -> Result<SettingsFile, RefError> {
    use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    match disk.metadata_followed(path) {
        Err(error) if matches!(error.kind(), NotADirectory | NotFound | PermissionDenied) => {
            Ok(SettingsFile::default())
        }
        _ => read(disk, path),
    }
}

/// Reads a file of settings. A missing file counts as one without settings; one that cannot be read or has mistakes is returned with `errors` (HANK-56).
/// `Err` is a failure of the system, which says nothing about the file.
pub(super) fn read(disk: &dyn Disk, path: &Path) -> Result<SettingsFile, RefError> {
    let name = path.display().to_string();
    let unreadable = |reason: String| SettingsFile {
        errors: vec![format!("{name}: error: {reason}")],
        ..SettingsFile::default()
    };
    let bytes = match read_named(disk, path) {
        Ok(bytes) => bytes,
        Err(RefError::Path(PathError::Missing)) => return Ok(SettingsFile::default()),
        Err(error) if error.is_of_the_system() => return Err(error),
        Err(error) => return Ok(unreadable(hankweave_runtime::error::chain(&error))),
    };
    let Ok(text) = String::from_utf8(bytes) else {
        return Ok(unreadable("the file is not UTF-8 text".to_owned()));
    };
    let file = RuntimeFile::parse(&text);
    let problems_of = |level| {
        let problems = file.problems.iter().filter(move |problem| problem.level == level);
        problems.map(|problem| problem.display_in(&name)).collect()
    };
    Ok(SettingsFile {
        errors: problems_of(Severity::Error),
        warnings: problems_of(Severity::Warning),
        file: Some(file),
    })
}
