//! Every hint is a whole command: what is printed is pasted into a shell, and does what it says (CLI-4).
//!
//! Names of folders are such as a shell or the command line would take for something else.

use std::fs;
use std::path::Path;
use std::time::Duration;

use hankweave_testing::{Finished, Running, TestProject};
use serde_json::{Value, json};

use crate::support::{project, shell_agent};

const SOON: Duration = Duration::from_secs(60);
const HANK: &str = "-my \"hank\"";
const WORK: &str = "./-it's $HOME's work";
const DATA: &str = "da\tta";
const OUT: &str = "--out";
const PRICES: &str = "it's $dear.json";

/// A shell in a project, in which `hankweave` is the built program.
fn shell() -> TestProject {
    let mut project = TestProject::new("/bin/sh");
    let program = Path::new(env!("CARGO_BIN_EXE_hankweave"));
    let path = std::env::var_os("PATH").unwrap();
    let folders = std::iter::once(program.parent().unwrap().to_owned()).chain(std::env::split_paths(&path));
    project.set("PATH", std::env::join_paths(folders).unwrap());
    project
}

/// What is typed with these arguments.
fn words<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let begin = ["-c", "exec hankweave \"$@\"", "sh"];
    begin.into_iter().chain(arguments.iter().copied()).collect()
}

fn run(project: &TestProject, arguments: &[&str]) -> Finished {
    project.run(words(arguments))
}

fn start(project: &TestProject, arguments: &[&str]) -> Running {
    project.start(words(arguments))
}

fn paste(project: &TestProject, command: &str) -> Finished {
    project.run(["-c", command])
}

/// The commands between backticks.
fn hints(text: &str) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    let commands = quoted.filter(|quoted| quoted.starts_with("hankweave ") || quoted.starts_with("(cd "));
    commands.map(str::to_owned).collect()
}

/// The command after a word of the summary.
#[track_caller]
fn offered(finished: &Finished, word: &str) -> String {
    let line = finished
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix(&format!("  {word} ")));
    line.unwrap_or_else(|| panic!("no `{word}` in {finished}"))
        .trim_start()
        .to_owned()
}

/// The only command of a refusal with this exit code.
#[track_caller]
fn hint(refused: &Finished, code: i32) -> String {
    refused.expect_code(code);
    let hints = hints(&refused.stderr);
    assert_eq!(hints.len(), 1, "{refused}");
    hints.into_iter().next().unwrap()
}

fn commands(project: &TestProject, arguments: &[&str]) -> Vec<String> {
    let status = run(project, arguments);
    serde_json::from_value(status.expect_code(0).json_document()["commands"].clone()).unwrap()
}

fn write_codon(project: &TestProject, more: &Value) {
    let agent = shell_agent(project);
    let mut codon = json!({"id": "a", "name": "A", "agent": agent, "model": "shell", "continuationMode": "fresh",
        "promptText": "wait for go", "checkpointedFiles": ["done.txt"], "outputFiles": [{"copy": ["done.txt"]}]});
    codon
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    // On a busy disk a fingerprint that runs out of time would say nothing.
    let hank = json!({"overrides": {"dataHashTimeLimit": 60_000}, "hank": [codon]});
    project.write(&format!("{HANK}/hank.json"), hank.to_string());
    project.write(&format!("{DATA}/numbers.csv"), "1");
    let price = json!({"models": {"shell": {"input": 3, "output": 15}}});
    project.write(PRICES, price.to_string());
}

/// The run that all of this is about.
const RUN: [&str; 15] = [
    "run",
    "--headless",
    "--prices",
    PRICES,
    "--max-cost",
    "9.5",
    "-e",
    WORK,
    "--data",
    DATA,
    "--output=--out",
    "--max-time",
    "900",
    "--",
    HANK,
];

fn with_flag<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = RUN.to_vec();
    arguments.splice(1..1, flags.iter().copied());
    arguments
}

