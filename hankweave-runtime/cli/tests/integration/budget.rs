//! Budgets of real runs (HANK-30 to HANK-40).

use hankweave_testing::{Finished, TestProject};
use serde_json::{Value, json};

use crate::support::{assert_checkpoint, assert_usd, codon, project};

/// 100,000 tokens of this model cost 0.3 dollars.
const MODEL: &str = "claude-sonnet-4-5";

/// An agent that is done after 0.5 dollars, which it reports at its end.
fn spends(project: &TestProject) -> Value {
    let result = json!({"type": "result", "subtype": "success", "is_error": false, "session_id": "s-1", "result": "done",
        "total_cost_usd": 0.5, "usage": {"input_tokens": 1000, "output_tokens": 100}});
    let program = format!("{OPENING}echo done > a.txt\necho '{result}'\n");
    json!({"command": ["sh", project.write("spends.sh", program)], "stream": "claude"})
}

/// How a program begins that speaks as claude does.
const OPENING: &str = r#"cat > /dev/null
echo '{"type":"system","subtype":"init","session_id":"s-1","model":"claude-haiku-4-5","cwd":"/","tools":[]}'
"#;

/// End of such a program with an error of its provider, after an amount of dollars that it reports only then.
fn overloaded(dollars: f64) -> String {
    let line = json!({"type": "result", "subtype": "success", "is_error": true, "session_id": "s-1", "result": "API Error: 529 Overloaded",
        "terminal_reason": "api_error", "api_error_status": 529, "total_cost_usd": dollars,
        "usage": {"input_tokens": 500_000, "output_tokens": 0}});
    format!("echo '{line}'\nexit 1\n")
}

/// Says something for 0.3 dollars, `times` over, and writes its number each time; then does what `end` says.
fn script(project: &TestProject, name: &str, times: usize, end: &Value) -> Value {
    let turn = json!({"text": "working", "usage": {"input": 100_000, "output": 0},
        "tools": [{"append": {"path": format!("{name}.txt"), "content": "turn ${N}\n"}}]});
    let mut script = json!({"turns": vec![turn; times]});
    for (key, value) in end.as_object().unwrap() {
        script[key] = value.clone();
    }
    let file = format!("{name}.json");
    project.write(&file, script.to_string());
    json!({"script": file})
}

/// A codon that takes this number of turns and is then done.
fn turns(project: &TestProject, id: &str, times: usize, more: &Value) -> Value {
    with_script(id, &script(project, id, times, &json!({})), more)
}

/// A codon that takes one turn and never ends by itself.
fn endless(project: &TestProject, id: &str, more: &Value) -> Value {
    let agent = script(project, id, 1, &json!({}));
    let path = project.directory().join(format!("{id}.json"));
    let mut script: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    script["turns"][0]["hang"] = json!(true);
    project.write(&format!("{id}.json"), script.to_string());
    with_script(id, &agent, more)
}

fn with_script(id: &str, agent: &Value, more: &Value) -> Value {
    let mut codon = json!({"id": id, "name": id, "agent": agent, "model": MODEL, "continuationMode": "fresh", "promptText": "go",
        "checkpointedFiles": ["*.txt"]});
    for (key, value) in more.as_object().unwrap() {
        codon[key] = value.clone();
    }
    codon
}

fn write_hank(project: &TestProject, budget: &Value, items: &[Value]) {
    let mut hank = json!({"hank": items});
    if !budget.is_null() {
        hank["overrides"] = json!({"budget": budget});
    }
    project.write_hank(&hank);
}

/// The data of the one event of this type about this codon.
#[track_caller]
fn event(finished: &Finished, event_type: &str, id: Option<&str>) -> Value {
    let mut events = finished
        .json_lines()
        .into_iter()
        .filter(|event| event["type"] == event_type && id.is_none_or(|id| event["data"]["codonId"] == id));
    let found = events
        .next()
        .unwrap_or_else(|| panic!("no {event_type}\n{finished}"));
    assert!(events.next().is_none(), "{event_type} comes once");
    found["data"].clone()
}

fn state(project: &TestProject) -> Value {
    project.state(&project.directory())
}

fn statuses(run: &Value) -> Vec<(&str, &str)> {
    let records = run["codons"].as_array().unwrap().iter();
    records
        .map(|record| {
            (
                record["codonId"].as_str().unwrap(),
                record["status"].as_str().unwrap(),
            )
        })
        .collect()
}

