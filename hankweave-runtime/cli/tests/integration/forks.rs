//! Codons that continue from a copy of an earlier conversation (HANK-95, STATE-55, AGENT-71).

use std::path::PathBuf;

use hankweave_testing::{Finished, ModelServer, Scenario, TestProject, agents};
use serde_json::{Value, json};

use crate::real_acp::{native, natives};
use crate::real_agents::RealAgent;
use crate::real_money::{DEADLINE, Rates, assert_true_at, begun};
use crate::real_stories::{real, stage};
use crate::support::{assert_usd, codon, project};

/// An agent whose conversations are files next to the workspace, with a line for each prompt: the first line of the prompt and the iteration. The
/// conversation of its N-th process for a task is stored in `seen-TASK-N`, and its prompt in `prompt-TASK-N`. It fails if `fails-TASK-N` exists, and
/// waits for ever if `waits-TASK` exists. If `stays` exists, it continues the conversation itself instead of a copy. Its task is its argument.
const AGENT: &str = r#"
task=$1
base=${BASE:-..}
prompt=$(cat)
mkdir -p "$base/sessions"
n=$(($(cat "$base/count-$task" 2>/dev/null || echo 0) + 1))
echo $n > "$base/count-$task"
session=${HANKWEAVE_RESUME_SESSION:-s-$task-$n}
if [ -n "$HANKWEAVE_FORK_SESSION" ] && [ ! -e "$base/stays" ]; then
  session=f-$task-$n
  cp "$base/sessions/$HANKWEAVE_RESUME_SESSION" "$base/sessions/$session"
fi
printf '%s%s\n' "$(printf '%s' "$prompt" | head -n 1)" "${HANKWEAVE_ITERATION:+ #$HANKWEAVE_ITERATION}" >> "$base/sessions/$session"
cp "$base/sessions/$session" "$base/seen-$task-$n"
printf '%s' "$prompt" > "$base/prompt-$task-$n"
printf '{"type":"system","subtype":"init","session_id":"%s","model":"claude-haiku-4-5","cwd":"/","tools":[]}\n' "$session"
printf '{"type":"assistant","session_id":"%s","parent_tool_use_id":null,"message":{"id":"m-%s-%s","role":"assistant","model":"claude-haiku-4-5","content":[{"type":"text","text":"I work."}],"usage":{"input_tokens":1000,"output_tokens":100}}}\n' "$session" "$task" "$n"
if [ -e "$base/waits-$task" ]; then exec sleep 600; fi
usage='"usage":{"input_tokens":1000,"output_tokens":100}'
if [ -e "$base/fails-$task-$n" ]; then
  printf '{"type":"result","subtype":"success","is_error":true,"session_id":"%s","result":"%s",%s}\n' "$session" "$(cat "$base/fails-$task-$n")" "$usage"
  exit 1
fi
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"%s","result":"{\"files\": [\"%s\"]}",%s}\n' "$session" "$task" "$usage"
"#;

/// Cost of a process of that agent.
const PROCESS: f64 = 0.0015;

const FRESH: &str = "fresh";

struct Story(TestProject);

impl Story {
    fn new() -> Self {
        Self(project())
    }

    fn agent(&self, task: &str) -> Value {
        json!({"command": ["sh", self.0.write("agent.sh", AGENT), task], "stream": "claude"})
    }

    /// A codon of the agent; `mode` is its continuation mode.
    fn codon(&self, id: &str, mode: Value, more: &Value) -> Value {
        let mut codon = json!({"id": id, "name": id, "agent": self.agent(id), "model": "claude-haiku-4-5", "continuationMode": mode,
            "promptText": id.to_uppercase(), "checkpointedFiles": ["*.txt"]});
        codon
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        codon
    }

    /// Writes a hank of these codons. All have one agent, since an agent can only continue its own conversations.
    fn hank(&self, codons: &[Value]) {
        self.0.write_hank(&json!({"hank": codons}));
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.0.directory().parent().unwrap().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.beside(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.beside(name)).unwrap_or_default()
    }

    /// Conversation of the N-th process of a task, a word for each prompt.
    fn seen(&self, process: &str) -> Vec<String> {
        let seen = self.read(&format!("seen-{process}"));
        seen.lines().map(str::to_owned).collect()
    }

