//! Moves runs between machines through a git remote.
//!
//! An **execution** is one history of runs in one directory. On a git remote it is one reference, `refs/hankweave/…/record`. That reference leads to
//! a commit that holds the record: state, journal and sessions of agents. The parents of the commit are the previous record and the checkpoints that
//! this record refers to. So a fetch of the reference gets a record and checkpoints that match. One compare-and-swap of the reference decides which
//! machine continued the run. The losing record is pushed under `kept/` next to `record` and stays reachable.
//!
//! The input is an execution directory and a URL that the installed git can push to; the output is [`Pushed`], [`FetchedRun`] or a [`RemoteError`].
//! `docs/design/remote.md` gives the reasons for this design.
//!
//! Comments cite the rules of [docs/rules](https://github.com/hankweave/hankweave/tree/main/docs/rules) by ids such as `STATE-12`.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "tests look at the real world themselves"
    )
)]

mod arrive;
mod book;
mod contents;
mod error;
mod execution;
mod fetch;
mod files;
mod git;
mod limits;
mod manifest;
mod place;
mod push;
mod record;
mod sessions;
mod snapshot;
mod unpack;
mod url;
mod verify;

pub use arrive::{CloneRequest, FetchedRun, PullRequest, clone, pull};
pub use book::{RemoteTracking, remembered};
pub use error::RemoteError;
pub use execution::RemoteExecution;
pub use fetch::{RemoteListing, list};
pub use limits::{ArrivalLimits, VARIABLE as MAX_SIZE_VARIABLE, parse_size};
pub use manifest::FORMAT;
pub use push::{PushOutcome, PushRequest, Pushed, push};
pub use snapshot::history;
pub use url::{absolute, shown};
