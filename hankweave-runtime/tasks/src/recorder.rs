//! A worker beneath an engine waits until that has recorded what it did (TASK-86).

use hankweave_core::document::HankweaveState;
use tokio::sync::{mpsc, oneshot};

/// Sender of a worker's reports to be recorded.
#[derive(Debug, Clone)]
pub struct Recorder(mpsc::Sender<RecordRequest>);

/// Receiver of a worker's reports.
#[derive(Debug)]
pub struct RecordRequests(mpsc::Receiver<RecordRequest>);

/// Something has changed. The worker continues when this is dropped.
#[derive(Debug)]
#[non_exhaustive]
pub struct RecordRequest {
    /// Results of its runs, as far as another worker can continue them; `None` when the task has taken a step in the coordinator.
    pub history: Option<HankweaveState>,
    _done_sender: oneshot::Sender<()>,
}

impl Recorder {
    /// Both ends.
    #[must_use]
    pub fn new() -> (Self, RecordRequests) {
        let (sender, receiver) = mpsc::channel(1);
        (Self(sender), RecordRequests(receiver))
    }

    /// Waits until it is recorded, or until nobody records any more.
    pub(crate) async fn record(&self, history: Option<HankweaveState>) {
        let (done_sender, done) = oneshot::channel();
        let report = RecordRequest {
            history,
            _done_sender: done_sender,
        };
        if self.0.send(report).await.is_ok() {
            // Nothing is ever sent: the end of the report is the answer.
            let _ = done.await;
        }
    }
}

impl RecordRequests {
    /// The next report; `None` when the worker is gone.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<RecordRequest> {
        self.0.recv().await
    }
}
