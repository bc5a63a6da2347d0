//! One resource, and those who hold it (TASK-1 to TASK-5): what every kind of registry decides by.

use std::sync::Arc;
use std::time::Duration;

use hankweave_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
use crate::lock::LockMode;

/// Who asks: two scopes of one owner are two holders (TASK-2).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Holder {
    /// On whose behalf, such as `lifecycle:{agent}`.
    pub owner: Arc<str>,
    /// The scope, unlike every other.
    pub scope: Arc<str>,
}

impl Holder {
    /// That scope of that owner.
    #[must_use]
    pub fn new(owner: impl Into<Arc<str>>, scope: impl Into<Arc<str>>) -> Self {
        let (owner, scope) = (owner.into(), scope.into());
        Self { owner, scope }
    }
}

/// One lock that somebody has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LockGrant {
    /// Who has it.
    #[serde(flatten)]
    pub holder: Holder,
    /// Whether others may hold the resource as well.
    pub mode: LockMode,
    /// Greater than that of every earlier grant; whoever writes shows it.
    pub token: u64,
    /// How often the holder took it and has not given it back.
    pub count: u32,
    /// When it was granted.
    pub acquired_at: Timestamp,
    /// The last moment at which it is held; `None` when it never expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl LockGrant {
    /// Whether it is still held, at its last moment included (TASK-4).
    #[must_use]
    pub fn lives(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now <= end)
    }

    /// Returns the grant with its times moved by `millis`, from one clock to another.
    #[must_use]
    pub fn moved_by(self, millis: i64) -> Self {
        Self {
            acquired_at: self.acquired_at.moved_by(millis),
            expires_at: self.expires_at.map(|end| end.moved_by(millis)),
            ..self
        }
    }
}

/// Request for a resource.
#[derive(Debug, Clone, Copy)]
pub struct LockDemand<'a> {
    /// Who asks.
    pub holder: &'a Holder,
    /// How it is shared.
    pub mode: LockMode,
    /// How long it is held unless it is renewed; `None` for ever.
    pub lease: Option<Duration>,
}

/// Who holds one resource. Every method is one step; whoever keeps it makes the step atomic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resource {
    /// Those who hold it, or held it when it was last looked at.
    pub held: Vec<LockGrant>,
    /// How often it was committed to.
    pub version: u64,
    /// The highest token that has written.
    pub written: u64,
}

impl Resource {
    /// Grants the lock, or says who is in the way (TASK-1, TASK-3). A new grant gets `token`, which must be greater than all before it.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::ResourceLocked`].
    pub fn acquire(
        &mut self,
        name: &str,
        demand: LockDemand<'_>,
        token: u64,
        now: Timestamp,
    ) -> Result<LockGrant, TaskError> {
        self.held.retain(|held| held.lives(now));
        let LockDemand { holder, mode, lease } = demand;
        let expires_at = lease.map(|lease| now.after(lease));
        let own = |held: &LockGrant| held.holder == *holder && held.mode == mode;
        let excludes = |held: &LockGrant| mode == LockMode::Exclusive || held.mode == LockMode::Exclusive;
        let is_in_the_way = |held: &&LockGrant| !own(held) && (held.holder == *holder || excludes(held));
        if let Some(other) = self.held.iter().find(is_in_the_way) {
            return Err(TaskError::ResourceLocked {
                resource: name.to_owned(),
                existing_owner: (*other.holder.owner).to_owned(),
            });
        }
        if let Some(held) = self.held.iter_mut().find(|held| own(held)) {
            let taken_too_often = TaskError::InvalidArgument("the lock was taken too often");
            held.count = held.count.checked_add(1).ok_or(taken_too_often)?;
            held.expires_at = expires_at;
            return Ok(held.clone());
        }
        let held = LockGrant {
            holder: holder.clone(),
            mode,
            token,
            count: 1,
            acquired_at: now,
            expires_at,
        };
        self.held.push(held.clone());
        Ok(held)
    }

    /// Gives one grant back and returns it with what is left of its count, 0 when it is free; `None` when there was none (TASK-3).
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::LockNotHeld`] when only others hold it.
    pub fn release(
        &mut self,
        name: &str,
        holder: &Holder,
        now: Timestamp,
    ) -> Result<Option<LockGrant>, TaskError> {
        self.held.retain(|held| held.lives(now));
        let is_free = self.held.is_empty();
        let Some(place) = self.held.iter().position(|held| held.holder == *holder) else {
            let resource = name.to_owned();
            return if is_free {
                Ok(None)
            } else {
                Err(TaskError::LockNotHeld { resource })
            };
        };
        self.held[place].count -= 1;
        match self.held[place].count {
            0 => Ok(Some(self.held.remove(place))),
            _ => Ok(Some(self.held[place].clone())),
        }
    }

    /// Moves the end of a lock (TASK-4).
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::LockTimeout`] when it is over; then the holder must stop writing.
    pub fn renew(
        &mut self,
        name: &str,
        token: u64,
        lease: Duration,
        now: Timestamp,
    ) -> Result<Timestamp, TaskError> {
        let mut living = self.held.iter_mut().filter(|held| held.lives(now));
        let held = living.find(|held| held.token == token);
        let held = held.ok_or_else(|| TaskError::LockTimeout {
            resource: name.to_owned(),
        })?;
        let end = now.after(lease);
        held.expires_at = Some(end);
        Ok(end)
    }

    /// Whether whoever shows this token may write now: it lives, and no exclusive holder after it has written (TASK-5).
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::StaleToken`].
    pub fn check_writer(&self, name: &str, token: u64, now: Timestamp) -> Result<(), TaskError> {
        let mut living = self.held.iter().filter(|held| held.lives(now));
        let held = living.find(|held| held.token == token);
        let is_fenced_off = |held: &LockGrant| held.mode == LockMode::Exclusive && token < self.written;
        match held {
            Some(held) if !is_fenced_off(held) => Ok(()),
            _ => Err(TaskError::StaleToken {
                resource: name.to_owned(),
                token,
            }),
        }
    }

    /// Lets one write through: by a living holder, at the version that it has read (TASK-5). Returns the new version.
    ///
    /// After a write, an exclusive holder with an earlier token is fenced off. Collaborators are not: they write in any order, and what
    /// keeps one from overwriting another unseen is the version.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::StaleToken`] or [`TaskError::VersionConflict`].
    pub fn commit(
        &mut self,
        name: &str,
        token: u64,
        expected_version: u64,
        now: Timestamp,
    ) -> Result<u64, TaskError> {
        self.check_writer(name, token, now)?;
        if self.version != expected_version {
            return Err(TaskError::VersionConflict {
                resource: name.to_owned(),
                version: self.version,
            });
        }
        self.written = self.written.max(token);
        self.version += 1;
        Ok(self.version)
    }
}
