//! Row of the list: a run of an execution directory, a task, or both.

use hankweave_core::agent::InterruptedBy;
use hankweave_core::cost::Usd;
use hankweave_core::time::Timestamp;
use hankweave_core::view::{AttemptState, AttemptView, ItemView, RunState, RunView, excerpt};
use hankweave_task_model::registry::{TaskCost, TaskRow};
use hankweave_task_model::task::{TaskRecord, TaskStatus};
use serde::Serialize;

use crate::holding::AbsentWorker;
use crate::owning_task::{OwningTask, TaskEnd};
use crate::task::reason;

/// Longest text of a row, in bytes of JSON.
const LONGEST_TEXT: usize = 320;

/// Most entries of a plan that are drawn; of a longer plan only the counts are shown.
const MAX_ENTRIES: usize = 24;

/// Time after its end for which a run that did not complete waits for its user.
const WAITS_MS: i64 = 7 * 24 * 60 * 60 * 1_000;

/// Row of the list, as the page gets it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListRow {
    /// Name under which the page of its run is served; absent if no run is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) record: Option<String>,
    pub(super) name: String,
    /// Purpose of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) goal: Option<String>,
    /// Execution directory, for people.
    pub(super) folder: String,
    /// Id of the task, if the run belongs to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<String>,
    /// Worker that holds the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) worker: Option<String>,
    pub(super) group: Group,
    /// State, which chooses the shape that the page draws.
    pub(super) state: &'static str,
    /// State in words, if `state` is not the right word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) word: Option<&'static str>,
    /// Question, cause or newest message.
    pub(super) last: String,
    /// States of the entries of the plan, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) plan: Vec<&'static str>,
    pub(super) completed: usize,
    pub(super) planned: usize,
    /// Cost in US dollars; with a `limit` the part that counts against it. Absent if nothing is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) spent: Option<Usd>,
    /// More was spent than `spent`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) at_least: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<Usd>,
    /// Start of its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Timestamp>,
}

/// Group of rows, in the order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Group {
    /// A user has to do something.
    Waits,
    Running,
    /// The task waits for a worker.
    Queued,
    Ended,
}

/// The newest run of a directory.
#[derive(Debug, Clone)]
pub(super) struct DrawnRun {
    pub(super) view: RunView,
    /// Newest message of its agent.
    pub(super) message: Option<String>,
}

impl ListRow {
    /// Returns the row of a run.
    pub(super) fn of_run(drawn: &DrawnRun, folder: &str, now: Timestamp) -> Self {
        let view = &drawn.view;
        let money = view.money;
        let title = view.hank.as_ref().map(|hank| hank.name.as_str());
        let name = title
            .filter(|title| !title.is_empty())
            .unwrap_or_else(|| last_name(folder));
        let since = since(view);
        Self {
            record: None,
            name: excerpt(name, LONGEST_TEXT),
            goal: view.goal.clone(),
            folder: folder.to_owned(),
            task: None,
            worker: None,
            group: group(view.state, since, now),
            state: shape(view),
            word: word(view),
            last: excerpt(&last_word(drawn), LONGEST_TEXT),
            plan: plan(view),
            completed: view.codons.completed,
            planned: view.codons.planned,
            spent: Some(match money.limit {
                Some(_) => money.counted(),
                None => money.spent,
            }),
            at_least: match money.limit {
                Some(_) => money.at_least || view.is_working(),
                None => money.spent_at_least() || view.is_working(),
            },
            limit: money.limit,
            since,
        }
    }

    /// Returns the row of a task: the row of its run, if one is recorded, with the facts of the registry. `cost` is that of `task list` and `task show`.
    pub(super) fn of_task(
        task: &TaskRow,
        cost: Option<TaskCost>,
        run: Option<Self>,
        folder: &str,
        now: Timestamp,
    ) -> Self {
        let record = &task.record;
        let row = run.unwrap_or_else(|| Self::without_run(folder));
        let since = match record.status() {
            TaskStatus::Running => row.since.or(Some(task.updated_at)),
            _ => Some(task.updated_at),
        };
        Self {
            name: excerpt(record.name(), LONGEST_TEXT),
            task: Some(record.id().to_string()),
            // With a limit the run's own figure stays: only its record has the part that counts against the limit.
            spent: cost
                .filter(|_| row.limit.is_none())
                .map(|cost| cost.cost)
                .max(row.spent),
            at_least: row.at_least || cost.is_some_and(|cost| cost.cost_is_lower_bound),
            since,
            ..row.with_status(record.status(), of_record(task), since, now)
        }
    }

