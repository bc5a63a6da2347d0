//! The hankweave runtime: drives coding agents, checkpoints their work and records every step durably.
//!
//! `Hankweave` is the way in for programs that embed it; the command line (`hankweave-cli`) is one of them. Everything that decides is in
//! [`hankweave_core`]; here is what touches the world.
//!
//! A program that only follows and commands live runs takes the feature `client` without the default features: then there is the module
//! `client` and what it stands on, and nothing that runs agents.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "tests look at the real world themselves"
    )
)]

#[cfg(feature = "server")]
mod attendance;
#[cfg(feature = "server")]
pub mod checkpoint;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
mod codon;
#[cfg(feature = "server")]
pub mod data;
#[cfg(feature = "server")]
pub mod driver;
#[cfg(feature = "server")]
mod embed;
#[cfg(feature = "server")]
pub mod error;
#[cfg(feature = "server")]
pub mod hank_files;
#[cfg(feature = "server")]
pub mod inspect;
pub mod instance_lock;
#[cfg(feature = "server")]
mod invocation;
#[cfg(feature = "server")]
pub mod journal;
#[cfg(feature = "server")]
mod open_directory;
#[cfg(feature = "server")]
mod options;
mod paths;
#[cfg(feature = "server")]
pub mod preflight;
#[cfg(feature = "server")]
mod recovery;
#[cfg(feature = "server")]
pub mod rig;
#[cfg(feature = "server")]
mod runner;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
mod shutdown;
#[cfg(feature = "server")]
pub mod state_manager;
#[cfg(feature = "server")]
pub mod store;
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the real world stands here, beside its traits"
)]
pub mod world;

#[cfg(feature = "server")]
pub use embed::{Builder, Hankweave};
#[cfg(feature = "server")]
pub use invocation::{GivenOption, Invocation};
#[cfg(feature = "server")]
pub use open_directory::OpenDirectory;
#[cfg(feature = "server")]
pub use options::{OutputDirectory, Recovery, RunOptions};
pub use paths::{ExecutionDir, READ_ONLY_TOKEN_FILE, STATE_DIR, TOKEN_FILE};
#[cfg(feature = "server")]
pub use recovery::OpenError;
#[cfg(feature = "server")]
pub use runner::{
    Accepted, CodonSummary, Command, Commander, Pause, Refusal, Rollback, RollbackError, RollbackTarget,
    RunError, RunOutcome, RunResult, Trouble, WayBack,
};
#[cfg(feature = "server")]
pub use server::{Limits, Origin, READ_ONLY_TOKEN_VARIABLE, ServeError, ServerOptions, TOKEN_VARIABLE};
#[cfg(feature = "server")]
pub use shutdown::{Shutdown, StopCause};
