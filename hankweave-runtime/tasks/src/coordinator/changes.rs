//! Hints that something has changed.

use tokio::sync::watch;

/// Source of hints: every listener gets at least one after each change.
#[derive(Debug, Default)]
pub struct Hints(watch::Sender<u64>);

impl Hints {
    /// Wakes every listener.
    pub fn notify(&self) {
        self.0.send_modify(|number| *number = number.wrapping_add(1));
    }

    /// Listens from now on.
    #[must_use]
    pub fn listen(&self) -> Changes {
        Changes(self.0.subscribe())
    }
}

/// Listener for hints.
#[derive(Debug, Clone)]
pub struct Changes(watch::Receiver<u64>);

impl Changes {
    /// Waits for a hint after the last one that was returned here; for ever, when none can come any more.
    ///
    /// # Cancel safety
    ///
    /// A hint that comes while nobody waits is returned at the next call.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
