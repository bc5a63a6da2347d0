//! The text of `hankweave status`, and sentences about rollbacks and undone attempts that other commands print as well.

use std::fmt::Write;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use console::measure_text_width;
use hankweave_core::codon::{CodonExecution, CodonStatus};
use hankweave_core::cost::{Usd, over_budget};
use hankweave_core::document::{HankweaveState, Operation, PendingRollback, RunRecord, StateWarning};
use hankweave_core::id::CodonId;
use hankweave_core::view::{RunState, RunView, changed};
use hankweave_runtime::CodonSummary;
use hankweave_task_model::task::TaskStatus;
use serde_json::Value;

use super::commands::SuggestedCommand;
use super::{AttemptTotals, StatusView};
use crate::directory::answer_there;
use crate::recorded::SHORTENED;
use crate::terminal::approval_prompt::whole_answer;
use crate::terminal::report::{self, at_its_budget, codon_line, codon_standing, id_width, style_of};
use crate::terminal::screen::{SafeText, columns_of_output, local_time, one_line, with_local_times};
use crate::terminal::wrap::wrap;

/// Returns the sum of the attempts that no longer count: `undone or run again: 2 attempts, $0.1800, 12s at work`.
pub(crate) fn undone_words(view: &RunView) -> Option<String> {
    let undone = view.undone.sum()?;
    let attempts = report::counted(usize::try_from(undone.count).unwrap_or(usize::MAX), "attempt");
    let time = Duration::from_millis(undone.duration_ms);
    Some(format!(
        "undone or run again: {attempts}, {}, {} at work",
        undone.cost.display(undone.at_least),
        report::worked(time, undone.lost_time)
    ))
}

/// Columns of a command next to its purpose.
const COMMAND: usize = 48;

/// Least columns of a purpose next to its command; with less room it is printed below the command.
const PURPOSE: usize = 30;

/// Writes commands with their purposes next to them, in lines of at most `columns`.
fn write_commands(
    text: &mut SafeText,
    commands: &[SuggestedCommand],
    columns: Option<usize>,
) -> std::fmt::Result {
    let widest = commands.iter().map(|(command, _)| measure_text_width(command));
    let widest = widest.filter(|width| *width <= COMMAND).max().unwrap_or_default();
    let width = match columns {
        // Output into a file always has the purposes in one column.
        None => COMMAND,
        Some(columns) if columns < 2 + widest + 2 + PURPOSE => 0,
        Some(_) => widest + 1,
    };
    for (command, purpose) in commands {
        write!(text, "  ")?;
        text.styled(AnsiColor::Cyan.on_default(), format_args!("{command:<width$}"))?;
        // Next to a command that is wider than its column, the purpose would look like a part of the command.
        let (gap, indent) = match measure_text_width(command) > width {
            true => ("\n    ", 4),
            false => (" ", 2 + width + 1),
        };
        let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(indent));
        let lines = wrap(purpose, room).join(&format!("\n{}", " ".repeat(indent)));
        writeln!(text, "{gap}{lines}")?;
    }
    Ok(())
}

/// Describes a rollback after which nothing has run.
pub(crate) fn rolled_back(pending: &PendingRollback) -> String {
    let source = &pending.source;
    let codon = source.after_codon.as_ref();
    let codon = codon.map_or("the beginning", |id| id.as_str());
    let sha = source.checkpoint_sha.short();
    match pending.restored {
        true => format!("rolled back to checkpoint {sha} of {codon}, and nothing has run since"),
        false => {
            format!("rolling back to checkpoint {sha} of {codon} was interrupted; the next start finishes it")
        }
    }
}

/// Describes the rollback with which the newest run began, and the checkpoint of the replaced files; `None` if it began without a rollback.
pub(crate) fn rolled_back_first(state: &HankweaveState) -> Option<String> {
    let (newest, before) = (state.runs.front()?, state.runs.get(1)?);
    // A run rolls back before it is recorded, so its own rollback comes after the run before it (`behind`).
    let is_its_own = |operation: &&Operation| {
        operation.command == Operation::BY_A_RUN
            && operation.behind == before.run_id
            && operation.at <= newest.start_time
            && operation.files > 0
    };
    let own = state.operations.iter().filter(is_its_own);
    let own = own.max_by_key(|operation| operation.at)?;
    Some(format!(
        "it began by rolling back {}; checkpoint {} holds what that replaced",
        report::counted(usize::try_from(own.files).unwrap_or(usize::MAX), "file"),
        own.before.checkpoint_sha.short()
    ))
}

