//! `hankweave status`

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use hankweave_core::agent::InterruptedBy;
use hankweave_core::budget::{Ceiling, CeilingUse};
use hankweave_core::codon::{CodonExecution, CodonStatus};
use hankweave_core::discovery::Activity;
use hankweave_core::document::{HankweaveState, RunRecord, RunStatus};
use hankweave_core::id::CodonId;
use hankweave_core::plan::{BlockedBy, Decision, Retry, decide};
use hankweave_core::thread::{self, ExecutionThread};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::Event;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::inspect;
use hankweave_runtime::world::clock::{Clock, SystemClock};
use hankweave_runtime::world::disk::RealDisk;
use hankweave_runtime::{self, CodonSummary};
use serde_json::json;

use crate::args::{Execution, Global};
use crate::directory::holder;
use crate::exit::Failure;
use crate::output;
use crate::report::{self, at_its_budget, codon_line, standing, style_of};
use crate::screen::Text;
use crate::typed::{Change, Typed};

pub(crate) fn status(global: &Global, execution: &Execution) -> Result<ExitCode, Failure> {
    let state = crate::state::read_execution(&execution.execution)?;
    let thread = thread::build(&state, None, None);
    let view = StatusView {
        budget: crate::state::budget_summary(&execution.execution)?,
        ..StatusView::of(&execution.execution, &state, &thread)
    };
    if global.json() {
        let document = json!({
            "currentRunId": state.current_run_id,
            "run": state.runs.front().map(|run| json!({
                "runId": run.run_id,
                "status": run.status,
                "interruptedBy": run.interrupted_by,
                "startTime": run.start_time,
                "endTime": run.end_time,
                "codons": run.codons.iter().map(|codon| CodonSummary::of(codon)).collect::<Vec<_>>(),
                "cost": run.spend(),
                "costIsLowerBound": view.is_lower_bound(run),
            })),
            "live": view.live,
            "outlook": state.runs.front().map(|run| view.outlook(run)),
            "retry": view.retry().map(|retry| json!({
                "codonId": retry.entry.codon_id,
                "number": retry.number,
                "most": retry.most,
                "inSeconds": view.left(retry).as_secs_f64(),
            })),
            "failed": thread.failed,
            "hasRunningCodon": thread.has_running_codon,
            "nextCodonId": thread.next_codon_id,
            "unfinishedCodonId": view.unfinished,
            "approval": view.asked().map(|(id, denied)| json!({"codonId": id, "denied": denied})),
            "limitEndsAt": view.limit().map(|(_, ends_at)| ends_at),
            "pendingRollback": state.pending_rollback,
            "commands": view.commands().into_iter().map(|(command, _)| command).collect::<Vec<_>>(),
            "budget": view.budget.as_ref().and_then(|event| serde_json::to_value(event).ok()?.get("data").cloned()),
            "plannedCodons": state.execution_plan.len(),
            "totalCost": state.total_cost(),
            "totalSpend": state.total_spend(),
            "costIsLowerBound": state.cost_is_lower_bound()
                || state.runs.front().is_some_and(|run| view.is_lower_bound(run)),
        });
        return output::print_json(&document);
    }
    let mut text = Text::default();
    // Writing to a String cannot fail.
    let _ = view.write(&mut text);
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// What is next in an execution directory, or what blocks it; `None` before its first run.
pub(crate) fn outlook(execution: &Path, state: &HankweaveState) -> Option<String> {
    let thread = thread::build(state, None, None);
    let view = StatusView::of(execution, state, &thread);
    Some(view.outlook(state.runs.front()?))
}

/// What the command shows (CLI-14).
struct StatusView<'a> {
    state: &'a HankweaveState,
    thread: &'a ExecutionThread,
    typed: Typed,
    /// A process works in the directory.
    live: bool,
    /// What it is at, as it says itself.
    activity: Option<Activity>,
    /// What the run does next, by its hank; `None` when that is not found.
    decision: Option<Decision>,
    now: Timestamp,
    /// The codon that has ended, and what follows its end has not.
    unfinished: Option<CodonId>,
    /// The budget summary of the last run that ended.
    budget: Option<Event>,
}

