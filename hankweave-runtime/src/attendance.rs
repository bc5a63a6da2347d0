//! Who is there while a run goes on.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// How long a run waits for somebody to come back before it takes itself to be alone.
const ABSENCE: Duration = Duration::from_secs(60);

/// Counts those who are there; every clone is the same count.
#[derive(Debug, Clone)]
pub(crate) struct Attendance(Arc<watch::Sender<usize>>);

/// Somebody who is there, until this is dropped.
#[derive(Debug)]
pub(crate) struct Attendee(Attendance);

impl Attendance {
    /// Nobody is there yet.
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    /// Somebody comes.
    pub(crate) fn arrive(&self) -> Attendee {
        self.0.send_modify(|count| *count += 1);
        Attendee(self.clone())
    }

    /// Whether somebody is there.
    pub(crate) fn is_anybody_there(&self) -> bool {
        *self.0.borrow() > 0
    }

    /// Waits until somebody is there.
    pub(crate) async fn somebody(&self) {
        // The sender is `self`, so the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|count| *count > 0).await;
    }

    /// Waits until nobody is there.
    pub(crate) async fn nobody(&self) {
        // The sender is `self`, so the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Waits until everybody has been gone for a minute.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped; the minute begins anew.
    pub(crate) async fn deserted(&self) {
        let mut count = self.0.subscribe();
        loop {
            // The sender is `self`, so neither wait can fail.
            let _ = count.wait_for(|count| *count == 0).await;
            let back = count.wait_for(|count| *count > 0);
            if tokio::time::timeout(ABSENCE, back).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Attendee {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_run_is_deserted_a_minute_after_the_last_one_left() {
        let attendance = Attendance::new();
        let somebody = attendance.arrive();
        assert!(attendance.is_anybody_there());
        let begin = tokio::time::Instant::now();
        let come_and_go = async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            drop(somebody);
            tokio::time::sleep(Duration::from_secs(59)).await;
            let again = attendance.arrive();
            tokio::time::sleep(Duration::from_secs(100)).await;
            drop(again);
        };
        tokio::join!(come_and_go, attendance.deserted());
        assert_eq!(begin.elapsed(), Duration::from_secs(10 + 59 + 100 + 60));
        assert!(!attendance.is_anybody_there());
    }
}
