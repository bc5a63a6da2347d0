//! Laws that hold for every history and for every sequence of bytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_core::codon::CodonExecution;
use hankweave_core::document::{HankweaveState, WarningContext, parse, render, warnings};
use hankweave_core::event::{Recorded, StateEvent};
use hankweave_core::hank;
use hankweave_core::state::{Candidate, LiveState, StateSource, recover};
use hankweave_core::testing::{histories, states};
use hankweave_core::thread;
use proptest::prelude::*;

pub(crate) fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// What the events leave, and which of them were accepted.
fn fold(events: &[Recorded<StateEvent>]) -> (LiveState, Vec<Recorded<StateEvent>>) {
    let mut live = LiveState::default();
    let accepted = events.iter().filter(|event| live.apply(event).is_ok());
    let accepted = accepted.cloned().collect();
    (live, accepted)
}

/// The record that an event means, found the slow way (STATE-21).
fn meant<'a>(state: &'a HankweaveState, event: &StateEvent) -> Option<&'a Arc<CodonExecution>> {
    let run = state.run(event.run_id()?)?;
    let mut same_id = run
        .codons
        .iter()
        .filter(|codon| Some(codon.codon_id()) == event.codon_id());
    let open = same_id.clone().find(|codon| !codon.is_terminal());
    open.or_else(|| same_id.next_back())
}

proptest! {
    #![proptest_config(config(200))]

    // covers: P3
    #[test]
    fn a_refused_event_leaves_every_byte_as_it_was(events in histories(60)) {
        let mut live = LiveState::default();
        for event in &events {
            let (before, shared) = (render(live.document()), live.document().clone());
            if live.apply(event).is_err() {
                prop_assert_eq!(render(live.document()), &*before);
            }
            prop_assert_eq!(render(&shared), before, "a snapshot is never changed");
        }
    }

    // covers: STATE-21
    #[test]
    fn an_event_touches_the_record_it_means_and_no_other(events in histories(60)) {
        let mut live = LiveState::default();
        for event in &events {
            let before = live.document().clone();
            let target = meant(&before, &event.event).map(Arc::as_ptr);
            if live.apply(event).is_err() {
                continue;
            }
            let is_started = matches!(event.event, StateEvent::CodonStarted { .. });
            let is_crash = matches!(event.event, StateEvent::RunCrashed { .. });
            let after: Vec<_> = live.document().runs.iter().flat_map(|run| &run.codons).map(Arc::as_ptr).collect();
            let gone = before.runs.iter().flat_map(|run| &run.codons).map(Arc::as_ptr).filter(|codon| !after.contains(codon));
            for codon in gone {
                prop_assert!(is_crash || (!is_started && Some(codon) == target), "{:?}", event);
            }
        }
    }

    // covers: STATE-48
    #[test]
    fn totals_in_memory_are_those_of_the_document(events in histories(80)) {
        let mut live = LiveState::default();
        for event in &events {
            let _ = live.apply(event);
            prop_assert_eq!(live.totals(), LiveState::new(live.document().clone()).totals());
        }
    }

    /// Architecture, publish after durable: the published document is the document, however many events it follows at once.
    #[test]
    fn a_document_that_follows_another_becomes_equal_to_it(events in histories(80), pace in 1..9usize) {
        let (mut live, mut seen) = (LiveState::default(), HankweaveState::default());
        for some in events.chunks(pace) {
            for event in some {
                let _ = live.apply(event);
            }
            seen.update_to(live.document());
            prop_assert_eq!(&seen, live.document());
        }
    }

    // covers: STATE-14
    #[test]
    fn what_has_ended_stays_as_it_is(events in histories(80)) {
        let mut live = LiveState::default();
        for event in &events {
            let before = live.document().clone();
            let _ = live.apply(event);
            for old in &before.runs {
                let new = live.document().run(&old.run_id).unwrap();
                for (old, new) in old.codons.iter().zip(&new.codons).filter(|(old, _)| old.is_terminal()) {
                    prop_assert_eq!(old, new);
                }
                prop_assert!(old.codons.len() <= new.codons.len());
            }
            prop_assert!(before.runs.len() <= live.document().runs.len(), "runs are never removed");
        }
    }

    /// The accepted events, read back from their JSON, build an equal document; so do they on top of a document that was saved on the way.
    #[test]
    fn folding_the_journal_gives_the_saved_document(events in histories(60), cut in 0..60usize) {
        let (live, accepted) = fold(&events);
        let journal: Vec<String> = accepted.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
        let read: Vec<Recorded<StateEvent>> = journal.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let again = fold(&read).0;
        prop_assert_eq!(again.document(), live.document());
        let (saved, tail) = accepted.split_at(cut.min(accepted.len()));
        let bytes = render(fold(saved).0.document());
        let candidate = Candidate { bytes: bytes.as_bytes(), tail };
        let recovered = recover(Some(candidate), None, Vec::new, true);
        prop_assert_eq!((recovered.source, &recovered.state), (StateSource::Primary, live.document()));
    }

    /// `load(save(s)) = s`
    #[test]
    fn what_is_saved_is_loaded(state in states(60)) {
        let text = render(&state);
        let loaded = parse(text.as_bytes()).unwrap();
        prop_assert_eq!(&loaded, &state);
        prop_assert_eq!(render(&loaded), text);
    }

    /// For any bytes, reading them ends with a document or with reasons, and a document can be worked with.
    #[test]
    fn no_bytes_make_core_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = work_with(&bytes);
    }

    #[test]
    fn no_json_like_text_makes_core_panic(text in r#"[\[\]{}:,"a-zA-Z0-9.\\ null-]{0,120}"#) {
        let _ = work_with(text.as_bytes());
    }

    /// No panic either for real files with a few bytes changed, taken out, or put twice.
    #[test]
    fn no_damage_to_a_file_makes_core_panic(file in 0..3usize, damage in prop::collection::vec((any::<prop::sample::Index>(), 0..40usize, any::<u8>(), 0..3u8), 1..4)) {
        let mut bytes = fixture(["full-state.json", "finished-run.json", "rig-setup-continuation.json"][file]);
        for (place, length, byte, kind) in damage {
            let start = place.index(bytes.len());
            let end = (start + length).min(bytes.len());
            match kind {
                0 => bytes[start] = byte,
                1 => drop(bytes.drain(start..end)),
                _ => {
                    let part = bytes[start..end].to_vec();
                    drop(bytes.splice(start..start, part));
                }
            }
            if bytes.is_empty() {
                break;
            }
        }
        let _ = work_with(&bytes);
        let _ = hank::parse(&String::from_utf8_lossy(&bytes));
    }
}

