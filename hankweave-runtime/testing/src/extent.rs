//! Extent of a test run: quick by default, full in continuous integration.

/// Set to `full` by `.ci/run`: programs of others are installed and driven, and sweeps are whole, which takes longer than all other tests.
pub(crate) const TESTS: &str = "HANKWEAVE_TEST";

pub(crate) fn is_full() -> bool {
    std::env::var_os(TESTS).is_some_and(|tests| tests == "full")
}

/// Returns those of `moments` at which a sweep tries its fault: all of them in a full test run, otherwise the first and every fourth after it.
pub fn swept<T>(moments: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    moments.into_iter().step_by(if is_full() { 1 } else { 4 })
}
