//! Whether a client is connected and reads, judged by what it sends and by its answers to pings (WIRE-21,
//! WIRE-34).

use std::time::Duration;

use tokio::time::Instant;

use super::limits::ServerLimits;
use crate::presence::{ClientCount, PresenceGuard};

/// Facts about one client's liveness.
#[derive(Debug)]
pub(super) struct Liveness {
    /// When it sent something last.
    received: Instant,
    /// Since when a ping is unanswered.
    pinged: Option<Instant>,
    standing: HandshakeState,
    /// Counts it among the clients with an equal handshake state.
    counted: Option<PresenceGuard>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandshakeState {
    /// There was no handshake yet.
    NoHandshake,
    /// It has sent nothing since its handshake.
    Unproven,
    /// It has, so it reads as well.
    Responsive,
    /// It has not, and left the first ping unanswered for too long or takes nothing.
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
            standing: HandshakeState::NoHandshake,
            counted: None,
        }
    }

    /// Notes its handshake; it counts as unproven until more is known.
    pub(super) fn enter(&mut self, unproven: &ClientCount) {
        if self.standing == HandshakeState::NoHandshake {
            self.standing = HandshakeState::Unproven;
            self.counted = Some(unproven.enter());
        }
    }

    /// Notes that it sent something. After its handshake it counts as responsive from then on.
    pub(super) fn received(&mut self, responsive: &ClientCount) {
        (self.received, self.pinged) = (Instant::now(), None);
        if let HandshakeState::Unproven | HandshakeState::Unresponsive = self.standing {
            self.standing = HandshakeState::Responsive;
            self.counted = Some(responsive.enter());
        }
    }

    /// Notes a ping.
    pub(super) fn pinged(&mut self) {
        self.pinged = Some(Instant::now());
    }

    /// Whether a ping would show something that is not known, and was not sent yet.
    pub(super) fn wants_ping(&self) -> bool {
        self.standing == HandshakeState::Unproven && self.pinged.is_none()
    }

    /// When it has to be checked next.
    pub(super) fn next_check(&self, limits: &ServerLimits) -> Instant {
        let Some(pinged) = self.pinged else {
            return self.received + limits.silence / 2;
        };
        let silent = self.received + limits.silence;
        match self.standing {
            HandshakeState::Unproven => silent.min(pinged + limits.first_pong),
            _ => silent,
        }
    }

    /// Judges it by the time that has passed.
    pub(super) fn check(&mut self, limits: &ServerLimits) -> LivenessAction {
        let is_overdue = self
            .pinged
            .is_some_and(|pinged| pinged.elapsed() >= limits.first_pong);
        if self.standing == HandshakeState::Unproven && is_overdue {
            self.give_up();
        }
        let silence = self.received.elapsed();
        match self.pinged {
            _ if silence >= limits.silence => LivenessAction::Silent,
            None if silence >= limits.silence / 2 => LivenessAction::Ping,
            _ => LivenessAction::Fine,
        }
    }

    /// Its answer is no longer waited for.
    pub(super) fn give_up(&mut self) {
        (self.standing, self.counted) = (HandshakeState::Unresponsive, None);
    }

    /// How long it may take nothing of what waits when the server stops.
    pub(super) fn stall_time(&self, limits: &ServerLimits) -> Duration {
        match self.standing {
            HandshakeState::Responsive => limits.stall,
            HandshakeState::NoHandshake | HandshakeState::Unproven => limits.first_pong,
            HandshakeState::Unresponsive => limits.final_pong,
        }
    }

    /// How long it may take to answer its closing frame; short for a client that may never have read
    /// anything.
    pub(super) fn close_time(&self, limits: &ServerLimits) -> Duration {
        match self.standing {
            HandshakeState::Responsive => limits.stall,
            HandshakeState::NoHandshake | HandshakeState::Unproven => limits.final_pong,
            HandshakeState::Unresponsive => Duration::ZERO,
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
