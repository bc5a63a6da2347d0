//! The program's own messages (`tracing`): to standard error, as loud as `-v` and `--quiet` say, and to the server log in the execution directory. The
//! variable `HANKWEAVE_LOG` is a filter for both. Secrets are removed from both.

use std::io::{self, Write};

use hankweave_runtime::world::environment::Environment;
use hankweave_runtime::world::secrets::Secrets;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt, registry};

use crate::args::Global;
use crate::server_log::ServerLog;
use crate::terminal::screen::{LogWriter, log_line};

/// Level of the server log, unless `HANKWEAVE_LOG` sets another one.
const FILE_LEVEL: &str = "info";

/// Starts logging; `HANKWEAVE_LOG` wins over `-v`. Returns the server log, which the caller opens once the execution directory is known.
pub(crate) fn install(global: &Global) -> ServerLog {
    let default = match (global.quiet, global.verbose) {
        (true, _) => "error",
        // A pool of connections (deadpool) warns of each one that the database closed; the registry reports those that matter.
        (false, 0) => "warn,deadpool=error",
        (false, 1) => "info,hankweave=debug",
        (false, _) => "debug,hankweave=trace",
    };
    let filter =
        |default: &str| EnvFilter::try_from_env("HANKWEAVE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let (on_terminal, in_file) = (filter(default), filter(FILE_LEVEL));
    let shows_everything = [&on_terminal, &in_file].iter().any(|filter| {
        filter
            .max_level_hint()
            .is_none_or(|level| level >= LevelFilter::TRACE)
    });
    let secrets = Secrets::of(Environment::of_process().iter());
    let log = ServerLog::new();
    let (terminal_secrets, file_log) = (secrets.clone(), log.clone());
    let terminal = fmt::layer()
        .with_writer(move || Redacting(terminal_secrets.clone(), LogWriter))
        .with_ansi(false);
    let file = fmt::layer()
        .with_writer(move || Redacting(secrets.clone(), ServerLogWriter(file_log.clone())))
        .with_ansi(false);
    // A user who has not asked for the log gets sentences.
    let is_plain = global.verbose == 0 && Environment::of_process().get("HANKWEAVE_LOG").is_none();
    // `log_internal_errors(false)`: a failure to write to standard error cannot be reported there either.
    let terminal = match is_plain {
        true => terminal
            .log_internal_errors(false)
            .event_format(SentenceFormat)
            .boxed(),
        false => terminal.log_internal_errors(false).with_target(false).boxed(),
    };
    let file = file.log_internal_errors(false).with_target(false);
    // Fails for a second call in one process, as in tests; the first subscriber stays.
    let _ = registry()
        .with(terminal.with_filter(on_terminal))
        .with(file.with_filter(in_file))
        .try_init();
    if shows_everything {
        tracing::warn!("a log this loud may show prompts, environments and what tools answered");
    }
    log
}

/// Writes a message of the log as a sentence: `warning: no heartbeat: the disk is full`.
struct SentenceFormat;

impl<S, N> FormatEvent<S, N> for SentenceFormat
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let kind = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            _ => "note",
        };
        let mut sentence = Sentence::default();
        event.record(&mut sentence);
        writeln!(writer, "{kind}: {sentence}")
    }
}

/// Parts of a message: its text, the field `error`, and the other fields as `name value`.
#[derive(Debug, Default)]
struct Sentence {
    message: String,
    error: Option<String>,
    others: Vec<String>,
}

impl Sentence {
    fn add(&mut self, field: &str, value: String) {
        match field {
            "message" => self.message = value,
            "error" => self.error = Some(value),
            "taskId" => self.others.insert(0, format!("task {value}")),
            other => self.others.push(format!("{other} {value}")),
        }
    }
}

impl Visit for Sentence {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.add(field.name(), format!("{value:?}"));
    }
}

impl std::fmt::Display for Sentence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        if !self.others.is_empty() {
            write!(f, " ({})", self.others.join(", "))?;
        }
        match &self.error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

/// Writer that removes secrets from each message before it passes the message on to the inner writer.
struct Redacting<W>(Secrets, W);

impl<W: Write> Write for Redacting<W> {
    /// Writes a message; the subscriber passes whole messages.
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(message);
        self.1.write_all(self.0.redact(&text).as_bytes())?;
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.flush()
    }
}

/// Writer to the server log.
struct ServerLogWriter(ServerLog);

impl Write for ServerLogWriter {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.0.append(log_line(lines).as_bytes());
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: CLI-20
    #[test]
    fn a_message_of_the_log_is_a_sentence_for_people() {
        let mut sentence = Sentence {
            message: "a sentinel has not acted on everything".to_owned(),
            ..Sentence::default()
        };
        assert_eq!(sentence.to_string(), "a sentinel has not acted on everything");
        sentence.add("sentinel", "guard".to_owned());
        sentence.add("left", "2".to_owned());
        sentence.add("error", "the disk is full".to_owned());
        assert_eq!(
            sentence.to_string(),
            "a sentinel has not acted on everything (sentinel guard, left 2): the disk is full"
        );
    }
}
