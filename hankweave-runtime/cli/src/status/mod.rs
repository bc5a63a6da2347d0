//! `hankweave status`, and what other commands say about the status of an execution directory.
//!
//! All of it comes from [`StatusView`], which joins the recorded state, the thread (the history that counts), the hank that ran last and the task whose
//! workspace the directory is. `words` prints the view, `outlook` names the next codon, `commands` the commands that continue.

mod attempts;
mod commands;
mod crash;
mod next_total;
mod outlook;
mod words;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use hankweave_core::agent::InterruptedBy;
use hankweave_core::budget::{Ceiling, time_at_work};
use hankweave_core::codon::{CodonExecution, CodonStatus};
use hankweave_core::discovery::{STATE_DIR, ServerLockRecord};
use hankweave_core::document::{Approval, HankweaveState, RunRecord, RunStatus, StateWarning};
use hankweave_core::hank::Hank;
use hankweave_core::id::CodonId;
use hankweave_core::plan::{BlockedBy, Decision, Retry, decide_with_replans};
use hankweave_core::thread::{self, ExecutionThread};
use hankweave_core::time::Timestamp;
use hankweave_core::view::{AskedApproval, CurrentActivity, RunState, RunView};
use hankweave_core::wire::{Event, JournalEntry, ProgressKind};
use hankweave_runtime::CodonSummary;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::inspect;
use hankweave_runtime::inspect::DiskUse;
use hankweave_runtime::world::clock::{Clock, SystemClock};
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_task_model::task::TaskStatus;
use serde_json::{Value, json};

use crate::args::{ExecutionArgs, Global};
use crate::directory::{SuspendedWorker, holder, lived, suspended, suspended_worker};
use crate::hints::HintCommands;
use crate::holding::AbsentWorker;
use crate::owning_task::{GateAnswer, OwningTask, TaskEnd};
use crate::plan_changes::PlanChanges;
pub(crate) use crate::state::last_hank;
use crate::terminal::approval_prompt::whole_answer;
use crate::terminal::exit::CliError;
use crate::terminal::left_out::LeftOut;
use crate::terminal::output;
use crate::terminal::report::{RunProcess, elapsed};
use crate::terminal::screen::{SafeText, with_local_times};
use crate::terminal::suspended_run::SuspendedRun;
pub(crate) use attempts::{AttemptTotals, OpenCodon};
use commands::{SuggestedCommand, first_part};
pub(crate) use crash::{UnseenCrash, crash_words};
use next_total::own_ceiling;
pub(crate) use outlook::Outlook;
pub(crate) use words::{rolled_back, rolled_back_first, undone_words};

