//! The state fixtures and what must come out of them.

use std::path::PathBuf;

use hankweave_core::cost::Usd;
use hankweave_core::document::{self, CheckpointFacts, CheckpointTable};
use hankweave_core::thread;
use serde_json::{Value, json};

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/state")
        .join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn expected() -> serde_json::Map<String, Value> {
    serde_json::from_slice(&fixture("expected.json")).unwrap()
}

/// Every SHA of the full document exists, as the expected values assume.
fn known() -> CheckpointTable {
    let full = document::parse(&fixture("full-state.json")).unwrap();
    full.checkpoints()
        .map(|sha| (sha.clone(), CheckpointFacts::default()))
        .collect()
}

#[test]
fn every_fixture_is_judged_as_expected() {
    for (name, expected) in expected() {
        let parsed = document::parse(&fixture(&name));
        assert_eq!(
            parsed.is_ok(),
            expected["valid"].as_bool().unwrap(),
            "{name}: {parsed:?}"
        );
        for error in expected["errors"].as_array().unwrap() {
            let problems = parsed.as_ref().unwrap_err();
            let (kind, word) = (error[0].as_str().unwrap(), error[1].as_str().unwrap());
            let fits = |found: &document::StateProblem| {
                found.kind.to_string() == kind && found.to_string().contains(word)
            };
            assert!(problems.iter().any(fits), "{name}: {problems:?}");
        }
    }
}

#[test]
fn every_thread_is_built_as_expected() {
    for (name, expected) in expected() {
        let Ok(document) = document::parse(&fixture(&name)) else {
            continue;
        };
        let thread = thread::build(&document, None, Some(&known()));
        let codons = thread.codons.iter().map(|entry| {
            let codon = &entry.codon;
            json!([
                codon.codon_id(),
                codon.status(),
                entry.run_id,
                entry.run_index,
                entry.codon_index_in_run
            ])
        });
        let found = json!({
            "codons": codons.collect::<Vec<_>>(),
            "totalRuns": thread.total_runs,
            "hasRunningCodon": thread.has_running_codon,
            "failed": thread.failed,
            "nextCodonId": thread.next_codon_id,
        });
        assert_eq!(found, expected["thread"], "{name}");
    }
}

// covers: STATE-47
#[test]
fn every_cost_is_summed_as_expected() {
    for (name, expected) in expected() {
        let Ok(document) = document::parse(&fixture(&name)) else {
            continue;
        };
        let near = |found: Usd, key: &str| {
            let expected = expected["costs"][key].as_f64().unwrap();
            assert!(
                (found.as_dollars() - expected).abs() < 1e-6,
                "{name} {key}: {found}, not {expected}"
            );
        };
        near(document.total_cost(), "total");
        near(
            document.current_run().map_or(Usd::ZERO, |run| run.codon_cost()),
            "currentRun",
        );
        near(document.total_spend(), "totalSpend");
    }
}

#[test]
fn what_is_read_is_written_back() {
    for name in [
        "full-state.json",
        "finished-run.json",
        "rig-setup-continuation.json",
    ] {
        let before: Value = serde_json::from_slice(&fixture(name)).unwrap();
        let document = document::parse(&fixture(name)).unwrap();
        let after: Value = serde_json::from_str(&document::render(&document)).unwrap();
        assert_eq!(after, before, "{name}");
    }
}

#[test]
fn a_file_that_is_cut_off_is_corrupted() {
    let problems = document::parse(&fixture("corrupt-cut-off.json.txt")).unwrap_err();
    assert_eq!(problems[0].kind, document::ProblemKind::CorruptedData);
}
