//! Looks through the folder that a rig copies from.

use hankweave_core::hank::paths;

use super::beneath::{Entry, RefError, open_in};
use crate::world::disk::Folder;

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

/// Finds what cannot be copied: links, special files, repositories, ignore files, names that are not UTF-8, unreadable parts.
pub(super) fn obstacles(folder: &dyn Folder) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    walk(folder, "", 0, &mut obstacles);
    obstacles
}

fn walk(folder: &dyn Folder, at: &str, depth: usize, obstacles: &mut Vec<Obstacle>) {
    let mut refuse = |path: String, reason: String| obstacles.push(Obstacle { path, reason });
    if depth > MAX_DEPTH {
        return refuse(at.to_owned(), format!("lies deeper than {MAX_DEPTH} folders"));
    }
    let names = match folder.names() {
        Ok(names) => names,
        Err(error) => return refuse(at.to_owned(), format!("cannot be read: {error}")),
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
            obstacles.push(Obstacle {
                path: path("…"),
                reason: "has a name that is not UTF-8".to_owned(),
            });
            continue;
        };
        if paths::is_git(&name) {
            obstacles.push(Obstacle {
                path: path(&name),
                reason: "is a git repository".to_owned(),
            });
            continue;
        }
        match open_in(folder, &name) {
            // Only the one at the top of the hank decides what a copy leaves out ("hank configuration", section 4.2, "copy trees").
            Ok(Entry::File(_)) if name == ".gitignore" => obstacles.push(Obstacle {
                path: path(&name),
                reason: "would be ignored; only the .gitignore at the top of the hank is read".to_owned(),
            }),
            Ok(Entry::File(_)) => {}
            Ok(Entry::Folder(inner)) => walk(&*inner, &path(&name), depth + 1, obstacles),
            Err(RefError::Link { .. }) => {
                obstacles.push(Obstacle {
                    path: path(&name),
                    reason: "is a symbolic link".to_owned(),
                });
            }
            Err(error) => obstacles.push(Obstacle {
                path: path(&name),
                reason: error.to_string(),
            }),
        }
    }
}