// covers: CLI-4, RUN-6
#[test]
fn what_a_stopped_run_offers_goes_on_with_everything_it_had() {
    let project = shell();
    write_codon(&project, &json!({}));
    let directory = project.directory();
    let work = directory.join(WORK);
    let mut running = start(&project, &with_flag(&["--json"]));
    running.wait_for_line(|line| line.contains("\"assistant.action\""));

    // Another start is refused, and says how one sees and stops what is in its way.
    let held = run(&project, &RUN);
    held.expect_code(75);
    let [attach, stop] = <[String; 2]>::try_from(hints(&held.stderr)).unwrap();
    assert!(attach.starts_with("hankweave attach -e "), "{attach}");
    paste(&project, &stop).expect_code(0);
    let stopped = running.finish_within(SOON);

    // The address of the page holds no token, and the command next to it prints an address that does.
    let page = stopped
        .stderr
        .lines()
        .find(|line| line.starts_with("page: "))
        .unwrap();
    let token = |name: &str| fs::read_to_string(work.join(".hankweave").join(name)).unwrap();
    for name in ["token", "token-readonly"] {
        assert!(!stopped.stderr.contains(token(name).trim_end()), "{stopped}");
    }
    let ended = paste(&project, &hints(page)[0]);
    let [ended, tells, _] = <[String; 3]>::try_from(hints(&ended.expect_code(65).stderr)).unwrap();
    paste(&project, &tells).expect_code(0);
    assert!(ended.starts_with("hankweave run "), "{ended}");

    project.write(&format!("{WORK}/go"), "");
    let all = commands(&project, &["status", "--json", "-e", WORK]);
    let new = all.iter().find(|command| command.contains("--new")).unwrap();
    for option in ["--max-cost", "--max-time"] {
        assert!(!ended.contains(option) && !new.contains(option), "{ended}\n{new}");
    }
    let finished = paste(&project, &ended);
    finished.expect_code(0);
    // Its agent continues in its session, as `status` offers first.
    let done = fs::read_to_string(directory.join(OUT).join("done.txt")).unwrap();
    assert!(done.ends_with("wait for go\n"), "{done}");
    assert_eq!(
        fs::read_to_string(work.join("read_only_data_source/numbers.csv")).unwrap(),
        "1"
    );
    assert!(
        finished.stdout.contains("of $9.50"),
        "the limit holds: {finished}"
    );

    let again = run(&project, &RUN);
    again.expect_code(0);
    paste(&project, &offered(&again, "look back")).expect_code(0);
    paste(&project, &offered(&again, "start over")).expect_code(0);
    assert_eq!(project.state(&work)["runs"].as_array().unwrap().len(), 3);
    paste(&project, &offered(&again, "checkpoints")).expect_code(0);
    for command in all {
        paste(&project, &command).expect_code(0);
    }
}

// covers: CLI-4
#[test]
fn what_a_failed_run_offers_works_from_anywhere() {
    for settings in [None, Some(json!({"outputDirectory": "--out"}))] {
        let project = shell();
        write_codon(&project, &json!({}));
        let directory = project.directory();
        if let Some(settings) = &settings {
            project.write("hankweave.json", settings.to_string());
        }
        // Nothing is where the prompt says that it waits.
        project.write("agent.sh", "exit 3\n");
        let arguments: &[&str] = match settings {
            None => &RUN,
            Some(_) => &["run", "--headless", "--data", DATA, "-e", WORK, "--", HANK],
        };
        let failed = run(&project, arguments);
        failed.expect_code(1);
        shell_agent(&project);
        project.write(&format!("{WORK}/go"), "");
        let elsewhere = project.home();
        let inspected = project.run([
            "-c",
            "cd \"$1\" && exec hankweave status --json -e \"$2\"",
            "sh",
            elsewhere.to_str().unwrap(),
            directory.join(WORK).to_str().unwrap(),
        ]);
        let commands = inspected.expect_code(0).json_document()["commands"].clone();
        let commands: Vec<String> = serde_json::from_value(commands).unwrap();
        let crash_point = commands
            .iter()
            .find(|command| command.contains("crash-point"))
            .unwrap();
        let pasted = format!("cd \"$1\" && {crash_point}");
        let finished = project.run(["-c", &pasted, "sh", elsewhere.to_str().unwrap()]);
        finished.expect_code(0);
        assert!(directory.join(OUT).join("done.txt").exists(), "{crash_point}");
        // In the folder in which the run was typed, the command is shorter.
        assert!(
            offered(&failed, "continue  ").starts_with("hankweave run "),
            "{failed}"
        );
        paste(&project, &offered(&failed, "continue  ")).expect_code(0);
    }
}

