//! `hankweave --version`, and the build script that records where a build comes from.

use std::fs;
use std::path::Path;
use std::process::Command;

use hankweave_core::{document, wire};
use serde_json::json;

use crate::support::project;

// covers: CLI-70
#[test]
fn a_verbose_version_names_the_build_and_the_formats() {
    let project = project();
    let short = project.run(["--version"]);
    assert_eq!(
        short.expect_code(0).stdout,
        concat!("hankweave ", env!("CARGO_PKG_VERSION"), "\n")
    );
    let long = project.run(["--version", "--verbose"]);
    let lines: Vec<&str> = long.expect_code(0).stdout.lines().collect();
    let names = [
        "hankweave ",
        "commit: ",
        "date: ",
        "target: ",
        "features: ",
        "formats: ",
    ];
    assert_eq!(lines.len(), names.len(), "{long}");
    for (line, name) in lines.iter().zip(names) {
        assert!(line.starts_with(name) && line.len() > name.len(), "{line}");
    }
    assert_eq!(project.run(["-vV"]).stdout, long.stdout);

    let document = project
        .run(["--version", "--verbose", "--json"])
        .expect_code(0)
        .json_document();
    let formats = &document["formats"];
    assert_eq!(formats["state"], document::FORMAT);
    assert_eq!(formats["journal"], wire::JOURNAL_FORMAT);
    assert_eq!(formats["protocol"], wire::FORMAT);
    let features = document["features"].as_array().unwrap();
    for (name, is_on) in [
        ("mcp", cfg!(feature = "mcp")),
        ("otel", cfg!(feature = "otel")),
        ("restate", cfg!(feature = "restate")),
    ] {
        assert_eq!(features.contains(&json!(name)), is_on, "{name}");
    }
}

/// The values that the build script records for a release build in `folder`.
fn recorded(script: &Path, folder: &Path, variables: &[(&str, &str)]) -> Vec<String> {
    let mut command = Command::new(script);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("CARGO_MANIFEST_DIR", folder)
        .env("PROFILE", "release")
        .envs(variables.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let values = text
        .lines()
        .filter_map(|line| line.strip_prefix("cargo::rustc-env=HANKWEAVE_BUILD_"));
    values.map(str::to_owned).collect()
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_COMMITTER_DATE", "1795651200 +0000")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

// covers: CLI-70
#[test]
fn the_build_script_knows_our_commit_and_that_of_a_package_and_no_other() {
    let scratch = tempfile::tempdir().unwrap();
    let script = scratch.path().join("build-script");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
    let compiled = Command::new("rustc")
        .args(["--edition", "2024", "-o"])
        .args([&script, &source])
        .status();
    assert!(compiled.unwrap().success());

    // No repository at all.
    let package = scratch.path().join("package");
    fs::create_dir(&package).unwrap();
    assert!(recorded(&script, &package, &[]).is_empty());
    let dated = recorded(&script, &package, &[("SOURCE_DATE_EPOCH", "7"), ("TARGET", "t")]);
    assert_eq!(dated, ["TARGET=t", "SECONDS=7"]);

    // A package of cargo.
    let note = r#"{"git": {"sha1": "0123456789"}, "path_in_vcs": "x"}"#;
    fs::write(package.join(".cargo_vcs_info.json"), note).unwrap();
    assert_eq!(recorded(&script, &package, &[]), ["COMMIT=0123456789"]);

    // A repository of another project that holds the folder, and our own.
    let vendor = scratch.path().join("theirs/vendor/hankweave-cli");
    let ours = scratch.path().join("ours/hankweave-runtime/cli");
    for (root, folder) in [("theirs", &vendor), ("ours", &ours)] {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("Cargo.toml"), "").unwrap();
        let root = scratch.path().join(root);
        git(&root, &["init", "-q"]);
        git(&root, &["add", "."]);
        git(&root, &["commit", "-q", "-m", "one"]);
    }
    assert!(recorded(&script, &vendor, &[]).is_empty());
    let commit = git(&ours, &["rev-parse", "HEAD"]);
    let ours_is = |commit: String| vec![format!("COMMIT={commit}"), "SECONDS=1795651200".to_owned()];
    assert_eq!(recorded(&script, &ours, &[]), ours_is(commit.clone()));
    assert!(recorded(&script, &ours, &[("PROFILE", "debug")]).is_empty());
    fs::write(ours.join("Cargo.toml"), "changed").unwrap();
    assert_eq!(recorded(&script, &ours, &[]), ours_is(format!("{commit}-dirty")));
}
