//! Paths of a workspace that no pattern matches (G4).
//!
//! Excluded paths never belong to a checkpoint, an archive or an output, and a restore never touches them. At any depth these are git folders and files
//! named like one, our own state, its backups, its damaged copies and the temporary files of a restore. At the root of the workspace they are also the
//! linked data source and the archive of rig outputs.

use super::reserved::{fold, is_git};

/// Prefix of the temporary files that a restore writes next to their target.
pub const RESTORE_TEMPORARY: &str = ".hankweave.restore-";

/// The folder at the root of the workspace in which the data lies (`--data`).
pub const DATA: &str = "read_only_data_source";

/// The folder at the root of the workspace to which `archiveOnSuccess` moves files.
pub const ARCHIVE: &str = "rigArchive";

/// Folders at the root of the workspace that are not the agent's work; compared without case.
const AT_ROOT: [&str; 2] = [DATA, ARCHIVE];

/// Returns whether `name`, one part of a path, is excluded; `at_root` means that it is directly in the workspace.
#[must_use]
pub fn is_excluded(name: &[u8], at_root: bool) -> bool {
    // The first byte rules out most names quickly. One that is not ASCII rules out none: macOS may ignore its character. Windows takes a backslash for
    // a slash, so the name of a git folder may come after one.
    let may_be = |first: &u8| !first.is_ascii() || matches!(first, b'.' | b'g' | b'G' | b'r' | b'R');
    if !name.first().is_some_and(may_be) {
        return name.contains(&b'\\') && is_git(name);
    }
    if is_git(name) {
        return true;
    }
    let name = fold(name);
    name == ".hankweave"
        || name.starts_with(".hankweave.backup-")
        || name.starts_with(".hankweave.damaged-")
        || name.starts_with(RESTORE_TEMPORARY)
        || at_root && AT_ROOT.iter().any(|folder| name.eq_ignore_ascii_case(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: G4
    #[test]
    fn whatever_some_system_takes_for_a_git_folder_is_left_out() {
        let names = [
            ".git",
            ".GIT",
            ".Git",
            "git~1",
            "GIT~1",
            ".git.",
            ".git ",
            ".git::$INDEX_ALLOCATION",
            ".g\u{200c}it",
        ];
        for name in names {
            assert!(is_excluded(name.as_bytes(), false), "{name:?}");
        }
        for name in [
            ".gitignore",
            ".github",
            "git",
            "git~2",
            "x.git",
            ".gitattributes",
            ".gi",
        ] {
            assert!(!is_excluded(name.as_bytes(), true), "{name:?}");
        }
    }

    #[test]
    fn our_own_state_is_left_out_at_any_depth() {
        for name in [
            ".hankweave",
            ".Hankweave",
            ".hankweave.backup-17",
            ".hankweave.damaged-17",
        ] {
            assert!(is_excluded(name.as_bytes(), false), "{name:?}");
        }
        assert!(!is_excluded(b".hankweaverc", true));
    }

    #[test]
    fn data_source_and_rig_archive_are_left_out_at_the_root_only() {
        for name in ["read_only_data_source", "rigArchive"] {
            assert!(is_excluded(name.as_bytes(), true), "{name:?}");
            assert!(!is_excluded(name.as_bytes(), false), "{name:?}");
        }
    }
}
