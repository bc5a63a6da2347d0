//! Real programs that speak the Agent Client Protocol, against the scripted model.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use hankweave_testing::{Finished, ModelServer, Scenario, Skip, TestProject, agents};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::real_agents::settings;
use crate::real_money::{begun, cut_off};
use crate::support::{codon, project};

/// Longer than the limits of the codons here.
const DEADLINE: Duration = Duration::from_secs(180);

/// A program that speaks the protocol.
pub(crate) struct Speaker {
    command: Vec<String>,
    pub(crate) env: Value,
    path: Option<OsString>,
}

impl Speaker {
    /// Returns all five; prints those that are missing.
    fn all(server: &ModelServer) -> impl Iterator<Item = Self> {
        let url = server.url();
        [
            Self::opencode(),
            Self::gemini(&url),
            Self::codex(),
            Self::claude(&url),
            Self::pi(),
        ]
        .into_iter()
        .filter_map(|speaker| speaker.inspect_err(|skip| println!("{skip}")).ok())
        .inspect(|speaker| println!("with {}", speaker.command.join(" ")))
    }

    fn new(program: &Path, args: &[&str], env: Value) -> Self {
        let program = program.to_str().unwrap().to_owned();
        let args = args.iter().map(|arg| (*arg).to_owned());
        Self {
            command: std::iter::once(program).chain(args).collect(),
            env,
            path: None,
        }
    }

    fn opencode() -> Result<Self, Skip> {
        let env = json!({"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1"});
        Ok(Self::new(&agents::opencode()?, &["acp"], env))
    }

    fn gemini(url: &str) -> Result<Self, Skip> {
        let env = json!({"GEMINI_API_KEY": "sk-good", "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true"});
        Ok(Self::new(
            &agents::gemini()?,
            &["--acp", "--model", "gemini-2.5-pro"],
            env,
        ))
    }

    fn codex() -> Result<Self, Skip> {
        let free = [
            "-c",
            "sandbox_mode=\"danger-full-access\"",
            "-c",
            "approval_policy=\"never\"",
        ];
        Ok(Self::new(
            &agents::codex_acp()?,
            &free,
            json!({"SCRIPTED_KEY": "sk-good"}),
        ))
    }

    fn claude(url: &str) -> Result<Self, Skip> {
        let env = json!({"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-good", "IS_SANDBOX": "1", "CLAUDE_CODE_MAX_RETRIES": "1"});
        Ok(Self::new(&agents::claude_acp()?, &[], env))
    }

    fn pi() -> Result<Self, Skip> {
        let (program, path) = agents::newest_pi()?;
        let folders = program.parent().map(Path::to_owned).into_iter();
        let path = std::env::join_paths(folders.chain(std::env::split_paths(&path)));
        let env = json!({"SCRIPTED_KEY": "sk-good", "PI_OFFLINE": "1", "PI_TELEMETRY": "0"});
        Ok(Self {
            path: path.ok(),
            ..Self::new(&agents::pi_acp()?, &[], env)
        })
    }

    /// A project of one codon, whose limit is far beyond what a program takes to start on a machine that has much else to do.
    fn stage(&self, server: &ModelServer) -> TestProject {
        self.stage_within(server, 150)
    }

