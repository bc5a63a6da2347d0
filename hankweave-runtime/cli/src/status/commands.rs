//! Commands that can be typed in an execution directory, each with its effect: [`StatusView::commands`] returns all of them for `status`, and
//! `ways_on` those that continue after the newest run. A command raises the limits that are used up (`raised_limits`).

use std::time::Duration;

use hankweave_core::agent::InterruptedBy;
use hankweave_core::budget::{Ceiling, CeilingUse, time_at_work};
use hankweave_core::codon::{BudgetExceeded, CodonExecution, CodonStatus};
use hankweave_core::document::RunRecord;
use hankweave_core::id::{CodonId, SessionId};
use hankweave_core::plan::{BlockedBy, Decision};
use hankweave_core::thread::{Recovery, Resume, ThreadCodon};
use hankweave_core::time::short_duration;
use hankweave_core::wire::{NextCommand, NextSteps, OpenQuestion};
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::arrival::is_elsewhere;
use hankweave_runtime::world::disk::RealDisk;

use super::StatusView;
use super::next_total::next_total;
use crate::directory::answer_there;
use crate::hints::CommandEdit;
use crate::owning_task::OwningTask;
use crate::terminal::report;
use crate::terminal::suspended_run::SuspendedRun;

/// A command, and its effect.
pub(crate) type SuggestedCommand = (String, String);

/// Returns the effect of a command without the remarks after it.
pub(super) fn first_part(purpose: &str) -> String {
    purpose.split("; ").next().unwrap_or_default().to_owned()
}

fn offer(command: String, purpose: impl Into<String>) -> SuggestedCommand {
    (command, purpose.into())
}