pub(crate) fn status(global: &Global, execution: &ExecutionArgs) -> Result<ExitCode, CliError> {
    let state = crate::state::read_execution(&execution.execution)?;
    let thread = thread::build(&state, None, None);
    let hank = last_hank(&execution.execution);
    let task = OwningTask::of(&execution.execution).map(OwningTask::looked_up);
    let view = StatusView::whole(&execution.execution, &state, &thread, hank.as_ref(), task)?;
    if global.json() {
        let document = json!({
            "currentRunId": state.current_run_id,
            "run": state.runs.front().map(|run| json!({
                "runId": run.run_id,
                "status": run.status,
                "rehearsal": run.is_rehearsal(),
                "interruptedBy": run.interrupted_by,
                "cause": run.cause,
                "startTime": run.start_time,
                "endTime": run.end_time,
                "codons": run.codons.iter().map(|codon| CodonSummary::of(codon)).collect::<Vec<_>>(),
                "workedMs": u64::try_from(view.worked(run).as_millis()).unwrap_or(u64::MAX),
                "workedIsLowerBound": view.lost_time(run),
                "cost": run.spend(),
                "costIsLowerBound": run.spends_at_least(),
            })),
            "live": view.live,
            "crash": view.crash,
            "suspendedPid": view.suspended.map(SuspendedRun::pid),
            "task": view.task_json(),
            "view": view.drawn.to_json(),
            "outlook": state.runs.front().map(|run| view.outlook(run)),
            "retry": view.retry().map(|retry| json!({
                "codonId": retry.entry.codon_id,
                "number": retry.number,
                "most": retry.most,
                "inSeconds": view.time_until(retry).as_secs_f64(),
            })),
            "background": view.background().map(|work| json!({
                "subject": work.subject,
                "since": work.since,
                "endsAt": work.to,
            })),
            "failed": thread.failed,
            "hasRunningCodon": thread.has_running_codon,
            "nextCodonId": thread.next_codon_id,
            "unfinishedCodonId": view.unfinished,
            "approval": view.asked().map(|(id, denied)| {
                let question = view.question.as_ref();
                json!({
                    "codonId": id,
                    "denied": denied,
                    "question": question.map(|asked| &asked.question),
                    "since": question.map(|asked| asked.since),
                    "answer": view.answer().map(|answer| answer.to_json()),
                })
            }),
            "limitEndsAt": view.limit().map(|(_, ends_at)| ends_at),
            "pendingRollback": state.pending_rollback,
            "planChanges": view.changes,
            "options": view.kept_options(),
            "commands": view.commands().into_iter().map(|(command, _)| command).collect::<Vec<_>>(),
            "budget": view.budget.as_ref().and_then(|event| serde_json::to_value(event).ok()?.get("data").cloned()),
            "leftOut": (!view.left_out.is_empty()).then_some(&view.left_out),
            "journalIsShortened": view.is_shortened,
            "disk": view.disk.map(|found| json!({"usedBytes": found.used, "limitBytes": found.limit})),
            "warnings": view.warnings,
            "plannedCodons": state.execution_plan.len(),
            "totalCost": state.total_cost(),
            "totalSpend": state.total_spend(),
            "costIsLowerBound": view.costs_at_least(),
        });
        return output::print_json(&document);
    }
    let mut text = SafeText::default();
    // Writing to a String cannot fail.
    let _ = view.write(&mut text);
    output::print_lines(text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the next codon of an execution directory with this hank, or what blocks it; `None` before its first run.
pub(crate) fn outlook(execution: &Path, state: &HankweaveState, hank: Option<&Hank>) -> Option<String> {
    let thread = thread::build(state, None, None);
    let view = StatusView::of(execution, state, &thread, hank);
    Some(view.outlook(state.runs.front()?))
}

/// Returns the next codon of an execution directory by the hank that ran there last, or what blocks it, as `status` says it with this state.
pub(crate) fn outlook_of(execution: &Path, state: &HankweaveState) -> Result<Option<Outlook>, CliError> {
    let Some(run) = state.runs.front() else {
        return Ok(None);
    };
    let thread = thread::build(state, None, None);
    let hank = last_hank(execution);
    let task = OwningTask::of(execution).map(OwningTask::looked_up);
    let view = StatusView::whole(execution, state, &thread, hank.as_ref(), task)?;
    Ok(Some(view.outlook_after(run)))
}

/// Returns how long the next run of an execution directory would have to be allowed to wait for the usage limit at which the last one paused.
pub(crate) fn patience(execution: &Path) -> Option<Duration> {
    of_run(execution, None, |view, _| view.patience())
}

/// Returns what the live run of an execution directory waits for, if it waits for the time at which a codon is run again.
pub(crate) fn waiting(execution: &Path) -> Option<String> {
    of_run(execution, None, |view, run| {
        view.retry().map(|_| view.outlook(run))
    })
}

/// Returns the codon of the newest run that a crash or a stop has interrupted, with its cost: `second crashed, at least $0.0200`.
pub(crate) fn cut_off_codon(execution: &Path) -> Option<String> {
    of_run(execution, None, |view, run| {
        let newest = run.codons.last().filter(|_| !view.live)?;
        let how = match newest.interruption() {
            None if !newest.is_terminal() => "crashed",
            Some(by) if !by.is_pause() => "stopped",
            _ => return None,
        };
        let totals = view.totals_of(newest);
        let cost = totals.cost.display(totals.is_lower_bound);
        Some(format!("{} {how}, {cost}", newest.codon_id()))
    })
}

/// Returns the first step of the next attempt of a task in its workspace: how it continues after the last run.
pub(crate) fn next_attempt(workspace: &Path, task: Option<OwningTask>) -> Option<String> {
    of_run(workspace, task, |view, run| view.next_attempt(run))
}

/// Returns the started codons of an execution directory in the order of the plan, each as `draft completed, $0.4500, changed 1 file` and with its
/// result. The figures are those of all attempts that count.
pub(crate) fn codons(execution: &Path) -> Vec<(String, Option<Value>)> {
    of_run(execution, None, |view, _| Some(view.codons())).unwrap_or_default()
}

/// Returns [`undone_words`] of an execution directory.
pub(crate) fn undone_attempts(execution: &Path) -> Option<String> {
    of_run(execution, None, |view, _| undone_words(&view.drawn))
}

/// Passes the status of an execution directory and its newest run to `look`; `None` without a run, or if the record cannot be read.
fn of_run<T>(
    execution: &Path,
    task: Option<OwningTask>,
    look: impl FnOnce(&StatusView<'_>, &RunRecord) -> Option<T>,
) -> Option<T> {
    let state = crate::state::read_execution(execution).ok()?;
    let (thread, hank) = (thread::build(&state, None, None), last_hank(execution));
    let view = StatusView::whole(execution, &state, &thread, hank.as_ref(), task).ok()?;
    look(&view, state.runs.front()?)
}

/// Returns the commands that continue after the newest run of an execution directory, with their effects, in the order of `status`. Empty in the
/// workspace of a task, for a hank that no longer fits the plan, and if the record cannot be read.
pub(crate) fn ways_on(execution: &Path, state: &HankweaveState) -> Vec<SuggestedCommand> {
    let thread = thread::build(state, None, None);
    let hank = last_hank(execution);
    let view = StatusView::whole(
        execution,
        state,
        &thread,
        hank.as_ref(),
        OwningTask::of(execution),
    );
    match (view, state.runs.front()) {
        (Ok(view), Some(run)) if view.task.is_none() && view.changes.misfits.is_empty() => view.ways_on(run),
        _ => Vec::new(),
    }
}

/// Whether a codon of hank.json has begun in the history that the next run continues.
pub(crate) fn has_begun(state: &HankweaveState, codon: &CodonId) -> bool {
    let thread = thread::build(state, None, None);
    let mut begun = thread.codons.iter().map(|entry| entry.codon.codon_id());
    begun.any(|id| id.configured() == codon.as_str())
}

/// Returns how the last run of an execution directory ended, and the command that continues it or starts over; `None` before its first run.
pub(crate) fn last_run(execution: &Path) -> Option<String> {
    // Callers do not know whether anything is recorded here; if not, that is no failure.
    let state_dir = execution.join(STATE_DIR);
    RealDisk.metadata(&state_dir).ok()?;
    let state = crate::state::read_execution(execution).ok()?;
    let run = state.runs.front()?;
    let thread = thread::build(&state, None, None);
    let hank = last_hank(execution);
    let task = OwningTask::of(execution);
    let view = StatusView::whole(execution, &state, &thread, hank.as_ref(), task).ok()?;
    let ended = match view.drawn.state {
        RunState::Completed | RunState::Failed | RunState::Crashed => view.drawn.state.as_str().to_owned(),
        RunState::Stopped => match &view.drawn.cause {
            Some(cause) => format!("was stopped ({})", with_local_times(cause)),
            None => "was stopped".to_owned(),
        },
        _ => format!("is {}", with_local_times(&view.drawn.state_words())),
    };
    // A command that only lists checkpoints neither continues the run nor starts over.
    let lists = view.hints.command("history");
    let commands = view.commands();
    let next = commands.iter().find(|(command, _)| *command != lists);
    let next = next.map_or_else(String::new, |(command, purpose)| {
        format!("; `{command}` {}", first_part(purpose))
    });
    let rolled_back = state.pending_rollback.as_ref();
    let rolled_back = rolled_back.map_or("", |_| " and was rolled back");
    let run = if run.is_rehearsal() { "rehearsal" } else { "run" };
    Some(format!("the last {run} {ended}{rolled_back}{next}"))
}

/// Returns the view of an execution directory that every screen draws, without reading its files and checkpoints.
pub(crate) fn drawn(execution: &Path, task: Option<OwningTask>) -> Result<RunView, CliError> {
    let state = crate::state::read_execution(execution)?;
    let thread = thread::build(&state, None, None);
    let hank = last_hank(execution);
    let mut view = StatusView::of(execution, &state, &thread, hank.as_ref());
    view.task = task;
    view.draw_whole(execution, hank.as_ref())?;
    Ok(view.drawn)
}

/// Status of an execution directory and its newest run, which the command prints (CLI-14). [`whole`](Self::whole) fills all fields, [`of`](Self::of)
/// only those that need neither the journal nor the checkpoints.
pub(crate) struct StatusView<'a> {
    pub(crate) state: &'a HankweaveState,
    pub(crate) thread: &'a ExecutionThread,
    /// View that every screen draws, made from the record: only clients of a live run see its newest lines, files and waits.
    pub(crate) drawn: RunView,
    pub(crate) hints: HintCommands,
    /// A process works in the directory.
    pub(crate) live: bool,
    /// The run of this process, if it is suspended.
    suspended: Option<SuspendedRun>,
    /// Worker of the run, if it is suspended and its run is not.
    suspended_worker: Option<SuspendedWorker>,
    /// Crash of the newest run, which nothing has continued yet.
    pub(crate) crash: Option<UnseenCrash>,
    /// Least time at work of the open codon of a run whose process no longer exists.
    lived: Option<Duration>,
    /// Task whose workspace the directory is.
    pub(crate) task: Option<OwningTask>,
    /// Lock record of the process that works in the directory, with the times that it measures.
    holder: Option<ServerLockRecord>,
    /// Next step of the run, by its hank; `None` when that is not found.
    pub(crate) decision: Option<Decision>,
    /// Changes of hank.json since the plan was made.
    changes: PlanChanges,
    /// Total that the hank and the settings now allow.
    own_ceiling: Option<Ceiling>,
    /// Time at which the view was made.
    now: Timestamp,
    /// The newest codon, if it has completed and what follows its end, such as copies of its results, is not done.
    unfinished: Option<CodonId>,
    /// The newest budget summary.
    budget: Option<Event>,
    /// Whether `budget` is of the newest run.
    budget_is_of_newest: bool,
    /// The newest codon with the last line of the check that it did not pass.
    last_check_line: Option<(CodonId, String)>,
    /// Question that waits for an answer, or that was denied.
    question: Option<AskedApproval>,
    /// Files that belong to the last checkpoint and are not in it.
    pub(crate) left_out: LeftOut,
    /// The oldest output of agents was removed from the journal (D6).
    pub(crate) is_shortened: bool,
    /// Disk use of the record, if that has a limit.
    pub(crate) disk: Option<DiskUse>,
    /// Warnings about the record (STATE-34).
    pub(crate) warnings: Vec<StateWarning>,
}

impl<'a> StatusView<'a> {
    /// Reads everything about a directory that the commands show.
    pub(crate) fn whole(
        execution: &Path,
        state: &'a HankweaveState,
        thread: &'a ExecutionThread,
        hank: Option<&Hank>,
        task: Option<OwningTask>,
    ) -> Result<Self, CliError> {
        let head = thread::head(state).map(|head| head.checkpoint_sha);
        let mut view = Self::of(execution, state, thread, hank);
        view.task = task;
        let summary = crate::state::budget_summary(execution)?;
        let began = state.runs.front().map(|run| run.start_time);
        view.budget_is_of_newest = summary
            .as_ref()
            .is_some_and(|summary| Some(summary.timestamp) >= began);
        view.budget = summary.map(|summary| summary.event);
        view.draw_whole(execution, hank)?;
        view.last_check_line = last_check_line(execution, thread)?;
        view.crash = UnseenCrash::of(execution, &view);
        Ok(Self {
            is_shortened: crate::state::is_shortened(execution)?,
            disk: disk_use(execution),
            warnings: crate::state::record_warnings(execution, state),
            left_out: LeftOut::of(execution, head.as_ref()),
            ..view
        })
    }

    /// Makes `drawn`, with questions and waits from the journal.
    fn draw_whole(&mut self, execution: &Path, hank: Option<&Hank>) -> Result<(), CliError> {
        self.draw(hank, crate::state::description(execution, self.state)?);
        self.show_answer();
        self.find_question(execution, hank)?;
        self.find_background_work(execution)?;
        let run = self.state.runs.front().filter(|run| self.is_working(run));
        if let Some(open) = run.and_then(|run| run.open_codon()) {
            let (worked, now) = (self.elapsed(open), self.now);
            self.drawn = std::mem::take(&mut self.drawn).with_time_at_work(worked, now);
        }
        Ok(())
    }

    /// Makes `drawn` from the record, with the limits of the newest run, or those of the hank if the journal does not have them.
    fn draw(&mut self, hank: Option<&Hank>, described: Option<JournalEntry>) {
        self.drawn = view_of(self.state, self.thread, hank, self.live, self.lived);
        if let Some(described) = described {
            let drawn = std::mem::take(&mut self.drawn);
            self.drawn = drawn.with_description(&described.event);
        } else if let Some(hank) = hank {
            let ceiling = self.ceiling().or_from_hank(hank);
            let drawn = std::mem::take(&mut self.drawn);
            self.drawn = drawn.with_description(&Event::run_described(hank, ceiling));
        }
    }

    /// Puts the answer that a user gave after the pause into `drawn`. An answer for a task is only in its registry.
    fn show_answer(&mut self) {
        if self.is_ended_by_others() {
            self.drawn.cause = None;
        } else if let Some((codon, answer)) = self.asked_codon().cloned().zip(self.answer()) {
            self.drawn.approved = Some(answer.approval.granted);
            self.drawn.cause = Some(format!("{codon}: {}", answer.words()));
        } else if self.drawn.interrupted_by == Some(InterruptedBy::Approval)
            && self.drawn.approved.is_some()
            && let Some(approval) = &self.state.approval
        {
            self.drawn.cause = Some(format!("{}: {}", approval.codon_id, whole_answer(approval)));
        } else if self.drawn.interrupted_by == Some(InterruptedBy::Approval) && !self.is_asked() {
            // A rollback led back to before the question, so it is not open any more.
            self.drawn.cause = None;
        }
    }

    /// Returns the approval with which the next codon starts.
    fn granted(&self) -> Option<&'a Approval> {
        let approval = self.state.approval.as_ref();
        approval.filter(|answer| answer.granted && self.drawn.approved == Some(true))
    }

    /// Finds the open question and its time: when it was last asked in this history, or else when a run paused with it.
    fn find_question(&mut self, execution: &Path, hank: Option<&Hank>) -> Result<(), CliError> {
        let Some((id, _)) = self.asked().filter(|_| self.end_of_task().is_none()) else {
            return Ok(());
        };
        let Some(run) = self.state.runs.front() else {
            return Ok(());
        };
        let asked_at = crate::state::question(execution, id)?.map(|entry| entry.timestamp);
        // After a rollback or an undo the question may be one that an earlier run of this history asked.
        let first_codon = self.thread.codons.last();
        let first_run = first_codon
            .and_then(|first| self.state.run(&first.run_id))
            .unwrap_or(run);
        let is_own = |at: &Timestamp| *at >= first_run.start_time;
        let mut runs = self.state.runs.iter();
        let paused = runs.find(|run| run.interrupted_by == Some(InterruptedBy::Approval));
        let paused = paused.and_then(|run| run.end_time);
        let since = asked_at.filter(is_own).or(paused.filter(is_own));
        let root = RealDisk
            .real_path(execution)
            .unwrap_or_else(|_| execution.to_owned());
        let question = hank.and_then(|hank| {
            let asked = hank.codon(id.configured())?.approval.as_ref()?;
            Some(asked.fill(id, &thread::prompt_values(&root, hank, self.state)))
        });
        let asked = AskedApproval {
            codon: Some(id.clone()),
            question: question.unwrap_or_default(),
            since: since.or(run.end_time).unwrap_or(run.start_time),
        };
        self.question = Some(asked.clone());
        if self.is_working(run) && asked_at.is_some_and(|at| at >= run.start_time) {
            self.drawn = std::mem::take(&mut self.drawn).with_question(asked);
        }
        Ok(())
    }

    /// Finds the background work that the open codon waits for (HANK-75).
    fn find_background_work(&mut self, execution: &Path) -> Result<(), CliError> {
        let run = self.state.runs.front().filter(|run| self.is_working(run));
        let open = run.and_then(|run| run.open_codon());
        let Some(open) = open.filter(|open| open.status() == CodonStatus::Running) else {
            return Ok(());
        };
        if let Some(wait) = crate::state::background(execution, open.codon_id())?
            && wait.timestamp >= *open.start_time()
            && let Event::Progress { subject, ends_at, .. } = wait.event
        {
            let activity = CurrentActivity::background(subject.as_deref(), wait.timestamp, ends_at);
            self.drawn = std::mem::take(&mut self.drawn).with_activity(activity);
        }
        Ok(())
    }

    /// Makes a view from the state, the hank and the process, without the journal and the checkpoints.
    fn of(
        execution: &Path,
        state: &'a HankweaveState,
        thread: &'a ExecutionThread,
        hank: Option<&Hank>,
    ) -> Self {
        let holder = holder(execution);
        let lived = state
            .runs
            .front()
            .and_then(|run| run.open_codon())
            .filter(|_| holder.is_none())
            .and_then(|open| lived(execution, open));
        let changes = hank.map(|hank| PlanChanges::of(state, hank, None));
        let hints = HintCommands::about(execution);
        Self {
            own_ceiling: hank.and_then(|hank| own_ceiling(hank, &hints)),
            state,
            thread,
            drawn: view_of(state, thread, hank, holder.is_some(), lived),
            lived,
            question: None,
            last_check_line: None,
            hints,
            live: holder.is_some(),
            suspended: suspended(execution),
            suspended_worker: suspended_worker(execution).filter(|worker| !worker.with_run),
            crash: None,
            task: None,
            holder,
            decision: hank
                .filter(|_| !state.runs.front().is_some_and(|run| run.is_rehearsal()))
                .map(|hank| decide_with_replans(state, hank)),
            changes: changes.unwrap_or_default(),
            now: SystemClock.now(),
            unfinished: unfinished(execution, thread),
            budget: None,
            budget_is_of_newest: false,
            left_out: LeftOut::default(),
            is_shortened: false,
            disk: None,
            warnings: Vec::new(),
        }
    }
}

/// Returns the view of a record; without a live process its running run has crashed.
fn view_of(
    state: &HankweaveState,
    thread: &ExecutionThread,
    hank: Option<&Hank>,
    is_live: bool,
    lived: Option<Duration>,
) -> RunView {
    let mut view = RunView::of_state(state, thread, 0);
    if !is_live {
        view.mark_crashed(lived);
    }
    match hank {
        Some(hank) => {
            view.with_description(&Event::run_described(hank, Ceiling::default().or_from_hank(hank)))
        }
        None => view,
    }
}

impl StatusView<'_> {
    /// Returns the codon that waits for an approval, and whether the approval was denied.
    pub(crate) fn asked(&self) -> Option<(&CodonId, bool)> {
        let denied = match self.answer().map(|answer| answer.approval.granted) {
            Some(true) => return None,
            Some(false) => true,
            None => matches!(self.decision, Some(Decision::Blocked(BlockedBy::Denied(_)))),
        };
        Some((self.asked_codon()?, denied))
    }

    /// Whether the task has ended after its newest run, so that the pause of that run does not matter any more.
    fn is_ended_by_others(&self) -> bool {
        self.end_of_task().is_some()
    }

    /// Whether the next codon asks before it starts, or was denied.
    const fn is_asked(&self) -> bool {
        matches!(
            self.decision,
            Some(Decision::Ask(_) | Decision::Blocked(BlockedBy::Denied(_)))
        )
    }

    /// Returns the codon that asks before it starts, with or without an answer.
    fn asked_codon(&self) -> Option<&CodonId> {
        if self.is_ended_by_others() {
            return None;
        }
        match self.decision.as_ref()? {
            // Without budget the run pauses before it asks.
            Decision::Ask(_) if self.raised_limits() != Ceiling::default() => None,
            Decision::Ask(entry) => Some(&entry.codon_id),
            Decision::Blocked(BlockedBy::Denied(id)) => Some(id),
            _ => None,
        }
    }

    /// Returns the answer that the registry of the task has for the question; the workspace does not have it. `None` outside of a workspace of a task.
    pub(crate) fn answer(&self) -> Option<GateAnswer> {
        self.task.as_ref()?.answer(self.asked_codon()?)
    }

    /// Returns the worker of the task, if it does not renew its lease.
    pub(crate) fn absent_worker(&self) -> Option<AbsentWorker> {
        let task = self.task.as_ref()?;
        let suspended = self.suspended_worker.filter(|_| task.works_in_these_files());
        match suspended {
            Some(worker) => task.suspended(worker),
            None => task.absent_worker(self.state, self.live),
        }
    }

    /// Returns the task, unless a process works on it. A suspended process does not count if the task is no longer running here: it stops once it
    /// continues.
    fn task_at_rest(&self) -> Option<&OwningTask> {
        let is_at_rest = |task: &&OwningTask| {
            let is_taken = task.status() != TaskStatus::Running || task.is_elsewhere();
            !self.live || (self.suspended.is_some() && is_taken)
        };
        self.task.as_ref().filter(is_at_rest)
    }

    /// Returns the status of the task if a later attempt has worked elsewhere, so that the newest run here does not show it.
    pub(crate) fn went_on(&self) -> Option<String> {
        self.task_at_rest()?.went_on()
    }

    /// Returns how the task ended, where its newest run does not show that.
    pub(crate) fn end_of_task(&self) -> Option<TaskEnd> {
        // A completed run shows that its task completed.
        let is_shown = self.drawn.state == RunState::Completed && self.state.pending_rollback.is_none();
        let task = self.task_at_rest()?;
        let end = task.end()?;
        (!end.is_completed || !is_shown || task.status() == TaskStatus::Deleted).then_some(end)
    }

    /// Returns why the task failed, unless an answer, the cause of the run or the failure of its newest codon already says it.
    pub(crate) fn failure_of_task(&self) -> Option<&str> {
        if self.answer().is_some() {
            return None;
        }
        let newest = self.thread.codons.first().map(|entry| entry.codon.as_ref());
        let message = newest.and_then(|codon| codon.failure_reason()?.message.as_deref());
        let unless_said_by = |cause| self.task.as_ref()?.failure_beside(cause);
        unless_said_by(self.drawn.cause.as_deref()).filter(|_| unless_said_by(message).is_some())
    }

    /// Returns the task for JSON.
    pub(crate) fn task_json(&self) -> Option<Value> {
        let mut json = self.task.as_ref()?.to_json();
        if let Some(absent) = self.absent_worker() {
            json["worker"] = absent.in_short().into();
        }
        if let Some(end) = self.end_of_task() {
            json["ended"] = end.words.into();
        }
        Some(json)
    }

    /// Returns the options of the last run that the next run keeps; none while a run is live or in the workspace of a task.
    fn kept_options(&self) -> Vec<String> {
        match self.live || self.task.is_some() {
            true => Vec::new(),
            false => self.hints.lasting_options(),
        }
    }

    /// Whether the live run was asked to stop.
    fn is_stopping(&self) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.stopping)
    }

    /// Returns the process that asks a question in its terminal before it starts a run.
    fn asking_process(&self) -> Option<u32> {
        let holder = self.holder.as_ref().filter(|holder| holder.asking)?;
        Some(holder.pid)
    }

    /// Returns the codon whose provider has a limit, and the end of that limit.
    fn limit(&self) -> Option<(&CodonId, Timestamp)> {
        let newest = &self.thread.codons.first()?.codon;
        Some((newest.codon_id(), newest.failure_reason()?.retry_at?))
    }

    /// Returns the wait for background work of the open codon's agent.
    fn background(&self) -> Option<&CurrentActivity> {
        let activity = self.drawn.activity.as_ref();
        activity.filter(|activity| activity.kind == ProgressKind::Background)
    }

    /// Returns the retry that a live run waits for.
    fn retry(&self) -> Option<&Retry> {
        let run = self.state.runs.front().filter(|run| self.is_working(run));
        match (run, &self.decision) {
            (Some(_), Some(Decision::Retry(retry))) => Some(retry),
            _ => None,
        }
    }

    /// Returns the time until a codon is run again, as the run measures it, or else by the times of the record (D9).
    fn time_until(&self, retry: &Retry) -> Duration {
        let activity = self.holder.as_ref().and_then(|holder| holder.activity.as_ref());
        let activity = activity.zip(SystemClock.uptime());
        let measured = activity.and_then(|(at, up)| at.remaining(&retry.entry.codon_id, up));
        measured.unwrap_or_else(|| retry.remaining(self.now))
    }

    /// Returns the time at work of the codons of a run (HANK-35).
    pub(crate) fn worked(&self, run: &RunRecord) -> Duration {
        let of_codon = |codon: &CodonExecution| match codon.is_terminal() {
            false if self.live => self.elapsed(codon),
            false => self.lived.unwrap_or_default(),
            true => time_at_work(codon),
        };
        run.codons.iter().map(|codon| of_codon(codon)).sum()
    }

    /// Returns the time at work of all runs since the one that started over, as the view has it.
    pub(crate) fn worked_in_all(&self) -> Duration {
        self.drawn.worked(self.now)
    }

    /// Whether part of the time at work of a run is unknown because of a crash.
    pub(crate) fn lost_time(&self, run: &RunRecord) -> bool {
        let is_lost = |codon: &CodonExecution| codon.crashed() || (!codon.is_terminal() && !self.live);
        run.codons.iter().any(|codon| is_lost(codon))
    }

    /// Returns how long an open codon has been run, as its process measures it, or else by the times of the record.
    pub(crate) fn elapsed(&self, codon: &CodonExecution) -> Duration {
        elapsed(codon, self.holder.as_ref(), self.now)
    }

    /// Returns the process of the newest run.
    pub(crate) fn process(&self) -> RunProcess {
        match (self.live, self.suspended) {
            (false, _) => RunProcess::None,
            (true, None) => RunProcess::Working,
            (true, Some(run)) => RunProcess::Suspended(run.pid()),
        }
    }

    /// Whether a process continues the newest run. A process that only repairs the directory does not.
    fn is_working(&self, run: &RunRecord) -> bool {
        self.live && run.status == RunStatus::Running
    }

    /// Whether more was used in the whole directory than is recorded.
    pub(crate) fn costs_at_least(&self) -> bool {
        self.task_costs_at_least() || self.records_at_least()
    }

    /// Whether the task cost more than is known, because an attempt lost its worker.
    pub(crate) fn task_costs_at_least(&self) -> bool {
        self.task.as_ref().is_some_and(OwningTask::cost_is_lower_bound)
    }

    /// Whether the recorded runs cost more than their records say.
    pub(crate) fn records_at_least(&self) -> bool {
        let newest = self.state.runs.front();
        self.state.cost_is_lower_bound() || newest.is_some_and(|run| run.spends_at_least())
    }

    /// Whether a failure keeps the next run from simply continuing. A run that completed has ignored the failure (HANK-44).
    fn is_blocked(&self) -> bool {
        let newest = self.thread.codons.first();
        let completed = newest.is_some_and(|entry| entry.run_status == RunStatus::Completed);
        self.thread.failed && !(completed && self.state.pending_rollback.is_none())
    }
}

