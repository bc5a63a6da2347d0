//! The command line as people and scripts see it.

use std::path::{Path, PathBuf};

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::{project, shell_agent};

/// Reads the subcommands out of the groups of the help page.
fn subcommands(help: &str) -> Vec<&str> {
    let listed = help.lines().skip_while(|line| *line != "Start here:");
    let names = listed.take_while(|line| *line != "Global options:");
    names
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

#[test]
fn every_subcommand_has_a_help_page() {
    let project = project();
    let help = project.run(["--help"]);
    let names = subcommands(&help.expect_code(0).stdout);
    for expected in [
        "init",
        "validate",
        "run",
        "status",
        "state",
        "diagram",
        "completions",
        "man",
    ] {
        assert!(names.contains(&expected), "no {expected} in\n{help}");
    }
    for name in names.into_iter().filter(|name| *name != "help") {
        let page = project.run([name, "--help"]);
        assert!(
            page.expect_code(0).stdout.contains("Usage: hankweave"),
            "{name}\n{page}"
        );
        assert_eq!(page.stderr, "", "{name}");
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = concat!("hankweave ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(project().run(["--version"]).expect_code(0).stdout, version);
}

// Every command takes the directory as `run` does, and the old names of commands stay callable.
// covers: CLI-14
#[test]
fn a_directory_is_named_as_the_last_argument_or_with_an_option() {
    let mut project = project();
    let agent = shell_agent(&project);
    project.write_hank(
        &json!({"hank": [{"id": "a", "name": "a", "agent": agent, "model": "sonnet",
        "continuationMode": "fresh", "promptText": "go"}]}),
    );
    project.run(["run", "--headless"]).expect_code(0);
    let place = project.directory();
    let sha = project.state(&place)["runs"][0]["codons"][0]["completionCheckpoint"].clone();
    let sha = sha.as_str().expect("the codon has a checkpoint").to_owned();
    let place = place.to_str().unwrap();
    // The variable names another directory, which what was typed wins over.
    project.set("HANKWEAVE_EXECUTION", "/nowhere");
    for command in [
        &["status"][..],
        &["history"],
        &["history", "--all"],
        &["cost"],
        &["logs"],
        &["logs", "a"],
        &["diff"],
        &["diff", "a"],
        &["checkpoints"],
        &["checkpoints", "list"],
        &["checkpoints", "show", &sha],
        &["checkpoints", "diff", &sha, &sha],
        &["checkpoints", "verify"],
        &["journal"],
        &["op", "log"],
        &["undo", "--dry-run"],
        &["rollback", "--last-success", "--dry-run"],
        &["cleanup", "--dry-run"],
        &["state", "show"],
        &["state", "validate"],
        &["thread"],
        &["state", "history"],
        &["state", "cost"],
    ] {
        let by_position = project.run(command.iter().copied().chain([place]));
        by_position.expect_code(0);
        let by_option = project.run(command.iter().copied().chain(["-e", place]));
        assert_eq!(by_option.expect_code(0).stdout, by_position.stdout, "{command:?}");
    }
    for command in ["stop", "skip", "next", "approve", "page", "attach"] {
        let refused = project.run([command, place]);
        assert!(!refused.stderr.contains("unexpected argument"), "{refused}");
        assert!(!refused.stderr.contains("/nowhere"), "{refused}");
    }
}

// covers: CLI-1
#[test]
fn wrong_usage_ends_with_two_and_touches_nothing() {
    let project = project();
    for arguments in [
        &["--no-such-flag"][..],
        &["no-such-command"],
        &["run", "a", "b", "c"],
        &["diagram", "nothing"],
        &["thread", "-e", ".", "--state", "state.json"],
        &["history", ".", "--state", "state.json"],
        &["status", ".", "-e", "."],
        &["checkpoints", "list", ".", "-e", "."],
        &["checkpoints", ".", "list", "."],
        &["state", "show", "--state", "state.json", "-e", "."],
        &["attach", "-e", ".", "--url", "http://127.0.0.1:1/#token=abc"],
    ] {
        let finished = project.run(arguments);
        finished.expect_code(2);
        assert!(
            finished.stderr.contains("Usage") || finished.stderr.contains("--help"),
            "{finished}"
        );
    }
    assert_eq!(project.files().len(), 3, "the three folders of the project");
}

#[test]
fn completions_are_printed_for_the_usual_shells() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let finished = project().run(["completions", shell]);
        assert!(
            finished.expect_code(0).stdout.contains("HANKWEAVE_COMPLETE"),
            "{shell}"
        );
    }
}

// covers: CLI-28
#[test]
fn bash_completes_commands_codons_runs_agents_and_models() {
    let bash = Path::new("/bin/bash");
    if !bash.exists() {
        return println!("skipped: there is no {}", bash.display());
    }
    let recorded = project();
    let codon = |id: &str| json!({"id": id, "name": id, "continuationMode": "fresh", "promptText": "go", "agent": "scripted"});
    recorded.write_hank(&json!({"hank": [codon("draft"), codon("review")]}));
    recorded.run(["run", "--headless"]).expect_code(0);
    let run = recorded.state(&recorded.directory())["runs"][0]["runId"].clone();
    let recorded = recorded.directory();

    let mut project = TestProject::new(bash);
    let program = Path::new(env!("CARGO_BIN_EXE_hankweave"));
    let path = std::env::var_os("PATH").unwrap();
    let folders = std::iter::once(program.parent().unwrap().to_owned()).chain(std::env::split_paths(&path));
    project.set("PATH", std::env::join_paths(folders).unwrap());
    let complete = |line: &str, at: &Path| {
        let script = r#"source <(hankweave completions bash); cd "$1"; shift
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9
            _clap_complete_hankweave hankweave "${COMP_WORDS[COMP_CWORD]}"; printf '%s\n' "${COMPREPLY[@]}""#;
        let words = line.split(' ').map(str::to_owned);
        let arguments = ["-c", script, "bash"].map(str::to_owned).into_iter();
        let place = at.to_str().unwrap().to_owned();
        let done = project.run(arguments.chain([place]).chain(words));
        let offered = done
            .expect_code(0)
            .stdout
            .lines()
            .map(|line| line.trim_end().to_owned());
        offered.collect::<Vec<_>>()
    };
    for (line, offered) in [
        ("hankweave doc", vec!["doctor"]),
        ("hankweave logs d", vec!["draft"]),
        ("hankweave diff r", vec!["review"]),
        ("hankweave rollback --codon ", vec!["draft", "review"]),
        ("hankweave sentinel test x --codon ", vec!["draft", "review"]),
        ("hankweave history --run ", vec![run.as_str().unwrap()]),
        ("hankweave cost --since ", vec![run.as_str().unwrap()]),
        (
            "hankweave run --agent ",
            vec!["claude", "codex", "gemini", "opencode", "pi", "scripted"],
        ),
        (
            "hankweave validate --model claude-opus-4-8",
            vec!["claude-opus-4-8"],
        ),
    ] {
        assert_eq!(complete(line, &recorded), offered, "{line}");
    }
    // Where nothing has run, and where nothing can be read.
    let empty = tempfile::tempdir().unwrap();
    std::fs::write(empty.path().join("hank.json"), "{").unwrap();
    assert_eq!(complete("hankweave rollback --codon ", empty.path()), [""]);
}

#[test]
fn every_command_has_a_manual_page() {
    let project = project();
    project.run(["man", "pages"]).expect_code(0);
    let page = |name: &str| std::fs::read_to_string(project.directory().join("pages").join(name)).unwrap();
    assert!(
        page("hankweave.1").contains("hankweave\\-validate(1)"),
        "{}",
        page("hankweave.1")
    );
    let run = page("hankweave-run.1");
    for part in [".TH", "\\-\\-max\\-cost", "Exit codes:", "stopped by SIGTERM"] {
        assert!(run.contains(part), "no {part} in {run}");
    }
    assert!(
        !project
            .directory()
            .join("pages/hankweave-scripted-agent.1")
            .exists()
    );
}

// covers: STATE-61
#[test]
fn every_machine_is_drawn_in_every_form() {
    let project = project();
    for (machine, edges) in [("codon", 16), ("run", 3), ("task", 14), ("lock", 6)] {
        let draw = |form| project.run(["diagram", machine, "--as", form]);
        let mermaid = draw("mermaid");
        let arrows = mermaid.expect_code(0).stdout.lines();
        let arrows = arrows.filter(|line| line.contains("-->") && !line.contains("[*]"));
        assert_eq!(arrows.count(), edges, "{mermaid}");
        assert!(draw("dot").expect_code(0).stdout.contains("digraph"));
        assert!(draw("plantuml").expect_code(0).stdout.starts_with("@startuml\n"));
        let graph = draw("json").expect_code(0).json_document();
        assert_eq!(graph["edges"].as_array().map(Vec::len), Some(edges));
    }
}

#[test]
fn the_codon_diagram_shows_all_sixteen_edges_in_every_form() {
    let project = project();
    let mermaid = project.run(["diagram", "codon", "--as", "mermaid"]);
    let text = &mermaid.expect_code(0).stdout;
    let edges = text
        .lines()
        .filter(|line| line.contains("-->") && !line.contains("[*]"))
        .count();
    assert!(
        text.contains("stateDiagram-v2") && edges == 16,
        "{edges} edges\n{text}"
    );
    assert!(
        project
            .run(["diagram", "codon", "--as", "dot"])
            .expect_code(0)
            .stdout
            .contains("digraph")
    );
    assert_eq!(
        project
            .run(["diagram", "codon", "--as", "json"])
            .expect_code(0)
            .json_document()["states"]
            .as_array()
            .map(Vec::len),
        Some(8)
    );
}

// covers: CLI-7
#[test]
fn validate_shows_what_would_be_started_and_starts_nothing() {
    let project = project();
    let rig = json!({"type": "command", "command": {"run": "touch started"}});
    let first = json!({"id": "a", "name": "A", "agent": {"command": ["my-agent", "--json"], "stream": "claude"},
        "continuationMode": "fresh", "promptText": "hello", "checkpointedFiles": ["*.md"],
        "rigSetup": [rig, {"type": "copy", "copy": {"from": "hank.json", "to": "kept.json"}}],
        "env": {"HTTPS_PROXY": "http://x"}});
    let inner = json!({"id": "b", "name": "B", "agent": "scripted", "continuationMode": "fresh", "promptText": "x",
        "onFailure": "ignore"});
    let found = json!({"type": "loop", "id": "l", "name": "L", "terminateOn": {"type": "iterationLimit", "limit": 2},
        "codons": [inner]});
    project.write_hank(&json!({"hank": [first, found]}));
    let before = project.files();
    let shown = project.run(["validate"]);
    let tree: Vec<&str> = shown.expect_code(0).stdout.lines().take(9).collect();
    assert_eq!(
        tree,
        [
            "hank",
            "├─ a  command, prompt 5 B, fresh",
            "│     starts sh -c \"touch started\"",
            "│     copies hank.json to kept.json",
            "│     starts my-agent --json",
            "│     checkpoints *.md",
            "│     sets HTTPS_PROXY, which redirects programs or traffic",
            "└─ l  loop, 2 times",
            "   └─ b  scripted, prompt 1 B, fresh",
        ]
    );
    let document = project.run(["validate", "--json"]).expect_code(0).json_document();
    assert_eq!(
        document["codons"][0]["spawns"],
        json!(["sh -c \"touch started\"", "my-agent --json"])
    );
    assert_eq!(
        document["agents"]["command"],
        json!({"resume": true, "fork": true, "cost": "cumulative", "perMessageUsage": true, "interrupt": false, "systemPrompt": true,
            "modelChoice": true, "permissions": false, "success": true, "result": "prompt",
            "options": {"effort": [], "permissions": [], "toolLists": false, "isolate": false, "mcpServers": false, "args": true}})
    );
    assert_eq!(
        (
            &document["codons"][1]["loopId"],
            &document["codons"][1]["onFailure"]
        ),
        (&json!("l"), &json!("ignore"))
    );
    assert_eq!(project.files(), before);
}

#[test]
fn schemas_are_printed_as_json_schema() {
    let project = project();
    for name in ["hank", "state", "event"] {
        let schema = project.run(["schema", name]).expect_code(0).json_document();
        assert_eq!(
            schema["$schema"], "https://json-schema.org/draft/2020-12/schema",
            "{name}"
        );
    }
}

// covers: CLI-5
#[test]
fn nothing_is_coloured_where_nobody_sees_colours() {
    let mut project = project();
    let plain = project.run(["run", "--headless"]);
    assert!(!plain.stderr.contains('\u{1b}'), "{plain}");
    project.set("NO_COLOR", "1");
    let asked_not_to = project.run(["run", "--headless"]);
    assert!(!asked_not_to.stderr.contains('\u{1b}'), "{asked_not_to}");
    project.set("CLICOLOR_FORCE", "1");
    let never = project.run(["--color", "never", "run", "--headless"]);
    assert!(!never.stderr.contains('\u{1b}'), "{never}");
}

/// Colours that are the background of a light or of a dark terminal, or that bold letters turn into those.
// covers: CLI-5
#[test]
fn no_colour_is_invisible_on_a_light_or_dark_terminal() {
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => sources(&path, found),
                false => found.push(path),
            }
        }
    }
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        for line in text.lines().filter(|line| line.contains("Color::")) {
            let hidden = ["White", "Black", "Gray", "Bright", "Light", "Rgb("];
            let hidden = hidden.iter().any(|name| line.contains(&format!("Color::{name}")));
            let is_bright =
                line.to_lowercase().contains("bold") && (line.contains("Yellow") || line.contains("Cyan"));
            assert!(!hidden && !is_bright, "{}: {line}", file.display());
        }
    }
}

