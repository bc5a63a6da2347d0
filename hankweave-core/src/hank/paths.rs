//! Paths and globs as an author may write them, checked by their spelling alone.
//!
//! The rules are X2 to X4. The spelling is checked when a hank is read. Code that opens a path checks the
//! real folders and links again.

use super::exclude;
use super::patterns::{PatternError, Patterns};
use super::reserved::{is_git, is_state_folder};

/// Maximum of patterns in one list (X4).
pub const MAX_GLOBS: usize = 256;

/// Longest pattern that is accepted, in bytes; no user writes a longer one.
const MAX_GLOB_BYTES: usize = 1024;

/// Names at the root of a workspace that belong to hankweave, besides the state folder; compared without case.
const PROTECTED: [&str; 2] = [exclude::DATA, exclude::ARCHIVE];

/// Checks the path of a file or folder of the user, who may name any.
///
/// # Errors
///
/// Returns the broken rule as a phrase: the path must not be empty or contain a NUL character.
pub(super) fn check_any(path: &str) -> Result<(), &'static str> {
    match path {
        _ if path.trim().is_empty() => Err("must not be empty"),
        _ if path.contains('\0') => Err("must not contain a NUL character"),
        _ => Ok(()),
    }
}

/// Splits a reference to a file of the hank (`promptFile`, `copy.from`, …) into the names to walk through,
/// relative to the folder of hank.json: `./prompts/../a.md` gives `a.md`.
///
/// # Errors
///
/// Returns the broken rule as a phrase: the path must be portable, stay inside the hank at every step, name
/// something other than the hank itself, and not pass through `.git`.
pub fn reference(path: &str) -> Result<Vec<&str>, &'static str> {
    check_portable(path)?;
    let mut names = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                names.pop().ok_or("must not lead out of the folder of the hank")?;
            }
            name if is_git(name.as_bytes()) => return Err("must not name or pass through `.git`"),
            name => names.push(name),
        }
    }
    if names.is_empty() {
        Err("must not be the folder of the hank itself")
    } else {
        Ok(names)
    }
}

/// Splits the target of a rig copy into the names to walk through, relative to the agent's workspace.
///
/// # Errors
///
/// Returns the broken rule as a phrase: the target must be portable, lie inside the workspace, and name neither `.git` nor a folder that belongs to
/// hankweave (X3).
pub fn copy_target(path: &str) -> Result<Vec<&str>, &'static str> {
    check_portable(path)?;
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    let names: Vec<&str> = parts.collect();
    if names.contains(&"..") {
        return Err("must not contain `..`");
    }
    if names.iter().any(|name| is_git(name.as_bytes())) {
        return Err("must not name or pass through `.git`");
    }
    let Some(first) = names.first() else {
        return Err("must not be the workspace itself");
    };
    let is_state = |name: &&str| is_state_folder(name.as_bytes());
    let mut protected = PROTECTED.iter();
    if names.iter().any(is_state) || protected.any(|name| name.eq_ignore_ascii_case(first)) {
        return Err("must not be in a folder that belongs to hankweave");
    }
    Ok(names)
}

/// Checks a pattern of `checkpointedFiles`, `archiveOnSuccess` or `outputFiles`; a leading `!` negates.
///
/// # Errors
///
/// Returns the broken rule as a phrase: a pattern must be a portable, relative glob, neither empty nor too long, and without `..`.
pub fn check_glob(pattern: &str) -> Result<(), String> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    // A `!(` does not negate: it is an extended glob, which is refused below.
    let pattern = match pattern.strip_prefix('!') {
        Some(rest) if !rest.starts_with('(') => rest.strip_prefix("./").unwrap_or(rest),
        _ => pattern,
    };
    if pattern.len() > MAX_GLOB_BYTES {
        return Err(format!("must not be longer than {MAX_GLOB_BYTES} bytes"));
    }
    check_portable(pattern)?;
    if pattern.split('/').any(|part| part == "..") {
        return Err("must not contain `..`".to_owned());
    }
    // A pattern that is accepted here must not fail later, when its codon has done its work.
    Patterns::check(pattern).map_err(|error| match error {
        PatternError::Syntax { source, .. } => format!("is not a glob: {}", source.kind()),
        PatternError::Extended { sign, instead, .. } => {
            format!("must not have an extended glob, `{sign}(`: {instead}")
        }
        PatternError::Empty { .. } => "must not be empty".to_owned(),
        PatternError::Outside { .. } => "must stay inside the workspace".to_owned(),
    })
}

fn check_portable(path: &str) -> Result<(), &'static str> {
    if path.trim().is_empty() {
        return Err("must not be empty");
    }
    if path.contains('\0') {
        return Err("must not contain a NUL character");
    }
    if path.contains('\\') {
        return Err("must use `/` between names, not a backslash");
    }
    if path.starts_with('/') {
        return Err("must be relative");
    }
    match path.as_bytes() {
        [drive, b':', ..] if drive.is_ascii_alphabetic() => Err("must not begin with a drive letter"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: X2
    #[test]
    fn a_reference_stays_inside_the_hank_at_every_step() {
        assert_eq!(reference("./prompts//x/../a.md"), Ok(vec!["prompts", "a.md"]));
        assert_eq!(reference("tpl/"), Ok(vec!["tpl"]));
        for bad in [
            "",
            " ",
            ".",
            "./",
            "a/..",
            "..",
            "../a",
            "a/../../hank/a",
            "/etc/passwd",
            "C:/a",
            "a\\b",
            "a\0b",
            ".git/config",
            "a/.GIT",
            "a/.git./x",
            "git~1/x",
            "/dev/zero",
            "//host/share",
        ] {
            assert!(reference(bad).is_err(), "{bad:?}");
        }
    }

    // covers: X3
    #[test]
    fn a_copy_target_stays_beneath_the_workspace_and_away_from_our_folders() {
        assert_eq!(copy_target("./src//lib"), Ok(vec!["src", "lib"]));
        assert_eq!(copy_target("a/rigArchive"), Ok(vec!["a", "rigArchive"]));
        for bad in [
            "",
            ".",
            "./",
            "..",
            "a/../b",
            "/a",
            "a\\b",
            ".git",
            "a/.git/hooks",
            ".hankweave",
            ".HankWeave/x",
            "a/.hankweave",
            "rigArchive",
            "read_only_data_source/x",
            "D:x",
        ] {
            assert!(copy_target(bad).is_err(), "{bad:?}");
        }
    }

    // covers: X4
    #[test]
    fn a_glob_is_relative_and_well_formed() {
        for good in [
            "**/*",
            "src/**/*.rs",
            "!target/**",
            "./a",
            "!./a",
            "a/{b,c}/[d-f]?",
            ".env",
            "a//b",
            "a(1)/*.rs",
        ] {
            assert_eq!(check_glob(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "  ",
            "!",
            "!  ",
            "/a",
            "../a",
            "a/../b",
            "!../a",
            "a[",
            "a{b",
            "a[z-a]",
            "a\\b",
            "@(a|b)",
            "!(a|b)/*.rs",
            &"x".repeat(2000),
        ] {
            assert!(check_glob(bad).is_err(), "{bad:?}");
        }
    }
}
