//! Records target, commit and date of the build for `hankweave --version --verbose`.
//!
//! The commit is that of a crate package (`.cargo_vcs_info.json`) or of our own repository, and missing elsewhere. A debug build has none either: it would be
//! compiled again after each commit. The date is `SOURCE_DATE_EPOCH` or that of the commit, so equal sources give equal programs.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a build script runs before there is a world"
)]

use std::path::Path;
use std::process::Command;

/// Folder of this crate in the repository.
const FOLDER: &str = "hankweave-runtime/cli/";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    record("TARGET", variable("TARGET"));
    let (mut commit, mut seconds) = (None, None);
    if variable("PROFILE").as_deref() == Some("release") {
        let folder = variable("CARGO_MANIFEST_DIR").unwrap_or_default();
        (commit, seconds) = source(Path::new(&folder));
    }
    record("COMMIT", commit);
    record("SECONDS", variable("SOURCE_DATE_EPOCH").or(seconds));
}

fn record(name: &str, value: Option<String>) {
    if let Some(value) = value {
        println!("cargo::rustc-env=HANKWEAVE_BUILD_{name}={value}");
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns the commit of the source, with `-dirty` after it if files were changed, and its time in seconds, where they are known.
fn source(folder: &Path) -> (Option<String>, Option<String>) {
    if let Ok(package) = std::fs::read_to_string(folder.join(".cargo_vcs_info.json")) {
        return (commit_of(&package), None);
    }
    // Somebody else's repository may hold this folder.
    if git(folder, &["rev-parse", "--show-prefix"]).as_deref() != Some(FOLDER) {
        return (None, None);
    }
    if let Some(log) = git(
        folder,
        &["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"],
    ) {
        println!("cargo::rerun-if-changed={log}");
    }
    let commit = git(
        folder,
        &["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
    );
    (commit, git(folder, &["log", "-1", "--format=%ct"]))
}

/// Finds the commit in the note that cargo puts into a package.
fn commit_of(package: &str) -> Option<String> {
    let (_, rest) = package.split_once("\"sha1\"")?;
    let commit = rest.split('"').nth(1)?;
    Some(commit.to_owned())
}

fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
