use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

use super::{Json, Tape};

/// What JSON is made of, and what looks like it.
const PIECES: &[&str] = &[
    "\"",
    "\\",
    "/",
    "\\\"",
    "\\\\",
    "\\/",
    "\\b",
    "\\n",
    "\\u",
    "\\u00",
    "\\u00e9",
    "\\uD83D",
    "\\ude00",
    "\\ud83d\\ude00",
    "\\x",
    "{",
    "}",
    "[",
    "]",
    "{}",
    "[]",
    ",",
    ":",
    "\"a\":1,",
    "\"\\u0061\":2,",
    "0",
    "1",
    "9",
    "-",
    "+",
    ".",
    "e",
    "E",
    "1e5",
    "-0",
    "0.0",
    "1e308",
    "1E+309",
    "1e-400",
    "18446744073709551616",
    "-9223372036854775809",
    "t",
    "true",
    "fals",
    "false",
    "null",
    "nul",
    " ",
    "\t",
    "\n",
    "\r",
    "\u{b}",
    "\u{0}",
    "\u{1f}",
    "\u{7f}",
    "\u{a0}",
    "\u{feff}",
    "é",
    "\u{2028}",
    "😀",
    "abcdefgh",
    "/*",
    "NaN",
];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map_into(),
        any::<i64>().prop_map_into(),
        any::<u64>().prop_map_into(),
        (-1e300..1e300).prop_map(Value::from),
        ".*".prop_map_into(),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map_into(),
            prop::collection::btree_map(".*", inner, 0..8)
                .prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

