//! Every parser of core against damaged input: committed files, and a fixed series of mutations of each.
//!
//! `hankweave_testing::corpus` explains how to repeat a failure.

use std::ops::Range;
use std::path::Path;

use hankweave_agents::{
    AcpDecoder, AgentDecoder, AgentLine, ClaudeDecoder, CodexDecoder, GeminiDecoder, OpencodeDecoder,
    PiDecoder, ProcessEnd, RecordsScope, Rollout, SessionLines,
};
use hankweave_core::agent::{EndedBy, ProcessExit};
use hankweave_core::cost::Usd;
use hankweave_core::cost::pricing::Prices;
use hankweave_core::document::{parse, render};
use hankweave_core::event::{Recorded, StateEvent};
use hankweave_core::hank;
use hankweave_core::id::{CodonId, LoopId, RunId, SessionId};
use hankweave_core::state::LiveState;
use hankweave_core::thread;
use hankweave_core::time::Timestamp;
use hankweave_testing::corpus::{self, Random};
use serde_json::Value;

/// Parsers see a whole file, so this finds most errors within a few seconds.
const MUTATIONS: u64 = 300;

// covers: F4
#[test]
fn no_damage_to_a_state_document_goes_unnoticed_or_panics() {
    feed(
        &[
            "fixtures/state/invalid-completed-without-checkpoint.json",
            "fixtures/state/open-preparing.json",
            "fixtures/state/rig-setup-continuation.json",
        ],
        |bytes| match parse(bytes) {
            Ok(state) => {
                let text = render(&state);
                let again = parse(text.as_bytes());
                assert_eq!(again.as_ref(), Ok(&state));
                assert_eq!(again.map(|again| render(&again)), Ok(text));
                let _ = thread::build(&state, None, None);
            }
            Err(problems) => {
                assert!(!problems.is_empty());
                problems
                    .iter()
                    .for_each(|problem| in_plain_words(&problem.message));
            }
        },
    );
}

/// Reading types talk about types; people must not see that.
#[track_caller]
fn in_plain_words(message: &str) {
    const JARGON: [&str; 9] = [
        "invalid type",
        "invalid value",
        "unknown variant",
        "missing field",
        "duplicate field",
        "u64",
        "enum",
        "sequence",
        "EOF",
    ];
    // What the document holds is quoted, and may be any word.
    let own = message.split('`').step_by(2);
    for part in own {
        let found = JARGON.iter().find(|jargon| part.contains(**jargon));
        assert_eq!(found, None, "in {message:?}");
    }
}

// covers: F18
#[test]
fn no_damage_to_a_hank_goes_unnoticed_or_panics() {
    feed(
        &["integration/hank/everything.json", "corpus/first-hank.json"],
        |bytes| {
            let parsed = hank::parse_bytes(bytes);
            assert_eq!(parsed.hank.is_none(), parsed.problems.has_errors());
            let _ = parsed.problems.display_in("hank.json");
            if let Some(hank) = &parsed.hank {
                let _ = hank::references(hank);
                let written = serde_json::to_value(hank).unwrap();
                let again = hank::parse(&written.to_string());
                let problems = again.problems.display_in("written");
                let again = again.hank.map(|hank| serde_json::to_value(hank).unwrap());
                assert_eq!(again, Some(written), "{problems}");
            }
        },
    );
}

#[test]
fn no_damage_to_events_changes_half_a_document_or_panics() {
    feed(&["corpus/story-of-events.json"], |bytes| {
        let mut live = LiveState::default();
        for (seq, event) in (1..).zip(events_in(bytes)) {
            let before = live.document().clone();
            let recorded = Recorded {
                seq,
                at: Timestamp::UNIX_EPOCH,
                event,
            };
            let line = serde_json::to_string(&recorded).unwrap();
            assert_eq!(
                serde_json::from_str::<Recorded<StateEvent>>(&line).unwrap(),
                recorded,
                "{line}"
            );
            if let Err(rejected) = live.apply(&recorded) {
                in_plain_words(&rejected.to_string());
                assert_eq!(*live.document(), before);
            }
        }
        assert_eq!(
            parse(render(live.document()).as_bytes()).as_ref(),
            Ok(live.document())
        );
    });
}

fn events_in(bytes: &[u8]) -> Vec<StateEvent> {
    let values: Vec<Value> = serde_json::from_slice(bytes).unwrap_or_default();
    let events = values.into_iter().map(StateEvent::from_json);
    let told = events.inspect(|event| {
        if let Err(error) = event {
            in_plain_words(&error.message);
        }
    });
    told.filter_map(Result::ok).collect()
}

// covers: F11
#[test]
fn no_damage_to_an_agents_stream_panics() {
    hear("claude", || ClaudeDecoder::new(false));
    hear("codex", || CodexDecoder::new(false));
    for version in ["pi", "pi-0.87"] {
        hear(version, PiDecoder::default);
    }
    hear("opencode", || OpencodeDecoder::new("m"));
    hear("gemini", GeminiDecoder::default);
    hear("acp", || AcpDecoder::of_log(Prices::listed(), None, Usd::ZERO));
}

