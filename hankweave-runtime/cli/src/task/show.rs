//! `hankweave task show`: all that is known of a task, from the registry, the task's own files and the record in its workspace; and `task decisions`.

use std::path::Path;
use std::process::ExitCode;

use hankweave_core::cost::Usd;
use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use hankweave_core::view::{changed, excerpt};
use hankweave_runtime::world::disk::{Disk as _, FileKind, RealDisk};
use hankweave_task_model::registry::{AnewRequest, FilesLocation, TaskCost, TaskRow};
use hankweave_task_model::task::{TaskApproval, TaskStatus};
use hankweave_task_model::{AgentDecision, TaskError, TaskExecution};
use hankweave_tasks::layers::{LayerError, TaskFiles};
use hankweave_tasks::worker::TaskSpec;
use serde_json::{Map, Value, json};

use super::details::Details;
use super::earlier::EarlierTasks;
use super::executions::attempts_with_codons;
use super::reasons::{
    budget, needed_budget, question, reason, resume_command, room_needed, waiting, without_own_worker,
};
use super::row_line::line;
use crate::args::{Global, TaskDecisionsArgs};
use crate::begun_elsewhere::{self, newest_in};
use crate::directory::is_served;
use crate::holding::TaskHolders;
use crate::owning_task::{OwningTask, has_ended_before};
use crate::present_workers::{present, words};
use crate::receipt;
use crate::registry::{FOLDER_TAKEN, Registry};
use crate::running_tasks::{absent_worker, cost_so_far, left_at_work, set_budget};
use crate::status::rolled_back;
use crate::task_lines::in_words;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::screen::{local_time, one_line};
use crate::validate::TaskLimits;

/// Returns the costs of tasks so far.
pub(super) async fn costs_so_far(registry: &Registry, rows: &[TaskRow]) -> Vec<Option<TaskCost>> {
    let mut costs = Vec::new();
    for row in rows {
        costs.push(cost_so_far(registry, row).await);
    }
    costs
}

/// Facts from the files of a task that `task show` needs.
struct TaskContents {
    files: TaskFiles,
    /// Data in the state file of the task; `None` without such a file.
    data: Option<Map<String, Value>>,
    /// Number of its checkpoints.
    checkpoints: usize,
    /// Note that the folder has the files of another registry's task, which are not read.
    foreign: Option<String>,
}

impl TaskContents {
    async fn read(registry: &Registry, row: &TaskRow) -> Result<Self, CliError> {
        let files = registry.files(row);
        let read = files
            .run(|files| Ok((files.load_state()?, files.checkpoints()?)))
            .await;
        let (state, checkpoints, foreign) = match read {
            Ok((state, checkpoints)) => (state, checkpoints.valid.len(), None),
            Err(LayerError::Task(foreign @ TaskError::FolderTaken { .. })) => {
                (None, 0, Some(format!("{foreign}; {FOLDER_TAKEN}")))
            }
            Err(error) => return Err(registry.layer_failure(&error)),
        };
        Ok(Self {
            files,
            data: state.map(|state| state.data),
            checkpoints,
            foreign,
        })
    }
}