// covers: HANK-37, HANK-38
#[test]
fn an_agent_that_spends_too_much_is_stopped_and_its_work_counts() {
    let project = project();
    let items = [
        endless(&project, "a", &json!({"budget": {"maxDollars": 0.25}})),
        turns(&project, "b", 1, &json!({})),
    ];
    write_hank(&project, &Value::Null, &items);
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(0);
    assert_eq!(project.left_behind(), []);

    let state = state(&project);
    let run = &state["runs"][0];
    assert_eq!(statuses(run), [("a", "completed"), ("b", "completed")]);
    let stopped = codon(run, "a");
    assert_usd(&stopped["finalCost"], 0.3);
    assert_eq!(stopped["resultMessageReceived"], false);
    let exceeded = json!({"currency": "cost", "limit": 0.25, "used": 0.3});
    assert_eq!(stopped["budgetExceeded"], exceeded);
    assert_checkpoint(&project, &project.directory(), &stopped["completionCheckpoint"]);
    let ended = event(&finished, "codon.completed", Some("a"));
    assert_eq!(
        (&ended["success"], &ended["budgetExceeded"]),
        (&json!(true), &exceeded)
    );
    assert_eq!(codon(run, "b").get("budgetExceeded"), None);

    let summary = event(&finished, "budget.summary", None);
    assert_eq!(summary["rows"][0]["status"], "exceeded");
    assert_eq!(summary["rows"][1]["budget"], json!({}));
    assert_usd(&summary["totals"]["actualDollars"], 0.6);
    let status = project.run(["status"]);
    assert!(
        status.stdout.contains(
            "budget reached: used at least $0.3000 of $0.2500, over its budget by at least $0.0500"
        ),
        "{status}"
    );
    assert!(status.stdout.contains("budget: at least $0.6000, "), "{status}");
    let status = project.run(["status", "--json"]).json_document();
    assert_eq!(status["run"]["codons"][0]["budgetExceeded"], exceeded);
    assert_eq!(status["budget"], summary);
}

/// The limit of the second codon is what the first one left of the total, and each screen says so.
// covers: WIRE-17, HANK-38, CLI-44
#[test]
fn a_codon_that_used_up_the_rest_of_the_total_says_what_was_left_of_which_total() {
    let project = project();
    let items = [
        turns(&project, "a", 1, &json!({})),
        endless(&project, "b", &json!({})),
    ];
    write_hank(
        &project,
        &json!({"maxDollars": 0.5, "onExceeded": "complete"}),
        &items,
    );
    let finished = project.run(["run", "--headless"]);
    let said = "budget reached: used at least $0.3000 of the $0.2000 left of the total of $0.5000, over the total by at least $0.1000";
    finished.expect_code(0);
    assert!(finished.stderr.contains(said), "{finished}");
    assert!(
        finished
            .stderr
            .contains("Finished: 2 of 2 codons completed, 1 with its budget reached."),
        "{finished}"
    );
    for command in ["status", "report", "cost"] {
        let told = project.run([command]);
        assert!(told.stdout.contains(said), "{command}: {told}");
    }
    let report = project.run(["report"]);
    assert!(
        report.stdout.contains("| b (`b`) | completed (budget reached) |")
            && report.stdout.contains("| a (`a`) | completed |"),
        "{report}"
    );
    for command in [&["thread"][..], &["state", "history"]] {
        let told = project.run(command);
        let noted: Vec<&str> = told
            .stdout
            .lines()
            .filter(|line| line.ends_with("  budget reached"))
            .collect();
        assert!(
            noted.len() == 1 && noted[0].trim_start().starts_with("b "),
            "{told}"
        );
    }
    let exceeded = json!({"currency": "cost", "limit": 0.2, "used": 0.3, "total": 0.5});
    let document = |command| project.run([command, "--json"]).json_document();
    assert_eq!(document("status")["run"]["codons"][1]["budgetExceeded"], exceeded);
    assert_eq!(
        document("cost")["runs"][0]["codons"][1]["budgetExceeded"],
        exceeded
    );
    let codon = document("report")["codons"][1].clone();
    assert_eq!(
        (&codon["budgetExceeded"], &codon["state"]),
        (&exceeded, &json!("completed"))
    );
}

// covers: HANK-38
#[test]
fn a_budget_may_be_a_reason_to_fail_and_no_policy_tries_that_again() {
    for (policy, code, ran) in [
        ("abort", 1, vec![("a", "failed")]),
        ("retry", 1, vec![("a", "failed")]),
        ("ignore", 0, vec![("a", "failed"), ("b", "completed")]),
    ] {
        let project = project();
        let more = json!({"budget": {"maxDollars": 0.25, "onExceeded": "fail"}, "onFailure": policy});
        let items = [endless(&project, "a", &more), turns(&project, "b", 1, &json!({}))];
        write_hank(&project, &Value::Null, &items);
        let finished = project.run(["run", "--headless"]);
        finished.expect_code(code);
        let state = state(&project);
        assert_eq!(statuses(&state["runs"][0]), ran, "{policy}");
        let failed = codon(&state["runs"][0], "a");
        assert_eq!(
            (
                &failed["failureReason"]["retriable"],
                &failed["failureReason"]["message"]
            ),
            (
                &json!(false),
                &json!("the budget is used up: used $0.3000 of $0.2500")
            )
        );
        assert_usd(&failed["partialCost"], 0.3);
        assert_eq!(failed["budgetExceeded"]["currency"], "cost");
    }
}

