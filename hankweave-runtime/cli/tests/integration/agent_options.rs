//! Agents as the hank wants them: what they may do is kept by the real programs, also where their settings allow more, and what cannot hold is
//! refused before anything is written.

use hankweave_testing::{ModelServer, Scenario, TestProject, agents};
use serde_json::{Value, json};

use crate::real_acp::{native, natives};
use crate::real_agents::RealAgent;
use crate::real_money::DEADLINE;
use crate::support::{codon, project};

/// A codon of a program that has to be there to run, but not to be checked.
fn only(agent: &str, model: &str, more: &Value) -> Value {
    let mut codon = json!({"id": "only", "name": "Only", "agent": agent, "model": model, "continuationMode": "fresh", "promptText": "WORK"});
    for (key, value) in more.as_object().unwrap() {
        codon[key] = value.clone();
    }
    codon
}

// covers: AGENT-60, HANK-6
#[test]
fn what_an_agent_cannot_do_is_refused_with_its_place_and_what_to_write() {
    let project = project();
    let server = json!({"docs": {"command": "docs-server"}});
    for (agent, model, asked, words) in [
        (
            "codex",
            "gpt-5.2",
            json!({"isolate": true}),
            "hank[0].isolate (codon \"only\"): agent `codex` cannot be kept from reading",
        ),
        (
            "codex",
            "gpt-5.2",
            json!({"effort": "max"}),
            "write one of minimal, low, medium, high, xhigh",
        ),
        (
            "codex",
            "gpt-5.2",
            json!({"permissions": {"deny": ["X"]}}),
            "or write \"all\" alone: X would not be denied then",
        ),
        (
            "codex",
            "gpt-5.2",
            json!({"args": ["-c", "sandbox_mode=\"danger-full-access\""]}),
            "hank[0].args[1]",
        ),
        (
            "pi",
            "x/y",
            json!({"permissions": "edit"}),
            "write \"read-only\" or \"all\"",
        ),
        (
            "pi",
            "x/y",
            json!({"mcpServers": server}),
            "takes no MCP servers of a hank",
        ),
        (
            "gemini",
            "gemini-2.5-pro",
            json!({"permissions": "read-only"}),
            "cannot be kept to \"read-only\"",
        ),
        (
            "opencode",
            "opencode/x",
            json!({"effort": "high"}),
            "has no effort that a hank can set",
        ),
        (
            "claude",
            "haiku",
            json!({"effort": "extreme"}),
            "write one of low, medium, high, xhigh, max",
        ),
        (
            "claude",
            "haiku",
            json!({"args": ["--permission-mode=plan"]}),
            "hank[0].args[0] (codon \"only\"): `--permission-mode` of agent `claude` is hankweave's own",
        ),
        (
            "scripted",
            "scripted",
            json!({"permissions": "read-only"}),
            "leave \"permissions\" out: a script does only what it says. A real agent, such as \"agent\": \"claude\", keeps it;",
        ),
        (
            "claude",
            "haiku",
            json!({"permissions": "readonly"}),
            "must be one of read-only, edit, all",
        ),
        (
            "claude",
            "haiku",
            json!({"permissions": {"allow": ["Bash"]}}),
            "allows tools beyond everything",
        ),
        (
            "claude",
            "haiku",
            json!({"mcpServers": {"a b": {"command": "x"}}}),
            "is no name for an MCP server",
        ),
        ("claude", "haiku", json!({"sandbox": "x"}), "write `permissions`"),
    ] {
        project.write_hank(&json!({"hank": [only(agent, model, &asked)]}));
        for command in [&["validate"][..], &["run", "--headless"]] {
            let finished = project.run(command);
            let said = format!("{}{}", finished.stdout, finished.stderr);
            assert_ne!(finished.code, Some(0), "{asked}: {said}");
            assert!(said.contains(words), "{words}: {said}");
        }
        assert!(
            !project.directory().join(".hankweave").exists(),
            "nothing is written"
        );
    }
    let acp = json!({"agent": {"acp": ["sh"]}, "permissions": "read-only", "check": {"run": "true"}});
    project.write_hank(&json!({"hank": [only("claude", "x", &acp)]}));
    let finished = project.run(["validate"]);
    let said = format!("{}{}", finished.stdout, finished.stderr);
    assert!(said.contains("which answers an agent that asks"), "{said}");
}

