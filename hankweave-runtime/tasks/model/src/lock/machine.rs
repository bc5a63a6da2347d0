//! The lock machine: 6 states, 6 edges, with a loop for tries (STATE-61, STATE-63).

use super::{LockFailure, LockMode};
use hankweave_core::attempt::{AttemptNumber, SpentAttempt};
use hankweave_core::machine;
use hankweave_core::time::Timestamp;

/// One acquisition of one lock by one holder.
#[machine(Lock, tests, schema = "schema")]
#[serde(tag = "state", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum LockRecord {
    /// Fields of every state.
    #[shared]
    Base {
        /// Locked resource, such as `task:{id}`.
        resource: String,
        /// On whose behalf, such as `lifecycle:{agent}`.
        owner: String,
        /// This acquisition; two scopes of one owner are two holders.
        holder: String,
        /// How the resource is shared.
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
        /// 1 at first, one more after each wait.
        #[carry]
        attempt: AttemptNumber,
    },

    /// A try was made in vain; another follows.
    #[to(retry("Retry lock acquisition") => Unlocked)]
    Waiting {
        /// The try that was made in vain.
        #[carry]
        attempt: SpentAttempt,
        /// When the next one is due.
        retry_at: Timestamp,
    },

    /// The holder has the resource.
    #[to(release("releaseLock()") => Released, expire("Lock timeout reached") => Expired)]
    Acquired {
        /// Greater than that of every earlier grant; whoever writes shows it.
        token: u64,
        /// When it was granted.
        acquired_at: Timestamp,
        /// The last moment at which it is held; absent when it never expires. A renewal moves it.
        #[live]
        expires_at: Option<Timestamp>,
        /// How often the holder took it and has not given it back.
        #[live(start = 1)]
        count: u32,
    },

    /// The holder gave it back.
    #[terminal]
    #[keeps(token, acquired_at)]
    Released {
        /// When.
        released_at: Timestamp,
    },

    /// Its time ran out; whoever held it must stop writing.
    #[terminal]
    #[keeps(token, acquired_at)]
    Expired {
        /// The last moment at which it was held.
        #[carry]
        expires_at: Option<Timestamp>,
    },

    /// The resource was not to be had.
    #[terminal]
    Failed {
        /// The last try.
        #[carry]
        attempt: SpentAttempt,
        /// Why.
        reason: LockFailure,
    },
}
