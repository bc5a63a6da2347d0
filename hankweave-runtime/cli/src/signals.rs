//! Signals that ask a command to stop.

use std::convert::Infallible;
use std::process::ExitCode;

use hankweave_runtime::world::environment::Environment;
use hankweave_runtime::{Shutdown, StopCause};
use tokio::signal::unix::{SignalKind, signal};

/// The first signal stops in order, the second one forces. A program started with `nohup` outlives its terminal.
pub(crate) async fn watch(shutdown: Shutdown) -> Infallible {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        tracing::warn!("signals cannot be caught; the default applies");
        return std::future::pending().await;
    };
    let outlives_terminal = Environment::of_process().ignores_signal(SignalKind::hangup().as_raw_value());
    let mut hang_up = if outlives_terminal {
        None
    } else {
        signal(SignalKind::hangup()).ok()
    };
    loop {
        let hung_up = async {
            match &mut hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        let cause = tokio::select! {
            _ = interrupt.recv() => StopCause::Interrupt,
            _ = terminate.recv() => StopCause::Terminate,
            _ = hung_up => StopCause::Terminate,
        };
        shutdown.request(cause);
    }
}

/// The exit code of a command that was asked to stop.
pub(crate) fn stopped(shutdown: &Shutdown) -> ExitCode {
    shutdown
        .cause()
        .map_or(ExitCode::SUCCESS, |cause| ExitCode::from(cause.exit_code()))
}
