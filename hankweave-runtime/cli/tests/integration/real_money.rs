//! What is recorded for the real `claude` program is what the model server served: equal where no answer was cut off, within that one answer else.

use std::time::Duration;

use hankweave_testing::{Finished, ModelServer, Running, Served, TestProject};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::real_stories::{real, stage, type_commands};
use crate::supervision::Pipe;

pub(crate) const DEADLINE: Duration = Duration::from_secs(100);

/// An answer that costs $0.0609 and has a file written.
fn long_answer(number: usize) -> Value {
    json!({"text": format!("Writing {number}."), "usage": {"input": 300, "output": 4000},
        "tools": [{"op": "write", "path": format!("${{CWD}}/made-{number}.txt"), "content": "x\n"}]})
}

/// Half an answer, and then silence.
pub(crate) fn cut_off() -> Value {
    json!({"text": "This answer never ends, for the line falls silent.", "chunks": 6, "hang": true,
        "usage": {"input": 700, "output": 250}})
}

pub(crate) fn end() -> Value {
    json!({"text": "Done.", "usage": {"input": 330, "output": 40, "cache_creation": 100, "cache_read": 20}})
}

/// Waits until this many answers have begun.
#[track_caller]
pub(crate) fn begun(server: &ModelServer, count: usize) {
    let enough = |served: &[Served]| served.iter().filter(|served| served.begun).count() >= count;
    assert!(server.wait_until(DEADLINE, enough), "{:#?}", server.served());
}

/// Input, output, cache writes, cache reads and billionths of a dollar.
type Sum = [u64; 5];

/// Billionths of a dollar for a token.
pub(crate) struct Rates {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) write: u64,
    pub(crate) write_1h: u64,
    pub(crate) read: u64,
    /// Writes to a cache are reported, and are not part of the input.
    pub(crate) tells_writes: bool,
}

impl Rates {
    pub(crate) const SONNET: Self = Self {
        input: 3_000,
        output: 15_000,
        write: 3_750,
        write_1h: 6_000,
        read: 300,
        tells_writes: true,
    };
}

