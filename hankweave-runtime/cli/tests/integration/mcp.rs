//! Tasks as tools of an agent, over the Model Context Protocol with the real program.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use hankweave_testing::{ModelServer, Scenario, TestProject, agents};
use serde_json::{Value, json};

use crate::support::project;

/// The server, and us as its client.
struct Client {
    server: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
}

impl Client {
    /// Starts it and introduces itself.
    fn start(project: &TestProject) -> Self {
        let mut server = project
            .command(Path::new(env!("CARGO_BIN_EXE_hankweave")))
            .arg("mcp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut client = Self {
            stdin: server.stdin.take(),
            stdout: BufReader::new(server.stdout.take().unwrap()),
            server,
            next: 0,
        };
        let told = client.ask(
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}),
        );
        assert_eq!(told["result"]["serverInfo"]["name"], "hankweave", "{told}");
        client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn say(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{message}").unwrap();
        stdin.flush().unwrap();
    }

    /// The answer to a request.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the server is gone");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == id {
                return answer;
            }
        }
    }

    /// Calls a tool and returns its result.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        assert_eq!(result["isError"], false, "{tool} {arguments}: {answer}");
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, result["structuredContent"]);
        text
    }

    /// Why a tool refuses.
    fn refusal(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        assert_eq!(answer["result"]["isError"], true, "{tool} {arguments}: {answer}");
        answer["result"]["structuredContent"]["error"].clone()
    }

    /// Goes away; the server ends by itself.
    fn leave(mut self) {
        drop(self.stdin.take());
        assert_eq!(self.server.wait().unwrap().code(), Some(0));
    }
}

fn status(project: &TestProject, id: &str) -> Value {
    let shown = project.run(["task", "show", id, "--json"]);
    shown.expect_code(0).json_document()["task"].clone()
}

// covers: CLI-55, CLI-57
#[test]
fn an_agent_works_on_a_task_with_all_eight_tools() {
    let project = project();
    let mut client = Client::start(&project);
    let tools = client.ask("tools/list", &json!({}));
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    let expected = [
        "create_task_sandbox",
        "attach_agent_to_task",
        "detach_agent_from_task",
        "execute_in_task",
        "list_tasks",
        "get_task_status",
        "cancel_task",
        "delete_task",
    ];
    assert_eq!(names, expected);

    let id = json!({"taskId": "fix-3"});
    let created = client.call(
        "create_task_sandbox",
        &json!({"name": "Fix it", "taskId": "fix-3", "agentId": "coder", "metadata": {"pages": 3}}),
    );
    assert_eq!(
        (&created["task"]["status"], &created["task"]["agentId"]),
        (&json!("running"), &json!("coder"))
    );
    let done = client.call(
        "execute_in_task",
        &json!({"taskId": "fix-3", "command": "echo done > it.txt; printf '{\"decision\":\"Fix it\"}\\n' > decisions.jsonl; echo said; echo why >&2; exit 3"}),
    );
    assert_eq!(
        (
            &done["exitCode"],
            &done["stdout"],
            &done["stderr"],
            &done["timedOut"]
        ),
        (&json!(3), &json!("said\n"), &json!("why\n"), &json!(false))
    );
    let workspace = created["workspace"].as_str().unwrap().to_owned();
    assert_eq!(
        std::fs::read_to_string(Path::new(&workspace).join("it.txt")).unwrap(),
        "done\n"
    );
    let late = client.call(
        "execute_in_task",
        &json!({"taskId": "fix-3", "command": "yes & sleep 600", "timeout": 300}),
    );
    assert_eq!((&late["timedOut"], &late["cut"]), (&json!(true), &json!(true)));
    assert_eq!(late["stdout"].as_str().unwrap().len(), 64 << 10);
    // The task belongs to the agent: no other client or worker changes it.
    project.run(["task", "checkpoint", "fix-3"]).expect_code(75);
    let idle = project.run(["worker", "--once"]);
    assert!(idle.expect_code(0).stderr.contains("0 completed"));

    let back = client.call("detach_agent_from_task", &id);
    assert_eq!(
        (&back["task"]["status"], &back["task"]["attempt"]),
        (&json!("pending"), &json!(2))
    );
    client.call(
        "attach_agent_to_task",
        &json!({"taskId": "fix-3", "agentId": "critic"}),
    );
    let told = client.call("get_task_status", &id);
    assert_eq!(
        (&told["task"]["status"], &told["attachedHere"]),
        (&json!("running"), &json!(true))
    );
    let ended = client.call(
        "detach_agent_from_task",
        &json!({"taskId": "fix-3", "agentId": "critic", "outcome": "completed", "result": {"lines": 4}}),
    );
    assert_eq!(
        (
            &ended["task"]["status"],
            &ended["task"]["result"]["data"]["lines"]
        ),
        (&json!("completed"), &json!(4))
    );
    let decisions = project
        .run(["task", "decisions", "fix-3", "--json"])
        .json_document();
    assert_eq!(decisions["decisions"][0]["decision"], "Fix it");
    let listed = client.call("list_tasks", &json!({"status": "completed"}));
    assert_eq!(
        (&listed["total"], &listed["tasks"][0]["id"]),
        (&json!(1), &json!("fix-3"))
    );
    assert_eq!(client.call("delete_task", &id)["deleted"], true);
    assert!(!Path::new(&workspace).exists());

    client.call(
        "create_task_sandbox",
        &json!({"name": "Other", "taskId": "other", "agentId": "coder"}),
    );
    let cancelled = client.call("cancel_task", &json!({"taskId": "other"}));
    assert_eq!(cancelled["task"]["status"], "cancelled");
    assert_eq!(cancelled["continueWith"], "hankweave task resume other");
    client.call(
        "create_task_sandbox",
        &json!({"name": "Third", "taskId": "third", "agentId": "coder"}),
    );
    client.leave();
    assert_eq!(
        status(&project, "third")["status"],
        "pending",
        "its agent is gone"
    );
    assert_eq!(project.left_behind(), []);
}