/// A colour has one meaning wherever it is printed.
// covers: CLI-5
#[test]
fn colours_mean_the_same_in_every_command() {
    let project = project();
    let codon = |id: &str, agent: Value| json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": "go"});
    let failing = json!({"command": ["false"], "stream": "claude"});
    project.write_hank(&json!({"hank": [codon("good", shell_agent(&project)), codon("bad", failing)]}));
    project.run(["run", "--headless"]).expect_code(1);
    let coloured = |command: &[&str]| {
        let done = project.run([&["--color", "always"], command].concat());
        format!("{}{}", done.stdout, done.stderr)
    };
    for command in [&["status"][..], &["thread"]] {
        let text = coloured(command);
        assert!(
            text.contains("  good  ") && text.contains("\u{1b}[31mbad "),
            "{text:?}"
        );
    }
    let validated = coloured(&["validate"]);
    assert!(validated.contains("\u{1b}[1mgood\u{1b}[0m"), "{validated:?}");
    assert!(validated.contains("\u{1b}[32mvalid"), "{validated:?}");
    project.write("hankweave.json", r#"{"port": 9}"#);
    let config = coloured(&["config"]);
    assert!(
        config.contains("\u{1b}[1mport ") && config.contains("\u{1b}[2mautostart "),
        "{config:?}"
    );
    project.write("hank.json", r#"{"hank": [{"id": "good"}]}"#);
    let wrong = coloured(&["validate"]);
    assert!(
        wrong.contains("\u{1b}[31merror\u{1b}[0m: ") && wrong.contains("\u{1b}[31m"),
        "{wrong:?}"
    );
    let plain = project.run(["validate"]);
    assert!(!plain.stdout.contains('\u{1b}'), "{plain}");
}

// covers: CLI-5
#[test]
fn run_prints_one_json_event_a_line() {
    let project = project();
    let codon = json!({"id": "only", "name": "only", "agent": shell_agent(&project), "model": "shell",
        "continuationMode": "fresh", "promptText": "hello"});
    project.write_hank(&json!({"hank": [codon]}));
    let finished = project.run(["run", "--headless", "--json"]);
    let events = finished.expect_code(0).json_lines();
    let kinds: Vec<_> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    let position = |kind| {
        kinds
            .iter()
            .position(|seen| *seen == kind)
            .unwrap_or_else(|| panic!("no {kind}: {kinds:?}"))
    };
    assert!(
        position("codon.started") < position("codon.completed"),
        "{kinds:?}"
    );
}

// covers: CLI-7
#[test]
fn validate_finds_mistakes_and_writes_nothing() {
    let project = project();
    let codon = json!({"id": "only", "name": "only", "agent": "scripted", "continuationMode": "fresh",
        "promptText": "hello"});
    project.write_hank(&json!({"hank": [codon]}));
    let before = project.files();
    project.run(["validate"]).expect_code(0);
    project.write_hank(&json!({"hank": [codon, codon]}));
    let _ = project
        .run(["validate", "--format", "json"])
        .expect_code(1)
        .json_document();
    assert_eq!(project.files(), before);
}

/// What a run would miss is shown, and the hank stays valid.
// covers: HANK-4
#[test]
fn validate_shows_what_a_run_would_miss() {
    let mut project = project();
    let codon = json!({"id": "only", "name": "only", "agent": "scripted", "continuationMode": "fresh",
        "promptText": "hello"});
    let requirements =
        json!({"env": ["HW_IS_SET", "HW_IS_NOT", "HW_PREFIXED"], "tools": ["sh", "no-such-tool"]});
    let own = json!({"id": "own", "name": "own", "agent": {"command": ["/nowhere/agent"], "stream": "claude"},
        "model": "sonnet", "continuationMode": "fresh", "promptText": "hello"});
    project.write_hank(&json!({"hank": [codon, own], "requirements": requirements}));
    project.set("HW_IS_SET", "1");
    project.set("HANKWEAVE_HW_PREFIXED", "1");
    let document = project.run(["validate", "--json"]).expect_code(0).json_document();
    let warnings = document["warnings"].as_array().expect("a list");
    let shown: Vec<_> = warnings
        .iter()
        .map(|warning| (&warning["path"], &warning["message"]))
        .collect();
    assert_eq!(
        shown,
        [
            (
                &json!("hank[1].agent"),
                &json!("the program /nowhere/agent is missing here, and this command would fail")
            ),
            (
                &json!("requirements.env[1]"),
                &json!("the environment variable HW_IS_NOT is missing here, and a run would not start")
            ),
            (
                &json!("requirements.tools[1]"),
                &json!("the program no-such-tool is missing here, and a run would not start")
            ),
        ]
    );
}

/// What a run refuses before it starts an agent is refused here as well, all of it at once; what only this machine lacks is a warning.
// covers: CLI-7, HANK-6, RUN-1
#[test]
fn validate_refuses_what_a_run_would_refuse() {
    let mut project = project();
    let codon = |id: &str, more: Value| {
        let mut codon = json!({"id": id, "name": id, "continuationMode": "fresh", "promptText": "hello"});
        codon
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        codon
    };
    project.write_hank(&json!({"hank": [
        codon("a", json!({"model": "sonet"})),
        codon("b", json!({"model": "sonnet", "agent": "nobody"})),
        codon("c", json!({"agent": {"command": ["sh"], "stream": "codex"}})),
    ]}));
    let expected = [
        "hank[0].model (codon \"a\"): no agent here runs the model `sonet`",
        "hank[1].agent (codon \"b\"): no agent is called `nobody`",
        "hank[2].agent.stream (codon \"c\"): no stream is called `codex`",
    ];
    let validated = project.run(["validate"]);
    let refused = project.run(["run", "--headless"]);
    validated.expect_code(1);
    refused.expect_code(65);
    for told in expected {
        assert!(validated.stdout.contains(told), "{told}\n{validated}");
        assert!(refused.stderr.contains(told), "{told}\n{refused}");
    }

    project.set("PATH", "/nowhere");
    project.write_hank(&json!({"hank": [
        codon("a", json!({"model": "claude-sonet-5"})),
        codon("b", json!({"model": "opus[1m]"})),
    ]}));
    let warned = project.run(["validate"]);
    let told = &warned.expect_code(0).stdout;
    assert!(told.contains("did you mean `claude-sonnet-5`?"), "{warned}");
    assert_eq!(
        told.matches("`claude` was not found in PATH").count(),
        1,
        "{warned}"
    );
    let started = project.run(["validate", "--agent", "scripted", "--json"]);
    let document = started.expect_code(0).json_document();
    assert_eq!(document["warnings"], json!([]), "{started}");
    assert_eq!(document["codons"][1]["agent"], "scripted");
    project.run(["validate", "--agent", "scriptd"]).expect_code(1);
}

// covers: CLI-18
#[test]
fn the_hank_of_init_is_valid_without_a_warning() {
    let project = project();
    project.run(["init", "mine"]).expect_code(0);
    let document = project
        .run(["validate", "mine", "--json"])
        .expect_code(0)
        .json_document();
    assert_eq!(
        (&document["errors"], &document["warnings"]),
        (&json!([]), &json!([]))
    );
}

// covers: HANK-15
#[test]
fn a_copied_folder_loses_its_git_files_and_that_is_told() {
    let project = project();
    project.write("template/a.txt", "hello");
    project.write("template/.git/config", "[core]");
    let rig = json!({"type": "copy", "copy": {"from": "template", "to": "copied"}});
    let codon = json!({"id": "only", "name": "only", "agent": shell_agent(&project),
        "continuationMode": "fresh", "promptText": "hello", "rigSetup": [rig]});
    project.write_hank(&json!({"hank": [codon]}));
    let document = project.run(["validate", "--json"]).expect_code(0).json_document();
    assert_eq!(
        document["warnings"][0]["message"],
        "a copy of `template` leaves `.git` out"
    );
    let events = project
        .run(["run", "--headless", "--json"])
        .expect_code(0)
        .json_lines();
    let told = events.iter().filter(|event| event["type"] == "info");
    let told: Vec<_> = told
        .filter_map(|event| event["data"]["message"].as_str())
        .collect();
    assert!(
        told.iter().any(|message| message.contains("`template/.git`")),
        "{told:?}"
    );
    assert!(project.directory().join("copied/a.txt").exists());
    assert!(!project.directory().join("copied/.git").exists());
}

// covers: HANK-13
#[test]
fn validate_warns_of_files_that_a_copy_would_replace() {
    let project = project();
    let copy = |to: &str| json!({"type": "copy", "copy": {"from": "hank.json", "to": to}});
    let codon = json!({"id": "only", "name": "only", "agent": "scripted", "continuationMode": "fresh",
        "promptText": "hello", "rigSetup": [copy("new.json"), copy("mine.json")]});
    project.write_hank(&json!({"hank": [codon]}));
    project.write("mine.json", "{}");
    let document = project.run(["validate", "--json"]).expect_code(0).json_document();
    let warnings = document["warnings"].as_array().expect("a list");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0]["path"], "hank[0].rigSetup[1].copy.to");
}