#[test]
fn refusals_offer_what_works() {
    let project = shell();
    write_codon(&project, &json!({"promptText": "one"}));
    let work = project.directory().join(WORK);
    // Nothing has run there: the first hint that knows no hank names no command.
    let nothing = run(&project, &["status", "-e", WORK]);
    nothing.expect_code(65);
    assert!(hints(&nothing.stderr).is_empty(), "{nothing}");

    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = port.local_addr().unwrap().port().to_string();
    let refused = run(&project, &with_flag(&["--port", &taken]));
    paste(&project, &hint(&refused, 74)).expect_code(0);
    assert!(work.join("done.txt").exists());

    for arguments in [
        &["rollback", "--to", "000000000000", "-e", WORK][..],
        &["rollback", "--codon", "nobody", "-e", WORK],
        &["rollback", "--codon", "a", "--at", "rig-setup", "-e", WORK],
        &["checkpoints", "show", "0000", "-e", WORK],
        &["state", "cost", "--since", "nobody", "-e", WORK],
    ] {
        let hint = hint(&run(&project, arguments), 65);
        paste(&project, &hint).expect_code(0);
    }
    for arguments in [["next", "-e", WORK], ["page", "-e", WORK]] {
        let ended = run(&project, &arguments);
        // The third one serves until it is stopped.
        for hint in &hints(&ended.expect_code(65).stderr)[..2] {
            paste(&project, hint).expect_code(0);
        }
    }
    let unknown = run(&project, &["thread", "--run", "nobody", "-e", WORK]);
    paste(&project, &hint(&unknown, 0)).expect_code(0);
    let back = run(&project, &["rollback", "--codon", "a", "-e", WORK]);
    back.expect_code(0);
    for command in hints(&back.stdout) {
        paste(&project, &command).expect_code(0);
    }

    // Other data: either way that is offered works.
    project.write(&format!("{DATA}/numbers.csv"), "2");
    let changed = run(&project, &RUN);
    changed.expect_code(65);
    let both = hints(&changed.stderr);
    assert_eq!(both.len(), 2, "{changed}");
    for command in both.iter().rev() {
        paste(&project, command).expect_code(0);
    }

    fs::write(work.join(".hankweave/state.json"), "{").unwrap();
    fs::write(work.join(".hankweave/state.json.bak"), "{").unwrap();
    for entry in fs::read_dir(work.join(".hankweave/events")).unwrap() {
        fs::write(entry.unwrap().path(), "{\n").unwrap();
    }
    fs::write(work.join(".hankweave/state.log"), "").unwrap();
    let strict = run(&project, &with_flag(&["--strict-state"]));
    paste(&project, &hint(&strict, 65)).expect_code(0);
}

#[test]
fn a_hint_before_anything_ran_works_too() {
    let project = shell();
    let init = hint(&run(&project, &["run", "-e", "x", "--", "-no 'hank'"]), 65);
    paste(&project, &init).expect_code(0);
    let now = paste(&project, "hankweave init 'an other'").stdout.clone();
    let try_it = now
        .lines()
        .find_map(|line| line.strip_prefix("now try: "))
        .unwrap();
    paste(&project, try_it).expect_code(0);
    run(&project, &["run", "--headless", "--", "-no 'hank'"]).expect_code(0);

    // Without its agent a hank is tried in a directory of its own, and nothing is written where the run would have been.
    write_codon(
        &project,
        &json!({"agent": "claude", "model": "claude-sonnet-4-5", "outputFiles": []}),
    );
    let lacking = project.run(
        [
            "-c",
            "HANKWEAVE_CLAUDE_PATH=/nowhere/claude exec hankweave \"$@\"",
            "sh",
        ]
        .into_iter()
        .chain(RUN),
    );
    let dry = hint(&lacking, 1);
    paste(&project, &dry).expect_code(0);
    let directory = project.directory();
    assert!(
        !directory.join(WORK).exists() && !directory.join(OUT).exists(),
        "{dry}"
    );

    write_codon(&project, &json!({"continuationMode": "sideways"}));
    let wrong = run(&project, &RUN);
    let check = hint(&wrong, 65);
    for option in [
        " -e ",
        " --data ",
        " --prices ",
        " --output",
        " --max-cost 9.5",
        " --max-time 900",
    ] {
        assert!(check.contains(option), "{option} is missing: {check}");
    }
    let validate = paste(&project, &check);
    validate.expect_code(1);
    assert!(validate.stdout.contains("continuationMode"), "{validate}");
}