pub(super) async fn show(global: &Global, registry: &Registry, id: &TaskId) -> Result<ExitCode, CliError> {
    let row = registry.task(id).await?;
    let TaskContents {
        files,
        data,
        checkpoints,
        foreign,
    } = TaskContents::read(registry, &row).await?;
    if global.json() {
        return output::print_json(&json!({
            "task": row, "data": data, "checkpoints": checkpoints, "folder": files.path(),
            "cost": cost_so_far(registry, &row).await,
        }));
    }
    let record = serde_json::to_value(&row).unwrap_or_default();
    let holders = TaskHolders::of(registry, std::slice::from_ref(&row)).await?;
    let absent = holders
        .as_ref()
        .and_then(|holders| absent_worker(registry, holders, &row));
    let cost = cost_so_far(registry, &row).await;
    let mut details = Details::new(line(&row, cost));
    for (label, name) in [("about", "description"), ("agent", "agentId")] {
        details.add(label, &record[name]);
    }
    let attempts = attempts_with_codons(registry, &row).await?;
    details.add(
        "attempt",
        &json!((!attempts.is_empty()).then_some(attempts.len())),
    );
    details.add("changed", &json!(local_time(row.updated_at)));
    details.add("anew", &json!(anew(&row, cost.unwrap_or_default())));
    if let Some(by) = row.cancelled_by() {
        let label = match row.record.status() {
            TaskStatus::Cancelled => "cancelled",
            _ => "stopping",
        };
        details.add(label, &json!(format!("by {}", one_line(by))));
    }
    details.add("left", &json!(left_at_work(registry, &row)));
    if let Some(absent) = absent {
        let advice = absent.with_advice(&row, |what| registry.command(what));
        details.add("worker", &json!(advice));
    }
    if row.record.status() == TaskStatus::Pending {
        let workers = present(registry).await?;
        // Without workers the line advises to start one, which would leave a task that was begun elsewhere to others.
        if !workers.is_empty() || registry.begun_elsewhere(&row).is_none() {
            details.add("workers", &json!(words(&workers, &registry.command("worker"))));
        }
        details.add("", &json!(without_own_worker(registry, &row, &workers)));
    }
    let data = json!(data);
    add_outcome(&mut details, registry, &row, &record, &data);
    if let Some(answer) = last_answer(&record["metadata"]["approval"]) {
        // The question that waits now has no answer yet.
        let label = match row.record.status() {
            TaskStatus::Waiting => "earlier",
            _ => "answered",
        };
        details.add(label, &json!(answer));
    }
    let mut earlier = EarlierTasks::new(registry, std::slice::from_ref(&row));
    details.add("after", &json!(earlier.listed(&row).await?));
    if let Some(blocked) = earlier.blocked(&row).await? {
        details.add("", &json!(blocked));
    }
    if row.priority != 0 {
        details.add("priority", &json!(row.priority));
    }
    for given in ["hank", "data"] {
        details.add_whole(given, &record["metadata"]["run"][given]);
    }
    let workspace = registry.workspace_of(&row);
    let went_on = files.went_on_in(&row);
    let cut_off = is_folder(&workspace).then(|| crate::status::cut_off_codon(&workspace));
    let cut_off = cut_off.flatten().filter(|_| foreign.is_none());
    if row.record.status() == TaskStatus::Running && cut_off.is_none() {
        // A run that ended while its worker was suspended leaves an outdated `running` in the files.
        let is_over = receipt::has_record(&workspace) && !is_served(&workspace);
        let is_known = !is_over && files.has_newest_attempt(&row);
        details.add("running", if is_known { &data["running"] } else { &Value::Null });
        details.add("waits", &json!(waiting(registry, &row)));
    }
    // A task of an older version has the cost of its last attempt in its files alone.
    let of_last = || data["cost"].as_f64().map(dollars);
    let cost = cost
        .map(|cost| cost_words(cost, attempts.last()))
        .or_else(of_last);
    details.add("cost", &json!(cost));
    add_limits(&mut details, &row);
    let is_newest = foreign.is_none() && went_on.is_none();
    let recorded = is_newest.then(|| crate::status::codons(&workspace));
    // The record decides even if no codon in it counts, as after a rollback: the attempts would show undone codons.
    match recorded.filter(|_| receipt::has_record(&workspace)) {
        Some(recorded) => {
            add_codons(&mut details, registry, id, &recorded);
            details.add("", &json!(crate::status::undone_attempts(&workspace)));
        }
        None => add_codons_of_attempts(&mut details, &attempts),
    }
    details.add(
        "rollback",
        &json!(rollback_words(&workspace).filter(|_| foreign.is_none())),
    );
    if let Some(in_short) = receipt::in_short(&workspace, set_budget(&row)).filter(|_| foreign.is_none()) {
        let whole = registry.command(&format!("task show {id} --report"));
        let later = by_user_after_end(&row, &workspace);
        let went_on = went_on.map(|place| newest_in(&place));
        let is_anew = TaskCost::of(&row.record).is_some_and(|cost| cost.before_anew.is_some());
        let label = match went_on.is_some() || is_anew {
            true => "here",
            false => "in all",
        };
        let is_done = matches!(row.record.status(), TaskStatus::Completed | TaskStatus::Waiting);
        let continues = went_on.is_none() && !is_done && !is_served(&workspace);
        let task = OwningTask::of(&workspace).map(|task| task.known_as(row.clone(), holders));
        details.add("went on", &json!(went_on));
        details.add(label, &json!(format!("{in_short}{}", later.unwrap_or_default())));
        details.add(
            "next",
            &json!(
                continues
                    .then(|| crate::status::next_attempt(&workspace, task))
                    .flatten()
            ),
        );
        details.add_whole("report", &json!(whole));
    }
    let elsewhere = registry.begun_elsewhere(&row);
    let is_here = checkpoints > 0 || machine_of_files(registry, &row).is_none();
    details.add("checkpoints", &json!(is_here.then_some(checkpoints)));
    match foreign {
        Some(foreign) => details.add("files", &json!(foreign)),
        None if is_folder(&workspace) => details.add_whole("files", &json!(workspace)),
        // A task whose files are elsewhere has none here.
        None if elsewhere.is_none() => details.add_whole("files", &json!(files.path())),
        None => {}
    }
    details.add("elsewhere", &json!(elsewhere));
    output::print(details.into_text())?;
    Ok(ExitCode::SUCCESS)
}

