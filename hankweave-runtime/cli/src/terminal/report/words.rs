//! Words that several screens and reports share: figures, times, money, and the state of runs and codons.

use std::fmt;
use std::time::Duration;

use hankweave_core::agent::InterruptedBy;
use hankweave_core::codon::{BudgetExceeded, CodonExecution, CodonStatus, LoopCheck};
use hankweave_core::cost::Usd;
use hankweave_core::discovery::ServerLockRecord;
use hankweave_core::document::RunRecord;
use hankweave_core::id::CodonId;
use hankweave_core::time::Timestamp;
pub(crate) use hankweave_core::time::short_duration as duration;
use hankweave_core::view::{AttemptKey, AttemptState, AttemptView, RunState, RunView, changed};
use hankweave_core::wire::{BudgetCeiling, BudgetTotals};
use hankweave_runtime::CodonSummary;
use hankweave_runtime::world::clock::{Clock as _, SystemClock};
use serde_json::Value;

use super::live::columns::files;

/// Longest text of an agent that a line shows, in characters.
const EXCERPT: usize = 100;

/// Returns the attempts that count and have ended, oldest first, each with its entry of the plan.
pub(super) fn ended(view: &RunView) -> Vec<(&str, AttemptKey, &AttemptView)> {
    let items = view.items.iter();
    let all = items.flat_map(|(id, item)| {
        let attempts = item.attempts.iter();
        attempts.map(move |(key, attempt)| (id.as_str(), *key, attempt))
    });
    let mut ended: Vec<_> = all
        .filter(|(.., attempt)| attempt.state != AttemptState::Running)
        .collect();
    ended.sort_by_key(|(_, key, attempt)| (attempt.began, *key));
    ended
}

/// Returns the line of an attempt that has ended, in the words of its end event; `None` for one without an id.
pub(super) fn ended_line(attempt: &AttemptView, now: Timestamp) -> Option<String> {
    let id = attempt.id.as_ref()?;
    let cost = attempt.spent().display(attempt.at_least);
    let state = attempt.state.as_str();
    let files = match in_all(changed(attempt.files_changed), attempt.files_changed) {
        files if files.is_empty() => files,
        files => format!(", {files}"),
    };
    let message = attempt.why.as_ref().and_then(|why| why.message.as_deref());
    let why = message.map_or(String::new(), |why| format!(": {}", excerpt(why)));
    let time = attempt_time(attempt, now);
    Some(format!("{id}: {state} after {time}, {cost}{files}{why}"))
}

/// Adds `in all` to the changed files of a later attempt, because they are counted from the start of the codon's first attempt (HANK-66).
pub(super) fn in_all(words: String, count: Option<u64>) -> String {
    match count {
        None | Some(0) => words,
        Some(_) => format!("{words} in all"),
    }
}

/// Time of an attempt that a crash interrupted.
const UNKNOWN: &str = "unknown";

/// Returns the time at work of an attempt until `now`, where known.
pub(crate) fn attempt_time(attempt: &AttemptView, now: Timestamp) -> String {
    let is_lower_bound = attempt.state == AttemptState::Crashed;
    ColumnTime::of(attempt.worked(now), is_lower_bound).to_string()
}

/// Returns the progress of a run, as every screen shows it: `4 of 9`, `12m31s of 4h0m`, `$1.24 of $5.00`, `ctx 61 %`.
pub(crate) fn progress(view: &RunView, now: Timestamp) -> Vec<String> {
    let (done, all) = view.completed();
    let [time, spent] = used(view, view.is_working(), now);
    let mut parts = vec![format!("{done} of {all}")];
    if view.run.is_some() {
        parts.push(time);
    }
    parts.push(spent);
    if let Some(context) = view.now.as_ref().and_then(|current| current.context) {
        let percent = context.tokens.saturating_mul(100) / context.window.max(1);
        parts.push(format!("ctx {percent} %"));
    }
    parts
}

/// Returns time and money that count against the budget, each with its limit: `12m31s of 4h0m`, `$1.24 of $5.00`. With `is_open` an answer is under
/// way, so that its cost is not known yet.
pub(crate) fn used(view: &RunView, is_open: bool, now: Timestamp) -> [String; 2] {
    let of = |used: String, limit: Option<String>| match limit {
        Some(limit) => format!("{used} of {limit}"),
        None => used,
    };
    let time = worked(view.worked(now), view.has_lost_time());
    let time_limit = view.time_limit_ms.map(Duration::from_millis);
    let money = &view.money;
    let spent = money.counted().display(money.at_least || is_open);
    [
        of(time, time_limit.map(duration)),
        of(spent, money.limit.map(|limit| limit.to_string())),
    ]
}

