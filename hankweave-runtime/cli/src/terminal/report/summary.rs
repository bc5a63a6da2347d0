//! The summary that `run` prints at its end: the outcome in a headline, the codons, costs, and the commands to continue with.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anstyle::Style;
use hankweave_core::agent::{ErrorClass, FailureKind, FailureReason};
use hankweave_core::codon::CodonStatus;
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::document::StateWarning;
use hankweave_core::view::excerpt;
use hankweave_runtime::{CodonSummary, RehearsedStep, RunOutcome, RunResult};

use super::colours::style_of;
use super::words::{
    at_its_budget, check_words, codon_line, counted, duration, id_width, later_attempt_line, summary_standing,
};
use crate::terminal::left_out::LeftOut;
use crate::terminal::screen::{SafeText, columns_of_errors, with_local_times};
use crate::terminal::wrap::{hanging, wrap};

/// Input of the summary besides the outcome.
#[derive(Debug)]
pub(crate) struct SummaryContext<'a> {
    /// The directory in which the agents worked.
    pub(crate) execution: &'a Path,
    /// The command that lists the checkpoints with git.
    pub(crate) checkpoints: String,
    /// The command that continues from here.
    pub(crate) resume: String,
    /// The commands that continue a codon that was stopped or failed, with their effects, in the order of `status`.
    pub(crate) ways: Vec<(String, String)>,
    /// The command that continues with the present hank.json, if it has changed.
    pub(crate) replan: Option<String>,
    /// The command that starts over.
    pub(crate) over: String,
    /// The command that lists the checkpoints to roll back to.
    pub(crate) back: String,
    /// The command that, with the id of a codon after it, prints the codon's log.
    pub(crate) logs: String,
    /// The file with all output of the agent of the failed codon.
    pub(crate) log: Option<PathBuf>,
    /// Words on the rollback with which the run started, and where the replaced files are kept.
    pub(crate) rolled_back: Option<String>,
    /// Files that belong to the last checkpoint and are not in it.
    pub(crate) left_out: LeftOut,
    /// Data of the run that changed while it worked.
    pub(crate) changed_data: Option<PathBuf>,
    /// Warnings about the record (STATE-34).
    pub(crate) warnings: Vec<StateWarning>,
    /// The command that rehearses.
    pub(crate) rehearse: String,
}

impl SummaryContext<'_> {
    /// Returns the whole summary, or the summary without the lines of the codons.
    pub(super) fn text(&self, outcome: &RunOutcome, with_codons: bool) -> SafeText {
        let mut text = SafeText::default();
        // Writing to a text cannot fail.
        let _ = self.write(outcome, with_codons, &mut text);
        text
    }

    fn write(&self, outcome: &RunOutcome, with_codons: bool, text: &mut SafeText) -> std::fmt::Result {
        writeln!(text)?;
        let headline = with_local_times(&headline(outcome));
        let lines = match columns_of_errors() {
            Some(columns) => wrap(&headline, columns),
            None => vec![headline],
        };
        for line in lines {
            text.styled(Style::new().bold(), line)?;
            writeln!(text)?;
        }
        if with_codons {
            let width = id_width(outcome.codons.iter().map(|codon| &codon.codon_id));
            write_codons(&outcome.codons, width, text)?;
        } else {
            write_all_remarks(&outcome.codons, text)?;
        }
        if let Some(steps) = &outcome.rehearsed {
            return self.write_rehearsal(outcome, steps, text);
        }
        if outcome.run_id.is_some() && !matches!(outcome.result, RunResult::NothingToDo) {
            let time: Duration = outcome.codons.iter().map(|codon| codon.duration).sum();
            let line = format!(
                "  this run {} in {}, all runs {}",
                outcome.run_cost.display(outcome.run_cost_is_lower_bound),
                duration(time),
                outcome.total_cost.display(outcome.total_cost_is_lower_bound)
            );
            write_sentence(text, &line)?;
            if let Some(over) = outcome.budget.and_then(|budget| budget.over_budget()) {
                write_sentence(text, &format!("  cost {over}"))?;
            }
        }
        write_class(outcome, text)?;
        let execution = self.execution.display();
        writeln!(text, "  files        {execution}")?;
        writeln!(text, "  checkpoints  {}", self.checkpoints)?;
        if let Some(words) = &self.rolled_back {
            write_sentence(text, &format!("  went back    {words}"))?;
        }
        if let Some(files) = self.left_out.words() {
            write_sentence(text, &format!("  not in them  {files}"))?;
        }
        if let Some(path) = &self.changed_data {
            let path = path.display();
            let refused = "a next run with --data is refused without --new";
            let line = format!("  data         {path} has changed since the run began; {refused}");
            write_sentence(text, &line)?;
        }
        for StateWarning { kind, path, message } in &self.warnings {
            write_sentence(text, &format!("  odd record   {path}: {message} ({kind})"))?;
        }
        if let RunResult::Failed(id) = &outcome.result {
            writeln!(text, "  its log      {} {id}", self.logs)?;
            if let Some(path) = &self.log {
                writeln!(text, "  all of it    {}", path.display())?;
            }
        }
        // The stop came after the last codon, so nothing is left to continue.
        let is_done = outcome.done && matches!(outcome.result, RunResult::Stopped(_));
        if is_done || matches!(outcome.result, RunResult::NothingToDo) {
            if let Some(replan) = &self.replan {
                writeln!(text, "  continue     {replan}")?;
            }
            writeln!(text, "  start over   {}", self.over)?;
            writeln!(text, "  look back    {}", self.back)?;
        }
        let is_open = matches!(
            outcome.result,
            RunResult::Failed(_)
                | RunResult::Unsaved(_)
                | RunResult::OutputFailed(..)
                | RunResult::Stopped(_)
                | RunResult::Paused(_)
        );
        if is_open && !is_done {
            if self.ways.is_empty() {
                writeln!(text, "  continue     {}", self.resume)?;
            }
            for (number, (command, effect)) in self.ways.iter().enumerate() {
                let label = if number == 0 { "continue" } else { "or" };
                writeln!(text, "  {label:<11}  {command}")?;
                write_sentence(text, &format!("{LABEL}{effect}"))?;
            }
        }
        Ok(())
    }
}

