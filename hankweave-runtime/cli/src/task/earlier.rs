//! Earlier tasks that must complete first: what a pending task waits for, and what to type where it waits in vain (TASK-124).

use std::collections::{BTreeMap, BTreeSet};

use hankweave_core::id::TaskId;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::task::TaskStatus;

use super::show::resume_command;
use crate::exit::CliError;
use crate::registry::Registry;

/// Tasks that were read, by id; `None` for one that was deleted.
pub(crate) struct EarlierTasks<'r> {
    registry: &'r Registry,
    known: BTreeMap<TaskId, Option<TaskRow>>,
}

impl<'r> EarlierTasks<'r> {
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

    /// Returns the earlier tasks of a task, each with its status.
    pub(super) async fn listed(&mut self, row: &TaskRow) -> Result<Option<String>, CliError> {
        let mut earlier = Vec::new();
        for id in &row.after {
            let known = self.task(id).await?;
            let status = known.map_or("deleted", |row| row.record.status().as_str());
            earlier.push(format!("{id} ({status})"));
        }
        Ok((!earlier.is_empty()).then(|| earlier.join(", ")))
    }

    /// Returns why a pending task waits in vain, and the command that helps: `blocked: waits for red, which failed; …`. `None` if nothing blocks it.
    pub(crate) async fn blocked(&mut self, row: &TaskRow) -> Result<Option<String>, CliError> {
        let Some(chain) = self.chain_to_ended(row).await? else {
            return Ok(None);
        };
        let Some((last, between)) = chain.split_last() else {
            return Ok(None);
        };
        let waits: String = between
            .iter()
            .map(|row| format!("{}, which waits for ", row.id()))
            .collect();
        let ended = match last.record.status() {
            TaskStatus::Failed => "failed",
            _ => "was cancelled",
        };
        let resume = resume_command(self.registry, last).unwrap_or_default();
        Ok(Some(format!(
            "blocked: waits for {waits}{}, which {ended}; `{resume}`",
            last.id()
        )))
    }

    /// Returns the nearest earlier task that failed or was cancelled, after those between it and `row`.
    async fn chain_to_ended(&mut self, row: &TaskRow) -> Result<Option<Vec<TaskRow>>, CliError> {
        if row.record.status() != TaskStatus::Pending {
            return Ok(None);
        }
        // Nearest first; each task comes once, so that the walk ends.
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
                        TaskStatus::Failed | TaskStatus::Cancelled => return Ok(Some(chain.split_off(1))),
                        TaskStatus::Pending => farther.push(chain),
                        _ => {}
                    }
                }
            }
            next = farther;
        }
        Ok(None)
    }
}
