//! The way of an agent's events from its driver to whoever listens: in batches, because to wake somebody for each event costs more than
//! most events.

use std::vec;

use hankweave_core::agent::AgentEvent;
use tokio::sync::mpsc;

/// Makes a channel in which `batches` lists of events may wait for a slow listener.
///
/// # Panics
///
/// Panics when `batches` is 0.
#[must_use]
pub fn event_channel(batches: usize) -> (EventSender, EventReceiver) {
    let (sender, receiver) = mpsc::channel(batches);
    let receiver = EventReceiver {
        batches: receiver,
        arrived: Vec::new().into_iter(),
    };
    (EventSender(sender), receiver)
}

/// The driver's end.
#[derive(Debug, Clone)]
pub struct EventSender(mpsc::Sender<Vec<AgentEvent>>);

/// Nobody listens any more, or, for [`EventSender::try_send`], there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the events were not taken")]
pub struct NotSent;

impl EventSender {
    /// Sends events; waits while there is no room.
    ///
    /// # Errors
    ///
    /// [`NotSent`] when nobody listens any more.
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
    /// [`NotSent`] when there is none, or nobody listens any more.
    pub fn try_send(&self, events: Vec<AgentEvent>) -> Result<(), NotSent> {
        self.0.try_send(events).map_err(|_| NotSent)
    }

    /// Waits until nobody listens any more.
    ///
    /// # Cancel safety
    ///
    /// Only looks.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

/// The listener's end.
#[derive(Debug)]
pub struct EventReceiver {
    batches: mpsc::Receiver<Vec<AgentEvent>>,
    arrived: vec::IntoIter<AgentEvent>,
}

impl EventReceiver {
    /// Waits for the next event; `None` when the sender is gone and everything was received.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: an event is lost to nobody but whoever it was returned to.
    pub async fn recv(&mut self) -> Option<AgentEvent> {
        loop {
            if let Some(event) = self.arrived.next() {
                return Some(event);
            }
            self.arrived = self.batches.recv().await?.into_iter();
        }
    }

    /// The next event of the batch whose first one was received last.
    pub fn next_arrived(&mut self) -> Option<AgentEvent> {
        self.arrived.next()
    }
}

impl From<Vec<AgentEvent>> for EventReceiver {
    /// The end of a channel in which everything was said already.
    fn from(events: Vec<AgentEvent>) -> Self {
        let (_, receiver) = event_channel(1);
        Self {
            arrived: events.into_iter(),
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