/// A run says which files its rigs copy over before it does, and only of the codons whose rigs are still to run.
// covers: HANK-13
#[test]
fn a_run_says_which_files_its_rigs_copy_over() {
    let project = project();
    project.write("template.txt", "new\n");
    let rig = json!({"type": "copy", "copy": {"from": "template.txt", "to": "notes.txt"}});
    let codon = json!({"id": "only", "name": "only", "agent": "scripted", "continuationMode": "fresh",
        "promptText": "hello", "rigSetup": [rig], "checkpointedFiles": ["notes.txt"]});
    project.write_hank(&json!({"hank": [codon]}));
    let warns = |arguments: &[&str]| {
        let run = project.run([&["run", "--headless"], arguments].concat());
        format!("{}", run.expect_code(0)).contains("`notes.txt` exists in ")
    };
    assert!(!warns(&[]));
    project.write("notes.txt", "mine\n");
    assert!(
        !warns(&["--dry-run"]) && !warns(&[]),
        "its rig does not run again"
    );
    assert!(warns(&["--new", "--dry-run"]) && warns(&["--new"]));
    assert!(!warns(&["--new", "--dry-run"]), "it is as it was copied");
}

// A variable that is always set contradicts no option.
// covers: CLI-21
#[test]
fn what_stands_in_for_an_execution_directory_wins_over_that_of_the_environment() {
    let mut project = project();
    project.set("HANKWEAVE_EXECUTION", "elsewhere");
    project.write(
        "state.json",
        r#"{"runs": [], "currentRunId": null, "executionPlan": []}"#,
    );
    project.run(["thread", "--state", "state.json"]).expect_code(0);
    let attached = project.run(["attach", "--url", "http://127.0.0.1:1/#token=abc"]);
    attached.expect_code(74);
}

