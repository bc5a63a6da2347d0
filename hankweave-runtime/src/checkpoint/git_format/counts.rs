//! Counts for tests: how much the reader opened and read in the thread of a test.

use std::cell::Cell;

thread_local! {
    /// Packs that were opened to read the length of an object.
    pub(in crate::checkpoint) static PACKS: Cell<usize> = const { Cell::new(0) };
    /// Folders that were read.
    pub(in crate::checkpoint) static TREES: Cell<usize> = const { Cell::new(0) };
}

/// Runs `work`; returns its result, the number of packs opened meanwhile and the number of folders read.
pub(in crate::checkpoint) fn count<T>(work: impl FnOnce() -> T) -> (T, usize, usize) {
    PACKS.set(0);
    TREES.set(0);
    let done = work();
    (done, PACKS.get(), TREES.get())
}
