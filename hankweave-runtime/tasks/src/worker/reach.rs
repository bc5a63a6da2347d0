//! Reachability of a worker's remote. While the remote is away, the worker claims no tasks (TASK-119).

use std::time::Duration;

use hankweave_remote::list;
use hankweave_runtime::error::chain;
use hankweave_runtime::world::World;
use tokio::time::Instant;

use super::carry::is_temporary;

/// First and longest pause before the remote is asked again.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Pauses between attempts to reach the remote: twice as long each time, up to a limit.
#[derive(Debug)]
pub(super) struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Pauses {
    /// Returns the pause before the next attempt.
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (2 * pause).min(LONGEST_PAUSE);
        pause
    }
}

/// Reachability of the remote.
#[derive(Debug)]
pub(super) struct RemoteBackoff {
    /// Time at which to ask the remote again; `None` while it is reachable as far as is known.
    ask_at: Option<Instant>,
    pauses: Pauses,
}

impl RemoteBackoff {
    /// Creates the state of a reachable remote. A `doubted` remote is asked before anything else.
    pub(super) fn new(doubted: bool) -> Self {
        Self {
            ask_at: doubted.then(Instant::now),
            pauses: Pauses::default(),
        }
    }

    /// Notes that a run could not be fetched, or that the remote does not answer.
    pub(super) fn mark_lost(&mut self) {
        self.ask_at = Some(Instant::now() + self.pauses.next());
    }

    /// Notes that a run was fetched, or did not have to be.
    pub(super) fn mark_found(&mut self) {
        self.pauses = Pauses::default();
    }

    /// Whether the remote is reachable, as far as is known. Asks the remote when that is due.
    pub(super) async fn is_reachable(&mut self, world: &World, url: Option<&str>) -> bool {
        let (Some(ask_at), Some(url)) = (self.ask_at, url) else {
            return true;
        };
        if Instant::now() < ask_at {
            return false;
        }
        if let Err(error) = list(world, url).await
            && is_temporary(&error)
        {
            let error = chain(&error);
            tracing::warn!(
                error,
                "the remote does not answer; no task is claimed before it does"
            );
            self.mark_lost();
            return false;
        }
        // An error that does not pass is no reason to wait. The job that needs the remote reports it.
        tracing::info!("the remote answers again");
        self.ask_at = None;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TASK-119
    #[tokio::test(start_paused = true)]
    async fn a_remote_that_is_away_is_asked_after_pauses_that_double_up_to_a_minute() {
        let (mut reach, began) = (RemoteBackoff::new(false), Instant::now());
        let url = Some("/nowhere/that/is/asked.git");
        assert!(reach.is_reachable(&World::real(), url).await);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            reach.mark_lost();
            assert!(!reach.is_reachable(&World::real(), url).await, "it is not due");
            pauses.extend(reach.ask_at.map(|again| (again - began).as_secs()));
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60]);
        reach.mark_found();
        reach.mark_lost();
        assert_eq!(reach.ask_at, Some(began + FIRST_PAUSE));
    }
}
