//! What can be compared without a tool.

use std::fs;
use std::path::Path;

use comparison_harness::walks;
use data::Input;

/// A typed state takes no more memory than its data.
#[test]
fn every_typed_state_is_as_large_as_one_written_by_hand() {
    let by_hand = comparison_by_hand::walk::SIZES;
    assert_eq!(comparison_hankweave::walk::SIZES, by_hand);
    assert_eq!(comparison_hankweave_types::walk::SIZES, by_hand);
    assert_eq!(comparison_by_hand_stored::walk::SIZES, by_hand);
    // What the page says about the others.
    assert_eq!(by_hand, [64, 88, 144, 184, 184, 216, 248, 232]);
    assert_eq!(
        comparison_statum::walk::SIZES,
        [64, 88, 144, 184, 184, 216, 248, 232]
    );
    assert_eq!(
        comparison_typestate::walk::SIZES,
        [64, 88, 144, 184, 184, 216, 248, 232]
    );
    assert_eq!(comparison_state_shift::walk::SIZES, [344; 8]);
}

/// Otherwise their figures could not be compared.
#[test]
fn all_walks_lead_to_the_same_values() {
    for (name, walk) in walks() {
        assert_eq!(walk(Input::new(7)), 7 + 40 + 36 + 1 + 40, "{name}");
    }
}

/// The declaration is the shortest, although the stored form, events, graph and tests come with it.
#[test]
fn the_declaration_has_fewer_lines_than_every_other_variant() {
    let ours = lines("hankweave");
    for other in ["by-hand", "by-hand-stored", "state-shift", "statum", "typestate"] {
        assert!(
            ours < lines(other),
            "{other}: {} lines, ours: {ours}",
            lines(other)
        );
    }
}

/// Lines that are neither empty nor comments.
fn lines(variant: &str) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(variant);
    let text = fs::read_to_string(folder.join("src/machine.rs")).expect("every variant has a machine");
    let code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    text.lines().filter(code).count()
}
