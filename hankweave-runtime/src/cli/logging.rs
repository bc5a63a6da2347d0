//! Our own log: to standard error as loud as asked for, `HANKWEAVE_LOG` as a filter.

use tracing_subscriber::EnvFilter;

use super::args::Global;

/// Installs the subscriber; `HANKWEAVE_LOG` wins over `-v`.
pub(super) fn install(global: &Global) {
    let default = match (global.quiet, global.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info,hankweave_runtime=debug",
        (false, _) => "debug,hankweave_runtime=trace",
    };
    let filter = EnvFilter::try_from_env("HANKWEAVE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let stderr = std::io::stderr();
    let ansi = anstream::AutoStream::choice(&stderr) != anstream::ColorChoice::Never;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(ansi);
    // A second call in one process is a test's affair; the first subscriber stays.
    let _ = subscriber.with_target(false).try_init();
}
