//! Outbox of one client: the messages that wait until the client's task sends them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// A bounded queue of messages. A client that does not read them is disconnected, so no task waits for it.
#[derive(Debug)]
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    /// Wakes the client's task when there is something to do.
    changed: AtomicWaker,
    most_messages: usize,
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Utf8Bytes>,
    bytes: usize,
    /// Whether there were too many messages. All of them are dropped then, and later ones, too.
    overflowed: bool,
}

/// Next work of the client's own task.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Dequeued {
    /// The next message.
    Message(Utf8Bytes),
    /// No message waits.
    Nothing,
    /// There were too many messages, so the client must be disconnected.
    Overflowed,
}

impl Outbox {
    pub(super) fn new(most_messages: usize, most_bytes: usize) -> Self {
        Self {
            queue: Mutex::default(),
            changed: AtomicWaker::new(),
            most_messages,
            most_bytes,
        }
    }

    /// Adds a message; returns whether the client can still be reached. An empty queue takes a message of any
    /// size.
    pub(super) fn push(&self, message: Utf8Bytes) -> bool {
        let mut queue = self.queue();
        if queue.overflowed {
            return false;
        }
        let bytes = queue.bytes + message.len();
        let is_full = queue.messages.len() >= self.most_messages || bytes > self.most_bytes;
        let was_empty = queue.messages.is_empty();
        let overflows = is_full && !was_empty;
        if overflows {
            *queue = Queue {
                overflowed: true,
                ..Queue::default()
            };
        } else {
            queue.bytes = bytes;
            queue.messages.push_back(message);
        }
        drop(queue);
        // If messages wait already, the task has been woken for them, or waits for the client to read.
        if was_empty || overflows {
            self.changed.wake();
        }
        !overflows
    }

    /// Takes the next message out.
    pub(super) fn take(&self) -> Dequeued {
        let mut queue = self.queue();
        match queue.messages.pop_front() {
            Some(message) => {
                queue.bytes -= message.len();
                Dequeued::Message(message)
            }
            None if queue.overflowed => Dequeued::Overflowed,
            None => Dequeued::Nothing,
        }
    }

    /// Whether there were too many messages.
    pub(super) fn has_overflowed(&self) -> bool {
        self.queue().overflowed
    }

    /// Ready when a message waits or the queue overflowed; takes nothing.
    pub(super) fn poll_changed(&self, context: &mut Context<'_>) -> Poll<()> {
        self.changed.register(context.waker());
        let queue = self.queue();
        match queue.messages.is_empty() && !queue.overflowed {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Every change is complete when the lock is released.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn message(length: usize) -> Utf8Bytes {
        "x".repeat(length).into()
    }

    // covers: F13, WIRE-32
    #[test]
    fn more_messages_or_bytes_than_may_wait_give_the_client_up_and_the_memory_back() {
        let few = Outbox::new(2, 100);
        assert!(few.push(message(1)) && few.push(message(1)) && !few.push(message(1)));
        assert_eq!(few.take(), Dequeued::Overflowed);
        assert!(!few.push(message(1)), "for good");
        let small = Outbox::new(100, 10);
        assert!(small.push(message(6)) && !small.push(message(5)));
        assert_eq!(small.queue().bytes, 0);
    }

    #[test]
    fn what_was_taken_makes_room() {
        let outbox = Outbox::new(1, 10);
        assert!(outbox.push(message(50)), "alone, however large");
        assert_eq!(outbox.take(), Dequeued::Message(message(50)));
        assert!(outbox.push(message(10)));
        assert_eq!(outbox.take(), Dequeued::Message(message(10)));
        assert_eq!(outbox.take(), Dequeued::Nothing);
    }

    // covers: F13
    #[test]
    fn a_task_is_woken_for_the_first_that_waits_and_for_what_is_too_much() {
        let woken = Arc::new(Woken::default());
        let waker = Arc::clone(&woken).into();
        let mut context = Context::from_waker(&waker);
        let outbox = Outbox::new(2, 100);
        assert_eq!(outbox.poll_changed(&mut context), Poll::Pending);
        let mut push = || {
            outbox.push(message(1));
            let _ = outbox.poll_changed(&mut context);
            woken.0.swap(0, Ordering::Relaxed)
        };
        assert_eq!([push(), push(), push(), push()], [1, 0, 1, 0]);
    }
}
