//! Liveness of a client: whether it is still connected and reads, known only from the messages that it sends and its answers to pings (WIRE-21, WIRE-34).
//! `client` asks when to ping it and when to disconnect it, and how long a server that stops waits for it.

use std::time::Duration;

use tokio::time::Instant;

use super::limits::ServerLimits;
use crate::presence::{ClientCount, PresenceGuard};

/// Facts about one client's liveness.
#[derive(Debug)]
pub(super) struct Liveness {
    /// When the client last sent a frame.
    received: Instant,
    /// Since when a ping is unanswered.
    pinged: Option<Instant>,
    state: LivenessState,
    /// Counts the client among those that are unproven, or among those that are responsive.
    counted: Option<PresenceGuard>,
}

/// Whether a client is known to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LivenessState {
    /// There was no handshake yet.
    NoHandshake,
    /// Not known yet: it has sent nothing since its handshake.
    Unproven,
    /// It has sent a frame since its handshake, so it reads as well.
    Responsive,
    /// It has sent nothing since its handshake, and has left its first ping unanswered for too long or takes no bytes.
    Unresponsive,
}

/// Action for a client at some moment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LivenessAction {
    /// Nothing.
    Fine,
    /// It is pinged.
    Ping,
    /// It is disconnected.
    Silent,
}

impl Liveness {
    pub(super) fn new() -> Self {
        Self {
            received: Instant::now(),
            pinged: None,
            state: LivenessState::NoHandshake,
            counted: None,
        }
    }

    /// Notes the handshake of the client, which counts as unproven from then on.
    pub(super) fn enter(&mut self, unproven: &ClientCount) {
        if self.state == LivenessState::NoHandshake {
            self.state = LivenessState::Unproven;
            self.counted = Some(unproven.enter());
        }
    }

    /// Notes that the client sent a frame. After its handshake it counts as responsive from then on.
    pub(super) fn received(&mut self, responsive: &ClientCount) {
        (self.received, self.pinged) = (Instant::now(), None);
        if let LivenessState::Unproven | LivenessState::Unresponsive = self.state {
            self.state = LivenessState::Responsive;
            self.counted = Some(responsive.enter());
        }
    }

    /// Notes that the client was pinged.
    pub(super) fn pinged(&mut self) {
        self.pinged = Some(Instant::now());
    }

    /// Whether a ping may prove that the client reads, and none is unanswered.
    pub(super) fn wants_ping(&self) -> bool {
        self.state == LivenessState::Unproven && self.pinged.is_none()
    }

    /// When the client must be checked next.
    pub(super) fn next_check(&self, limits: &ServerLimits) -> Instant {
        let Some(pinged) = self.pinged else {
            return self.received + limits.silence / 2;
        };
        let silent = self.received + limits.silence;
        match self.state {
            LivenessState::Unproven => silent.min(pinged + limits.first_pong),
            _ => silent,
        }
    }

    /// Returns what to do about the time for which the client has sent nothing.
    pub(super) fn check(&mut self, limits: &ServerLimits) -> LivenessAction {
        let is_overdue = self
            .pinged
            .is_some_and(|pinged| pinged.elapsed() >= limits.first_pong);
        if self.state == LivenessState::Unproven && is_overdue {
            self.give_up();
        }
        let silence = self.received.elapsed();
        match self.pinged {
            _ if silence >= limits.silence => LivenessAction::Silent,
            None if silence >= limits.silence / 2 => LivenessAction::Ping,
            _ => LivenessAction::Fine,
        }
    }

    /// Counts the client as unresponsive.
    pub(super) fn give_up(&mut self) {
        (self.state, self.counted) = (LivenessState::Unresponsive, None);
    }

    /// How long the client may take no bytes when the server stops.
    pub(super) fn stall_time(&self, limits: &ServerLimits) -> Duration {
        match self.state {
            LivenessState::Responsive => limits.stall,
            LivenessState::NoHandshake | LivenessState::Unproven => limits.first_pong,
            LivenessState::Unresponsive => limits.final_pong,
        }
    }

    /// How long the client may take to answer its closing frame: short if it may never have read anything.
    pub(super) fn close_time(&self, limits: &ServerLimits) -> Duration {
        match self.state {
            LivenessState::Responsive => limits.stall,
            LivenessState::NoHandshake | LivenessState::Unproven => limits.final_pong,
            LivenessState::Unresponsive => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Room {
        limits: ServerLimits,
        unproven: ClientCount,
        responsive: ClientCount,
        client: Liveness,
    }

    impl Room {
        /// One client after its handshake and a ping.
        fn new() -> Self {
            let mut room = Self {
                limits: ServerLimits::default(),
                unproven: ClientCount::new(),
                responsive: ClientCount::new(),
                client: Liveness::new(),
            };
            room.client.enter(&room.unproven);
            room.client.pinged();
            room
        }

        async fn check_after(&mut self, time: Duration) -> LivenessAction {
            tokio::time::sleep(time).await;
            self.client.check(&self.limits)
        }

        /// Whether it is counted as unproven, and as responsive.
        fn counts(&self) -> (bool, bool) {
            (!self.unproven.is_empty(), !self.responsive.is_empty())
        }
    }

    const MOMENT: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn an_unanswered_ping_makes_a_client_unresponsive_when_its_time_is_over_and_not_before() {
        let mut room = Room::new();
        let patience = room.limits.first_pong;
        assert_eq!(room.client.next_check(&room.limits), Instant::now() + patience);
        assert_eq!(
            room.check_after(patience.checked_sub(MOMENT).unwrap()).await,
            LivenessAction::Fine
        );
        assert_eq!(room.counts(), (true, false));
        assert_eq!(room.client.stall_time(&room.limits), patience);
        assert_eq!(room.check_after(MOMENT).await, LivenessAction::Fine);
        assert_eq!(room.counts(), (false, false));
        assert_eq!(room.client.stall_time(&room.limits), room.limits.final_pong);
        assert_eq!(room.client.close_time(&room.limits), Duration::ZERO);
        let rest = room.limits.silence.checked_sub(patience).unwrap();
        assert_eq!(room.client.next_check(&room.limits), Instant::now() + rest);
        assert_eq!(room.check_after(rest).await, LivenessAction::Silent);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_answers_is_responsive_however_late() {
        let mut room = Room::new();
        let patience = room.limits.first_pong;
        room.check_after(patience).await;
        room.client.received(&room.responsive);
        assert_eq!(room.counts(), (false, true));
        assert_eq!(room.client.stall_time(&room.limits), room.limits.stall);
        assert!(!room.client.wants_ping());
        room.client.pinged();
        assert_eq!(room.check_after(patience).await, LivenessAction::Fine);
        assert_eq!(room.counts(), (false, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_pinged_half_way_to_its_end() {
        let mut client = Liveness::new();
        let limits = ServerLimits::default();
        let half = limits.silence / 2;
        assert_eq!(client.next_check(&limits), Instant::now() + half);
        tokio::time::sleep(half.checked_sub(MOMENT).unwrap()).await;
        assert_eq!(client.check(&limits), LivenessAction::Fine);
        tokio::time::sleep(MOMENT).await;
        assert_eq!(client.check(&limits), LivenessAction::Ping);
    }
}
