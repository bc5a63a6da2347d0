//! Our own log: to standard error as loud as asked for, and at least with what is worth knowing later to the log in the execution directory;
//! `HANKWEAVE_LOG` as a filter for both, without secrets.

use std::io::{self, Write};

use hankweave_runtime::world::environment::Environment;
use hankweave_runtime::world::secrets::Secrets;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt, registry};

use crate::args::Global;
use crate::screen::{LogWriter, log_line};
use crate::server_log::ServerLog;

/// Level of the log in the execution directory, unless `HANKWEAVE_LOG` sets another one.
const IN_FILE: &str = "info";

/// Form of the messages on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogForm {
    /// Lines with time, level and fields.
    Lines,
    /// Sentences among those of a command, unless more is asked for than usual.
    Sentences,
}

/// Installs the subscriber; `HANKWEAVE_LOG` wins over `-v`. The log in the execution directory is for the caller to open.
pub(crate) fn install(global: &Global) -> ServerLog {
    install_as(global, LogForm::Lines)
}

/// Installs the subscriber for a command that prints lines for people all the time: warnings are sentences, too.
pub(crate) fn install_sentences(global: &Global) {
    let is_usual = global.verbose == 0 && Environment::of_process().get("HANKWEAVE_LOG").is_none();
    let form = if is_usual {
        LogForm::Sentences
    } else {
        LogForm::Lines
    };
    drop(install_as(global, form));
}

fn install_as(global: &Global, form: LogForm) -> ServerLog {
    let default = match (global.quiet, global.verbose) {
        (true, _) => "error",
        // A pool of connections complains of each that the database closed; what that means for us, the registry says.
        (false, 0) => "warn,deadpool=error",
        (false, 1) => "info,hankweave=debug",
        (false, _) => "debug,hankweave=trace",
    };
    let filter =
        |default: &str| EnvFilter::try_from_env("HANKWEAVE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let (on_terminal, in_file) = (filter(default), filter(IN_FILE));
    let shows_everything = [&on_terminal, &in_file].iter().any(|filter| {
        filter
            .max_level_hint()
            .is_none_or(|level| level >= LevelFilter::TRACE)
    });
    let secrets = Secrets::of(Environment::of_process().iter());
    let (log, own) = (ServerLog::new(), secrets.clone());
    let to_file = log.clone();
    let terminal = fmt::layer()
        .with_writer(move || Redacting(own.clone(), LogWriter))
        .with_ansi(false);
    let file = fmt::layer()
        .with_writer(move || Redacting(secrets.clone(), ServerLogWriter(to_file.clone())))
        .with_ansi(false);
    // What cannot be written to standard error cannot be complained about there either.
    let lines = fmt::format().with_target(false).with_ansi(false);
    let terminal = terminal
        .log_internal_errors(false)
        .event_format(TerminalFormat { form, lines });
    let file = file.log_internal_errors(false).with_target(false);
    // A second call in one process is a test's affair; the first subscriber stays.
    let _ = registry()
        .with(terminal.with_filter(on_terminal))
        .with(file.with_filter(in_file))
        .try_init();
    if shows_everything {
        tracing::warn!("a log this loud may show prompts, environments and what tools answered");
    }
    log
}

/// Messages on standard error; sentences are like `warning: a lock was not renewed; trying again (the registry does not answer)`.
struct TerminalFormat {
    form: LogForm,
    lines: Format,
}

impl<S, N> FormatEvent<S, N> for TerminalFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        if self.form == LogForm::Lines {
            return self.lines.format_event(context, writer, event);
        }
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            _ => "note",
        };
        let mut said = Said::default();
        event.record(&mut said);
        write!(writer, "{level}: {}", said.message)?;
        if !said.details.is_empty() {
            write!(writer, " ({})", said.details.join(", "))?;
        }
        writeln!(writer)
    }
}

/// Message of an event, and its other fields in words.
#[derive(Default)]
struct Said {
    message: String,
    details: Vec<String>,
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            "taskId" => self.details.insert(0, format!("task {value}")),
            "error" | "why" => self.details.push(value.to_owned()),
            name => self.details.push(format!("{name} {value}")),
        }
    }
}

/// A place for messages, with secrets taken out of each.
struct Redacting<W>(Secrets, W);

impl<W: Write> Write for Redacting<W> {
    /// The subscriber writes a whole message at once.
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(message);
        self.1.write_all(self.0.redact(&text).as_bytes())?;
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.flush()
    }
}

/// The log in the execution directory.
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
