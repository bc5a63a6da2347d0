//! Whether a client is there and reads: told from what it says, and from its answer when it is asked (WIRE-21, WIRE-34).

use std::time::Duration;

use tokio::time::Instant;

use super::limits::Limits;
use crate::attendance::{Attendance, Attendee};

/// What is known of one client.
#[derive(Debug)]
pub(super) struct Attention {
    /// When something was heard of it last.
    heard: Instant,
    /// Since when it owes an answer.
    asked: Option<Instant>,
    standing: Standing,
    /// Counts it among the others that stand as it does.
    counted: Option<Attendee>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It has not shaken hands.
    Outside,
    /// It has said nothing since its handshake.
    Doubtful,
    /// It has, so it reads as well.
    Listens,
    /// It has not, and has left the first question open for too long or takes nothing.
    Deaf,
}

/// What is to be done about a client at some moment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing.
    Fine,
    /// It is asked.
    Ask,
    /// It is left.
    Silent,
}

impl Attention {
    pub(super) fn new() -> Self {
        Self {
            heard: Instant::now(),
            asked: None,
            standing: Standing::Outside,
            counted: None,
        }
    }

    /// It has shaken hands, and is one of the doubtful until more is known.
    pub(super) fn enter(&mut self, doubtful: &Attendance) {
        if self.standing == Standing::Outside {
            self.standing = Standing::Doubtful;
            self.counted = Some(doubtful.arrive());
        }
    }

    /// It says something. Behind its handshake it is one of the listeners from then on.
    pub(super) fn hear(&mut self, listeners: &Attendance) {
        (self.heard, self.asked) = (Instant::now(), None);
        if let Standing::Doubtful | Standing::Deaf = self.standing {
            self.standing = Standing::Listens;
            self.counted = Some(listeners.arrive());
        }
    }

    /// It is asked whether it is there.
    pub(super) fn ask(&mut self) {
        self.asked = Some(Instant::now());
    }

    /// Whether an answer would tell something that is not known, and is not owed yet.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.standing == Standing::Doubtful && self.asked.is_none()
    }

    /// When it has to be looked at next.
    pub(super) fn next_look(&self, limits: &Limits) -> Instant {
        let Some(asked) = self.asked else {
            return self.heard + limits.silence / 2;
        };
        let silent = self.heard + limits.silence;
        match self.standing {
            Standing::Doubtful => silent.min(asked + limits.patience),
            _ => silent,
        }
    }

    /// Looks at it.
    pub(super) fn look(&mut self, limits: &Limits) -> Look {
        let owes = self.asked.is_some_and(|asked| asked.elapsed() >= limits.patience);
        if self.standing == Standing::Doubtful && owes {
            self.give_up();
        }
        let silence = self.heard.elapsed();
        match self.asked {
            _ if silence >= limits.silence => Look::Silent,
            None if silence >= limits.silence / 2 => Look::Ask,
            _ => Look::Fine,
        }
    }

    /// Nobody waits for a word of it any more.
    pub(super) fn give_up(&mut self) {
        (self.standing, self.counted) = (Standing::Deaf, None);
    }

    /// How long it may take nothing of what waits when the server stops.
    pub(super) fn hesitation(&self, limits: &Limits) -> Duration {
        match self.standing {
            Standing::Listens => limits.hesitation,
            Standing::Outside | Standing::Doubtful => limits.patience,
            Standing::Deaf => limits.answer,
        }
    }

    /// How long it may take to answer that it is left: nobody waits long for one that may never have read anything.
    pub(super) fn patience(&self, limits: &Limits) -> Duration {
        match self.standing {
            Standing::Listens => limits.hesitation,
            Standing::Outside | Standing::Doubtful => limits.answer,
            Standing::Deaf => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Room {
        limits: Limits,
        doubtful: Attendance,
        listeners: Attendance,
        client: Attention,
    }

    impl Room {
        /// One client that has shaken hands and is asked.
        fn new() -> Self {
            let mut room = Self {
                limits: Limits::default(),
                doubtful: Attendance::new(),
                listeners: Attendance::new(),
                client: Attention::new(),
            };
            room.client.enter(&room.doubtful);
            room.client.ask();
            room
        }

        async fn look_after(&mut self, time: Duration) -> Look {
            tokio::time::sleep(time).await;
            self.client.look(&self.limits)
        }

        /// Whether it is among the doubtful, and among the listeners.
        fn counts(&self) -> (bool, bool) {
            (
                self.doubtful.is_anybody_there(),
                self.listeners.is_anybody_there(),
            )
        }
    }

    const MOMENT: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_answer_is_doubted_for_its_patience_and_not_a_moment_longer() {
        let mut room = Room::new();
        let patience = room.limits.patience;
        assert_eq!(room.client.next_look(&room.limits), Instant::now() + patience);
        assert_eq!(
            room.look_after(patience.checked_sub(MOMENT).unwrap()).await,
            Look::Fine
        );
        assert_eq!(room.counts(), (true, false));
        assert_eq!(room.client.hesitation(&room.limits), patience);
        assert_eq!(room.look_after(MOMENT).await, Look::Fine);
        assert_eq!(room.counts(), (false, false));
        assert_eq!(room.client.hesitation(&room.limits), room.limits.answer);
        assert_eq!(room.client.patience(&room.limits), Duration::ZERO);
        let rest = room.limits.silence.checked_sub(patience).unwrap();
        assert_eq!(room.client.next_look(&room.limits), Instant::now() + rest);
        assert_eq!(room.look_after(rest).await, Look::Silent);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_answers_listens_however_late() {
        let mut room = Room::new();
        let patience = room.limits.patience;
        room.look_after(patience).await;
        room.client.hear(&room.listeners);
        assert_eq!(room.counts(), (false, true));
        assert_eq!(room.client.hesitation(&room.limits), room.limits.hesitation);
        assert!(!room.client.is_in_doubt());
        room.client.ask();
        assert_eq!(room.look_after(patience).await, Look::Fine);
        assert_eq!(room.counts(), (false, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_not_asked_is_asked_half_way_to_its_silence() {
        let mut client = Attention::new();
        let limits = Limits::default();
        let half = limits.silence / 2;
        assert_eq!(client.next_look(&limits), Instant::now() + half);
        tokio::time::sleep(half.checked_sub(MOMENT).unwrap()).await;
        assert_eq!(client.look(&limits), Look::Fine);
        tokio::time::sleep(MOMENT).await;
        assert_eq!(client.look(&limits), Look::Ask);
    }
}
