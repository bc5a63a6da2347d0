//! Looks through the folder that a rig copies from.

use std::path::Path;

use super::beneath::{Entry, RefError, open_in};
use crate::world::disk::{CopyRules, Folder};

/// A deeper tree is a mistake, and walking it costs one open folder for each level.
const MAX_DEPTH: usize = 64;

/// One entry of the tree that cannot be copied.
#[derive(Debug)]
pub(super) struct Obstacle {
    /// Path relative to the folder that was looked through.
    pub(super) path: String,
    /// Why, as a phrase behind the path.
    pub(super) reason: String,
}

/// What a copy of a folder would meet.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// What cannot be copied: links, special files, ignore files, names that are not UTF-8, unreadable parts.
    pub(super) obstacles: Vec<Obstacle>,
    /// What a copy passes over, by paths relative to the folder (HANK-15).
    pub(super) left_out: Vec<String>,
}

impl Survey {
    fn refuse(&mut self, path: String, reason: String) {
        self.obstacles.push(Obstacle { path, reason });
    }

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
}

/// Looks through all of a folder, which is at `base` beneath the hank's own. An error is one of the system's.
pub(super) fn survey(folder: &dyn Folder, base: &Path, rules: &CopyRules) -> Result<Survey, RefError> {
    let mut survey = Survey::default();
    let leave_out = |path: &str, is_folder| rules.leave_out(&base.join(path), is_folder);
    walk(folder, "", 0, &leave_out, &mut survey)?;
    Ok(survey)
}

fn walk(
    folder: &dyn Folder,
    at: &str,
    depth: usize,
    leave_out: &dyn Fn(&str, bool) -> bool,
    survey: &mut Survey,
) -> Result<(), RefError> {
    if depth > MAX_DEPTH {
        survey.refuse(at.to_owned(), format!("lies deeper than {MAX_DEPTH} folders"));
        return Ok(());
    }
    let names = match folder.names() {
        Ok(names) => names,
        Err(error) => {
            let reason = format!("cannot be read: {error}");
            return survey.refuse_unless_of_the_system(at.to_owned(), reason, RefError::Io(error));
        }
    };
    for name in names {
        let path = |name: &str| {
            if at.is_empty() {
                name.to_owned()
            } else {
                format!("{at}/{name}")
            }
        };
        let Ok(name) = name.into_string() else {
            survey.refuse(path("…"), "has a name that is not UTF-8".to_owned());
            continue;
        };
        if leave_out(&path(&name), false) {
            survey.left_out.push(path(&name));
            continue;
        }
        match open_in(folder, &name) {
            // Only the one at the top of the hank decides what a copy leaves out (HANK-14).
            Ok(Entry::File(_)) if name == ".gitignore" => survey.refuse(
                path(&name),
                "would be ignored; only the .gitignore at the top of the hank is read".to_owned(),
            ),
            Ok(Entry::File(_)) => {}
            Ok(Entry::Folder(_)) if leave_out(&path(&name), true) => survey.left_out.push(path(&name)),
            Ok(Entry::Folder(inner)) => walk(&*inner, &path(&name), depth + 1, leave_out, survey)?,
            Err(RefError::Link { .. }) => survey.refuse(path(&name), "is a symbolic link".to_owned()),
            Err(error) => survey.refuse_unless_of_the_system(path(&name), error.to_string(), error)?,
        }
    }
    Ok(())
}