// Time is enforced independently of messages.
// covers: HANK-35
#[test]
fn an_agent_that_says_nothing_is_stopped_when_its_time_is_over() {
    let project = project();
    write_hank(
        &project,
        &json!({"maxTimeSeconds": 2.5}),
        &[
            endless(&project, "a", &json!({})),
            turns(&project, "b", 1, &json!({})),
        ],
    );
    let finished = project.run(["run", "--headless"]);
    finished.expect_code(3);
    assert!(finished.elapsed.as_secs() < 60, "{:?}", finished.elapsed);
    let state = state(&project);
    assert_eq!(statuses(&state["runs"][0]), [("a", "failed")]);
    let stopped = codon(&state["runs"][0], "a");
    assert_eq!(
        (
            &stopped["failureReason"]["interruptedBy"],
            &stopped["budgetExceeded"]["currency"]
        ),
        (&json!("ceiling"), &json!("duration"))
    );
    assert!(stopped["budgetExceeded"]["used"].as_f64() >= stopped["budgetExceeded"]["limit"].as_f64());
    assert!(finished.stderr.contains("Paused in a: "), "{finished}");
    assert!(finished.stderr.contains(" --max-time "), "{finished}");
}

// The run ends with exit code 3 and continues from there with more.
// covers: HANK-38, CLI-1
#[test]
fn a_used_up_ceiling_pauses_and_more_money_lets_the_agent_go_on_in_its_session() {
    let project = project();
    let items = [
        turns(&project, "a", 1, &json!({})),
        endless(&project, "b", &json!({})),
        turns(&project, "c", 1, &json!({})),
    ];
    write_hank(&project, &json!({"maxDollars": 0.5}), &items);
    let finished = project.run(["run", "--headless"]);
    finished.expect_code(3);
    assert_eq!(project.left_behind(), []);
    for words in [
        "b: paused after",
        "Paused in b: the total budget is used up: used at least $0.6000 of $0.5000; 1 of 3 codons completed.",
        "--max-cost 1.10\n",
    ] {
        assert!(
            finished.stderr.contains(words) || finished.stdout.contains(words),
            "{words}\n{finished}"
        );
    }
    let paused = state(&project);
    let run = &paused["runs"][0];
    assert_eq!(statuses(run), [("a", "completed"), ("b", "failed")]);
    assert_eq!(
        (&run["status"], &run["interruptedBy"]),
        (&json!("failed"), &json!("ceiling"))
    );
    let first = codon(run, "b").clone();
    assert_eq!(first["failureReason"]["interruptedBy"], "ceiling");
    assert_usd(&first["partialCost"], 0.3);
    let thread = project.run(["thread", "--json"]).json_document();
    assert_eq!(
        (&thread["nextCodonId"], &thread["failed"]),
        (&json!("b"), &json!(false))
    );
    let status = project.run(["status"]).stdout;
    assert!(
        status.contains(": paused (total budget of $") && status.contains("next: b"),
        "{status}"
    );

    // Nothing more may be spent: a repetition of the command changes nothing, and says so again.
    project.run(["run", "--headless"]).expect_code(3);
    let same = state(&project);
    assert_eq!(same["runs"][0]["codons"], json!([]));

    let goes_on = json!({"turns": [{"text": "${PROMPT}", "usage": {"input": 100_000, "output": 0},
        "tools": [{"append": {"path": "b.txt", "content": "${PROMPT}\n"}}]}]});
    project.write("b.json", goes_on.to_string());
    let goes_on = project.run(["run", "--headless", "--max-cost", "1.3"]);
    goes_on.expect_code(0);
    let done = state(&project);
    let run = &done["runs"][0];
    assert!(
        goes_on
            .stderr
            .contains("    1 attempt of it before this run, as `hankweave history` shows"),
        "{goes_on}"
    );
    assert_eq!(statuses(run), [("b", "completed"), ("c", "completed")]);
    let second = codon(run, "b");
    assert_eq!(second["previousSessionId"], first["claudeSessionId"]);
    assert_eq!(second["claudeSessionId"], first["claudeSessionId"]);
    let written = std::fs::read_to_string(project.directory().join("b.txt")).unwrap();
    assert!(
        written.contains("You were interrupted before you had finished."),
        "the agent is not told its task again: {written}"
    );
    // What was paid is counted once.
    assert_usd(&second["finalCost"], 0.3);
    let status = project.run(["status", "--json"]).json_document();
    assert_usd(&status["totalCost"], 1.2);
    assert_usd(&status["budget"]["totals"]["actualDollars"], 1.2);
}

