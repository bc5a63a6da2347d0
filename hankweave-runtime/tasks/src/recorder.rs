//! A worker beneath an engine waits until that has recorded what it did (TASK-86).

use tokio::sync::{mpsc, oneshot};

/// Where a worker tells that something is to be recorded.
#[derive(Debug, Clone)]
pub struct Recorder(mpsc::Sender<Report>);

/// What comes from the worker.
#[derive(Debug)]
pub struct Reports(mpsc::Receiver<Report>);

/// Something has changed: a step in the coordinator, or a codon has completed. The worker goes on when this is dropped.
#[derive(Debug)]
pub struct Report {
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
    pub(crate) async fn record(&self) {
        let (waits, recorded) = oneshot::channel();
        if self.0.send(Report { _waits: waits }).await.is_ok() {
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