// covers: CLI-57
#[test]
fn a_task_of_an_agent_is_called_off_by_somebody_else() {
    let project = project();
    let mut client = Client::start(&project);
    client.call(
        "create_task_sandbox",
        &json!({"name": "Fix it", "taskId": "fix-3", "agentId": "coder"}),
    );
    project.run(["task", "cancel", "fix-3"]).expect_code(0);
    let stopped = client.ask(
        "tools/call",
        &json!({"name": "execute_in_task", "arguments": {"taskId": "fix-3", "command": "sleep 600", "timeout": 600_000}}),
    );
    let refusal = &stopped["result"]["structuredContent"]["error"];
    // The command was refused before it started, or stopped in the middle.
    let codes = [json!("EXECUTION_FAILED"), json!("INVALID_REQUEST")];
    assert!(codes.contains(&refusal["code"]), "{stopped}");
    client.leave();
    assert_eq!(status(&project, "fix-3")["status"], "cancelled");
}

/// An agent sees the question of a waiting task and who answers it. It cannot answer, but it can cancel the task.
// covers: CLI-55, TASK-123, TASK-124
#[test]
fn a_task_that_waits_shows_its_question_and_an_order_is_kept() {
    let project = project();
    project.write("done.json", "{\"turns\": [{\"text\": \"Done\"}]}");
    project.write_hank(&json!({"hank": [{
        "id": "publish", "name": "Publish", "model": "claude-sonnet-4-5", "agent": {"script": "done.json"},
        "continuationMode": "fresh", "promptText": "work", "approval": "Publish it?",
    }]}));
    let mut client = Client::start(&project);
    let hank = project.directory().display().to_string();
    for (id, more) in [
        ("page", json!({"priority": 3})),
        ("index", json!({"after": ["page"]})),
    ] {
        let mut task = json!({"name": id, "taskId": id, "hank": hank});
        task.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        client.call("create_task_sandbox", &task);
    }
    let refused = client.refusal(
        "create_task_sandbox",
        &json!({"name": "x", "hank": hank, "after": ["nowhere"]}),
    );
    assert_eq!(refused["code"], "TASK_NOT_FOUND");
    let created = client.call("get_task_status", &json!({"taskId": "index"}));
    assert_eq!(created["task"]["after"], json!(["page"]), "{created}");
    project.run(["worker", "--once"]).expect_code(0);

    let listed = client.call("list_tasks", &json!({"status": "waiting"}));
    assert_eq!(listed["total"], 1, "{listed}");
    assert_eq!(listed["tasks"][0]["question"], "Publish it?");
    let task = client.call("get_task_status", &json!({"taskId": "page"}));
    assert_eq!(
        (&task["task"]["codonId"], &task["answerWith"]),
        (
            &json!("publish"),
            &json!(["hankweave task approve page", "hankweave task deny page"])
        ),
        "{task}"
    );
    let refused = client.refusal(
        "attach_agent_to_task",
        &json!({"taskId": "page", "agentId": "coder"}),
    );
    assert_eq!(refused["code"], "INVALID_TRANSITION");
    assert!(
        refused["message"].as_str().unwrap().contains("task approve page"),
        "{refused}"
    );
    project
        .run(["task", "approve", "page", "--by", "ann"])
        .expect_code(0);
    project.run(["worker", "--once"]).expect_code(0);
    let task = client.call("get_task_status", &json!({"taskId": "page"}));
    assert_eq!(
        (
            &task["task"]["status"],
            &task["task"]["metadata"]["approval"]["by"]
        ),
        (&json!("completed"), &json!("ann"))
    );
    // The one after it has run up to its own question meanwhile.
    let cancelled = client.call("cancel_task", &json!({"taskId": "index"}));
    assert_eq!(cancelled["task"]["status"], "cancelled");
    client.leave();
}

