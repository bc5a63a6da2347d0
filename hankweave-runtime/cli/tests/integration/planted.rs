//! Folders that came from elsewhere: what they say decides about their runs, and not to whom this machine talks.

use std::path::Path;
use std::process::Command;

use hankweave_testing::TestProject;
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use crate::machines::{Between, free, run_half, write_hank};
use crate::support::project;

/// The stranger who planted the folder waits for its user after the registry with tasks, or for a connection.
// covers: CLI-40, CLI-62
#[test]
fn a_folder_says_not_where_tasks_are() {
    let mut here = project();
    let planted = here.directory().join("planted.db");
    here.write(
        "hankweave.json",
        json!({"registry": format!("sqlite:{}", planted.display())}).to_string(),
    );
    for arguments in [
        &["worker", "--once"][..],
        &["task", "list"],
        &["task", "show", "x"],
        &["lock", "list"],
        &["mcp"],
    ] {
        let refused = here.run(arguments);
        refused.expect_code(2);
        let hint = refused
            .stderr
            .lines()
            .find(|line| line.contains("hint:"))
            .unwrap();
        assert!(
            hint.contains("--registry sqlite:") && hint.contains("HANKWEAVE_REGISTRY"),
            "{refused}"
        );
        assert!(refused.stderr.contains("hankweave.json"), "{refused}");
    }
    assert!(!planted.exists(), "nobody has looked there");
    // A registry that the user names counts, also the one in this folder.
    let own = format!("sqlite:{}", here.home().join("own.db").display());
    here.run(["task", "list", "--registry", &own]).expect_code(0);
    here.set("HANKWEAVE_REGISTRY", &own);
    here.run(["task", "list"]).expect_code(0);
    here.run(["worker", "--once"]).expect_code(0);
    assert!(!planted.exists());
    let planted_url = format!("sqlite:{}", planted.display());
    here.run(["task", "list", "--registry", &planted_url])
        .expect_code(0);
    assert!(planted.exists());
    // A home that cannot be entered has no settings.
    here.set("XDG_CONFIG_HOME", "/dev/null/x");
    here.run(["config"]).expect_code(0);
}

/// What is the user's own counts in every folder.
// covers: CLI-40, CLI-61, CLI-62
#[test]
fn the_settings_of_the_user_say_where_tasks_and_runs_are() {
    let (between, here) = (Between::new(), project());
    let own = here.home().join("own.db");
    let settings = here.home().join(".config/hankweave/hankweave.json");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let text =
        json!({"registry": format!("sqlite:{}", own.display()), "remote": between.url(), "model": "of-user"});
    std::fs::write(&settings, text.to_string()).unwrap();
    here.write(
        "hankweave.json",
        json!({"registry": "postgres://planted/x", "remote": "ssh://planted/x"}).to_string(),
    );
    here.run(["task", "list"]).expect_code(0);
    assert!(own.exists());
    write_hank(&here);
    run_half(&here);
    here.run(["push"]).expect_code(0);
    assert_eq!(between.references("/record").len(), 1);

    let shown = here.run(["config", "--json"]).expect_code(0).json_document();
    let of = |name: &str| shown["settings"][name].clone();
    assert_eq!(
        (&of("remote")["value"], &of("remote")["source"]),
        (&json!(between.url()), &json!("user"))
    );
    assert_eq!(
        (&of("model")["value"], &of("model")["source"]),
        (&json!("of-user"), &json!("user"))
    );
    // A folder says everything else before the user does.
    here.write("hankweave.json", json!({"model": "of-folder"}).to_string());
    let shown = here.run(["config", "--json"]).expect_code(0).json_document();
    assert_eq!(shown["settings"]["model"]["value"], "of-folder");
    std::fs::write(&settings, "{\"registri\": 1}").unwrap();
    let refused = here.run(["task", "list"]);
    refused.expect_code(65);
    assert!(
        refused.stderr.contains(".config/hankweave/hankweave.json:1:"),
        "{refused}"
    );
}

