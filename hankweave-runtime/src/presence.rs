//! Number of connected clients that may send commands, during a run.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// How long a run without a client waits for one to come back, before the run counts as unattended.
const ABSENCE: Duration = Duration::from_secs(60);

/// Counts clients; clones share one count.
#[derive(Debug, Clone)]
pub(crate) struct ClientCount(Arc<watch::Sender<usize>>);

/// One client that is counted, until this is dropped.
#[derive(Debug)]
pub(crate) struct PresenceGuard(ClientCount);

impl ClientCount {
    /// No client yet.
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    /// Counts one more client.
    pub(crate) fn enter(&self) -> PresenceGuard {
        self.0.send_modify(|count| *count += 1);
        PresenceGuard(self.clone())
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self.0.borrow() == 0
    }

    /// Waits until there is a client.
    pub(crate) async fn present(&self) {
        // The sender is `self`, so the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|count| *count > 0).await;
    }

    /// Waits until no client is counted.
    pub(crate) async fn absent(&self) {
        // The sender is `self`, so the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Waits until there has been no client for a minute.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped; the minute starts again.
    pub(crate) async fn deserted(&self) {
        loop {
            self.absent().await;
            if tokio::time::timeout(ABSENCE, self.present()).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for PresenceGuard {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_run_is_deserted_a_minute_after_the_last_one_left() {
        let presence = ClientCount::new();
        let first = presence.enter();
        assert!(!presence.is_empty());
        let begin = tokio::time::Instant::now();
        let come_and_go = async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            drop(first);
            tokio::time::sleep(Duration::from_secs(59)).await;
            let again = presence.enter();
            tokio::time::sleep(Duration::from_secs(100)).await;
            drop(again);
        };
        tokio::join!(come_and_go, presence.deserted());
        assert_eq!(begin.elapsed(), Duration::from_secs(10 + 59 + 100 + 60));
        assert!(presence.is_empty());
    }
}
