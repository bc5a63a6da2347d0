//! Ids for messages and calls, unique among all servers that run at the same time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts upwards. The port is part of each id because agents keep one conversation over several servers.
#[derive(Debug)]
pub(super) struct Ids {
    port: u16,
    next: AtomicU64,
}

impl Ids {
    pub(super) fn new(port: u16) -> Self {
        Self {
            port,
            next: AtomicU64::new(1),
        }
    }

    pub(super) fn next(&self, prefix: &str) -> String {
        format!(
            "{prefix}{:05}{:08}",
            self.port,
            self.next.fetch_add(1, Ordering::Relaxed)
        )
    }
}
