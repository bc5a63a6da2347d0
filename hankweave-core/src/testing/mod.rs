//! Builders and strategies for tests, of this crate and of those that use it. Feature `testing`.
//!
//! A [`Story`] takes events in the order in which they happen, and returns the document that results from them. The strategies give whole histories:
//! events that the reducer accepts, mixed with those that it must refuse.

mod histories;
mod long;
mod story;

pub use histories::{histories, states};
pub use long::{large_document, long_history};
pub use story::{Ending, Story};