/// Blanks as wide as the label in front of a fact, for the further lines of that fact.
const LABEL: &str = "               ";

/// Writes a line that is broken between its words on a terminal. Lines with a command are left to the terminal, which copies them whole.
fn write_sentence(text: &mut SafeText, line: &str) -> std::fmt::Result {
    let lines = match columns_of_errors() {
        // On a narrow terminal the label would take too much room.
        Some(columns) if columns > 3 * LABEL.len() => hanging(line, columns, LABEL),
        Some(columns) => hanging(line, columns, "    "),
        None => vec![line.to_owned()],
    };
    lines.iter().try_for_each(|line| writeln!(text, "{line}"))
}

/// Most steps that the summary of a rehearsal names.
const MOST_STEPS: usize = 40;

/// Longest text of a step in the summary of a rehearsal, in bytes.
const MOST_OF_STEP: usize = 200;

impl SummaryContext<'_> {
    /// Writes the steps that a real run would have done and the rehearsal did not, and the command to type next.
    fn write_rehearsal(
        &self,
        outcome: &RunOutcome,
        steps: &[RehearsedStep],
        text: &mut SafeText,
    ) -> std::fmt::Result {
        if !steps.is_empty() {
            writeln!(text, "Rehearsed instead of done:")?;
        }
        let shown = &steps[..steps.len().min(MOST_STEPS)];
        let width = id_width(shown.iter().map(|step| &step.codon));
        for step in shown {
            let words = step
                .kind
                .words(&excerpt(&with_local_times(&step.text), MOST_OF_STEP));
            writeln!(text, "  {:<width$}  {words}", step.codon.as_str())?;
        }
        if steps.len() > MOST_STEPS {
            let more = steps.len() - MOST_STEPS;
            writeln!(text, "  … and {more} more; --json names all")?;
        }
        if matches!(
            outcome.result,
            RunResult::Failed(_) | RunResult::Unsaved(_) | RunResult::OutputFailed(..)
        ) {
            writeln!(
                text,
                "  its copy     {} (remove it when you have looked)",
                self.execution.display()
            )?;
            if let Some(path) = &self.log {
                writeln!(text, "  its log      {}", path.display())?;
            }
        }
        match outcome.result {
            RunResult::Completed => writeln!(text, "  run it       {}", self.resume),
            _ => writeln!(text, "  again        {}", self.rehearse),
        }
    }
}

/// Writes the class of the agent's failure that ended the run, what helps, and how long the provider asks to wait (AGENT-30).
fn write_class(outcome: &RunOutcome, text: &mut SafeText) -> std::fmt::Result {
    let (id, has_failed) = match &outcome.result {
        RunResult::Failed(id) => (id, true),
        RunResult::Paused(pause) => (&pause.codon, false),
        _ => return Ok(()),
    };
    let last = outcome.codons.iter().rfind(|codon| codon.codon_id == *id);
    let Some((last, failure)) = last.and_then(|codon| Some((codon, codon.failure.as_ref()?))) else {
        return Ok(());
    };
    let Some(class) = class(failure) else {
        return Ok(());
    };
    write_sentence(text, &format!("  what it is   {}", class.words))?;
    // The headline of a paused run says how it continues, and after a reached budget another attempt needs money first.
    if has_failed && last.budget_exceeded.is_none() {
        write_sentence(text, &format!("  what helps   {}", class.hint))?;
    }
    match failure.retry_after_ms {
        Some(millis) => writeln!(text, "  to wait      {}", duration(Duration::from_millis(millis))),
        None => Ok(()),
    }
}

