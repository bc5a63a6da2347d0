//! Reports of a worker to an engine that stores its task in place of a registry, such as Restate. The worker waits until the engine has recorded each
//! report (TASK-86).

use hankweave_core::document::HankweaveState;
use tokio::sync::{mpsc, oneshot};

/// Sender of a worker's reports to be recorded.
#[derive(Debug, Clone)]
pub struct Recorder(mpsc::Sender<RecordRequest>);

/// Receiver of a worker's reports.
#[derive(Debug)]
pub struct RecordRequests(mpsc::Receiver<RecordRequest>);

/// Report of a change. The worker continues when the request is dropped.
#[derive(Debug)]
#[non_exhaustive]
pub struct RecordRequest {
    /// History of the task's runs, up to the point from which another worker can continue; `None` if the report is that the task has taken a step in the
    /// coordinator.
    pub history: Option<HankweaveState>,
    /// Its drop wakes the worker.
    _done_sender: oneshot::Sender<()>,
}

impl Recorder {
    /// Creates both ends.
    #[must_use]
    pub fn new() -> (Self, RecordRequests) {
        let (sender, receiver) = mpsc::channel(1);
        (Self(sender), RecordRequests(receiver))
    }

    /// Waits until the report is recorded, or until the engine records no more.
    pub(crate) async fn record(&self, history: Option<HankweaveState>) {
        let (done_sender, request_dropped) = oneshot::channel();
        let report = RecordRequest {
            history,
            _done_sender: done_sender,
        };
        if self.0.send(report).await.is_ok() {
            // No value is ever sent: the drop of the request is the answer.
            let _ = request_dropped.await;
        }
    }
}

impl RecordRequests {
    /// Returns the next report; `None` once the worker no longer exists.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<RecordRequest> {
        self.0.recv().await
    }
}