/// Describes the request to start a task anew and its effect; `None` without a request.
fn anew(row: &TaskRow, cost: TaskCost) -> Option<String> {
    let AnewRequest { by, at } = AnewRequest::of(&row.record)?;
    let effect = match cost.before_anew {
        // `before_anew` is noted only once that worker has files of the task.
        None if row.record.status() == TaskStatus::Running => {
            "its worker starts it anew unless it has its files, or its run from a remote".to_owned()
        }
        // A location of files means that a worker has taken the task since.
        None if FilesLocation::of(&row.record).is_some() => {
            "a worker that had its files, or its run from a remote, has continued it".to_owned()
        }
        None => "a worker with neither its files nor its run from a remote starts it anew".to_owned(),
        Some(Usd::ZERO) if cost.cost_is_lower_bound => {
            "it started anew, after attempts whose cost is not known here, and its budget counts from there"
                .to_owned()
        }
        Some(before) => format!(
            "it started anew after {}, and its budget counts from there",
            before.display(cost.cost_is_lower_bound)
        ),
    };
    Some(format!(
        "asked for by {} at {}: {effect}",
        one_line(&by),
        local_time(at)
    ))
}

/// Returns where the newest files of a task are, if that is another folder than this one.
pub(super) fn newest_files(registry: &Registry, row: &TaskRow) -> Option<FilesLocation> {
    let missing = || Some(registry.layers.missing(row)?.location);
    registry.files(row).went_on_in(row).or_else(missing)
}

/// Returns the machine that has the newest files of a task, if it is another one.
fn machine_of_files(registry: &Registry, row: &TaskRow) -> Option<String> {
    let location = newest_files(registry, row)?;
    let is_here = location.machine == registry.layers.location().machine;
    (!is_here).then_some(location.machine)
}

/// Whether the workspace of a task is on this machine.
fn is_folder(workspace: &Path) -> bool {
    let metadata = RealDisk.metadata(workspace);
    metadata.is_ok_and(|metadata| metadata.kind == FileKind::Directory)
}

/// Returns the cost in words, with that of the last attempt unless it was by hand, which is not counted.
fn cost_words(cost: TaskCost, last: Option<&TaskExecution>) -> String {
    match last.is_some_and(|last| last.by_hand) {
        true => format!(
            "{}; the last attempt was by hand, and is not counted",
            cost.sum_in_words()
        ),
        false => cost.in_words(),
    }
}

/// Adds the budget of the task. If the task has not ended, adds the source of the budget and the limits of its codons and loops.
fn add_limits(details: &mut Details, row: &TaskRow) {
    let is_anew = TaskCost::of(&row.record).is_some_and(|cost| cost.before_anew.is_some());
    let since = |words: String| match is_anew {
        true => words.replace("all attempts together", "all attempts since it started anew"),
        false => words,
    };
    let noted = budget(row).map(|most| format!("{most}, all attempts together"));
    let limits = match row.record.status() {
        TaskStatus::Completed | TaskStatus::Deleted => None,
        _ => TaskSpec::read(row.record.metadata())
            .ok()
            .and_then(|spec| TaskLimits::of(&spec)),
    };
    match limits {
        None => details.add("budget", &json!(noted.map(since))),
        Some(limits) => {
            details.add("budget", &json!(limits.total().or(noted).map(since)));
            for limit in limits.of_items() {
                details.add("limit", &json!(limit));
            }
        }
    }
}

