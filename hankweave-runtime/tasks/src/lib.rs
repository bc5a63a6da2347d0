//! Tasks that workers share: their registry, their locks and their files. The decisions are in [`hankweave_task_model`], exported here as [`model`].
//!
//! A [`Coordinator`] stores tasks and locks. There are three: [`Memory`] inside one process, [`Sqlite`] on one machine with nothing to install, and
//! [`Postgres`] for many machines.
//!
//! Comments cite the rules of [docs/rules](https://github.com/hankweave/hankweave/tree/main/docs/rules) by ids such as `STATE-12`.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "tests look at the real world themselves"
    )
)]

pub mod coordinator;
mod engine;
#[cfg(test)]
#[path = "../../tests/support/faulty_disk.rs"]
mod faulty_disk;
pub mod layers;
pub mod lifecycle;
pub mod locks;
mod memory;
pub mod metrics;
mod postgres;
mod publish;
mod recorder;
mod sqlite;
mod stored;
#[cfg(test)]
mod testing;
pub mod worker;

pub use coordinator::Coordinator;
pub use hankweave_task_model as model;
pub use lifecycle::Lifecycle;
pub use locks::Locks;
pub use memory::Memory;
pub use postgres::Postgres;
pub use publish::publish;
pub use recorder::{RecordRequest, RecordRequests, Recorder};
pub use sqlite::Sqlite;
