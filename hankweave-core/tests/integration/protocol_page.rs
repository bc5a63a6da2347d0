//! The examples of docs/protocol.md are what the types write.
//!
//! With `HANKWEAVE_BLESS=1` the page is written again.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use hankweave_core::cost::Usd;
use hankweave_core::id::CheckpointSha;
use hankweave_core::schema;
use hankweave_core::time::Timestamp;
use hankweave_core::view::{RunView, change_message};
use hankweave_core::wire::{
    ClientRequest, ClientSession, Code, CodonDescription, Command, CommandOutcome, DifferenceKind, Direct,
    DirectPayload, Event, FileDifference, FileDifferences, Handshake, IdleReason, JournalEntry,
    LineDifference, LineDifferenceKind, LineDifferences, Mode, NextCommand, NextSteps, OpenQuestion, Ready,
    Response, RollbackPoint, RunSnapshot, ShaPrefix,
};
use serde::Serialize;
use serde_json::Value;

const MARK: &str = "<!-- examples: generated, see hankweave-core/tests/integration/protocol_page.rs -->\n";

fn at() -> Timestamp {
    Timestamp::parse("2026-01-04T12:00:00.000Z").unwrap()
}

fn line(text: &mut String, value: &impl Serialize) {
    writeln!(text, "{}", serde_json::to_string(value).unwrap()).unwrap();
}

fn block(text: &mut String, title: &str, lines: impl FnOnce(&mut String)) {
    write!(text, "\n{title}\n\n```json\n").unwrap();
    lines(text);
    text.push_str("```\n");
}

fn requests() -> Vec<Command> {
    let sha = ShaPrefix::new("8f2c1d0e9b7a").unwrap();
    vec![
        Command::CodonStart {
            codon_id: "review#1".parse().unwrap(),
            skip_pre_commands: false,
        },
        Command::CodonNext,
        Command::CodonApprove {
            codon_id: Some("deploy".parse().unwrap()),
            reason: None,
            by: None,
        },
        Command::CodonDeny {
            codon_id: None,
            reason: Some("not on a Friday".to_owned()),
            by: None,
        },
        Command::CodonSkip,
        Command::CodonRedo,
        Command::CodonForceStop {
            reason: Some("it goes in circles".to_owned()),
        },
        Command::CheckpointList { run_id: None },
        Command::RollbackToCheckpoint {
            checkpoint_sha: sha.clone(),
            auto_restart: false,
        },
        Command::RollbackToCodon {
            codon_id: "draft".parse().unwrap(),
            checkpoint_type: RollbackPoint::End,
            auto_restart: true,
        },
        Command::RollbackToLastSuccess { auto_restart: false },
        Command::RollbackUndo {
            operation: "c1d2e3f4a5b6".to_owned(),
            auto_restart: false,
        },
        Command::StateSnapshot,
        Command::ViewGet,
        Command::DiffFiles {
            to: sha.clone(),
            from: None,
        },
        Command::DiffLines {
            to: sha,
            from: None,
            path: "docs/intro.md".to_owned(),
            offset: Some(0),
            limit: Some(500),
        },
        Command::ReportGet,
        Command::PlanCodon {
            codon_id: "publish".parse().unwrap(),
        },
        Command::HistorySync { after_seq: Some(41) },
        Command::Ping,
        Command::PingBroadcast,
        Command::ServerShutdown { reason: None },
        Command::ServerForceShutdown { reason: None },
    ]
}

