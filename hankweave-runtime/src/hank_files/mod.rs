//! Hanks on disk: loads a hank.json, checks every file it names, and reads those files when a run needs them.
//!
//! Only the checks on real files are here; [`hankweave_core::hank`] decides what a hank may contain. Loading never
//! executes or writes anything (X8).

mod beneath;
mod commands;
mod load;
mod requirements;
mod results;
mod tree;

#[cfg(test)]
mod tests;

pub use beneath::{MAX_FILE_BYTES, RefError, read_named};
pub use commands::missing_programs;
pub use load::{LoadHankError, LoadedHank, Prompt, PromptFileError, find_in, load, load_from};
pub use requirements::{MissingRequirement, missing_requirements};
