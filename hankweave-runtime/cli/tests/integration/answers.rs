//! Answers in a form: asked for, checked, kept and used (HANK-90 to HANK-94, AGENT-70, STATE-80).

use hankweave_testing::{Finished, ModelServer, TestProject, agents};
use serde_json::{Value, json};

use crate::real_agents::RealAgent;
use crate::support::{assert_usd, codon, project};

/// An agent that stores its prompts next to the workspace. At its N-th start it answers with `answer-TASK-N`, or else with `answer-TASK`, a text as
/// JSON has it. It fails if `fails-TASK-N` exists, and waits for ever if `waits-TASK` exists. Its task is its argument.
const AGENT: &str = r#"
task=$1
base=${BASE:-..}
prompt=$(cat)
session=${HANKWEAVE_RESUME_SESSION:-s-$task-$$}
n=$(($(cat "$base/count-$task" 2>/dev/null || echo 0) + 1))
echo $n > "$base/count-$task"
printf '%s' "$prompt" > "$base/prompt-$task-$n"
printf '{"type":"system","subtype":"init","session_id":"%s","model":"claude-haiku-4-5","cwd":"/","tools":[]}\n' "$session"
printf '{"type":"assistant","session_id":"%s","parent_tool_use_id":null,"message":{"id":"m-%s-%s","role":"assistant","model":"claude-haiku-4-5","content":[{"type":"text","text":"I work."}],"usage":{"input_tokens":1000,"output_tokens":100}}}\n' "$session" "$task" "$n"
if [ -e "$base/waits-$task" ]; then exec sleep 600; fi
usage='"usage":{"input_tokens":1000,"output_tokens":100}'
if [ -e "$base/fails-$task-$n" ]; then
  printf '{"type":"result","subtype":"success","is_error":true,"session_id":"%s","result":"%s",%s}\n' "$session" "$(cat "$base/fails-$task-$n")" "$usage"
  exit 1
fi
answer=$(cat "$base/answer-$task-$n" 2>/dev/null || cat "$base/answer-$task" 2>/dev/null || echo '"done"')
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"%s","result":%s,%s}\n' "$session" "$answer" "$usage"
"#;

struct Story(TestProject);

impl Story {
    fn new() -> Self {
        Self(project())
    }

    fn codon(&self, id: &str, prompt: &str, more: &Value) -> Value {
        let agent = json!({"command": ["sh", self.0.write("agent.sh", AGENT), id], "stream": "claude"});
        let mut codon = json!({"id": id, "name": id, "agent": agent, "model": "claude-haiku-4-5", "continuationMode": "fresh", "promptText": prompt,
            "checkpointedFiles": ["*.txt"]});
        codon
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        codon
    }

    fn hank(&self, items: &[Value]) {
        self.0.write_hank(&json!({"hank": items}));
    }

    fn beside(&self, name: &str) -> std::path::PathBuf {
        self.0.directory().parent().unwrap().join(name)
    }

    fn answer(&self, name: &str, text: &str) {
        std::fs::write(self.beside(&format!("answer-{name}")), json!(text).to_string()).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.beside(name)).unwrap_or_default()
    }

    fn run(&self, code: i32) -> Finished {
        let finished = self.0.run(["run", "--headless"]);
        finished.expect_code(code);
        finished
    }

    /// All records of a codon in all runs, oldest first.
    fn records(&self, id: &str) -> Vec<Value> {
        let state = self.0.state(&self.0.directory());
        let runs = state["runs"].as_array().unwrap().iter().rev();
        let records = runs.flat_map(|run| run["codons"].as_array().unwrap().clone());
        records.filter(|record| record["codonId"] == id).collect()
    }
}

/// A result with files, which it requires, and nothing else.
fn files() -> Value {
    json!({"result": {"schema": {"type": "object", "additionalProperties": false, "required": ["files"],
        "properties": {"files": {"type": "array", "items": {"type": "string"}}, "note": {"type": "string"}}}}})
}

fn with(mut one: Value, other: &Value) -> Value {
    let more = other.as_object().unwrap().clone();
    one.as_object_mut().unwrap().extend(more);
    one
}