// A codon that continues in its session is one execution: what it had written before it was stopped counts.
// covers: HANK-36
#[test]
fn output_tokens_are_counted_on_when_a_codon_goes_on_in_its_session() {
    let project = project();
    let writes = |hangs: bool| {
        let mut turn = json!({"text": "working", "usage": {"input": 10, "output": 30},
            "tools": [{"append": {"path": "a.txt", "content": "turn\n"}}]});
        let mut turns = vec![turn.clone(); 4];
        turn["hang"] = json!(hangs);
        turns[1] = turn;
        json!({"turns": turns}).to_string()
    };
    project.write("a.json", writes(true));
    let agent = json!({"script": "a.json"});
    let codon_a = with_script("a", &agent, &json!({"budget": {"maxOutputTokens": 20}}));
    write_hank(&project, &Value::Null, &[codon_a]);
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("\"tool.result\""));
    running.signal(rustix::process::Signal::INT);
    running
        .finish_within(std::time::Duration::from_secs(30))
        .expect_code(130);
    project.write("a.json", writes(false));
    project
        .run(["run", "--headless", "--recover", "session"])
        .expect_code(0);
    let state = state(&project);
    let [second, first] = [0, 1].map(|run| codon(&state["runs"][run], "a"));
    assert_eq!(second["claudeSessionId"], first["claudeSessionId"]);
    // Cut off, the scripted agent has reported one token for each message.
    let written = first["partialTokens"]["outputTokens"].as_u64().unwrap();
    assert!((1..20).contains(&written), "{first:#}");
    let exceeded = &second["budgetExceeded"];
    assert_eq!(exceeded["currency"], "outputTokens", "{second:#}");
    assert_eq!(exceeded["limit"], 20 - written, "{second:#}");
}

// Only its own limit ends a codon and lets the plan continue; `pause` and `fail` have to be chosen.
// covers: HANK-38
#[test]
fn a_limit_of_a_codon_pauses_only_when_its_hank_says_so() {
    let project = project();
    let more = json!({"budget": {"maxDollars": 0.25, "onExceeded": "pause"}});
    let items = [endless(&project, "a", &more), turns(&project, "b", 1, &json!({}))];
    write_hank(&project, &Value::Null, &items);
    let finished = project.run(["run", "--headless"]);
    finished.expect_code(3);
    assert!(
        finished
            .stderr
            .contains("Paused in a: its budget is used up: used $0.3000 of $0.2500 (a larger `maxDollars` in hank.json lets it continue);"),
        "{finished}"
    );
    assert!(!finished.stderr.contains("--max-cost"), "{finished}");
    assert_eq!(statuses(&state(&project)["runs"][0]), [("a", "failed")]);
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(
        status
            .contains("continues with a in its session, with a `maxDollars` well above $0.3000 in hank.json"),
        "{status}"
    );

    // Without a larger limit it pauses again, with this message again.
    let again = project.run(["run", "--headless"]);
    assert!(
        again.expect_code(3).stderr.contains(
            "Paused before a: its budget is used up: used $0.3000 of $0.2500 (a larger `maxDollars`"
        ),
        "{again}"
    );
    let larger = json!({"budget": {"maxDollars": 0.95, "onExceeded": "pause"}});
    let items = [
        turns(&project, "a", 2, &larger),
        turns(&project, "b", 1, &json!({})),
    ];
    write_hank(&project, &Value::Null, &items);
    project.run(["run", "--headless"]).expect_code(0);
}

// An agent that reports its cost only at its end passes a limit, and has done its work.
// covers: HANK-38
#[test]
fn a_codon_that_passed_its_limit_and_is_done_says_so_whatever_the_limit_does() {
    for on_exceeded in ["complete", "pause"] {
        let project = project();
        let agent = spends(&project);
        let more = json!({"budget": {"maxDollars": 0.1, "onExceeded": on_exceeded}});
        let items = [
            with_script("a", &agent, &more),
            turns(&project, "b", 1, &json!({})),
        ];
        write_hank(&project, &Value::Null, &items);
        let finished = project.run(["run", "--headless"]);
        assert!(
            finished
                .expect_code(0)
                .stderr
                .contains("budget reached: used $0.5000 of $0.1000, over its budget by $0.4000"),
            "{on_exceeded}: {finished}"
        );
        for command in ["status", "report"] {
            let said = project.run([command]);
            assert!(
                said.stdout.contains("over its budget by $0.4000"),
                "{on_exceeded}: {said}"
            );
        }
    }
}

// The last iteration passes the limit of its loop, at which nothing can pause any more.
// covers: HANK-38
#[test]
fn a_loop_that_ends_over_its_limit_says_by_how_much() {
    let project = project();
    let agent = spends(&project);
    let looped = json!({"type": "loop", "id": "l", "name": "L", "terminateOn": {"type": "iterationLimit", "limit": 1},
        "codons": [with_script("a", &agent, &json!({}))], "budget": {"maxDollars": 0.1, "onExceeded": "pause"}});
    write_hank(&project, &Value::Null, &[looped]);
    let finished = project.run(["run", "--headless"]);
    let [status, report] = [["status"], ["report"]].map(|command| project.run(command));
    for said in [&finished.expect_code(0).stderr, &status.stdout, &report.stdout] {
        let over = "used $0.5000 of its loop's $0.1000, over that of its loop by $0.4000";
        assert!(said.contains(over), "{said}");
    }
}

