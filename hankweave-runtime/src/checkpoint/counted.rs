//! Progress of a write, for callers that wait for it.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Counts files while they are stored or written. Any thread may count and read.
#[derive(Debug, Default)]
pub(super) struct FileProgress {
    done: AtomicUsize,
    /// 0 while no write counts.
    total: AtomicUsize,
}

/// Number of files that are done, out of a total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Number of files that are done.
    pub done: usize,
    /// Number of all files, at least 1.
    pub total: usize,
}

impl FileProgress {
    /// Begins to count `total` files; 0 ends the counting.
    pub(super) fn start(&self, total: usize) {
        self.done.store(0, Relaxed);
        self.total.store(total, Relaxed);
    }

    /// Counts one file as done.
    pub(super) fn step(&self) {
        self.done.fetch_add(1, Relaxed);
    }

    /// Returns the current counts; `None` while no write counts.
    pub(super) fn now(&self) -> Option<Counts> {
        let (done, total) = (self.done.load(Relaxed), self.total.load(Relaxed));
        // The numbers are read one after the other: `done` may be that of an earlier write, and more than the `total` of the next.
        (total > 0).then_some(Counts {
            done: done.min(total),
            total,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_counted_before_it_begins_and_after_it_ends() {
        let counted = FileProgress::default();
        assert_eq!(counted.now(), None);
        counted.start(3);
        (0..2).for_each(|_| counted.step());
        assert_eq!(counted.now(), Some(Counts { done: 2, total: 3 }));
        counted.start(0);
        assert_eq!(counted.now(), None);
    }
}
