//! The limits of the server (WIRE-29 to WIRE-34).

use std::time::Duration;

use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// Limits of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Clients with a token at the same time (WIRE-30).
    pub clients: usize,
    /// Connections that have not shown a token yet; one more evicts the oldest.
    pub unauthenticated: usize,
    /// How long the head of a request may take.
    pub head: Duration,
    /// How long a client may take from its upgrade to its handshake.
    pub handshake: Duration,
    /// Bytes of one frame and of one message of a client.
    pub inbound_bytes: usize,
    /// Messages that may wait for one client (WIRE-32).
    pub outbound_messages: usize,
    /// Bytes that may wait for one client.
    pub outbound_bytes: usize,
    /// Messages that one client may send within a second (WIRE-33).
    pub rate: u32,
    /// How long a client may send nothing; it is pinged after half of that time.
    pub silence: Duration,
    /// How long a client that has sent nothing since its handshake may take to answer its first ping. The end
    /// of the run does not wait for one that takes longer.
    pub first_pong: Duration,
    /// How long a client that was too slow may take to read its closing frame.
    pub slow_close: Duration,
    /// How long a client may take to receive its last messages when the run has ended.
    pub final_delivery: Duration,
    /// How long a client may accept none of its last messages, or leave its closing frame unanswered.
    pub stall: Duration,
    /// How long a client that has sent nothing since its handshake may take to answer a ping when the run has
    /// ended.
    pub final_pong: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            clients: 32,
            unauthenticated: 64,
            head: Duration::from_secs(5),
            handshake: Duration::from_secs(30),
            inbound_bytes: 1 << 20,
            outbound_messages: 1_024,
            outbound_bytes: 4 << 20,
            rate: 100,
            silence: Duration::from_secs(120),
            first_pong: Duration::from_millis(250),
            slow_close: Duration::from_secs(30),
            final_delivery: Duration::from_secs(2),
            stall: Duration::from_millis(500),
            final_pong: Duration::from_millis(25),
        }
    }
}

impl ServerLimits {
    /// Returns the limits for the protocol's own code, whose defaults are much larger.
    pub(super) fn socket(&self) -> WebSocketConfig {
        WebSocketConfig::default()
            .read_buffer_size(4 * 1_024)
            .write_buffer_size(64 * 1_024)
            .max_message_size(Some(self.inbound_bytes))
            .max_frame_size(Some(self.inbound_bytes))
            .accept_unmasked_frames(false)
    }
}

/// Counts the messages that a client sends within a second.
#[derive(Debug)]
pub(super) struct RateWindow {
    limit: u32,
    since: tokio::time::Instant,
    count: u32,
}

impl RateWindow {
    pub(super) fn new(limit: u32) -> Self {
        Self {
            limit,
            since: tokio::time::Instant::now(),
            count: 0,
        }
    }

    /// Counts one more message; returns whether there are too many.
    pub(super) fn is_exceeded(&mut self) -> bool {
        let now = tokio::time::Instant::now();
        if now.duration_since(self.since) >= Duration::from_secs(1) {
            (self.since, self.count) = (now, 0);
        }
        self.count += 1;
        self.count > self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: F13, WIRE-33
    #[tokio::test(start_paused = true)]
    async fn the_hundred_and_first_within_a_second_is_too_many() {
        let mut rate = RateWindow::new(100);
        assert!((0..100).all(|_| !rate.is_exceeded()));
        assert!(rate.is_exceeded());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!rate.is_exceeded());
    }
}