/// Describes a rollback after the newest run, so that the user knows why codons no longer count; `None` without one.
fn rollback_words(workspace: &Path) -> Option<String> {
    let state = receipt::has_record(workspace).then(|| crate::state::read_execution(workspace).ok());
    Some(rolled_back(state.flatten()?.pending_rollback.as_ref()?))
}

/// Returns words on the newest run in the workspace if a user started it after the task had completed; `None` for an attempt of the task.
fn by_user_after_end(row: &TaskRow, workspace: &Path) -> Option<&'static str> {
    let state = crate::state::read_execution(workspace).ok()?;
    has_ended_before(row, state.runs.front()?)
        .then_some(", with what a user ran here after the task had completed")
}

/// Adds the newest codons that the record on this machine has.
fn add_codons(details: &mut Details, registry: &Registry, id: &TaskId, recorded: &[(String, Option<Value>)]) {
    let before = recorded.len().saturating_sub(MOST_CODONS);
    if before > 0 {
        let all = registry.command(&format!("task show {id} --report"));
        details.add(
            "codons",
            &json!(format!("{before} before these; `{all}` lists all")),
        );
    }
    for (words, result) in &recorded[before..] {
        add_codon(details, words, result.as_ref());
    }
}

/// Adds the codons of the newest attempt that has codons in the log; names that attempt if there were several.
fn add_codons_of_attempts(details: &mut Details, attempts: &[TaskExecution]) {
    let mut newest_first = attempts.iter().enumerate().rev();
    let Some((before, attempt)) = newest_first.find(|(_, attempt)| !attempt.codons.is_empty()) else {
        return;
    };
    if attempts.len() > 1 {
        let words = format!("that ended in attempt {} of {}", before + 1, attempts.len());
        details.add("codons", &json!(words));
    }
    for codon in &attempt.codons {
        add_codon(details, &codon_words(codon), codon.get("result"));
    }
}

fn add_codon(details: &mut Details, words: &str, result: Option<&Value>) {
    details.add("codon", &json!(words));
    if let Some(result) = result.filter(|result| !result.is_null()) {
        let result = excerpt(&result.to_string(), MOST_OF_RESULT);
        details.add("", &json!(format!("result: {result}")));
    }
}

/// Most codons of a record that are shown.
const MOST_CODONS: usize = 20;

/// Longest result of a codon that is shown, in bytes.
const MOST_OF_RESULT: usize = 200;

/// Adds why a task does not continue, and the commands that help.
fn add_outcome(details: &mut Details, registry: &Registry, row: &TaskRow, record: &Value, data: &Value) {
    let (id, status) = (row.id(), row.record.status());
    // A cancelled task has no error of its own; if a worker cancelled it, the reason is in the result.
    let error = match status {
        TaskStatus::Cancelled => &data["result"]["error"],
        _ => &record["error"],
    };
    match error.as_str().and_then(in_words) {
        Some(words) => details.add("error", &json!(words)),
        None => details.add("error", error),
    }
    let noted = row.record.metadata().get("error").and_then(Value::as_str);
    if let Some(words) = noted.and_then(in_words).filter(|_| status == TaskStatus::Pending) {
        details.add("requeued", &json!(words));
    }
    let failure = &record["failure"];
    for line in failure["lastLines"].as_array().into_iter().flatten() {
        details.add("", line);
    }
    let machine = machine_of_files(registry, row).map(|machine| format!("on {machine}: "));
    let command = failure["command"].as_str();
    let command = command.map(|command| format!("{}{command}", machine.unwrap_or_default()));
    details.add_whole("more", &json!(command));
    details.add_whole("continue", &json!(resume_command(registry, row)));
    details.add("", &json!(room_needed(registry, row)));
    details.add("result", &record["result"]["message"]);
    // The data of a worker's result are figures, which have lines of their own.
    if record["result"]["byHand"] == true {
        details.add("", &record["result"]["data"]);
    }
    details.add(
        "",
        &json!(needed_budget(row).and_then(|needed| needed.explanation())),
    );
    if let Some(question) = question(row) {
        details.add("asks", &json!(question));
        for (label, answer) in [("answer", "approve"), ("or", "deny")] {
            details.add_whole(label, &json!(registry.command(&format!("task {answer} {id}"))));
        }
    }
}