// An error in the answer that passes the limit is one, whether the agent ends by itself or is stopped for the limit first; another
// agent has nothing left.
// covers: HANK-38
#[test]
fn an_agent_that_fails_in_the_answer_that_passes_its_limit_has_failed() {
    let spends = r#"echo '{"type":"assistant","session_id":"s-1","message":{"id":"m-1","role":"assistant","model":"claude-haiku-4-5","stop_reason":null,"content":[{"type":"text","text":"on it"}],"usage":{"input_tokens":500000,"output_tokens":1}}}'
"#;
    let error = overloaded(0.5);
    let by_itself = format!("{OPENING}{error}");
    let stopped =
        format!("{OPENING}says() {{\n{error}}}\ntrap says INT TERM\n{spends}while :; do sleep 0.05; done\n");
    for (program, on_exceeded) in [&by_itself, &stopped]
        .into_iter()
        .flat_map(|program| ["complete", "pause", "fail"].map(|on_exceeded| (program, on_exceeded)))
    {
        let project = project();
        let agent = json!({"command": ["sh", project.write("fails.sh", program)], "stream": "claude"});
        let more = json!({"budget": {"maxDollars": 0.1, "onExceeded": on_exceeded}, "fallback": ["claude-opus-4-5"]});
        let items = [
            with_script("a", &agent, &more),
            turns(&project, "b", 1, &json!({})),
        ];
        write_hank(&project, &Value::Null, &items);
        let finished = project.run(["run", "--headless"]);
        let code = if on_exceeded == "pause" { 3 } else { 1 };
        assert!(
            finished.expect_code(code).stderr.contains("529 Overloaded"),
            "{on_exceeded}: {finished}"
        );
        let state = state(&project);
        assert_eq!(
            statuses(&state["runs"][0]),
            [("a", "failed")],
            "{on_exceeded}: {finished}"
        );
        let failed = codon(&state["runs"][0], "a");
        assert_usd(&failed["budgetExceeded"]["limit"], 0.1);
        for command in ["status", "report"] {
            let said = project.run([command]);
            for words in ["529 Overloaded", "$0.1000"] {
                assert!(said.stdout.contains(words), "{on_exceeded}: {words}\n{said}");
            }
        }
    }
}

// What has no work yet is skipped, or fails.
// covers: HANK-35
#[test]
fn the_time_of_a_codon_runs_while_its_rig_is_set_up_and_its_agent_starts() {
    let project = project();
    let codon_with = |id: &str, on_exceeded: &str, agent: &Value, rig: &Value| {
        let budget = json!({"maxTimeSeconds": 0.4, "onExceeded": on_exceeded});
        with_script(
            id,
            agent,
            &json!({"budget": budget, "rigSetup": rig, "onFailure": "ignore"}),
        )
    };
    let slow_rig = json!([{"type": "command", "command": {"run": "sleep 600"}, "allowFailure": true}]);
    let mute = json!({"command": ["sleep", "600"], "stream": "claude"});
    let items = [
        codon_with("rig", "complete", &mute, &slow_rig),
        codon_with("rig-fails", "fail", &mute, &slow_rig),
        codon_with("mute", "complete", &mute, &json!([])),
        codon_with("mute-fails", "fail", &mute, &json!([])),
    ];
    write_hank(&project, &Value::Null, &items);
    let finished = project.run(["run", "--headless"]);
    finished.expect_code(0);
    assert!(finished.elapsed.as_secs() < 60, "{:?}", finished.elapsed);
    assert_eq!(project.left_behind(), []);
    let state = state(&project);
    let run = &state["runs"][0];
    for (id, status, during) in [
        ("rig", "skipped", "preparing"),
        ("rig-fails", "failed", "preparing"),
        ("mute", "skipped", "initializing"),
        ("mute-fails", "failed", "initializing"),
    ] {
        let record = codon(run, id);
        assert_eq!(record["status"], status, "{record:#}");
        assert_eq!(record["budgetExceeded"]["currency"], "duration", "{record:#}");
        let moment = if status == "failed" {
            "failedDuring"
        } else {
            "skippedDuring"
        };
        assert_eq!(record[moment], during, "{record:#}");
    }
}

// covers: CLI-7
#[test]
fn validate_shows_the_budgets_of_hank_loops_and_codons() {
    let project = project();
    let inner = turns(
        &project,
        "in",
        1,
        &json!({"budget": {"maxOutputTokens": 9, "maxContextTokens": 99, "onExceeded": "fail"}}),
    );
    let items = [
        turns(&project, "a", 1, &json!({"budget": {"maxDollars": 0.5}})),
        json!({"type": "loop", "id": "l", "name": "L", "terminateOn": {"type": "iterationLimit", "limit": 2}, "codons": [inner],
            "budget": {"maxTimeSeconds": 30.5}}),
    ];
    let budget = json!({"maxDollars": 2, "maxTimeSeconds": 60.5, "allocation": "proportional", "shares": {"a": 0.5, "l": 0.25}});
    write_hank(&project, &budget, &items);
    let finished = project.run(["validate"]);
    finished.expect_code(0);
    for line in [
        "may use $2.0000 and 1m0s, shared proportionally (a 50 %, l 25 %), then pauses",
        "may use $0.5000\n",
        "may use 30s\n",
        "may use 9 output tokens and 99 context tokens, or fails",
    ] {
        assert!(finished.stdout.contains(line), "{line} is missing\n{finished}");
    }
    let document = project.run(["validate", "--json"]).json_document();
    assert_eq!(document["budget"], budget);
    assert_eq!(document["loops"][0]["budget"], json!({"maxTimeSeconds": 30.5}));
    assert_eq!(document["loops"][0]["loopId"], "l");
    assert_eq!(document["codons"][1]["budget"]["onExceeded"], "fail");
}

