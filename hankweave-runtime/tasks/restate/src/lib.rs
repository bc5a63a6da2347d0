//! Workers whose tasks [Restate](https://restate.dev) keeps, in the place of a registry: an execution is a virtual object whose key is the id of the task, and
//! each step and each codon is a durable step of it (TASK-86 to TASK-89).
//!
//! Restate calls the workers, hands each execution to one of them, and to another one when that is gone. Beneath it works the same [`Worker`] as elsewhere, on a
//! coordinator that has this one task.
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

/// How long executions may take, beyond the grace of their runs, to tell Restate that they continue elsewhere.
const FAREWELL: Duration = Duration::from_secs(5);

/// How long they may take besides to bring the rest of their runs to a remote.
const CARRYING: Duration = Duration::from_secs(60);

/// Answers Restate until it is asked to stop. Then runs are stopped in order, and Restate hands their tasks to another worker.
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