#[derive(Debug, Clone)]
enum Damage {
    Delete(Index, usize),
    Insert(Index, &'static str),
    Replace(Index, usize, &'static str),
    Double(Index, usize),
}

fn any_damage() -> impl Strategy<Value = Damage> {
    let (place, length, piece) = (any::<Index>(), 0_usize..12, select(PIECES));
    prop_oneof![
        (place.clone(), length.clone()).prop_map(|(at, length)| Damage::Delete(at, length)),
        (place.clone(), piece.clone()).prop_map(|(at, piece)| Damage::Insert(at, piece)),
        (place.clone(), length.clone(), piece)
            .prop_map(|(at, length, piece)| Damage::Replace(at, length, piece)),
        (place, length).prop_map(|(at, length)| Damage::Double(at, length)),
    ]
}

fn damaged(mut text: String, all: Vec<Damage>) -> String {
    for damage in all {
        let (at, length, piece) = match damage {
            Damage::Delete(at, length) => (at, length, Some("")),
            Damage::Insert(at, piece) => (at, 0, Some(piece)),
            Damage::Replace(at, length, piece) => (at, length, Some(piece)),
            Damage::Double(at, length) => (at, length, None),
        };
        let places: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
        let first = at.index(places.len());
        let (start, end) = (places[first], places[(first + length).min(places.len() - 1)]);
        let piece = piece.map_or_else(|| text[start..end].repeat(2), str::to_owned);
        text.replace_range(start..end, &piece);
    }
    text
}

fn read<'d>(tape: &'d mut Tape, text: &'d str) -> Option<Json<'d>> {
    let place = tape.read(text, 0)?;
    Some(tape.value(text, place))
}

fn is_json(text: &str) -> bool {
    Tape::default().read(text, 0).is_some()
}

/// What the tape has of a text must be what serde_json reads, with the same members in the same order and the same sign of zero.
#[track_caller]
fn check(text: &str) {
    let theirs = serde_json::from_str::<Value>(text).ok();
    let mut tape = Tape::default();
    let before = r#"[{"a":0}]"#;
    tape.read(before, 0).unwrap();
    let both = format!("{before}{text}");
    let place = tape.read(&both, before.len());
    let read = place.map(|place| tape.value(&both, place));
    let whole = read.and_then(Json::as_u64);
    assert_eq!(whole, theirs.as_ref().and_then(Value::as_u64), "{text:?}");
    let ours = read.map(Json::to_value);
    assert_eq!(ours, theirs, "{text:?}");
    let printed = |value: Option<Value>| value.map(|value| value.to_string());
    assert_eq!(printed(ours), printed(theirs), "{text:?}");
}

proptest! {
    #[test]
    fn every_value_is_found_again(value in any_value()) {
        for text in [value.to_string(), format!("{value:#}")] {
            let mut tape = Tape::default();
            let found = read(&mut tape, &text).map(Json::to_value);
            prop_assert_eq!(found.as_ref(), Some(&value));
        }
    }

    #[test]
    fn damaged_text_is_taken_and_refused_as_serde_json_does(
        value in any_value(),
        pretty in any::<bool>(),
        damages in prop::collection::vec(any_damage(), 1..5),
    ) {
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        check(&damaged(text, damages));
    }

    #[test]
    fn what_is_put_together_of_pieces_is_taken_and_refused_as_serde_json_does(
        pieces in prop::collection::vec(select(PIECES), 0..12),
    ) {
        let text = pieces.concat();
        check(&text);
        check(&format!("[{text}]"));
        check(&format!("\"{text}\""));
    }
}

#[test]
fn every_border_is_where_serde_json_has_it() {
    let numbers = [
        "0",
        "-0",
        "-0.0",
        "00",
        "01",
        "-01",
        "1.",
        ".5",
        "1.e1",
        "-",
        "--1",
        "+1",
        "1e",
        "1e+",
        "1E+2",
        "1e-2",
        "1e5.5",
        "0e0",
        "0x1",
        "1e308",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "1e309",
        "-1e999",
        "0e999",
        "1e-999",
        "0e99999999999",
        "1e99999999999",
        "1e-99999999999",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "9007199254740993",
        "0.1",
        "123456789012345678901234567890.5",
        "1 2",
        "1,",
        "1a",
        "NaN",
        "Infinity",
    ];
    let texts = [
        r#""""#,
        r#"""#,
        r#"""""#,
        r#""\"#,
        r#""\""#,
        r#""\\""#,
        r#""\x""#,
        r#""\u""#,
        r#""\u12""#,
        r#""\u12g4""#,
        r#""\u0000""#,
        r#""\uABCD\uabcd""#,
        r#""\ud83d""#,
        r#""\ude00""#,
        r#""\ud83d\ude00""#,
        r#""\ud83d\ud83d""#,
        r#""\ud83dx""#,
        r#""\ud83d\n""#,
        r#""\ud83d\u0041""#,
        r#""\udbff\udfff""#,
        r#""\ud800\udc00""#,
        r#""\ud83d\u""#,
        r#""\U0041""#,
        r#""\b\f\n\r\t\/""#,
        "\"\u{1f}\"",
        "\"\u{7f}\"",
        "\"a\nb\"",
        "\"\u{0}\"",
        "'a'",
        "\"\u{10ffff}\u{2028}é\"",
        "\"seven77\\",
        "\"eight888\"",
        "\"eight888",
    ];
    let shapes = [
        "",
        " ",
        "\u{feff}1",
        "\u{a0}1",
        "\u{b}1",
        "\u{c}1",
        " \t\r\n1\n",
        "{",
        "}",
        "[",
        "]",
        "{}",
        "[]",
        "[ ]",
        "{ }",
        "[,]",
        "[1,]",
        "[1 2]",
        "[,1]",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\" : 1 , \"b\" : [ ] }",
        "{1:2}",
        "{a:1}",
        "{\"a\":1 \"b\":2}",
        "[1}",
        "{\"a\":1]",
        "[]]",
        "{}{}",
        "[]x",
        "true",
        "tru",
        "truee",
        "nullnull",
        "null",
        "false",
        "fals",
        "True",
        "[true,false,null]",
        "{\"a\":1,\"b\":2,\"a\":3}",
        "{\"a\":1,\"\\u0061\":2}",
        "{\"\":1}",
        "{\"a\":{\"a\":[{}]}}",
        "[[],{},[[]],{\"a\":{}}]",
    ];
    for text in numbers.into_iter().chain(texts).chain(shapes) {
        check(text);
        check(&format!("[{text}]"));
        check(&format!("{{\"a\":{text}}}"));
        check(&format!(" {text} "));
    }
}

#[test]
fn long_numbers_mean_what_they_mean_to_serde_json() {
    for length in [19, 20, 21, 307, 308, 309, 310, 400] {
        let (nines, zeros) = ("9".repeat(length), "0".repeat(length));
        check(&nines);
        check(&format!("-{nines}"));
        check(&format!("1{zeros}"));
        check(&format!("1{zeros}e-{length}"));
        check(&format!("0.{zeros}1"));
        check(&format!("0.{zeros}1e{length}"));
        check(&format!("{nines}.{nines}"));
    }
    // Exponents of this size are cut off by the parser of the standard library.
    let zeros = "0".repeat(70_000);
    check(&format!("0.{zeros}1e70001"));
    check(&format!("0.{zeros}1e70400"));
    check(&format!("1{zeros}e-70000"));
}

#[test]
fn values_may_be_nested_127_deep() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
        for levels in [63, 64, 126, 127, 128, 129] {
            let text = format!("{}1{}", open.repeat(levels), close.repeat(levels));
            check(&text);
        }
    }
    let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(is_json(&nested(127)));
    assert!(!is_json(&nested(128)));
    assert!(!is_json(&"[".repeat(100_000)));
    check(&format!("[{},{}]", nested(126), nested(126)));
    check(&format!("[{},{}]", nested(126), nested(127)));
}

