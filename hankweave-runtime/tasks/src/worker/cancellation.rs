//! Cancellation requests for a task (TASK-57).

use std::time::Duration;

use hankweave_core::id::TaskId;
use tokio::time::sleep;

use crate::coordinator::Coordinator;

/// Waits until a user asks to cancel a task. Checks after each hint, and every `look` without one. Keeps waiting while the registry does not answer.
pub async fn called_off(coordinator: &dyn Coordinator, id: &TaskId, look: Duration) {
    let mut changes = coordinator.changes();
    loop {
        if let Ok(Some(row)) = coordinator.task(id.clone()).await
            && row.cancel_requested_at.is_some()
        {
            return;
        }
        tokio::select! {
            () = changes.next() => {}
            () = sleep(look) => {}
        }
    }
}