    fn run(&self, code: i32) -> Finished {
        let finished = self.0.run(["run", "--headless"]);
        finished.expect_code(code);
        finished
    }

    fn state(&self) -> Value {
        self.0.state(&self.0.directory())
    }
}

fn fork(id: &str) -> Value {
    json!({"fork": id})
}

fn nothing() -> Value {
    json!({})
}

// covers: HANK-95, STATE-55, AGENT-71
#[test]
fn several_codons_fork_one_conversation_which_stays_as_it_is() {
    let story = Story::new();
    let result = json!({"result": {"schema": {"type": "object", "required": ["files"]}}});
    story.hank(&[
        story.codon("plan", json!(FRESH), &nothing()),
        story.codon("build", fork("plan"), &result),
        story.codon(
            "docs",
            fork("plan"),
            &json!({"promptText": "DOCS for <%results.build.files.0%>"}),
        ),
        story.codon("test", json!("continue-previous"), &nothing()),
        story.codon("last", fork("build"), &nothing()),
    ]);
    let validated = story.0.run(["validate"]).expect_code(0).stdout.clone();
    assert!(
        validated.contains("build  command with claude-haiku-4-5, prompt 5 B, forks plan"),
        "{validated}"
    );
    let document = story.0.run(["validate", "--json"]).json_document();
    assert_eq!(document["codons"][1]["forks"], "plan");
    story.run(0);
    for (process, expected) in [
        ("build-1", &["PLAN", "BUILD"][..]),
        ("docs-1", &["PLAN", "DOCS for build"]),
        ("test-1", &["PLAN", "DOCS for build", "TEST"]),
        ("last-1", &["PLAN", "BUILD", "LAST"]),
    ] {
        assert_eq!(story.seen(process), expected, "{process}");
    }
    assert_eq!(story.read("sessions/s-plan-1"), "PLAN\n", "it is as it was");
    let state = story.state();
    let run = &state["runs"][0];
    for (id, session, from) in [
        ("build", "f-build-1", "s-plan-1"),
        ("docs", "f-docs-1", "s-plan-1"),
        ("test", "f-docs-1", "f-docs-1"),
        ("last", "f-last-1", "f-build-1"),
    ] {
        let record = codon(run, id);
        assert_eq!(
            (&record["claudeSessionId"], &record["previousSessionId"]),
            (&json!(session), &json!(from))
        );
        assert_usd(&record["finalCost"], PROCESS);
    }
    let thread = story.0.run(["thread", "--json"]).json_document();
    assert_eq!(thread["sessions"]["docs"], "s-plan-1");
    let told = story.0.run(["logs"]).stdout;
    assert!(told.contains("continues with a copy of the session"), "{told}");
    story.0.run(["replay", "."]).expect_code(0);
}

// covers: HANK-95, STATE-55
#[test]
fn in_a_loop_the_newest_iteration_that_completed_is_forked() {
    let story = Story::new();
    let ignored = json!({"onFailure": "ignore"});
    let codons = [
        story.codon("draft", fork("plan"), &ignored),
        story.codon("judge", fork("draft"), &ignored),
    ];
    story.hank(&[
        story.codon("plan", json!(FRESH), &nothing()),
        json!({"type": "loop", "id": "rounds", "name": "Rounds", "codons": codons, "terminateOn": {"type": "iterationLimit", "limit": 3}}),
        story.codon("end", fork("draft"), &nothing()),
    ]);
    story.put("fails-draft-3", "it does not compile");
    story.run(0);
    for (process, expected) in [
        ("draft-2", &["PLAN", "DRAFT #1"][..]),
        ("judge-1", &["PLAN", "DRAFT #0", "JUDGE #0"]),
        ("judge-2", &["PLAN", "DRAFT #1", "JUDGE #1"]),
        ("judge-3", &["PLAN", "DRAFT #1", "JUDGE #2"]),
        ("end-1", &["PLAN", "DRAFT #1", "END"]),
    ] {
        assert_eq!(story.seen(process), expected, "{process}");
    }
}

