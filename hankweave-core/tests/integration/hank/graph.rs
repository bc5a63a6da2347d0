//! Rules between codons.

use super::{TWICE, UNTIL_FULL, continuing, fresh, hank, loop_of, problems};

const ONCE: &str = r#"{"type": "iterationLimit", "limit": 1}"#;
const FILES: &str = r#""checkpointedFiles": ["**/*"]"#;

/// Checks that a hank has one problem, which holds `expected`; none for an empty text.
#[track_caller]
fn check(items: &[String], expected: &str) {
    let found: Vec<_> = problems(&hank(items))
        .into_iter()
        .filter(|line| !line.contains("stops the whole run"))
        .collect();
    match (found.as_slice(), expected) {
        ([], "") => {}
        ([one], expected) if !expected.is_empty() && one.contains(expected) => {}
        _ => panic!("expected {expected:?}, found {found:#?}"),
    }
}

fn with(more: &str) -> String {
    format!("{FILES}, {more}")
}

// covers: HANK-3
#[test]
fn ids_are_unique_in_the_whole_hank_whatever_their_case() {
    check(
        &[
            fresh("a", ""),
            fresh("A", "").replace("\"name\": \"A\"", "\"name\": \"B\""),
        ],
        "error: hank[1].id (codon \"A\", \"B\"): id `a` is already used by hank[0].id",
    );
    check(
        &[fresh("l", ""), loop_of(TWICE, &[fresh("b", "")])],
        "error: hank[1].id (loop \"l\")",
    );
    check(
        &[
            fresh("b", ""),
            loop_of(
                TWICE,
                &[fresh("b", "").replace("\"name\": \"b\"", "\"name\": \"C\"")],
            ),
        ],
        "error: hank[1].codons[0].id (codon \"b\", \"C\")",
    );
}

// covers: HANK-3
#[test]
fn a_repeated_name_is_a_warning() {
    check(
        &[
            fresh("a", ""),
            fresh("b", "").replace("\"name\": \"b\"", "\"name\": \"a\""),
        ],
        "warning: hank[1].name (codon \"b\", \"a\"): name `a`",
    );
}

