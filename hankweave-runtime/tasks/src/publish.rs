//! Copies the registry's log lines and status of a task into the task's files (TASK-33, TASK-53). Called by the holder of the task's lock after a step,
//! and for steps whose worker was lost before doing so.

use hankweave_task_model::LogEntry;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::task::TaskStatus;
use serde_json::Value;

use crate::coordinator::Coordinator;
use crate::layers::{LayerError, TaskFiles};

/// Writes the registry's log lines that the task's log lacks, and the status into the task's state, under the lock with this token. Returns the
/// number of the row's last line. The log may lack lines in the middle, which another machine has written into its own copy.
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
    let logged = files.run(TaskFiles::log_seqs).await?;
    let without_gap = (1..)
        .zip(&logged)
        .take_while(|(expected, seq)| expected == *seq)
        .count();
    let lines = coordinator
        .log_lines(row.id().clone(), without_gap as u64)
        .await?;
    let status = row.record.status();
    files
        .run(move |files| {
            let is_missing = |line: &&LogEntry| line.seq.is_none_or(|seq| !logged.contains(&seq));
            let missing: Vec<LogEntry> = lines.iter().filter(is_missing).cloned().collect();
            let stored = files.load_state()?;
            if stored.is_none_or(|state| state.status != status) {
                files.update_state(token, |state| {
                    state.status = status;
                    // A lost worker may have left the codon that was running.
                    if status != TaskStatus::Running
                        && let Some(codon) = state.data.get_mut("running")
                    {
                        *codon = Value::Null;
                    }
                })?;
            }
            files.append_log(&missing)
        })
        .await?;
    Ok(row.log_seq)
}