fn sum<'s>(rates: &Rates, served: impl Iterator<Item = &'s Served>) -> Sum {
    let mut sum = Sum::default();
    for one in served {
        let short = one.cache_creation - one.cache_creation_1h;
        let nanos = one.input * rates.input
            + one.output * rates.output
            + short * rates.write
            + one.cache_creation_1h * rates.write_1h
            + one.cache_read * rates.read
            + one.web_searches * 10_000_000;
        let (input, written) = match rates.tells_writes {
            true => (one.input, one.cache_creation),
            false => (one.input + one.cache_creation, 0),
        };
        let counts = [input, one.output, written, one.cache_read, nanos];
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    sum
}

#[track_caller]
fn recorded(project: &TestProject) -> (Sum, bool) {
    let state = project.state(&project.directory());
    let runs = state["runs"].as_array().unwrap();
    let mut sum = Sum::default();
    let mut lower_bound = false;
    for record in runs.iter().flat_map(|run| run["codons"].as_array().unwrap()) {
        let either = |one: &str, other: &str| record.get(one).or(record.get(other)).cloned();
        let Some(tokens) = either("finalTokens", "partialTokens") else {
            continue;
        };
        let count = |name: &str| tokens[name].as_u64().unwrap();
        let cost = either("finalCost", "partialCost").unwrap().as_f64().unwrap();
        let counts = [
            count("inputTokens"),
            count("outputTokens"),
            count("cacheCreationTokens"),
            count("cacheReadTokens"),
            (cost * 1e9).round() as u64,
        ];
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        lower_bound |= record["costIsLowerBound"] == true;
    }
    (sum, lower_bound)
}

/// Everything that was served is recorded, and what of it was cut off at most once too often.
#[track_caller]
pub(crate) fn assert_true(project: &TestProject, server: &ModelServer) {
    let is_uncertain = assert_true_at(&Rates::SONNET, project, server);
    let (_, lower_bound) = recorded(project);
    assert_eq!(lower_bound, is_uncertain, "{:#?}", server.served());
}

/// Asserts that at most what was served is recorded, as a lower bound if it is less: for work whose usage no source reports.
#[track_caller]
pub(crate) fn assert_at_most(rates: &Rates, project: &TestProject, server: &ModelServer) {
    let most = sum(rates, server.served().iter());
    let (recorded, lower_bound) = recorded(project);
    let is_less = recorded
        .iter()
        .zip(most)
        .all(|(recorded, most)| *recorded <= most);
    assert!(
        is_less && (lower_bound || recorded == most),
        "recorded {recorded:?} of {most:?}"
    );
}

/// Asserts at these prices that everything that was served is recorded, and returns whether an answer was cut off. Then usage is at least marked as
/// uncertain.
#[track_caller]
pub(crate) fn assert_true_at(rates: &Rates, project: &TestProject, server: &ModelServer) -> bool {
    let served = server.served();
    let served: Vec<&Served> = served.iter().filter(|served| served.begun).collect();
    let least = sum(rates, served.iter().copied().filter(|served| served.whole));
    let most = sum(rates, served.iter().copied());
    let (recorded, lower_bound) = recorded(project);
    for ((recorded, least), most) in recorded.iter().zip(least).zip(most) {
        assert!(
            (least..=most).contains(recorded),
            "recorded {recorded} of {least} to {most}\n{served:#?}\n{:#}",
            project.state(&project.directory())
        );
    }
    assert!(lower_bound || least == most, "{served:#?}");
    least != most
}

fn hank(server: &ModelServer, more: &Value) -> Value {
    json!({"hank": [real(server, "a", "fresh", "TASK", more)]})
}

#[track_caller]
fn run(project: &TestProject) -> Finished {
    let finished = project.run(["run", "--headless"]);
    assert_eq!(project.left_behind(), []);
    finished
}

// covers: HANK-37
#[test]
fn a_budget_stops_the_real_agent_at_most_one_answer_late() {
    let turns: Vec<Value> = (0..6).map(long_answer).chain([end()]).collect();
    let budgets = [json!({"maxDollars": 0.1}), json!({"maxOutputTokens": 5000})];
    for budget in budgets {
        let Some((project, server)) = stage("", json!({"turns": turns.clone()})) else {
            return;
        };
        project.write_hank(&hank(&server, &json!({"budget": budget})));
        run(&project).expect_code(0);
        // An answer that ends while the agent is being stopped may be known whole to the server alone.
        assert_true_at(&Rates::SONNET, &project, &server);
        let (used, _) = recorded(&project);
        assert!(
            (8_000..=12_000).contains(&used[1]),
            "{budget}: {} tokens were written",
            used[1]
        );
    }
}

#[test]
fn the_money_of_sub_agents_counts_at_once() {
    let helper: Vec<Value> = (0..6).map(long_answer).chain([end()]).collect();
    let task = json!({"op": "task", "description": "Small job", "prompt": "DELEGATED: write", "subagent": "general-purpose",
        "background": false});
    let main =
        json!([{"text": "I delegate.", "tools": [task], "usage": {"input": 1000, "output": 40}}, end()]);
    let lanes = json!([
        {"name": "helper", "when": {"first_user": "DELEGATED"}, "turns": helper},
        {"name": "main", "turns": main}]);
    let Some((project, server)) = stage("", json!({"lanes": lanes})) else {
        return;
    };
    project.write_hank(&hank(&server, &json!({"budget": {"maxDollars": 0.1}})));
    run(&project).expect_code(0);
    assert_true(&project, &server);
    let (used, _) = recorded(&project);
    assert!(used[1] <= 12_040, "{} tokens were written", used[1]);
}

// Claude guesses the price of a model that it does not know.
// covers: AGENT-46
#[test]
fn a_model_that_claude_does_not_know_costs_what_the_user_says_or_an_unknown_amount() {
    for model in ["house-model", "claude-sonnet-4-5"] {
        let Some((project, server)) = stage("", json!({"turns": [long_answer(0), end()]})) else {
            return;
        };
        let tenfold = tenfold(&project, model);
        project.write_hank(&hank(&server, &json!({"model": model})));
        project
            .run(["run", "--headless", "--prices", "mine.json"])
            .expect_code(0);
        assert!(!assert_true_at(&tenfold, &project, &server), "{model}");
        assert!(!recorded(&project).1, "{model}");
    }
    let Some((project, server)) = stage("", json!({"turns": [long_answer(0), end()]})) else {
        return;
    };
    project.write_hank(&hank(&server, &json!({"model": "house-model"})));
    let finished = run(&project);
    finished.expect_code(0);
    let (used, lower_bound) = recorded(&project);
    assert_eq!((used[1], used[4], lower_bound), (4_040, 0, true), "{finished}");
    let refused = project.run(["run", "--headless", "--new", "--max-cost", "1"]);
    refused.expect_code(65);
    assert!(refused.stderr.contains("claude guesses it"), "{refused}");
}

/// Writes prices for this model that are ten times those of the list, and returns them.
fn tenfold(project: &TestProject, model: &str) -> Rates {
    let price = json!({"input": 30, "output": 150, "cacheWrite": 37.5, "cacheRead": 3});
    project.write("mine.json", json!({"models": {model: price}}).to_string());
    Rates {
        input: 30_000,
        output: 150_000,
        write: 37_500,
        write_1h: 60_000,
        read: 3_000,
        tells_writes: true,
    }
}

/// One sub-agent whose second answer never ends, and one that works on, and whose fifth answer costs $0.0609 and has a tool that never returns.
fn delegates(background: bool) -> Value {
    let task = |name: &str| {
        json!({"op": "task", "description": name, "prompt": format!("DELEGATED-{name}: work"), "subagent": "general-purpose",
            "background": background})
    };
    let both = json!({"text": "I delegate.", "tools": [task("SILENT"), task("BUSY")], "usage": {"input": 1000, "output": 40}});
    let dear = json!({"text": "I wait.", "usage": {"input": 300, "output": 4000},
        "tools": [{"op": "bash", "command": "touch half.txt; tail -f /dev/null", "description": "Wait", "timeout": 300_000}]});
    let busy: Vec<Value> = (0..4).map(step).chain([dear, long_answer(1), end()]).collect();
    json!([
        {"name": "silent", "when": {"first_user": "DELEGATED-SILENT"}, "turns": [step(9), cut_off()]},
        {"name": "busy", "when": {"first_user": "DELEGATED-BUSY"}, "turns": busy},
        {"name": "next", "when": {"user": "NEXT-TASK"}, "turns": [end()]},
        {"name": "main", "turns": [both, end()]}])
}

/// How a codon is ended while its sub-agents work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Budget,
    Ceiling,
    Stop,
    Skip,
}