    /// Adds the name and status of the task in whose workspace the run is. They come from the files of the task, because its registry is not the one of
    /// this list.
    pub(super) fn of_files(self, task: &OwningTask, now: Timestamp) -> Self {
        let known = task.failure_beside(None).map(str::to_owned);
        let known = known.or_else(|| task.end().map(|end| end.in_short()));
        let since = self.since;
        let row = match task.status() {
            // Only its registry knows whether a worker holds it, so the run is shown as it is.
            TaskStatus::Running => self,
            status => self.with_status(status, known, since, now),
        };
        Self {
            name: excerpt(task.name(), LONGEST_TEXT),
            task: Some(task.id().to_string()),
            ..row
        }
    }

    /// Puts the status of a task in place of that of its newest run. `known` is what the task says of its status.
    fn with_status(
        self,
        status: TaskStatus,
        known: Option<String>,
        since: Option<Timestamp>,
        now: Timestamp,
    ) -> Self {
        let (group, state, word) = of_status(status, &self);
        let is_ended = group == Group::Ended || status == TaskStatus::Failed;
        // For a task that completed with its run, the last words of the agent say more than `known`.
        let keeps_last = status == TaskStatus::Completed && self.state == state;
        Self {
            group: match group {
                Group::Waits if is_ended && is_old(since, now) => Group::Ended,
                group => group,
            },
            state,
            word,
            last: match known.filter(|_| !keeps_last) {
                Some(text) => excerpt(&text, LONGEST_TEXT),
                None => self.last,
            },
            ..self
        }
    }

    /// Marks a task that waits in vain for an earlier task, so that a user has to act.
    pub(super) fn mark_blocked(&mut self, blocked: &str) {
        self.group = Group::Waits;
        self.word = Some("blocked");
        self.last = excerpt(blocked, LONGEST_TEXT);
    }

    /// Marks a task on which no worker works now. A lost task waits for the user; any other one keeps its group, and gets `worker`.
    pub(super) fn mark_absent(&mut self, absent: &AbsentWorker, worker: Option<String>) {
        if absent.is_lost() {
            (self.group, self.state) = (Group::Waits, RunState::Crashed.as_str());
        } else {
            self.worker = worker;
        }
        self.word = Some(absent.word());
        self.last = excerpt(&absent.in_short(), LONGEST_TEXT);
    }

    fn without_run(folder: &str) -> Self {
        Self {
            record: None,
            name: String::new(),
            goal: None,
            folder: folder.to_owned(),
            task: None,
            worker: None,
            group: Group::Queued,
            state: RunState::Planned.as_str(),
            word: None,
            last: String::new(),
            plan: Vec::new(),
            completed: 0,
            planned: 0,
            spent: None,
            at_least: false,
            limit: None,
            since: None,
        }
    }
}

fn last_name(folder: &str) -> &str {
    folder.rsplit('/').find(|name| !name.is_empty()).unwrap_or(folder)
}

fn since(view: &RunView) -> Option<Timestamp> {
    match (&view.ask, view.state) {
        (Some(ask), RunState::Asking) => Some(ask.since),
        (_, RunState::Running) => view.run.as_ref().map(|run| run.began).or(view.since),
        _ => view.since.or(view.run.as_ref().map(|run| run.began)),
    }
}

/// Whether a run ended so long ago that nothing waits for its user any more.
fn is_old(since: Option<Timestamp>, now: Timestamp) -> bool {
    since.is_some_and(|since| now.as_millis().saturating_sub(since.as_millis()) > WAITS_MS)
}

fn group(state: RunState, since: Option<Timestamp>, now: Timestamp) -> Group {
    match state {
        RunState::Planned | RunState::Running => Group::Running,
        RunState::Asking | RunState::Idle => Group::Waits,
        RunState::Paused | RunState::Failed | RunState::Crashed if !is_old(since, now) => Group::Waits,
        RunState::Paused | RunState::Failed | RunState::Crashed => Group::Ended,
        RunState::Completed | RunState::Stopped => Group::Ended,
    }
}

/// Returns the state of a run by which the page chooses its shape.
fn shape(view: &RunView) -> &'static str {
    match view.state {
        RunState::Running if view.now.is_none() && view.activity.is_some() => "retry",
        RunState::Idle if view.problem.is_some() => RunState::Failed.as_str(),
        state => state.as_str(),
    }
}

/// Returns the state in words, if the one of [`shape`] is not the right word.
fn word(view: &RunView) -> Option<&'static str> {
    match view.state {
        RunState::Idle => Some("waits for a command"),
        RunState::Paused if view.approved == Some(false) => Some("denied"),
        RunState::Paused if view.interrupted_by == Some(InterruptedBy::Approval) => Some("approval needed"),
        RunState::Paused if view.interrupted_by == Some(InterruptedBy::Ceiling) => Some("at its limit"),
        _ => None,
    }
}

