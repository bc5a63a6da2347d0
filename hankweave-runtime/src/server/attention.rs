//! Whether a client is there and reads: told from what it says, and from its answer when it is asked.

use std::time::Duration;

use tokio::time::Instant;

use super::limits::Limits;
use crate::runner::{Attendance, Attendee};

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