impl StatusView<'_> {
    /// Returns what is next, with the commands that can be typed.
    pub(crate) fn next_steps(&self) -> NextSteps {
        let question = self.question.clone().map(|asked| OpenQuestion {
            codon_id: asked.codon,
            question: asked.question,
            since: asked.since,
        });
        let commands = self.commands().into_iter();
        let limit = self.patience().and_then(|_| self.limit());
        let limit = limit.map(|(_, ends_at)| format!(", whose usage limit ends at {ends_at}"));
        let asking = self.asking_process();
        let asking = asking.map(|pid| format!("A command waits (process {pid}): {}", answer_there(pid)));
        let outlook = asking.or_else(|| Some(self.outlook(self.state.runs.front()?)));
        NextSteps {
            outlook: outlook.map(|outlook| outlook + &limit.unwrap_or_default()),
            question,
            commands: commands
                .map(|(command, effect)| NextCommand { command, effect })
                .collect(),
        }
    }

    /// Returns all commands that can be typed here, in the order in which `status` prints them.
    pub(crate) fn commands(&self) -> Vec<SuggestedCommand> {
        let Self {
            state, thread, hints, ..
        } = self;
        let Some(run) = state.runs.front() else {
            return Vec::new();
        };
        if let Some(task) = &self.task {
            let is_free = self
                .absent_worker()
                .is_some_and(|absent| absent.can_be_detached());
            let is_live = self.is_working(run) && self.task_at_rest().is_none();
            let asked = self.asked().map(|(id, _)| id);
            let mut offers = task.commands(is_live, is_free, asked, self.patience(), self.next_attempt(run));
            offers.extend(self.op_log_command().filter(|_| !is_live));
            return offers;
        }
        if self.is_working(run) {
            return self.live_commands();
        }
        if let Some(pid) = self.asking_process() {
            return vec![match self.suspended {
                // A plain `kill` would not end it: once continued from another terminal, the process reads its own terminal in the background, which
                // suspends it again.
                Some(_) => offer(
                    format!("kill -KILL {pid}"),
                    "ends the question; nothing has begun",
                ),
                None => offer(format!("kill {pid}"), "ends the question; nothing has begun"),
            }];
        }
        if run.is_rehearsal() {
            return vec![offer(
                hints.run(),
                "starts from the first codon; nothing of the rehearsal counts",
            )];
        }
        let mut offers = match self.changes.misfits.is_empty() {
            true => self.ways_on(run),
            false => Vec::new(),
        };
        offers.extend(self.logs_of_failed());
        let is_kept = |entry: &ThreadCodon| entry.codon.end_checkpoint().is_some();
        if thread.codons.iter().any(is_kept) {
            let back = hints.command("rollback --to SHA");
            let lists = format!("lists the checkpoints to which `{back}` goes back");
            offers.push(offer(hints.command("history"), lists));
        }
        offers.extend(self.op_log_command());
        if self.unfinished.is_some() && thread.next_codon_id.is_none() && !self.is_blocked() {
            offers.push(offer(self.next_run_command(), "finishes that"));
        }
        if self.changes.replan_differs {
            let replan = "continues as hank.json is now";
            offers.push(offer(
                self.run_with_more(Some(CommandEdit::Flag("replan"))),
                replan,
            ));
        }
        let anew = match self.ceiling() == Ceiling::default() {
            true => "starts from the first codon with the files as they are; the history stays",
            false => {
                "starts from the first codon with the files as they are, its total counted from zero; the history stays"
            }
        };
        offers.push(offer(hints.run_with(&[CommandEdit::Flag("new")]), anew));
        offers
    }

    /// Returns the command that lists how to undo each operation, while a rollback is pending.
    fn op_log_command(&self) -> Option<SuggestedCommand> {
        self.state.pending_rollback.as_ref()?;
        let show = self.hints.command("op show ID");
        let lists = format!("lists what was done; `{show}` has the way back from each");
        Some(offer(self.hints.command("op log"), lists))
    }

    /// Whether the live run waits for a command, as after a rollback.
    pub(super) fn is_idle(&self) -> bool {
        crate::state::is_idle(self.hints.execution()).unwrap_or_default()
    }

    /// Returns the commands for a live run.
    fn live_commands(&self) -> Vec<SuggestedCommand> {
        let hints = &self.hints;
        if let Some(pid) = self.suspended.map(SuspendedRun::pid) {
            return vec![
                offer(
                    format!("kill -CONT {pid}"),
                    "continues it, as `fg` does in its terminal",
                ),
                offer(hints.command("stop"), "continues it in order to stop it"),
            ];
        }
        if self.is_stopping() {
            let now = offer(hints.command("stop --force"), "ends at once what still runs");
            return vec![offer(hints.command("attach"), "follows it"), now];
        }
        let mut offers = vec![offer(hints.command("attach"), "follows it")];
        if let Some((id, _)) = self.asked() {
            let approve = format!("approve {id}");
            let deny = hints.command(&format!("{approve} --deny"));
            offers.push(offer(hints.command(&approve), format!("lets {id} begin")));
            offers.push(offer(
                deny,
                format!("ends the run without {id}; `--reason TEXT` adds why"),
            ));
        }
        let decision = self.decision.as_ref().filter(|_| !self.thread.has_running_codon);
        match decision {
            Some(Decision::Start(entry)) => {
                let unless = if self.is_idle() {
                    ""
                } else {
                    ", unless that happens by itself"
                };
                offers.push(offer(
                    hints.command("next"),
                    format!("starts {}{unless}", entry.codon_id),
                ));
            }
            Some(Decision::Blocked(BlockedBy::FailedCodon(id))) => {
                let again = format!("runs {id} again with the files as they are");
                offers.push(offer(hints.command("redo"), again));
            }
            _ => {}
        }
        offers.push(offer(hints.command("stop"), "stops it; the next run continues"));
        offers
    }

    /// Returns the commands that continue where `run` has ended, the recommended one first. Of these cases the first that applies counts: the codon is
    /// open, was stopped, asks for an approval, is in a stuck loop, is simply next, crashed and blocks, failed and blocks.
    pub(super) fn ways_on(&self, run: &RunRecord) -> Vec<SuggestedCommand> {
        let (thread, hints) = (&self.thread, &self.hints);
        let newest = thread.codons.first().map(|entry| entry.codon.as_ref());
        if let Some(cut_off) = run.open_codon() {
            self.ways_on_within(cut_off.codon_id(), self.is_reachable(cut_off.agent_session_id()))
        } else if let Some(next) = thread.next_codon_id.as_ref().filter(|_| self.is_stopped()) {
            self.ways_on_within(next, self.has_session())
        } else if let Some((id, denied)) = self.asked() {
            let after_all = if denied { " after all" } else { "" };
            let approve = offer(
                hints.approval(id, &self.next_run_command()),
                format!("lets {id} begin{after_all}"),
            );
            let deny = hints.command(&format!("approve {id} --deny"));
            let others = match denied {
                false => vec![
                    offer(deny, "says that it may not; `--reason TEXT` adds why"),
                    offer(self.next_run_command(), format!("asks about {id} again")),
                ],
                true => self.ask_again(id).into_iter().collect(),
            };
            [approve].into_iter().chain(others).collect()
        } else if let Some(next) = self.stuck() {
            let goes_on = format!("continues with {next}, one iteration at a time while nothing changes");
            vec![
                offer(self.next_run_command(), goes_on),
                offer(hints.command("logs"), "shows what its agent said"),
            ]
        } else if let Some(next) = self.next() {
            let in_session = format!("keeps the files and lets {next} continue in its session");
            let is_open = self.runs_again(next) && self.has_session();
            let in_session = is_open.then(|| offer(self.recover("session"), in_session));
            let onward = offer(self.next_run_command(), self.next_codon_words(next));
            [onward].into_iter().chain(in_session).collect()
        } else if let Some(crashed) = thread
            .codons
            .first()
            .filter(|newest| self.is_blocked() && newest.was_cut_off())
        {
            self.ways_on_within(crashed.codon.codon_id(), self.has_session())
        } else if let Some(failed) = newest.filter(|_| self.is_blocked()) {
            let id = failed.codon_id();
            let set_up = if self.has_set_up(id) {
                ", with its set-up"
            } else {
                ""
            };
            let again = format!(
                "keeps the files and runs {id} again{set_up}{}",
                self.same_limit_words(id)
            );
            let mut offers = vec![
                offer(self.next_run_command(), self.recovery_words(id)),
                offer(self.recover("crash-point"), again),
            ];
            if self.has_set_up(id) {
                let back = hints.command(&format!("rollback --codon {id} --at rig-setup"));
                let began = format!("takes the files back to where {id} began");
                offers.push(offer(back, began));
            }
            offers
        } else {
            Vec::new()
        }
    }

    /// Returns the command that shows what was said in the codon that failed and blocks.
    fn logs_of_failed(&self) -> Option<SuggestedCommand> {
        let is_shown = self.changes.misfits.is_empty() && self.next().is_none() && self.is_blocked();
        let failed = self.thread.codons.first().filter(|_| is_shown)?.codon.codon_id();
        let logs = self.hints.command(&format!("logs {failed}"));
        Some(offer(
            logs,
            format!("shows what was said and checked in {failed}"),
        ))
    }

    /// Returns the smallest rollback after which a denied codon asks again: to the end of the codon in front of it, which stays completed.
    fn ask_again(&self, denied: &CodonId) -> Option<SuggestedCommand> {
        let mut codons = self.thread.codons.iter().map(|entry| entry.codon.as_ref());
        let before = codons.find(|codon| codon.end_checkpoint().is_some())?.codon_id();
        let back = self.hints.command(&format!("rollback --codon {before}"));
        let run = self.next_run_command();
        let purpose = format!(
            "takes the files back to the end of {before} (yours stay in a checkpoint); then `{run}` asks about {denied} again"
        );
        Some(offer(back, purpose))
    }

    /// Returns the commands that continue in a codon that was stopped or crashed.
    fn ways_on_within(&self, id: &CodonId, has_session: bool) -> Vec<SuggestedCommand> {
        let goes_on = format!(
            "keeps the files and lets {id} continue in its session{}",
            self.fallback_words(id)
        );
        let goes_on = has_session.then(|| offer(self.recover("session"), goes_on));
        let again = format!("keeps the files and runs {id} again from its beginning");
        let others = match self.keeps_files() {
            true => [
                offer(self.next_run_command(), again),
                offer(self.recover("last-success"), self.success_words(id)),
            ],
            false => [
                offer(self.next_run_command(), self.recovery_words(id)),
                offer(self.recover("crash-point"), again),
            ],
        };
        goes_on.into_iter().chain(others).collect()
    }

    /// Describes how the next run continues with its first codon, with its total limit if that changes.
    fn next_codon_words(&self, next: &str) -> String {
        let how = match self.runs_again(next) {
            true => format!("runs {next} again from its beginning"),
            false if self.asks_first(next) => format!("continues with {next}, which asks first"),
            false => {
                let within = if self.is_paused_within(next) {
                    " in its session"
                } else {
                    ""
                };
                match self.needed_own_limit(next) {
                    Some(more) => format!("continues with {next}{within}, with {more} in hank.json"),
                    None => format!("continues with {next}{within}"),
                }
            }
        };
        how + &self.new_total_words()
    }

    /// Describes the total limit of the next run if it differs from that of the last run: `, for $0.9400 in all, beyond the $0.5000 of the hank`.
    fn new_total_words(&self) -> String {
        let (last, more) = (self.ceiling(), self.raised_limits());
        let ceiling = self.next_total();
        let dollars = more.max_dollars.or(ceiling.max_dollars);
        let time = more.max_time.or(ceiling.max_time);
        let dollars = dollars.filter(|_| dollars != last.max_dollars);
        let time = time.filter(|_| time != last.max_time);
        let own = self.own_ceiling.and_then(|own| own.max_dollars);
        let beyond = own.filter(|own| dollars.is_some_and(|total| total > *own));
        let beyond = beyond.map_or_else(String::new, |own| format!(", beyond the {own} of the hank"));
        let dollars = dollars.map(|total| report::money(total, false));
        let totals: Vec<String> = dollars.into_iter().chain(time.map(short_duration)).collect();
        match totals.is_empty() {
            true => String::new(),
            false => format!(", for {} in all{beyond}", totals.join(" and ")),
        }
    }

    /// Returns the newest attempt, if it is an interrupted attempt of the next codon.
    fn interrupted(&self, next: &str) -> Option<&CodonExecution> {
        let newest = self.thread.codons.first()?.codon.as_ref();
        (newest.codon_id().as_str() == next && newest.interruption().is_some()).then_some(newest)
    }

    /// Whether the next codon was interrupted after its agent had named its session, in which it continues.
    fn is_paused_within(&self, next: &str) -> bool {
        self.interrupted(next).is_some() && self.has_session()
    }

    /// Whether the newest codon can continue in its own session.
    fn has_session(&self) -> bool {
        self.is_reachable(self.thread.own_session())
    }

    /// Whether an agent can continue in this session here.
    fn is_reachable(&self, session: Option<&SessionId>) -> bool {
        let dir = ExecutionDir::new(self.hints.execution().to_owned());
        session.is_some_and(|session| !is_elsewhere(&RealDisk, &dir, session))
    }

    /// Describes the limit that the next codon needs in hank.json if the run paused at a limit of that codon or of its loop, which no option raises:
    /// ``a `maxDollars` above $0.0300``.
    fn needed_own_limit(&self, next: &str) -> Option<String> {
        let is_at_limit = self.state.runs.front()?.interrupted_by == Some(InterruptedBy::Ceiling);
        let is_total = CeilingUse::of(self.ceiling(), self.state).more() != Ceiling::default();
        if !is_at_limit || is_total {
            return None;
        }
        let reached = self.interrupted(next).and_then(|paused| {
            let exceeded = paused.budget_exceeded()?;
            Some((paused.codon_id(), exceeded, exceeded.key_in_hank()?))
        });
        // A codon that has not started has no record of the limit; the run's cause names it.
        let Some((id, exceeded, key)) = reached else {
            return Some("a larger budget".to_owned());
        };
        if matches!(exceeded, BudgetExceeded::Cost { share: true, .. }) {
            return Some(format!("a larger {key}"));
        }
        let attempts = || self.attempts_of(id);
        // The limit of an attempt in a loop is what the loop's total had left, so total - limit is what was used before that attempt.
        let used = match exceeded {
            BudgetExceeded::Cost {
                limit,
                used,
                loop_total: Some(total),
                ..
            } => report::money(total.saturating_sub(limit) + used, false),
            BudgetExceeded::Cost { .. } => {
                report::money(attempts().map(CodonExecution::agent_cost).sum(), false)
            }
            BudgetExceeded::Duration {
                limit,
                used,
                loop_total: Some(total),
                ..
            } => short_duration(total.saturating_sub(limit) + used),
            BudgetExceeded::Duration { .. } => short_duration(attempts().map(time_at_work).sum()),
            BudgetExceeded::OutputTokens { used, .. } | BudgetExceeded::ContextTokens { used, .. } => {
                used.to_string()
            }
        };
        Some(format!("a {key} well above {used}"))
    }

    /// Returns the fallback agent of a codon's newest attempt in words, as `, on codex with gpt-5.6`; empty if the codon has its own agent.
    fn fallback_words(&self, id: &CodonId) -> String {
        let chosen = self.attempts_of(id).next().and_then(CodonExecution::chosen_agent);
        let stand_in = chosen.filter(|chosen| chosen.entry > 0);
        stand_in.map_or_else(String::new, |chosen| format!(", on {}", chosen.words()))
    }

    /// Whether the newest attempt of a codon has the checkpoint of its set-up.
    fn has_set_up(&self, id: &CodonId) -> bool {
        let newest = self.attempts_of(id).next();
        newest.is_some_and(|codon| codon.rig_setup_checkpoint().is_some())
    }

    /// Returns the attempts of a codon that count, newest first.
    fn attempts_of<'t>(&'t self, id: &'t CodonId) -> impl Iterator<Item = &'t CodonExecution> {
        let codons = self.thread.codons.iter().map(|entry| entry.codon.as_ref());
        codons.filter(move |codon| codon.codon_id() == id)
    }

    /// Describes the limit at which a codon failed and under which it runs again: `, within $0.0100 unless hank.json gives more`.
    fn same_limit_words(&self, id: &CodonId) -> String {
        let failed = self.attempts_of(id).next();
        let exceeded = failed.and_then(CodonExecution::budget_exceeded);
        let exceeded = exceeded.filter(|exceeded| exceeded.key_in_hank().is_some());
        let within = |exceeded: BudgetExceeded| {
            format!(", within {} unless hank.json gives more", exceeded.limit_words())
        };
        exceeded.map(within).unwrap_or_default()
    }

    /// Whether the next codon waits for an approval before it starts.
    pub(super) fn asks_first(&self, next: &str) -> bool {
        let is_approved = self.answer().is_some_and(|answer| answer.approval.granted);
        !is_approved
            && matches!(&self.decision, Some(Decision::Ask(entry)) if entry.codon_id.as_str() == next)
    }

    /// Whether the next codon was interrupted and is the target of a rollback. The conversation of its agent may contain work that is undone now, so the
    /// codon starts again with the files of its interruption.
    pub(super) fn runs_again(&self, next: &str) -> bool {
        self.state.pending_rollback.is_some() && self.interrupted(next).is_some()
    }

    /// Whether the next run runs its first codon again with the files as they are, because a rollback has led to this codon.
    fn keeps_files(&self) -> bool {
        self.state.pending_rollback.is_some() && matches!(self.changes.resume, Some(Resume::Again(_)))
    }

    /// Returns the command of the next run, with used-up limits raised, or of the task's next attempt.
    pub(super) fn next_run_command(&self) -> String {
        match &self.task {
            Some(task) => task.resume_command(self.patience()),
            None => self.run_with_more(None),
        }
    }

    /// Returns the command of the next run with `--recover`.
    fn recover(&self, recovery: &str) -> String {
        self.run_with_more(Some(CommandEdit::Set("recover", recovery)))
    }

    /// Returns the command of the next run with the limits that it needs, and with `also`.
    fn run_with_more(&self, also: Option<CommandEdit<'_>>) -> String {
        self.hints
            .run_with_more(self.raised_limits(), self.patience(), also.as_slice())
    }

    /// Describes the first step of a task's next attempt, which asks nothing on a terminal; `None` if there is no step.
    pub(super) fn next_attempt(&self, run: &RunRecord) -> Option<String> {
        let stopped = self.thread.next_codon_id.as_ref().filter(|_| self.is_stopped());
        let newest = self.thread.codons.first().map(|entry| entry.codon.codon_id());
        let blocked = newest.filter(|_| self.is_blocked());
        let open = run.open_codon().map(CodonExecution::codon_id);
        match open.or(stopped).or(blocked) {
            Some(id) => Some(self.default_recovery_words(id)),
            None if self.decision == Some(Decision::Done) => {
                Some("completes the task: every codon has ended".to_owned())
            }
            None => self.next().map(|next| self.next_codon_words(next)),
        }
    }

    /// Describes where a run that asks nothing on a terminal continues after `id` has not completed.
    pub(super) fn default_recovery_words(&self, id: &CodonId) -> String {
        match self.thread.default_recovery() {
            Recovery::CrashPoint => format!("keeps the files and runs {id} again from its set-up"),
            Recovery::Session | Recovery::LastSuccess => self.success_words(id),
        }
    }

    /// Describes where the next run, without `--recover`, continues after `id` has not completed, and what it asks and undoes before that.
    fn recovery_words(&self, id: &CodonId) -> String {
        let does = self.default_recovery_words(id);
        // After a rollback the target was chosen already.
        if self.state.pending_rollback.is_some() {
            return does;
        }
        let asks = if self.hints.is_detached() {
            ""
        } else {
            "; asks first on a terminal"
        };
        // Only a checkpoint at its end separates the work of a codon from later changes of the user.
        let newest = self.thread.codons.first().map(|entry| &entry.codon);
        let goes_back = self.thread.default_recovery() == Recovery::LastSuccess
            && newest.is_some_and(|newest| newest.end_checkpoint().is_none());
        let yours = if goes_back {
            "; takes back what you have changed since as well, into a checkpoint"
        } else {
            ""
        };
        format!("{does}{asks}{yours}")
    }

    /// Describes the rollback to the last success, and that `id` then runs again.
    fn success_words(&self, id: &CodonId) -> String {
        let mut codons = self.thread.codons.iter();
        let success = codons.find(|entry| entry.codon.status() == CodonStatus::Completed);
        match success.map(|entry| entry.codon.codon_id()) {
            Some(success) => format!(
                "rolls back to the last success, {success}, and runs {id} again{}",
                self.same_limit_words(id)
            ),
            None => format!(
                "rolls back to {}, for nothing has completed{}",
                match self.has_set_up(id) {
                    true => format!("the end of the set-up of {id}, which is not run again"),
                    false => "where the work began".to_owned(),
                },
                self.same_limit_words(id)
            ),
        }
    }

    /// Returns the least `--max-wait` with which the next run waits for the end of the usage limit at which the last run paused; `None` if nothing is to be
    /// waited for.
    pub(super) fn patience(&self) -> Option<Duration> {
        let paused = self.state.runs.front().and_then(|run| run.interrupted_by);
        let (_, ends_at) = self
            .limit()
            .filter(|_| paused == Some(InterruptedBy::UsageLimit))?;
        let left = Some(ends_at.since(self.now)).filter(|left| !left.is_zero())?;
        // If the hank would fall back, the decision has no limit, so no earlier wait counts. A run whose agent replaces that of the hank waits even so.
        let waited = match &self.decision {
            Some(Decision::Retry(retry)) => retry.limit.map(|limit| limit.waited),
            _ => None,
        };
        Some(waited.unwrap_or_default().saturating_add(left))
    }

    /// Returns the larger total limits with which the next run continues if its total is used up; empty if nothing is used up.
    pub(super) fn raised_limits(&self) -> Ceiling {
        let used = CeilingUse::of(self.next_total(), self.state);
        let (more, own) = (used.more(), self.own_total().unwrap_or_default());
        Ceiling {
            max_dollars: raised_limit(more.max_dollars, own.max_dollars, used.spent(), |dollars| {
                dollars.as_dollars()
            }),
            max_time: raised_limit(more.max_time, own.max_time, used.elapsed(), |time| {
                time.as_secs_f64()
            }),
        }
    }

    /// Returns the total limits of the next run, before used-up limits are raised.
    fn next_total(&self) -> Ceiling {
        let next = next_total(self.ceiling(), self.own_total(), &self.hints);
        let of_task = self.task.as_ref().and_then(OwningTask::set_budget);
        Ceiling {
            max_dollars: of_task.or(next.max_dollars),
            ..next
        }
    }

    /// Returns the total limits of the hank and the settings. They do not count for a task, which has its own.
    fn own_total(&self) -> Option<Ceiling> {
        self.own_ceiling.filter(|_| self.task.is_none())
    }

    /// Returns the ceiling of the newest run, as the view draws it.
    pub(super) fn ceiling(&self) -> Ceiling {
        Ceiling {
            max_dollars: self.drawn.money.limit,
            max_time: self.drawn.time_limit_ms.map(Duration::from_millis),
        }
    }

    /// Whether the newest codon was stopped with its run, so that the user may choose where it continues.
    fn is_stopped(&self) -> bool {
        self.thread.interruption().is_some_and(|by| !by.is_pause())
    }
}

/// Returns the raised limit `more`, or instead the limit `own` of the hank if that is lower and leaves at least a quarter of the room that `more` leaves.
fn raised_limit<T: Copy>(more: Option<T>, own: Option<T>, used: T, figure: impl Fn(T) -> f64) -> Option<T> {
    let room = |limit: T| figure(limit) - figure(used);
    match (more, own) {
        (Some(more), Some(own)) if room(own) < room(more) && room(own) * 4.0 >= room(more) => Some(own),
        (more, _) => more,
    }
}