/// Reads bytes and asks the document everything that can be asked.
fn work_with(bytes: &[u8]) -> Option<HankweaveState> {
    let Ok(state) = parse(bytes) else {
        let refused = recover(Some(Candidate { bytes, tail: &[] }), None, Vec::new, true);
        assert!(refused.history_was_reset && !refused.primary_problems.is_empty());
        return None;
    };
    let _ = warnings(&state, WarningContext::default());
    let found = thread::build(&state, None, None);
    let _ = found.continuation_sessions(&state.execution_plan);
    let _ = (found.resume(true), found.resume(false), state.total_spend());
    let again = parse(render(&state).as_bytes()).unwrap_or_else(|problems| panic!("{problems:?}"));
    assert_eq!(again, state);
    Some(state)
}

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/state")
        .join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every prefix of a file is refused, unless only white space is missing.
// covers: F4
#[test]
fn every_prefix_of_a_file_is_rejected_or_equal() {
    let whole = small_file();
    let state = parse(&whole).unwrap();
    for end in 0..whole.len() {
        if let Ok(found) = parse(&whole[..end]) {
            assert_eq!(found, state, "{end}");
            assert!(end + 1 >= whole.len(), "{end}");
        }
    }
}

/// Every single-bit flip of a file is refused, or it reads as a document of its own that is written back as it was
/// read. Text has no checksum: a digit that becomes another digit is found by the log, which knows the bytes it continues.
// covers: F4
#[test]
fn every_flipped_bit_of_a_file_is_rejected_or_read_as_it_stands() {
    let whole = small_file();
    for position in 0..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[position] ^= 1 << bit;
            if let Ok(state) = parse(&flipped) {
                let read: serde_json::Value = serde_json::from_slice(&flipped).unwrap();
                let written: serde_json::Value = serde_json::from_str(&render(&state)).unwrap();
                assert_eq!(lenient(written), lenient(read), "byte {position}, bit {bit}");
            }
        }
    }
}

/// Two runs and two codons in few bytes.
fn small_file() -> Vec<u8> {
    let whole = fixture("rig-setup-continuation.json");
    let mut value: serde_json::Value = serde_json::from_slice(&whole).unwrap();
    value["executionPlan"].as_array_mut().unwrap().truncate(1);
    value.to_string().into_bytes()
}

/// What may differ between a file and what is written back: the spelling of times and numbers.
fn lenient(mut value: serde_json::Value) -> serde_json::Value {
    match &mut value {
        serde_json::Value::Object(object) => {
            for (_, inner) in object.iter_mut() {
                *inner = lenient(inner.take());
            }
        }
        serde_json::Value::Array(items) => {
            for inner in items.iter_mut() {
                *inner = lenient(inner.take());
            }
        }
        serde_json::Value::String(text) => {
            if let Ok(time) = hankweave_core::time::Timestamp::parse(text) {
                *text = time.to_string();
            }
        }
        serde_json::Value::Number(number) => {
            // Money is exact to a billionth of a dollar.
            let billionths = number.as_f64().unwrap() * 1e9;
            *number = serde_json::Number::from_f64(billionths.round()).unwrap();
        }
        _ => {}
    }
    value
}

/// Core has no dependency that can do I/O, and calls neither a clock nor the system.
#[test]
fn core_is_pure() {
    /// Crates that optional features add, for tests and for users who want schemas.
    const OPTIONAL: [&str; 2] = ["proptest", "schemars"];
    const FORBIDDEN: [&str; 11] = [
        "std::fs",
        "std::process",
        "std::net",
        "std::env",
        "std::io::",
        "std::thread",
        "SystemTime",
        "Instant",
        "Timestamp::now",
        "tokio",
        "tracing",
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let allowed = std::fs::read_to_string(root.join("../.ci/core/crates.txt")).unwrap();
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let dependencies = manifest
        .split("\n[dependencies]\n")
        .nth(1)
        .unwrap()
        .split("\n[")
        .next()
        .unwrap();
    for line in dependencies.lines().filter(|line| !line.is_empty()) {
        let name = line.split(['.', ' ', '=']).next().unwrap();
        let is_pure = OPTIONAL.contains(&name) || allowed.lines().any(|pure| pure == name);
        assert!(is_pure, "{name} is not a pure dependency");
    }
    assert!(
        manifest.contains("proptest = { workspace = true, optional = true }"),
        "for tests only"
    );
    for file in sources(&root.join("src")) {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for (number, line) in code.enumerate() {
            for word in FORBIDDEN {
                assert!(
                    !line.contains(word),
                    "{}: code line {}: {line}",
                    file.display(),
                    number + 1
                );
            }
        }
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .collect()
}