impl<'a> StatusView<'a> {
    fn of(execution: &Path, state: &'a HankweaveState, thread: &'a ExecutionThread) -> Self {
        let holder = holder(execution);
        Self {
            state,
            thread,
            typed: Typed::about(execution),
            live: holder.is_some(),
            activity: holder.and_then(|holder| holder.activity),
            decision: decision(execution, state),
            now: SystemClock.now(),
            unfinished: unfinished(execution, thread),
            budget: None,
        }
    }

    fn write(&self, text: &mut Text) -> std::fmt::Result {
        let Self { state, thread, .. } = self;
        let Some(run) = state.runs.front() else {
            return writeln!(text, "no run has been recorded yet");
        };
        writeln!(
            text,
            "run {} {} (since {})",
            run.run_id,
            self.standing(run),
            run.start_time
        )?;
        for entry in state.execution_plan.iter() {
            let id = &entry.codon_id;
            match thread.codons.iter().find(|known| known.codon.codon_id() == id) {
                Some(known) => {
                    let codon = CodonSummary::of(&known.codon);
                    let line = self.line(&known.codon, &codon);
                    write!(text, "  ")?;
                    let style = style_of(codon.status, codon.interrupted_by);
                    text.styled(style, format_args!("{:<24}", id.as_str()))?;
                    writeln!(text, " {line}")?;
                    if let Some(message) = codon.failure.and_then(|failure| failure.message) {
                        writeln!(text, "    {message}")?;
                    } else if let Some(exceeded) = codon.budget_exceeded {
                        writeln!(text, "    {}", at_its_budget(codon.status, exceeded))?;
                    }
                }
                None => {
                    text.styled(
                        Style::new().dimmed(),
                        format_args!("  {:<24} planned", id.as_str()),
                    )?;
                    writeln!(text)?;
                }
            }
        }
        writeln!(
            text,
            "  this run {}, all runs {}",
            run.spend().told(self.is_lower_bound(run)),
            state
                .total_spend()
                .told(self.is_lower_bound(run) || state.cost_is_lower_bound())
        )?;
        if let Some(Event::BudgetSummary { ceiling, totals, .. }) = &self.budget {
            let budget = report::budget(ceiling, totals);
            writeln!(text, "  {budget} (when the last run ended)")?;
        }
        if let Some(pending) = &state.pending_rollback {
            let source = &pending.source;
            let codon = source
                .after_codon
                .as_ref()
                .map_or("the beginning", |id| id.as_str());
            let sha = source.checkpoint_sha.short();
            match pending.restored {
                true => writeln!(
                    text,
                    "went back to checkpoint {sha} of {codon}, and nothing has run since"
                ),
                false => writeln!(
                    text,
                    "going back to checkpoint {sha} of {codon} was interrupted; the next start finishes it"
                ),
            }?;
        }
        text.styled(Style::new().bold(), self.outlook(run))?;
        writeln!(text)?;
        if let Some((id, ends_at)) = self.limit() {
            writeln!(
                text,
                "{id} has used up a limit of its provider, which ends at {ends_at}; `run` waits for that"
            )?;
        }
        if let Some(id) = &self.unfinished {
            writeln!(
                text,
                "what follows the end of {id} is not done: its results, or its archive"
            )?;
        }
        for (command, purpose) in self.commands() {
            write!(text, "  ")?;
            text.styled(AnsiColor::Cyan.on_default(), format_args!("{command:<48}"))?;
            writeln!(text, " {purpose}")?;
        }
        Ok(())
    }

    /// The codon that waits for an approval, and whether that was denied.
    fn asked(&self) -> Option<(&CodonId, bool)> {
        match self.decision.as_ref()? {
            Decision::Ask(entry) => Some((&entry.codon_id, false)),
            Decision::Blocked(BlockedBy::Denied(id)) => Some((id, true)),
            _ => None,
        }
    }