// covers: HANK-1, AGENT-22, AGENT-60
#[test]
fn every_mistake_of_a_hank_is_told_at_once_also_what_its_agents_cannot_do() {
    let project = project();
    let codon = |id: &str, model: &str, more: &Value| {
        let mut codon =
            json!({"id": id, "name": id, "model": model, "continuationMode": "fresh", "promptText": "go"});
        codon
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        codon
    };
    let gemini =
        json!([{"agent": "gemini", "model": "gemini-2.5-pro"}, 5, {"agent": "nobody", "model": "x"}]);
    let hank = |fork: Value| {
        json!({"overrides": {"effort": "extreme"}, "hank": [
            codon("plan", "opus", &json!({"permissions": "write"})),
            codon("b", "gpt-5.2", &json!({"continuationMode": {"fork": fork}, "permissions": {"mode": "read-only", "deny": ["x"]}, "fallback": gemini})),
            {"type": "loop", "id": "rounds", "name": "Rounds", "terminateOn": {"type": "never"},
                "codons": [codon("c", "gemini-2.5-pro", &json!({"permissions": "edit", "promptFile": "none.md", "promptText": null}))]},
            codon("d", "x", &json!({"agent": {"acp": 5}, "permissions": "edit"})),
            5,
            codon("e", "gemini-2.5-pro", &json!({"permissions": "edit"})),
        ]})
    };
    for (fork, told) in [
        (json!("nobody"), "hank[1].continuationMode.fork"),
        (
            json!(5),
            "hank[1].continuationMode.fork (codon \"b\"): must be a string",
        ),
    ] {
        let mut hank = hank(fork);
        hank["hank"][2]["codons"][0]
            .as_object_mut()
            .unwrap()
            .remove("promptText");
        project.write_hank(&hank);
        for command in [
            &["validate"][..],
            &["run", "--headless"],
            &["run", "--headless", "--rehearse"],
        ] {
            let finished = project.run(command);
            let said = format!("{}{}", finished.stdout, finished.stderr);
            assert_ne!(finished.code, Some(0), "{said}");
            let told = [
                "overrides.effort: agent `claude` knows no effort",
                "hank[0].permissions (codon \"plan\"): must be one of",
                "hank[1].permissions (codon \"b\"): agent `codex` takes no lists of tools",
                "hank[1].fallback[0] (codon \"b\"): agent `gemini` cannot be kept to",
                "`hank[1].permissions` counts for every agent of the list",
                "hank[1].fallback[1] (codon \"b\"): must be a model",
                "hank[1].fallback[2] (codon \"b\"): no agent is called `nobody`",
                "hank[2].terminateOn",
                "hank[2].codons[0].permissions (codon \"c\"): agent `gemini` cannot be kept to",
                "hank[2].codons[0].promptFile (codon \"c\"): `none.md` does not exist",
                "hank[3].agent.acp (codon \"d\"): must be a list",
                "hank[4]: must be an object",
                "hank[5].permissions (codon \"e\"): agent `gemini` cannot be kept to",
            ]
            .into_iter()
            .chain(told.contains("must").then_some(told));
            for words in told {
                assert!(said.contains(words), "{words}: {said}");
            }
            // Of an agent that cannot be read nothing is said but that.
            assert!(
                !said.contains("hank[3].permissions") && !said.contains("hank[3].model"),
                "{said}"
            );
            assert!(!said.contains("no-readable"), "{said}");
        }
    }
    // Mistakes that depend on other codons are reported as well, once every codon can be read.
    let fork = json!({"continuationMode": {"fork": "later"}, "permissions": "read-only"});
    project.write_hank(
        &json!({"hank": [codon("first", "gemini-2.5-pro", &fork), codon("later", "opus", &json!({}))]}),
    );
    let said = project.run(["validate"]).expect_code(1).stdout.clone();
    for words in [
        "hank[0].continuationMode.fork (codon \"first\"): cannot fork `later`",
        "hank[0].permissions (codon \"first\"): agent `gemini` cannot be kept to",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

// covers: AGENT-60
#[test]
fn a_default_of_the_hank_is_refused_where_it_is_written_and_a_codon_wins_over_it() {
    let project = project();
    let codex = only("codex", "gpt-5.2", &json!({}));
    project.write_hank(&json!({"overrides": {"isolate": true}, "hank": [codex]}));
    let finished = project.run(["validate"]);
    let said = format!("{}{}", finished.stdout, finished.stderr);
    assert!(said.contains("overrides.isolate: agent `codex`"), "{said}");
    let codex = only(
        "codex",
        "gpt-5.2",
        &json!({"isolate": false, "permissions": "edit", "effort": "low"}),
    );
    project.write_hank(&json!({"overrides": {"isolate": true, "permissions": "read-only"}, "hank": [codex]}));
    let said = project.run(["validate"]).expect_code(0).stdout.clone();
    assert!(said.contains("may do edit (permissions)"), "{said}");
    assert!(said.contains("works with effort low (effort)"), "{said}");
}

/// A program that prints its arguments into a file, and then what claude prints.
const ARGUMENTS: &str = r#"#!/bin/sh
for word in "$@"; do echo "$word"; done > arguments.txt
cat > /dev/null
echo '{"type":"system","subtype":"init","session_id":"s-1","model":"m","tools":[]}'
echo '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"Done.","total_cost_usd":0.01,"usage":{"input_tokens":10,"output_tokens":5}}'
"#;

fn executable(project: &TestProject, name: &str, text: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let file = project.home().join(name);
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file
}

// covers: AGENT-60
#[test]
fn an_agent_older_than_what_was_measured_is_refused_where_a_hank_asks_for_options() {
    let mut project = project();
    let codex = executable(&project, "codex", ARGUMENTS);
    let package = json!({"name": "@openai/codex", "version": "0.100.0"});
    std::fs::write(project.home().join("package.json"), package.to_string()).unwrap();
    project.set("HANKWEAVE_CODEX_PATH", codex);
    let validate = |options: &Value| {
        project.write_hank(&json!({"hank": [only("codex", "gpt-5.2", options)]}));
        project.run(["validate"])
    };
    validate(&json!({})).expect_code(0);
    let refused = validate(&json!({"effort": "low"}));
    let said = &refused.expect_code(1).stdout;
    assert!(
        said.contains("agent `codex` is 0.100.0 here") && said.contains("hank[0].agent"),
        "{said}"
    );
}

// covers: AGENT-60, S8
#[test]
fn a_program_of_ones_own_gets_arguments_and_the_user_sees_what_a_hank_starts() {
    let project = project();
    let program = executable(&project, "mine", ARGUMENTS);
    let agent = json!({"command": [program, "--first"], "stream": "claude"});
    let mine = json!({"agent": agent, "args": ["--second", "third word"], "model": "haiku"});
    project.write_hank(&json!({"hank": [only("x", "haiku", &mine)]}));
    let finished = project.run(["run", "--headless"]);
    finished.expect_code(0);
    let given = std::fs::read_to_string(project.directory().join("arguments.txt")).unwrap();
    assert_eq!(given, "--first\n--second\nthird word\n");
    let said = format!("{}{}", finished.stdout, finished.stderr);
    assert!(
        said.contains("codon only gives its agent arguments: --second third word"),
        "{said}"
    );

    let claude = executable(&project, "claude", ARGUMENTS);
    let server =
        json!({"docs": {"command": "docs-server", "args": ["--stdio"], "env": {"TOKEN": "secret-value"}}});
    let claudes = json!({"mcpServers": server, "permissions": "read-only", "effort": "low"});
    let mut project = project;
    project.set("HANKWEAVE_CLAUDE_PATH", &claude);
    project.write_hank(&json!({"hank": [only("claude", "haiku", &claudes)]}));
    let finished = project.run(["run", "--headless", "--new"]);
    finished.expect_code(0);
    let said = format!("{}{}", finished.stdout, finished.stderr);
    assert!(
        said.contains("codon only starts MCP server docs: docs-server --stdio"),
        "{said}"
    );
    let given = std::fs::read_to_string(project.directory().join("arguments.txt")).unwrap();
    for expected in [
        "--effort\nlow\n",
        "--mcp-config\n",
        "--permission-mode\ndontAsk\n",
        "mcp__docs\n",
    ] {
        assert!(given.contains(expected), "{expected}: {given}");
    }
    assert!(
        !given.contains("secret-value") && !given.contains("dangerously"),
        "{given}"
    );
}

/// A program in the place of claude that notes its options, and works without end at its first start.
const NOTES_OPTIONS: &str = r#"#!/bin/sh
cat > /dev/null
{ echo "start"; printf '%s\n' "$@"; } >> "$HOME/options.txt"
echo '{"type":"system","subtype":"init","session_id":"s-1","model":"haiku","tools":[]}'
[ -e "$HOME/started" ] || { touch "$HOME/started"; exec sleep 1000; }
echo x >> work.txt
echo '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"Done.","total_cost_usd":0.01,"usage":{"input_tokens":10,"output_tokens":5}}'
"#;

/// Asserts that the agent was started `starts` times, each time with the options of the hank.
#[track_caller]
fn assert_options(project: &TestProject, starts: usize) {
    let noted = std::fs::read_to_string(project.home().join("options.txt")).unwrap();
    let noted: Vec<&str> = noted.split("start\n").skip(1).collect();
    let has_options = |options: &&str| {
        options.contains("--effort\nlow\n") && options.contains("--permission-mode\ndontAsk\n")
    };
    assert_eq!(
        (
            noted.len(),
            noted.iter().filter(|options| has_options(options)).count()
        ),
        (starts, starts),
        "{noted:?}"
    );
}

fn with_options() -> Value {
    only(
        "claude",
        "haiku",
        &json!({"permissions": "read-only", "effort": "low", "checkpointedFiles": ["*.txt"]}),
    )
}

// covers: AGENT-60, AGENT-61
#[test]
fn options_hold_in_each_iteration_after_a_kill_and_after_a_rollback() {
    let mut project = project();
    project.set(
        "HANKWEAVE_CLAUDE_PATH",
        executable(&project, "claude", NOTES_OPTIONS),
    );
    let until = json!({"type": "iterationLimit", "limit": 2});
    project.write_hank(&json!({"hank": [{"type": "loop", "id": "twice", "name": "Twice", "terminateOn": until, "codons": [with_options()]}]}));
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("s-1"));
    running.kill();
    project.run(["run", "--headless"]).expect_code(0);
    assert_options(&project, 3);
    project.run(["replay", "."]).expect_code(0);
    assert_options(&project, 3);
    project.run(["rollback", "--codon", "only#0"]).expect_code(0);
    project.run(["run", "--headless"]).expect_code(0);
    assert_options(&project, 4);
}

// covers: AGENT-60, TASK-58
#[test]
fn options_hold_in_a_task_whose_worker_is_killed() {
    let mut project = project();
    project.set(
        "HANKWEAVE_CLAUDE_PATH",
        executable(&project, "claude", NOTES_OPTIONS),
    );
    project.write("hank/hank.json", json!({"hank": [with_options()]}).to_string());
    let create = ["task", "create", "Options", "--hank", "hank", "--id", "options"];
    project.run(create).expect_code(0);
    let worker = project.start(["worker", "--once", "--owner", "w1"]);
    let started = project.home().join("started");
    let end = std::time::Instant::now() + DEADLINE;
    while !started.exists() {
        assert!(std::time::Instant::now() < end, "the agent did not start");
        std::thread::yield_now();
    }
    worker.kill();
    let next = ["worker", "--once", "--orphan-after", "1s", "--owner", "w2"];
    while project.run(["task", "show", "options", "--json"]).json_document()["task"]["status"] != "completed"
    {
        assert!(std::time::Instant::now() < end, "the task does not complete");
        project.run(next).expect_code(0);
    }
    assert_options(&project, 2);
}

/// The sandbox that the settings of codex ask for.
fn want_sandbox(project: &TestProject, mode: &str) {
    let file = project.home().join(".codex/config.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let before = std::fs::read_to_string(&file).unwrap_or_default();
    std::fs::write(&file, format!("sandbox_mode = \"{mode}\"\n{before}")).unwrap();
}

// covers: AGENT-63
#[test]
fn a_sandbox_of_the_users_own_codex_is_not_overridden_without_a_word() {
    let mut project = project();
    want_sandbox(&project, "read-only");
    let codex = executable(&project, "codex", "#!/bin/sh\nexit 1\n");
    project.set("HANKWEAVE_CODEX_PATH", &codex);
    let words = "does not hold: codon `only` works with all permissions";
    project.write_hank(&json!({"hank": [only("codex", "gpt-5.2", &json!({}))]}));
    for command in [&["validate"][..], &["run", "--headless"]] {
        let finished = project.run(command);
        let said = format!("{}{}", finished.stdout, finished.stderr);
        for words in [
            words,
            ".codex/config.toml",
            "write \"permissions\": \"read-only\"",
        ] {
            assert!(said.contains(words), "{command:?} {words}: {said}");
        }
    }
    // It is in the record of the attempt, so that it is known the morning after.
    let state = project.state(&project.directory());
    let remarks = codon(&state["runs"][0], "only")["remarks"].to_string();
    assert!(remarks.contains(words), "{remarks}");
    for command in [&["report", "--md"][..], &["report", "--json"], &["status"]] {
        let told = project.run(command).stdout;
        assert!(told.contains("works with all permissions"), "{command:?}: {told}");
    }
    for permissions in ["read-only", "all"] {
        project
            .write_hank(&json!({"hank": [only("codex", "gpt-5.2", &json!({"permissions": permissions}))]}));
        let finished = project.run(["validate"]);
        let said = format!("{}{}", finished.stdout, finished.stderr);
        assert!(!said.contains("does not hold"), "{said}");
        project.run(["run", "--headless", "--new"]).expect_code(1);
        let report = project.run(["report", "--json"]).expect_code(0).json_document();
        let agent = &report["codons"][0]["agent"];
        let limited = (permissions != "all").then(|| format!("permissions {permissions}"));
        assert_eq!(agent["permissions"], json!(limited), "{report:#}");
        assert_eq!(
            (&agent["name"], &agent["model"]),
            (&json!("codex"), &json!("gpt-5.2"))
        );
    }
}

/// Turns that attempt to write with the tool, with the shell and outside of the workspace; and files that a hank may find afterwards.
fn attempts(work: &std::path::Path) -> Vec<Value> {
    let outside = work.parent().unwrap().join("outside.txt");
    [
        json!({"op": "write", "path": work.join("tool.txt"), "content": "x"}),
        json!({"op": "bash", "command": "echo x > shell.txt", "description": "Write"}),
        json!({"op": "write", "path": outside, "content": "x"}),
    ]
    .into_iter()
    .map(|call| json!({"text": "I try.", "tools": [call]}))
    .collect()
}

/// Files that were written, and taken away again.
fn written(project: &TestProject) -> Vec<&'static str> {
    let work = project.directory();
    let files = ["tool.txt", "shell.txt", "sub.txt", "../outside.txt"];
    let found = files.into_iter().filter(|file| work.join(file).exists());
    let found: Vec<_> = found.collect();
    for file in &found {
        std::fs::remove_file(work.join(file)).unwrap();
    }
    found
}

fn play(server: &ModelServer, turns: Vec<Value>) {
    server.play(Scenario::try_from(json!({"turns": turns})).unwrap());
}

#[track_caller]
fn run(project: &TestProject) {
    let finished = project
        .start(["run", "--headless", "--new"])
        .finish_within(DEADLINE);
    finished.expect_code(0);
    assert_eq!(project.left_behind(), []);
}

// covers: AGENT-61
#[test]
fn claude_is_kept_to_its_permissions_with_its_sessions_and_sub_agents_whatever_its_settings_allow() {
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    let server = ModelServer::start(Scenario::try_from(json!({"turns": []})).unwrap()).unwrap();
    let mut project = project();
    project.set("HANKWEAVE_CLAUDE_PATH", &claude);
    let rules = json!({"permissions": {"allow": ["Bash", "Write", "Edit"], "defaultMode": "acceptEdits"}})
        .to_string();
    for folder in [project.home(), project.directory()] {
        std::fs::create_dir_all(folder.join(".claude")).unwrap();
        std::fs::write(folder.join(".claude/settings.json"), &rules).unwrap();
    }
    let env = json!({"ANTHROPIC_BASE_URL": server.url(), "ANTHROPIC_API_KEY": "sk-good"});
    for (permissions, expected) in [
        (json!("read-only"), &[][..]),
        (json!("edit"), &["tool.txt"][..]),
        (
            json!({"mode": "read-only", "allow": ["Edit", "Write"]}),
            &["tool.txt"],
        ),
        (json!({"deny": ["Write", "Bash"]}), &[]),
        (
            json!("all"),
            &["tool.txt", "shell.txt", "sub.txt", "../outside.txt"],
        ),
    ] {
        let mut first = only(
            "claude",
            "claude-sonnet-4-5",
            &json!({"env": env, "permissions": permissions}),
        );
        let mut second = first.clone();
        first["promptText"] = json!("FIRST");
        second["id"] = json!("second");
        second["promptText"] = json!("SECOND");
        second["continuationMode"] = json!("continue-previous");
        project.write_hank(&json!({"hank": [first, second]}));
        let sub =
            json!({"op": "task", "prompt": "SUB-WORK", "description": "d", "subagent": "general-purpose"});
        let shell = json!({"op": "bash", "command": "echo x > sub.txt", "description": "Write"});
        // The second codon attempts everything once more in its session.
        let mut turns = vec![json!({"text": "Mine.", "tools": [sub]}), json!({"text": "Done."})];
        turns.extend(attempts(&project.directory()));
        turns.push(json!({"text": "Done."}));
        server.play(
            Scenario::try_from(json!({"lanes": [
                {"name": "sub", "when": {"first_user": "SUB-WORK"}, "turns": [{"text": "I try.", "tools": [shell]}, {"text": "Done."}]},
                {"name": "main", "turns": turns}]}))
            .unwrap(),
        );
        run(&project);
        assert_eq!(written(&project), expected, "{permissions}");
        let state = project.state(&project.directory());
        let newest = state["runs"]
            .as_array()
            .unwrap()
            .iter()
            .find(|run| run["status"] == "completed")
            .unwrap();
        let [first, second] = ["only", "second"].map(|id| codon(newest, id));
        assert_eq!(first["claudeSessionId"], second["claudeSessionId"]);
    }
}

// covers: AGENT-62
#[test]
fn codex_and_pi_are_kept_to_their_permissions_in_a_session_that_continues() {
    let found = [
        ("codex", RealAgent::codex(agents::codex())),
        ("pi", RealAgent::pi(agents::pi())),
        ("pi", RealAgent::pi(agents::newest_pi())),
    ];
    for (name, real) in found {
        let real = match real {
            Ok(real) => real,
            Err(skip) => return println!("{skip}"),
        };
        let (project, server) = real.stage(json!({"turns": []}));
        if name == "codex" {
            want_sandbox(&project, "danger-full-access");
        }
        // The shell of codex writes inside of the workspace, and it has no other tool.
        let modes: &[(&str, &[&str])] = match name {
            "codex" => &[("read-only", &[]), ("edit", &["tool.txt", "shell.txt"])],
            _ => &[("read-only", &[])],
        };
        for (mode, expected) in modes {
            let [mut first, mut second] = [("first", "fresh"), ("second", "continue-previous")]
                .map(|(id, continues)| real.codon(id, continues, "WORK"));
            for codon in [&mut first, &mut second] {
                codon["permissions"] = json!(mode);
            }
            project.write_hank(&json!({"hank": [first, second]}));
            let mut turns = vec![json!({"text": "Done."})];
            turns.extend(attempts(&project.directory()));
            turns.push(json!({"text": "Done."}));
            play(&server, turns);
            run(&project);
            assert_eq!(written(&project), *expected, "{name} {mode}");
        }
    }
}

// covers: AGENT-62
#[test]
fn opencode_is_kept_to_its_permissions_whatever_the_workspace_allows() {
    let server = ModelServer::start(Scenario::try_from(json!({"turns": []})).unwrap()).unwrap();
    let Some((agent, model, speaker)) = natives(&server).find(|(agent, ..)| *agent == "opencode") else {
        return;
    };
    let project = native(agent, model, &speaker, &server);
    let hank = std::fs::read_to_string(project.directory().join("hank.json")).unwrap();
    let mut hank: Value = serde_json::from_str(&hank).unwrap();
    let rules = json!({"edit": "allow", "bash": "allow", "external_directory": "allow"});
    let open = json!({"permission": rules, "agent": {"build": {"permission": rules}}});
    project.write("opencode.json", open.to_string());
    for (mode, expected) in [("read-only", &[][..]), ("edit", &["tool.txt"])] {
        hank["hank"][0].as_object_mut().unwrap().remove("budget");
        hank["hank"][0]["permissions"] = json!(mode);
        let mut second = hank["hank"][0].clone();
        second["id"] = json!("second");
        second["continuationMode"] = json!("continue-previous");
        project.write_hank(&json!({"hank": [hank["hank"][0], second]}));
        let mut turns = vec![json!({"text": "Done."})];
        turns.extend(attempts(&project.directory()));
        turns.push(json!({"text": "Done."}));
        play(&server, turns);
        run(&project);
        assert_eq!(written(&project), expected, "{mode}");
    }
}

/// Our own server of tools, which any agent can start.
fn own_server() -> Value {
    json!({"ours": {"command": env!("CARGO_BIN_EXE_hankweave"), "args": ["mcp"], "env": {"HANKWEAVE_TASKS": "/nowhere"}}})
}

#[track_caller]
fn assert_offered(server: &ModelServer, agent: &str) {
    let requests = server.requests();
    let asked = requests
        .iter()
        .filter_map(|request| Some(request.body()?["tools"].to_string()));
    assert!(
        asked
            .into_iter()
            .any(|tools| tools.contains("create_task_sandbox")),
        "{agent}"
    );
}

// covers: AGENT-61, AGENT-62
#[test]
fn tools_of_a_server_of_the_hank_are_offered_to_the_model() {
    let done = || Scenario::try_from(json!({"turns": [{"text": "Done.", "repeat": "forever"}]})).unwrap();
    let server = ModelServer::start(done()).unwrap();
    if let Ok(claude) = agents::claude().inspect_err(|skip| println!("{skip}")) {
        let mut project = project();
        project.set("HANKWEAVE_CLAUDE_PATH", &claude);
        let env = json!({"ANTHROPIC_BASE_URL": server.url(), "ANTHROPIC_API_KEY": "sk-good"});
        for isolate in [false, true] {
            let asked = json!({"env": env, "mcpServers": own_server(), "isolate": isolate, "permissions": "read-only", "effort": "low"});
            project.write_hank(&json!({"hank": [only("claude", "claude-sonnet-4-5", &asked)]}));
            server.play(done());
            run(&project);
            assert_offered(&server, "claude");
        }
    }
    for (agent, model, speaker) in natives(&server).filter(|(agent, ..)| *agent == "opencode") {
        let project = native(agent, model, &speaker, &server);
        let hank = std::fs::read_to_string(project.directory().join("hank.json")).unwrap();
        let mut hank: Value = serde_json::from_str(&hank).unwrap();
        hank["hank"][0].as_object_mut().unwrap().remove("budget");
        hank["hank"][0]["mcpServers"] = own_server();
        project.write_hank(&hank);
        server.play(done());
        run(&project);
        assert_offered(&server, agent);
    }
    if let Ok(real) = RealAgent::codex(agents::codex()).inspect_err(|skip| println!("{skip}")) {
        let (project, server) = real.stage(json!({"turns": [{"text": "Done.", "repeat": "forever"}]}));
        let mut codon = real.codon("only", "fresh", "WORK");
        codon["mcpServers"] = own_server();
        codon["effort"] = json!("low");
        project.write_hank(&json!({"hank": [codon]}));
        run(&project);
        assert_offered(&server, "codex");
    }
}

/// Values that requests have at a place.
fn asked_at(server: &ModelServer, place: &str) -> Vec<Value> {
    let requests = server.requests();
    let values = requests
        .iter()
        .filter_map(|request| request.body()?.pointer(place).cloned());
    values.collect()
}

// covers: AGENT-60
#[test]
fn an_effort_of_the_hank_reaches_the_model() {
    let turns = json!([{"text": "Done.", "repeat": "forever"}]);
    if let Ok(claude) = agents::claude().inspect_err(|skip| println!("{skip}")) {
        let server = ModelServer::start(Scenario::try_from(json!({"turns": turns})).unwrap()).unwrap();
        let mut project = project();
        project.set("HANKWEAVE_CLAUDE_PATH", &claude);
        let env = json!({"ANTHROPIC_BASE_URL": server.url(), "ANTHROPIC_API_KEY": "sk-good"});
        let asked = json!({"env": env, "effort": "low"});
        project.write_hank(&json!({"hank": [only("claude", "claude-opus-4-6", &asked)]}));
        run(&project);
        assert!(asked_at(&server, "/output_config/effort").contains(&json!("low")));
    }
    if let Ok(real) = RealAgent::codex(agents::codex()).inspect_err(|skip| println!("{skip}")) {
        let (project, server) = real.stage(json!({"turns": turns}));
        let mut codon = real.codon("only", "fresh", "WORK");
        codon["effort"] = json!("low");
        project.write_hank(&json!({"hank": [codon]}));
        run(&project);
        assert!(asked_at(&server, "/reasoning/effort").contains(&json!("low")));
    }
}

const PAGE: &str = include_str!("../../../../docs/agents.md");

/// Cells of the page for the options of an agent.
fn cells(options: &Value) -> Vec<String> {
    let words = |key: &str| {
        let words = options[key].as_array().unwrap().iter();
        let words: Vec<&str> = words.map(|word| word.as_str().unwrap()).collect();
        if words.is_empty() {
            "no".to_owned()
        } else {
            words.join(", ")
        }
    };
    let yes = |key: &str| if options[key] == true { "yes" } else { "no" }.to_owned();
    let mut cells = vec![words("effort"), words("permissions")];
    cells.extend(["toolLists", "isolate", "mcpServers", "args"].map(yes));
    cells
}

// covers: AGENT-60
#[test]
fn the_page_says_which_options_each_agent_takes() {
    let table = PAGE
        .split("<!-- options -->")
        .nth(1)
        .expect("the page has the table");
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let project = project();
    let mut told = Vec::new();
    for row in rows {
        let row: Vec<String> = row
            .trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect();
        let name = row[0].trim_matches('`').to_owned();
        let agent = match name.as_str() {
            "acp" => json!({"acp": ["sh"]}),
            "command" => json!({"command": ["sh"], "stream": "claude"}),
            name => json!(name),
        };
        let hank = only("x", "haiku", &json!({"agent": agent, "check": {"run": "true"}}));
        project.write_hank(&json!({"hank": [hank]}));
        let document = project.run(["validate", "--json"]).json_document();
        assert_eq!(row[1..], cells(&document["agents"][&name]["options"]), "{name}");
        told.push(name);
    }
    assert_eq!(
        told,
        [
            "acp", "claude", "codex", "command", "gemini", "opencode", "pi", "scripted"
        ]
    );
}
