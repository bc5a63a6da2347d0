//! What gets out of an execution directory without being asked for: into a repository of the user's, and to other users.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use hankweave_testing::TestProject;
use serde_json::json;

use crate::support::{project, shell_agent};

fn write_hank(project: &TestProject) {
    let agent = shell_agent(project);
    project.write_hank(&json!({"hank": [{"id": "a", "name": "A", "agent": agent, "model": "shell", "continuationMode": "fresh",
        "promptText": "one"}]}));
}

/// Returns the output of git in a repository of the user, without any configuration.
#[track_caller]
fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(folder);
    git.env_remove("GIT_DIR").env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.env("GIT_CONFIG_SYSTEM", "/dev/null");
    let output = git.output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

// covers: X12
#[test]
fn a_repository_of_the_user_takes_nothing_of_ours() {
    let project = project();
    write_hank(&project);
    let directory = project.directory();
    git(&directory, &["init", "-q"]);
    for look in ["validate", "status", "thread"] {
        project.run([look]);
    }
    assert!(!directory.join(".hankweave").exists(), "a look has made it");
    project.run(["run", "--headless"]).expect_code(0);
    git(&directory, &["add", "-A"]);
    let taken = git(&directory, &["ls-files"]);
    assert!(taken.lines().any(|name| name == "done.txt"), "{taken}");
    assert!(!taken.contains(".hankweave"), "{taken}");
    assert_eq!(
        git(&directory, &["status", "--porcelain", "--", ".hankweave"]),
        ""
    );

    // `.gitignore` is a file of ours. No checkpoint holds it, and commands that only read do not restore it, but every start does.
    let sha = project.state(&directory)["runs"][0]["codons"][0]["completionCheckpoint"].clone();
    let tree = ["ls-tree", "-r", "--name-only", sha.as_str().unwrap()];
    let stored = project.checkpoints_git(&directory, &tree).stdout;
    assert!(
        stored.contains("done.txt") && !stored.contains(".hankweave"),
        "{stored}"
    );
    let ignored = directory.join(".hankweave/.gitignore");
    fs::remove_file(&ignored).unwrap();
    project.run(["status"]).expect_code(0);
    assert!(!ignored.exists());
    project.run(["run", "--headless"]).expect_code(0);
    assert!(ignored.exists());
}

// covers: X5
#[test]
fn a_folder_of_another_tool_is_closed_to_others_and_that_is_said_once() {
    let project = project();
    write_hank(&project);
    let state_dir = project.directory().join(".hankweave");
    fs::create_dir(&state_dir).unwrap();
    fs::set_permissions(&state_dir, PermissionsExt::from_mode(0o755)).unwrap();
    let finished = project.run(["run", "--headless"]);
    finished.expect_code(0);
    let said = "was open to other users (mode 755); now it is yours alone (mode 700)";
    assert!(finished.stderr.contains(said), "{finished}");
    let mode = fs::metadata(&state_dir).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
    let again = project.run(["run", "--headless"]);
    assert!(!again.stderr.contains("other users"), "{again}");

    fs::set_permissions(&state_dir, PermissionsExt::from_mode(0o777)).unwrap();
    let refused = project.run(["run", "--headless"]);
    refused.expect_code(74);
    assert!(refused.stderr.contains("chmod 700 "), "{refused}");
}
