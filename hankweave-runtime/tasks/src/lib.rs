//! Tasks that workers share: their registry, their locks and their files. What decides is in [`hankweave_task_model`], exported here as [`model`].
//!
//! A [`Coordinator`] is the one truth about tasks and locks. There are three: [`Memory`] inside one process, [`Sqlite`] on one machine with nothing to install,
//! [`Postgres`] for many machines.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "tests look at the real world themselves"
    )
)]

pub mod coordinator;
mod engine;
pub mod layers;
mod memory;
mod postgres;
mod sqlite;
mod stored;
pub mod worker;

pub use coordinator::Coordinator;
pub use hankweave_task_model as model;
pub use memory::Memory;
pub use postgres::Postgres;
pub use sqlite::Sqlite;