// covers: CLI-56
#[test]
fn what_a_tool_cannot_do_it_says_with_a_code_and_changes_nothing() {
    let project = project();
    let mut client = Client::start(&project);
    let unknown = client.ask("tools/call", &json!({"name": "make_tea", "arguments": {}}));
    assert_eq!(
        (
            &unknown["error"]["data"]["code"],
            &unknown["error"]["data"]["status"]
        ),
        (&json!("TOOL_NOT_FOUND"), &json!(404))
    );
    for (tool, arguments, code, told) in [
        (
            "list_tasks",
            json!({"limit": -1, "colour": 1}),
            "INVALID_REQUEST",
            "/limit",
        ),
        ("create_task_sandbox", json!({}), "INVALID_REQUEST", "name"),
        (
            "create_task_sandbox",
            json!({"name": "x"}),
            "INVALID_REQUEST",
            "agentId",
        ),
        (
            "create_task_sandbox",
            json!({"name": "x", "hank": "nowhere"}),
            "INVALID_REQUEST",
            "nowhere",
        ),
        (
            "create_task_sandbox",
            json!({"name": "x", "agentId": "a", "taskId": "../x"}),
            "INVALID_TASK_ID",
            "",
        ),
        (
            "attach_agent_to_task",
            json!({"taskId": "x", "agentId": "a"}),
            "TASK_NOT_FOUND",
            "x",
        ),
        (
            "detach_agent_from_task",
            json!({"taskId": "x"}),
            "TASK_NOT_FOUND",
            "x",
        ),
        (
            "execute_in_task",
            json!({"taskId": "x", "command": "id"}),
            "TASK_NOT_FOUND",
            "x",
        ),
        ("get_task_status", json!({"taskId": "x"}), "TASK_NOT_FOUND", "x"),
        ("cancel_task", json!({"taskId": "x"}), "TASK_NOT_FOUND", "x"),
        ("delete_task", json!({"taskId": "x"}), "TASK_NOT_FOUND", "x"),
    ] {
        let refusal = client.refusal(tool, &arguments);
        assert_eq!(refusal["code"], code, "{tool} {arguments}: {refusal}");
        assert!(refusal["message"].as_str().unwrap().contains(told), "{refusal}");
    }
    let all = client.refusal("list_tasks", &json!({"limit": -1, "colour": 1}));
    assert_eq!(all["problems"].as_array().unwrap().len(), 2, "{all}");
    assert_eq!(client.call("list_tasks", &json!({}))["total"], 0);

    client.call(
        "create_task_sandbox",
        &json!({"name": "Fix it", "taskId": "fix-3", "agentId": "coder"}),
    );
    let twice = client.refusal(
        "attach_agent_to_task",
        &json!({"taskId": "fix-3", "agentId": "b"}),
    );
    assert_eq!(twice["code"], "RESOURCE_LOCKED");
    let running = client.refusal("delete_task", &json!({"taskId": "fix-3"}));
    assert_eq!(running["code"], "RESOURCE_LOCKED");
    let other = client.refusal(
        "detach_agent_from_task",
        &json!({"taskId": "fix-3", "agentId": "somebody"}),
    );
    assert_eq!(other["code"], "INVALID_REQUEST");
    // What is no protocol at all costs nothing but itself.
    client.say(&json!({"no": "message"}));
    assert_eq!(client.call("list_tasks", &json!({}))["total"], 1);
    client.leave();
}

