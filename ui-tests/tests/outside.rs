//! A crate outside of this workspace has everything of a machine from one dependency and fewer than 30 lines.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

#[test]
fn a_crate_elsewhere_declares_a_machine_and_passes_the_tests_that_come_with_it() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = here.parent().expect("this crate lies in the workspace");
    let source = here.join("outside");
    let elsewhere = tempfile::tempdir().expect("there is room for temporary files");
    for file in ["src/lib.rs", "tests/whole.rs", "nothing/src/lib.rs"] {
        let target = elsewhere.path().join(file);
        fs::create_dir_all(target.parent().expect("the file lies in a folder")).expect("the folder is ours");
        fs::copy(source.join(file), target).expect("the file can be copied");
    }
    let facade = workspace.join("hankweave-macros/machine");
    let manifest = fs::read_to_string(source.join("Cargo.toml.in")).expect("the manifest is there");
    let manifest = manifest.replace("@MACHINE@", facade.to_str().expect("the path is text"));
    fs::write(elsewhere.path().join("Cargo.toml"), manifest).expect("the folder is ours");
    let nothing = "nothing/Cargo.toml";
    fs::copy(
        source.join(format!("{nothing}.in")),
        elsewhere.path().join(nothing),
    )
    .expect("the folder is ours");
    // The versions that are downloaded already.
    fs::copy(workspace.join("Cargo.lock"), elsewhere.path().join("Cargo.lock"))
        .expect("the workspace has a lock");

    let output = Command::new(env::var_os("CARGO").expect("cargo runs the tests"))
        .args(["test", "--offline", "--quiet", "--lib", "--test", "whole"])
        .current_dir(elsewhere.path())
        .env(
            "CARGO_TARGET_DIR",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("outside"),
        )
        .output()
        .expect("cargo can be started");

    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("3 passed") && out.contains("1 passed"), "{out}");
}

#[test]
fn its_declaration_is_shorter_than_thirty_lines() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("outside/src/lib.rs");
    let source = fs::read_to_string(source).expect("the crate is there");
    assert!(source.lines().count() < 30);
}
