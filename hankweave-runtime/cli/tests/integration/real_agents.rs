//! The real `codex` and `pi`, as `real_claude`, `real_money` and `real_scenarios` have the real `claude`.

use std::ffi::OsString;
use std::path::PathBuf;

use hankweave_testing::{Finished, ModelServer, Scenario, Skip, TestProject, agents};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::real_money::{DEADLINE, Rates, assert_at_most, assert_true_at, begun, cut_off, end};
use crate::supervision::Pipe;
use crate::support::{assert_usd, codon, project};

const GOOD_KEY: &str = "sk-good";

/// A program that talks to a scripted model.
pub(crate) struct RealAgent {
    name: &'static str,
    program: PathBuf,
    path: Option<OsString>,
    model: &'static str,
    rates: Rates,
}

impl RealAgent {
    /// Returns Codex, both versions of pi, and the newest ones where variables name them; prints those that are missing.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        [
            Self::codex(agents::codex()),
            Self::codex(agents::other_codex()),
            Self::pi(agents::pi()),
            Self::pi(agents::newest_pi()),
            Self::pi(agents::other_pi()),
        ]
        .into_iter()
        .filter_map(|agent| agent.inspect_err(|skip| println!("{skip}")).ok())
        .inspect(|agent| println!("with {}", agent.program.display()))
    }

    pub(crate) fn codex(found: Result<PathBuf, Skip>) -> Result<Self, Skip> {
        let rates = Rates {
            input: 1_250,
            output: 10_000,
            write: 1_250,
            write_1h: 1_250,
            read: 125,
            tells_writes: false,
        };
        Ok(Self {
            name: "codex",
            program: found?,
            path: None,
            model: "gpt-5.1-codex",
            rates,
        })
    }

    pub(crate) fn pi(found: Result<(PathBuf, OsString), Skip>) -> Result<Self, Skip> {
        let (program, path) = found?;
        Ok(Self {
            name: "pi",
            program,
            path: Some(path),
            model: "scripted/scripted-model",
            rates: Rates::SONNET,
        })
    }

    /// A project in which this agent asks a server with this scenario.
    pub(crate) fn stage(&self, scenario: Value) -> (TestProject, ModelServer) {
        let server = ModelServer::start(Scenario::try_from(scenario).unwrap()).unwrap();
        (self.another_machine(&server), server)
    }

    /// Another project, with a home of its own, in which it asks this server.
    pub(crate) fn another_machine(&self, server: &ModelServer) -> TestProject {
        let mut project = project();
        let variable = format!("HANKWEAVE_{}_PATH", self.name.to_uppercase());
        project.set(variable, &self.program);
        if let Some(path) = &self.path {
            project.set("PATH", path);
        }
        for (file, text) in settings(server) {
            let file = project.home().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        project
    }

    pub(crate) fn codon(&self, id: &str, mode: &str, prompt: &str) -> Value {
        json!({"id": id, "name": id, "agent": self.name, "model": self.model, "continuationMode": mode, "promptText": prompt,
            "checkpointedFiles": ["**/*.txt"], "env": {"SCRIPTED_KEY": GOOD_KEY, "PI_OFFLINE": "1", "PI_TELEMETRY": "0"}})
    }

    /// Whether usage in this story is unknown: codex does not report whether an answer of a sub-agent was cut off, nor pi what it uses to sum up a
    /// conversation.
    pub(crate) fn keeps_silent_about(&self, story: &str) -> bool {
        let story = story.trim_end_matches("-first");
        [("codex", "subagent"), ("pi", "context-exceeded")].contains(&(self.name, story))
    }

    /// Pi leaves nothing running in the background, and its node never comes back from making a folder in `/proc`.
    pub(crate) fn cannot_play(&self, story: &str) -> bool {
        self.name == "pi" && ["background-command", "permission"].contains(&story)
    }

    /// At most what was served is recorded, and marked where that is less.
    pub(crate) fn assert_at_most(&self, project: &TestProject, server: &ModelServer) {
        assert_at_most(&self.rates, project, server);
    }

    pub(crate) fn assert_true(&self, project: &TestProject, server: &ModelServer) {
        assert_true_at(&self.rates, project, server);
    }
}

