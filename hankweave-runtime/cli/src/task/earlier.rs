//! Earlier tasks, which must complete before a task may start (TASK-124): what a pending task waits for, and the commands that help if it waits in
//! vain because one of them failed or was cancelled.

use std::collections::{BTreeMap, BTreeSet};

use hankweave_core::id::TaskId;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::task::TaskStatus;

use super::reasons::resume_command;
use crate::registry::Registry;
use crate::terminal::exit::CliError;

/// Reads earlier tasks, each once.
pub(crate) struct EarlierTasks<'r> {
    registry: &'r Registry,
    /// Tasks that were read; `None` for a deleted one.
    known: BTreeMap<TaskId, Option<TaskRow>>,
}

impl<'r> EarlierTasks<'r> {
    /// `rows` are tasks that the caller has read already.
    pub(crate) fn new(registry: &'r Registry, rows: &[TaskRow]) -> Self {
        let known = rows.iter().map(|row| (row.id().clone(), Some(row.clone())));
        Self {
            registry,
            known: known.collect(),
        }
    }

    async fn task(&mut self, id: &TaskId) -> Result<Option<TaskRow>, CliError> {
        if let Some(known) = self.known.get(id) {
            return Ok(known.clone());
        }
        let read = self.registry.coordinator.task(id.clone()).await;
        let row = read.map_err(|error| self.registry.failure(&error))?;
        self.known.insert(id.clone(), row.clone());
        Ok(row)
    }

    /// Returns the earlier tasks of a task in words, each with its status; `None` without any.
    pub(super) async fn listed(&mut self, row: &TaskRow) -> Result<Option<String>, CliError> {
        self.listed_if(row, |_| true).await
    }

    /// Returns the earlier tasks that have not completed, in words, each with its status; `None` without any.
    pub(super) async fn awaited(&mut self, row: &TaskRow) -> Result<Option<String>, CliError> {
        // A deleted task had completed.
        let waits =
            |row: Option<&TaskRow>| row.is_some_and(|row| row.record.status() != TaskStatus::Completed);
        self.listed_if(row, waits).await
    }

    async fn listed_if(
        &mut self,
        row: &TaskRow,
        is_wanted: impl Fn(Option<&TaskRow>) -> bool,
    ) -> Result<Option<String>, CliError> {
        let mut earlier = Vec::new();
        for id in &row.after {
            let known = self.task(id).await?;
            if is_wanted(known.as_ref()) {
                let status = known.map_or("deleted", |row| row.record.status().as_str());
                earlier.push(format!("{id} ({status})"));
            }
        }
        Ok((!earlier.is_empty()).then(|| earlier.join(", ")))
    }

    /// Returns why a pending task waits in vain, and the commands that help: `blocked: waits for red, which failed; …`. `None` if nothing blocks it.
    pub(crate) async fn blocked(&mut self, row: &TaskRow) -> Result<Option<String>, CliError> {
        let chains = self.chains_to_ended(row).await?;
        let (mut waits, mut resume) = (Vec::new(), Vec::new());
        for (last, between) in chains.iter().filter_map(|chain| chain.split_last()) {
            let between: String = between
                .iter()
                .map(|row| format!("{}, which waits for ", row.id()))
                .collect();
            let ended = match last.record.status() {
                TaskStatus::Failed => "failed",
                _ => "was cancelled",
            };
            waits.push(format!("{between}{}, which {ended}", last.id()));
            resume.extend(resume_command(self.registry, last).map(|command| format!("`{command}`")));
        }
        let blocked = || {
            format!(
                "blocked: waits for {}; {}",
                waits.join(", and for "),
                resume.join(" and ")
            )
        };
        Ok((!waits.is_empty()).then(blocked))
    }

    /// Returns the chains of tasks that keep `row` waiting in vain. Each begins with an earlier task of `row` and ends with a task that failed or was
    /// cancelled. The shortest chains come first.
    async fn chains_to_ended(&mut self, row: &TaskRow) -> Result<Vec<Vec<TaskRow>>, CliError> {
        let mut ended = Vec::new();
        if row.record.status() != TaskStatus::Pending {
            return Ok(ended);
        }
        // Each task is visited once, so that the walk ends.
        let (mut seen, mut next) = (BTreeSet::new(), vec![vec![row.clone()]]);
        while !next.is_empty() {
            let mut farther = Vec::new();
            for chain in next {
                let Some(end) = chain.last() else { continue };
                for id in end.after.clone() {
                    let Some(earlier) = self.task(&id).await?.filter(|_| seen.insert(id)) else {
                        continue;
                    };
                    let status = earlier.record.status();
                    let mut chain = chain.clone();
                    chain.push(earlier);
                    match status {
                        TaskStatus::Failed | TaskStatus::Cancelled => ended.push(chain.split_off(1)),
                        TaskStatus::Pending => farther.push(chain),
                        _ => {}
                    }
                }
            }
            next = farther;
        }
        Ok(ended)
    }
}