fn hear<D: AgentDecoder>(agent: &str, decoder: impl Fn() -> D) {
    let files = ["answer", "error-401", "two-tools"];
    let files = files.map(|file| format!("fixtures/agent-streams/{agent}/{file}.jsonl"));
    feed(&files.each_ref().map(String::as_str), |bytes| {
        let (mut decoder, mut events) = (decoder(), Vec::new());
        for line in String::from_utf8_lossy(bytes).split('\n') {
            decoder.decode(AgentLine::Text(line), &mut events);
        }
        let _ = decoder.finish(ProcessEnd::of(ProcessExit::Exited(0), EndedBy::Itself));
    });
}

#[test]
fn no_damage_to_a_rollout_file_panics() {
    feed(&["fixtures/agent-streams/codex/resumed.rollout.jsonl"], |bytes| {
        let mut rollout = Rollout::new(Some(Timestamp::parse("2026-11-23T23:53:00.000Z").unwrap()));
        let text = String::from_utf8_lossy(bytes);
        text.split('\n').for_each(|line| rollout.line(line));
        let mut decoder = CodexDecoder::new(true);
        decoder.recall(RecordsScope::Whole, Some(rollout.take()), &mut Vec::new());
        let _ = decoder.finish(ProcessEnd::of(ProcessExit::Exited(0), EndedBy::Itself));
    });
}

#[test]
fn no_damage_to_a_prompt_loses_text_or_panics() {
    feed(&["corpus/front-matter.md"], |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let (_, rest) = hank::prompt::split_front_matter(&text);
        assert!(text.ends_with(rest));
    });
}

#[test]
fn no_damage_to_a_short_text_panics() {
    feed(&["corpus/times-and-ids.txt"], |bytes| {
        for text in String::from_utf8_lossy(bytes).split('\n') {
            if let Ok(time) = Timestamp::parse(text) {
                assert_eq!(Timestamp::parse(&time.to_string()), Ok(time));
            }
            if let Ok(id) = CodonId::new(text) {
                assert!(!id.file_stem().contains(['/', '#']), "{id}");
            }
            let _ = (RunId::new(text), LoopId::new(text), SessionId::new(text));
            let _ = hank::paths::check_glob(text);
            let _ = text.parse().map(Usd::from_dollars);
        }
    });
}

/// What parsers of JSON and of short texts stumble over.
const STUMBLES: [&[u8]; 8] = [
    b"null",
    b"-1",
    b"1e999",
    b"\"\"",
    b"[[[[",
    b"{}",
    b"\xff\xfe",
    b"\"\\ud800\"",
];

/// Gives the parser these files of the folder `tests`, whole and then damaged.
fn feed(files: &[&str], parser: impl Fn(&[u8])) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let files: Vec<_> = files.iter().map(|file| tests.join(file)).collect();
    let damage = |bytes: &mut Vec<u8>, random: &mut Random, mutation: u64| match mutation % 2 {
        0 => corpus::damage(bytes, random, &STUMBLES),
        _ => damage_tokens(bytes, random),
    };
    corpus::feed(&files, MUTATIONS, damage, parser);
}

/// Makes one to four changes that leave the text well-formed more often than not. A value or name replaces another, is doubled, or is removed with
/// its comma, or a value is put in that readers stumble over.
fn damage_tokens(bytes: &mut Vec<u8>, random: &mut Random) {
    const STUMBLES: [&str; 12] = [
        "null",
        "true",
        "-1",
        "0",
        "1.5",
        "1e30",
        "18446744073709551616",
        "\"\"",
        "\"completing_sentinels\"",
        "\"2025-01-04T12:00:00+01:00\"",
        "{}",
        "[]",
    ];
    for _ in 0..=random.up_to(3) {
        let tokens = tokens(bytes);
        let [Some(first), Some(second)] = [(); 2].map(|()| tokens.get(random.up_to(tokens.len())).cloned())
        else {
            continue;
        };
        let other = bytes[second].to_vec();
        match random.up_to(3) {
            0 => drop(bytes.splice(first, other)),
            1 => drop(bytes.splice(first, STUMBLES[random.up_to(11)].bytes())),
            2 => {
                let comma = bytes[first.end..]
                    .iter()
                    .position(|byte| !byte.is_ascii_whitespace());
                let end = comma.map_or(first.end, |comma| first.end + comma + 1);
                bytes.drain(first.start..end);
            }
            _ => {
                let twice = [&bytes[first.clone()], b", ", &other].concat();
                drop(bytes.splice(first, twice));
            }
        }
    }
}

/// Returns the ranges of the texts, numbers and words in a JSON-like text.
fn tokens(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut tokens = Vec::new();
    let mut place = 0;
    while place < bytes.len() {
        let rest = &bytes[place..];
        let length = match rest[0] {
            b'"' => text_length(rest),
            byte if is_word(byte) => rest.iter().take_while(|byte| is_word(**byte)).count(),
            _ => {
                place += 1;
                continue;
            }
        };
        tokens.push(place..place + length);
        place += length;
    }
    tokens
}

/// The length of the quoted text at the front, its quotes included.
fn text_length(bytes: &[u8]) -> usize {
    let mut escaped = false;
    let end = bytes.iter().skip(1).position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.map_or(bytes.len(), |end| end + 2)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-._".contains(&byte)
}
