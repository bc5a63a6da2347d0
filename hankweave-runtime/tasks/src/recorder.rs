//! A worker beneath an engine waits until that has recorded what it did (TASK-86).

use hankweave_core::document::HankweaveState;
use tokio::sync::{mpsc, oneshot};

/// Where a worker tells that something is to be recorded.
#[derive(Debug, Clone)]
pub struct Recorder(mpsc::Sender<Report>);

/// What comes from the worker.
#[derive(Debug)]
pub struct Reports(mpsc::Receiver<Report>);

/// Something has changed. The worker goes on when this is dropped.
#[derive(Debug)]
pub struct Report {
    /// What its runs have come to, as far as that is there for whoever takes over; `None` when the task has taken a step in the coordinator.
    pub history: Option<HankweaveState>,
    _waits: oneshot::Sender<()>,
}

impl Recorder {
    /// Both ends.
    #[must_use]
    pub fn new() -> (Self, Reports) {
        let (sender, receiver) = mpsc::channel(1);
        (Self(sender), Reports(receiver))
    }

    /// Waits until it is recorded, or until nobody records any more.
    pub(crate) async fn record(&self, history: Option<HankweaveState>) {
        let (waits, recorded) = oneshot::channel();
        let report = Report {
            history,
            _waits: waits,
        };
        if self.0.send(report).await.is_ok() {
            // Nothing is ever sent: the end of the report is the answer.
            let _ = recorded.await;
        }
    }
}

impl Reports {
    /// The next report; `None` when the worker is gone.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<Report> {
        self.0.recv().await
    }
}