    /// The codon whose provider has a limit, and when that ends.
    fn limit(&self) -> Option<(&CodonId, Timestamp)> {
        let newest = &self.thread.codons.first()?.codon;
        Some((newest.codon_id(), newest.failure_reason()?.retry_at?))
    }

    /// What one can type here, with what it does.
    fn commands(&self) -> Vec<(String, String)> {
        let Self {
            state, thread, typed, ..
        } = self;
        let mut commands = Vec::new();
        let mut offer = |command: String, purpose: &str| commands.push((command, purpose.to_owned()));
        let Some(run) = state.runs.front() else {
            return commands;
        };
        if self.is_working(run) {
            offer(typed.command("attach"), "follows it");
            if let Some((id, _)) = self.asked() {
                let approve = format!("approve {id}");
                offer(typed.command(&approve), &format!("lets {id} begin"));
                offer(
                    typed.command(&format!("{approve} --deny")),
                    "ends the run before it",
                );
            }
            if let Some(Decision::Start(entry)) = self.decision.as_ref().filter(|_| !thread.has_running_codon)
            {
                let starts = format!("starts {}, unless that happens by itself", entry.codon_id);
                offer(typed.command("next"), &starts);
            }
            offer(typed.command("stop"), "stops it; the next run goes on");
            return commands;
        }
        let newest = thread.codons.first().map(|entry| entry.codon.as_ref());
        if let Some(cut_off) = run.open_codon() {
            let id = cut_off.codon_id();
            if cut_off.claude_session_id().is_some() {
                let goes_on = format!("keeps the files and lets {id} go on in its session");
                offer(typed.run_with(&[Change::Set("recover", "session")]), &goes_on);
            }
            offer(typed.run(), self.way_back());
            let again = format!("keeps the files and runs {id} again from its beginning");
            offer(typed.run_with(&[Change::Set("recover", "crash-point")]), &again);
        } else if let Some(next) = thread.next_codon_id.as_ref().filter(|_| self.is_stopped()) {
            if thread.own_session().is_some() {
                let goes_on = format!("keeps the files and lets {next} go on in its session");
                offer(typed.run_with(&[Change::Set("recover", "session")]), &goes_on);
            }
            offer(
                typed.run(),
                &format!("{}, unless `onFailure` says otherwise", self.way_back()),
            );
            let again = format!("keeps the files and runs {next} again from its beginning");
            offer(typed.run_with(&[Change::Set("recover", "crash-point")]), &again);
        } else if let Some((id, denied)) = self.asked() {
            let approve = format!("approve {id}");
            offer(
                typed.approval(id),
                &format!("lets {id} begin{}", if denied { " after all" } else { "" }),
            );
            if !denied {
                offer(
                    typed.command(&format!("{approve} --deny")),
                    "says that it may not",
                );
            }
        } else if let Some(next) = &thread.next_codon_id {
            let goes_on = typed.run_with_more(self.more(), self.patience());
            offer(goes_on, &format!("goes on with {next}"));
        } else if let Some(failed) = newest.filter(|_| self.is_blocked()) {
            let id = failed.codon_id();
            offer(
                typed.run(),
                &format!("{}, unless `onFailure` says otherwise", self.way_back()),
            );
            offer(
                typed.run_with(&[Change::Set("recover", "crash-point")]),
                &format!("keeps the files and runs {id} again"),
            );
            if failed.rig_setup_checkpoint().is_some() {
                offer(
                    typed.command(&format!("rollback --codon {id} --at rig-setup")),
                    &format!("takes the files back to where {id} began"),
                );
            }
        }
        if newest.is_some() {
            offer(
                typed.command("thread"),
                "lists the checkpoints to which `rollback --to SHA` goes back",
            );
        }
        if self.unfinished.is_some() && thread.next_codon_id.is_none() && !self.is_blocked() {
            offer(typed.run(), "finishes that");
        }
        offer(
            typed.run_with(&[Change::Flag("new")]),
            "starts from the first codon; the history stays",
        );
        commands
    }