/// Returns the text for the user: the question, the cause of the end, or the newest message.
fn last_word(drawn: &DrawnRun) -> String {
    let view = &drawn.view;
    let message = drawn.message.clone().filter(|text| !text.is_empty());
    let cause = || problem(view).or_else(|| view.cause.clone());
    let found = match view.state {
        RunState::Asking => view.ask.as_ref().map(|ask| ask.question.clone()),
        RunState::Failed | RunState::Paused | RunState::Crashed | RunState::Stopped => cause(),
        RunState::Idle => cause().or(message),
        RunState::Planned | RunState::Running | RunState::Completed => message,
    };
    let found = found.filter(|text| !text.is_empty());
    found.unwrap_or_else(|| view.headline.clone())
}

/// Returns the message of the failed attempt.
fn problem(view: &RunView) -> Option<String> {
    let problem = view.problem.as_ref()?;
    view.attempt(&problem.item, problem.attempt)?
        .why
        .as_ref()?
        .message
        .clone()
}

/// Returns the states of the entries of the plan; empty if there are too many to be drawn.
fn plan(view: &RunView) -> Vec<&'static str> {
    if view.order.len() > MAX_ENTRIES || view.omitted.before + view.omitted.after > 0 {
        return Vec::new();
    }
    let asked = view.ask.as_ref().and_then(|ask| ask.codon.as_ref());
    let asked = asked.map(|codon| codon.configured());
    let entries = view.order.iter().map(|id| {
        let Some(item) = view.items.get(id) else {
            return RunState::Planned.as_str();
        };
        let is_asked =
            asked.is_some_and(|asked| asked == id || item.order.iter().any(|inner| inner == asked));
        match is_asked {
            true => RunState::Asking.as_str(),
            false => state_of(view, item),
        }
    });
    entries.collect()
}

/// Returns the state of a codon, or that of the newest codon of a loop.
fn state_of(view: &RunView, item: &ItemView) -> &'static str {
    let inner = item.order.iter().filter_map(|id| view.items.get(id));
    let newest = inner
        .chain([item])
        .filter_map(newest_of)
        .max_by_key(|attempt| attempt.began);
    newest.map_or(RunState::Planned.as_str(), |attempt| match attempt.state {
        AttemptState::Crashed => RunState::Failed.as_str(),
        state => state.as_str(),
    })
}

fn newest_of(item: &ItemView) -> Option<&AttemptView> {
    item.attempts.values().next_back()
}

/// Returns the group, state and word of a task with this status and newest run.
fn of_status(status: TaskStatus, run: &ListRow) -> (Group, &'static str, Option<&'static str>) {
    let running = RunState::Running.as_str();
    match status {
        TaskStatus::Pending => (Group::Queued, RunState::Planned.as_str(), Some("queued")),
        TaskStatus::Running if run.group == Group::Running => (Group::Running, run.state, run.word),
        // The newest run has ended; the worker is about to start the next one or to write the result.
        TaskStatus::Running => (Group::Running, running, None),
        TaskStatus::Waiting => (Group::Waits, RunState::Asking.as_str(), None),
        TaskStatus::Failed => (Group::Waits, RunState::Failed.as_str(), None),
        TaskStatus::Completed => (Group::Ended, RunState::Completed.as_str(), None),
        TaskStatus::Cancelled => (Group::Ended, RunState::Stopped.as_str(), Some("cancelled")),
        TaskStatus::Deleted => (Group::Ended, RunState::Stopped.as_str(), Some("deleted")),
    }
}