/// A share is of the total, so that a larger limit of the codon would not help.
// covers: HANK-31, HANK-35
#[test]
fn a_codon_that_has_used_up_its_share_says_so() {
    let project = project();
    let budget =
        json!({"maxDollars": 2, "allocation": "proportional", "shares": {"a": 0.1}, "onExceeded": "pause"});
    write_hank(&project, &budget, &[endless(&project, "a", &json!({}))]);
    let paused = project.run(["run", "--headless"]);
    let words =
        "used $0.3000 of its share of $0.2000 (a larger total or share in hank.json lets it continue)";
    assert!(paused.expect_code(3).stderr.contains(words), "{paused}");
    let status = project.run(["status"]).stdout.clone();
    assert!(
        status.contains("with a larger total or share in hank.json"),
        "{status}"
    );
    let state = project.state(&project.directory());
    assert_eq!(codon(&state["runs"][0], "a")["budgetExceeded"]["share"], true);
}

// covers: HANK-36
#[test]
fn tokens_are_limited_by_what_the_agent_reports() {
    let project = project();
    let reports =
        json!({"turns": [{"text": "much", "usage": {"input": 10, "output": 50, "cacheRead": 900}}]});
    project.write("much.json", reports.to_string());
    let agent = json!({"script": "much.json"});
    let limited = |id: &str, budget: Value| with_script(id, &agent, &json!({"budget": budget}));
    let items = [
        limited("output", json!({"maxOutputTokens": 40})),
        limited("enough", json!({"maxOutputTokens": 51, "maxContextTokens": 1000})),
        limited("context", json!({"maxContextTokens": 900})),
    ];
    write_hank(&project, &Value::Null, &items);
    project.run(["run", "--headless"]).expect_code(0);
    let state = state(&project);
    let run = &state["runs"][0];
    assert_eq!(
        codon(run, "output")["budgetExceeded"],
        json!({"currency": "outputTokens", "limit": 40, "used": 50})
    );
    assert_eq!(codon(run, "enough").get("budgetExceeded"), None);
    assert_eq!(
        codon(run, "context")["budgetExceeded"],
        json!({"currency": "contextTokens", "limit": 900, "used": 911})
    );
}

/// Nothing is started for a codon that has nothing left, and the next run knows what the one before spent.
// covers: HANK-30, HANK-40
#[test]
fn the_ceiling_of_the_command_line_holds_over_runs_and_nothing_starts_beyond_it() {
    let project = project();
    let items = [
        endless(&project, "a", &json!({"budget": {"maxDollars": 0.3}})),
        turns(&project, "b", 1, &json!({})),
        endless(&project, "c", &json!({})),
    ];
    write_hank(&project, &json!({"maxDollars": 9}), &items);
    let run = |most: &str| project.run(["run", "--headless", "--max-cost", most]);
    let finished = run("0.3");
    finished.expect_code(3);
    assert!(
        finished
            .stderr
            .contains("Paused before b: the total budget is used up: used ")
            && finished.stderr.contains("$0.3000 of $0.3000; 1 of 3 codons"),
        "{finished}"
    );
    let first = state(&project);
    assert_eq!(
        statuses(&first["runs"][0]),
        [("a", "completed")],
        "b is not skipped"
    );
    assert_eq!(first["runs"][0]["interruptedBy"], "ceiling");
    assert!(!project.directory().join("b.txt").exists());
    let thread = project.run(["thread", "--json"]).json_document();
    assert_eq!(
        (&thread["nextCodonId"], &thread["failed"]),
        (&json!("b"), &json!(false))
    );

    run("0.7").expect_code(3);
    let second = state(&project);
    assert_eq!(
        statuses(&second["runs"][0]),
        [("b", "completed"), ("c", "failed")]
    );
    assert_eq!(
        codon(&second["runs"][0], "c")["budgetExceeded"],
        json!({"currency": "cost", "limit": 0.1, "used": 0.3, "total": 0.7})
    );

    // The cost of work that a rollback undid still counts.
    project.run(["rollback", "--codon", "a"]).expect_code(0);
    let finished = run("0.8");
    finished.expect_code(3);
    assert!(
        finished.stderr.contains("Paused before b: ") && finished.stderr.contains("$0.9000 of $0.8000"),
        "{finished}"
    );
}

#[test]
fn every_try_of_a_codon_is_paid_from_the_same_budget() {
    let project = project();
    let program = format!("{OPENING}{}", overloaded(0.3));
    let agent = json!({"command": ["sh", project.write("fails.sh", program)], "stream": "claude"});
    let more = json!({"onFailure": "retry", "retryConfig": {"delayMs": 0}, "budget": {"maxDollars": 0.5}});
    write_hank(&project, &Value::Null, &[with_script("a", &agent, &more)]);
    project.run(["run", "--headless"]).expect_code(1);
    let state = state(&project);
    assert_eq!(statuses(&state["runs"][0]), [("a", "failed"), ("a", "failed")]);
    let last = &state["runs"][0]["codons"][1];
    assert_eq!(
        last["budgetExceeded"],
        json!({"currency": "cost", "limit": 0.2, "used": 0.3})
    );
}

