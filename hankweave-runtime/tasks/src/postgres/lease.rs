//! Connection of the pool, for one transaction.

use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_postgres::{ClientWrapper, Object, Pool};

use crate::engine::{TxError, TxResult};

/// Connection that returns to the pool when dropped, unless its transaction is still open, as after a caller stopped waiting. It is closed then, and
/// the database rolls the transaction back.
pub(super) struct Lease {
    object: Option<Object>,
    open: AtomicBool,
}

impl Lease {
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

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(object) = self.object.take().filter(|_| self.is_open()) {
            drop(Object::take(object));
        }
    }
}