/// Returns what only the registry says of a task: its question, why it failed or waits, or how a user ended it.
fn of_record(task: &TaskRow) -> Option<String> {
    match &task.record {
        TaskRecord::Waiting(waiting) => Some(waiting.question.clone()),
        TaskRecord::Failed(failed) => Some(failed.error.clone()),
        // Always a text, if only an empty one, in place of the outdated text of the newest run.
        TaskRecord::Pending(_) => Some(reason(task).unwrap_or_default()),
        record => TaskEnd::of(record.status(), Some(task)).map(|end| end.in_short()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hankweave_core::id::CodonId;
    use hankweave_core::view::AskedApproval;
    use serde_json::json;

    use super::*;
    use crate::directory::SuspendedWorker;
    use crate::holding::Requeue;

    fn now() -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000)
    }

    fn ago(ms: i64) -> Timestamp {
        Timestamp::from_millis(now().as_millis() - ms)
    }

    fn view(state: RunState, since: Timestamp) -> RunView {
        let item = |name: &str| json!({"kind": "codon", "name": name});
        let view = json!({"view": 1, "seq": 1, "state": "planned", "headline": "a sentence", "order": ["a", "b"],
            "money": {"spent": 1.75, "before": 0.5}, "items": {"a": item("Build it"), "b": item("Ship it")}, "codons": {"completed": 1, "planned": 2},
            "files": {}});
        let view: RunView = serde_json::from_value(view).unwrap();
        RunView {
            state,
            since: Some(since),
            ..view
        }
    }

    fn row(view: RunView, message: Option<&str>) -> ListRow {
        let message = message.map(str::to_owned);
        ListRow::of_run(&DrawnRun { view, message }, "~/work/bookshelf", now())
    }

    // covers: WIRE-51
    #[test]
    fn a_run_waits_for_its_user_until_a_week_after_it_failed() {
        let group = |state, since| row(view(state, since), None).group;
        for state in [RunState::Failed, RunState::Paused, RunState::Crashed] {
            assert_eq!(group(state, ago(WAITS_MS)), Group::Waits, "{state:?}");
            assert_eq!(group(state, ago(WAITS_MS + 1)), Group::Ended, "{state:?}");
        }
        for state in [RunState::Asking, RunState::Idle] {
            assert_eq!(group(state, ago(WAITS_MS + 1)), Group::Waits, "{state:?}");
        }
        assert_eq!(group(RunState::Running, now()), Group::Running);
        assert_eq!(group(RunState::Stopped, now()), Group::Ended);
        assert_eq!(group(RunState::Completed, now()), Group::Ended);
    }

    // covers: WIRE-51
    #[test]
    fn the_last_word_is_the_question_the_cause_or_the_newest_message() {
        let mut asking = view(RunState::Asking, now());
        asking.ask = Some(AskedApproval {
            codon: Some(CodonId::new("b").unwrap()),
            question: "Ship it?".to_owned(),
            since: ago(1_000),
        });
        let asking = row(asking, Some("All tests pass."));
        assert_eq!(
            (asking.last.as_str(), asking.since),
            ("Ship it?", Some(ago(1_000)))
        );
        assert_eq!(asking.plan, ["planned", "asking"]);
        let mut failed = view(RunState::Failed, now());
        assert_eq!(row(failed.clone(), Some("All tests pass.")).last, "a sentence");
        failed.cause = Some("no room".to_owned());
        assert_eq!(row(failed, Some("All tests pass.")).last, "no room");
        let done = row(view(RunState::Completed, now()), Some("All\ntests pass."));
        assert_eq!(done.last, "All tests pass.");
        assert_eq!(done.name, "bookshelf");
        let long = "x".repeat(10 * LONGEST_TEXT);
        assert!(row(view(RunState::Completed, now()), Some(&long)).last.len() <= LONGEST_TEXT + 3);
    }

    // covers: WIRE-51
    #[test]
    fn money_counts_against_the_limit_where_there_is_one() {
        let open = view(RunState::Running, now());
        let mut limited = open.clone();
        limited.money.limit = Some(Usd::from_dollars(5.5).unwrap());
        let (open, limited) = (row(open, None), row(limited, None));
        assert_eq!(json!([open.spent, open.limit]), json!([1.75, null]));
        assert_eq!(json!([limited.spent, limited.limit]), json!([1.25, 5.5]));
    }

    /// A worker that no longer exists is not named, and a task on which a user works by hand still runs.
    // covers: WIRE-51, TASK-52
    #[test]
    fn a_task_of_a_dead_worker_waits_for_a_user_and_has_no_worker() {
        let requeue = || Requeue::by_none(Duration::from_secs(60));
        let marked = |absent: &AbsentWorker| {
            let mut row = row(view(RunState::Running, now()), Some("Working"));
            row.mark_absent(absent, Some("w1".to_owned()));
            (row.group, row.state, row.word, row.worker, row.last)
        };
        let gone = marked(&AbsentWorker::Gone { requeue: requeue() });
        let last = "no worker holds it; none is there to act".to_owned();
        assert_eq!(gone, (Group::Waits, "crashed", Some("no worker"), None, last));
        let by_hand = marked(&AbsentWorker::ByHand {
            name: "ann".to_owned(),
            requeue: requeue(),
        });
        assert_eq!(
            (by_hand.0, by_hand.1, by_hand.2),
            (Group::Running, "running", Some("by hand"))
        );
        let suspended = marked(&AbsentWorker::Suspended {
            name: Some("w1".to_owned()),
            process: SuspendedWorker {
                pid: 7,
                run: 8,
                with_run: true,
            },
            left: None,
            requeue: requeue(),
        });
        assert_eq!(
            (suspended.2, suspended.3.as_deref()),
            (Some("suspended"), Some("w1"))
        );
    }

    #[test]
    fn a_plan_that_is_too_long_for_a_row_has_its_counts_alone() {
        let mut long = view(RunState::Running, now());
        long.order = vec!["a".to_owned(); MAX_ENTRIES + 1];
        assert_eq!(row(long, None).plan, [""; 0]);
        let mut unknown = view(RunState::Running, now());
        unknown.items.clear();
        assert_eq!(row(unknown, None).plan, ["planned", "planned"]);
    }
}
