//! Runtime of hankweave: drives coding agents, checkpoints their work and records every step durably.
//!
//! # Running a hank
//!
//! ```no_run
//! use hankweave_runtime::hank_files::LoadedHank;
//! use hankweave_runtime::{Hankweave, Shutdown};
//!
//! # async fn example(hank: LoadedHank) -> Result<(), Box<dyn std::error::Error>> {
//! let hankweave = Hankweave::builder(hank).execution_dir("my-project").open().await?;
//! let outcome = hankweave.run(Shutdown::new()).await?;
//! println!("{} codons, {}", outcome.codons.len(), outcome.run_cost);
//! # Ok(()) }
//! ```
//!
//! [`hank_files`] reads the hank. [`Builder`] accepts your own agents ([`driver`]) and checkpoint store ([`checkpoint`]).
//! [`Hankweave::subscribe`] returns the events of the run. [`OpenDirectory`] undoes, restores and cleans up a directory
//! in which no run is live. [`world`] has the seams to disk, processes, clock and network, for tests that replace them.
//!
//! Everything that decides is in [`hankweave_core`]. A program that only follows and commands live runs uses
//! `hankweave-client` instead.
//!
//! Modules that this page does not list exist for the program `hankweave`, which is built on this crate; they change without notice. Comments cite the rules of
//! [docs/rules](https://github.com/hankweave/hankweave/tree/main/docs/rules) by ids such as `STATE-12`.

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

#[doc(hidden)]
pub mod arrival;
pub mod checkpoint;
mod codon;
mod counting;
#[doc(hidden)]
pub mod data;
pub mod driver;
mod embed;
pub mod error;
mod fallback;
pub mod hank_files;
#[doc(hidden)]
pub mod inspect;
#[doc(hidden)]
pub mod instance_lock;
mod invocation;
#[doc(hidden)]
pub mod journal;
mod open_directory;
mod options;
mod paths;
#[doc(hidden)]
pub mod preflight;
mod presence;
mod recovery;
#[doc(hidden)]
pub mod replay;
#[doc(hidden)]
pub mod rig;
mod runner;
mod sentinel;
mod server;
mod shutdown;
#[doc(hidden)]
pub mod state_manager;
#[doc(hidden)]
pub mod store;
mod structured;
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the real world stands here, beside its traits"
)]
pub mod world;

pub use codon::RehearsedStep;
pub use embed::{Builder, Hankweave};
pub use instance_lock::Exclusion;
pub use invocation::{GivenOption, Invocation, OptionScope};
pub use open_directory::OpenDirectory;
pub use options::{OutputDirectory, Recovery, RunOptions};
pub use paths::ExecutionDir;
pub use recovery::OpenExecutionError;
pub use runner::{
    AcceptedCommand, CleanupError, CleanupPlan, CleanupReport, CodonSummary, Commander, OldRun, Pause,
    Refusal, Rollback, RollbackError, RollbackTarget, RunCommand, RunError, RunOutcome, RunResult,
    SuccessTarget, UnfinishedCodon,
};
pub use server::{
    AnswerPaths, AnswerTokens, CommandGuard, CommandRefusal, ListServer, OpenRecordError, Origin,
    RecordServer, RunList, RunReport, RunTexts, ServeError, ServerLimits, ServerOptions, exported_page,
    record_name,
};
pub use shutdown::{Shutdown, StopCause};
pub use state_manager::{CostFigures, Delivery, PersistenceError, Subscription, TransitionError};
