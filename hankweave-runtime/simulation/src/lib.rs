//! A world in which hankweave runs and everything that happens follows from one seed. Never published, never part of the
//! shipped program.
//!
//! [`play`] plays the story of one seed: a hank is run, the runtime is killed, the power goes, the disk fails, agents misbehave, the clock
//! jumps, and after each end the runtime starts again, until the hank is done. What the runtime promises (P1 to P10)
//! is checked after each start and each end.
//!
//! [`sweep`] plays one story again and again, and crashes at each of its disk operations in turn; so does [`steered`]
//! with a longer story, in which a user rolls back, skips, and runs out of budget.
//!
//! - [`disk`]: a disk that loses, tears and reorders unsynced writes, and refuses chosen operations;
//! - clients of the socket that lag, vanish and come back;
//! - [`rng`]: where all chance comes from.

mod agents;
mod check;
mod checkpoints;
pub mod disk;
mod life;
mod machine;
mod many;
mod models;
mod processes;
pub mod rng;
mod spectators;
mod steered;
mod story;
mod sweep;
mod world;

pub use many::play_all;
pub use steered::steered;
pub use story::{Failed, Passed, play};
pub use sweep::sweep;
