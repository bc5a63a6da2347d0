//! Page about a task for people, `Plan.md`: description, attempts and outcome (TASK-108).

use std::fmt::{self, Display, Write};

use hankweave_core::cost::Usd;
use hankweave_core::text::blank_controls;

use crate::executions::{AttemptCost, TaskExecution, executions};
use crate::logs::LogEntry;
use crate::registry::{TaskCost, TaskRow};
use crate::task::{TaskRecord, TaskStatus};

/// Returns the page about a task and its log, in Markdown. It depends only on these two, so the page changes only when they do.
#[must_use]
pub fn plan(row: &TaskRow, log: &[LogEntry]) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(&mut page, row, log);
    page
}

fn write_page(page: &mut String, row: &TaskRow, log: &[LogEntry]) -> fmt::Result {
    let attempts = executions(log);
    write_head(page, row)?;
    for (number, attempt) in (1..).zip(&attempts) {
        write_attempt(page, number, attempt)?;
    }
    write_outcome(page, row, &attempts)
}

fn write_head(page: &mut String, row: &TaskRow) -> fmt::Result {
    let record = &row.record;
    writeln!(page, "# Plan: {}\n", blank_controls(record.name()))?;
    item(page, "Task", row.id())?;
    item(page, "Owner", record.owner())?;
    item(page, "Created", record.created_at())?;
    item(page, "Status", record.status())?;
    if let Some(hank) = record.metadata().get("run").and_then(|run| run["hank"].as_str()) {
        item(page, "Hank", hank)?;
    }
    for line in record.description().iter().flat_map(|text| text.lines()) {
        write!(page, "\n> {}", blank_controls(line))?;
    }
    if record.description().is_some() {
        writeln!(page)?;
    }
    writeln!(page, "\n## Metadata\n")?;
    write_json(page, record.metadata())
}

fn write_attempt(page: &mut String, number: usize, attempt: &TaskExecution) -> fmt::Result {
    let status = attempt.outcome();
    writeln!(page, "\n## Attempt {number}: {status}\n")?;
    item(page, "Agent", &attempt.agent_id)?;
    if attempt.by_hand {
        item(page, "By hand", "no worker ran it")?;
    }
    item(page, "Started", attempt.started_at)?;
    if let Some(ended) = attempt.ended_at {
        item(page, "Ended", ended)?;
    }
    if let Some(error) = &attempt.error {
        item(page, "Error", error)?;
    }
    for codon in attempt.logged_codons() {
        let cost = codon.cost.display(codon.is_lower_bound);
        let name = format!("Codon {}", blank_controls(codon.id));
        item(page, name, format!("{}, {cost}", codon.outcome))?;
    }
    item(page, "Cost", attempt.cost().words(Usd::display))
}

/// Writes the outcome of a task that has ended; writes nothing for another task.
fn write_outcome(page: &mut String, row: &TaskRow, attempts: &[TaskExecution]) -> fmt::Result {
    let status = row.record.status();
    if matches!(
        status,
        TaskStatus::Pending | TaskStatus::Running | TaskStatus::Waiting
    ) {
        return Ok(());
    }
    writeln!(page, "\n## Outcome: {status}\n")?;
    item(page, "Attempts", attempts.len())?;
    let noted = TaskCost::of(&row.record).map(|noted| noted.cost.display(noted.cost_is_lower_bound));
    item(page, "Cost", noted.unwrap_or_else(|| sum_of_costs(attempts)))?;
    match &row.record {
        TaskRecord::Completed(completed) => {
            writeln!(page)?;
            write_json(page, &completed.result)
        }
        _ => Ok(()),
    }
}

/// Returns the sum of the attempts' costs, or `-` if nothing was counted. For tasks of older versions, whose registry stores no cost.
fn sum_of_costs(attempts: &[TaskExecution]) -> String {
    let (mut sum, mut is_lower_bound) = (None, false);
    for attempt in attempts {
        match attempt.cost() {
            AttemptCost::Uncounted => {}
            AttemptCost::Unknown => is_lower_bound = true,
            AttemptCost::Known {
                cost,
                is_lower_bound: may_be_more,
            } => {
                sum = Some(sum.unwrap_or(Usd::ZERO) + cost);
                is_lower_bound |= may_be_more;
            }
        }
    }
    match sum {
        None if !is_lower_bound => "-".to_owned(),
        sum => sum.unwrap_or(Usd::ZERO).display(is_lower_bound),
    }
}

/// Writes a list item, in one line.
fn item(page: &mut String, name: impl Display, value: impl Display) -> fmt::Result {
    writeln!(page, "- **{name}**: {}", blank_controls(&value.to_string()))
}