// covers: HANK-90, HANK-92, HANK-94, STATE-80, AGENT-70
#[test]
fn a_result_is_kept_and_used_by_prompts_rigs_checks_loops_and_commands_of_results() {
    let story = Story::new();
    story.answer(
        "plan",
        "Here it is:\n```json\n{\"files\": [\"a.txt\", \"b.txt\"], \"note\": \"<!-- keep -->\"}\n```\n",
    );
    story.answer("review-1", r#"{"ok": false, "round": 1}"#);
    story.answer("review-2", r#"{"ok": true, "round": 2}"#);
    let rig = json!([{"type": "command", "command": {"run": "cp \"$HANKWEAVE_RESULTS\" seen-by-rig.json"}}]);
    let review = json!({"result": {"schema": {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}},
        "check": {"run": "grep -q '\"round\":' \"$HANKWEAVE_RESULTS\"", "retries": 0}});
    let out = json!({"outputFiles": [{"copy": ["out.json"], "beforeCopy": [{"type": "command", "command": {"run": "cp \"$HANKWEAVE_RESULTS\" out.json"}}]}]});
    story.hank(&[
        story.codon("plan", "PLAN", &files()),
        story.codon(
            "build",
            "Write <%results.plan.files%>, first <%results.plan.files.0%>. <%results.plan.note%>",
            &json!({"rigSetup": rig, "check": {"run": "grep -q b.txt \"$HANKWEAVE_RESULTS\"", "retries": 0}}),
        ),
        json!({"type": "loop", "id": "until", "name": "Until", "codons": [story.codon("review", "REVIEW", &review)],
            "terminateOn": {"type": "untilCheckPasses", "run": "grep -q '\"ok\":true' \"$HANKWEAVE_RESULTS\"", "limit": 5}}),
        story.codon("last", "It is <%results.review.ok%> in round <%results.review.round%>", &out),
    ]);
    let output = story.beside("output");
    let ended = story.0.run([
        "run",
        "--headless",
        "--json",
        "--output",
        output.to_str().unwrap(),
    ]);
    ended.expect_code(0);

    assert!(
        story.read("prompt-plan-1").contains("one JSON object"),
        "it is asked for"
    );
    assert_eq!(
        story.read("prompt-build-1"),
        r#"Write ["a.txt","b.txt"], first a.txt. <!-- keep -->"#
    );
    assert_eq!(
        story.read("prompt-last-1"),
        "It is true in round 2",
        "the last iteration counts"
    );
    let plan = json!({"files": ["a.txt", "b.txt"], "note": "<!-- keep -->"});
    let seen = std::fs::read_to_string(story.0.directory().join("seen-by-rig.json")).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&seen).unwrap(),
        json!({"plan": plan})
    );
    let out: Value = serde_json::from_slice(&std::fs::read(output.join("out.json")).unwrap()).unwrap();
    assert_eq!(out, json!({"plan": plan, "review": {"ok": true, "round": 2}}));

    // The result is in the record, in the event of the end, and in all output about the run.
    assert_eq!(story.records("plan")[0]["result"], plan);
    assert_eq!(story.records("build")[0].get("result"), None);
    let events = ended.json_lines();
    let end = events
        .iter()
        .find(|event| event["type"] == "codon.completed" && event["data"]["codonId"] == "plan");
    assert_eq!(end.unwrap()["data"]["result"], plan);
    let status = story.0.run(["status", "--json"]).json_document();
    assert_eq!(codon(&status["run"], "plan")["result"], plan);
    let shown = &status["view"]["items"]["plan"]["attempts"]["1.1"]["result"];
    assert!(
        shown.as_str().unwrap().starts_with(r#"{"files":["a.txt""#),
        "{shown}"
    );
    let report = story.0.run(["report", "--json"]).json_document();
    let reported = report["codons"].as_array().unwrap();
    assert_eq!(
        reported.iter().find(|codon| codon["id"] == "plan").unwrap()["result"],
        plan
    );
    for command in [&["logs"][..], &["status"], &["report", "--md"]] {
        let told = story.0.run(command).expect_code(0).stdout.clone();
        assert!(told.contains(r#"{"files":["a.txt""#), "{command:?}: {told}");
    }
}

// covers: HANK-90
#[test]
fn an_answer_that_does_not_fit_is_asked_for_once_more_in_its_session() {
    let story = Story::new();
    let check =
        json!({"check": {"run": "echo x >> ../checks; [ $(wc -l < ../checks) -ge 2 ]", "retries": 1}});
    story.hank(&[story.codon("plan", "PLAN", &with(files(), &check))]);
    // An answer that does not fit the schema is rejected before the check, and the answer after each failed check gets a prompt of its own.
    story.answer("plan-1", r#"{"files": "a.txt", "more": 1}"#);
    story.answer("plan-2", r#"{"files": []}"#);
    story.answer("plan-3", "I have mended it.");
    story.answer("plan-4", r#"{"files": ["mended"]}"#);
    let told = story.run(0).stderr;
    assert_eq!(story.records("plan").len(), 1, "one attempt: {told}");
    assert_eq!(story.records("plan")[0]["result"], json!({"files": ["mended"]}));
    assert_eq!(story.read("checks").lines().count(), 2);
    let report = story.0.run(["report"]).expect_code(0).stdout.clone();
    assert!(
        report.contains(": plan: the agent continues (retry 1 of 1): its answer is no result (`result`): "),
        "{report}"
    );
    let again = story.read("prompt-plan-2");
    for words in ["/files: ", "'more' was unexpected", "one JSON object"] {
        assert!(again.contains(words), "{words}: {again}");
    }
    assert!(story.read("prompt-plan-4").contains("it holds no JSON object"));
    let logs = story.0.run(["logs", "plan"]).expect_code(0).stdout.clone();
    assert!(
        logs.lines()
            .any(|line| line.contains("— the agent continues (retry ")
                && line.contains("'more' was unexpected")),
        "{logs}"
    );

    let story = Story::new();
    story.hank(&[
        story.codon("plan", "PLAN", &files()),
        story.codon("never", "<%results.plan.files%>", &json!({})),
    ]);
    story.answer("plan", r#"{"files": [1]}"#);
    let failed = story.run(1);
    assert_eq!(story.read("count-plan").trim(), "2", "once more, and no longer");
    let record = &story.records("plan")[0];
    let why = record["failureReason"]["message"].as_str().unwrap();
    assert!(
        why.contains("no result") && why.contains("/files/0: 1 is not of type"),
        "{why}"
    );
    assert_eq!(record["failureReason"]["retriable"], true);
    assert_eq!(record.get("result"), None);
    let said = format!("{}{}", failed.stdout, failed.stderr);
    assert!(said.contains("/files/0: 1 is not of type"), "{said}");

    // What is too long is none.
    story.answer("plan", &json!({"files": ["x".repeat(20_000)]}).to_string());
    story.run(1);
    let records = story.records("plan");
    let why = records.last().unwrap()["failureReason"]["message"].clone();
    assert!(
        why.as_str().unwrap().contains("a result has at most 16384"),
        "{why}"
    );
}

// covers: HANK-93
#[test]
fn validate_and_run_refuse_results_that_cannot_be() {
    let story = Story::new();
    let plan = |more: &Value| story.codon("plan", "PLAN", more);
    let build = |prompt: &str| story.codon("build", prompt, &json!({}));
    let schema = |schema: Value| json!({"result": {"schema": schema}});
    let mut file = story.codon("build", "x", &json!({"promptFile": "build.md"}));
    file.as_object_mut().unwrap().remove("promptText");
    story.0.write("build.md", "Write\n<%results.plan.fils%>\n");
    for (hank, words) in [
        (
            vec![plan(&schema(
                json!({"type": "object", "properties": {"a": {"type": "nothing"}}}),
            ))],
            "hank[0].result.schema (codon \"plan\"): the schema cannot be used",
        ),
        (
            vec![plan(&schema(json!({"type": "array"})))],
            "must have the type object",
        ),
        (
            vec![plan(&schema(
                json!({"type": "object", "title": "x".repeat(20_000)}),
            ))],
            "a schema has at most 16384",
        ),
        (vec![plan(&json!({"result": {}}))], "schema"),
        (vec![plan(&json!({"results": {}}))], "write `result`"),
        (
            vec![plan(&with(files(), &json!({"exhaustWithPrompt": "More"})))],
            "cannot stand beside exhaustWithPrompt",
        ),
        (
            vec![plan(&files()), build("<%results.plann.files%>")],
            "hank[1].promptText (codon \"build\"): names `results.plann.files`, and no codon is called so",
        ),
        (
            vec![plan(&files()), build("<%results.pan%>")],
            "did you mean `results.plan`?",
        ),
        (
            vec![plan(&json!({})), build("<%results.plan.files%>")],
            "`plan` has no `result`",
        ),
        (
            vec![build("<%results.plan.files%>"), plan(&files())],
            "`plan` does not come before",
        ),
        (
            vec![plan(&files()), file],
            "hank[1].promptFile (codon \"build\"): names `results.plan.fils`, and the schema of `plan` allows no `fils` there",
        ),
        (
            vec![only("claude", &json!({"args": ["--json-schema", "{}"]}))],
            "`--json-schema` of agent `claude` is hankweave's own",
        ),
    ] {
        story.hank(&hank);
        for command in [&["validate"][..], &["run", "--headless"]] {
            let finished = story.0.run(command);
            let said = format!("{}{}", finished.stdout, finished.stderr);
            assert_ne!(finished.code, Some(0), "{words}: {said}");
            assert!(said.contains(words), "{words}: {said}");
        }
        assert!(
            !story.0.directory().join(".hankweave").exists(),
            "nothing is written"
        );
    }
    story.hank(&[
        plan(&files()),
        build("<!-- <%results.x%> --> <%results.plan.note%>"),
    ]);
    let told = story.0.run(["validate"]).expect_code(0).stdout.clone();
    for words in [
        "does not require `note`: without it the codon fails",
        "has to answer with files, note (result)",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    story.hank(&[plan(&files()), build("<%results.plan.notes%>")]);
    let told = story.0.run(["validate"]).expect_code(1).stdout.clone();
    assert!(told.contains("did you mean `note`?"), "{told}");
    // So it does, before its agent starts.
    story.hank(&[plan(&files()), build("<%results.plan.note%>")]);
    story.answer("plan", r#"{"files": []}"#);
    let said = story.run(1);
    let said = format!("{}{}", said.stdout, said.stderr);
    assert!(
        said.contains("the result of `plan` has no `note` there"),
        "{said}"
    );
    assert_eq!(story.read("count-build"), "");
}

// covers: HANK-93
#[test]
fn the_schema_of_a_result_may_stand_in_a_file_which_is_read_once() {
    let story = Story::new();
    let of_file = |file: &str| json!({"result": {"schema": file}});
    let hank = |file: &str, prompt: &str| {
        story.hank(&[
            story.codon("plan", "PLAN", &of_file(file)),
            story.codon("build", prompt, &json!({})),
        ]);
    };
    let refused = |words: &[&str]| {
        for command in [&["validate"][..], &["run", "--headless"]] {
            let finished = story.0.run(command);
            let said = format!("{}{}", finished.stdout, finished.stderr);
            assert_ne!(finished.code, Some(0), "{words:?}: {said}");
            for words in words {
                assert!(said.contains(words), "{words}: {said}");
            }
        }
    };
    let place = "hank[0].result.schema (codon \"plan\")";
    hank("schemas/plan.json", "x");
    refused(&[place, "schemas/plan.json"]);
    for (text, words) in [
        ("{\"type\": \"array\"}", "must have the type object"),
        ("{\"type\": \"object\",\n  \"properties\": {", "not JSON"),
        (
            "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"nothing\"}}}",
            "`schemas/plan.json`: the schema cannot be used",
        ),
        ("", "the smallest schema of a result"),
    ] {
        story.0.write("schemas/plan.json", text);
        refused(&["codon \"plan\"", "schemas/plan.json", words]);
    }
    let schema = files()["result"]["schema"].clone();
    story.0.write("schemas/plan.json", schema.to_string());
    for (file, words) in [
        ("../plan.json", "`../plan.json`"),
        ("/etc/hostname", "`/etc/hostname`"),
    ] {
        hank(file, "x");
        refused(&[place, words]);
    }
    std::os::unix::fs::symlink("plan.json", story.0.directory().join("schemas/link.json")).unwrap();
    hank("schemas/link.json", "x");
    refused(&[place, "schemas/link.json"]);
    hank("schemas/plan.json", "<%results.plan.fils%>");
    refused(&["the schema of `plan` allows no `fils` there"]);
    assert!(
        !story.0.directory().join(".hankweave").exists(),
        "nothing is written"
    );

    // The schema that was checked at the start counts, even if an agent changes the file.
    let rig = json!({"rigSetup": [{"type": "command", "command": {"run": "echo '{}' > schemas/plan.json"}}]});
    story.hank(&[
        story.codon("plan", "PLAN", &with(of_file("schemas/plan.json"), &rig)),
        story.codon("build", "<%results.plan.files.0%>", &json!({})),
    ]);
    let told = story.0.run(["validate"]).expect_code(0).stdout.clone();
    assert!(told.contains("has to answer with files, note (result)"), "{told}");
    story.answer("plan-1", r#"{"file": "a.txt"}"#);
    story.answer("plan-2", r#"{"files": ["a.txt"]}"#);
    story.run(0);
    assert_eq!(story.read("prompt-build-1"), "a.txt");
    assert!(
        story.read("prompt-plan-1").ends_with(&request()),
        "{}",
        story.read("prompt-plan-1")
    );
    let plan = story.0.state(&story.0.directory())["executionPlan"][0]["codon"]["result"].clone();
    assert_eq!(plan, json!({"schema": schema}), "the plan has what ran");
}

// covers: AGENT-70
#[test]
fn the_scripted_agent_answers_without_a_script_with_an_example_that_fits() {
    let story = Story::new();
    let schema = json!({"type": "object", "required": ["files", "kind"], "additionalProperties": false,
        "properties": {"files": {"type": "array", "items": {"type": "string"}, "minItems": 2}, "kind": {"enum": ["new", "old"]}}});
    let plan = |schema: &Value| story.codon("plan", "PLAN", &json!({"result": {"schema": schema}}));
    let build = story.codon("build", "Write <%results.plan.files.1%>", &json!({}));
    story.hank(&[plan(&schema), build.clone()]);
    let free = ["run", "--headless", "--agent", "scripted"];
    story.0.run(free).expect_code(0);
    let result = &story.records("plan")[0]["result"];
    assert_eq!(*result, json!({"files": ["example", "example"], "kind": "new"}));
    assert_eq!(story.read("count-plan"), "", "nothing was paid");

    // What no example fits says what to write.
    let mut odd = schema.clone();
    odd["properties"]["kind"] = json!({"type": "string", "pattern": "^[A-Z]{3}$"});
    story.hank(&[plan(&odd), build.clone()]);
    let failed = story.0.run(["run", "--headless", "--agent", "scripted", "--new"]);
    failed.expect_code(1);
    let said = format!("{}{}", failed.stdout, failed.stderr);
    for words in [
        "/kind: ",
        "write one into it, as \"examples\": [{ … }], or give the codon a script",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    odd["examples"] = json!([{"files": ["a", "b"], "kind": "ABC"}]);
    story.hank(&[plan(&odd), build]);
    story
        .0
        .run(["run", "--headless", "--agent", "scripted", "--new"])
        .expect_code(0);
    let records = story.records("plan");
    assert_eq!(records.last().unwrap()["result"]["kind"], "ABC");
}

/// A codon of a program that has to be there to run, but not to be checked.
fn only(agent: &str, more: &Value) -> Value {
    let codon = json!({"id": "only", "name": "Only", "agent": agent, "model": "haiku", "continuationMode": "fresh", "promptText": "WORK"});
    with(codon, more)
}

/// The verdict with which a loop ended that did not pass is kept, and no later text takes it for one that counts.
// covers: STATE-80
#[test]
fn the_result_of_the_codon_that_fails_its_loop_is_kept() {
    let story = Story::new();
    story.answer("review-1", r#"{"ok": false, "round": 1}"#);
    story.answer("review-2", r#"{"ok": false, "round": 2}"#);
    let review = json!({"result": {"schema": {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}}});
    story.hank(&[
        json!({"type": "loop", "id": "until", "name": "Until", "codons": [story.codon("review", "REVIEW", &review)],
            "terminateOn": {"type": "untilCheckPasses", "run": "grep -q '\"ok\":true' \"$HANKWEAVE_RESULTS\"", "limit": 2}}),
    ]);
    let ended = story.0.run(["run", "--headless", "--json"]);
    ended.expect_code(1);
    let last = json!({"ok": false, "round": 2});
    let records = story.records("review#1");
    assert_eq!(
        (&records[0]["status"], &records[0]["result"]),
        (&json!("failed"), &last)
    );
    let end = ended
        .json_lines()
        .into_iter()
        .rfind(|event| event["type"] == "codon.completed");
    assert_eq!(end.unwrap()["data"]["result"], last);
    for command in [&["status"][..], &["report"]] {
        let told = story.0.run(command).expect_code(0).stdout.clone();
        assert!(told.contains(r#"{"ok":false,"round":2}"#), "{command:?}: {told}");
    }
}

// covers: STATE-80
#[test]
fn a_result_stays_over_a_kill_and_goes_with_a_rollback() {
    let story = Story::new();
    story.hank(&[
        story.codon("plan", "PLAN", &files()),
        story.codon("build", "<%results.plan.files.0%>", &files()),
        story.codon(
            "last",
            "<%results.plan.files.0%> <%results.build.files.0%>",
            &json!({}),
        ),
    ]);
    story.answer("plan-1", r#"{"files": ["first"]}"#);
    story.answer("plan-2", r#"{"files": ["second"]}"#);
    story.answer("build", r#"{"files": ["built"]}"#);
    std::fs::write(story.beside("waits-build"), "").unwrap();
    let mut running = story.0.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("I work.") && line.contains(r#""build""#));
    running.kill();
    std::fs::remove_file(story.beside("waits-build")).unwrap();
    story.run(0);
    assert_eq!(story.read("count-plan").trim(), "1", "it is not paid twice");
    assert_eq!(story.read("prompt-build-1"), "first\n\n".to_owned() + &request());
    assert!(
        story.read("prompt-build-2").ends_with(&request()),
        "a session that goes on is asked as well"
    );
    assert_eq!(story.read("prompt-last-1"), "first built");
    story.0.run(["replay", "."]).expect_code(0);

    // After a rollback to the end of its codon the result counts; after a start from the first codon it does not.
    story.0.run(["rollback", "--codon", "plan"]).expect_code(0);
    story.run(0);
    assert_eq!(story.read("count-plan").trim(), "1");
    assert_eq!(story.read("prompt-last-2"), "first built");
    story.run_new();
    assert_eq!(story.read("prompt-last-3"), "second built");
}

/// The request at the end of each prompt.
fn request() -> String {
    let schema = &files()["result"]["schema"];
    format!(
        "When you have finished, end with an answer that is one JSON object and nothing else. It must fit this JSON Schema:\n\n{schema:#}"
    )
}

impl Story {
    fn run_new(&self) {
        self.0.run(["run", "--headless", "--new"]).expect_code(0);
    }
}

// covers: STATE-80, HANK-90
#[test]
fn the_result_is_that_of_the_attempt_and_the_agent_that_answered() {
    let story = Story::new();
    let retry = json!({"onFailure": "retry", "retryConfig": {"maxAttempts": 1, "delayMs": 0}});
    let other = json!({"command": ["sh", story.0.write("agent.sh", AGENT), "other"], "stream": "claude"});
    let fallback = json!({"fallback": [{"agent": other, "model": "claude-sonnet-4-5"}]});
    story.hank(&[
        story.codon("tried", "T", &with(files(), &retry)),
        story.codon("fallen", "F", &with(files(), &fallback)),
        story.codon("skipped", "S", &with(files(), &json!({"onFailure": "ignore"}))),
        story.codon(
            "last",
            "<%results.tried.files.0%> <%results.fallen.files.0%>",
            &json!({}),
        ),
    ]);
    // Both answers of the first attempt do not fit, and the second attempt has two of its own.
    story.answer("tried-1", "no");
    story.answer("tried-2", "no");
    story.answer("tried-3", "no");
    story.answer("tried-4", r#"{"files": ["tried"]}"#);
    std::fs::write(story.beside("fails-fallen-1"), "API Error: 529 overloaded_error").unwrap();
    story.answer("fallen", r#"{"files": ["wrong"]}"#);
    story.answer("other", r#"{"files": ["other"]}"#);
    story.answer("skipped", "no");
    story.run(0);
    assert_eq!(story.read("prompt-last-1"), "tried other");
    let results = |id: &str| {
        let records = story.records(id).into_iter();
        records.map(|record| record["result"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(results("tried"), [Value::Null, json!({"files": ["tried"]})]);
    assert_eq!(results("fallen"), [Value::Null, json!({"files": ["other"]})]);
    assert_eq!(results("skipped"), [Value::Null]);

    // A codon whose failure was ignored has no result, and a codon that needs the result fails before it is paid.
    story.hank(&[
        story.codon("skipped", "S", &with(files(), &json!({"onFailure": "ignore"}))),
        story.codon("needs", "<%results.skipped.files%>", &json!({})),
    ]);
    let said = story.0.run(["run", "--headless", "--new"]);
    said.expect_code(1);
    let said = format!("{}{}", said.stdout, said.stderr);
    assert!(said.contains("no codon that has run has this result"), "{said}");
    assert_eq!(story.read("count-needs"), "");
}

// covers: HANK-90
#[test]
fn money_that_is_used_up_leaves_no_second_try_and_the_costs_of_both_count() {
    let story = Story::new();
    let limit = |dollars: f64| json!({"budget": {"maxDollars": dollars, "onExceeded": "complete"}});
    // Each answer costs 1,000 tokens at 1 dollar and 100 at 5 dollars a million.
    story.hank(&[story.codon("plan", "PLAN", &with(files(), &limit(0.001)))]);
    story.answer("plan-1", "no");
    story.answer("plan-2", "no");
    story.answer("plan", r#"{"files": []}"#);
    let failed = story.run(1);
    let said = format!("{}{}", failed.stdout, failed.stderr);
    assert!(said.contains("it holds no JSON object"), "{said}");
    assert_eq!(story.read("count-plan").trim(), "1");
    story.hank(&[story.codon("plan", "PLAN", &with(files(), &limit(1.0)))]);
    story.run_new();
    let record = story.records("plan").pop().unwrap();
    assert_eq!(record["result"], json!({"files": []}));
    assert_usd(&record["finalCost"], 2.0 * 0.0015);
}

// covers: HANK-90
#[test]
fn a_rehearsal_shows_results_and_needs_none() {
    let story = Story::new();
    let rig =
        json!({"rigSetup": [{"type": "command", "command": {"run": "test -e \"$HANKWEAVE_RESULTS\""}}]});
    story.hank(&[
        story.codon("plan", "PLAN", &files()),
        story.codon("build", "<%results.plan.files%>", &rig),
    ]);
    let rehearsed = story.0.run(["run", "--headless", "--rehearse"]);
    rehearsed.expect_code(0);
    let told = format!("{}{}", rehearsed.stdout, rehearsed.stderr);
    assert!(
        told.contains("would require: an answer that fits the schema of its `result`"),
        "{told}"
    );
}

// covers: HANK-90
#[test]
fn approvals_and_sentinels_stand_beside_results() {
    let story = Story::new();
    let watch = json!({"id": "watch", "name": "Watch", "command": ["sh", "-c", "cat > /dev/null; echo seen"], "execution": {"strategy": "immediate"},
        "trigger": {"type": "event", "on": ["codon.completed"]}});
    let more = json!({"sentinels": [{"sentinelConfig": watch}], "requires": "nothing"});
    story.hank(&[
        story.codon("plan", "PLAN", &with(files(), &more)),
        story.codon("build", "<%results.plan.files.0%>", &json!({"approval": true})),
    ]);
    story.answer("plan", r#"{"files": ["a"]}"#);
    story.run(3);
    story.0.run(["approve"]).expect_code(0);
    story.run(0);
    assert_eq!(story.read("prompt-build-1"), "a");
    assert_eq!(story.read("count-plan").trim(), "1");
    let record = &story.records("plan")[0];
    assert_eq!(record["sentinels"]["executed"][0]["id"], "watch", "{record:#}");
    assert_eq!(record["result"], json!({"files": ["a"]}));
}

// covers: HANK-92, HANK-93
#[test]
fn the_question_of_an_approval_has_results_wherever_it_is_put() {
    let story = Story::new();
    let ask = |text: &str| json!({"approval": text});
    story.hank(&[
        story.codon("plan", "PLAN", &files()),
        story.codon(
            "build",
            "BUILD",
            &ask("Build <%results.plan.files%> in <%EXECUTION_DIR%>?"),
        ),
    ]);
    story.answer("plan", r#"{"files": ["a.rs", "b.rs"]}"#);
    let ended = story.run(3);
    let directory = std::fs::canonicalize(story.0.directory()).unwrap();
    let question = format!("Build [\"a.rs\",\"b.rs\"] in {}?", directory.display());
    assert!(ended.stderr.contains(&question), "{ended}");
    let status = story.0.run(["status"]).stdout;
    assert!(status.contains(&question) && !status.contains("<%"), "{status}");
    let report = story.0.run(["report", "--json"]).json_document();
    let told = report.to_string();
    assert!(told.contains("a.rs") && !told.contains("<%"), "{report:#}");
    // A run that is attended puts it as an event, which page, notification and attach show.
    let mut running = story.0.start(["run", "--json", "--no-autostart"]);
    let asked = running.wait_for_line(|line| line.contains("approval.requested"));
    let asked: Value = serde_json::from_str(&asked).unwrap();
    assert_eq!(asked["data"]["question"], json!(question));
    let view = story.0.run(["status", "--json"]).json_document();
    assert_eq!(view["view"]["ask"]["question"], json!(question));
    assert!(!view["view"]["items"].to_string().contains("<%"), "{view:#}");
    running.kill();
    for (text, words) in [
        ("<%results.nobody.x%>", "and no codon is called so"),
        ("<%results.plan.file%>", "allows no `file` there"),
        ("<%results.build%>", "has no `result`"),
    ] {
        story.hank(&[
            story.codon("plan", "PLAN", &files()),
            story.codon("build", "BUILD", &ask(text)),
        ]);
        let said = story.0.run(["validate"]).expect_code(1).stdout.clone();
        assert!(
            said.contains("hank[1].approval (codon \"build\"): names"),
            "{said}"
        );
        assert!(said.contains(words), "{words}: {said}");
    }
}

// covers: HANK-92, TASK-122
#[test]
fn the_question_of_a_task_has_results() {
    let story = Story::new();
    story.answer("plan", r#"{"files": ["of the task"]}"#);
    let base = json!({"env": {"BASE": story.0.directory().parent().unwrap()}});
    let codons = [
        story.codon("plan", "PLAN", &with(files(), &base)),
        story.codon(
            "build",
            "BUILD",
            &json!({"approval": "Build <%results.plan.files.0%>?"}),
        ),
    ];
    story
        .0
        .write("page/hank.json", json!({"hank": codons}).to_string());
    let create = ["task", "create", "Ask", "--hank", "page", "--id", "ask"];
    story.0.run(create).expect_code(0);
    story.0.run(["worker", "--once"]);
    let shown = story.0.run(["task", "show", "ask"]).stdout;
    assert!(
        shown.contains("Build of the task?") && !shown.contains("<%"),
        "{shown}"
    );
}

// covers: STATE-72, CLI-44
#[test]
fn a_report_has_what_an_agent_was_asked_with_values() {
    let story = Story::new();
    story.0.write(
        "build.md",
        "# Build\n\nBuild <%results.plan.files%>\n<!-- later -->now\n",
    );
    let mut build = story.codon("build", "", &json!({}));
    build.as_object_mut().unwrap().remove("promptText");
    build["promptFile"] = json!("build.md");
    let long = "word ".repeat(400);
    story.hank(&[
        story.codon("plan", "PLAN", &files()),
        build,
        story.codon("long", &long, &json!({})),
    ]);
    story.answer("plan", r#"{"files": ["a.rs"]}"#);
    story.run(0);
    let expected = r#"# Build Build ["a.rs"] now"#;
    // What is recorded stays when the file and the result change.
    story.0.write("build.md", "changed");
    let report = story.0.run(["report", "--json"]).json_document();
    let asked = |at: usize| report["codons"][at]["asked"].as_str().unwrap().to_owned();
    assert_eq!((asked(0).as_str(), asked(1).as_str()), ("PLAN", expected));
    assert!(asked(2).len() <= 240 && asked(2).ends_with('…'), "{}", asked(2));
    assert_eq!(story.records("build")[0]["asked"], expected);
    let text = story.0.run(["report"]).stdout;
    assert!(text.contains(r#"\# Build Build \["a.rs"\] now"#), "{text}");
}

// covers: STATE-80
#[test]
fn a_task_has_results_as_a_run_has() {
    let story = Story::new();
    story.answer("plan", r#"{"files": ["of the task"]}"#);
    let base = json!({"env": {"BASE": story.0.directory().parent().unwrap()}});
    let codons = [
        story.codon("plan", "PLAN", &with(files(), &base)),
        story.codon("build", "<%results.plan.files.0%>", &base),
    ];
    story
        .0
        .write("page/hank.json", json!({"hank": codons}).to_string());
    let create = [
        "task",
        "create",
        "Plan and build",
        "--hank",
        "page",
        "--id",
        "flow",
    ];
    story.0.run(create).expect_code(0);
    story.0.run(["worker", "--once"]).expect_code(0);
    let shown = story.0.run(["task", "show", "flow", "--json"]);
    let shown = shown.expect_code(0).json_document();
    assert_eq!(shown["task"]["status"], "completed", "{shown:#}");
    assert_eq!(story.read("prompt-build-1"), "of the task");
}

/// Dollars for everything that was served, at the prices of each lane.
fn served(server: &ModelServer) -> f64 {
    let rate = |lane: &str| match lane {
        "claude" | "sub" => (3.0, 15.0),
        "codex" => (1.25, 10.0),
        other => panic!("{other} was asked"),
    };
    let served = server.served();
    let whole = served.iter().filter(|one| one.whole && one.input > 0);
    whole
        .map(|one| {
            let (input, output) = rate(&one.lane);
            (one.input as f64 * input + one.output as f64 * output) / 1e6
        })
        .sum()
}

// covers: AGENT-70, HANK-90, HANK-92
#[test]
fn the_real_claude_and_codex_answer_in_a_form_and_cost_what_was_served() {
    let (claude, codex) = match (agents::claude(), RealAgent::codex(agents::codex())) {
        (Ok(claude), Ok(codex)) => (claude, codex),
        (claude, codex) => {
            for skip in [claude.err(), codex.err()].into_iter().flatten() {
                println!("{skip}");
            }
            return;
        }
    };
    let usage = json!({"input": 1000, "output": 50});
    let says = |text: &str| json!({"text": text, "usage": usage});
    let answers = |files: Value| json!({"tools": [{"name": "StructuredOutput", "input": {"files": files}}], "usage": usage});
    let sub = json!({"op": "task", "prompt": "SUB-WORK", "description": "d", "subagent": "general-purpose"});
    let scenario = json!({"lanes": [
        {"name": "codex", "when": {"dialect": "responses"}, "turns": [says("Done."), says(r#"{"files": ["c.txt"]}"#), says("I think {so}."), says("```json\n{\"ok\": true}\n```")]},
        {"name": "sub", "when": {"first_user": "SUB-WORK"}, "turns": [says(r#"{"files": ["of the sub-agent"]}"#)]},
        {"name": "claude", "turns": [{"text": "I ask.", "tools": [sub], "usage": usage}, answers(json!("a.txt")), answers(json!(["a.txt", "b.txt"]))]}]});
    let (mut project, server) = codex.stage(scenario);
    project.set("HANKWEAVE_CLAUDE_PATH", claude);
    let strict = json!({"result": {"schema": {"type": "object", "additionalProperties": false, "required": ["files"],
        "properties": {"files": {"type": "array", "items": {"type": "string"}}}}}});
    let open = json!({"result": {"schema": {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}}});
    let plan = json!({"id": "plan", "name": "plan", "agent": "claude", "model": "claude-sonnet-4-5", "continuationMode": "fresh", "promptText": "PLAN",
        "permissions": "read-only",
        "env": {"ANTHROPIC_BASE_URL": server.url(), "ANTHROPIC_API_KEY": "sk-good", "CLAUDE_CODE_MAX_RETRIES": "1", "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}});
    project.write_hank(&json!({"hank": [
        with(plan, &strict),
        with(codex.codon("build", "fresh", "BUILD <%results.plan.files%>"), &strict),
        with(codex.codon("review", "continue-previous", "REVIEW <%results.build.files.0%>"), &open),
    ]}));
    project.run(["validate"]).expect_code(0);
    project.run(["run", "--headless"]).expect_code(0);
    let state = project.state(&project.directory());
    let run = &state["runs"][0];
    for (id, result) in [
        ("plan", json!({"files": ["a.txt", "b.txt"]})),
        ("build", json!({"files": ["c.txt"]})),
        ("review", json!({"ok": true})),
    ] {
        assert_eq!(codon(run, id)["result"], result, "{id}");
    }
    let costs = run["codons"].as_array().unwrap().iter();
    let sum: f64 = costs.map(|record| record["finalCost"].as_f64().unwrap()).sum();
    assert_usd(&json!(sum), served(&server));
    let asked: Vec<String> = server
        .requests()
        .iter()
        .filter_map(|asked| Some(asked.body()?.to_string()))
        .collect();
    let count = |words: &str| asked.iter().filter(|body| body.contains(words)).count();
    assert!(count("StructuredOutput") >= 3, "claude has its schema");
    assert_eq!(
        count(r#""type":"json_schema""#),
        2,
        "codex is given the strict schema, and once more"
    );
    assert!(count(r#"BUILD [\"a.txt\",\"b.txt\"]"#) > 0 && count("REVIEW c.txt") > 0);
    assert!(
        count("It must fit this JSON Schema") > 0,
        "the open schema is asked for in the prompt"
    );
    assert_eq!(project.left_behind(), []);
    project.run(["replay", "."]).expect_code(0);
}
