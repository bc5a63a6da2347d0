//! The server on real sockets: real clients, raw ones, and such as behave badly.

mod access;
mod commands;
mod events;
mod fuzz;
mod guest;
mod history;
mod limits;
mod plain;
mod silence;
mod view;

use std::sync::Arc;

use hankweave_core::discovery::{READ_ONLY_TOKEN_FILE, TOKEN_FILE};
use hankweave_core::document::HankweaveState;
use hankweave_core::wire::Event;
use tokio::task::JoinHandle;

use super::*;
use crate::Hankweave;
use crate::runner::tests::Stage as Project;
use crate::runner::{RunError, RunOutcome};
use crate::shutdown::StopCause;

/// A run in the background with clients welcome.
struct Live {
    project: Project,
    port: u16,
    token: String,
    read_only_token: String,
    manager: StateManager,
    commander: Commander,
    shutdown: Shutdown,
    task: JoinHandle<Result<RunOutcome, RunError>>,
}

async fn live(project: Project) -> Live {
    let hankweave = project.open().await;
    live_in(project, hankweave).await
}

async fn live_in(project: Project, mut hankweave: Hankweave) -> Live {
    hankweave.serve(ServerOptions::default()).await.unwrap();
    let token = |file| {
        let path = project.work().join(".hankweave").join(file);
        std::fs::read_to_string(path).unwrap().trim_end().to_owned()
    };
    let shutdown = Shutdown::new();
    let (full, read_only) = (token(TOKEN_FILE), token(READ_ONLY_TOKEN_FILE));
    Live {
        project,
        port: hankweave.address().unwrap().port(),
        token: full,
        read_only_token: read_only,
        manager: hankweave.opened.possession.manager.clone(),
        commander: hankweave.commander(),
        shutdown: shutdown.clone(),
        task: tokio::spawn(hankweave.run(shutdown)),
    }
}

/// A project that starts nothing by itself.
fn waiting(prompts: &[&str]) -> Project {
    let mut project = Project::new(prompts);
    project.options.autostart = false;
    project
}

impl Live {
    fn state(&self) -> Arc<HankweaveState> {
        self.manager.snapshot()
    }

    /// Records events from outside the run, as a talkative agent would.
    async fn chatter(&self, count: usize, bytes: usize) {
        for _ in 0..count {
            let message = "x".repeat(bytes);
            drop(self.manager.record(Event::Info { message }).await);
        }
        self.manager
            .record(Event::Info {
                message: "end of chatter".to_owned(),
            })
            .await
            .await
            .unwrap();
    }

    /// Records one event with this text.
    async fn say(&self, message: &str) {
        let message = message.to_owned();
        self.manager.record(Event::Info { message }).await.await.unwrap();
    }

    /// The numbers of all events in the journal.
    fn journaled(&self) -> Vec<u64> {
        let mut numbers = Vec::new();
        let show = &mut |seq, _: &[u8]| {
            numbers.push(seq);
            true
        };
        self.manager.journal().lines_after(0, show).unwrap();
        numbers
    }

    async fn stop(self) -> RunOutcome {
        self.shutdown.request(StopCause::Request);
        self.task.await.unwrap().unwrap()
    }
}
