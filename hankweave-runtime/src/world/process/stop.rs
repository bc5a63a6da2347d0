//! Stopping a process: asking it to end, and killing it if it does not.

use std::io;
use std::time::Duration;

use hankweave_core::agent::ProcessExit;
use tokio::time::timeout;

use super::{GroupSignal, ProcessControl};

/// How long a killed process may take to vanish; only one stuck in the kernel needs longer. With the usual grace of five
/// seconds and the sweep, a stop takes at most ten seconds.
const KILL_DEADLINE: Duration = Duration::from_secs(2);

/// Ends a process: SIGTERM to its group, `grace`, SIGKILL to its group (S3). The
/// caller sweeps afterwards.
///
/// # Errors
///
/// Returns [`io::ErrorKind::TimedOut`] if the process survived SIGKILL for two seconds, or the error of the operating
/// system.
pub async fn stop(control: &mut dyn ProcessControl, grace: Duration) -> io::Result<ProcessExit> {
    ask(control, &[GroupSignal::Terminate], grace).await
}

/// Stops a program that still reports its usage when it is interrupted: SIGINT first, and SIGTERM after half of `grace`.
///
/// # Errors
///
/// As for [`stop`].
pub async fn interrupt(control: &mut dyn ProcessControl, grace: Duration) -> io::Result<ProcessExit> {
    ask(control, &[GroupSignal::Interrupt, GroupSignal::Terminate], grace).await
}

/// Each signal gets an equal part of `grace`; then the process is killed.
async fn ask(
    control: &mut dyn ProcessControl,
    signals: &[GroupSignal],
    grace: Duration,
) -> io::Result<ProcessExit> {
    for signal in signals {
        control.signal_group(*signal)?;
        let patience = grace / u32::try_from(signals.len()).unwrap_or(u32::MAX);
        if let Ok(exit) = timeout(patience, control.wait()).await {
            return exit;
        }
    }
    control.signal_group(GroupSignal::Kill)?;
    timeout(KILL_DEADLINE, control.wait()).await?
}