    /// A project of one codon that may take this many seconds.
    fn stage_within(&self, server: &ModelServer, seconds: u64) -> TestProject {
        let mut project = project();
        if let Some(path) = &self.path {
            project.set("PATH", path);
        }
        let (url, home) = (server.url(), project.home());
        let opencode = json!({"autoupdate": false, "model": "scripted/m", "provider": {"scripted": {"npm": "@ai-sdk/anthropic", "name": "s",
            "options": {"baseURL": format!("{url}/v1"), "apiKey": "sk-good"}, "models": {"m": {"name": "m"}}}}});
        let gemini = json!({"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"disableAutoUpdate": true}});
        let pi = json!({"defaultProvider": "scripted", "defaultModel": "scripted-model", "retry": {"enabled": true, "maxRetries": 1, "baseDelayMs": 10}});
        let own = [
            (".config/opencode/opencode.json", opencode.to_string()),
            (".gemini/settings.json", gemini.to_string()),
        ];
        let shared = settings(server).into_iter();
        for (file, text) in shared
            .chain(own)
            .chain([(".pi/agent/settings.json", pi.to_string())])
        {
            let file = home.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let limit = json!({"maxTimeSeconds": seconds, "onExceeded": "fail"});
        project.write_hank(&json!({"hank": [{"id": "only", "name": "Only", "agent": {"acp": self.command}, "continuationMode": "fresh",
            "promptText": "TASK", "env": self.env, "checkpointedFiles": ["*.txt"], "budget": limit}]}));
        project
    }
}

/// A server with nothing to say yet.
fn serve() -> ModelServer {
    ModelServer::start(scenario(json!({"turns": []}))).unwrap()
}

fn scenario(scenario: Value) -> Scenario {
    scenario.try_into().unwrap()
}

fn record(project: &TestProject, finished: &Finished) -> Value {
    assert_eq!(project.left_behind(), []);
    let state = project.state(&project.directory());
    let record = codon(&state["runs"][0], "only").clone();
    println!(
        "{} after {:?}: {}",
        record["status"], finished.elapsed, record["failureReason"]
    );
    record
}

fn run(project: &TestProject) -> Value {
    let finished = project
        .start(["run", "--headless", "--json"])
        .finish_within(DEADLINE);
    record(project, &finished)
}

// covers: AGENT-23, AGENT-24
#[test]
fn the_work_of_real_speakers_completes_a_codon() {
    let call = json!({"op": "bash", "command": "printf hello > note.txt", "description": "Write"});
    let turns = json!([{"text": "I write.", "tools": [call]}, {"text": "Done."}]);
    let server = serve();
    for speaker in Speaker::all(&server) {
        server.play(scenario(json!({"turns": turns})));
        let project = speaker.stage(&server);
        let record = run(&project);
        assert_eq!(record["status"], "completed", "{record:#}");
        let note = std::fs::read_to_string(project.directory().join("note.txt")).unwrap();
        assert_eq!(note, "hello");
        assert_eq!(record["costIsLowerBound"], true, "{record:#}");
    }
}

/// All but pi, which never asks: with settings that let them ask, and with their own tools.
// covers: AGENT-26
#[test]
fn real_speakers_that_ask_do_what_the_hank_permits_and_nothing_else() {
    let server = serve();
    let asks = |speaker: &Speaker| !speaker.command[0].ends_with("pi-acp");
    for mut speaker in Speaker::all(&server).filter(asks) {
        for argument in &mut speaker.command {
            *argument = argument.replace("approval_policy=\"never\"", "approval_policy=\"untrusted\"");
        }
        for (permissions, is_permitted) in [
            (json!("allow"), true),
            (json!({"edit": "deny", "execute": "deny"}), false),
        ] {
            let project = speaker.stage(&server);
            let claude = json!({"permissions": {"defaultMode": "default"}});
            let opencode = json!({"permission": {"edit": "ask", "bash": "ask"}});
            for (file, more) in [
                (".claude/settings.json", claude),
                (".config/opencode/opencode.json", opencode),
            ] {
                let file = project.home().join(file);
                let mut settings = std::fs::read_to_string(&file)
                    .map_or_else(|_| json!({}), |text| serde_json::from_str(&text).unwrap());
                settings
                    .as_object_mut()
                    .unwrap()
                    .extend(more.as_object().unwrap().clone());
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, settings.to_string()).unwrap();
            }
            let hank = std::fs::read_to_string(project.directory().join("hank.json")).unwrap();
            let mut hank: Value = serde_json::from_str(&hank).unwrap();
            hank["hank"][0]["agent"]["permissions"] = permissions;
            project.write_hank(&hank);
            let (note, more) = (
                project.directory().join("note.txt"),
                project.directory().join("more.txt"),
            );
            let write = json!({"op": "write", "path": note, "content": "hello"});
            let call = json!({"op": "bash", "command": "printf hello > more.txt", "description": "Write"});
            server.play(scenario(json!({"turns": [
                {"text": "I write.", "tools": [write]}, {"text": "I run.", "tools": [call]}, {"text": "Done.", "repeat": "forever"}]})));
            let record = run(&project);
            let status = if is_permitted { "completed" } else { "failed" };
            assert_eq!(record["status"], status, "{record:#}");
            let written = [note, more].map(|file| std::fs::read_to_string(file).ok());
            let expected = is_permitted.then(|| "hello".to_owned());
            assert_eq!(written, [expected.clone(), expected]);
        }
    }
}

// covers: AGENT-24
#[test]
fn what_providers_refuse_real_speakers_is_no_success() {
    let error = |status: u16, kind: &str, message: &str| json!({"turns": [{"error": {"status": status, "type": kind, "message": message}, "repeat": "forever"}]});
    let refusals = [
        error(401, "authentication_error", "invalid x-api-key"),
        error(429, "rate_limit_error", "slow down"),
        json!({"context_limit": 100, "turns": [{"text": "Done.", "repeat": "forever"}]}),
    ];
    // Most of the time speakers wait before they ask again.
    std::thread::scope(|scope| {
        for refusal in refusals {
            scope.spawn(|| {
                let server = serve();
                server.play(scenario(refusal));
                for speaker in Speaker::all(&server) {
                    let record = run(&speaker.stage_within(&server, 40));
                    assert_eq!(record["status"], "failed", "{record:#}");
                }
            });
        }
    });
}

// covers: AGENT-14, AGENT-23
#[test]
fn real_speakers_that_are_stopped_leave_nothing_behind() {
    let server = serve();
    let call = json!({"op": "bash", "command": "sleep 1000", "description": "Wait"});
    for speaker in Speaker::all(&server) {
        let before = server.served().len();
        server.play(scenario(
            json!({"turns": [{"text": "I wait.", "tools": [call]}, {"text": "Never.", "hang": true}]}),
        ));
        let project = speaker.stage(&server);
        let running = project.start(["run", "--headless"]);
        begun(&server, before + 1);
        running.signal(Signal::TERM);
        let finished = running.finish_within(DEADLINE);
        let record = record(&project, &finished);
        assert_eq!(record["failureReason"]["interrupted"], true, "{record:#}");
    }
}

/// Gives files of gemini's sessions the names that those of an earlier minute have: one that begins a session again within a minute begins its file
/// again, and then does not find it.
fn date_back(project: &TestProject) {
    for folder in std::fs::read_dir(project.home().join(".gemini/tmp"))
        .into_iter()
        .flatten()
    {
        let chats = folder.unwrap().path().join("chats");
        for file in std::fs::read_dir(chats).into_iter().flatten() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if let Some((_, id)) = name.rsplit_once('-') {
                let earlier = format!("session-2026-01-01T00-00-{id}");
                std::fs::rename(&path, path.with_file_name(earlier)).unwrap();
            }
        }
    }
}

// covers: AGENT-25
#[test]
fn sessions_of_real_speakers_go_on_in_another_process() {
    let call = json!({"op": "bash", "command": "printf hello > note.txt", "description": "Write"});
    let again = json!({"op": "bash", "command": "printf more >> note.txt", "description": "Write"});
    // Some ask more often than they need to.
    let lanes = json!([
        {"name": "second", "when": {"user": "SECOND"}, "turns": [{"text": "I add.", "tools": [again]}, {"text": "Done.", "repeat": "forever"}]},
        {"name": "first", "turns": [{"text": "I write.", "tools": [call]}, {"text": "FIRST-ANSWER", "repeat": "forever"}]}]);
    let server = serve();
    for speaker in Speaker::all(&server) {
        server.play(scenario(json!({"lanes": lanes})));
        let project = speaker.stage(&server);
        let hank = std::fs::read_to_string(project.directory().join("hank.json")).unwrap();
        let mut hank: Value = serde_json::from_str(&hank).unwrap();
        let mut second = hank["hank"][0].clone();
        second["id"] = json!("second");
        second["promptText"] = json!("SECOND");
        second["continuationMode"] = json!("continue-previous");
        second["approval"] = json!(true);
        hank["hank"].as_array_mut().unwrap().push(second);
        project.write_hank(&hank);
        let first = run(&project);
        date_back(&project);
        let before = server.requests().len();
        project.run(["approve", "second"]).expect_code(0);
        project.run(["run", "--headless"]).expect_code(0);
        let state = project.state(&project.directory());
        let second = codon(&state["runs"][0], "second");
        assert_eq!(second["status"], "completed", "{second:#}");
        assert_eq!(first["claudeSessionId"], second["claudeSessionId"], "{second:#}");
        let asked = format!("{:?}", &server.requests()[before..]);
        assert!(asked.contains("FIRST-ANSWER"), "{asked}");
        let note = std::fs::read_to_string(project.directory().join("note.txt")).unwrap();
        assert_eq!(note, "hellomore");
    }
}

/// The programs that also run natively, with the model that they take.
pub(crate) fn natives(server: &ModelServer) -> impl Iterator<Item = (&'static str, &'static str, Speaker)> {
    let found = [
        ("opencode", "scripted/m", Speaker::opencode()),
        ("gemini", "gemini-2.5-pro", Speaker::gemini(&server.url())),
    ];
    found.into_iter().filter_map(|(name, model, speaker)| {
        let speaker = speaker.inspect_err(|skip| println!("{skip}")).ok()?;
        Some((name, model, speaker))
    })
}

pub(crate) fn native(name: &str, model: &str, speaker: &Speaker, server: &ModelServer) -> TestProject {
    let mut project = speaker.stage(server);
    project.set(
        format!("HANKWEAVE_{}_PATH", name.to_uppercase()),
        &speaker.command[0],
    );
    let limit = json!({"maxTimeSeconds": 60, "onExceeded": "fail"});
    let first = json!({"id": "only", "name": "Only", "agent": name, "model": model, "continuationMode": "fresh", "promptText": "FIRST",
        "appendSystemPromptText": "RULE", "env": speaker.env, "checkpointedFiles": ["*.txt"], "budget": limit});
    project.write_hank(&json!({"hank": [first]}));
    project
}

// covers: AGENT-28, AGENT-29
#[test]
fn opencode_and_gemini_do_the_work_of_codons() {
    let server = serve();
    for (name, model, speaker) in natives(&server) {
        let call = json!({"op": "bash", "command": "printf hello > note.txt", "description": "Write"});
        let turns = json!([
            {"text": "I write.", "usage": {"input": 1000, "output": 50}, "tools": [call]},
            {"text": "Done.", "usage": {"input": 1100, "output": 20}},
            {"text": "More.", "usage": {"input": 1200, "output": 30}}]);
        server.play(scenario(json!({"turns": turns})));
        let project = native(name, model, &speaker, &server);
        let hank = std::fs::read_to_string(project.directory().join("hank.json")).unwrap();
        let mut hank: Value = serde_json::from_str(&hank).unwrap();
        let mut second = hank["hank"][0].clone();
        second["id"] = json!("second");
        second["continuationMode"] = json!("continue-previous");
        hank["hank"].as_array_mut().unwrap().push(second);
        project.write_hank(&hank);

        let first = run(&project);

        let state = project.state(&project.directory());
        let second = codon(&state["runs"][0], "second");
        for (record, output) in [(&first, 70), (second, 30)] {
            assert_eq!(record["status"], "completed", "{name}: {record:#}");
            assert_eq!(
                record["finalTokens"]["outputTokens"], output,
                "{name}: {record:#}"
            );
        }
        assert_eq!(first["claudeSessionId"], second["claudeSessionId"]);
        let note = std::fs::read_to_string(project.directory().join("note.txt")).unwrap();
        assert_eq!(note, "hello");
        assert!(format!("{:?}", server.requests()).contains("RULE"));
    }
}

// covers: AGENT-46
#[test]
fn opencode_and_gemini_cost_what_the_user_says_and_without_a_price_opencode_is_ended() {
    let server = serve();
    for (name, model, speaker) in natives(&server) {
        let call = json!({"op": "bash", "command": "printf hello > note.txt", "description": "Write"});
        let turns = json!([
            {"text": "I write.", "usage": {"input": 1000, "output": 50}, "tools": [call]},
            {"text": "Done.", "usage": {"input": 1100, "output": 20}}]);
        server.play(scenario(json!({"turns": turns})));
        let project = native(name, model, &speaker, &server);
        let prices = json!({"models": {model: {"input": 10, "output": 100}}});
        project.write("mine.json", prices.to_string());
        let run = ["run", "--headless", "--max-cost", "5", "--prices", "mine.json"];
        let finished = project.run(run);
        let done = record(&project, &finished);
        assert_eq!(done["finalCost"], 0.028, "{name}: {done:#}");
        assert_eq!(done["costIsLowerBound"], Value::Null, "{name}: {done:#}");

        if name == "opencode" {
            server.play(scenario(json!({"turns": turns})));
            let project = native(name, model, &speaker, &server);
            let before = server.served().len();
            let finished = project.run(["run", "--headless", "--max-cost", "5"]);
            finished.expect_code(1);
            let record = record(&project, &finished);
            let message = record["failureReason"]["message"].to_string();
            assert!(message.contains("--prices prices.json"), "{message}");
            assert!(server.served().len() <= before + 2, "it was ended");
        }
    }
}

// covers: AGENT-28, AGENT-29
#[test]
fn opencode_and_gemini_fail_and_stop_as_they_should() {
    let server = serve();
    for (name, model, speaker) in natives(&server) {
        let refusal = json!({"status": 401, "type": "authentication_error", "message": "invalid x-api-key"});
        server.play(scenario(
            json!({"turns": [{"error": refusal, "repeat": "forever"}]}),
        ));
        let refused = run(&native(name, model, &speaker, &server));
        assert_eq!(refused["status"], "failed", "{name}: {refused:#}");

        server.play(scenario(json!({"context_limit": 100, "turns": []})));
        let full = run(&native(name, model, &speaker, &server));
        assert_eq!(full["status"], "failed", "{name}: {full:#}");

        let before = server.served().len();
        let call = json!({"op": "bash", "command": "sleep 1000", "description": "Wait"});
        server.play(scenario(json!({"turns": [{"text": "I wait.", "tools": [call]}]})));
        let project = native(name, model, &speaker, &server);
        let running = project.start(["run", "--headless"]);
        begun(&server, before + 1);
        running.signal(Signal::TERM);
        let finished = running.finish_within(DEADLINE);
        let stopped = record(&project, &finished);
        assert_eq!(
            stopped["failureReason"]["interrupted"], true,
            "{name}: {stopped:#}"
        );
    }
}

// covers: AGENT-8, AGENT-28, AGENT-46
#[test]
fn opencode_whose_run_is_killed_costs_what_it_told_at_the_price_of_the_user() {
    let server = serve();
    for (name, model, speaker) in natives(&server).filter(|(name, ..)| *name == "opencode") {
        let call = json!({"op": "bash", "command": "printf hello > note.txt", "description": "Write"});
        let work = json!({"text": "I write.", "usage": {"input": 1_000, "output": 50}, "tools": [call]});
        server.play(scenario(json!({"turns": [work, cut_off(),
            {"text": "Done.", "usage": {"input": 1_100, "output": 20}, "repeat": "forever"}]})));
        let project = native(name, model, &speaker, &server);
        let prices = json!({"models": {model: {"input": 10, "output": 100}}});
        project.write("mine.json", prices.to_string());
        let priced = ["run", "--headless", "--json", "--prices", "mine.json"];
        let mut running = project.start(priced);
        // Usage that was reported is recorded.
        running
            .wait_for_line(|line| line.contains("\"token.usage\"") && line.contains("\"totalCost\":0.015"));
        begun(&server, 2);
        running.kill();
        project.run(priced).expect_code(0);
        let state = project.state(&project.directory());
        let runs = state["runs"].as_array().unwrap();
        let mut records = runs.iter().map(|run| codon(run, "only"));
        let record = records.find(|record| record["status"] != "completed").unwrap();
        assert_eq!(record["partialCost"], 0.015, "{record:#}");
        assert_eq!(record["costIsLowerBound"], true, "{record:#}");
    }
}

fn gemini_project(server: &ModelServer, budget: Value) -> Option<TestProject> {
    let (name, model, speaker) = natives(server).find(|(name, ..)| *name == "gemini")?;
    let project = native(name, model, &speaker, server);
    let hank = std::fs::read_to_string(project.directory().join("hank.json")).unwrap();
    let mut hank: Value = serde_json::from_str(&hank).unwrap();
    hank["hank"][0]["budget"] = budget;
    project.write_hank(&hank);
    Some(project)
}

// covers: HANK-37, AGENT-29
#[test]
fn a_budget_stops_gemini_while_it_works() {
    let server = serve();
    let turn = json!({"text": "I look.", "usage": {"input": 8000, "output": 300},
        "tools": [{"op": "bash", "command": "true", "description": "Look"}]});
    for (limit, answers) in [
        (json!({"maxDollars": 0.02}), 2),
        (json!({"maxOutputTokens": 500}), 2),
        (json!({"maxContextTokens": 8_100}), 1),
    ] {
        // Nothing but the limit ends the answer after those that reach it.
        let turns: Vec<_> = std::iter::repeat_n(turn.clone(), answers)
            .chain([cut_off()])
            .collect();
        server.play(scenario(json!({"turns": turns})));
        let mut budget = limit.clone();
        budget["onExceeded"] = json!("complete");
        let Some(project) = gemini_project(&server, budget) else {
            return;
        };
        let record = run(&project);
        assert_eq!(record["status"], "completed", "{limit}: {record:#}");
        let used = &record["finalTokens"]["outputTokens"];
        assert_eq!(used, 300 * answers, "{limit}: {record:#}");
        assert_eq!(record["costIsLowerBound"], true, "{limit}: {record:#}");
    }
}

// covers: AGENT-8, AGENT-29
#[test]
fn gemini_that_is_killed_costs_at_least_what_its_session_file_tells() {
    let server = serve();
    let call = json!({"op": "bash", "command": "printf hello > note.txt", "description": "Write"});
    let work = json!({"text": "I write.", "usage": {"input": 1000, "output": 50}, "tools": [call]});
    // 1,000 tokens at 1.25 and 50 at 10 dollars a million.
    let check = |record: &Value| {
        assert_eq!(record["partialCost"], 0.001_75, "{record:#}");
        assert_eq!(record["partialTokens"]["outputTokens"], 50, "{record:#}");
        assert_eq!(record["costIsLowerBound"], true, "{record:#}");
    };
    for kills_run in [false, true] {
        let before = server.served().len();
        let turns = json!([work, cut_off(), {"text": "Done.", "usage": {"input": 1100, "output": 20}, "repeat": "forever"}]);
        server.play(scenario(json!({"turns": turns})));
        let limit = json!({"maxTimeSeconds": 60, "onExceeded": "fail"});
        let Some(project) = gemini_project(&server, limit) else {
            return;
        };
        let running = project.start(["run", "--headless"]);
        begun(&server, before + 2);
        if kills_run {
            running.signal(Signal::KILL);
            running.finish_within(DEADLINE);
            project.run(["run", "--headless"]).expect_code(0);
            let state = project.state(&project.directory());
            let runs = state["runs"].as_array().unwrap();
            let mut records = runs.iter().map(|run| codon(run, "only"));
            let crashed = records.find(|record| record["status"] != "completed");
            check(crashed.expect("a run that crashed"));
        } else {
            let state = project.run(["state", "show", "--json"]).json_document();
            let pid = codon(&state["runs"][0], "only")["claudePid"].as_i64().unwrap();
            let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            kill_process(pid, Signal::KILL).unwrap();
            let finished = running.finish_within(DEADLINE);
            check(&record(&project, &finished));
        }
    }
}

/// A scenario in which gemini calls a sub-agent, which answers so.
fn delegated(main: &Value, sub_agent: &Value) -> Scenario {
    scenario(json!({"lanes": [
        {"name": "main", "when": {"first_user": "FIRST"}, "turns": main},
        {"name": "sub-agent", "when": {"user": "HELP"}, "turns": sub_agent}]}))
}

/// Its call of a sub-agent, and the work of that one.
fn delegation() -> (Value, Value) {
    let call =
        json!({"name": "invoke_agent", "input": {"agent_name": "generalist", "prompt": "HELP me look"}});
    let look = json!({"op": "bash", "command": "true", "description": "Look"});
    let usage = |input: u64, output: u64| json!({"input": input, "output": output});
    (
        json!({"text": "I delegate.", "usage": usage(1_000, 50), "tools": [call]}),
        json!({"text": "I look.", "usage": usage(8_000, 300), "tools": [look]}),
    )
}

// covers: HANK-37, AGENT-29
#[test]
fn a_budget_stops_gemini_while_its_sub_agent_works() {
    let server = serve();
    let (main, work) = delegation();
    // Nothing but the limit ends the answer of the sub-agent after those that reach it.
    server.play(delegated(
        &json!([main]),
        &json!([work, work, cut_off(), cut_off(), cut_off()]),
    ));
    let budget = json!({"maxOutputTokens": 500, "onExceeded": "complete"});
    let Some(project) = gemini_project(&server, budget) else {
        return;
    };
    let record = run(&project);
    assert_eq!(record["status"], "completed", "{record:#}");
    assert_eq!(record["finalTokens"]["outputTokens"], 650, "{record:#}");
    // 17,000 tokens at 1.25 and 650 at 10 dollars a million.
    assert_eq!(record["finalCost"], 0.027_75, "{record:#}");
    assert_eq!(record["costIsLowerBound"], true, "{record:#}");
}

// covers: AGENT-8, AGENT-29
#[test]
fn sub_agents_of_gemini_cost_what_was_served_also_after_a_kill() {
    let server = serve();
    let (main, work) = delegation();
    let prices = json!({"models": {"gemini-2.5-pro": {"input": 10, "output": 100}}});
    for ends in [true, false] {
        let before = server.served().len();
        let done = json!({"text": "Done.", "usage": {"input": 1_100, "output": 20}});
        let found = json!({"text": "Found.", "usage": {"input": 600, "output": 40},
            "tools": [{"name": "complete_task", "input": {"response": "fine", "result": "fine"}}]});
        let rest = if ends { found } else { cut_off() };
        server.play(delegated(&json!([main, done]), &json!([work, rest])));
        let Some(project) = gemini_project(&server, json!({"maxTimeSeconds": 60, "onExceeded": "fail"}))
        else {
            return;
        };
        project.write("mine.json", prices.to_string());
        let running = project.start(["run", "--headless", "--prices", "mine.json"]);
        if !ends {
            begun(&server, before + 3);
            running.signal(Signal::KILL);
            running.finish_within(DEADLINE);
            server.play(scenario(
                json!({"turns": [{"text": "Done.", "repeat": "forever"}]}),
            ));
            project.run(["run", "--headless", "--prices", "mine.json"]);
            let state = project.state(&project.directory());
            let runs = state["runs"].as_array().unwrap();
            let mut records = runs.iter().map(|run| codon(run, "only"));
            let record = records.find(|record| record["partialCost"].is_number()).unwrap();
            // 9,000 tokens read and 350 written.
            assert_eq!(record["partialCost"], 0.125, "{record:#}");
            assert_eq!(record["costIsLowerBound"], true, "{record:#}");
            continue;
        }
        let finished = running.finish_within(DEADLINE);
        let record = record(&project, &finished);
        let served = &server.served()[before..];
        let input: u64 = served.iter().map(|answer| answer.input).sum();
        let output: u64 = served.iter().map(|answer| answer.output).sum();
        let microdollars = input * 10 + output * 100;
        assert_eq!(record["finalTokens"]["outputTokens"], output, "{record:#}");
        let cost = record["finalCost"].as_f64().unwrap() * 1e6;
        assert_eq!(cost.round() as u64, microdollars, "{record:#}");
        assert_eq!(record["costIsLowerBound"], Value::Null, "{record:#}");
    }
}

// covers: AGENT-28
#[test]
fn an_answer_that_opencode_asks_for_again_costs_at_least_what_it_told() {
    let server = serve();
    let usage = |input: u64, output: u64| json!({"input": input, "output": output});
    for (name, model, speaker) in natives(&server).filter(|(name, ..)| *name == "opencode") {
        for place in ["mid_stream", "before_stop"] {
            let call = json!({"op": "bash", "command": "printf hello > note.txt", "description": "Write"});
            let turns = json!([
                {"text": "I write.", "usage": usage(1_000, 50), "tools": [call]},
                // Slow enough for opencode to begin a step with it.
                {"text": "I was about to say.", "usage": usage(1_100, 20), "drop": place, "chunk_delay_ms": 500},
                {"text": "Done.", "usage": usage(1_100, 20), "repeat": "forever"}]);
            server.play(scenario(json!({"turns": turns})));
            let project = native(name, model, &speaker, &server);
            let prices = json!({"models": {model: {"input": 10, "output": 100}}});
            project.write("mine.json", prices.to_string());
            let finished = project.run(["run", "--headless", "--prices", "mine.json"]);
            let record = record(&project, &finished);
            assert_eq!(record["status"], "completed", "{place}: {record:#}");
            // 2,100 tokens read and 70 written; no line reports what was cut off.
            assert_eq!(record["finalCost"], 0.028, "{place}: {record:#}");
            assert_eq!(record["costIsLowerBound"], true, "{place}: {record:#}");
        }
    }
}

// covers: HANK-49, AGENT-28
#[test]
fn opencode_shortens_its_conversation_only_when_it_may() {
    let server = serve();
    for (name, model, speaker) in natives(&server).filter(|(name, ..)| *name == "opencode") {
        let project = native(name, model, &speaker, &server);
        let settings = project.home().join(".config/opencode/opencode.json");
        let mut opencode: Value = serde_json::from_str(&std::fs::read_to_string(&settings).unwrap()).unwrap();
        opencode["provider"]["scripted"]["models"]["m"]["limit"] =
            json!({"context": 200_000, "output": 8_000});
        std::fs::write(&settings, opencode.to_string()).unwrap();
        let hank = std::fs::read_to_string(project.directory().join("hank.json")).unwrap();
        let mut codon: Value = serde_json::from_str(&hank).unwrap();
        let codon = &mut codon["hank"][0];
        let call = json!({"op": "bash", "command": "true", "description": "Read"});
        let turns = json!([
            {"text": "I read on.", "usage": {"input": 195_000, "output": 50}, "tools": [call]},
            {"text": "Done.", "usage": {"input": 1_100, "output": 20}}]);
        for (may, answers) in [(false, 2), (true, 3)] {
            codon["autoCompact"] = json!(may);
            if may {
                codon["exhaustWithPrompt"] = json!("Go on.");
            }
            project.write_hank(&json!({"hank": [codon]}));
            let before = server.served().len();
            server.play(scenario(json!({"turns": turns})));
            let finished = project.run(["run", "--headless", "--new"]);
            assert_eq!(server.served().len() - before, answers, "{finished}");
            let state = project.state(&project.directory());
            let record = &state["runs"][0]["codons"][0];
            assert_eq!(record["status"], "completed", "{record:#}");
            let full = if may { json!(true) } else { Value::Null };
            assert_eq!(record["contextExceeded"], full, "{record:#}");
        }
    }
}
