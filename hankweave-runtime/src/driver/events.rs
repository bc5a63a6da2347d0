//! The way of an agent's events from its driver to whoever listens: in batches, because to wake somebody for each event costs more than
//! most events.

use hankweave_core::agent::AgentEvent;
use tokio::sync::mpsc;

use super::process::OutputReader;

/// Makes a channel in which `batches` lists of events may wait for a slow listener.
///
/// # Panics
///
/// Panics when `batches` is 0.
#[must_use]
pub fn event_channel(batches: usize) -> (EventSender, EventReceiver) {
    let (sender, receiver) = mpsc::channel(batches);
    (EventSender(sender), EventReceiver::new(Source::Lists(receiver)))
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
    source: Source,
    /// What has arrived and was read, the next one last.
    arrived: Vec<AgentEvent>,
    /// How many more are given out before somebody waits again.
    left: usize,
}

/// Where events come from.
#[derive(Debug)]
enum Source {
    /// A driver that tells them.
    Lists(mpsc::Receiver<Vec<AgentEvent>>),
    /// The output of a process, whose lines are understood one by one, when the next event is wanted.
    Output(Box<OutputReader>),
}

/// Events that are heard without a pause at most.
const AT_ONCE: usize = 1_024;

impl EventReceiver {
    fn new(source: Source) -> Self {
        Self {
            source,
            arrived: Vec::new(),
            left: 0,
        }
    }

    /// Waits for the next event; `None` when the sender is gone and everything was received.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: an event is lost to nobody but whoever it was returned to.
    pub async fn recv(&mut self) -> Option<AgentEvent> {
        self.left = AT_ONCE - 1;
        loop {
            if let Some(event) = self.read() {
                return Some(event);
            }
            match &mut self.source {
                Source::Lists(lists) => self.arrived = lists.recv().await?,
                Source::Output(reader) => reader.arrival(&mut self.arrived).await?,
            }
            self.arrived.reverse();
        }
    }

    /// The next event that has arrived with the one that was received last, and soon `None` even if there are more: whoever listens may have
    /// to look at something else.
    pub fn next_arrived(&mut self) -> Option<AgentEvent> {
        self.left = self.left.checked_sub(1)?;
        self.read()
    }

    /// The next event that has arrived.
    fn read(&mut self) -> Option<AgentEvent> {
        loop {
            if let Some(event) = self.arrived.pop() {
                return Some(event);
            }
            let found = match &mut self.source {
                Source::Output(reader) => reader.line(&mut self.arrived),
                Source::Lists(_) => false,
            };
            if !found {
                return None;
            }
            self.arrived.reverse();
        }
    }
}

impl From<OutputReader> for EventReceiver {
    fn from(reader: OutputReader) -> Self {
        Self::new(Source::Output(Box::new(reader)))
    }
}

impl From<Vec<AgentEvent>> for EventReceiver {
    /// The end of a channel in which everything was said already.
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
    async fn many_that_come_at_once_are_heard_in_parts() {
        let mut events = EventReceiver::from(vec![AgentEvent::Compacted; AT_ONCE + 1]);
        let mut parts = Vec::new();
        while events.recv().await.is_some() {
            parts.push(1 + std::iter::from_fn(|| events.next_arrived()).count());
        }
        assert_eq!(parts, [AT_ONCE, 1]);
    }

    #[tokio::test]
    async fn nobody_sends_to_a_listener_that_has_gone() {
        let (sender, events) = event_channel(1);
        drop(events);
        sender.closed().await;
        assert_eq!(sender.send(vec![]).await, Err(NotSent));
    }
}
