//! A hank that other people wrote for the older hankweave. It is their data and not in this repository.

use std::path::{Path, PathBuf};

use hankweave_testing::{ModelServer, Scenario, TestProject, agents};
use serde_json::{Value, json};

use crate::support::{assert_checkpoint, codon, project};

/// Returns the folder of the hank, or the reason why it is skipped.
fn upstream() -> Result<PathBuf, String> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/upstream/pack-hank");
    if place.is_dir() {
        Ok(place)
    } else {
        Err(format!("skipped: {} does not exist", place.display()))
    }
}

/// A project with a copy of the hank as it is.
fn copy_of(upstream: &Path) -> TestProject {
    let project = project();
    for entry in walk(upstream) {
        let relative = entry.strip_prefix(upstream).unwrap();
        project.write(relative.to_str().unwrap(), std::fs::read(&entry).unwrap());
    }
    project
}

/// Written for the older system: each is refused with what to write instead.
#[test]
fn public_sentinels_are_refused_with_what_to_write_instead() {
    let upstream = match upstream() {
        Ok(upstream) => upstream,
        Err(skip) => return println!("{skip}"),
    };
    let project = project();
    let files = walk(&upstream.parent().unwrap().join("sentinels"));
    assert!(!files.is_empty());
    for file in files {
        project.write("sentinel.json", std::fs::read(&file).unwrap());
        project.write_hank(&json!({"hank": [{"id": "a", "name": "A", "agent": "scripted", "continuationMode": "fresh", "promptText": "x",
            "sentinels": [{"sentinelConfig": "sentinel.json"}]}]}));
        let told = project.run(["validate", "--json"]);
        let document = told.expect_code(1).json_document();
        let errors = document["errors"].as_array().unwrap();
        assert!(!errors.is_empty(), "{told}");
        for error in errors {
            let hint = error["hint"].as_str().unwrap_or_default();
            assert!(hint.starts_with("write "), "{}: {error:#}", file.display());
            let command = "`hankweave sentinel convert --write sentinel.json` converts the whole file";
            assert!(hint.ends_with(command), "{error:#}");
        }
    }
}

/// All five: after the conversion each can be used, and the schema that is a program is named as what could not be carried over.
// covers: SENT-24
#[test]
fn public_sentinels_can_be_converted() {
    let upstream = match upstream() {
        Ok(upstream) => upstream,
        Err(skip) => return println!("{skip}"),
    };
    let mut project = project();
    project.set("ANTHROPIC_API_KEY", "any");
    let mut files = walk(&upstream.parent().unwrap().join("sentinels"));
    files.push(upstream.join("sentinels/check.json"));
    assert_eq!(files.len(), 5);
    for file in files {
        let prompt = std::fs::read(upstream.join("prompts/check-user.md")).unwrap();
        project.write("prompts/check-user.md", prompt);
        project.write("sentinels/one.json", std::fs::read(&file).unwrap());
        let converted = project.run(["sentinel", "convert", "--write", "sentinels/one.json"]);
        converted.expect_code(0);
        let is_schema = file.ends_with("check.json");
        assert_eq!(
            converted.stderr.contains("not carried over"),
            is_schema,
            "{converted}"
        );
        project.write_hank(&json!({"hank": [{"id": "a", "name": "A", "agent": "scripted", "continuationMode": "fresh", "promptText": "x",
            "sentinels": [{"sentinelConfig": "sentinels/one.json"}]}]}));
        let told = project.run(["validate", "--json"]).expect_code(0).json_document();
        assert_eq!(
            (&told["errors"], &told["warnings"]),
            (&json!([]), &json!([])),
            "{}",
            file.display()
        );
        let again = project.run(["sentinel", "convert", "sentinels/one.json"]);
        assert!(
            again.expect_code(0).stderr.contains("nothing to convert"),
            "{again}"
        );
    }
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] })
        .collect()
}

