//! Looks through the folder that a rig copies from.

use std::os::fd::OwnedFd;

use hankweave_core::hank::paths;
use rustix::fs::Dir;

use super::beneath::{Found, RefError, open_in};

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

/// Finds what cannot be copied: links, special files, repositories, names that are not UTF-8, unreadable parts.
pub(super) fn obstacles(folder: OwnedFd) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    walk(folder, "", 0, &mut obstacles);
    obstacles
}

fn walk(folder: OwnedFd, at: &str, depth: usize, obstacles: &mut Vec<Obstacle>) {
    let mut refuse = |path: String, reason: String| obstacles.push(Obstacle { path, reason });
    if depth > MAX_DEPTH {
        return refuse(at.to_owned(), format!("lies deeper than {MAX_DEPTH} folders"));
    }
    let mut names = match names_in(&folder) {
        Ok(names) => names,
        Err(errno) => return refuse(at.to_owned(), format!("cannot be read: {errno}")),
    };
    names.sort();
    for name in names {
        let path = |name: &str| {
            if at.is_empty() {
                name.to_owned()
            } else {
                format!("{at}/{name}")
            }
        };
        let Ok(name) = String::from_utf8(name) else {
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
        match open_in(&folder, &name) {
            Ok(Found::File(_)) => {}
            Ok(Found::Folder(inner)) => walk(inner, &path(&name), depth + 1, obstacles),
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

fn names_in(folder: &OwnedFd) -> rustix::io::Result<Vec<Vec<u8>>> {
    let names = Dir::read_from(folder)?.map(|entry| Ok(entry?.file_name().to_bytes().to_vec()));
    let names: rustix::io::Result<Vec<Vec<u8>>> = names.collect();
    Ok(names?
        .into_iter()
        .filter(|name| name != b"." && name != b"..")
        .collect())
}