// What is offered is that of the hank only where it leaves room.
// covers: CLI-44
#[test]
fn a_limit_that_leaves_hardly_anything_is_not_offered() {
    for (of_hank, offered) in [(0.35, "0.55"), (0.4, "0.40")] {
        let project = project();
        let items = [
            turns(&project, "a", 1, &json!({})),
            turns(&project, "b", 1, &json!({})),
        ];
        write_hank(&project, &json!({"maxDollars": of_hank}), &items);
        let paused = project.run(["run", "--headless", "--max-cost", "0.25"]);
        let raise = format!("hankweave run --max-cost {offered}\n");
        assert!(
            paused.expect_code(3).stderr.contains(&raise),
            "{of_hank}: {paused}"
        );
    }
}

// covers: STATE-41, HANK-34
#[test]
fn the_budget_of_a_loop_ends_it_and_the_plan_goes_on_behind_it() {
    let project = project();
    let inner = [
        turns(&project, "b", 1, &json!({"onFailure": "ignore"})),
        turns(&project, "c", 1, &json!({"onFailure": "ignore"})),
    ];
    let found = json!({"type": "loop", "id": "l", "name": "L", "terminateOn": {"type": "iterationLimit", "limit": 5},
        "codons": inner, "budget": {"maxDollars": 0.8}});
    write_hank(
        &project,
        &Value::Null,
        &[found, turns(&project, "d", 1, &json!({}))],
    );
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(0);
    let state = state(&project);
    let run = &state["runs"][0];
    let ran: Vec<&str> = statuses(run).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ran, ["b#0", "c#0", "b#1", "d"]);
    assert_eq!(codon(run, "b#1")["budgetExceeded"]["limit"], 0.2);
    let iterations: Vec<(Value, Value)> = finished
        .json_lines()
        .into_iter()
        .filter(|event| event["type"] == "loop.iteration.completed")
        .map(|event| {
            (
                event["data"]["iteration"].clone(),
                event["data"]["isFinal"].clone(),
            )
        })
        .collect();
    assert_eq!(iterations, [(json!(0), json!(false)), (json!(1), json!(true))]);
}

/// The rest of a loop's budget is reported as that of the loop. A loop that pauses waits for more before its next codon, and one that fails names the
/// budget within which it would run again.
// covers: HANK-34, HANK-38, CLI-4
#[test]
fn the_budget_of_a_loop_is_told_as_that_of_its_loop() {
    let of = |on_exceeded: &str, dollars: f64| {
        json!({"type": "loop", "id": "l", "name": "L", "terminateOn": {"type": "iterationLimit", "limit": 2},
            "budget": {"maxDollars": dollars, "onExceeded": on_exceeded}})
    };
    let looped = |project: &TestProject, on_exceeded: &str, dollars: f64| {
        let mut found = of(on_exceeded, dollars);
        found["codons"] = ["b", "c"]
            .map(|id| turns(project, id, 1, &json!({})))
            .as_slice()
            .into();
        write_hank(project, &Value::Null, &[found]);
    };
    let paused = project();
    looped(&paused, "pause", 0.9);
    let finished = paused.run(["run", "--headless"]);
    // The last answer uses up the rest: its agent may have ended by then, so that the run pauses before the next codon.
    let why = "its loop's $0.9000 (a larger `maxDollars` of its loop in hank.json lets it continue)";
    assert!(finished.expect_code(3).stderr.contains(why), "{finished}");
    let status = paused.run(["status"]).expect_code(0).stdout.clone();
    let [inside, before] = [
        "b#1 in its session, with a `maxDollars` of its loop well above $0.9000",
        "c#1, with a larger budget",
    ];
    let offers = [inside, before].map(|offer| format!("continues with {offer} in hank.json"));
    assert!(offers.iter().any(|offer| status.contains(offer)), "{status}");
    looped(&paused, "pause", 2.0);
    paused.run(["run", "--headless"]).expect_code(0);

    let failing = project();
    looped(&failing, "fail", 0.8);
    let finished = failing.run(["run", "--headless"]);
    let why = "the budget is used up: used $0.3000 of the $0.2000 left of its loop's $0.8000";
    assert!(finished.expect_code(1).stderr.contains(why), "{finished}");
    let again = "keeps the files and runs b#1 again, within the $0.2000 left of its loop's $0.8000 unless hank.json gives more";
    let shown = failing.run(["report"]).expect_code(0).stdout.replace('`', "");
    assert!(shown.contains(again), "{shown}");
    let json = failing.run(["report", "--json"]).json_document();
    assert!(json.to_string().contains("loopTotal"), "{json:#}");
}

