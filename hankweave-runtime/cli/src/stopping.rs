//! What is said at once when somebody asks a run to stop: that it was heard, and how long it may take.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::codon::CodonStatus;
use hankweave_core::document::HankweaveState;
use hankweave_runtime::world::blocking::Blocking;
use hankweave_runtime::{Shutdown, StopCause};

use crate::report::Aside;

/// Answers every request to stop on the screen, for as long as the run lives.
pub(crate) async fn answer(
    aside: Aside,
    shutdown: &Shutdown,
    state: impl Fn() -> Arc<HankweaveState>,
    grace: Duration,
) -> Infallible {
    shutdown.requested().await;
    let (first, voice) = (heard(shutdown.cause(), &state(), grace), aside.clone());
    // Whoever does not read it must keep nothing waiting.
    Blocking::Threads.run(move || voice.say(&first)).await;
    shutdown.force_token().cancelled().await;
    Blocking::Threads
        .run(move || aside.say("stopping: what still runs is ended now"))
        .await;
    std::future::pending().await
}

fn heard(cause: Option<StopCause>, state: &HankweaveState, grace: Duration) -> String {
    let (stopping, again) = match cause {
        Some(StopCause::Interrupt) => ("stopping", "Ctrl+C again"),
        Some(StopCause::Terminate) => ("stopping (SIGTERM)", "a second signal"),
        Some(StopCause::Request | StopCause::ForcedRequest) | None => ("stopping (on request)", "Ctrl+C"),
    };
    let newest = state.runs.front().and_then(|run| run.codons.last());
    let running = match newest.map(|codon| codon.status()) {
        Some(CodonStatus::Preparing | CodonStatus::Starting) => "its set-up",
        Some(CodonStatus::Initializing | CodonStatus::Running | CodonStatus::CompletingSentinels) => {
            "the agent"
        }
        Some(CodonStatus::Completed | CodonStatus::Failed | CodonStatus::Skipped) | None => {
            return stopping.to_owned();
        }
    };
    let seconds = grace.as_secs_f64();
    format!("{stopping}: {running} has {seconds} s; {again} ends it now")
}