// covers: HANK-10
#[test]
fn a_conversation_stays_with_its_model_and_agent() {
    let other = |item: String| item.replace("sonnet", "haiku");
    check(&[fresh("a", FILES), continuing("b", FILES)], "");
    check(
        &[fresh("a", FILES), other(continuing("b", FILES))],
        "error: hank[1].continuationMode (codon \"b\"): cannot continue `a`: its model is `sonnet`, this codon's is `haiku`",
    );
    check(
        &[fresh("a", FILES), continuing("b", &with(r#""agent": "pi""#))],
        "its agent is `claude`, this codon's is `pi`",
    );
    check(
        &[
            loop_of(TWICE, &[fresh("a", FILES)]),
            other(continuing("b", FILES)),
        ],
        "cannot continue `a`: its model",
    );
    check(
        &[
            fresh("a", FILES),
            loop_of(ONCE, &[continuing("b", FILES), other(continuing("c", FILES))]),
        ],
        "error: hank[1].codons[1].continuationMode",
    );
}

// covers: HANK-10
#[test]
fn a_model_or_an_agent_for_all_codons_makes_their_own_irrelevant() {
    let found = |overrides: &str, second: String| {
        let text = hank(&[fresh("a", FILES), second]);
        problems(&text.replacen('{', &format!(r#"{{"overrides": {overrides}, "#), 1))
    };
    let none = Vec::<String>::new();
    let of_model = |model: &str| continuing("b", FILES).replace("sonnet", model);
    for model in ["opus", "gpt-5-codex"] {
        assert_eq!(found(r#"{"model": "haiku"}"#, of_model(model)), none, "{model}");
    }
    let of_pi = || continuing("b", &with(r#""agent": "pi""#));
    assert_eq!(found(r#"{"agent": "pi"}"#, of_pi()), none);
    for (overrides, second, reason) in [
        (
            r#"{"model": "haiku"}"#,
            of_pi(),
            "its agent is `claude`, this codon's is `pi`",
        ),
        (
            r#"{"agent": "pi"}"#,
            of_model("gpt-5-codex"),
            "its model is `sonnet`",
        ),
    ] {
        let found = found(overrides, second);
        assert!(found.len() == 1 && found[0].contains(reason), "{found:#?}");
    }
}

// covers: HANK-10
#[test]
fn the_next_iteration_continues_the_last_codon_of_the_one_before() {
    let items = [
        fresh("a", FILES).replace("sonnet", "haiku"),
        loop_of(
            TWICE,
            &[
                continuing("b", FILES).replace("sonnet", "haiku"),
                fresh("c", FILES),
            ],
        ),
    ];
    check(
        &items,
        "error: hank[1].codons[0].continuationMode (codon \"b\"): cannot continue `c`: its model is `sonnet`",
    );
    check(&[items[0].clone(), items[1].replace(TWICE, ONCE)], "");
}

// covers: HANK-11
#[test]
fn a_full_context_cannot_be_continued() {
    check(
        &[
            fresh("a", FILES),
            loop_of(UNTIL_FULL, &[continuing("b", FILES)]),
            continuing("c", FILES),
        ],
        "its loop ends with a full context",
    );
    check(
        &[
            fresh("a", &with(r#""exhaustWithPrompt": "more""#)),
            continuing("b", FILES),
        ],
        "its exhaustWithPrompt fills the context",
    );
    check(
        &[
            loop_of(TWICE, &[fresh("a", &with(r#""exhaustWithPrompt": "more""#))]),
            continuing("b", FILES),
        ],
        "its exhaustWithPrompt fills the context",
    );
}

// covers: HANK-12
#[test]
fn a_loop_that_waits_for_a_full_context_has_no_fresh_codon() {
    check(
        &[
            fresh("a", FILES),
            loop_of(UNTIL_FULL, &[continuing("b", FILES), fresh("c", FILES)]),
        ],
        "error: hank[1].codons[1].continuationMode (codon \"c\"): a fresh codon empties the context",
    );
}

// covers: HANK-13
#[test]
fn doubtful_continuations_are_warnings() {
    check(
        &[continuing("a", FILES)],
        "warning: hank[0].continuationMode (codon \"a\"): there is no codon before",
    );
    check(
        &[fresh("a", ""), continuing("b", FILES)],
        "warning: hank[1].continuationMode (codon \"b\"): `a` before it has no checkpointedFiles",
    );
    check(
        &[
            fresh("a", &with(r#""onFailure": "ignore""#)),
            continuing("b", FILES),
        ],
        "may fail and be ignored",
    );
}

// covers: HANK-13
#[test]
fn failures_inside_loops_are_warned_of() {
    let rig = r#""rigSetup": [{"type": "command", "command": {"run": "x"}}, {"type": "command", "command": {"run": "x"}, "allowFailure": true}]"#;
    check(
        &[loop_of(TWICE, &[fresh("a", rig)])],
        "warning: hank[0].codons[0].rigSetup[0] (codon \"a\"): runs in every iteration",
    );
    let found = problems(&hank(&[loop_of(
        TWICE,
        &[fresh("a", ""), fresh("b", r#""onFailure": "ignore""#)],
    )]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("hank[0].codons[0].onFailure (codon \"a\"): a failure in any iteration stops"),
        "{found:?}"
    );
}

// covers: HANK-12
#[test]
fn loops_have_codons_end_somehow_and_do_not_nest() {
    check(
        &[loop_of(TWICE, &[])],
        "error: hank[0].codons (loop \"l\"): must not be empty",
    );
    check(
        &[loop_of(r#"{"type": "forever"}"#, &[fresh("a", "")])],
        "hank[0].terminateOn (loop \"l\"): must be an iterationLimit, contextExceeded or untilCheckPasses",
    );
    check(
        &[loop_of(
            r#"{"type": "iterationLimit", "limit": 0}"#,
            &[fresh("a", "")],
        )],
        "hank[0].terminateOn.limit (loop \"l\"): must be a whole number from 1",
    );
    let inner = loop_of(TWICE, &[fresh("a", "")]);
    check(&[loop_of(TWICE, &[inner])], "loops cannot stand inside loops");
}

// covers: HANK-28
#[test]
fn shares_of_a_budget_fit_together() {
    let budget = |budget: &str| {
        let items = [fresh("a", ""), fresh("b", "")];
        let text = hank(&items).replacen('{', &format!(r#"{{"overrides": {{"budget": {budget}}}, "#), 1);
        problems(&text).join("\n")
    };
    let proportional = |shares: &str| {
        budget(&format!(
            r#"{{"maxDollars": 5, "allocation": "proportional", "shares": {shares}}}"#
        ))
    };
    assert_eq!(proportional(r#"{"a": 0.7, "b": 0.3}"#), "");
    assert!(
        proportional(r#"{"a": 0.7, "b": 0.4}"#).contains("error: overrides.budget.shares: add up to 1.100")
    );
    assert!(proportional(r#"{"z": 0.7}"#).contains("`z` is no direct child; there are a, b"));
    assert!(
        proportional(r#"{"a": 0.7, "b": 0.1}"#).contains("warning: overrides.budget.shares: add up to 0.800")
    );
    assert!(proportional(r#"{"a": 1}"#).contains("so `b` starts with nothing"));
    assert!(proportional(r#"{"a": 1.5}"#).contains("overrides.budget.shares.a: must not be above 1"));
    assert!(budget(r#"{"shares": {"a": 1}}"#).contains("needs a proportional allocation"));
    assert!(budget(r#"{"allocation": "proportional-strict"}"#).contains("needs maxDollars"));
}

// covers: HANK-29
#[test]
fn doubtful_budgets_are_warnings() {
    let check = |budget: &str, items: &[String], doubt: &str| {
        let text = hank(items).replacen('{', &format!(r#"{{"overrides": {{"budget": {budget}}}, "#), 1);
        let found = problems(&text);
        assert!(
            found
                .iter()
                .any(|problem| problem.contains("warning: ") && problem.contains(doubt)),
            "{doubt}\n{found:#?}"
        );
    };
    let of = |budget: &str| format!(r#""budget": {budget}"#);
    let shares = r#"{"maxDollars": 2, "allocation": "proportional", "shares": {"a": 0.5}}"#;
    check(
        shares,
        &[fresh("a", &of(r#"{"maxDollars": 1.5}"#)), fresh("b", "")],
        "`a` may use less than its own maxDollars",
    );
    let timed = format!(
        r#"{}, "exhaustWithPrompt": "more""#,
        of(r#"{"maxTimeSeconds": 5}"#)
    );
    check("{}", &[fresh("a", &timed)], "also counts the extensions");
    let failing = of(r#"{"maxDollars": 1, "onExceeded": "fail"}"#);
    let tried_again = format!(r#"{failing}, "onFailure": "retry""#);
    check(
        "{}",
        &[fresh("a", &tried_again)],
        "fails by its budget is not tried again",
    );
    check(
        r#"{"maxDollars": 2}"#,
        &[fresh("a", ""), fresh("b", &failing)],
        "`b` may fail because codons before it used the shared money",
    );
    check(
        r#"{"maxTimeSeconds": 5}"#,
        &[fresh("a", &of(r#"{"maxTimeSeconds": 6}"#))],
        "`a` has more time than everything together",
    );
}

/// A doubt about the first iteration does not hide what a later one can never do.
// covers: HANK-10
#[test]
fn the_first_codon_of_a_hank_can_be_unable_to_continue_the_iteration_before() {
    let last = fresh("b", r#""onFailure": "ignore""#).replace("sonnet", "opus");
    let first = continuing("a", r#""onFailure": "ignore""#);
    let found = problems(&hank(&[loop_of(TWICE, &[first, last])]));
    let about: Vec<&String> = found
        .iter()
        .filter(|line| line.contains("continuationMode"))
        .collect();
    assert_eq!(about.len(), 2, "{found:?}");
    assert!(
        about
            .iter()
            .any(|line| line.contains("warning: hank[0].codons[0].continuationMode")),
        "{found:?}"
    );
    assert!(
        about
            .iter()
            .any(|line| line.contains("error: hank[0].codons[0].continuationMode")),
        "{found:?}"
    );
}

// covers: HANK-13
#[test]
fn a_limit_of_extensions_that_never_come_is_a_warning() {
    check(
        &[fresh("a", &with(r#""maxExtensions": 3"#))],
        "warning: hank[0].maxExtensions (codon \"a\"): means nothing without exhaustWithPrompt",
    );
    check(
        &[fresh(
            "a",
            &with(r#""maxExtensions": 3, "exhaustWithPrompt": "more""#),
        )],
        "",
    );
}

/// A loop whose command never passed counts as done where the failure of its last codon is ignored. A user who ends a loop by a command does not
/// mean that.
// covers: STATE-41
#[test]
fn a_loop_until_a_check_passes_is_warned_of_when_its_last_failure_is_ignored() {
    let until = r#"{"type": "untilCheckPasses", "run": "make test", "limit": 2}"#;
    let ignoring = |id: &str| fresh(id, r#""onFailure": "ignore""#);
    let warned =
        "onFailure (codon \"b\"): the loop counts as done at its limit although its command never passed";
    check(&[loop_of(until, &[fresh("a", ""), ignoring("b")])], warned);
    check(&[loop_of(until, &[ignoring("a"), fresh("b", "")])], "");
    check(&[loop_of(ONCE, &[ignoring("b")])], "");
}
