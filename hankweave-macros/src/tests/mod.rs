//! Tests of the whole pipeline. A macro crate cannot be called from outside by its functions, so the tests are here.

mod compile;
mod declarations;
mod growth;
mod hostile;
mod snapshot;
