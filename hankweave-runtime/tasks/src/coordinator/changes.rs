//! Hints to listeners that tasks or locks may have changed.

use tokio::sync::watch;

/// Source of hints. Every listener gets at least one after each change.
#[derive(Debug, Default)]
pub struct Hints(watch::Sender<u64>);

impl Hints {
    /// Wakes every listener.
    pub fn notify(&self) {
        self.0.send_modify(|number| *number = number.wrapping_add(1));
    }

    /// Returns a listener for hints from now on.
    #[must_use]
    pub fn listen(&self) -> Changes {
        Changes(self.0.subscribe())
    }
}

/// Listener for hints.
#[derive(Debug, Clone)]
pub struct Changes(watch::Receiver<u64>);

impl Changes {
    /// Waits for a hint newer than the last one that this listener returned. Never returns once all sources are dropped.
    ///
    /// # Cancel safety
    ///
    /// A hint that arrives between two calls is returned by the next call.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
