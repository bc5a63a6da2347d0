//! The example of a run in a script, and that each example says what it shows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::project;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// Runs the script on a hank of these codons; its code, and what it printed.
fn night(codons: &[Value]) -> (Option<i32>, String) {
    let project = project();
    project.write(
        "fails.json",
        r#"{"turns": [{"text": "I cannot"}], "exitCode": 7}"#,
    );
    project.write_hank(&json!({ "hank": codons }));
    let program = Path::new(env!("CARGO_BIN_EXE_hankweave"))
        .parent()
        .unwrap()
        .to_owned();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let directory = project.directory();
    let ended = Command::new("sh")
        .arg(examples().join("in-a-script/nightly.sh"))
        .arg(&directory)
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(directory.join("night.md").exists(), "the report is left");
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    (ended.status.code(), said)
}

// covers: CLI-5
#[test]
fn the_script_tells_each_end_of_a_run_from_the_others() {
    let codon = |id: &str| json!({"id": id, "name": id, "agent": "scripted", "model": "sonnet", "continuationMode": "fresh", "promptText": "go"});
    let (code, said) = night(&[codon("one")]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("done, see "), "{said}");

    let mut asks = codon("ship");
    asks["approval"] = json!("Ship it?");
    let (code, said) = night(&[codon("one"), asks]);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("ready for a person") && said.contains("hankweave approve ship"),
        "{said}"
    );

    let mut fails = codon("one");
    fails["agent"] = json!({"script": "fails.json"});
    let (code, said) = night(&[fails]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("failed with 1") && said.contains("I cannot"),
        "{said}"
    );
}

#[test]
fn each_example_says_what_it_shows_and_what_to_type() {
    let list = fs::read_to_string(examples().join("README.md")).unwrap();
    for entry in fs::read_dir(examples()).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.is_dir() {
            continue;
        }
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        assert!(list.contains(&format!("({name})")), "{name} is not in the list");
        let text = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        assert!(
            text.contains("```console\n$ "),
            "{name}/README.md says what to type"
        );
    }
}