impl StatusView<'_> {
    pub(super) fn write(&self, text: &mut SafeText) -> std::fmt::Result {
        let Self { state, thread, .. } = self;
        if let Some(task) = &self.task {
            writeln!(text, "{}", task.line())?;
            if let Some(absent) = self.absent_worker() {
                writeln!(text, "  the task is running: {}", absent.in_short())?;
            }
            if task.is_unanswered() {
                writeln!(text, "  its registry does not answer: this is what its files say")?;
            }
            let is_explained = self.answer().is_some() || self.failure_of_task().is_some();
            let is_shown = is_explained || self.live || self.drawn.state == RunState::Failed;
            if task.status() == TaskStatus::Failed && !is_shown {
                writeln!(text, "  the task failed")?;
            }
            if let Some(at) = task.cancel_requested_at() {
                let by = task
                    .cancelled_by()
                    .map_or_else(String::new, |by| format!(" by {}", one_line(by)));
                writeln!(
                    text,
                    "  the task is to be cancelled, as asked{by} at {}",
                    local_time(at)
                )?;
            }
            if let Some(went_on) = self.went_on() {
                writeln!(text, "  the task is {went_on}; what follows ended before")?;
            } else if let Some(end) = self.end_of_task() {
                writeln!(text, "  the task was {}", end.words)?;
            }
            if let Some(error) = self.failure_of_task() {
                writeln!(text, "  the task failed: {}", with_local_times(error))?;
            }
        }
        let Some(run) = state.runs.front() else {
            return writeln!(text, "no run has been recorded yet");
        };
        self.write_rollback(text)?;
        let state_words = with_local_times(&self.state_words(run));
        let last = if state.pending_rollback.is_some() {
            "last "
        } else {
            ""
        };
        let period = self.period(run);
        writeln!(text, "{last}run {}: {state_words}, {period}", run.run_id)?;
        // Once the question is answered, the cause of the pause is printed with the answer.
        let cause = self.drawn.cause.as_ref();
        if let Some(cause) = cause.filter(|_| self.drawn.approved.is_none() || self.answer().is_some()) {
            writeln!(text, "  {}", with_local_times(cause))?;
        }
        if let Some(words) = rolled_back_first(self.state) {
            writeln!(
                text,
                "  {words}, and `{}` names all",
                self.hints.command("report")
            )?;
        }
        if let Some(crash) = &self.crash {
            writeln!(text, "  {}", with_local_times(&crash.words()))?;
            if let Some(left) = crash.left_words() {
                writeln!(text, "  {left}")?;
            }
        } else if let Some(crash) = self.recorded_crash() {
            writeln!(text, "  {}", with_local_times(&crash))?;
        }
        let (newest, attempts) = (thread.newest_records(), self.attempts());
        let width = id_width(state.execution_plan.iter().map(|entry| &entry.codon_id));
        for entry in state.execution_plan.iter() {
            let id = &entry.codon_id;
            match newest.get(id) {
                Some(known) => {
                    let all = attempts.get(id);
                    let codon = CodonSummary::of(known);
                    let line = self.line(known, all, codon.clone());
                    write!(text, "  ")?;
                    let style = style_of(codon.status, codon.interrupted_by);
                    text.styled(style, format_args!("{:<width$}", id.as_str()))?;
                    writeln!(text, "  {line}")?;
                    if let Some(message) = codon
                        .failure
                        .as_ref()
                        .and_then(|failure| failure.message.as_ref())
                    {
                        writeln!(text, "    {message}")?;
                    } else if let Some(exceeded) = codon.budget_exceeded {
                        writeln!(
                            text,
                            "    {}",
                            at_its_budget(codon.status, exceeded, codon.cost_is_lower_bound)
                        )?;
                    }
                    self.write_check(known, text)?;
                    if let Some(line) = self.last_check_line.as_ref().filter(|(of, _)| of == id) {
                        writeln!(text, "    │ {}", line.1)?;
                    }
                    report::write_remarks(&codon, text)?;
                }
                None => {
                    let standing = match self.asked() {
                        Some((asked, true)) if asked == id => "denied",
                        Some((asked, false)) if asked == id => "waits for an approval",
                        _ => "planned",
                    };
                    text.styled(
                        Style::new().dimmed(),
                        format_args!("  {:<width$}  {standing}", id.as_str()),
                    )?;
                    writeln!(text)?;
                }
            }
        }
        if state
            .execution_plan
            .iter()
            .any(|entry| entry.loop_context.is_some())
        {
            let (done, all) = self.drawn.completed();
            writeln!(text, "  {done} of {} completed", report::counted(all, "codon"))?;
        }
        self.write_money(run, text)?;
        text.styled(Style::new().bold(), self.outlook(run))?;
        writeln!(text)?;
        if let Some(pid) = self.asking_process() {
            let answer = answer_there(pid);
            writeln!(text, "a command waits here (process {pid}): {answer}")?;
        }
        self.write_approval(text)?;
        if let Some(asked) = &self.question {
            writeln!(text, "  {} (asked {})", asked.question, local_time(asked.since))?;
        }
        // A live run waits for the end of the limit by itself, or has continued after it.
        if let Some((id, ends_at)) = self.limit().filter(|_| !self.is_working(run)) {
            writeln!(
                text,
                "{id} has used up a limit of its provider, which ends at {}; `{}` waits for that",
                local_time(ends_at),
                self.next_run_command()
            )?;
        }
        if let Some(id) = &self.unfinished {
            writeln!(
                text,
                "what follows the end of {id} is not done: its results, or its archive"
            )?;
        }
        if let Some(files) = self.left_out.words() {
            writeln!(text, "not in the last checkpoint: {files}")?;
        }
        for StateWarning { kind, path, message } in &self.warnings {
            writeln!(text, "odd record: {path}: {message} ({kind})")?;
        }
        if self.is_shortened {
            writeln!(text, "{SHORTENED}")?;
        }
        if let Some(found) = self.disk.filter(|found| found.is_scarce()) {
            let cleanup = self.hints.command("cleanup");
            writeln!(text, "{}; `{cleanup}` removes what old runs left", found.words())?;
        }
        let options = self.kept_options();
        if !options.is_empty() {
            let options = options.join(" ");
            writeln!(
                text,
                "the next run has {options}, as the last one; --forget leaves that out"
            )?;
        }
        self.changes.write(text)?;
        if !self.hints.knows_the_hank() {
            writeln!(
                text,
                "its hank was not found; HANK stands for its path in the commands below"
            )?;
        }
        write_commands(text, &self.commands(), columns_of_output())
    }

    /// Writes that the files were rolled back after the newest run, so that the directory no longer holds its outcome.
    fn write_rollback(&self, text: &mut SafeText) -> std::fmt::Result {
        let Some(pending) = &self.state.pending_rollback else {
            return Ok(());
        };
        write!(text, "{}", rolled_back(pending))?;
        let goes_on = pending.restored && self.end_of_task().is_none();
        match self.next().filter(|_| goes_on) {
            Some(next) if self.runs_again(next) => {
                writeln!(text, "; the next run runs {next} again from its beginning")
            }
            Some(next) => writeln!(text, "; the next run continues with {next}"),
            None => writeln!(text),
        }
    }

    /// Returns the time of a run: since when it runs, or from its start to its end. The end of a crashed run is not known.
    fn period(&self, run: &RunRecord) -> String {
        let start = local_time(run.start_time);
        let crashed = self.drawn.state == RunState::Crashed;
        match run.end_time.map(local_time) {
            _ if crashed => format!("started {start}"),
            None if self.suspended.is_some() || self.drawn.state == RunState::Asking => {
                format!("started {start}")
            }
            None => format!("since {start}"),
            Some(end) if end == start => format!("at {end}"),
            Some(end) => format!("{start} to {end}"),
        }
    }

    /// Returns the state of the newest run in words. A suspension is part of it: a suspended process answers no client.
    pub(crate) fn state_words(&self, run: &RunRecord) -> String {
        match self.suspended {
            _ if !self.is_working(run) => self.drawn.state_words(),
            Some(suspended) => format!(
                "suspended (process {}) since {}",
                suspended.pid(),
                local_time(suspended.since())
            ),
            None if self.is_stopping() => "stopping".to_owned(),
            None => self.drawn.state_words(),
        }
    }

    /// Writes the costs that no row of a codon has, the totals, and how much of the budget is used.
    fn write_money(&self, run: &RunRecord, text: &mut SafeText) -> std::fmt::Result {
        let money = &self.drawn.money;
        if let Some(undone) = undone_words(&self.drawn) {
            writeln!(text, "  {undone}")?;
        }
        if money.before > Usd::ZERO {
            let before = money.before.display(money.before_at_least);
            writeln!(text, "  before the run that started over: {before}")?;
        }
        writeln!(
            text,
            "  this run {} in {}, all runs {}",
            run.spend().display(run.spends_at_least()),
            report::worked(self.worked(run), self.lost_time(run)),
            self.state.total_spend().display(self.costs_at_least())
        )?;
        if self.is_after_end(run) {
            writeln!(
                text,
                "  it is a user's, after the task had completed: its cost is none of the task's"
            )?;
        }
        if money.limit.is_none() && self.drawn.time_limit_ms.is_none() && !self.budget_is_of_newest {
            return Ok(());
        }
        let is_open = run.open_codon().is_some() && run.spends_at_least();
        let [time, spent] = report::used(&self.drawn, is_open, self.now);
        let over = money
            .limit
            .and_then(|limit| over_budget(money.counted(), limit, money.at_least || is_open));
        match over {
            Some(over) => writeln!(text, "  budget: cost {over}, {time} at work"),
            None => writeln!(text, "  budget: {spent}, {time} at work"),
        }
    }

    /// Writes the approval with which the next codon starts.
    fn write_approval(&self, text: &mut SafeText) -> std::fmt::Result {
        let Some(answer) = self.granted() else {
            return Ok(());
        };
        writeln!(text, "  {} is {}", answer.codon_id, whole_answer(answer))
    }

    /// Writes the result of the loop's check after an iteration.
    fn write_check(&self, codon: &CodonExecution, text: &mut SafeText) -> std::fmt::Result {
        match report::loop_check(codon) {
            Some(words) => writeln!(text, "    {words}"),
            None => Ok(()),
        }
    }

    /// Returns the codons that have started, in words, and their results.
    pub(super) fn codons(&self) -> Vec<(String, Option<Value>)> {
        let (newest, attempts) = (self.thread.newest_records(), self.attempts());
        let planned = self.state.execution_plan.iter().map(|entry| &entry.codon_id);
        let started = planned.filter_map(|id| Some((id, *newest.get(id)?)));
        let in_short = |(id, codon): (&CodonId, &CodonExecution)| {
            let summary = CodonSummary::of(codon);
            let summary = match attempts.get(id) {
                Some(all) => all.over(summary),
                None => summary,
            };
            let over = summary
                .budget_exceeded
                .filter(|_| summary.status == CodonStatus::Completed);
            let over = over.map(|over| at_its_budget(summary.status, over, summary.cost_is_lower_bound));
            let changed = changed(summary.files_changed);
            let parts = [
                Some(summary.cost.display(summary.cost_is_lower_bound)),
                over,
                Some(changed).filter(|changed| !changed.is_empty()),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            let standing = codon_standing(codon, self.process());
            (format!("{id} {standing}, {}", parts.join(", ")), summary.result)
        };
        started.map(in_short).collect()
    }

    /// Returns a codon in one line, with the figures of all its attempts.
    fn line(&self, codon: &CodonExecution, all: Option<&AttemptTotals>, newest: CodonSummary) -> String {
        let standing = codon_standing(codon, self.process());
        let Some(all) = all else {
            let time = Some(newest.duration);
            return codon_line(standing, time.into(), &newest).trim_end().to_owned();
        };
        let line = codon_line(standing, all.time(), &all.over(newest));
        match all.count {
            1 => line.trim_end().to_owned(),
            count => format!("{}  {count} attempts", line.trim_end()),
        }
    }
}