// covers: STATE-55, RUN-3
#[test]
fn after_a_retry_a_kill_and_a_rollback_the_copy_is_made_anew_and_a_session_of_its_own_goes_on() {
    let story = Story::new();
    let retry = json!({"onFailure": "retry", "retryConfig": {"maxAttempts": 1, "delayMs": 0}});
    story.hank(&[
        story.codon("plan", json!(FRESH), &nothing()),
        story.codon("build", fork("plan"), &retry),
        story.codon("last", fork("plan"), &nothing()),
    ]);
    story.put("fails-build-1", "API Error: 529 overloaded_error");
    story.put("waits-last", "");
    let mut running = story.0.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("I work.") && line.contains(r#""last""#));
    running.kill();
    assert_eq!(
        story.seen("build-2"),
        ["PLAN", "BUILD"],
        "nothing of the first attempt"
    );
    std::fs::remove_file(story.beside("waits-last")).unwrap();
    story.run(0);
    assert_eq!(
        story.seen("last-2"),
        ["PLAN", "LAST"],
        "nothing of what was killed"
    );

    // With `--recover session` it continues in its own copy.
    story.put("waits-last", "");
    story.0.run(["rollback", "--codon", "build"]).expect_code(0);
    let mut running = story.0.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("I work.") && line.contains(r#""last""#));
    running.kill();
    std::fs::remove_file(story.beside("waits-last")).unwrap();
    story
        .0
        .run(["run", "--headless", "--recover", "session"])
        .expect_code(0);
    let seen = story.seen("last-4");
    assert_eq!(seen[..2], ["PLAN", "LAST"]);
    assert!(
        seen[2].starts_with("You were interrupted") && seen.len() == 3,
        "{seen:?}"
    );
    assert_eq!(story.read("sessions/s-plan-1"), "PLAN\n");

    // After a rollback the fork is made from the codon's conversation at that point.
    story.0.run(["rollback", "--codon", "plan"]).expect_code(0);
    story.run(0);
    assert_eq!(story.seen("build-3"), ["PLAN", "BUILD"]);
    story.0.run(["replay", "."]).expect_code(0);
}

// covers: HANK-95
#[test]
fn an_agent_that_does_not_copy_the_conversation_fails_the_codon_before_it_works() {
    let story = Story::new();
    story.hank(&[
        story.codon("plan", json!(FRESH), &nothing()),
        story.codon("build", fork("plan"), &nothing()),
    ]);
    story.put("stays", "");
    let failed = story.run(1);
    let said = format!("{}{}", failed.stdout, failed.stderr);
    assert!(
        said.contains("the agent continued session s-plan-1 itself, and not a copy of it"),
        "{said}"
    );
    assert_eq!(story.0.left_behind(), []);
}

// covers: HANK-95, HANK-81, HANK-83
#[test]
fn another_agent_gets_a_summary_of_the_conversation_instead_of_a_copy() {
    let story = Story::new();
    let other = json!({"fallback": [{"agent": story.agent("other"), "model": "claude-sonnet-4-5"}]});
    story.hank(&[
        story.codon("plan", json!(FRESH), &other),
        story.codon("build", fork("plan"), &nothing()),
    ]);
    story.put(
        "fails-plan-1",
        "There's an issue with the selected model (x). It may not exist. (status 404)",
    );
    story.run(0);
    let prompt = story.read("prompt-build-1");
    assert!(
        prompt.starts_with("BUILD\n\nThe task above continues the conversation of another agent")
            && prompt.contains("> PLAN"),
        "{prompt}"
    );
    assert_eq!(story.seen("build-1"), ["BUILD"], "a session of its own");
    // An agent that cannot fork may take over, since it begins anew; it may not be the codon's own.
    let gemini = json!({"fallback": [{"agent": "gemini", "model": "gemini-2.5-pro"}]});
    story.hank(&[
        story.codon("plan", json!(FRESH), &nothing()),
        story.codon("build", fork("plan"), &gemini),
    ]);
    let told = story.0.run(["validate"]).stdout;
    assert!(!told.contains("copy of a session"), "{told}");
}

// covers: HANK-95
#[test]
fn validate_and_run_refuse_a_fork_that_cannot_be() {
    let story = Story::new();
    let plan = |more: &Value| story.codon("plan", json!(FRESH), more);
    let build = |mode: Value| story.codon("build", mode, &nothing());
    let looped = |codons: &[Value], ends: Value| json!({"type": "loop", "id": "rounds", "name": "R", "codons": codons, "terminateOn": ends});
    let twice = || json!({"type": "iterationLimit", "limit": 2});
    let gemini = json!({"agent": "gemini", "model": "gemini-2.5-pro"});
    let place = "hank[1].continuationMode.fork (codon \"build\"): cannot fork";
    for (hank, words, hint) in [
        (vec![plan(&nothing()), build(fork("plam"))], format!("{place} `plam`: no codon is called so"), "did you mean `plan`?"),
        (vec![plan(&nothing()), build(fork("build"))], format!("{place} `build`: it does not come before this codon"), "write the id of a codon before it (plan)"),
        (vec![build(fork("plan")), plan(&nothing())], "hank[0].continuationMode.fork (codon \"build\"): cannot fork `plan`: it does not come before".to_owned(), "no codon comes before"),
        (vec![looped(&[plan(&nothing())], twice()), build(fork("rounds"))], format!("{place} `rounds`: it is a loop"), "write the id of a codon before it (plan)"),
        (vec![plan(&json!({"model": "claude-sonnet-4-5"})), build(fork("plan"))], format!("{place} `plan`: its model is `claude-sonnet-4-5`, this codon's is `claude-haiku-4-5`"), "write \"fresh\""),
        (vec![plan(&gemini), build(fork("plan"))], "its model is".to_owned(), "write \"fresh\""),
        (vec![plan(&json!({"exhaustWithPrompt": "More"})), build(fork("plan"))], "its exhaustWithPrompt fills the context".to_owned(), "write \"fresh\""),
        (
            vec![plan(&nothing()), story.codon("next", json!("continue-previous"), &nothing()), build(fork("plan"))],
            "hank[2].continuationMode.fork (codon \"build\"): cannot fork `plan`: `next` continues its conversation".to_owned(),
            "fork `next`, or let `next` fork `plan` as well",
        ),
        (
            vec![plan(&nothing()), looped(&[build(fork("plan"))], json!({"type": "contextExceeded"}))],
            "a fork begins with the context of `plan`, so this contextExceeded loop would never end".to_owned(),
            "write \"continue-previous\"",
        ),
        (
            vec![plan(&gemini), story.codon("build", fork("plan"), &gemini)],
            "hank[1].continuationMode (codon \"build\"): agent `gemini` cannot continue with a copy of a session".to_owned(),
            "have both codons run by claude, codex, opencode or pi",
        ),
        (vec![plan(&nothing()), build(json!({"frok": "plan"}))], "`frok` is not a key of `continuationMode`".to_owned(), "did you mean `fork`?"),
        (vec![plan(&nothing()), build(json!(true))], "must be a word, or an object with `fork`".to_owned(), "{ \"fork\": \"ID\" }"),
        (vec![plan(&nothing()), build(json!("fork"))], "must be one of fresh, continue-previous".to_owned(), ""),
    ] {
        story.hank(&hank);
        for command in [&["validate"][..], &["run", "--headless"]] {
            let finished = story.0.run(command);
            let said = format!("{}{}", finished.stdout, finished.stderr);
            assert_ne!(finished.code, Some(0), "{words}: {said}");
            for words in [&*words, hint] {
                assert!(said.contains(words), "{words}: {said}");
            }
        }
        assert!(!story.0.directory().join(".hankweave").exists(), "nothing is written");
    }
    // What is doubtful is said.
    story.hank(&[plan(&json!({"onFailure": "ignore"})), build(fork("plan"))]);
    let told = story.0.run(["validate"]).expect_code(0).stdout.clone();
    assert!(told.contains("may fail and be ignored"), "{told}");
}

// covers: STATE-55, HANK-95
#[test]
fn a_task_and_the_scripted_agent_fork_as_a_run_does() {
    let story = Story::new();
    let base = json!({"env": {"BASE": story.0.directory().parent().unwrap()}});
    let codons = [
        story.codon("plan", json!(FRESH), &base),
        story.codon("build", fork("plan"), &base),
        story.codon("docs", fork("plan"), &base),
    ];
    story
        .0
        .write("page/hank.json", json!({"hank": codons}).to_string());
    let create = ["task", "create", "Fork", "--hank", "page", "--id", "forked"];
    story.0.run(create).expect_code(0);
    story.0.run(["worker", "--once"]).expect_code(0);
    let shown = story.0.run(["task", "show", "forked", "--json"]).json_document();
    assert_eq!(shown["task"]["status"], "completed", "{shown:#}");
    assert_eq!(story.seen("docs-1"), ["PLAN", "DOCS"]);

    let story = Story::new();
    story.0.write(
        "turn.json",
        r#"{"turns": [{"text": "${SESSION_TURN}", "usage": {"input": 1000}}]}"#,
    );
    let scripted = json!({"agent": {"script": "turn.json"}});
    story.hank(&[
        story.codon("plan", json!(FRESH), &scripted),
        story.codon("build", fork("plan"), &scripted),
        story.codon("docs", fork("plan"), &scripted),
        story.codon("more", json!("continue-previous"), &scripted),
    ]);
    story.run(0);
    let state = story.state();
    let run = &state["runs"][0];
    let [plan, build, docs, more] = ["plan", "build", "docs", "more"].map(|id| codon(run, id));
    for forked in [build, docs] {
        assert_eq!(forked["previousSessionId"], plan["claudeSessionId"]);
        assert_ne!(forked["claudeSessionId"], plan["claudeSessionId"]);
        assert_usd(&forked["finalCost"], 0.001);
    }
    assert_ne!(build["claudeSessionId"], docs["claudeSessionId"]);
    assert_usd(&more["finalCost"], 0.001);
    let told = story.0.run(["logs", "more"]).stdout;
    assert!(told.contains('3'), "the third prompt of its conversation: {told}");
}

/// Texts of the first request that the model server got for a task.
fn asked_for(server: &ModelServer, words: &str) -> String {
    let requests = server.requests();
    let mut bodies = requests
        .iter()
        .filter_map(|asked| Some(asked.body()?.to_string()));
    bodies.find(|body| body.contains(words)).unwrap_or_default()
}

/// A plan, two forks of it and a codon that continues the second one.
fn lanes() -> Value {
    let says = |text: &str, input: u64| json!([{"text": text, "usage": {"input": input, "output": 40, "cache_read": 5000}}]);
    let work = json!({"text": "I plan.", "usage": {"input": 1000, "output": 100, "cache_creation": 5000},
        "tools": [{"op": "bash", "command": "printf plan > plan.txt", "description": "Plan"}]});
    json!([
        {"name": "more", "when": {"user": "MORE-TASK"}, "turns": says("More.", 130)},
        {"name": "one", "when": {"user": "FORK-ONE"}, "turns": says("One.", 110)},
        {"name": "two", "when": {"user": "FORK-TWO"}, "turns": says("Two.", 120)},
        {"name": "plan", "when": {"user": "PLAN-TASK"}, "turns": [work, {"text": "Planned.", "usage": {"input": 20, "output": 10, "cache_read": 5000}}]}])
}

fn modes() -> [(&'static str, Value, &'static str); 4] {
    [
        ("plan", json!(FRESH), "PLAN-TASK"),
        ("one", fork("plan"), "FORK-ONE"),
        ("two", fork("plan"), "FORK-TWO"),
        ("more", json!("continue-previous"), "MORE-TASK"),
    ]
}

#[track_caller]
fn assert_forked(project: &TestProject, server: &ModelServer) {
    let two = asked_for(server, "FORK-TWO");
    assert!(two.contains("PLAN-TASK") && !two.contains("FORK-ONE"), "{two}");
    let more = asked_for(server, "MORE-TASK");
    assert!(more.contains("FORK-TWO") && !more.contains("FORK-ONE"), "{more}");
    let state = project.state(&project.directory());
    let run = &state["runs"][0];
    let [plan, one, two, more] = ["plan", "one", "two", "more"].map(|id| codon(run, id));
    for forked in [one, two] {
        assert_eq!(forked["status"], "completed", "{forked:#}");
        assert_eq!(forked["previousSessionId"], plan["claudeSessionId"]);
        assert_ne!(forked["claudeSessionId"], plan["claudeSessionId"]);
    }
    assert_ne!(one["claudeSessionId"], two["claudeSessionId"]);
    assert_eq!(more["claudeSessionId"], two["claudeSessionId"]);
    assert_eq!(
        one["finalTokens"]["outputTokens"], 40,
        "the plan is not counted again: {one:#}"
    );
    assert_eq!(more["finalTokens"]["outputTokens"], 40, "{more:#}");
    assert_eq!(project.left_behind(), []);
}

// covers: AGENT-71, AGENT-7
#[test]
fn the_real_claude_forks_a_session_and_costs_what_was_served() {
    let Some((project, server)) = stage("", json!({"lanes": lanes()})) else {
        return;
    };
    let codons = modes().map(|(id, mode, prompt)| {
        let mut codon = real(&server, id, FRESH, prompt, &nothing());
        codon["continuationMode"] = mode;
        codon
    });
    project.write_hank(&json!({"hank": codons}));
    project
        .start(["run", "--headless"])
        .finish_within(DEADLINE)
        .expect_code(0);
    assert_forked(&project, &server);
    assert!(!assert_true_at(&Rates::SONNET, &project, &server));
    project.run(["replay", "."]).expect_code(0);
}

// covers: AGENT-71, AGENT-8
#[test]
fn a_fork_of_the_real_claude_that_is_killed_costs_what_it_had_used_itself() {
    let waits = json!({"text": "I wait.", "usage": {"input": 110, "output": 40, "cache_read": 5000},
        "tools": [{"op": "bash", "command": "echo half > half.txt; tail -f /dev/null", "description": "Wait", "timeout": 300_000}]});
    let mut lanes = lanes();
    lanes[1]["turns"] = json!([waits, {"text": "One.", "usage": {"input": 90, "output": 30}}]);
    let Some((project, server)) = stage("", json!({"lanes": lanes})) else {
        return;
    };
    let codons = modes().into_iter().take(2).map(|(id, mode, prompt)| {
        let mut codon = real(&server, id, FRESH, prompt, &nothing());
        codon["continuationMode"] = mode;
        codon
    });
    project.write_hank(&json!({"hank": codons.collect::<Vec<_>>()}));
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("\"tool_use\"") && line.contains("\"one\""));
    begun(&server, 3);
    // Its message is in its transcript once the tool runs.
    let half = project.directory().join("half.txt");
    let end = std::time::Instant::now() + DEADLINE;
    while !half.exists() {
        assert!(std::time::Instant::now() < end, "the tool does not run");
        std::thread::yield_now();
    }
    running.kill();
    project
        .start(["run", "--headless"])
        .finish_within(DEADLINE)
        .expect_code(0);
    let again = asked_for(&server, "FORK-ONE");
    assert!(again.contains("PLAN-TASK"), "{again}");
    assert_true_at(&Rates::SONNET, &project, &server);
}

// covers: AGENT-71, AGENT-17, AGENT-21
#[test]
fn the_real_codex_and_pi_fork_a_session_and_cost_what_was_served() {
    for agent in RealAgent::all() {
        let (project, server) = agent.stage(json!({"lanes": lanes()}));
        let codons = modes().map(|(id, mode, prompt)| {
            let mut codon = agent.codon(id, FRESH, prompt);
            codon["continuationMode"] = mode;
            codon
        });
        project.write_hank(&json!({"hank": codons}));
        project
            .start(["run", "--headless"])
            .finish_within(DEADLINE)
            .expect_code(0);
        assert_forked(&project, &server);
        agent.assert_true(&project, &server);
        project.run(["replay", "."]).expect_code(0);
    }
}

// covers: AGENT-71, AGENT-28
#[test]
fn the_real_opencode_forks_a_session() {
    if agents::opencode().is_err() {
        return;
    }
    let server = ModelServer::start(Scenario::try_from(json!({"lanes": lanes()})).unwrap()).unwrap();
    for (name, model, speaker) in natives(&server).filter(|(name, ..)| *name == "opencode") {
        let project = native(name, model, &speaker, &server);
        let hank = std::fs::read_to_string(project.directory().join("hank.json")).unwrap();
        let hank: Value = serde_json::from_str(&hank).unwrap();
        let codons = modes().map(|(id, mode, prompt)| {
            let mut codon = hank["hank"][0].clone();
            (codon["id"], codon["promptText"], codon["continuationMode"]) = (json!(id), json!(prompt), mode);
            codon
        });
        project.write_hank(&json!({"hank": codons}));
        project
            .start(["run", "--headless"])
            .finish_within(DEADLINE)
            .expect_code(0);
        assert_forked(&project, &server);
    }
}
