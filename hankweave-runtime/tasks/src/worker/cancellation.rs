//! Whether somebody wants a task to stop (TASK-57).

use std::time::Duration;

use hankweave_core::id::TaskId;
use tokio::time::sleep;

use crate::coordinator::Coordinator;

/// Waits until somebody asks for the end of a task: looks at each hint, and every `look` without one. While the registry does not answer it continues waiting.
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