fn answers() -> Vec<(Option<&'static str>, DirectPayload)> {
    let ready = Ready {
        server_version: "0.1.0".to_owned(),
        execution_path: "/home/me/project".into(),
        agent_root_path: "/home/me/project".into(),
        data_path: "/home/me/project/read_only_data_source".into(),
        port: 40_123,
    };
    let ack = DirectPayload::CommandAck {
        command_id: "c-2".to_owned(),
        command: "codon.next".to_owned(),
        outcome: CommandOutcome::Starting,
        seq: 41,
        codon_id: Some("draft".parse().unwrap()),
        safety_checkpoint: None,
        next_codon_id: None,
        repeated: false,
    };
    let error = DirectPayload::Error {
        message: "cannot start the next codon while codon `draft` is running".to_owned(),
        fatal: false,
        severity: "operation".to_owned(),
        context: "Attempted command: codon.next".to_owned(),
        code: "CODON_RUNNING".to_owned(),
        hint: Some("wait until it has ended, skip it, or stop it by force first".to_owned()),
        command_id: Some("c-3".to_owned()),
    };
    let list = DirectPayload::CheckpointList {
        run_id: "run-1".parse().unwrap(),
        current_branch: "run-run-1".to_owned(),
        checkpoints: Vec::new(),
    };
    let snapshot = RunSnapshot {
        current_codon: None,
        completed_codons: Vec::new(),
        file_tree: Vec::new(),
        total_cost: Usd::ZERO,
        total_spend: Usd::ZERO,
        total_time: 0,
        is_rolling_back: false,
        seq: 41,
    };
    let batch = DirectPayload::HistoryBatch {
        events: vec![idle()],
        has_more: false,
    };
    let pong = DirectPayload::Pong {
        message: "pong".to_owned(),
        timestamp: at(),
        client_id: None,
    };
    let waits = DirectPayload::ServerIdle {
        reason: IdleReason::CodonCompleted,
        message: "review#1 is next".to_owned(),
    };
    let incomplete = DirectPayload::IncompleteCodon {
        codon_id: "draft".parse().unwrap(),
        codon_name: "Draft the page".to_owned(),
        message: "it failed: try again later".to_owned(),
    };
    let [from, to] = ["4", "8"].map(|digit| CheckpointSha::new(digit.repeat(40)));
    let files = FileDifferences {
        from: from.clone(),
        to: to.clone(),
        files: vec![FileDifference {
            path: "docs/intro.md".to_owned(),
            old_path: None,
            change: DifferenceKind::Modified,
            added: Some(1),
            removed: Some(1),
            without_lines: None,
            old_size: Some(16),
            size: Some(20),
        }],
        count: 1,
        added: 1,
        removed: 1,
    };
    let line = |kind, old, new, text: &str| LineDifference {
        kind,
        old,
        new,
        text: text.to_owned(),
    };
    let lines = LineDifferences {
        from,
        to,
        path: "docs/intro.md".to_owned(),
        offset: 0,
        lines: vec![
            line(LineDifferenceKind::Hunk, None, None, "@@ -1,2 +1,2 @@"),
            line(LineDifferenceKind::Context, Some(1), Some(1), "# Intro"),
            line(LineDifferenceKind::Removed, Some(2), None, "To do."),
            line(LineDifferenceKind::Added, None, Some(2), "Start here."),
        ],
        count: 4,
    };
    let report = DirectPayload::Report {
        markdown: "# ‖ Write the pages: paused (approval needed)\n".to_owned(),
        next: Some(NextSteps {
            outlook: Some("publish waits for an approval".to_owned()),
            question: Some(OpenQuestion {
                codon_id: Some("publish".parse().unwrap()),
                question: "Publish the pages?".to_owned(),
                since: at(),
            }),
            commands: vec![NextCommand {
                command: "hankweave approve publish -e /home/me/project && hankweave run /home/me/project"
                    .to_owned(),
                effect: "lets publish begin".to_owned(),
            }],
        }),
    };
    let described = CodonDescription {
        codon_id: "publish".parse().unwrap(),
        agent: "claude with sonnet".to_owned(),
        prompt: Some("Publish the pages.".to_owned()),
        original_length: None,
        prompt_files: vec!["prompts/publish.md".to_owned()],
        terms: vec!["may use $1.0000".to_owned()],
        changed: false,
    };
    let before = RunView::default();
    let mut after = before.clone();
    after.take(&idle());
    vec![
        (None, DirectPayload::ServerReady(ready)),
        (None, waits),
        (None, incomplete),
        (Some("c-2"), ack),
        (Some("c-3"), error),
        (Some("c-8"), list),
        (Some("c-12"), snapshot.into()),
        (Some("c-14"), files.into()),
        (Some("c-15"), lines.into()),
        (Some("c-16"), report),
        (Some("c-18"), described.into()),
        (Some("c-17"), batch),
        (Some("c-18"), pong),
        (Some("c-13"), before.message()),
        (None, change_message(&before.to_json(), &after.to_json()).unwrap()),
    ]
}

