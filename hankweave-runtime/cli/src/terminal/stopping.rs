//! The message when a run is asked to stop: that it stops, and how long that may take.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::codon::CodonStatus;
use hankweave_core::document::HankweaveState;
use hankweave_core::time::short_duration;
use hankweave_runtime::world::blocking::Blocking;
use hankweave_runtime::{Shutdown, StopCause};

use crate::terminal::screen::print_stderr;

/// Prints a notice for each request to stop while the run lives: the first one, after which agents have `grace` to end, and a forced one. `count_down`
/// shows on the screen how long the stop may still take.
pub(crate) async fn answer(
    is_quiet: bool,
    shutdown: &Shutdown,
    state: impl Fn() -> Arc<HankweaveState>,
    grace: Duration,
    count_down: impl Fn(Duration),
) -> Infallible {
    shutdown.requested().await;
    count_down(grace);
    print_notice(is_quiet, message(shutdown.cause(), &state(), grace)).await;
    shutdown.force_token().cancelled().await;
    count_down(Duration::ZERO);
    print_notice(is_quiet, "stopping: what still runs is ended now".to_owned()).await;
    std::future::pending().await
}

/// Prints a notice on a thread of its own, so that a terminal that is not read delays nothing.
async fn print_notice(is_quiet: bool, text: String) {
    if !is_quiet {
        Blocking::Threads
            .run(move || print_stderr(format!("{text}\n")))
            .await;
    }
}

fn message(cause: Option<StopCause>, state: &HankweaveState, grace: Duration) -> String {
    let (stopping, again) = match cause {
        Some(StopCause::Interrupt) => ("stopping", "Ctrl+C again"),
        Some(StopCause::Terminate) => ("stopping (SIGTERM)", "a second signal"),
        Some(StopCause::HangUp) => ("stopping (SIGHUP)", "SIGTERM or Ctrl+C"),
        Some(StopCause::Sentinel) => ("stopping (a sentinel asked for a pause)", "Ctrl+C"),
        Some(StopCause::Request | StopCause::ForcedRequest) | None => ("stopping (on request)", "Ctrl+C"),
        Some(_) => ("stopping", "Ctrl+C"),
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
    format!(
        "{stopping}: {running} has {}; {again} ends it now",
        short_duration(grace)
    )
}
