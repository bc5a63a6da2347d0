//! Results of checks in a report: the newest result for each codon, and how often its check had failed before.

use std::collections::BTreeMap;

use hankweave_core::id::CodonId;
use serde::Serialize;

use super::markup::{code, with_ids};

/// Result of a check.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CheckReport {
    /// Command.
    pub(super) run: String,
    pub(super) passed: bool,
    /// Why the check failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    /// Last line of the check's output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) says: Option<String>,
    /// Whether it is the check that ends a loop, not the codon's own.
    pub(super) ends_loop: bool,
    /// Number of the prompt in the attempt, from 1, after which the check ran. The check of a loop runs once in each iteration.
    #[serde(rename = "try")]
    pub(super) number: u32,
    /// Earlier failures of the codon's check.
    #[serde(flatten)]
    pub(super) before: MissedChecks,
}

/// Failed runs of a codon's own check, in all its attempts that count.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MissedChecks {
    /// Number of failures.
    #[serde(skip_serializing_if = "is_zero")]
    failed_before: u32,
    /// Last line of the last failed check's output, or why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    said_before: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[derive(Debug, Default, Clone)]
pub(super) struct Checks {
    /// Newest checks of each codon: at most one of its own, and one that ends its loop.
    newest: BTreeMap<CodonId, Vec<CheckReport>>,
    missed: BTreeMap<CodonId, MissedChecks>,
}

/// Returns `at once`, `at try 2` or `in attempt 3`; `number` is that of the prompt in the attempt.
pub(super) fn at_try(attempt: usize, number: u32) -> String {
    match (attempt, number) {
        (1, 1) => "at once".to_owned(),
        (1, number) => format!("at try {number}"),
        (attempt, 1) => format!("in attempt {attempt}"),
        (attempt, number) => format!("at try {number} of attempt {attempt}"),
    }
}

impl Checks {
    /// Adds the next check of a codon, and fills in its earlier failures.
    pub(super) fn add(&mut self, codon: &CodonId, mut check: CheckReport) {
        let newest = self.newest.entry(codon.clone()).or_default();
        newest.retain(|known| known.ends_loop != check.ends_loop);
        if !check.ends_loop {
            let missed = self.missed.entry(codon.clone()).or_default();
            check.before = missed.clone();
            if !check.passed {
                missed.failed_before = missed.failed_before.saturating_add(1);
                missed.said_before = check.says.clone().or_else(|| check.why.clone());
            }
        }
        newest.push(check);
    }

    /// Forgets the newest checks of a codon that starts again; at its first attempt that counts, also the earlier failures.
    pub(super) fn start(&mut self, codon: &CodonId, is_first: bool) {
        self.newest.remove(codon);
        if is_first {
            self.missed.remove(codon);
        }
    }

    /// Returns the newest checks of a codon.
    pub(super) fn of(&self, codon: &CodonId) -> &[CheckReport] {
        self.newest.get(codon).map_or(&[], Vec::as_slice)
    }
}

impl CheckReport {
    /// Returns Markdown such as: `cargo test` passed at try 2; it failed once before, with `1 failed`
    pub(super) fn as_markdown(&self, attempt: usize) -> String {
        let result = if self.passed { "passed" } else { "failed" };
        let at_try = match self.ends_loop || (!self.passed && (attempt, self.number) == (1, 1)) {
            true => String::new(),
            false => format!(" {}", at_try(attempt, self.number)),
        };
        let why = self.why.as_deref();
        let why = why.map_or_else(String::new, |why| format!(" ({})", with_ids(why)));
        let says = self.says.as_deref();
        let says = says.map_or_else(String::new, |says| format!(": {}", code(says)));
        format!(
            "{} {result}{at_try}{why}{says}{}",
            code(&self.run),
            self.before.words()
        )
    }
}

impl MissedChecks {
    /// Returns the earlier failures as Markdown, ``; it failed 2 times before, the last time with `no title` ``; empty if there are none.
    fn words(&self) -> String {
        let times = match self.failed_before {
            0 => return String::new(),
            1 => "once before".to_owned(),
            times => format!("{times} times before"),
        };
        let last = if self.failed_before == 1 {
            ""
        } else {
            "the last time "
        };
        let said = self.said_before.as_deref();
        let said = said.map_or_else(String::new, |said| format!(", {last}with {}", code(said)));
        format!("; it failed {times}{said}")
    }
}