fn idle() -> JournalEntry {
    JournalEntry {
        seq: 42,
        id: "e-42".parse().unwrap(),
        timestamp: at(),
        event: Event::ServerIdle {
            reason: IdleReason::CodonCompleted,
            message: "review#1 is next".to_owned(),
        },
    }
}

/// Every event of the journal, as its type reads and writes it.
fn events() -> Vec<JournalEntry> {
    let lines = include_str!("../fixtures/wire/events.jsonl").lines();
    let entries = (1..).zip(lines).map(|(seq, line)| JournalEntry {
        seq,
        id: format!("e-{seq}").parse().unwrap(),
        timestamp: at(),
        event: serde_json::from_str(line).unwrap(),
    });
    entries.collect()
}

/// The names of everything of this form that the schema of events knows.
fn names(form: &str) -> BTreeSet<String> {
    let schema = schema::event();
    let variants = schema["$defs"][form]["oneOf"].as_array().unwrap();
    let name = |variant: &Value| {
        variant["properties"]["type"]["const"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    variants.iter().map(name).collect()
}

fn examples() -> String {
    let mut text = String::new();
    block(
        &mut text,
        "The client shakes hands, the second time after the last event that it saw:",
        |text| {
            for after_seq in [None, Some(41)] {
                let data = Handshake {
                    mode: Mode::ReadAndWrite,
                    send_previous_events: after_seq.is_none(),
                    after_seq,
                    view: after_seq.is_none(),
                    events: None,
                    user: None,
                };
                line(text, &serde_json::json!({"type": "handshake", "data": data}));
            }
        },
    );
    block(&mut text, "The server answers:", |text| {
        let session = ClientSession {
            client_id: "client-5b26ab9acc1e46b8947b9df990f261cd".to_owned(),
            mode: Mode::ReadAndWrite,
            event_history: vec![idle()],
            total_events: 42,
            last_seq: 42,
        };
        line(text, &Response::Handshake(session));
    });
    block(&mut text, "Commands:", |text| {
        for (number, command) in requests().into_iter().enumerate() {
            let id = format!("c-{}", number + 1);
            line(text, &ClientRequest { id, command });
        }
    });
    block(&mut text, "What the server says to one client:", |text| {
        for (number, (command_id, answer)) in answers().into_iter().enumerate() {
            let direct = Direct {
                id: format!("d-{number}").parse().unwrap(),
                timestamp: at(),
                command_id: command_id.map(str::to_owned),
                answer,
            };
            line(text, &direct);
        }
    });
    block(&mut text, "Events of the journal, one of each:", |text| {
        for entry in events() {
            line(text, &entry);
        }
    });
    text
}

fn page() -> (std::path::PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/protocol.md");
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

// covers: WIRE-19
#[test]
fn the_examples_of_the_page_are_what_the_types_write() {
    let (path, text) = page();
    let (words, shown) = text.split_once(MARK).unwrap();
    if std::env::var_os("HANKWEAVE_BLESS").is_some() {
        std::fs::write(path, format!("{words}{MARK}{}", examples())).unwrap();
        return;
    }
    assert_eq!(shown, examples());
}

// covers: WIRE-19
#[test]
fn there_is_an_example_of_everything_that_is_told() {
    let shown: BTreeSet<String> = events()
        .iter()
        .map(|entry| entry.event.name().to_owned())
        .collect();
    assert_eq!(shown, names("JournalEntry"));
    let name = |answer: &DirectPayload| {
        serde_json::to_value(answer).unwrap()["type"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let shown: BTreeSet<String> = answers().iter().map(|(_, answer)| name(answer)).collect();
    assert_eq!(shown, names("Direct"));
}

#[test]
fn an_example_is_written_as_it_is_read() {
    let lines = include_str!("../fixtures/wire/events.jsonl").lines();
    for (line, entry) in lines.zip(events()) {
        assert_eq!(serde_json::to_string(&entry.event).unwrap(), line);
    }
}

// covers: WIRE-9
#[test]
fn the_page_names_every_command_and_every_code() {
    let (_, text) = page();
    for command in requests() {
        assert!(
            text.contains(&format!("`{}`", command.name())),
            "{}",
            command.name()
        );
    }
    for code in Code::ALL {
        assert!(text.contains(&format!("`{}`", code.name())), "{}", code.name());
    }
}
