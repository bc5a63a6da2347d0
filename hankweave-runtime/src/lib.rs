//! The hankweave runtime: drives coding agents, checkpoints their work and records every step durably.
//!
//! [`Hankweave`] is the way in for programs that embed it; the `hankweave` binary is one of them. Everything that decides is in
//! [`hankweave_core`]; here is what touches the world.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "tests look at the real world themselves"
    )
)]

pub mod checkpoint;
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
mod codon;
mod config;
pub mod data;
pub mod driver;
mod embed;
mod error;
pub mod hank_files;
pub mod instance_lock;
pub mod journal;
mod paths;
mod recovery;
mod report;
pub mod rig;
mod runner;
mod server;
mod shutdown;
pub mod state_manager;
pub mod store;
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the real world stands here, beside its traits"
)]
pub mod world;

pub use embed::{Builder, Hankweave, OutputDirectory, Recovery, RunOptions};
pub use paths::ExecutionDir;
pub use recovery::{OpenError, PreflightError};
pub use runner::{
    Accepted, CodonSummary, Command, Commander, Refusal, Rollback, RollbackError, RollbackTarget, RunError,
    RunOutcome, RunResult, Trouble,
};
pub use server::{
    Limits, Origin, READ_ONLY_TOKEN_FILE, READ_ONLY_TOKEN_VARIABLE, ServeError, ServerOptions, TOKEN_FILE,
    TOKEN_VARIABLE,
};
pub use shutdown::{Shutdown, StopCause};