/// Returns the result of the check after an iteration of a loop, where one ran.
pub(crate) fn loop_check(codon: &CodonExecution) -> Option<String> {
    codon.loop_check().map(|check| check_words(&check))
}

/// Returns `check failed: 1 of 3 fixed; the loop continues`.
pub(super) fn check_words(check: &LoopCheck) -> String {
    let words = check.words().map(|words| format!(": {}", excerpt(words)));
    match check.passed {
        true => "check passed; the loop ends".to_owned(),
        false => format!("check failed{}; the loop continues", words.unwrap_or_default()),
    }
}

/// Returns a number of tokens: `950`, `12.3k`, `4.5M`.
pub(crate) fn tokens(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
    let value = count as f64;
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{:.1}k", value / 1e3),
        _ => format!("{:.1}M", value / 1e6),
    }
}

/// Returns a number of tokens: `12.3k`, or `≥ 12.3k` if more were used than are known.
pub(crate) fn tokens_at_least(count: u64, is_lower_bound: bool) -> String {
    match is_lower_bound && count > 0 {
        true => format!("≥ {}", tokens(count)),
        false => tokens(count),
    }
}

/// Returns an amount for a column: `$0.0231`, `≥ $0.0231` if more was spent than is known, or `unknown`.
pub(crate) fn money(amount: Usd, is_lower_bound: bool) -> String {
    amount.display(is_lower_bound).replace("at least", "≥")
}

/// Returns `1 warning`, `2 warnings`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

/// Process of the newest run of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunProcess {
    /// No process works in the directory, so an open run or codon has crashed.
    None,
    /// At work, or unknown: a state file alone says nothing about processes.
    Working,
    /// Waits for the answer to an approval.
    Asking,
    /// Suspended, as by Ctrl+Z; with the id of the process.
    Suspended(u32),
}

/// State of a run or codon whose process is suspended.
const SUSPENDED: &str = "suspended";

/// State of a run that waits for an approval, as the view has it in words.
const ASKING: &str = "waiting for an approval";

/// State of a run whose process continued with another run before every codon was done.
const LEFT: &str = "left by a rollback";

impl RunProcess {
    pub(crate) fn is_live(self) -> bool {
        self != Self::None
    }
}

/// Returns the state of a run in a word: a run without an end whose process no longer exists has crashed.
pub(crate) fn run_standing(run: &RunRecord, process: RunProcess) -> &'static str {
    match (RunState::of_record(run), process) {
        (RunState::Running, RunProcess::None) => RunState::Crashed.as_str(),
        (RunState::Running, RunProcess::Suspended(_)) => SUSPENDED,
        (RunState::Running, RunProcess::Asking) => ASKING,
        (RunState::Completed, _) if run.cause.is_some() => LEFT,
        (state, _) => state.as_str(),
    }
}

/// Returns the state of a recorded codon in a word; an open one has crashed if its process no longer exists.
pub(crate) fn codon_standing(codon: &CodonExecution, process: RunProcess) -> &'static str {
    match process {
        _ if codon.crashed() => AttemptState::Crashed.as_str(),
        _ if codon.is_terminal() => state_of_record(codon),
        RunProcess::None => AttemptState::Crashed.as_str(),
        RunProcess::Suspended(_) => SUSPENDED,
        RunProcess::Working | RunProcess::Asking => state_of_record(codon),
    }
}

fn state_of_record(codon: &CodonExecution) -> &'static str {
    AttemptState::of_record(codon).map_or(codon.status().as_str(), AttemptState::as_str)
}

/// State of a codon that counts as completed though a budget ended its agent's work.
pub(crate) const AT_BUDGET: &str = "completed (budget reached)";

/// Returns [`codon_standing`], or [`AT_BUDGET`] for a codon that completed at its budget.
pub(crate) fn codon_words(codon: &CodonExecution, process: RunProcess) -> &'static str {
    match codon.budget_exceeded() {
        Some(_) if codon.status() == CodonStatus::Completed => AT_BUDGET,
        _ => codon_standing(codon, process),
    }
}

/// Returns the state of the codon of a summary in a word.
pub(crate) fn summary_standing(codon: &CodonSummary) -> &'static str {
    match AttemptState::of(codon.status, codon.interrupted_by) {
        Some(AttemptState::Paused) if codon.replaced_by.is_some() => AttemptState::Replaced.as_str(),
        _ => standing(codon.status, codon.interrupted_by),
    }
}