// covers: CLI-29
#[test]
fn a_dry_run_says_what_is_next_and_what_it_may_cost_and_does_nothing() {
    let mut project = project();
    let agent = shell_agent(&project);
    let codon = |id: &str, agent: &Value| json!({"id": id, "name": id, "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh", "promptText": "go"});
    let failing = json!({"command": ["false"], "stream": "claude"});
    project.write_hank(&json!({"overrides": {"budget": {"maxDollars": 5}}, "hank": [codon("a", &agent), codon("b", &failing)]}));
    let before = project.files();
    let dry = |project: &TestProject, more: &[&str], code: i32| {
        let done = project.run([&["run", "--dry-run"], more].concat());
        let text = done.expect_code(code).stdout.clone();
        let last = text
            .lines()
            .rev()
            .skip(1)
            .take(2)
            .map(str::to_owned)
            .collect::<Vec<_>>();
        (last[1].clone(), last[0].clone())
    };
    let said = |next: &str, limits: &str| (next.to_owned(), format!("limits: {limits}"));
    assert_eq!(
        dry(&project, &["--max-time", "900"], 0),
        said("next: a", "$5.0000, and 15m0s")
    );
    assert_eq!(project.files(), before);

    project.run(["run", "--headless"]).expect_code(1);
    let before = project.files();
    assert_eq!(
        dry(&project, &["--max-cost", "2"], 0),
        said(
            "blocked: b failed; a run rolls back to the last success, a, and runs b again; asks first on a terminal",
            "$2.0000, of which $0.2500 is used (in place of $5.0000 in the hank)"
        )
    );
    assert_eq!(dry(&project, &["--new"], 0), said("next: a", "$5.0000"));
    let json = project
        .run(["run", "--dry-run", "--json", "--new"])
        .expect_code(0)
        .json_document();
    assert_eq!(
        (&json["next"], &json["limits"]["maxDollars"]),
        (&json!("next: a"), &json!(5))
    );
    assert_eq!(json["codons"].as_array().unwrap().len(), 2);
    assert_eq!(project.files(), before);

    // It ends as the run would that does not start.
    project.set("HANKWEAVE_CLAUDE_PATH", "/nowhere");
    dry(&project, &["--agent", "claude"], 1);
    project
        .run(["run", "--headless", "--agent", "claude"])
        .expect_code(1);
    // The named agent counts, also where the new model would lead to another one.
    project.set("HANKWEAVE_PI_PATH", "/nowhere");
    let by_model = json!({"id": "a", "name": "a", "model": "zai/glm-5", "continuationMode": "fresh", "promptText": "go"});
    project.write_hank(&json!({"hank": [by_model]}));
    let named = project.run(["run", "--dry-run", "--new", "--agent", "pi", "--model", "sonnet"]);
    assert!(
        named.expect_code(1).stdout.contains("HANKWEAVE_PI_PATH"),
        "{named}"
    );
    project.write("hank.json", r#"{"hank": []}"#);
    let refused = project.run(["run", "--dry-run"]);
    refused.expect_code(65);
}
