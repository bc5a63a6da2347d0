//! Lock holders of one resource (TASK-1 to TASK-5), as decided in every kind of registry.

use std::sync::Arc;
use std::time::Duration;

use hankweave_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
use crate::lock::LockMode;

/// Holder of a lock. Two scopes of one owner are two holders (TASK-2).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Holder {
    /// Owner on whose behalf the lock is held, such as `lifecycle:{agent}`.
    pub owner: Arc<str>,
    /// Scope, unique among all scopes.
    pub scope: Arc<str>,
}

impl Holder {
    /// Creates the holder for this owner and scope.
    #[must_use]
    pub fn new(owner: impl Into<Arc<str>>, scope: impl Into<Arc<str>>) -> Self {
        let (owner, scope) = (owner.into(), scope.into());
        Self { owner, scope }
    }
}

/// Granted lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LockGrant {
    /// Holder of the lock.
    #[serde(flatten)]
    pub holder: Holder,
    /// Whether other holders may share the resource.
    pub mode: LockMode,
    /// Fencing token, greater than that of every earlier grant. Writers must present it.
    pub token: u64,
    /// Number of acquisitions that the holder has not released.
    pub count: u32,
    /// Time of the grant.
    pub acquired_at: Timestamp,
    /// Last moment of the lock; `None` if it never expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl LockGrant {
    /// Whether the lock is still held, including at its last moment (TASK-4).
    #[must_use]
    pub fn lives(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now <= end)
    }

    /// Returns the grant with its times moved by `millis`, to convert between clocks.
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
    /// Holder that asks.
    pub holder: &'a Holder,
    /// Requested mode.
    pub mode: LockMode,
    /// Time until the lock expires unless renewed; `None` for never.
    pub lease: Option<Duration>,
}

/// Holders of one resource. Every method is one step, which the caller must make atomic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resource {
    /// Grants, including expired ones that are not removed yet.
    pub held: Vec<LockGrant>,
    /// Number of commits.
    pub version: u64,
    /// Highest token under which a write was made. Exclusive holders with earlier tokens can no longer write.
    pub written: u64,
}

impl Resource {
    /// Grants the lock, or returns the conflicting holder as an error (TASK-1, TASK-3). A new grant gets `token`, which must exceed all earlier
    /// tokens.
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
        let is_repeated = |held: &LockGrant| held.holder == *holder && held.mode == mode;
        let excludes = |held: &LockGrant| mode == LockMode::Exclusive || held.mode == LockMode::Exclusive;
        // A grant of the holder itself in the other mode is a conflict too.
        let is_in_the_way =
            |held: &&LockGrant| !is_repeated(held) && (held.holder == *holder || excludes(held));
        if let Some(other) = self.held.iter().find(is_in_the_way) {
            return Err(TaskError::ResourceLocked {
                resource: name.to_owned(),
                existing_owner: (*other.holder.owner).to_owned(),
            });
        }
        if let Some(held) = self.held.iter_mut().find(|held| is_repeated(held)) {
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

    /// Releases one acquisition and returns the grant with the remaining count, 0 if the lock is free; `None` if it was not held (TASK-3).
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
        let Some(index) = self.held.iter().position(|held| held.holder == *holder) else {
            let resource = name.to_owned();
            return if is_free {
                Ok(None)
            } else {
                Err(TaskError::LockNotHeld { resource })
            };
        };
        self.held[index].count -= 1;
        match self.held[index].count {
            0 => Ok(Some(self.held.remove(index))),
            _ => Ok(Some(self.held[index].clone())),
        }
    }

    /// Extends a lock (TASK-4).
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::LockTimeout`] if the lock has expired. The holder must stop writing then.
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

    /// Checks that the holder of this token may write now: the lock is live, and no later token has written if the lock is exclusive (TASK-5).
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

    /// Permits one write, by a live holder, if the version is unchanged since the holder read it (TASK-5). Returns the new version.
    ///
    /// A write fences off exclusive holders with an earlier token. It does not fence off collaborators, which may write in any order: the version
    /// check keeps them from overwriting each other unseen.
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