/// Returns the class of an agent's failure, from the words of its message.
fn class(failure: &FailureReason) -> Option<&'static ErrorClass> {
    let is_of_the_agent = !matches!(
        failure.kind,
        FailureKind::Unknown | FailureKind::SentinelLoadFailure
    );
    ErrorClass::of(failure.message.as_deref().filter(|_| is_of_the_agent)?)
}

/// Writes one row for each codon. The row of a codon with several attempts has their sums, and the attempts follow below.
fn write_codons(codons: &[CodonSummary], width: usize, text: &mut SafeText) -> std::fmt::Result {
    for (at, codon) in codons.iter().enumerate() {
        let is_same = |other: &&CodonSummary| other.codon_id == codon.codon_id;
        if codons[..at].iter().any(|other| is_same(&other)) {
            continue;
        }
        let attempts: Vec<&CodonSummary> = codons[at..].iter().filter(is_same).collect();
        let [.., newest] = attempts[..] else { continue };
        let earlier = newest.earlier_attempts;
        if attempts.len() == 1 {
            write_codon(newest, width, text)?;
            write_earlier(earlier, text)?;
            continue;
        }
        let sum = sum_of(&attempts, newest);
        let row = codon_row(&sum, &counted(attempts.len(), "attempt"));
        write_row(&sum, width, &row, text)?;
        for attempt in attempts {
            // Changed files are counted from the start of the first attempt, so their number belongs to the sum.
            let attempt = CodonSummary {
                files_changed: None,
                ..attempt.clone()
            };
            write!(text, "  ")?;
            write_codon(&attempt, width, text)?;
        }
        write_earlier(earlier, text)?;
    }
    Ok(())
}

/// Writes the number of attempts in earlier runs, which are not in the row above.
fn write_earlier(count: usize, text: &mut SafeText) -> std::fmt::Result {
    match count {
        0 => Ok(()),
        _ => writeln!(
            text,
            "    {} of it before this run, as `hankweave history` shows",
            counted(count, "attempt")
        ),
    }
}

/// Returns the newest attempt with the figures of all of them.
fn sum_of(attempts: &[&CodonSummary], newest: &CodonSummary) -> CodonSummary {
    let mut sum = CodonSummary {
        duration: Duration::ZERO,
        cost: Usd::ZERO,
        tokens: TokenUsage::default(),
        ..newest.clone()
    };
    for attempt in attempts {
        sum.duration += attempt.duration;
        sum.cost += attempt.cost;
        sum.cost_is_lower_bound |= attempt.cost_is_lower_bound;
        sum.tokens += attempt.tokens;
        sum.tokens_are_lower_bound |= attempt.tokens_are_lower_bound;
    }
    sum
}

/// Writes the id of a codon in its colour, and the rest of its row.
fn write_row(codon: &CodonSummary, width: usize, row: &str, text: &mut SafeText) -> std::fmt::Result {
    let style = style_of(codon.status, codon.interrupted_by);
    write!(text, "  ")?;
    text.styled(style, format_args!("{:<width$}", codon.codon_id.as_str()))?;
    writeln!(text, "  {row}")
}

/// Returns the row of a codon after its id, with `last` at its end.
fn codon_row(codon: &CodonSummary, last: &str) -> String {
    let format_line = match codon.earlier_attempts {
        0 => codon_line,
        _ => later_attempt_line,
    };
    let line = format_line(summary_standing(codon), Some(codon.duration).into(), codon);
    format!("{line}  {last}").trim_end().to_owned()
}

/// Writes the outcome of a codon, and why.
fn write_codon(codon: &CodonSummary, width: usize, text: &mut SafeText) -> std::fmt::Result {
    let checkpoint = codon.checkpoint.as_ref().map_or("", |sha| sha.short());
    write_row(codon, width, &codon_row(codon, checkpoint), text)?;
    if let Some(words) = &codon.loop_check {
        writeln!(text, "    {}", check_words(words))?;
    }
    if let Some(message) = codon
        .failure
        .as_ref()
        .and_then(|failure| failure.message.as_deref())
    {
        writeln!(text, "    {}", message)?;
    } else if let Some(exceeded) = codon.budget_exceeded {
        writeln!(
            text,
            "    {}",
            at_its_budget(codon.status, exceeded, codon.cost_is_lower_bound)
        )?;
    }
    write_remarks(codon, text)
}