/// The settings of each agent, in the home of the project.
pub(crate) fn settings(server: &ModelServer) -> [(&'static str, String); 3] {
    let url = server.url();
    let codex = format!(
        "model_provider = \"scripted\"\ncheck_for_update_on_startup = false\n[analytics]\nenabled = false\n\
         [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{url}/v1\"\nwire_api = \"responses\"\n\
         env_key = \"SCRIPTED_KEY\"\nrequest_max_retries = 2\nstream_max_retries = 2\nsupports_websockets = false\n"
    );
    let model = json!({"id": "scripted-model", "name": "scripted", "contextWindow": 200_000, "maxTokens": 8_000,
        "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75}});
    let pi = json!({"providers": {"scripted": {"baseUrl": url, "api": "anthropic-messages",
        "apiKey": "!printf %s \"$SCRIPTED_KEY\"", "models": [model]}}});
    let retries = json!({"retry": {"enabled": true, "maxRetries": 2, "baseDelayMs": 10}});
    [
        (".codex/config.toml", codex),
        (".pi/agent/models.json", pi.to_string()),
        (".pi/agent/settings.json", retries.to_string()),
    ]
}

#[track_caller]
fn run(project: &TestProject) -> Finished {
    let finished = project.run(["run", "--headless"]);
    assert_eq!(project.left_behind(), []);
    finished
}

fn only_run(project: &TestProject) -> Value {
    project.state(&project.directory())["runs"][0].clone()
}

/// An answer that has a file written.
fn work() -> Value {
    json!({"text": "I write the note.", "usage": {"input": 1000, "output": 50, "cache_read": 2000},
        "tools": [{"op": "bash", "command": "printf hello > note.txt", "description": "Write"}]})
}

// covers: AGENT-16, AGENT-17, AGENT-20, AGENT-21
#[test]
fn a_session_goes_on_and_a_wrong_key_fails() {
    for agent in RealAgent::all() {
        let done = json!({"text": "Done.", "usage": {"input": 1200, "output": 70, "cache_read": 2000}});
        let next = json!({"text": "Five bytes.", "usage": {"input": 1700, "output": 37, "cache_read": 3000}});
        let (project, server) = agent.stage(json!({"require_key": GOOD_KEY, "lanes": [
            {"name": "next", "when": {"user": "SECOND-TASK"}, "turns": [next]},
            {"name": "work", "when": {"user": "FIRST-TASK"}, "turns": [work(), done]}]}));
        let mut first = agent.codon("first", "fresh", "FIRST-TASK: write the note.");
        first["appendSystemPromptText"] = json!("RULE-OF-THE-HOUSE");
        let second = agent.codon("second", "continue-previous", "SECOND-TASK");
        let mut refused = agent.codon("refused", "fresh", "THIRD-TASK");
        refused["env"]["SCRIPTED_KEY"] = json!("sk-wrong");
        project.write_hank(&json!({"hank": [first, second, refused]}));

        run(&project).expect_code(1);

        let note = std::fs::read_to_string(project.directory().join("note.txt")).unwrap();
        assert_eq!(note, "hello");
        assert!(format!("{:?}", server.requests()).contains("RULE-OF-THE-HOUSE"));
        agent.assert_true(&project, &server);
        let run = only_run(&project);
        let [first, second, refused] = ["first", "second", "refused"].map(|id| codon(&run, id));
        assert_eq!(
            second["finalTokens"]["inputTokens"], 1700,
            "what came before is not counted again"
        );
        assert_eq!(second["claudeSessionId"], first["claudeSessionId"]);
        for record in [first, second] {
            assert_eq!(record["status"], "completed", "{record:#}");
            assert_eq!(record["costIsLowerBound"], Value::Null, "{record:#}");
        }
        assert_eq!(refused["status"], "failed");
        assert_eq!(refused["failureReason"]["retriable"], false, "{refused:#}");
        assert_usd(&refused["partialCost"], 0.0);
    }
}

// covers: AGENT-17
#[test]
fn what_a_failed_run_used_is_counted() {
    for agent in RealAgent::all() {
        let fails =
            json!({"error": {"status": 500, "type": "server_error", "message": "no"}, "repeat": "forever"});
        let (project, server) = agent.stage(json!({"turns": [work(), fails]}));
        project.write_hank(&json!({"hank": [agent.codon("work", "fresh", "TASK")]}));

        run(&project).expect_code(1);

        agent.assert_true(&project, &server);
        let run = only_run(&project);
        let failed = codon(&run, "work");
        assert_eq!(failed["failureReason"]["retriable"], true, "{failed:#}");
        assert_eq!(failed["partialTokens"]["outputTokens"], 50);
    }
}

/// What codex asks for in a faster tier, and what its provider searches.
// covers: AGENT-17, AGENT-34
#[test]
fn tiers_of_service_and_searches_of_codex_cost_what_was_served() {
    let searches = json!({"text": "Found.", "usage": {"input": 1000, "output": 50, "cache_read": 2000, "web_searches": 3},
        "tools": [{"op": "bash", "command": "true", "description": "Work"}]});
    for agent in RealAgent::all().filter(|agent| agent.name == "codex") {
        for (tier, times) in [
            ("", 10),
            ("service_tier = \"fast\"\n", 25),
            ("service_tier = \"flex\"\n", 5),
        ] {
            let (project, server) = agent.stage(json!({"turns": [searches, end()]}));
            let settings = project.home().join(".codex/config.toml");
            let text = std::fs::read_to_string(&settings).unwrap();
            std::fs::write(&settings, format!("{tier}{text}")).unwrap();
            let mut only = agent.codon("work", "fresh", "TASK");
            only["model"] = json!("gpt-5.5");
            project.write_hank(&json!({"hank": [only]}));

            run(&project).expect_code(0);

            // $5 in, $30 out and $0.50 from the cache.
            let rates = Rates {
                input: 500 * times,
                output: 3_000 * times,
                write: 500 * times,
                write_1h: 500 * times,
                read: 50 * times,
                tells_writes: false,
            };
            assert!(!assert_true_at(&rates, &project, &server), "{tier}");
            let run = only_run(&project);
            assert_eq!(codon(&run, "work")["costIsLowerBound"], Value::Null, "{tier}");
        }
        // A tier without a known price.
        let (project, server) = agent.stage(json!({"turns": [end()]}));
        let settings = project.home().join(".codex/config.toml");
        let text = std::fs::read_to_string(&settings).unwrap();
        std::fs::write(&settings, format!("service_tier = \"fast\"\n{text}")).unwrap();
        project.write("mine.json", r#"{"models": {"gpt-5.5": {"input": 1.25, "output": 10, "cacheWrite": 1.25, "cacheRead": 0.125}}}"#);
        let mut only = agent.codon("work", "fresh", "TASK");
        only["model"] = json!("gpt-5.5");
        project.write_hank(&json!({"hank": [only]}));
        project
            .run(["run", "--headless", "--prices", "mine.json"])
            .expect_code(0);
        agent.assert_true(&project, &server);
        assert_eq!(codon(&only_run(&project), "work")["costIsLowerBound"], true);
    }
}

/// A repeated request would get the half answer again, and would be paid for again.
// covers: AGENT-9
#[test]
fn an_answer_that_the_output_limit_of_codex_cuts_is_paid_for_once() {
    for agent in RealAgent::all().filter(|agent| agent.name == "codex") {
        let cut = json!({"text": "It stops in the midd", "stop_reason": "max_tokens", "usage": {"input": 310, "output": 32_000}, "repeat": "forever"});
        let (project, server) = agent.stage(json!({"turns": [cut]}));
        let mut only = agent.codon("work", "fresh", "TASK");
        only["onFailure"] = json!("retry");
        only["retryConfig"] = json!({"delayMs": 0});
        project.write_hank(&json!({"hank": [only]}));

        run(&project).expect_code(1);

        assert_eq!(server.served().len(), 1, "{:#?}", server.served());
        agent.assert_true(&project, &server);
        let record = codon(&only_run(&project), "work").clone();
        assert_eq!(record["failureReason"]["retriable"], false, "{record:#}");
        assert_eq!(record["costIsLowerBound"], Value::Null, "{record:#}");
    }
}

// covers: AGENT-46
#[test]
fn a_price_that_the_user_gives_counts_for_every_agent() {
    for agent in RealAgent::all() {
        let (project, server) = agent.stage(json!({"turns": [work(), end()]}));
        let rates = tenfold(&agent, &project);
        project.write_hank(&json!({"hank": [agent.codon("work", "fresh", "TASK")]}));

        project
            .run(["run", "--headless", "--max-cost", "5", "--prices", "mine.json"])
            .expect_code(0);

        assert!(!assert_true_at(&rates, &project, &server));
    }
}

// covers: AGENT-8, AGENT-46
#[test]
fn what_an_agent_used_whose_run_was_killed_has_the_price_that_the_user_gives() {
    for agent in RealAgent::all() {
        let (project, server) = agent.stage(json!({"turns": [work(), cut_off(), work(), end()]}));
        project.write_hank(&json!({"hank": [agent.codon("work", "fresh", "TASK")]}));
        let rates = tenfold(&agent, &project);
        let priced = ["run", "--headless", "--prices", "mine.json"];
        let mut running = project.start(priced);
        running.wait_for_line(|line| line.contains("I write the note."));
        begun(&server, 2);
        running.kill();
        project.run(priced).expect_code(0);
        assert!(assert_true_at(&rates, &project, &server), "an answer was cut off");
    }
}

/// Writes prices for the agent's model, and returns them.
fn tenfold(agent: &RealAgent, project: &TestProject) -> Rates {
    let price = json!({"input": 30, "output": 150, "cacheWrite": 30, "cacheRead": 3});
    project.write("mine.json", json!({"models": {agent.model: price}}).to_string());
    Rates {
        input: 30_000,
        output: 150_000,
        write: 30_000,
        write_1h: 60_000,
        read: 3_000,
        tells_writes: agent.rates.tells_writes,
    }
}

/// Pi has a model without a price, so its dollars cannot be counted; the file of the hint helps.
// covers: AGENT-46
#[test]
fn pi_is_ended_at_its_first_answer_when_its_dollars_are_limited_and_have_no_price() {
    for agent in RealAgent::all().filter(|agent| agent.name == "pi") {
        let (project, server) = agent.stage(json!({"turns": [work(), work(), work(), end()]}));
        let models = project.home().join(".pi/agent/models.json");
        let mut settings: Value = serde_json::from_str(&std::fs::read_to_string(&models).unwrap()).unwrap();
        settings["providers"]["scripted"]["models"][0]["cost"] =
            json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0});
        std::fs::write(&models, settings.to_string()).unwrap();
        project.write_hank(&json!({"hank": [agent.codon("work", "fresh", "TASK")]}));

        let finished = project.run(["run", "--headless", "--max-cost", "0.01"]);
        finished.expect_code(1);
        let record = codon(&only_run(&project), "work").clone();
        let message = record["failureReason"]["message"].as_str().unwrap();
        assert!(
            message.contains("`scripted-model`") && message.contains("--prices prices.json"),
            "{message}"
        );
        assert!(server.served().len() <= 2, "{:#?}", server.served());
        assert!(
            finished.stderr.contains("unknown") && !finished.stderr.contains("$0.0000"),
            "{finished}"
        );

        let validated = project.run(["validate", "--max-cost", "0.5"]);
        let (_, hint) = validated.stdout.split_once("prices.json: ").unwrap();
        let (example, _) = hint.split_once("; `--prices").unwrap();
        project.write("mine.json", example);
        project
            .run([
                "run",
                "--new",
                "--headless",
                "--max-cost",
                "0.5",
                "--prices",
                "mine.json",
            ])
            .expect_code(0);
        let state = project.state(&project.directory());
        let record = codon(&state["runs"][0], "work");
        assert!(
            record["finalCost"].as_f64().unwrap() > 0.0 && record["costIsLowerBound"].is_null(),
            "{record:#}"
        );
    }
}

// covers: HANK-37, AGENT-17
#[test]
fn a_budget_stops_an_agent_at_most_one_answer_late() {
    for agent in RealAgent::all() {
        let turn = json!({"text": "I wait.", "usage": {"input": 8000, "output": 300}, "repeat": "forever",
            "tools": [{"op": "bash", "command": "sleep 0.2", "description": "Wait"}]});
        for budget in [json!({"maxDollars": 0.05}), json!({"maxOutputTokens": 500})] {
            let (project, server) = agent.stage(json!({"turns": [turn]}));
            let mut only = agent.codon("work", "fresh", "TASK");
            only["budget"] = budget.clone();
            project.write_hank(&json!({"hank": [only]}));

            run(&project).expect_code(0);

            agent.assert_true(&project, &server);
            let run = only_run(&project);
            let used = codon(&run, "work")["finalTokens"]["outputTokens"]
                .as_u64()
                .unwrap();
            // The limit in tokens is reached with the second answer, that in dollars with the second one of pi and with the fourth or fifth of codex.
            assert!(
                (600..=1_500).contains(&used),
                "{budget}: {used} tokens were written"
            );
        }
    }
}

// covers: AGENT-8, AGENT-17
#[test]
fn a_killed_agent_costs_what_it_had_used() {
    for agent in RealAgent::all() {
        for signal in [Signal::TERM, Signal::KILL] {
            let (project, server) = agent.stage(json!({"turns": [work(), cut_off()]}));
            project.write_hank(&json!({"hank": [agent.codon("work", "fresh", "TASK")]}));
            let running = project.start(["run", "--headless"]);
            begun(&server, 2);
            // With what the log has and the file does not have yet.
            let state = project.run(["state", "show", "--json"]).json_document();
            let pid = codon(&state["runs"][0], "work")["claudePid"].as_i64().unwrap();
            kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
            running.finish_within(DEADLINE).expect_code(1);
            assert_eq!(project.left_behind(), []);
            agent.assert_true(&project, &server);
        }
    }
}

// covers: AGENT-16
#[test]
fn a_run_that_is_stopped_or_killed_goes_on_and_costs_what_was_served() {
    for agent in RealAgent::all() {
        for signal in [Signal::TERM, Signal::KILL] {
            let (project, server) = agent.stage(json!({"turns": [work(), cut_off(), work(), end()]}));
            project.write_hank(&json!({"hank": [agent.codon("work", "fresh", "TASK")]}));
            let mut running = project.start(["run", "--headless"]);
            // Output that the agent has printed and we have not read is lost with us. It is marked, and counted only if the agent stores it.
            running.wait_for_line(|line| line.contains("I write the note."));
            begun(&server, 2);
            running.signal(signal);
            running.finish_within(DEADLINE);
            run(&project).expect_code(0);
            agent.assert_true(&project, &server);
        }
    }
}

// covers: HANK-61
#[test]
fn an_agent_is_told_that_its_work_does_not_pass_and_mends_it() {
    for agent in RealAgent::all() {
        let mends = json!({"text": "I mend it.", "usage": {"input": 1100, "output": 40},
            "tools": [{"op": "bash", "command": "printf world >> note.txt", "description": "Mend"}]});
        let lanes = json!([
            {"name": "told", "when": {"user": "note.txt lacks the world"}, "turns": [mends, end()]},
            {"name": "first", "turns": [work(), end()]}]);
        let (project, server) = agent.stage(json!({"lanes": lanes}));
        let mut only = agent.codon("work", "fresh", "TASK");
        only["check"] =
            json!({"run": "grep -q world note.txt || { echo note.txt lacks the world; exit 1; }"});
        project.write_hank(&json!({"hank": [only]}));

        run(&project).expect_code(0);

        let note = std::fs::read_to_string(project.directory().join("note.txt")).unwrap();
        assert_eq!(note, "helloworld");
        assert_eq!(server.served().len(), 4);
        agent.assert_true(&project, &server);
    }
}

/// Answers that leave no room in the context: codex looks before it asks its model again, pi when its work is done.
fn nearly_full() -> [Value; 2] {
    [
        json!({"text": "I read on.", "usage": {"input": 265_000, "output": 50},
            "tools": [{"op": "bash", "command": "true", "description": "Read"}]}),
        json!({"text": "Read.", "usage": {"input": 265_000, "output": 50}}),
    ]
}

/// Pi shortens nothing that is short already.
fn shorten_anything(project: &TestProject) {
    let settings = json!({"compaction": {"enabled": true, "keepRecentTokens": 1}});
    let file = project.home().join(".pi/agent/settings.json");
    std::fs::write(file, settings.to_string()).unwrap();
}

// covers: RUN-10, AGENT-18, AGENT-20
#[test]
fn a_loop_until_the_context_is_full_ends_when_the_agent_shortens_its_conversation() {
    for agent in RealAgent::all() {
        let [reads, ends] = nearly_full();
        let (project, server) = agent.stage(json!({"turns": [end(), end(), reads, ends, end()]}));
        shorten_anything(&project);
        let mut inner = agent.codon("again", "continue-previous", "LOOP-TASK");
        inner["autoCompact"] = json!(true);
        project.write_hank(&json!({"hank": [agent.codon("begin", "fresh", "BEGIN-TASK"),
            {"type": "loop", "id": "l", "name": "L", "terminateOn": {"type": "contextExceeded"}, "codons": [inner]}]}));

        run(&project).expect_code(0);

        let run = only_run(&project);
        let ran = run["codons"].as_array().unwrap().iter();
        let ran: Vec<&str> = ran.map(|record| record["codonId"].as_str().unwrap()).collect();
        assert_eq!(ran, ["begin", "again#0", "again#1"]);
        let full = codon(&run, "again#1");
        let ended = (&full["status"], &full["contextExceeded"]);
        assert_eq!(ended, (&json!("completed"), &json!(true)));
        if !agent.keeps_silent_about("context-exceeded") {
            agent.assert_true(&project, &server);
        }
    }
}

// covers: HANK-49, AGENT-21
#[test]
fn pi_keeps_its_conversation_unless_it_may_shorten_it() {
    for agent in RealAgent::all().filter(|agent| agent.name == "pi") {
        let (project, server) = agent.stage(json!({"turns": nearly_full()}));
        shorten_anything(&project);
        project.write_hank(&json!({"hank": [agent.codon("work", "fresh", "TASK")]}));

        run(&project).expect_code(0);

        assert_eq!(server.served().len(), 2, "no summary was asked for");
        agent.assert_true(&project, &server);
        let run = only_run(&project);
        assert_eq!(codon(&run, "work")["costIsLowerBound"], Value::Null);
    }
}

/// A sub-agent whose third answer reaches $0.1 and has a tool that never ends, while the agent itself waits.
fn delegates() -> Value {
    let waits = |usage: Value| {
        json!({"text": "I wait.", "usage": usage, "repeat": "forever",
        "tools": [{"op": "bash", "command": "tail -f /dev/null", "description": "Wait"}]})
    };
    let task = json!({"op": "task", "description": "Job", "prompt": "DELEGATED: work", "subagent": "general-purpose"});
    let long = |command: &str| {
        json!({"text": "I work.", "usage": {"input": 300, "output": 4000},
        "tools": [{"op": "bash", "command": command, "description": "Work"}]})
    };
    let held = long("echo held > \"$HOME/held\"; tail -f /dev/null");
    json!({"lanes": [
        {"name": "helper", "when": {"user": "DELEGATED"}, "turns": [
            long("echo 1"), long("echo 2"), held, waits(json!({"input": 10, "output": 1}))]},
        {"name": "main", "turns": [
            {"text": "I delegate.", "tools": [task], "usage": {"input": 1000, "output": 40}},
            waits(json!({"input": 10, "output": 1}))]}]})
}

// covers: AGENT-19, HANK-37
#[test]
fn a_budget_stops_codex_while_its_sub_agent_works() {
    for agent in RealAgent::all().filter(|agent| agent.name == "codex") {
        let (project, server) = agent.stage(delegates());
        let mut only = agent.codon("work", "fresh", "TASK");
        only["budget"] = json!({"maxDollars": 0.1});
        project.write_hank(&json!({"hank": [only]}));

        run(&project).expect_code(0);

        agent.assert_true(&project, &server);
        let record = codon(&only_run(&project), "work").clone();
        assert_eq!(record["budgetExceeded"]["limit"], 0.1, "{record:#}");
        assert_eq!(record["costIsLowerBound"], true, "{record:#}");
    }
}

// covers: AGENT-8, AGENT-19
#[test]
fn sub_agents_of_codex_cost_what_was_served_also_after_a_kill() {
    for agent in RealAgent::all().filter(|agent| agent.name == "codex") {
        let (project, server) = agent.stage(delegates());
        project.write_hank(&json!({"hank": [agent.codon("work", "fresh", "TASK")]}));
        let pipe = Pipe::named(&project, "held");
        let running = project.start(["run", "--headless"]);
        assert_eq!(pipe.line(), "held");
        running.kill();
        // The next start finds what was used, and nothing is left for it.
        project
            .run(["run", "--headless", "--max-cost", "0.1"])
            .expect_code(3);
        agent.assert_true(&project, &server);
        let state = project.state(&project.directory());
        let killed = state["runs"].as_array().unwrap().last().unwrap();
        assert_eq!(codon(killed, "work")["costIsLowerBound"], true, "{state:#}");
    }
}

/// An agent that only talks is prompted in its session that nothing changed, also if its run was stopped in between: what it did before counts.
// covers: HANK-66
#[test]
fn real_agents_are_told_in_their_session_that_they_changed_nothing() {
    for agent in RealAgent::all() {
        let says = |text: &str| json!({"text": text, "usage": {"input": 10, "output": 5}});
        let command = "echo hello > note.txt";
        let writes = json!({"text": "Now I do it.", "usage": {"input": 10, "output": 5},
            "tools": [{"op": "bash", "command": command, "description": "Write the note"}]});
        let (project, server) = agent.stage(json!({"lanes": [
            {"name": "told", "when": {"user": "no file has changed since you began"}, "turns": [writes, says("Done.")]},
            {"name": "talks", "when": {"user": "TALK"}, "turns": [says("I would need more information.")]}]}));
        let mut only = agent.codon("only", "fresh", "TALK");
        only["requires"] = "changes".into();
        project.write_hank(&json!({"hank": [only]}));
        project.run(["run", "--headless"]).expect_code(0);
        let state = project.state(&project.directory());
        let record = codon(&state["runs"][0], "only");
        assert_eq!(
            (&record["status"], &record["filesChanged"]),
            (&json!("completed"), &json!(1)),
            "{record:#}"
        );
        agent.assert_at_most(&project, &server);
    }
}