fn write_json(page: &mut String, value: &impl serde::Serialize) -> fmt::Result {
    // No text in it can close the fence: pretty JSON escapes line ends, so none of its lines begins with backticks.
    let text = serde_json::to_string_pretty(value).map_err(|_| fmt::Error)?;
    writeln!(page, "```json\n{text}\n```")
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::TaskId;
    use hankweave_core::time::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::logs::LogLevel;
    use crate::registry::{NewTask, Patch, RegistryChange};
    use crate::task::{Complete, Fail, Start, TaskTransition};

    /// Task with its log, to which the tests add steps.
    struct Story {
        row: TaskRow,
        log: Vec<LogEntry>,
    }

    impl Story {
        fn new() -> Self {
            let mut task = NewTask::new(TaskId::new("report-7").unwrap());
            task.name = "Write\n# the report".to_owned();
            task.description = Some("In two parts.\n\u{1b}[2J```".to_owned());
            task.metadata
                .insert("run".to_owned(), json!({"hank": "/hanks/report"}));
            let (row, created) = TaskRow::new(task, 1, Timestamp::from_millis(0));
            let log = vec![created];
            Self { row, log }
        }

        fn step(&mut self, step: TaskTransition) {
            self.step_with(step, None);
        }

        /// Ends an attempt. `cost` has the costs of all attempts and of the last one, in millionths of a dollar.
        fn end(&mut self, step: TaskTransition, [cost, last_attempt_cost]: [u64; 2]) {
            let cost = TaskCost {
                cost: Usd::from_micros(cost),
                last_attempt_cost: Usd::from_micros(last_attempt_cost),
                ..TaskCost::default()
            };
            self.step_with(step, Some(cost));
        }

        fn step_with(&mut self, step: TaskTransition, cost: Option<TaskCost>) {
            let change = RegistryChange {
                id: self.row.id().clone(),
                expected_version: self.row.version,
                token: 1,
                steps: vec![step],
                cost,
                approval: None,
                by: None,
                lease: None,
                files: Patch::Keep,
            };
            let now = Timestamp::from_millis(1000 * i64::try_from(self.log.len()).unwrap());
            let changed = self.row.change(&change, now).unwrap();
            self.row = changed.row;
            self.log.extend(changed.lines);
        }

        fn start(&mut self) {
            let agent_id = hankweave_core::id::AgentId::new("w1").unwrap();
            self.step(TaskTransition::Start(Start {
                agent_id,
                by_hand: false,
            }));
        }

        fn codon(&mut self, success: bool) {
            self.log.push(LogEntry {
                timestamp: Timestamp::from_millis(1),
                level: LogLevel::Info,
                message: "Codon draft ended".to_owned(),
                data: Some(json!({"id": "draft", "success": success, "cost": 0.25, "duration": 7})),
                seq: None,
            });
        }

        fn page(&self) -> String {
            plan(&self.row, &self.log)
        }
    }

    // covers: TASK-108
    #[test]
    fn a_plan_tells_what_a_task_is_each_attempt_and_the_outcome_in_the_end() {
        let mut story = Story::new();
        let before = "# Plan: Write # the report\n\n- **Task**: report-7\n- **Owner**: system\n\
            - **Created**: 1970-01-01T00:00:00.000Z\n- **Status**: pending\n- **Hank**: /hanks/report\n\n\
            > In two parts.\n>  [2J```\n\n## Metadata\n\n```json\n{\n  \"run\": {\n    \"hank\": \"/hanks/report\"\n  }\n}\n```\n";
        assert_eq!(story.page(), before);
        story.start();
        story.codon(false);
        let fail = TaskTransition::Fail(Fail {
            error: "no\nink".to_owned(),
            failure: None,
        });
        // An interrupted codon cost $0.05 and has no line in the log.
        story.end(fail, [300_000, 300_000]);
        let failed = "\n## Attempt 1: failed\n\n- **Agent**: w1\n- **Started**: 1970-01-01T00:00:01.000Z\n\
            - **Ended**: 1970-01-01T00:00:03.000Z\n- **Error**: no ink\n- **Codon draft**: failed, $0.2500\n- **Cost**: $0.3000\n";
        assert!(story.page().contains(failed), "{}", story.page());
        assert!(
            story
                .page()
                .ends_with("## Outcome: failed\n\n- **Attempts**: 1\n- **Cost**: $0.3000\n")
        );
        story.step(TaskTransition::Resume);
        assert!(story.page().contains(failed) && !story.page().contains("Outcome"));
        story.start();
        story.codon(true);
        let result = serde_json::from_value(json!({"success": true})).unwrap();
        story.end(TaskTransition::Complete(Complete { result }), [550_000, 250_000]);
        let page = story.page();
        assert!(
            page.contains("## Attempt 2: completed\n") && page.contains(failed),
            "{page}"
        );
        let end = "## Outcome: completed\n\n- **Attempts**: 2\n- **Cost**: $0.5500\n\n```json\n{\n  \"success\": true\n}\n```\n";
        assert!(page.ends_with(end), "{page}");
        assert_eq!(page.matches("## Attempt").count(), 2);
    }

    /// Costs from the registry override those of codons, and an attempt by hand has none.
    // covers: TASK-108, TASK-121
    #[test]
    fn costs_of_a_plan_are_those_that_were_noted() {
        let mut story = Story::new();
        story.start();
        story.codon(true);
        let lost = TaskCost {
            cost: Usd::from_micros(700_000),
            last_attempt_cost: Usd::from_micros(700_000),
            last_attempt_cost_is_lower_bound: true,
            cost_is_lower_bound: true,
            ..TaskCost::default()
        };
        let fail = Fail {
            error: "DETACHED".to_owned(),
            failure: None,
        };
        story.step_with(TaskTransition::Fail(fail), Some(lost));
        story.step(TaskTransition::Resume);
        let agent_id = hankweave_core::id::AgentId::new("ann").unwrap();
        let by_hand = true;
        story.step(TaskTransition::Start(Start { agent_id, by_hand }));
        let result = serde_json::from_value(json!({"success": true, "byHand": true})).unwrap();
        story.step(TaskTransition::Complete(Complete { result }));
        let page = story.page();
        for part in [
            "- **Codon draft**: completed, $0.2500\n- **Cost**: at least $0.7000\n",
            "- **Agent**: ann\n- **By hand**: no worker ran it\n",
            "\n- **Cost**: -\n\n## Outcome: completed\n\n- **Attempts**: 2\n- **Cost**: at least $0.7000\n",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