/// An option that replaces a lower limit of the hank says so at the start, and so does a run after one with another agent.
// covers: HANK-30, CLI-4
#[test]
fn what_an_option_replaces_and_what_a_trial_leaves_is_said() {
    let project = project();
    write_hank(
        &project,
        &json!({"maxDollars": 0.5}),
        &[turns(&project, "a", 1, &json!({}))],
    );
    let replaced = project.run(["run", "--headless", "--max-cost", "2"]);
    let told = "--max-cost: the limit is $2.0000 in place of the $0.5000 of the hank";
    assert!(replaced.expect_code(0).stderr.contains(told), "{replaced}");
    let lower = project.run(["run", "--headless", "--new", "--max-cost", "0.4"]);
    assert!(!lower.expect_code(0).stderr.contains("in place of"), "{lower}");

    let trial = crate::support::project();
    write_hank(&trial, &Value::Null, &[turns(&trial, "a", 1, &json!({}))]);
    trial
        .run(["run", "--headless", "--agent", "scripted"])
        .expect_code(0);
    write_hank(
        &trial,
        &Value::Null,
        &[
            turns(&trial, "a", 1, &json!({})),
            turns(&trial, "b", 1, &json!({})),
        ],
    );
    let after = trial.run(["run", "--headless", "--replan", "--forget"]);
    let told = "the last run had `--agent scripted`, and what it completed counts; --new starts over";
    assert!(after.expect_code(0).stderr.contains(told), "{after}");
}

/// A total that hank.json has raised since the pause, or that is larger there than the spent option, is what the next run has, and its command does
/// not replace it.
// covers: CLI-4, CLI-14
#[test]
fn the_next_run_is_offered_with_the_total_that_hank_json_has_by_then() {
    let project = project();
    let codon = endless(&project, "a", &json!({}));
    let hank = |total: f64| {
        write_hank(
            &project,
            &json!({"maxDollars": total}),
            std::slice::from_ref(&codon),
        )
    };
    let offered = || {
        let status = project.run(["status"]).expect_code(0).stdout.clone();
        let mut lines = status.lines().map(str::trim);
        let line = lines.find(|line| line.starts_with("hankweave run")).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    hank(0.3);
    let paused = project.run(["run", "--headless"]);
    let raise = "  continue     hankweave run --max-cost 0.60\n               continues with a in its session, for $0.6000 in all, beyond the $0.3000 of the hank\n";
    assert!(paused.expect_code(3).stderr.contains(raise), "{paused}");
    let dry = project.run(["run", "--dry-run"]).expect_code(0).stdout.clone();
    assert!(
        dry.contains(" is used, so that a run would pause at once"),
        "{dry}"
    );
    hank(1.0);
    let dry = project.run(["run", "--dry-run"]).expect_code(0).stdout.clone();
    assert!(!dry.contains("pause at once"), "{dry}");
    assert_eq!(
        offered(),
        "hankweave run continues with a in its session, for $1.0000 in all"
    );
    let paused = project.run(["run", "--headless", "--max-cost", "0.6"]);
    // A limit that was typed stays one, and is raised within that of the hank.
    let own = "  continue     hankweave run --max-cost 1.00\n               continues with a in its session, for $1.0000 in all\n";
    assert!(paused.expect_code(3).stderr.contains(own), "{paused}");
    assert_eq!(
        offered(),
        "hankweave run --max-cost 1.00 continues with a in its session, for $1.0000 in all"
    );
    hank(0.5);
    assert_eq!(
        offered(),
        "hankweave run --max-cost 1.20 continues with a in its session, for $1.2000 in all, beyond the $0.5000 of the hank"
    );
}

// covers: HANK-28
#[test]
fn budgets_that_contradict_each_other_are_refused_before_anything_is_touched() {
    for (budget, words) in [
        (
            json!({"maxDollars": 1, "allocation": "proportional", "shares": {"a": 0.7, "b": 0.6}}),
            "overrides.budget.shares: add up to 1.300",
        ),
        (
            json!({"maxDollars": 1, "shares": {"a": 0.7}}),
            "needs a proportional allocation",
        ),
        (json!({"allocation": "proportional"}), "needs maxDollars"),
        (
            json!({"maxDollars": 1, "allocation": "proportional", "shares": {"z": 0.5}}),
            "`z` is no direct child; there are a, b",
        ),
    ] {
        let project = project();
        let items = [
            turns(&project, "a", 1, &json!({})),
            turns(&project, "b", 1, &json!({})),
        ];
        write_hank(&project, &budget, &items);
        let before = project.files();
        let finished = project.run(["run", "--headless"]);
        finished.expect_code(65);
        assert!(finished.stderr.contains(words), "{words}\n{finished}");
        assert_eq!(project.files(), before);
    }
    let project = project();
    write_hank(&project, &Value::Null, &[turns(&project, "a", 1, &json!({}))]);
    for flags in [
        ["--max-cost", "0"],
        ["--max-cost", "-1"],
        ["--max-time", "never"],
        ["--max-time", "0"],
    ] {
        let finished = project.run(["run", "--headless"].into_iter().chain(flags));
        finished.expect_code(2);
        assert!(
            finished.stderr.contains("above 0") || finished.stderr.contains("unexpected"),
            "{finished}"
        );
    }
}
