//! Our own log: to standard error as loud as asked for, `HANKWEAVE_LOG` as a filter, without secrets.

use std::io::{self, Write};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

use super::args::Global;
use crate::world::environment::Environment;
use crate::world::secrets::Secrets;

/// Installs the subscriber; `HANKWEAVE_LOG` wins over `-v`.
pub(super) fn install(global: &Global) {
    let default = match (global.quiet, global.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info,hankweave_runtime=debug",
        (false, _) => "debug,hankweave_runtime=trace",
    };
    let filter = EnvFilter::try_from_env("HANKWEAVE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let stderr = io::stderr();
    let shows_everything = filter
        .max_level_hint()
        .is_none_or(|level| level >= LevelFilter::TRACE);
    let secrets = Secrets::of(Environment::of_process().iter());
    let ansi = anstream::AutoStream::choice(&stderr) != anstream::ColorChoice::Never;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || Redacting(secrets.clone()))
        .with_ansi(ansi)
        // What cannot be written to standard error cannot be complained about there either.
        .log_internal_errors(false);
    // A second call in one process is a test's affair; the first subscriber stays.
    let _ = subscriber.with_target(false).try_init();
    if shows_everything {
        tracing::warn!("a log this loud may show prompts, environments and what tools answered");
    }
}

/// Standard error, with secrets taken out of each message.
struct Redacting(Secrets);

impl Write for Redacting {
    /// The subscriber writes a whole message at once.
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(message);
        io::stderr().write_all(self.0.redact(&text).as_bytes())?;
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
