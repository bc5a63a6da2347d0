//! Names of files that git and hankweave read for themselves. Settings and hooks of git start programs, so no file that is written for a hank, a sentinel
//! or another machine may have such a name (X13).
//!
//! All spellings count that git itself refuses in a tree (`verify_path`): upper and lower case, with code points that macOS ignores, and the other names
//! by which Windows opens the same file.

/// The state folder of hankweave.
const STATE_FOLDER: &str = ".hankweave";

/// Checks the path of a file to be written for a hank, a sentinel or another machine, with `/` between the names.
///
/// # Errors
///
/// Returns the broken rule as a phrase that follows the path: no name in the path may be `.git` or our state folder.
pub fn check_written(path: &[u8]) -> Result<(), &'static str> {
    for name in path.split(|byte| *byte == b'/') {
        if is_git(name) {
            return Err("belongs to git");
        }
        if is_state_folder(name) {
            return Err("belongs to hankweave");
        }
    }
    Ok(())
}

/// Whether some system takes `name` for `.git`. Windows also does so for the short name `git~1`, with spaces and dots after the name, with the name of a
/// data stream, or after a backslash.
#[must_use]
pub fn is_git(name: &[u8]) -> bool {
    // The first letter rules out most names quickly. A letter that is not ASCII rules out none: macOS may ignore it.
    let may_be = |first: &u8| !first.is_ascii() || matches!(first, b'.' | b'g' | b'G');
    let name = name.split(|byte| *byte == b'\\');
    name.filter(|name| name.first().is_some_and(may_be))
        .any(|name| matches!(base_of(&fold(name)), ".git" | "git~1"))
}

/// Whether some system takes `name` for our state folder.
#[must_use]
pub fn is_state_folder(name: &[u8]) -> bool {
    fold(name) == STATE_FOLDER
}

/// Whether some system takes `name` for `.gitmodules`. Git would read that file through a link, so a link of this name is never written.
#[must_use]
pub fn is_never_a_link(name: &[u8]) -> bool {
    let name = fold(name);
    let base = base_of(&name);
    // Short names of Windows end in a number.
    let short = base.strip_prefix("gitmod~").or(base.strip_prefix("gi7eba~"));
    base == ".gitmodules" || short.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Entries of one folder that git checks to find out whether the folder is a repository. In a repository git reads settings, which start programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RepositoryShape {
    head: bool,
    objects: bool,
    references: bool,
    /// `commondir`, which names another folder for objects and refs.
    common: bool,
}

impl RepositoryShape {
    /// Names that git looks for; see [`is_repository`](Self::is_repository).
    pub const NAMES: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

    /// Notes that the folder has an entry with this name.
    pub fn add(&mut self, name: &[u8]) {
        let name = fold(name);
        match base_of(&name) {
            "head" => self.head = true,
            "objects" => self.objects = true,
            "refs" => self.references = true,
            "commondir" => self.common = true,
            _ => {}
        }
    }

    /// Whether git takes the folder for a repository.
    #[must_use]
    pub const fn is_repository(&self) -> bool {
        self.head && (self.common || self.objects && self.references)
    }
}

/// Returns a folder that files at `paths` would make a repository, if there is one; the empty path is the folder around all of them.
#[must_use]
pub fn repository_among<'p>(paths: impl IntoIterator<Item = &'p [u8]>) -> Option<&'p [u8]> {
    let mut folders = std::collections::BTreeMap::<&[u8], RepositoryShape>::new();
    for path in paths {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut start = 0;
        // Each name from `start` to `end` is an entry of the folder before it, whose path ends before the slash.
        for end in slashes.map(|(end, _)| end).chain([path.len()]) {
            let folder = &path[..start.max(1) - 1];
            folders.entry(folder).or_default().add(&path[start..end]);
            start = end + 1;
        }
    }
    let mut found = folders.into_iter().filter(|(_, shape)| shape.is_repository());
    found.next().map(|(folder, _)| folder)
}

/// Returns `name` in lower case and without the code points that macOS ignores in names.
pub(super) fn fold(name: &[u8]) -> String {
    String::from_utf8_lossy(name)
        .chars()
        .filter(|character| !is_ignorable(*character))
        .flat_map(char::to_lowercase)
        .collect()
}

fn is_ignorable(character: char) -> bool {
    matches!(character,
        '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// Returns `name` without the parts that Windows ignores: the name of a data stream, and spaces and dots at the end.
fn base_of(name: &str) -> &str {
    let base = name.split(':').next().unwrap_or(name);
    base.trim_end_matches([' ', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: X13
    #[test]
    fn what_some_system_takes_for_a_file_of_git_is_never_written() {
        for path in [
            ".git",
            ".GIT/config",
            "sub/.git/config",
            "vendor/lib/.Git/hooks/post-commit",
            "a/git~1/config",
            "GIT~1",
            ".git./config",
            ".git ",
            ".git. . /config",
            ".git::$INDEX_ALLOCATION/config",
            ".g\u{200c}it/config",
            "\u{feff}.git",
            "a\\.git\\config",
            ".hankweave/state.json",
            "deep/.HankWeave/token",
            "deep/.hank\u{200d}weave/token",
        ] {
            assert!(check_written(path.as_bytes()).is_err(), "{path:?}");
        }
        for path in [
            ".gitignore",
            ".github/workflows/ci.yml",
            ".gitmodules",
            "git/config",
            "git~2",
            "x.git/config",
            "src/.gitkeep",
            ".hankweaverc",
        ] {
            assert_eq!(check_written(path.as_bytes()), Ok(()), "{path:?}");
        }
        assert!(check_written(b"sub/.git\xff").is_ok() && check_written(b"a\xff/.git").is_err());
    }

    // covers: X13
    #[test]
    fn modules_of_git_are_never_a_link() {
        for name in [
            ".gitmodules",
            ".GitModules",
            "GITMOD~1",
            ".gitmodules .",
            "gi7eba~9",
            ".git\u{200c}modules",
        ] {
            assert!(is_never_a_link(name.as_bytes()), "{name:?}");
        }
        for name in [".gitignore", "gitmodules", "gitmod~x", "a.gitmodules"] {
            assert!(!is_never_a_link(name.as_bytes()), "{name:?}");
        }
    }

    // covers: X13
    #[test]
    fn a_folder_in_which_git_would_look_for_settings_is_known_by_its_entries() {
        let among = |paths: &[&'static str]| {
            let found = repository_among(paths.iter().map(|path| path.as_bytes()));
            found.map(|folder| std::str::from_utf8(folder).unwrap())
        };
        assert_eq!(
            among(&["HEAD", "config", "objects/x", "refs/heads/main"]),
            Some("")
        );
        assert_eq!(among(&["a/head", "a/Objects/x", "a/refs."]), Some("a"));
        assert_eq!(among(&["a/b/HEAD", "a/b/commondir"]), Some("a/b"));
        let ignored = format!("HEAD{}", "\u{200c}".repeat(21));
        let paths = [ignored.as_bytes(), b"objects/x", b"refs/x"];
        assert_eq!(repository_among(paths), Some(&b""[..]));
        for none in [
            &["HEAD", "objects/x", "a/refs/x"][..],
            &["HEAD.md", "objects", "refs"],
            &["objects/x", "refs/x", "config", "commondir"],
            &["HEAD"],
        ] {
            assert_eq!(among(none), None, "{none:?}");
        }
    }
}