    /// Whether the newest run goes on: a process that only brings the directory in order has none.
    fn is_working(&self, run: &RunRecord) -> bool {
        self.live && run.status == RunStatus::Running
    }

    /// Whether the newest codon was stopped with its run, so that somebody may choose where it goes on.
    fn is_stopped(&self) -> bool {
        self.thread.interruption().is_some_and(|by| !by.is_pause())
    }

    /// The retry that a live run waits for.
    fn retry(&self) -> Option<&Retry> {
        let run = self.state.runs.front().filter(|run| self.is_working(run));
        match (run, &self.decision) {
            (Some(_), Some(Decision::Retry(retry))) => Some(retry),
            _ => None,
        }
    }

    /// How long it is until a codon is run again: as the run measures it, or by the records' times where it does not say (D9).
    fn left(&self, retry: &Retry) -> Duration {
        let activity = self.activity.as_ref().zip(SystemClock.uptime());
        let measured = activity.and_then(|(at, up)| at.left(&retry.entry.codon_id, up));
        measured.unwrap_or_else(|| retry.remaining(self.now))
    }

    /// How long an open codon has been run, in the same way.
    fn elapsed(&self, codon: &CodonExecution) -> Duration {
        let activity = self.activity.as_ref().zip(SystemClock.uptime());
        let measured = activity.and_then(|(at, up)| at.elapsed(codon.codon_id(), up));
        measured.unwrap_or_else(|| self.now.since(*codon.start_time()))
    }

