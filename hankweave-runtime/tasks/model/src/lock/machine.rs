//! Lock machine: 6 states, 6 edges, with a loop for attempts (STATE-61, STATE-63).

use super::{LockFailure, LockMode};
use hankweave_core::attempt::{AttemptNumber, SpentAttempt};
use hankweave_core::machine;
use hankweave_core::time::Timestamp;

/// Acquisition of one lock by one holder.
#[machine(Lock, tests, schema = "schema")]
#[serde(tag = "state", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum LockRecord {
    /// Fields of every state.
    #[shared]
    Base {
        /// Locked resource, such as `task:{id}`.
        resource: String,
        /// Owner on whose behalf the lock is acquired, such as `lifecycle:{agent}`.
        owner: String,
        /// Scope of this acquisition. Two scopes of one owner are two holders.
        holder: String,
        /// Mode of the lock.
        mode: LockMode,
    },

    /// The holder asks for the resource and does not have it.
    #[initial("acquireLock()")]
    #[to(
        acquire("Lock acquired successfully") => Acquired,
        refuse("Lock acquisition failed") => Failed,
        wait("Waiting for retry (collaborative mode)") => Waiting,
    )]
    Unlocked {
        /// Attempt: 1 at first, one more after each wait.
        #[carry]
        attempt: AttemptNumber,
    },

    /// An attempt has failed; another follows.
    #[to(retry("Retry lock acquisition") => Unlocked)]
    Waiting {
        /// Attempt that failed.
        #[carry]
        attempt: SpentAttempt,
        /// Time of the next attempt.
        retry_at: Timestamp,
    },

    /// The holder has the resource.
    #[to(release("releaseLock()") => Released, expire("Lock timeout reached") => Expired)]
    Acquired {
        /// Fencing token, greater than that of every earlier grant. Writers must present it.
        token: u64,
        /// Time of the grant.
        acquired_at: Timestamp,
        /// Last moment of the lock; absent if it never expires. A renewal moves it.
        #[live]
        expires_at: Option<Timestamp>,
        /// Number of acquisitions that the holder has not released.
        #[live(start = 1)]
        count: u32,
    },

    /// The holder released the lock.
    #[terminal]
    #[keeps(token, acquired_at)]
    Released {
        /// Time of the release.
        released_at: Timestamp,
    },

    /// The lock has expired; its former holder must stop writing.
    #[terminal]
    #[keeps(token, acquired_at)]
    Expired {
        /// Last moment of the lock.
        #[carry]
        expires_at: Option<Timestamp>,
    },

    /// The lock was refused.
    #[terminal]
    Failed {
        /// Last attempt.
        #[carry]
        attempt: SpentAttempt,
        /// Reason.
        reason: LockFailure,
    },
}