// covers: CLI-61, CLI-62
#[test]
fn a_folder_says_not_where_runs_go() {
    let (planted, between, here) = (Between::new(), Between::new(), project());
    here.write("hankweave.json", json!({"remote": planted.url()}).to_string());
    write_hank(&here);
    run_half(&here);
    free(&here.directory());
    for (arguments, hint) in [
        (&["push"][..], "hankweave push --remote "),
        (&["pull"], "hankweave push --remote "),
        (&["clone"], "hankweave clone "),
        (&["worker", "--once"], "hankweave worker --remote "),
    ] {
        let refused = here.run(arguments);
        refused.expect_code(2);
        assert!(refused.stderr.contains(hint), "{arguments:?}: {refused}");
    }
    assert_eq!(planted.references("/record"), Vec::<String>::new());
    here.run(["push", "--remote", &between.url()]).expect_code(0);
    // It knows its remote now.
    here.run(["push"]).expect_code(0);
    here.run(["pull"]).expect_code(0);
    assert_eq!(planted.references("/record"), Vec::<String>::new());
    assert_eq!(between.references("/record").len(), 1);
    let shown: Value = here.run(["config", "--json"]).expect_code(0).json_document();
    assert_eq!(shown["settings"]["remote"]["value"], Value::Null);
    assert!(shown["warnings"].to_string().contains("remote"), "{shown}");
}

/// A folder from a stranger, with the files that git reads in it.
// covers: CLI-62, G2
#[test]
fn a_folder_says_not_what_git_starts_and_where_it_goes() {
    let (planted, between, here) = (Between::new(), Between::new(), project());
    write_hank(&here);
    run_half(&here);
    free(&here.directory());
    let evil = here.directory().join("EVIL");
    let config = here.directory().join(".hankweave/checkpoints/config");
    let own = std::fs::read_to_string(&config).unwrap();
    let touch = format!("touch {}", evil.display());
    for settings in [
        format!("[core]\n\tsshCommand = {touch}\n\tgitProxy = {touch}\n"),
        format!("[url \"{}\"]\n\tinsteadOf = {}\n", planted.url(), between.url()),
        format!("[credential]\n\thelper = !{touch}\n"),
    ] {
        for url in ["ssh://127.0.0.1:1/x", "git://127.0.0.1:1/x", &between.url()] {
            std::fs::write(&config, format!("{own}{settings}")).unwrap();
            let finished = here.run(["push", "--remote", url]);
            assert!(!evil.exists(), "{url}, {settings}: {finished}");
        }
    }
    assert_eq!(planted.references("/record"), Vec::<String>::new());
    std::fs::write(&config, own).unwrap();
    here.run(["push", "--remote", &between.url()]).expect_code(0);
    let tracking = here.directory().join(".hankweave/remote.json");
    let known = std::fs::read_to_string(&tracking).unwrap();
    let command = format!("ext::touch {}", evil.display());
    std::fs::write(&tracking, known.replace(&between.url(), &command)).unwrap();
    for command in ["push", "pull"] {
        let refused = here.run([command]);
        assert_ne!(refused.code, Some(0), "{refused}");
        assert!(!evil.exists(), "{refused}");
    }
}

/// A project in which a folder of a stranger was unpacked.
fn unpacked(stranger: &TestProject) -> TestProject {
    let here = project();
    let copied = Command::new("cp")
        .arg("-a")
        .arg(stranger.directory().join("."))
        .arg(here.directory())
        .status();
    assert!(copied.unwrap().success());
    here
}

fn half_done() -> TestProject {
    let project = project();
    write_hank(&project);
    run_half(&project);
    free(&project.directory());
    project
}

