//! What clients send (WIRE-2, WIRE-8).

use hankweave_core::wire::{
    ClientRequest, Code, Command, Handshake, Inbound, Mode, Refused, RollbackPoint, ShaPrefix,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn handshake(text: &str) -> Result<Handshake, Refused> {
    match Inbound::read(text).unwrap() {
        Inbound::Handshake(handshake) => handshake,
        Inbound::Command(command) => panic!("{command:?}"),
    }
}

fn command(message: &Value) -> Result<ClientRequest, Refused> {
    match Inbound::read(&message.to_string())? {
        Inbound::Command(command) => command.check(),
        Inbound::Handshake(handshake) => panic!("{handshake:?}"),
    }
}

#[track_caller]
fn refused(message: &Value, code: Code, words: &str) {
    let refused = command(message).unwrap_err();
    assert_eq!((refused.code, refused.message.as_str()), (code, words));
}

#[test]
fn a_handshake_says_what_the_client_means_to_do() {
    let read =
        handshake(r#"{"type": "handshake", "data": {"mode": "readandwrite", "sendPreviousEvents": true}}"#);
    let expected = Handshake {
        mode: Mode::ReadAndWrite,
        send_previous_events: true,
        after_seq: None,
        view: false,
        events: None,
        user: None,
    };
    assert_eq!(read, Ok(expected));
    let read = handshake(
        r#"{"type": "handshake", "data": {"mode": "readonly", "afterSeq": 7, "view": true, "events": false, "user": "ann"}, "id": "ignored"}"#,
    );
    let expected = Handshake {
        mode: Mode::Readonly,
        send_previous_events: false,
        after_seq: Some(7),
        view: true,
        events: Some(false),
        user: Some("ann".to_owned()),
    };
    assert_eq!(read, Ok(expected));
}

// covers: WIRE-2
#[test]
fn a_handshake_that_is_none_is_told_everything_that_is_wrong() {
    for (text, words) in [
        (r#"{"type": "handshake"}"#, "must be an object, not null"),
        (
            r#"{"type": "handshake", "data": {"sendPreviousEvents": 1}}"#,
            "mode: is missing; sendPreviousEvents: must be true or false, not 1",
        ),
        (
            r#"{"type": "handshake", "data": {"mode": "admin", "afterSeq": -1}}"#,
            "mode: must be one of `readonly`, `readandwrite`, not `admin`; afterSeq: must be a whole number from 0 on, not -1",
        ),
    ] {
        let refused = handshake(text).unwrap_err();
        assert_eq!(
            (refused.code, refused.message),
            (Code::InvalidHandshake, format!("Invalid handshake: {words}"))
        );
    }
}

/// The fourteen (WIRE-8) and two of our own, with every field that they may have.
fn samples() -> Vec<(Value, Command)> {
    let codon_id = || "review#1".parse().unwrap();
    let sha = "0123456789ab";
    vec![
        (
            json!({"type": "codon.start", "data": {"codonId": "review#1", "skipPreCommands": true}}),
            Command::CodonStart {
                codon_id: codon_id(),
                skip_pre_commands: true,
            },
        ),
        (json!({"type": "codon.next"}), Command::CodonNext),
        (
            json!({"type": "codon.approve"}),
            Command::CodonApprove {
                codon_id: None,
                reason: None,
                by: None,
            },
        ),
        (
            json!({"type": "codon.deny", "data": {"codonId": "review#1", "reason": "not today"}}),
            Command::CodonDeny {
                codon_id: Some(codon_id()),
                reason: Some("not today".to_owned()),
                by: None,
            },
        ),
        (json!({"type": "codon.skip", "data": {}}), Command::CodonSkip),
        (json!({"type": "codon.redo", "data": null}), Command::CodonRedo),
        (
            json!({"type": "codon.forceStop", "data": {"reason": "slow"}}),
            Command::CodonForceStop {
                reason: Some("slow".to_owned()),
            },
        ),
        (
            json!({"type": "checkpoint.list", "data": {"runId": "1-a"}}),
            Command::CheckpointList {
                run_id: Some("1-a".parse().unwrap()),
            },
        ),
        (
            json!({"type": "rollback.toCheckpoint", "data": {"checkpointSha": sha}}),
            Command::RollbackToCheckpoint {
                checkpoint_sha: ShaPrefix::new(sha).unwrap(),
                auto_restart: false,
            },
        ),
        (
            json!({"type": "rollback.toCodon", "data": {"codonId": "review#1", "checkpointType": "rig-setup", "autoRestart": true}}),
            Command::RollbackToCodon {
                codon_id: codon_id(),
                checkpoint_type: RollbackPoint::RigSetup,
                auto_restart: true,
            },
        ),
        (
            json!({"type": "rollback.toLastSuccess"}),
            Command::RollbackToLastSuccess { auto_restart: false },
        ),
        (
            json!({"type": "rollback.undo", "data": {"operation": "c1d2e3f4a5b6"}}),
            Command::RollbackUndo {
                operation: "c1d2e3f4a5b6".to_owned(),
                auto_restart: false,
            },
        ),
        (
            json!({"type": "history.sync", "data": {"afterSeq": 12}}),
            Command::HistorySync { after_seq: Some(12) },
        ),
        (json!({"type": "state.snapshot"}), Command::StateSnapshot),
        (json!({"type": "view.get"}), Command::ViewGet),
        (
            json!({"type": "diff.files", "data": {"to": sha, "from": sha}}),
            Command::DiffFiles {
                to: ShaPrefix::new(sha).unwrap(),
                from: ShaPrefix::new(sha),
            },
        ),
        (
            json!({"type": "diff.lines", "data": {"to": sha, "path": "a/b.txt", "offset": 500, "limit": 100}}),
            Command::DiffLines {
                to: ShaPrefix::new(sha).unwrap(),
                from: None,
                path: "a/b.txt".to_owned(),
                offset: Some(500),
                limit: Some(100),
            },
        ),
        (json!({"type": "report.get"}), Command::ReportGet),
        (
            json!({"type": "plan.codon", "data": {"codonId": "deploy"}}),
            Command::PlanCodon {
                codon_id: "deploy".parse().unwrap(),
            },
        ),
        (json!({"type": "ping"}), Command::Ping),
        (json!({"type": "ping.broadcast"}), Command::PingBroadcast),
        (
            json!({"type": "server.shutdown", "data": {"reason": null}}),
            Command::ServerShutdown { reason: None },
        ),
        (
            json!({"type": "server.force_shutdown"}),
            Command::ServerForceShutdown { reason: None },
        ),
    ]
}

// covers: WIRE-8
#[test]
fn every_command_is_read_and_written() {
    for (mut message, expected) in samples() {
        message["id"] = json!("c-1");
        let request = command(&message).unwrap();
        assert_eq!(request.command, expected);
        assert_eq!(
            (request.id.as_str(), json!(expected.name())),
            ("c-1", message["type"].clone())
        );
        let written = serde_json::to_value(&request).unwrap();
        assert_eq!(command(&written), Ok(request), "{written}");
    }
}

// covers: WIRE-6, WIRE-8, WIRE-14
#[test]
fn a_reader_may_list_fetch_ping_and_stop_the_server() {
    let all = samples();
    let allowed = all.iter().filter(|(_, command)| command.is_always_allowed());
    let names: Vec<&str> = allowed.map(|(_, command)| command.name()).collect();
    assert_eq!(all.len(), 23);
    assert_eq!(
        names,
        [
            "checkpoint.list",
            "history.sync",
            "state.snapshot",
            "view.get",
            "diff.files",
            "diff.lines",
            "report.get",
            "plan.codon",
            "ping",
            "server.shutdown",
            "server.force_shutdown"
        ]
    );
}

// covers: WIRE-8
#[test]
fn whatever_is_wrong_with_a_command_is_told_in_plain_words() {
    let invalid = Code::InvalidCommand;
    refused(
        &json!({"type": "ping"}),
        invalid,
        "Invalid command format: id: is missing",
    );
    refused(
        &json!({"id": 5, "type": 6, "data": 7}),
        invalid,
        "Invalid command format: id: must be a string, not 5; type: must be a string, not 6; data: must be an object, not a number",
    );
    refused(
        &json!({"id": "", "type": "ping"}),
        invalid,
        "Invalid command format: id: must have 1 to 256 bytes",
    );
    refused(
        &json!({"id": "a", "type": "codon.start"}),
        invalid,
        "Invalid command format: data.codonId: is missing",
    );
    refused(
        &json!({"id": "a", "type": "rollback.toCodon", "data": {"codonId": "../x", "checkpointType": "middle"}}),
        invalid,
        "Invalid command format: data.codonId: `../x` is not a valid codon id: it must not contain a path separator; \
         data.checkpointType: must be one of `start`, `end`, \
         `rig-setup`, `completed`, `error`, `skipped`, not `middle`",
    );
    refused(
        &json!({"id": "a", "type": "codon.forceStop", "data": {"reason": "x".repeat(1_001)}}),
        invalid,
        "Invalid command format: data.reason: must have at most 1000 bytes",
    );
    refused(
        &json!([]),
        invalid,
        "Invalid command format: the message must be an object {id, type, data}",
    );
    let unknown = command(&json!({"id": "a", "type": "codon.explode"})).unwrap_err();
    assert_eq!(unknown.code, Code::UnknownCommand);
    assert!(unknown.message.starts_with(
        "Invalid command format: there is no command `codon.explode`; the commands are codon.start, codon.next, "
    ));
}

// No rev syntax, no abbreviations below 12 digits, no options.
// covers: WIRE-11
#[test]
fn a_checkpoint_is_named_by_digits_alone() {
    for text in [
        "HEAD",
        "main~1",
        "--all",
        "0123456789a",
        "0123456789AB",
        "0123456789ab\n",
        "",
    ] {
        assert_eq!(ShaPrefix::new(text), None, "{text}");
    }
    for length in [12, 40, 64] {
        assert!(ShaPrefix::new("a".repeat(length)).is_some());
    }
    assert_eq!(ShaPrefix::new("a".repeat(65)), None);
}

// covers: F13, WIRE-31
#[test]
fn text_that_is_no_json_or_too_deep_is_refused_before_it_is_looked_at() {
    for text in ["", "{", "no", "\u{0}", "{\"id\":\"a\",\"type\":\"ping\"} x"] {
        assert_eq!(Inbound::read(text).unwrap_err().code, Code::NotJson, "{text:?}");
    }
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(Inbound::read(&nested(33)).unwrap_err().code, Code::TooDeep);
    assert_eq!(Inbound::read(&nested(32)).unwrap_err().code, Code::InvalidCommand);
    assert_eq!(
        Inbound::read(&"[".repeat(1 << 20)).unwrap_err().code,
        Code::TooDeep
    );
}

// covers: WIRE-9
#[test]
fn every_code_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<_> = Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(names.len(), Code::ALL.len());
}

proptest! {
    // covers: F13
    #[test]
    fn no_message_brings_the_reader_down(text in ".{0,200}") {
        if let Ok(Inbound::Command(command)) = Inbound::read(&text) {
            let _ = command.check();
        }
    }

    #[test]
    fn a_command_that_was_changed_somewhere_is_read_or_refused(
        index in 0..14_usize, at in any::<prop::sample::Index>(), byte in 0x20..0x7f_u8,
    ) {
        let (mut message, _) = samples().swap_remove(index);
        message["id"] = json!("c-1");
        let mut text = message.to_string().into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        let text = String::from_utf8(text).unwrap();
        if let Ok(Inbound::Command(command)) = Inbound::read(&text)
            && let Ok(request) = command.check()
        {
            prop_assert_eq!(command_again(&request), request);
        }
    }
}

fn command_again(request: &ClientRequest) -> ClientRequest {
    command(&serde_json::to_value(request).unwrap()).unwrap()
}