/// Returns the next step of the run, by the hank that ran here last.
pub(crate) fn decision(execution: &Path, state: &HankweaveState) -> Option<Decision> {
    Some(decide_with_replans(state, &last_hank(execution)?))
}

/// Returns the disk use of the record, with the limit of the last run; `None` if it had no limit.
pub(crate) fn disk_use(execution: &Path) -> Option<DiskUse> {
    let dir = ExecutionDir::new(execution.to_owned());
    let limit = inspect::last_run(&RealDisk, &dir)?.max_disk?;
    DiskUse::measure(&RealDisk, &dir, limit).ok()
}

/// Returns the last line of the check that the newest codon did not pass, if it failed.
fn last_check_line(
    execution: &Path,
    thread: &ExecutionThread,
) -> Result<Option<(CodonId, String)>, CliError> {
    let newest = thread.codons.first().map(|entry| entry.codon.as_ref());
    let Some(failed) = newest.filter(|codon| codon.status() == CodonStatus::Failed) else {
        return Ok(None);
    };
    let id = failed.codon_id();
    let check = crate::state::newest_check(execution, id)?;
    let check = check.filter(|entry| entry.timestamp >= *failed.start_time());
    Ok(match check.map(|entry| entry.event) {
        Some(Event::CheckCompleted {
            passed: false,
            says: Some(says),
            ..
        }) => Some((id.clone(), says)),
        _ => None,
    })
}

/// Returns the newest codon, if it has completed and a note in the directory says that what follows its end is not done.
fn unfinished(execution: &Path, thread: &ExecutionThread) -> Option<CodonId> {
    let dir = ExecutionDir::new(execution.to_owned());
    let newest = thread.codons.first().filter(|_| !thread.has_running_codon)?;
    inspect::has_unfinished_results(&RealDisk, &dir, newest).then(|| newest.codon.codon_id().clone())
}