/// Returns the time from the start of a codon to its end, or until now while a process runs it; `holder` is the lock record of that process.
pub(crate) fn codon_time(
    codon: &CodonExecution,
    process: RunProcess,
    holder: Option<&ServerLockRecord>,
) -> ColumnTime {
    let is_open = !codon.is_terminal() && process.is_live();
    let known = match is_open {
        true => Some(elapsed(codon, holder, SystemClock.now())),
        false => codon.duration(),
    };
    ColumnTime {
        known,
        is_lower_bound: codon.crashed(),
    }
}

/// Returns the note for a codon that completed at its budget, at the end of a row without a line below that says so; empty for others.
pub(crate) fn budget_note(codon: &CodonSummary) -> &'static str {
    match codon.budget_exceeded {
        Some(_) if codon.status == CodonStatus::Completed => "  budget reached",
        _ => "",
    }
}

/// Returns how long an open codon has been run: as its process measures it, or else by the times of the record (D9).
pub(crate) fn elapsed(codon: &CodonExecution, holder: Option<&ServerLockRecord>, now: Timestamp) -> Duration {
    let holder = holder.zip(SystemClock.uptime());
    let measured = holder.and_then(|(holder, up)| holder.elapsed(codon.codon_id(), up));
    measured.unwrap_or_else(|| now.since(*codon.start_time()))
}

/// Returns the state of a codon in a word: the phase while it is open, else the outcome (WIRE-39).
pub(crate) fn standing(status: CodonStatus, interrupted_by: Option<InterruptedBy>) -> &'static str {
    AttemptState::of(status, interrupted_by).map_or(status.as_str(), AttemptState::as_str)
}

/// Describes the end of a codon at a limit of its own, which is no failure.
pub(crate) fn at_its_budget(status: CodonStatus, exceeded: BudgetExceeded, is_lower_bound: bool) -> String {
    let used = exceeded.words_with_overrun(is_lower_bound);
    match status {
        CodonStatus::Skipped => format!("skipped, no budget left: {used}"),
        _ => format!("budget reached: {used}"),
    }
}

/// Time at work in a column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnTime {
    /// Time that is known; `None` if none is.
    pub(crate) known: Option<Duration>,
    /// A part is unknown because of a crash.
    pub(crate) is_lower_bound: bool,
}

/// Shortest lower bound that is shown; one of almost nothing says nothing.
const SHORTEST_KNOWN: Duration = Duration::from_millis(50);

impl ColumnTime {
    /// Returns a time at work; with `is_lower_bound` a part is unknown because of a crash.
    pub(crate) fn of(worked: Duration, is_lower_bound: bool) -> Self {
        Self {
            known: (!is_lower_bound || worked >= SHORTEST_KNOWN).then_some(worked),
            is_lower_bound,
        }
    }
}

impl From<Option<Duration>> for ColumnTime {
    fn from(known: Option<Duration>) -> Self {
        let is_lower_bound = false;
        Self {
            known,
            is_lower_bound,
        }
    }
}

/// Writes `12s`, `≥ 12s` for a lower bound, or `unknown`.
impl fmt::Display for ColumnTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.known, self.is_lower_bound) {
            (None, _) => f.pad(UNKNOWN),
            (Some(known), false) => f.pad(&duration(known)),
            (Some(known), true) => f.pad(&format!("≥ {}", duration(known))),
        }
    }
}

/// Returns a codon in one line, in the order of the run screen: state, time, money, tokens, changed files.
pub(crate) fn codon_line(standing: &str, elapsed: ColumnTime, codon: &CodonSummary) -> String {
    line_with(standing, elapsed, codon, &files(codon.files_changed))
}

/// Returns a later attempt of a codon in one line like [`codon_line`], with the files that all attempts together have changed.
pub(crate) fn later_attempt_line(standing: &str, elapsed: ColumnTime, codon: &CodonSummary) -> String {
    let files = in_all(files(codon.files_changed), codon.files_changed);
    line_with(standing, elapsed, codon, &files)
}

fn line_with(standing: &str, elapsed: ColumnTime, codon: &CodonSummary, files: &str) -> String {
    let cost = money(codon.cost, codon.cost_is_lower_bound);
    let tokens = tokens_at_least(codon.tokens.total(), codon.tokens_are_lower_bound);
    format!("{standing:<10} {elapsed:>7} {cost:>11} {tokens:>8} tokens  {files:<15}")
}