#[test]
fn a_public_hank_is_refused_with_the_place_of_each_reason() {
    let upstream = match upstream() {
        Ok(upstream) => upstream,
        Err(skip) => return println!("{skip}"),
    };
    let project = copy_of(&upstream);
    let missing = "hank[0].rigSetup[0].copy.from (codon \"codon-1\", \"First codon\"): `tpl` does not exist";
    let schema = "hank[0].sentinels[0].sentinelConfig (codon \"codon-1\", \"First codon\"): `sentinels/check-schema.ts` does not exist";
    let checked = project.run(["validate"]);
    checked.expect_code(1);
    for reason in [missing, schema] {
        assert!(checked.stdout.contains(reason), "{reason}\n{}", checked.stdout);
    }
    let refused = project.run(["run", "--headless"]);
    refused.expect_code(65);
    assert!(refused.stderr.contains(missing), "{}", refused.stderr);

    project.write("tpl/readme.txt", "from the template\n");
    let refused = project.run(["run", "--headless"]);
    refused.expect_code(65);
    assert!(refused.stderr.contains(schema), "{}", refused.stderr);
    assert!(!project.directory().join(".hankweave").exists());
}

/// The hank is adapted as the documentation says. The template folder, which is not in the data, is added, and so is the parent of the copy's target.
/// The sentinel, whose schema is not in the data either, is removed. The rig does not use the network.
#[test]
fn a_public_hank_runs_with_the_real_claude() {
    let upstream = match upstream() {
        Ok(upstream) => upstream,
        Err(skip) => return println!("{skip}"),
    };
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    let server = ModelServer::start(scenario()).unwrap();
    let mut project = copy_of(&upstream);
    project.write("tpl/readme.txt", "from the template\n");
    project.write("workspace/.keep", "");
    adapt(&project);
    project
        .set("HANKWEAVE_CLAUDE_PATH", claude)
        .set("PACK_FIXTURE_TOKEN", "token")
        .set("ANTHROPIC_BASE_URL", server.url())
        .set("ANTHROPIC_API_KEY", "sk-any")
        .set("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");

    project.run(["run", "--headless"]).expect_code(0);

    let directory = project.directory();
    let copied = std::fs::read_to_string(directory.join("workspace/tpl/readme.txt")).unwrap();
    assert_eq!(copied, "from the template\n");
    assert!(directory.join("deps").is_dir());
    let state = project.state(&directory);
    let run = &state["runs"][0];
    let records = ["codon-1", "codon-2#0", "codon-2#1"].map(|id| codon(run, id));
    assert_eq!(run["status"], "completed");
    for record in records {
        assert_eq!(record["status"], "completed", "{record:#}");
        assert_eq!(record["claudeSessionId"], records[0]["claudeSessionId"]);
        assert_checkpoint(&project, &directory, &record["completionCheckpoint"]);
    }
    assert_prompts(&server);
}

fn adapt(project: &TestProject) {
    let place = project.directory().join("hank.json");
    let mut hank: Value = serde_json::from_slice(&std::fs::read(place).unwrap()).unwrap();
    let first = hank["hank"][0].as_object_mut().unwrap();
    first.remove("sentinels");
    first["rigSetup"][1]["command"]["run"] = json!("git init -q deps && echo $HOME");
    project.write_hank(&hank);
}

fn scenario() -> Scenario {
    let says = |text: &str| json!([{"text": text, "usage": {"input": 100, "output": 5}}]);
    Scenario::try_from(json!({"lanes": [
        {"name": "two", "when": {"user": "codon two ran"}, "turns": says("codon two ran")},
        {"name": "one", "when": {"user": "codon one ran"}, "turns": says("codon one ran")}]}))
    .unwrap()
}

/// The system prompts of hank and codon reach the model, and both iterations continue the session of the first codon.
#[track_caller]
fn assert_prompts(server: &ModelServer) {
    let asked = server.requests();
    let lanes: Vec<_> = asked.iter().filter_map(|asked| asked.lane()).collect();
    assert_eq!(lanes, ["one", "two", "two"]);
    let bodies: Vec<String> = asked
        .iter()
        .filter_map(|asked| asked.body())
        .map(Value::to_string)
        .collect();
    for body in &bodies {
        assert!(body.contains("You are the pack-fixture hank."), "{body}");
    }
    assert!(!bodies[0].contains("Append: prefer terse answers."));
    assert!(bodies[1].contains("Append: prefer terse answers."));
}