    /// Where the next run goes back to by itself.
    fn way_back(&self) -> &'static str {
        let mut codons = self.thread.codons.iter();
        match codons.any(|entry| entry.codon.status() == CodonStatus::Completed) {
            true => "goes back to the last success and on from there",
            false => "goes back to where the work began, for nothing has completed",
        }
    }

    /// Whether more was used than is recorded: an agent that works may be in the middle of an answer, and one that was cut off may have been.
    fn is_lower_bound(&self, run: &RunRecord) -> bool {
        let works = |open: &CodonExecution| open.status() == CodonStatus::Running;
        run.cost_is_lower_bound() || run.open_codon().is_some_and(works)
    }

    /// How long the next run would have to be allowed to wait for a limit at which the last one paused.
    fn patience(&self) -> Option<Duration> {
        let paused = self.state.runs.front().and_then(|run| run.interrupted_by);
        match (&self.decision, paused) {
            (Some(Decision::Retry(retry)), Some(InterruptedBy::UsageLimit)) => {
                let left = Some(retry.remaining(self.now)).filter(|left| !left.is_zero())?;
                Some(retry.limit?.waited.saturating_add(left))
            }
            _ => None,
        }
    }

    /// With how much more a run goes on that paused at a ceiling.
    fn more(&self) -> Ceiling {
        let Some(Event::BudgetSummary { ceiling, .. }) = &self.budget else {
            return Ceiling::default();
        };
        let paused = self.state.runs.front().and_then(|run| run.interrupted_by);
        if paused != Some(InterruptedBy::Ceiling) {
            return Ceiling::default();
        }
        let seconds = ceiling.max_time_seconds;
        let ceiling = Ceiling {
            max_dollars: ceiling.max_dollars,
            max_time: seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        };
        CeilingUse::of(Duration::ZERO, ceiling, self.state).more()
    }

    /// How the run stands.
    fn standing(&self, run: &RunRecord) -> String {
        match (run.status, run.interrupted_by) {
            (RunStatus::Running, _) if !self.live => "was cut off: its process is gone".to_owned(),
            (_, Some(by)) if by.is_pause() => "is paused".to_owned(),
            (_, Some(_)) => "was stopped".to_owned(),
            (status, None) => format!("is {status}"),
        }
    }

    /// A codon in one line.
    fn line(&self, codon: &CodonExecution, summary: &CodonSummary) -> String {
        let cut_off = !codon.is_terminal() && !self.live;
        let standing = match cut_off {
            true => "cut off",
            false => standing(summary.status, summary.interrupted_by),
        };
        let elapsed = match codon.end_time() {
            Some(_) => Some(summary.duration),
            // Nobody knows when the process was gone.
            None if cut_off => None,
            None => Some(self.elapsed(codon)),
        };
        codon_line(standing, elapsed, summary.tokens.total(), &summary.told_cost())
    }

    /// What is next, or what blocks.
    fn outlook(&self, run: &RunRecord) -> String {
        let thread = &self.thread;
        if let Some(open) = run.open_codon() {
            let id = open.codon_id();
            return match self.live {
                true => format!("{id} is running"),
                false => format!("{id} was cut off; the next run goes on with it or before it"),
            };
        }
        if let Some(words) = self.between(run) {
            return words;
        }
        match self.asked() {
            Some((id, false)) => return format!("{id} waits for an approval"),
            Some((id, true)) => return self.denied(id),
            None => {}
        }
        if let Some(next) = &thread.next_codon_id {
            return format!("next: {next}");
        }
        let newest = thread.codons.first().map(|entry| entry.codon.codon_id().as_str());
        match newest {
            Some(newest) if self.is_blocked() => format!("blocked: {newest} failed"),
            Some(_) if thread.failed => "the plan has ended".to_owned(),
            Some(_) | None => "nothing is left to do".to_owned(),
        }
    }

    /// What was answered, and why.
    fn denied(&self, id: &CodonId) -> String {
        let answer = self.state.approval.as_ref();
        match answer.and_then(|answer| answer.reason.as_deref()) {
            Some(reason) => format!("{id} was denied: {reason}"),
            None => format!("{id} was denied"),
        }
    }

    /// What a live run does while no codon runs.
    fn between(&self, run: &RunRecord) -> Option<String> {
        let decision = self.decision.as_ref().filter(|_| self.is_working(run))?;
        Some(match decision {
            Decision::Retry(retry) => {
                let id = &retry.entry.codon_id;
                let which = match retry.number {
                    0 => "is run again".to_owned(),
                    number => format!("failed and is tried again (retry {number} of {})", retry.most),
                };
                let left = report::duration(self.left(retry));
                format!("{id} {which} in {left}")
            }
            Decision::Ask(entry) => format!("{} waits for an approval", entry.codon_id),
            Decision::Start(entry) => format!("no codon runs at the moment; next: {}", entry.codon_id),
            Decision::Blocked(BlockedBy::FailedCodon(id)) => {
                format!("{id} failed; the run waits for somebody to say what is to be done")
            }
            Decision::Done => "every codon of the plan has ended; the run waits for a command".to_owned(),
            Decision::Blocked(_) | Decision::Replan(_) | Decision::Wait => return None,
        })
    }

    /// Whether a failure keeps the next run from simply going on. A run that completed all the same had ignored it (HANK-44).
    fn is_blocked(&self) -> bool {
        let newest = self.thread.codons.first();
        let completed = newest.is_some_and(|entry| entry.run_status == RunStatus::Completed);
        self.thread.failed && !(completed && self.state.pending_rollback.is_none())
    }
}

/// What the run does next, asked of the hank that ran here last.
pub(crate) fn decision(execution: &Path, state: &HankweaveState) -> Option<Decision> {
    let thread = &thread::build(state, None, None);
    let dir = ExecutionDir::new(execution.to_owned());
    let hank = inspect::last_hank(&RealDisk, &dir).ok()??.hank?;
    Some(decide(state, thread, &hank))
}

/// The newest codon, when a note says that something of it is still to be done.
fn unfinished(execution: &Path, thread: &ExecutionThread) -> Option<CodonId> {
    let dir = ExecutionDir::new(execution.to_owned());
    let newest = thread.codons.first().filter(|_| !thread.has_running_codon)?;
    inspect::has_unfinished_results(&RealDisk, &dir, newest).then(|| newest.codon.codon_id().clone())
}