#[test]
fn a_run_that_waits_says_what_starts_its_codons() {
    let project = shell();
    write_codon(&project, &json!({"promptText": "one"}));
    let mut running = start(&project, &with_flag(&["--json", "--no-autostart"]));
    running.wait_for_line(|line| line.contains("\"server.idle\""));
    let typed = format!("-e {}", r"'./-it'\''s $HOME'\''s work'");
    let next = format!("hankweave next {typed}");
    let [command, page] = [next, format!("hankweave page {typed}")];
    paste(&project, &command).expect_code(0);
    running.wait_for_line(|line| line.contains("\"codon.completed\""));
    let refused = run(&project, &["next", "-e", WORK]);
    refused.expect_code(1);
    let address = paste(&project, &page).expect_code(0).stdout.clone();
    let reading =
        fs::read_to_string(project.directory().join(WORK).join(".hankweave/token-readonly")).unwrap();
    assert!(address.ends_with(&format!("/#token={reading}")), "{address}");
    let control = run(&project, &["page", "--control", "--json", "-e", WORK]).json_document();
    assert_eq!(control["access"], "control");
    let full = fs::read_to_string(project.directory().join(WORK).join(".hankweave/token")).unwrap();
    let whole = control["address"].as_str().unwrap();
    assert!(whole.ends_with(full.trim_end()), "{whole}");
    // A client without access to the directory can use the address.
    let mut watching = start(
        &project,
        &["attach", "--url", address.trim_end(), "--json", "--after", "0"],
    );
    watching.wait_for_line(|_| true);
    run(&project, &["stop", "-e", WORK]).expect_code(0);
    watching.finish_within(SOON).expect_code(0);
    let finished = running.finish_within(SOON);
    let said = hints(&finished.stderr);
    assert!(
        said.contains(&command) && said.contains(&page),
        "{said:?}\n{finished}"
    );
}

// covers: CLI-4
#[test]
fn the_variable_for_the_directory_changes_no_hint() {
    let mut project = project();
    let agent = shell_agent(&project);
    project.write_hank(&json!({"hank": [{"id": "a", "name": "A", "agent": agent, "model": "shell", "continuationMode": "fresh",
        "promptText": "one"}]}));
    project.run(["run", "--headless"]).expect_code(0);
    let here = || {
        let status = project.run(["status", "--json", "-e", "."]).json_document();
        let commands: Vec<String> = serde_json::from_value(status["commands"].clone()).unwrap();
        commands
    };
    assert!(here().contains(&"hankweave run --new".to_owned()), "{:?}", here());
    project.set("HANKWEAVE_EXECUTION", "/elsewhere");
    let status = project.run(["status", "--json", "-e", "."]).json_document();
    let commands = status["commands"].to_string();
    assert!(
        commands.contains("hankweave run -e . --new") && commands.contains("hankweave history -e ."),
        "{commands}"
    );
    // A report is read in any folder, but in shells with this variable, too.
    let directory = project.directory().canonicalize().unwrap();
    let directory = directory.display();
    let report = project
        .run(["report", "--json", "-e", "."])
        .expect_code(0)
        .json_document();
    let commands = report["next"].to_string();
    assert!(
        commands.contains(&format!("hankweave run {directory} -e {directory} --new")),
        "{commands}"
    );
}
