//! Whether somebody wants a task to stop (TASK-57).

use std::convert::Infallible;
use std::time::Duration;

use hankweave_core::id::TaskId;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::coordinator::Coordinator;

/// Looks at each hint and every now and then, and tells it.
pub(super) async fn watch(
    coordinator: &dyn Coordinator,
    id: &TaskId,
    look: Duration,
    called_off: &CancellationToken,
) -> Infallible {
    let mut changes = coordinator.changes();
    loop {
        if let Ok(Some(row)) = coordinator.task(id.clone()).await
            && row.cancel_requested_at.is_some()
        {
            called_off.cancel();
        }
        tokio::select! {
            () = changes.next() => {}
            () = sleep(look) => {}
        }
    }
}