// The last result of claude leaves out the answers of sub-agents that are being written.
// covers: AGENT-8
#[test]
fn parallel_sub_agents_that_are_ended_cost_what_was_served_or_are_marked() {
    for (ending, background, is_priced) in [
        (Ending::Budget, false, false),
        (Ending::Budget, true, false),
        (Ending::Budget, true, true),
        (Ending::Ceiling, false, false),
        (Ending::Stop, true, false),
        (Ending::Stop, false, false),
        (Ending::Stop, false, true),
        (Ending::Skip, true, false),
        (Ending::Skip, false, false),
    ] {
        let Some((project, server)) = stage("/bin/sh", json!({"lanes": delegates(background)})) else {
            return;
        };
        let (rates, prices) = match is_priced {
            true => (tenfold(&project, "claude-sonnet-4-5"), "--prices mine.json"),
            false => (Rates::SONNET, ""),
        };
        let more = match ending {
            // Ten times dearer, only the answer before the tool that never returns is beyond the limit.
            Ending::Budget if is_priced => json!({"budget": {"maxDollars": 0.5}}),
            Ending::Budget => json!({"budget": {"maxDollars": 0.05}}),
            Ending::Ceiling | Ending::Stop | Ending::Skip => json!({}),
        };
        project.write_hank(&json!({"hank": [
            real(&server, "a", "fresh", "TASK", &more), real(&server, "next", "fresh", "NEXT-TASK", &json!({}))]}));
        let program = env!("CARGO_BIN_EXE_hankweave");
        let run =
            |options: &str| project.run(["-c", &format!("'{program}' run --headless {prices} {options}")]);
        match ending {
            Ending::Budget => drop(run("").expect_code(0)),
            Ending::Ceiling => drop(run("--max-cost 0.05").expect_code(3)),
            Ending::Stop => {
                let running = format!(
                    "'{program}' run --headless {prices} & until [ -e half.txt ]; do sleep 0.05; done; '{program}' stop; wait $!"
                );
                project.run(["-c", &running]);
            }
            Ending::Skip => {
                let ended = r#"ended() { until grep -Eqs "\"status\": ?\"$1\"" .hankweave/state.json; do sleep 0.05; done; }"#;
                let half = "until [ -e half.txt ]; do sleep 0.05; done";
                let typed = format!(
                    "{ended}; echo next; {half}; echo skip; ended skipped; echo next; ended completed; echo quit"
                );
                type_commands(&project, &typed).expect_code(0);
            }
        }
        assert_eq!(project.left_behind(), []);
        println!("{ending:?}, background: {background}, priced: {is_priced}");
        assert_true_at(&rates, &project, &server);
        let served = server.served();
        let is_uncertain = served.iter().any(|served| served.begun && !served.whole);
        assert!(is_uncertain && recorded(&project).1, "{ending:?}: {served:#?}");
    }
}

