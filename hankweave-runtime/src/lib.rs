//! The hankweave runtime: drives coding agents, checkpoints their work and records every step durably.
//!
//! `Hankweave` is the way in for programs that embed it; the command line (`hankweave-cli`) is one of them. Everything that decides is in
//! [`hankweave_core`]; here is what touches the world. What this page lists as structs is that way in. The modules are for drivers and stores of one's own
//! ([`driver`], [`checkpoint`], [`world`]), and for programs that show what is recorded ([`preflight`], [`inspect`], [`state_manager`], [`journal`] and so on).
//!
//! A program that only follows and commands live runs takes `hankweave-client` instead, which has nothing that runs agents.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "tests look at the real world themselves"
    )
)]

#[cfg(test)]
extern crate self as hankweave_runtime;

pub mod arrival;
pub mod checkpoint;
mod codon;
mod counting;
pub mod data;
pub mod driver;
mod embed;
pub mod error;
pub mod hank_files;
pub mod inspect;
pub mod instance_lock;
mod invocation;
pub mod journal;
mod open_directory;
mod options;
mod paths;
pub mod preflight;
mod presence;
mod recovery;
pub mod replay;
pub mod rig;
mod runner;
mod sentinel;
mod server;
mod shutdown;
pub mod state_manager;
pub mod store;
mod structured;
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the real world stands here, beside its traits"
)]
pub mod world;

pub use embed::{Builder, Hankweave};
pub use invocation::{GivenOption, Invocation};
pub use open_directory::OpenDirectory;
pub use options::{OutputDirectory, Recovery, RunOptions};
pub use paths::ExecutionDir;
pub use recovery::OpenExecutionError;
pub use runner::{
    AcceptedCommand, CleanupError, CleanupPlan, CleanupReport, CodonSummary, Commander, OldRun, Pause,
    Refusal, Rollback, RollbackError, RollbackTarget, RunCommand, RunError, RunOutcome, RunResult,
    SuccessTarget, UnfinishedCodon,
};
pub use server::{Origin, ServeError, ServerLimits, ServerOptions};
pub use shutdown::{Shutdown, StopCause};