/// In JSON Schema `5.0` is an integer, and some languages write every number so.
// covers: CLI-56
#[test]
fn a_whole_number_with_a_fraction_of_zero_is_an_integer_for_each_tool() {
    let project = project();
    let mut client = Client::start(&project);
    let task = json!({"name": "Fix it", "taskId": "fix-3", "agentId": "coder", "priority": -2.0, "metadata": {"pages": 3.0}});
    let created = client.call("create_task_sandbox", &task);
    assert_eq!(created["task"]["priority"], -2, "{created}");
    assert_eq!(
        created["task"]["metadata"]["pages"].to_string(),
        "3.0",
        "{created}"
    );
    client.call(
        "execute_in_task",
        &json!({"taskId": "fix-3", "command": "true", "timeout": 5_000.0}),
    );
    let listed = client.call("list_tasks", &json!({"limit": 1.0, "offset": 0.0}));
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1, "{listed}");
    for offset in [0.5, 1e20] {
        let refusal = client.refusal("list_tasks", &json!({"offset": offset}));
        assert!(
            refusal["message"].as_str().unwrap().contains("/offset"),
            "{refusal}"
        );
    }
    client.leave();
}

// covers: CLI-56
#[test]
fn what_this_machine_cannot_do_is_told_as_that_and_changes_nothing() {
    let project = project();
    let mut client = Client::start(&project);
    let failed = |refusal: &Value, told: &str| {
        let code = (&refusal["code"], &refusal["status"]);
        assert_eq!(code, (&json!("EXECUTION_FAILED"), &json!(500)), "{refusal}");
        assert!(refusal["message"].as_str().unwrap().contains(told), "{refusal}");
    };
    let folder = project.home().join(".local/share/hankweave/tasks/fix-3");
    let workspace = folder.join("workspace");
    let create = json!({"name": "Fix it", "taskId": "fix-3", "agentId": "coder"});
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(&workspace, "no folder").unwrap();
    failed(
        &client.refusal("create_task_sandbox", &create),
        "its workspace cannot be made",
    );
    assert_eq!(client.call("list_tasks", &json!({}))["total"], 0);
    std::fs::remove_file(&workspace).unwrap();
    client.call("create_task_sandbox", &create);

    // The folder is missing: the task stays with the agent, and its command works when the folder is back.
    let run = json!({"taskId": "fix-3", "command": "echo here"});
    let aside = folder.join("aside");
    std::fs::rename(&workspace, &aside).unwrap();
    failed(&client.refusal("execute_in_task", &run), "No such file");
    std::fs::rename(&aside, &workspace).unwrap();
    assert_eq!(client.call("execute_in_task", &run)["stdout"], "here\n");

    client.call("detach_agent_from_task", &json!({"taskId": "fix-3"}));
    std::fs::remove_dir_all(&workspace).unwrap();
    std::fs::write(&workspace, "no folder").unwrap();
    let before = status(&project, "fix-3");
    let attach = json!({"taskId": "fix-3", "agentId": "critic"});
    failed(
        &client.refusal("attach_agent_to_task", &attach),
        "its workspace cannot be made",
    );
    assert_eq!(status(&project, "fix-3"), before);
    std::fs::remove_file(&workspace).unwrap();
    client.call("attach_agent_to_task", &attach);

    // An error with a code in the rules keeps that code, next to its number.
    let state = folder.join("state.json");
    let whole = std::fs::read(&state).unwrap();
    std::fs::write(&state, &whole[..whole.len() / 2]).unwrap();
    let damaged = client.refusal("get_task_status", &json!({"taskId": "fix-3"}));
    let code = (&damaged["code"], &damaged["status"]);
    assert_eq!(code, (&json!("STATE_LOAD_FAILED"), &json!(500)), "{damaged}");
    std::fs::write(&state, whole).unwrap();
    assert_eq!(
        client.call("get_task_status", &json!({"taskId": "fix-3"}))["attachedHere"],
        true
    );

    // The registry is damaged while the server works, and repaired: waiting would not have helped.
    let registry = project.home().join(".local/share/hankweave/registry.db");
    let registry = rusqlite::Connection::open(registry).unwrap();
    registry
        .execute_batch("ALTER TABLE tasks RENAME TO aside")
        .unwrap();
    let away = client.refusal("list_tasks", &json!({}));
    let code = (&away["code"], &away["status"]);
    assert_eq!(code, (&json!("REGISTRY_NOT_INITIALIZED"), &json!(500)), "{away}");
    registry
        .execute_batch("ALTER TABLE aside RENAME TO tasks")
        .unwrap();
    assert_eq!(client.call("list_tasks", &json!({}))["total"], 1);
    client.leave();
}