/// Writes the result of a codon and its remarks, each on a line, without a remark that its failure message repeats.
pub(crate) fn write_remarks(codon: &CodonSummary, text: &mut SafeText) -> std::fmt::Result {
    if let Some(result) = &codon.result {
        writeln!(text, "    result: {}", excerpt(&result.to_string(), MOST_OF_STEP))?;
    }
    new_remarks(codon).try_for_each(|remark| writeln!(text, "    {}", with_local_times(remark)))
}

/// Returns the remarks that are not the failure message.
fn new_remarks(codon: &CodonSummary) -> impl Iterator<Item = &String> {
    let message = codon
        .failure
        .as_ref()
        .and_then(|failure| failure.message.as_ref());
    codon
        .remarks
        .iter()
        .filter(move |remark| Some(*remark) != message)
}

/// Most remarks in a summary that does not list the codons.
const MOST_REMARKS: usize = 12;

/// Writes the newest remarks of the codons, such as the last words of sentinels (SENT-25), each with its codon. The lines that a live view has printed
/// do not have them.
fn write_all_remarks(codons: &[CodonSummary], text: &mut SafeText) -> std::fmt::Result {
    let all: Vec<(&CodonSummary, &String)> = codons
        .iter()
        .flat_map(|codon| new_remarks(codon).map(move |remark| (codon, remark)))
        .collect();
    let first = all.len().saturating_sub(MOST_REMARKS);
    for (codon, remark) in &all[first..] {
        let remark = with_local_times(remark);
        write_sentence(text, &format!("  remark       {}: {remark}", codon.codon_id))?;
    }
    match first {
        0 => Ok(()),
        more => writeln!(
            text,
            "  remark       and {} before these",
            counted(more, "remark")
        ),
    }
}

/// Returns the number of completed codons out of those of the plan: `2 of 3 codons completed`.
fn progress(outcome: &RunOutcome) -> String {
    let (done, all) = (outcome.completed, counted(outcome.planned, "codon"));
    let is_at_budget =
        |codon: &&CodonSummary| codon.status == CodonStatus::Completed && codon.budget_exceeded.is_some();
    let at_budget = match outcome.codons.iter().filter(is_at_budget).count() {
        0 => String::new(),
        count => format!(", {count} with its budget reached"),
    };
    let with_failed_sentinel = |codon: &&CodonSummary| codon.failed_sentinels > 0;
    let unwatched = match outcome.codons.iter().filter(with_failed_sentinel).count() {
        0 => String::new(),
        count => format!(", {count} with a sentinel that failed"),
    };
    format!("{done} of {all} completed{at_budget}{unwatched}")
}

/// Returns the outcome of a rehearsal in one sentence.
fn rehearsed(outcome: &RunOutcome) -> String {
    let progress = progress(outcome);
    match &outcome.result {
        RunResult::Completed | RunResult::NothingToDo => {
            format!("Rehearsed: {progress}; nothing was asked, checked or spent.")
        }
        RunResult::Failed(id) | RunResult::Unsaved(id) | RunResult::OutputFailed(id, _) => {
            format!("Rehearsal failed at {id}; {progress}.")
        }
        RunResult::Paused(pause) => format!("Rehearsal paused at {}: {}.", pause.codon, pause.why),
        RunResult::Stopped(cause) => format!("Rehearsal stopped ({}).", cause.as_str()),
    }
}

/// Returns the outcome of a run in one sentence.
pub(crate) fn headline(outcome: &RunOutcome) -> String {
    if outcome.rehearsed.is_some() {
        return rehearsed(outcome);
    }
    let progress = progress(outcome);
    match &outcome.result {
        RunResult::Completed => format!("Finished: {progress}."),
        RunResult::NothingToDo => "Nothing left to do: every codon of the plan has ended.".to_owned(),
        RunResult::Failed(id) => format!("Failed at {id}; {progress}."),
        RunResult::Unsaved(id) => {
            format!("Failed at {id}, because the disk did not take what it needs; {progress}.")
        }
        RunResult::OutputFailed(id, why) => {
            format!("Failed: {id} completed, but its results were not handed out: {why}")
        }
        RunResult::Paused(pause) => {
            let codon = &pause.codon;
            let began = outcome.codons.iter().any(|known| known.codon_id == *codon);
            let place = if began { "in" } else { "before" };
            format!("Paused {place} {codon}: {}; {progress}.", pause.why)
        }
        RunResult::Stopped(cause) => {
            let reason = outcome.stop_reason.as_ref();
            let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            if outcome.done {
                return format!("Finished: {progress}; at its end: {}{reason}.", cause.as_str());
            }
            match cause.as_str().strip_prefix("stopped ") {
                Some(how) => format!("Stopped {how}{reason}; {progress}."),
                None => format!("Stopped ({}{reason}); {progress}.", cause.as_str()),
            }
        }
    }
}
