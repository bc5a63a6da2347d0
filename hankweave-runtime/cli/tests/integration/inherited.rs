//! What the program was started with, and what of it reaches others.

use std::fs;

use serde_json::json;

use crate::support::{assert_checkpoint, codon, project, shell_agent};

// covers: S8, G2, F16
#[test]
fn variables_of_git_and_the_servers_token_reach_neither_agents_nor_rigs_nor_our_own_git() {
    let mut project = project();
    let mut agent = shell_agent(&project);
    let noticing = project.write("noticing.sh", "env > agent-env.txt\nexec sh \"$1\"\n");
    let script = agent["command"][1].take();
    agent["command"] = json!(["sh", noticing, script]);
    project.write_hank(&json!({"hank": [{
        "id": "a", "name": "A", "model": "m", "continuationMode": "fresh", "promptText": "hello", "agent": agent,
        "rigSetup": [{"type": "command", "command": {"run": "env > rig-env.txt"}}],
    }]}));
    let elsewhere = project.home().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for name in [
        "DIR",
        "WORK_TREE",
        "INDEX_FILE",
        "OBJECT_DIRECTORY",
        "COMMON_DIR",
        "CEILING_DIRECTORIES",
    ] {
        project.set(format!("GIT_{name}"), &elsewhere);
    }
    project.set("GIT_NAMESPACE", "elsewhere");
    project.set("HANKWEAVE_TOKEN", "very-secret");
    project.run(["run", "."]).expect_code(0);

    let execution = project.directory();
    for seen in ["rig-env.txt", "agent-env.txt"] {
        let seen = fs::read_to_string(execution.join(seen)).unwrap();
        assert!(seen.contains("PATH="), "{seen}");
        assert!(!seen.contains("GIT_") && !seen.contains("very-secret"), "{seen}");
    }
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    let state = project.state(&execution);
    let record = codon(&state["runs"][0], "a");
    // A project without these variables looks.
    assert_checkpoint(
        &crate::support::project(),
        &execution,
        &record["completionCheckpoint"],
    );
}
