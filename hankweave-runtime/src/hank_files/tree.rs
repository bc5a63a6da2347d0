//! Checks the folder that a rig copies, when a hank is loaded: which entries cannot be copied, and which a copy leaves out.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use super::beneath::{HankEntry, RefError, open_in};
use crate::world::disk::{CopyRules, Folder, PathError};

/// Maximum depth of nested folders. A deeper tree is a mistake, and a walk keeps one folder open for each level.
const MAX_DEPTH: usize = 64;

/// One entry of the tree that cannot be copied.
#[derive(Debug)]
pub(super) struct UncopiableEntry {
    /// Path relative to the checked folder.
    pub(super) path: String,
    /// Why, as a phrase after the path.
    pub(super) reason: String,
}

/// Result of checking a folder.
#[derive(Debug, Default)]
pub(super) struct TreeSurvey {
    /// Entries that cannot be copied: links, special files, ignore files, names that are not UTF-8, unreadable parts.
    pub(super) obstacles: Vec<UncopiableEntry>,
    /// Entries that a copy leaves out, by paths relative to the folder (HANK-15).
    pub(super) left_out: Vec<String>,
}

impl TreeSurvey {
    fn refuse(&mut self, path: String, reason: String) {
        self.obstacles.push(UncopiableEntry { path, reason });
    }

    /// Like [`refuse`](Self::refuse), but returns an error of the system.
    fn refuse_unless_of_the_system(
        &mut self,
        path: String,
        reason: String,
        error: RefError,
    ) -> Result<(), RefError> {
        if error.is_of_the_system() {
            return Err(error);
        }
        self.refuse(path, reason);
        Ok(())
    }

    /// Checks one entry at `path`; returns the entry if it is a folder to continue in. `leave_out` says whether a copy leaves
    /// out a path, which is that of a folder if its second argument is `true`.
    fn check_entry(
        &mut self,
        folder: &dyn Folder,
        path: &Path,
        name: io::Result<&OsStr>,
        leave_out: &dyn Fn(&str, bool) -> bool,
    ) -> Result<Option<Box<dyn Folder>>, RefError> {
        let Some(shown) = path.to_str() else {
            let place = path.with_file_name("\u{2026}").display().to_string();
            self.refuse(place, "has a name that is not UTF-8".to_owned());
            return Ok(None);
        };
        let shown = shown.to_owned();
        let opened = match name {
            // Rules for folders alone are applied below, once the opened entry is known to be a folder.
            Ok(_) if leave_out(&shown, false) => {
                self.left_out.push(shown);
                return Ok(None);
            }
            Ok(name) => open_in(folder, &name.to_string_lossy()),
            Err(error) => {
                let reason = format!("cannot be read: {error}");
                self.refuse_unless_of_the_system(shown, reason, PathError::Io(error).into())?;
                return Ok(None);
            }
        };
        match opened {
            // Only the .gitignore at the top of the hank decides what a copy leaves out (HANK-14).
            Ok(HankEntry::File(_)) if path.ends_with(".gitignore") => self.refuse(
                shown,
                "would be ignored; only the .gitignore at the top of the hank is read".to_owned(),
            ),
            Ok(HankEntry::File(_)) => {}
            Ok(HankEntry::Folder(_)) if leave_out(&shown, true) => self.left_out.push(shown),
            Ok(HankEntry::Folder(_)) if path.components().count() > MAX_DEPTH => {
                self.refuse(shown, format!("lies deeper than {MAX_DEPTH} folders"));
            }
            Ok(HankEntry::Folder(inner)) => return Ok(Some(inner)),
            Err(RefError::Link { .. }) => self.refuse(shown, "is a symbolic link".to_owned()),
            Err(error) => self.refuse_unless_of_the_system(shown, error.to_string(), error)?,
        }
        Ok(None)
    }
}

/// Checks a folder, which is at `base` inside the hank's folder, with everything inside. Errors come from the system.
pub(super) fn survey(folder: &dyn Folder, base: &Path, rules: &CopyRules) -> Result<TreeSurvey, RefError> {
    let mut survey = TreeSurvey::default();
    let leave_out = |path: &str, is_folder| rules.leave_out(&base.join(path), is_folder);
    folder.walk(&mut |folder, path, name| survey.check_entry(folder, path, name, &leave_out))?;
    Ok(survey)
}
