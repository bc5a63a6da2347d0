//! The channel of an agent's events, from its driver to `codon`. Events are sent in lists, because waking the receiver for each
//! event would cost more than handling most events.

use hankweave_core::agent::AgentEvent;
use tokio::sync::mpsc;

/// Makes a channel in which `lists` lists of events may wait for a slow receiver.
///
/// # Panics
///
/// Panics when `lists` is 0.
#[must_use]
pub fn event_channel(lists: usize) -> (EventSender, EventReceiver) {
    let (sender, lists) = mpsc::channel(lists);
    let arrived = Vec::new();
    (EventSender(sender), EventReceiver { lists, arrived })
}

/// The driver's end.
#[derive(Debug, Clone)]
pub struct EventSender(mpsc::Sender<Vec<AgentEvent>>);

/// The receiver was dropped, or, for [`EventSender::try_send`], there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the events were not taken")]
pub struct NotSent;

impl EventSender {
    /// Sends events; waits while there is no room.
    ///
    /// # Errors
    ///
    /// [`NotSent`] when the receiver was dropped.
    ///
    /// # Cancel safety
    ///
    /// Either all of them are sent or none.
    pub async fn send(&self, events: Vec<AgentEvent>) -> Result<(), NotSent> {
        self.0.send(events).await.map_err(|_| NotSent)
    }

    /// Sends events if there is room.
    ///
    /// # Errors
    ///
    /// [`NotSent`] when there is none, or the receiver was dropped.
    pub fn try_send(&self, events: Vec<AgentEvent>) -> Result<(), NotSent> {
        self.0.try_send(events).map_err(|_| NotSent)
    }

    /// Waits until the receiver is dropped.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

/// The receiver's end.
#[derive(Debug)]
pub struct EventReceiver {
    lists: mpsc::Receiver<Vec<AgentEvent>>,
    /// Events of the list that was received last and are not returned yet, in reverse order: the next one is at the end.
    arrived: Vec<AgentEvent>,
}

impl EventReceiver {
    /// Waits for the next event; `None` when every sender was dropped and everything was received.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: an event is taken only when it is returned.
    pub async fn recv(&mut self) -> Option<AgentEvent> {
        while self.arrived.is_empty() {
            self.arrived = self.lists.recv().await?;
            self.arrived.reverse();
        }
        self.arrived.pop()
    }

    /// Returns the next event of the list that was received last, without waiting; `None` at the end of the list.
    pub fn next_arrived(&mut self) -> Option<AgentEvent> {
        self.arrived.pop()
    }
}

impl From<Vec<AgentEvent>> for EventReceiver {
    /// Makes a receiver that returns these events and then `None`.
    fn from(mut events: Vec<AgentEvent>) -> Self {
        let (_, receiver) = event_channel(1);
        events.reverse();
        Self {
            arrived: events,
            ..receiver
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn batches_come_as_single_events_in_order() {
        let (sender, mut events) = event_channel(2);
        sender.send(vec![AgentEvent::Compacted; 2]).await.unwrap();
        sender.try_send(vec![]).unwrap();
        assert_eq!(sender.try_send(vec![AgentEvent::Compacted]), Err(NotSent));
        assert_eq!(events.next_arrived(), None, "nothing was received");
        assert_eq!(events.recv().await, Some(AgentEvent::Compacted));
        assert_eq!(events.next_arrived(), Some(AgentEvent::Compacted));
        assert_eq!(events.next_arrived(), None);
        drop(sender);
        assert_eq!(events.recv().await, None);
    }

    #[tokio::test]
    async fn nobody_sends_to_a_listener_that_has_gone() {
        let (sender, events) = event_channel(1);
        drop(events);
        sender.closed().await;
        assert_eq!(sender.send(vec![]).await, Err(NotSent));
    }
}