// covers: CLI-62
#[test]
fn a_record_says_not_where_its_run_goes() {
    let (planted, stranger) = (Between::new(), half_done());
    stranger.run(["push", "--remote", &planted.url()]).expect_code(0);
    let records = planted.git(&["for-each-ref"]);
    let here = unpacked(&stranger);
    here.run(["run", "--headless"]).expect_code(0);
    for (command, hint) in [
        ("push", "hankweave push --remote "),
        ("pull", "HANKWEAVE_REMOTE="),
    ] {
        let refused = here.run([command]);
        refused.expect_code(2);
        assert!(
            refused.stderr.contains(&planted.url()) && refused.stderr.contains(hint),
            "{refused}"
        );
    }
    assert_eq!(planted.git(&["for-each-ref"]), records);
    // It goes where the user says, and from then on as well.
    let own = Between::new();
    here.run(["push", "--remote", &own.url()]).expect_code(0);
    here.run(["push"]).expect_code(0);
    here.run(["pull"]).expect_code(0);
    assert_eq!(own.references("/record").len(), 1);
    assert_eq!(planted.git(&["for-each-ref"]), records);
    // The remote of a record is used if the user names that remote as well.
    let mut other = unpacked(&stranger);
    other.set("HANKWEAVE_REMOTE", own.url());
    other.run(["pull"]).expect_code(2);
    other.set("HANKWEAVE_REMOTE", planted.url());
    other.run(["pull"]).expect_code(0);
    other.set("HANKWEAVE_REMOTE", own.url());
    other.run(["pull"]).expect_code(0);
}

/// The lock file of a run that seems to be live, on a machine of the stranger.
// covers: CLI-62
#[test]
fn a_folder_says_not_whom_clients_talk_to() {
    let mut here = unpacked(&half_done());
    here.set("HANKWEAVE_TOKEN", "secret-of-the-user");
    // Init lives as long as the machine.
    let lock = json!({"pid": 1, "lockId": "x", "address": "192.0.2.1", "port": 9,
        "startTime": "2026-01-01T00:00:00.000Z", "lastHeartbeat": "2026-01-01T00:00:00.000Z"});
    here.write(".hankweave/server.lock", lock.to_string());
    for command in ["attach", "page", "stop"] {
        let refused = here.run([command]);
        refused.expect_code(65);
        assert!(
            refused.stderr.contains("this machine has no such address"),
            "{command}: {refused}"
        );
    }
    here.run(["status"]).expect_code(0);
}

/// Nothing that git or we read in a record leads anywhere else or blocks.
// covers: CLI-62, RUN-6, RUN-28
#[test]
fn a_record_leads_nowhere_else() {
    let here = half_done();
    let own = Between::new();
    let outside = here.home().join("outside");
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::write(outside.join("hank.json"), "{\"secret\": 1}").unwrap();
    let fifo = here.home().join("fifo");
    mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
    let meta = here.directory().join(".hankweave/execution-meta.json");
    for path in [
        &fifo,
        Path::new("/dev/zero"),
        &outside.join("hank.json"),
        &outside,
    ] {
        std::fs::write(&meta, json!({"hankPath": path}).to_string()).unwrap();
        here.run(["status"]).expect_code(0);
        here.run(["thread"]).expect_code(0);
        here.run(["rollback", "--codon", "one", "--dry-run"])
            .expect_code(0);
        here.run(["push", "--remote", &own.url()]).expect_code(0);
        let record = &own.references("/record")[0];
        let names = own.git(&["ls-tree", "-r", "--name-only", record]);
        assert!(!names.contains("hank/"), "{names}");
    }
    // A folder in whose place git would read another one.
    let checkpoints = here.directory().join(".hankweave/checkpoints");
    let evil = here.directory().join("evil");
    let touched = here.home().join("EVIL");
    std::fs::create_dir_all(evil.join("objects")).unwrap();
    std::fs::create_dir_all(evil.join("refs")).unwrap();
    std::fs::write(evil.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let touch = format!("touch {}", touched.display());
    std::fs::write(
        evil.join("config"),
        format!("[core]\n\tbare = true\n\tsshCommand = {touch}\n"),
    )
    .unwrap();
    std::fs::write(checkpoints.join("commondir"), "../../evil\n").unwrap();
    let refused = here.run(["push", "--remote", "ssh://127.0.0.1:1/x"]);
    assert_ne!(refused.code, Some(0), "{refused}");
    assert!(!touched.exists(), "{refused}");
}
