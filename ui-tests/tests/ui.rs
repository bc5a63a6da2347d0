//! Programs that must not compile, with the messages they must give, and programs that must.
//!
//! Messages belong to one compiler: the one that `rust-toolchain.toml` pins. See `README.md` on updating them.

use std::collections::BTreeSet;
use std::path::Path;

use hankweave_core::codon::{CODON, CodonStatus};

#[test]
fn forbidden_programs_say_what_is_wrong_and_what_is_legal() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("compile-fail/*/*.rs");
    cases.pass("pass/*.rs");
}

/// Each of the 40 pairs of a state and a method that the codon machine does not have is a program here.
#[test]
fn every_illegal_step_of_the_codon_has_its_case() {
    let methods: BTreeSet<&str> = CODON.edges.iter().map(|edge| edge.method).collect();
    let mut illegal = 0;
    for status in CodonStatus::ALL {
        let legal: BTreeSet<&str> = CODON
            .edges
            .iter()
            .filter(|edge| edge.from == state_name(status))
            .map(|edge| edge.method)
            .collect();
        let folder = if status.is_terminal() {
            "terminal"
        } else {
            "illegal-transition"
        };
        for method in methods.difference(&legal) {
            illegal += 1;
            let case = format!("compile-fail/{folder}/{status}-{}.rs", method.replace('_', "-"));
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&case);
            assert!(path.exists(), "{case} is missing");
        }
    }
    assert_eq!(illegal, 40);
}

fn state_name(status: &CodonStatus) -> &'static str {
    let found = CODON
        .states
        .iter()
        .find(|state| state.stored_name == status.as_str());
    found.expect("each status is a state of the graph").name
}
