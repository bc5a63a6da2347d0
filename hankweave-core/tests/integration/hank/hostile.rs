//! Files that were written in bad faith.

use hankweave_core::hank::{Position, parse, parse_bytes, references};
use proptest::prelude::*;

const EVERYTHING: &[u8] = include_bytes!("everything.json");

/// For any bytes, the answer fits on a screen and its positions are in the file.
fn check(bytes: &[u8]) {
    let parsed = parse_bytes(bytes);
    assert!(parsed.problems.display_in("hank.json").len() <= 4096);
    assert_eq!(parsed.hank.is_some(), !parsed.problems.has_errors());
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
    for Position { line, column } in parsed.problems.iter().filter_map(|problem| problem.position) {
        assert!(
            line as usize <= lines && column as usize <= bytes.len() + 1,
            "{line}:{column}"
        );
    }
    if let Some(hank) = parsed.hank.or(parsed.draft) {
        assert!(
            references(&hank)
                .iter()
                .all(|reference| !reference.path.is_empty())
        );
        assert!(serde_json::to_string(&hank).is_ok());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_never_panic(changes in prop::collection::vec((0..EVERYTHING.len(), any::<u8>()), 1..6), end in 0..EVERYTHING.len()) {
        let mut bytes = EVERYTHING.to_vec();
        for (index, byte) in changes {
            bytes[index] = byte;
        }
        check(&bytes);
        check(&bytes[..end]);
    }

    #[test]
    fn exchanged_words_never_panic(from in 0..400usize, to in 0..400usize) {
        let text = std::str::from_utf8(EVERYTHING).unwrap();
        let mut words: Vec<&str> = text.split_inclusive([' ', ',', ':']).collect();
        let length = words.len();
        words.swap(from % length, to % length);
        check(words.concat().as_bytes());
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&bytes);
    }
}

// covers: F18
#[test]
fn deep_nesting_is_one_message() {
    for open in ["[", "{\"a\":", "[{\"a\":"] {
        for depth in [70, 300, 100_000] {
            let parsed = parse(&open.repeat(depth));
            assert_eq!(parsed.problems.errors(), 1);
            check(open.repeat(depth).as_bytes());
        }
    }
    let nested = format!("{{\"hank\": {}1{}}}", "[".repeat(70), "]".repeat(70));
    let found = super::problems(&nested);
    assert_eq!(found, ["1:73: error: nested deeper than 64 levels"]);
}

#[test]
fn a_file_above_the_size_limit_is_refused_before_it_is_read() {
    let text = format!("{{\"hank\": [{}]}}", " ".repeat(4 << 20));
    assert_eq!(
        super::problems(&text),
        ["1:1: error: the file is larger than 4 MiB"]
    );
}

#[test]
fn text_that_is_not_utf8_is_reported_at_its_place() {
    let parsed = parse_bytes(b"{\n \"a\": \"\xff\"}");
    assert_eq!(
        parsed.problems.iter().next().unwrap().to_string(),
        "2:8: error: the file is not UTF-8 text"
    );
}

// covers: F18
#[test]
fn a_hundred_thousand_problems_are_counted_and_fifty_are_shown() {
    let parsed = parse(&format!("{{\"hank\": [{}]}}", "1,".repeat(100_000)));
    assert_eq!(parsed.problems.errors(), 100_000);
    let shown = parsed.problems.display_in("hank.json");
    assert!(
        shown.len() <= 4096 && shown.contains("more (100000 errors, 0 warnings)"),
        "{shown}"
    );
}

#[test]
fn a_message_cannot_carry_control_characters_or_pages_of_text() {
    let text = format!("{{\"\\u001b[31m{}\": 1, \"hank\": []}}", "x".repeat(100_000));
    let shown = parse(&text).problems.display_in("hank.json");
    assert!(shown.len() < 2000 && !shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn ten_thousand_codons_are_read() {
    let codons: Vec<_> = (0..10_000).map(|n| super::fresh(&format!("c{n}"), "")).collect();
    let parsed = parse(&super::hank(&codons));
    assert_eq!(parsed.hank.unwrap().items.len(), 10_000);
}
