//! Connection that one transaction has from the pool.

use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_postgres::{ClientWrapper, Object, Pool};

use crate::engine::{TxError, TxResult};

/// Connection that returns to the pool when dropped. If its transaction is still open, as after a caller stopped waiting, the connection is closed
/// instead, and the database rolls the transaction back.
pub(super) struct ConnectionLease {
    /// The pool's connection; `None` only during the drop.
    object: Option<Object>,
    /// Whether a transaction is open.
    open: AtomicBool,
}

impl ConnectionLease {
    pub(super) async fn of(pool: &Pool) -> TxResult<Self> {
        let object = pool.get().await.map_err(TxError::from)?;
        Ok(Self {
            object: Some(object),
            open: AtomicBool::new(false),
        })
    }

    pub(super) fn client(&self) -> &ClientWrapper {
        self.object
            .as_ref()
            .expect("it is taken out only when this is dropped")
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Notes that a transaction has started or has ended.
    pub(super) fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Relaxed);
    }
}

impl Drop for ConnectionLease {
    fn drop(&mut self) {
        if let Some(object) = self.object.take()
            && self.is_open()
        {
            // Taken out of the pool, the connection is closed.
            drop(Object::take(object));
        }
    }
}