// covers: TASK-90
#[test]
fn no_tool_takes_a_path_for_an_id() {
    let project = project();
    let mut client = Client::start(&project);
    for path in ["../x", "a/b", ".", "/etc/passwd", "-x"] {
        for (tool, mut arguments) in [
            ("create_task_sandbox", json!({"name": "x", "agentId": "a"})),
            ("attach_agent_to_task", json!({"agentId": "a"})),
            ("detach_agent_from_task", json!({})),
            ("execute_in_task", json!({"command": "id"})),
            ("get_task_status", json!({})),
            ("cancel_task", json!({})),
            ("delete_task", json!({})),
        ] {
            arguments["taskId"] = json!(path);
            let refusal = client.refusal(tool, &arguments);
            assert_eq!(
                (&refusal["code"], &refusal["status"]),
                (&json!("INVALID_TASK_ID"), &json!(400)),
                "{tool} {path}: {refusal}"
            );
        }
    }
    assert_eq!(client.call("list_tasks", &json!({}))["total"], 0);
    client.leave();
    assert!(!project.home().join(".local/share/hankweave/tasks").exists());
}

// covers: CLI-55
#[test]
fn the_real_claude_makes_a_task_through_the_server() {
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    let turns = json!([
        {"text": "I look.", "tools": [{"name": "mcp__tasks__create_task_sandbox", "input": {"name": "Fix it", "taskId": "fix-3", "agentId": "claude"}}],
         "usage": {"input": 10, "output": 5}},
        {"text": "Done.", "usage": {"input": 10, "output": 5}}]);
    let scenario = json!({"lanes": [{"name": "work", "when": {"user": "TASK"}, "turns": turns}]});
    let server = ModelServer::start(Scenario::try_from(scenario).unwrap()).unwrap();
    let mut project = project();
    let config =
        json!({"mcpServers": {"tasks": {"command": env!("CARGO_BIN_EXE_hankweave"), "args": ["mcp"]}}});
    let config = project.write("mcp.json", config.to_string());
    for (name, value) in [
        ("ANTHROPIC_BASE_URL", server.url().as_str()),
        ("ANTHROPIC_API_KEY", "sk-good"),
        ("DISABLE_TELEMETRY", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ] {
        project.set(name, value);
    }
    let done = project
        .command(&claude)
        .args(["-p", "TASK: make one", "--mcp-config"])
        .arg(config)
        .args([
            "--allowedTools",
            "mcp__tasks__create_task_sandbox",
            "--model",
            "claude-sonnet-4-5",
        ])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    // The server has ended with claude, and let the task go.
    let task = status(&project, "fix-3");
    assert_eq!((&task["name"], &task["attempt"]), (&json!("Fix it"), &json!(2)));
}