#[test]
fn a_summed_up_conversation_costs_what_was_served() {
    let full = json!({"error": {"status": 400, "type": "invalid_request_error",
        "message": "prompt is too long: 210000 tokens > 200000 maximum"}});
    let summary = json!({"text": "<summary>We wrote.</summary>", "usage": {"input": 5000, "output": 900}});
    let Some((project, server)) = stage("", json!({"turns": [long_answer(0), full, summary, end()]})) else {
        return;
    };
    project.write_hank(&hank(&server, &json!({"autoCompact": true})));
    run(&project).expect_code(0);
    assert_eq!(server.served().len(), 3);
    assert_true(&project, &server);
}

#[test]
fn searches_caches_of_an_hour_and_a_session_that_goes_on_cost_what_was_served() {
    let searched = json!({"text": "Found.", "usage": {"input": 500, "output": 60, "cache_creation": 900,
        "cache_creation_1h": 600, "cache_read": 70, "web_searches": 2}});
    let lanes = json!([
        {"name": "next", "when": {"user": "NEXT-TASK"}, "turns": [searched, end()]},
        {"name": "first", "turns": [long_answer(0), searched, end()]}]);
    let Some((project, server)) = stage("", json!({"lanes": lanes})) else {
        return;
    };
    project.write_hank(&json!({"hank": [
        real(&server, "first", "fresh", "FIRST-TASK", &json!({})),
        real(&server, "next", "continue-previous", "NEXT-TASK", &json!({}))]}));
    run(&project).expect_code(0);
    assert_true(&project, &server);
}

// covers: AGENT-8, RUN-12
#[test]
fn a_killed_agent_costs_what_it_had_used() {
    for signal in [Signal::TERM, Signal::KILL] {
        let Some((project, server)) = stage("", json!({"turns": [long_answer(0), cut_off()]})) else {
            return;
        };
        project.write_hank(&hank(&server, &json!({})));
        let running = project.start(["run", "--headless"]);
        begun(&server, 2);
        // With what the log has and the file does not have yet.
        let state = project.run(["state", "show", "--json"]).json_document();
        let pid = state["runs"][0]["codons"][0]["claudePid"].as_i64().unwrap();
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        running.finish_within(DEADLINE).expect_code(1);
        assert_true(&project, &server);
    }
}

// covers: AGENT-15
#[test]
fn a_run_that_is_stopped_or_killed_costs_what_was_served() {
    for signal in [Signal::TERM, Signal::KILL] {
        let turns = [long_answer(0), cut_off(), long_answer(1), end()];
        let Some((project, server)) = stage("", json!({"turns": turns})) else {
            return;
        };
        project.write_hank(&hank(&server, &json!({})));
        let running = project.start(["run", "--headless"]);
        begun(&server, 2);
        running.signal(signal);
        running.finish_within(DEADLINE);
        let finished = run(&project);
        finished.expect_code(0);
        assert_true(&project, &server);
        let status = project.run(["status"]);
        assert!(finished.stderr.contains("all runs at least $0.1"), "{finished}");
        assert!(status.stdout.contains("all runs at least $0.1"), "{status}");
    }
}

