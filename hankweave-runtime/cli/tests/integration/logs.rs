//! `hankweave logs`: what was said and done, by codon (CLI-22), and the journal as sentences.

use hankweave_testing::TestProject;
use serde_json::json;

use crate::support::project;
use crate::terminal::Terminal;

const LONG: &str = "This is a long answer, and none of it is cut, because whoever reads a log wants to know all of what was said:\n\
                    also its second line.";

/// A codon with a rig, and one in a loop; both think, speak and do things, one of which fails.
fn story() -> TestProject {
    let project = project();
    let tools = json!([{"append": {"path": "a.txt", "content": "x"}}, {"read": {"path": "missing.txt"}}]);
    let turns = json!([{"thinking": "a thought", "text": LONG, "tools": tools}, {"text": "Done."}]);
    project.write("script.json", json!({"turns": turns}).to_string());
    let codon = |id: &str| json!({"id": id, "name": id, "continuationMode": "fresh", "promptText": "go", "agent": {"script": "script.json"}});
    let mut first = codon("first");
    first["rigSetup"] = json!([{"type": "command", "command": {"run": "echo from the rig"}}]);
    let again = json!({"type": "loop", "id": "again", "name": "again",
        "terminateOn": {"type": "iterationLimit", "limit": 2}, "codons": [codon("draft")]});
    project.write_hank(&json!({"hank": [first, again]}));
    project.run(["run", "--headless"]).expect_code(0);
    project
}

// covers: CLI-22
#[test]
fn what_was_said_is_told_by_codon_and_whole() {
    let project = story();
    let before = project.files();
    let logs = |arguments: &[&str]| {
        let finished = project.run([&["logs"], arguments].concat());
        finished.expect_code(0).stdout.clone()
    };
    let count = |text: &str, part: &str| text.matches(part).count();
    let all = logs(&[]);
    let heads = ["first  ", "draft#0  ", "draft#1  "];
    for part in heads
        .into_iter()
        .chain(["  | from the rig\n", "  — completed after"])
    {
        assert!(all.contains(part), "{part} is missing in {all}");
    }
    assert_eq!(
        count(&all, "all of what was said:\n  also its second line.\n"),
        3,
        "{all}"
    );
    assert_eq!(count(&all, "› Append a.txt\n"), 3, "{all}");
    assert!(all.contains("  ! ") && !all.contains("a thought"), "{all}");
    assert_eq!(count(&logs(&["-v"]), "~ a thought"), 3);

    let draft = logs(&["draft"]);
    assert!(
        draft.contains("draft#0  ") && draft.contains("draft#1  ") && !draft.contains("first  "),
        "{draft}"
    );
    assert!(!logs(&["draft#1"]).contains("draft#0"));
    let of_agents = logs(&["--agent", "first"]);
    assert!(
        of_agents.contains("Done.")
            && !of_agents.contains("from the rig")
            && !of_agents.contains("completed"),
        "{of_agents}"
    );
    let of_rigs = logs(&["--rig"]);
    assert!(
        of_rigs.contains("| from the rig") && !of_rigs.contains("Done."),
        "{of_rigs}"
    );
    assert!(logs(&["--server"]).contains("RunStarted"));

    let lines = project.run(["logs", "draft#0", "--agent", "--json"]).json_lines();
    assert!(!lines.is_empty());
    assert!(
        lines.iter().all(|line| line["data"]["codonId"] == "draft#0"),
        "{lines:#?}"
    );
    assert_eq!(project.files(), before, "whoever looks changes nothing");
}

// covers: CLI-22
#[test]
fn a_codon_that_never_ran_is_refused_with_those_that_did() {
    let project = story();
    let refused = project.run(["logs", "frist"]);
    refused.expect_code(65);
    assert!(
        refused.stderr.contains("codon `frist`") && refused.stderr.contains("draft, first"),
        "{}",
        refused.stderr
    );
    project.run(["logs", "--agent", "--rig"]).expect_code(2);
}

// covers: CLI-12
#[test]
fn on_a_terminal_the_journal_reads_as_sentences() {
    let project = story();
    let Some(mut screen) = Terminal::open(&project, "journal") else {
        return;
    };
    screen.until("first: from preparing to starting");
    screen.until("first: Append a.txt");
    screen.until("draft#1: completed after");
    screen.until("is completed");
    let Some(mut screen) = Terminal::open(&project, "journal --json --type codon.completed") else {
        return;
    };
    screen.until(r#""type":"codon.completed""#);
}

// covers: D6, CLI-22, CLI-33
#[test]
fn what_was_removed_from_a_large_journal_is_told_where_it_is_missing() {
    let project = story();
    let events = project.directory().join(".hankweave/events");
    let whole = std::fs::read_to_string(events.join("000001.jsonl")).unwrap();
    let is_output = |line: &&str| {
        line.contains(r#""type":"assistant.action""#) || line.contains(r#""type":"tool.result""#)
    };
    let kept: Vec<&str> = whole.lines().filter(|line| !is_output(line)).collect();
    let removed = whole.lines().filter(is_output).count();
    // As the journal leaves it when it is too large.
    std::fs::write(events.join("000001-kept.jsonl"), kept.join("\n") + "\n").unwrap();
    std::fs::remove_file(events.join("000001.jsonl")).unwrap();

    let said = format!("{removed} events of agents and rigs were removed");
    let logs = project.run(["logs"]);
    logs.expect_code(0);
    assert!(logs.stderr.contains(&said), "{logs}");
    let here = logs
        .stdout
        .lines()
        .filter(|line| line.contains("of agents and rigs were removed here)"));
    let codons: Vec<&str> = here.map(|line| line[1..].split(':').next().unwrap()).collect();
    for codon in ["first", "draft#0", "draft#1"] {
        assert!(codons.contains(&codon), "{logs}");
    }
    let journal = project.run(["journal", "--json"]);
    assert_eq!(journal.expect_code(0).json_lines().len(), kept.len());
    assert!(journal.stderr.contains(&said), "{journal}");
    assert!(!project.run(["journal", "--json", "-q"]).stderr.contains(&said));

    let status = project.run(["status"]);
    assert!(
        status.stdout.contains("output of agents and rigs was removed"),
        "{status}"
    );
    let status = project.run(["status", "--json"]).expect_code(0).json_document();
    assert_eq!(status["journalIsShortened"], true);

    // What is missing is no difference, and not compared.
    let directory = project.directory().to_string_lossy().into_owned();
    let replayed = project.run(["replay", &directory, "--speed", "max", "--json"]);
    let last = replayed.expect_code(0).json_lines().pop().unwrap();
    assert_eq!(
        (&last["data"]["removed"], &last["data"]["difference"]),
        (&json!(removed), &json!(null)),
        "{replayed}"
    );
}