#[test]
fn the_end_of_a_text_is_found_wherever_it_stands() {
    for length in 0..40 {
        for (special, is_text) in [
            ("\\n", true),
            ("\\u0041", true),
            ("\u{1f}", false),
            ("\"", false),
            ("é", true),
        ] {
            let text = format!("\"{}{special}{}\"", "x".repeat(length), "y".repeat(40 - length));
            check(&text);
            assert_eq!(is_json(&text), is_text);
        }
    }
}

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/agent-streams/claude/",
            $name,
            ".jsonl"
        ))
    };
}

const RECORDED: &[&str] = &[
    recorded!("answer"),
    recorded!("background-command"),
    recorded!("context-exceeded"),
    recorded!("error-401"),
    recorded!("error-500-then-ok"),
    recorded!("json-format"),
    recorded!("kill-int-in-stream"),
    recorded!("kill-kill-in-tool"),
    recorded!("kill-term-in-tool"),
    recorded!("max-turns"),
    recorded!("parallel-tools"),
    recorded!("partial-messages"),
    recorded!("permission"),
    recorded!("resume-1-first"),
    recorded!("resume-2-same"),
    recorded!("resume-4-unknown"),
    recorded!("session-id-reused"),
    recorded!("slow"),
    recorded!("subagent"),
    recorded!("two-tools"),
    recorded!("unicode-big"),
];

#[test]
fn every_recorded_line_is_what_serde_json_reads() {
    for stream in RECORDED {
        stream.lines().for_each(check);
        check(stream);
    }
}

#[test]
fn members_are_found_by_name_and_the_last_one_counts() {
    let mut tape = Tape::default();
    let text = r#"{"a":[1,{"b":2}],"\u0062":{"a":3},"c":-1.5,"a":"x\ny"}"#;
    let root = read(&mut tape, text).unwrap();
    assert_eq!(root.field("a").unwrap().as_str().as_deref(), Some("x\ny"));
    assert_eq!(root.field("b").unwrap().field("a").unwrap().as_u64(), Some(3));
    assert_eq!(root.field("c").unwrap().as_f64(), Some(-1.5));
    let [a, nothing, b] = root.fields(["a", "d", "b"]);
    assert_eq!(a.unwrap().as_str().as_deref(), Some("x\ny"));
    assert!(nothing.is_none() && b.unwrap().is_object());
    assert!(root.field("c").unwrap().fields(["a"])[0].is_none());
    assert!(root.field("d").is_none() && root.field("c").unwrap().field("a").is_none());
    let (_, list) = root.members().next().unwrap();
    assert_eq!((list.entries().count(), list.members().count()), (2, 0));
    assert!(list.is_list() && !list.is_object());
}

#[test]
fn a_text_without_escapes_is_not_copied() {
    let mut tape = Tape::default();
    let root = read(&mut tape, r#"["plain","esc\u0061ped"]"#).unwrap();
    let borrowed: Vec<_> = root
        .entries()
        .map(|entry| matches!(entry.as_str(), Some(std::borrow::Cow::Borrowed(_))))
        .collect();
    assert_eq!(borrowed, [true, false]);
}

#[test]
fn a_text_that_is_refused_leaves_nothing_on_the_tape() {
    let mut tape = Tape::default();
    assert_eq!(tape.read("[7]", 0), Some(0..2));
    assert!(tape.read(r#"{"a":[1,2,{"b":3"#, 0).is_none());
    assert_eq!(tape.read("[7][8]", 3), Some(2..4));
    assert!(tape.read("[7]", 3).is_none());
    assert_eq!(tape.value("[7]", 0..2).to_value(), serde_json::json!([7]));
}
