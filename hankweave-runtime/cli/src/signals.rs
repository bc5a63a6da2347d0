//! Signals that ask a command to stop: SIGINT (Ctrl+C), SIGTERM and SIGHUP (a hang-up: the terminal was closed).

use std::convert::Infallible;
use std::os::unix::process::parent_id;
use std::process::ExitCode;

use hankweave_runtime::world::environment::Environment;
use hankweave_runtime::world::identity::SystemIdentity;
use hankweave_runtime::{Shutdown, StopCause};
use hankweave_tasks::worker::WORKER_VARIABLE;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::terminal::screen::end_echoed_line;

/// Effect of a hang-up on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HangUp {
    /// Stops the run in order.
    Stops,
    /// Nothing.
    Ignored,
}

/// Catches signals, from the call on. The first one stops in order, the second one stops at once. A hang-up has the effect `hang_up_does`, and
/// never stops at once: one closed terminal can send several. Under `nohup` hang-ups are ignored. A run that gets SIGTERM from a worker records that.
pub(crate) fn watch(shutdown: Shutdown, hang_up_does: HangUp) -> impl Future<Output = Infallible> {
    let interrupts = signal(SignalKind::interrupt());
    let terminations = signal(SignalKind::terminate());
    let mut hang_ups = hang_ups();
    async move {
        let (Ok(mut interrupts), Ok(mut terminations)) = (interrupts, terminations) else {
            tracing::warn!("signals cannot be caught; the default applies");
            return std::future::pending().await;
        };
        loop {
            tokio::select! {
                _ = interrupts.recv() => {
                    end_echoed_line();
                    shutdown.request(StopCause::Interrupt);
                }
                _ = terminations.recv() => {
                    if let Some(stopper) = stopper().filter(|_| shutdown.cause().is_none()) {
                        shutdown.explain(&stopper);
                    }
                    shutdown.request(StopCause::Terminate);
                }
                () = received(&mut hang_ups) => match hang_up_does {
                    HangUp::Ignored => tracing::info!("SIGHUP: the run continues, as --on-hangup asks"),
                    HangUp::Stops if shutdown.cause().is_none() => shutdown.request(StopCause::HangUp),
                    HangUp::Stops => {}
                },
            }
        }
    }
}

/// Names the sender of SIGTERM to the run of a worker: that worker, or the worker that has the task now if the first one is suspended.
fn stopper() -> Option<String> {
    let worker = Environment::of_process().get(WORKER_VARIABLE)?.to_owned();
    let worker = worker.display();
    Some(match SystemIdentity.is_suspended(parent_id()) {
        true => format!("its worker {worker} was suspended, and the worker that has the task now stopped it"),
        false => format!("its worker {worker} stopped it"),
    })
}

/// Note about a hang-up that stopped nothing.
pub(crate) const TERMINAL_CLOSED: &str = "its terminal was closed (SIGHUP); the run continues";

/// Records the note about the first hang-up, if hang-ups do not stop the run.
pub(crate) async fn note_hang_up(hang_up_does: HangUp, note: impl Future<Output = ()>) -> Infallible {
    if hang_up_does == HangUp::Ignored {
        received(&mut hang_ups()).await;
        note.await;
    }
    std::future::pending().await
}

/// Waits for a hang-up, in a command that only shows a run.
pub(crate) async fn hung_up() -> StopCause {
    received(&mut hang_ups()).await;
    StopCause::HangUp
}

/// Returns the hang-ups of the terminal; `None` if they are ignored, as under `nohup`.
fn hang_ups() -> Option<Signal> {
    let outlives_terminal = Environment::of_process().ignores_signal(SignalKind::hangup().as_raw_value());
    match outlives_terminal {
        true => None,
        false => signal(SignalKind::hangup()).ok(),
    }
}

/// Waits for the next signal; for ever without a `signal`.
async fn received(signal: &mut Option<Signal>) {
    match signal {
        // The result is never `None`: the sender lives as long as the program.
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Returns the exit code of a command: that of the signal if one has stopped it.
pub(crate) fn stopped(shutdown: &Shutdown) -> ExitCode {
    shutdown
        .cause()
        .map_or(ExitCode::SUCCESS, |cause| ExitCode::from(cause.exit_code()))
}
