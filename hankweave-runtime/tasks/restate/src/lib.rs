//! Workers whose tasks are stored in [Restate](https://restate.dev) in place of a registry. Each task is a virtual object, Restate's name for a stored
//! value with handlers. Only one handler at a time may change the value. The key of the object is the id of the task. Each step of the task and each
//! completed codon is a durable step of the object (TASK-86 to TASK-89).
//!
//! Restate calls the workers. It gives the execution of a task to one of them, and to another one if the first no longer exists. Inside an execution runs
//! the usual [`Worker`], on a coordinator that has only this task.
//!
//! Comments cite the rules of [docs/rules](https://github.com/hankweave/hankweave/tree/main/docs/rules) by ids such as `STATE-12`.
//!
//! [`Worker`]: hankweave_tasks::worker::Worker

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "tests look at the real world themselves"
    )
)]

mod codons;
mod deployment;
mod engine;
mod execution;
mod kept;
mod object;
mod server;

use std::sync::Arc;
use std::time::Duration;

use hankweave_runtime::Shutdown;
use tokio::net::TcpListener;

pub use deployment::{RegisterError, register};
pub use engine::RestateEngine;

/// Time for executions to report to Restate that another worker must continue them. It follows the grace of their runs.
const FAREWELL: Duration = Duration::from_secs(5);

/// Additional time for executions to push their runs to a remote.
const CARRYING: Duration = Duration::from_secs(60);

/// Serves Restate until asked to stop. Then asks the runs to stop, and kills those that outlast their grace. Restate gives their tasks to another worker.
pub async fn serve(engine: RestateEngine, listener: TcpListener, shutdown: &Shutdown) {
    let carrying = engine
        .options
        .remote
        .as_ref()
        .map_or(Duration::ZERO, |_| CARRYING);
    let patience = engine.options.grace + FAREWELL + carrying;
    let engine = RestateEngine {
        shutdown: shutdown.clone(),
        ..engine
    };
    server::serve(listener, object::endpoint(Arc::new(engine)), shutdown, patience).await;
}