#[test]
fn a_skipped_codon_keeps_what_it_cost() {
    let lanes = json!([
        {"name": "next", "when": {"user": "NEXT-TASK"}, "turns": [end()]},
        {"name": "skipped", "turns": [long_answer(0),
            {"text": "I wait.", "usage": {"input": 400, "output": 70},
             "tools": [{"op": "bash", "command": "touch half.txt; tail -f /dev/null", "description": "Wait", "timeout": 300_000}]}]}]);
    let Some((project, server)) = stage("/bin/sh", json!({"lanes": lanes})) else {
        return;
    };
    project.write_hank(&json!({"overrides": {"budget": {"maxDollars": 5}}, "hank": [
        real(&server, "skipped", "fresh", "TASK", &json!({})),
        real(&server, "next", "fresh", "NEXT-TASK", &json!({}))]}));
    let ended =
        r#"ended() { until grep -Eqs "\"status\": ?\"$1\"" .hankweave/state.json; do sleep 0.05; done; }"#;
    let typed =
        format!("{ended}; echo next; half; echo skip; ended skipped; echo next; ended completed; echo quit");
    let finished = type_commands(&project, &typed);
    finished.expect_code(0);
    assert_true(&project, &server);
    let told = finished
        .stdout
        .lines()
        .filter(|line| line.contains("\"codon.completed\"") && line.contains("\"skipped\""));
    let told: Vec<Value> = told.map(|line| serde_json::from_str(line).unwrap()).collect();
    // 300 and 400 tokens in, 4,000 and 70 out.
    assert_eq!(told[0]["data"]["cost"], 0.06315, "{finished}");
    // Every command reports this amount.
    let (used, _) = recorded(&project);
    let spent = |event: &Value| event["data"]["resultingState"]["totalSpend"].as_f64();
    let spent = finished.json_lines().iter().rev().find_map(spent);
    let status = format!("'{}' status --json", env!("CARGO_BIN_EXE_hankweave"));
    let status = project.run(["-c", &status]).json_document();
    for told in [
        spent,
        status["totalSpend"].as_f64(),
        status["budget"]["totals"]["actualDollars"].as_f64(),
    ] {
        assert_eq!((told.unwrap() * 1e9).round() as u64, used[4], "{status}");
    }
}

/// An answer that does one step of the work, and is cheap.
fn step(number: usize) -> Value {
    json!({"text": format!("Step {number}."), "usage": {"input": 100, "output": 50},
        "tools": [{"op": "bash", "command": format!("echo {number} >> steps.txt"), "description": "Step"}]})
}

/// An answer of `output` tokens, and then a tool that never ends. The tool writes to a pipe in the home of the project when it starts.
fn hold(pipe: &str, output: u64) -> Value {
    json!({"text": "I wait.", "usage": {"input": 100, "output": output},
        "tools": [{"op": "bash", "command": format!("echo held > \"$HOME/{pipe}\"; tail -f /dev/null"), "description": "Wait", "timeout": 300_000}]})
}

/// Starts a run and waits until its agent holds.
#[track_caller]
fn until(project: &TestProject, arguments: &[&str], pipe: &str) -> Running {
    let pipe = Pipe::named(project, pipe);
    let running = project.start(["run", "--headless"].iter().chain(arguments));
    assert_eq!(pipe.line(), "held");
    running
}

// Every way to end before the work is done, one after the other: a ceiling, a signal, `stop`, a crash.
#[test]
fn a_codon_that_is_paused_stopped_and_killed_goes_on_in_one_session_and_costs_what_was_served() {
    let holds = [("ceiling", 4_000), ("signal", 50), ("stop", 50), ("crash", 50)];
    let turns = holds.iter().enumerate();
    let turns = turns.flat_map(|(number, (file, output))| [step(number), hold(file, *output)]);
    let turns: Vec<Value> = turns.chain([step(holds.len()), end()]).collect();
    let Some((project, server)) = stage("", json!({"turns": turns})) else {
        return;
    };
    project.write_hank(&hank(&server, &json!({})));

    let paused = project.run(["run", "--headless", "--max-cost", "0.03"]);
    paused.expect_code(3);
    let running = until(&project, &["--max-cost", "5"], "signal");
    running.signal(Signal::TERM);
    running.finish_within(DEADLINE).expect_code(143);
    let running = until(&project, &["--recover", "session"], "stop");
    project.run(["stop"]).expect_code(0);
    running.finish_within(DEADLINE).expect_code(3);
    until(&project, &["--recover", "session"], "crash").kill();
    let done = project.run(["run", "--headless", "--recover", "session"]);
    done.expect_code(0);
    assert_eq!(project.left_behind(), []);

    let steps = std::fs::read_to_string(project.directory().join("steps.txt")).unwrap();
    assert_eq!(steps, "0\n1\n2\n3\n4\n", "every step is done once");
    let state = project.state(&project.directory());
    let runs = state["runs"].as_array().unwrap();
    let mut sessions: Vec<&Value> = runs
        .iter()
        .flat_map(|run| run["codons"].as_array().unwrap())
        .map(|record| &record["claudeSessionId"])
        .collect();
    assert_eq!(sessions.len(), 5, "{state:#}");
    sessions.dedup();
    assert!(sessions.len() == 1 && sessions[0].is_string(), "{sessions:?}");
    // Every answer was whole. That is unknown after the crash, so this part is reported as a lower bound.
    let served = server.served();
    assert_eq!(
        recorded(&project),
        (sum(&Rates::SONNET, served.iter()), true),
        "{served:#?}"
    );
}
