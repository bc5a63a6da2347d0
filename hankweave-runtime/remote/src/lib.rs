//! Takes a run to another machine and back.
//!
//! An **execution** is one history of runs in one directory. On a git remote it is one reference, `refs/hankweave/…/record`: a commit that holds the record (state,
//! journal, sessions of agents) and whose parents are the record before it and the checkpoints that this one speaks of. So whoever fetches the reference has record
//! and checkpoints that fit each other, and one compare-and-swap of it decides who continued. What loses is pushed under `kept/` beside it and stays reachable.
//!
//! In go an execution directory and a URL that the installed git can push to; out come [`Pushed`], [`FetchedRun`] or a [`RemoteError`]. `docs/design/remote.md` says why it
//! is made like this.
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