/// Prints the report of the task's runs.
pub(super) async fn report(global: &Global, registry: &Registry, id: &TaskId) -> Result<ExitCode, CliError> {
    let row = registry.task(id).await?;
    let own = registry.files(&row).run(|files| files.check_origin()).await;
    own.map_err(|error| registry.layer_failure(&error))?;
    let workspace = registry.workspace_of(&row);
    if !receipt::has_record(&workspace) {
        let name = one_line(row.record.name());
        let why = reason(&row).map(|reason| format!("; \"{name}\" is {}: {reason}", row.record.status()));
        let message = format!(
            "no run of {id} is recorded in {}{}",
            workspace.display(),
            why.unwrap_or_default()
        );
        let show = registry.command(&format!("task show {id}"));
        let there = registry.layers.missing(&row).map(|missing| missing.location);
        let there = there.map_or_else(String::new, |there| {
            format!("its report is {}; ", begun_elsewhere::place(&there))
        });
        return Err(CliError::new(CliErrorKind::Input, message)
            .hint(format!("{there}`{show}` shows what the registry knows")));
    }
    let holders = TaskHolders::of(registry, std::slice::from_ref(&row)).await?;
    let task = OwningTask::of(&workspace).map(|task| task.known_as(row, holders));
    receipt::print_report(global, &workspace, task, false)
}

/// Returns the outcome of a codon in the data of a task.
fn codon_words(codon: &Value) -> String {
    let ended = match (codon["outcome"].as_str(), codon["success"] == true) {
        (Some(outcome), _) => outcome,
        (None, true) => "completed",
        (None, false) => "failed",
    };
    let changed = match changed(codon["filesChanged"].as_u64()) {
        changed if changed.is_empty() => changed,
        changed => format!(", {changed}"),
    };
    let id = codon["id"].as_str().unwrap_or_default();
    let over = codon["overBudget"].as_str().map(|over| format!(", {over}"));
    format!(
        "{id} {ended}, {}{}{changed}",
        cost_of(codon),
        over.unwrap_or_default()
    )
}

/// Returns the last answer to a question, such as `publish approved by ann at 14:02`.
pub(super) fn last_answer(value: &Value) -> Option<String> {
    let approval: TaskApproval = serde_json::from_value(value.clone()).ok()?;
    let at = serde_json::from_value::<Timestamp>(value["at"].clone()).ok();
    let at = at.map(|at| format!(", at {}", local_time(at)));
    let sentence = approval.sentence();
    Some(format!(
        "{} {sentence}{}",
        approval.codon_id,
        at.unwrap_or_default()
    ))
}

/// Returns the cost of a codon in the data of a task.
fn cost_of(codon: &Value) -> String {
    let cost = codon["cost"].as_f64().unwrap_or_default();
    let is_lower_bound = codon["costIsLowerBound"] == true;
    Usd::from_dollars(cost).map_or_else(|_| dollars(cost), |cost| cost.display(is_lower_bound))
}

/// Formats an amount of money as in all commands.
fn dollars(amount: f64) -> String {
    format!("${amount:.4}")
}

pub(super) async fn decisions(
    global: &Global,
    registry: &Registry,
    args: &TaskDecisionsArgs,
) -> Result<ExitCode, CliError> {
    let row = registry.task(&args.task.id).await?;
    let page = registry.files(&row).run(|files| files.load_decisions()).await;
    let page = page.map_err(|error| registry.layer_failure(&error))?;
    let of_agent =
        |decision: &&AgentDecision| args.agent.as_ref().is_none_or(|agent| decision.agent == *agent);
    let wanted: Vec<&AgentDecision> = page.entries.iter().filter(of_agent).collect();
    let newest = &wanted[wanted.len().saturating_sub(args.limit)..];
    if global.json() {
        let decisions = newest.iter().map(|decision| {
            json!({
                "timestamp": decision.timestamp, "agent": decision.agent, "decision": decision.decision,
                "reasoning": decision.reasoning, "metadata": decision.metadata,
            })
        });
        return output::print_json(
            &json!({"decisions": decisions.collect::<Vec<_>>(), "broken": page.broken}),
        );
    }
    let mut text = String::new();
    for decision in newest {
        text.push_str(&format!(
            "{}  {}: {}\n",
            local_time(decision.timestamp),
            one_line(&decision.agent),
            one_line(&decision.decision)
        ));
        for line in decision.reasoning.lines() {
            text.push_str(&format!("    {line}\n"));
        }
    }
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}
