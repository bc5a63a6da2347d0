//! Writing of the registry's contents into a task's files (TASK-33, TASK-53).

use hankweave_task_model::LogEntry;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::task::TaskStatus;
use serde_json::Value;

use crate::coordinator::Coordinator;
use crate::layers::{LayerError, TaskFiles};

/// Writes the registry's log lines that the task's log lacks, and the status into the task's state, under the lock with this token. Returns the
/// number of the last written line. Another machine may have written lines that this one lacks.
///
/// # Errors
///
/// Returns the error of the registry or of the files. The next call writes what is missing.
pub async fn publish(
    coordinator: &dyn Coordinator,
    files: &TaskFiles,
    row: &TaskRow,
    token: Option<u64>,
) -> Result<u64, LayerError> {
    let behind = files.run(TaskFiles::log_seqs).await?;
    let whole = (1..).zip(&behind).take_while(|(due, seq)| due == *seq).count();
    let lines = coordinator.log_lines(row.id().clone(), whole as u64).await?;
    let status = row.record.status();
    files
        .run(move |files| {
            let is_lacking = |line: &&LogEntry| line.seq.is_none_or(|seq| !behind.contains(&seq));
            let lacking: Vec<LogEntry> = lines.iter().filter(is_lacking).cloned().collect();
            let known = files.load_state()?;
            if known.is_none_or(|state| state.status != status) {
                files.update_state(token, |state| {
                    state.status = status;
                    if let Some(codon) = state
                        .data
                        .get_mut("running")
                        .filter(|_| status != TaskStatus::Running)
                    {
                        *codon = Value::Null;
                    }
                })?;
            }
            files.append_log(&lacking)
        })
        .await?;
    Ok(row.log_seq)
}