/// Returns `budget: $0.0210 of $1.0000, 12s of 1m0s`.
pub(crate) fn budget(ceiling: &BudgetCeiling, totals: &BudgetTotals) -> String {
    let seconds = |seconds: f64| duration(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    let dollars = ceiling
        .max_dollars
        .map(|most| format!(" of {most}"))
        .unwrap_or_default();
    let time = ceiling
        .max_time_seconds
        .map(|most| format!(" of {}", seconds(most)));
    let spent = totals
        .actual_dollars
        .display(totals.actual_is_lower_bound == Some(true));
    let lived = Duration::try_from_secs_f64(totals.actual_time_seconds).unwrap_or(Duration::MAX);
    let lived = worked(lived, totals.actual_time_is_lower_bound == Some(true));
    format!("budget: {spent}{dollars}, {lived}{}", time.unwrap_or_default())
}

/// Returns a time at work in words: `12s`, or for a lower bound `at least 12s` or `an unknown time`.
pub(crate) fn worked(time: Duration, is_lower_bound: bool) -> String {
    match ColumnTime::of(time, is_lower_bound).known {
        None => "an unknown time".to_owned(),
        Some(known) if is_lower_bound => format!("at least {}", duration(known)),
        Some(known) => duration(known),
    }
}

/// Returns the width of a column for ids of codons: that of the longest one.
pub(crate) fn id_width<'c>(ids: impl Iterator<Item = &'c CodonId>) -> usize {
    ids.map(|id| id.as_str().len()).max().unwrap_or_default()
}

/// Returns the beginning of a text in one line.
pub(super) fn excerpt(text: &str) -> String {
    let line = text.trim().replace(['\n', '\r', '\t'], " ");
    let mut cut: String = line.chars().take(EXCERPT).collect();
    if cut.len() < line.len() {
        cut.push('…');
    }
    cut
}

/// Returns a sentinel's answer: a text, or a value as JSON.
pub(super) fn answer(content: &Value) -> String {
    content
        .as_str()
        .map_or_else(|| content.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use hankweave_core::cost::TokenUsage;
    use hankweave_core::view::{CurrentAttempt, ItemView, ViewedRun};

    use super::*;

    #[test]
    fn an_excerpt_is_one_line() {
        assert_eq!(excerpt("two\nlines"), "two lines");
    }

    // covers: CLI-43
    #[test]
    fn a_cost_that_is_a_lower_bound_moves_no_column() {
        let line = |is_lower_bound| {
            let codon = CodonSummary {
                codon_id: "one".parse().unwrap(),
                status: CodonStatus::Failed,
                duration: Duration::ZERO,
                cost: Usd::from_nanos(36_000_000),
                cost_is_lower_bound: is_lower_bound,
                tokens: TokenUsage {
                    input_tokens: 5_000,
                    ..TokenUsage::default()
                },
                tokens_are_lower_bound: is_lower_bound,
                checkpoint: None,
                files_changed: None,
                failure: None,
                budget_exceeded: None,
                interrupted_by: None,
                replaced_by: None,
                loop_check: None,
                result: None,
                earlier_attempts: 0,
                failed_sentinels: 0,
                remarks: Vec::new(),
            };
            codon_line("stopped", None.into(), &codon)
        };
        let place = |line: &str| line.find(" tokens").map(|place| line[..place].chars().count());
        assert_eq!(place(&line(true)), place(&line(false)));
        assert!(line(true).contains("≥ $0.0360   ≥ 5.0k tokens"), "{}", line(true));
    }

    // covers: CLI-24
    #[test]
    fn what_an_agent_costs_that_works_is_not_known_yet() {
        let spent = |phase: &str| {
            let now = Some(CurrentAttempt {
                phase: phase.to_owned(),
                ..CurrentAttempt::default()
            });
            let view = RunView {
                now,
                ..RunView::default()
            };
            progress(&view, Timestamp::from_millis(0)).pop()
        };
        assert_eq!(
            ["rig", "working"].map(spent),
            ["$0.0000", "unknown"].map(|word| Some(word.to_owned()))
        );
    }

    // covers: CLI-24
    #[test]
    fn time_that_a_crash_has_lost_is_marked() {
        let mut attempt = AttemptView {
            duration_ms: Some(4_000),
            ..AttemptView::default()
        };
        let now = Timestamp::from_millis(0);
        assert_eq!(attempt_time(&attempt, now), "4s");
        attempt.state = AttemptState::Crashed;
        assert_eq!(attempt_time(&attempt, now), "≥ 4s");
        attempt.duration_ms = None;
        assert_eq!(attempt_time(&attempt, now), "unknown");
        let mut view = RunView {
            run: Some(ViewedRun {
                id: "run".parse().unwrap(),
                number: 2,
                began: now,
            }),
            ..RunView::default()
        };
        let nothing = duration(Duration::ZERO);
        assert_eq!(progress(&view, now)[..2], ["0 of 0", nothing.as_str()]);
        let mut item = ItemView::default();
        item.attempts.insert("1.1".parse().unwrap(), attempt);
        view.items.insert("one".to_owned(), item);
        assert_eq!(progress(&view, now)[1], "an unknown time");
    }
}
