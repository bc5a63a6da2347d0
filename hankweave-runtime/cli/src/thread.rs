//! `hankweave history`: prints the execution thread, which is the one history that counts out of many runs, with its codons and checkpoints.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use hankweave_core::codon::CheckpointType;
use hankweave_core::discovery::ServerLockRecord;
use hankweave_core::document::{HankweaveState, PendingRollback, RunStatus};
use hankweave_core::id::{CheckpointSha, CodonId, RunId, SessionId};
use hankweave_core::thread::{self, ExecutionThread, ThreadCodon};
use hankweave_core::view::RunView;
use hankweave_runtime::CodonSummary;
use serde::Serialize;

use crate::args::{Global, HistoryArgs};
use crate::directory::{holder, lived};
use crate::state;
use crate::status::{self, AttemptTotals, OpenCodon};
use crate::terminal::exit::CliError;
use crate::terminal::output;
use crate::terminal::report::{
    ColumnTime, RunProcess, budget_note, codon_line, codon_standing, codon_time, counted, id_width,
    loop_check, run_standing, style_of,
};
use crate::terminal::screen::{SafeText, print_stderr, with_local_times};

/// Prints the thread up to the newest run, or up to the run that the arguments name.
pub(crate) fn thread(global: &Global, args: &HistoryArgs) -> Result<ExitCode, CliError> {
    let document = state::read(&args.document)?;
    // Checkpoints that exist; without them every recorded one counts as existing.
    let known = match args.no_checkpoint_validation {
        true => None,
        false => state::known_checkpoints(&args.document, &document, args.known_checkpoints.as_deref())?,
    };
    let run = args
        .run
        .as_deref()
        .map(|text| state::named_run(&document, text, &args.document));
    let run = run.transpose()?;
    let thread = thread::build(&document, run.as_ref(), known.as_deref());
    if let Some(run) = run.as_ref().filter(|run| document.run(run).is_none()) {
        let hint = state::history_command(&args.document);
        print_stderr(format!(
            "note: no run `{run}` is recorded, so its thread is empty\n  hint: `{hint}` lists the runs\n"
        ));
    }
    let sessions = thread.continuation_sessions(&document.execution_plan);
    if global.json() {
        return output::print_json(&ThreadReport {
            thread: &thread,
            sessions,
        });
    }
    let mut text = SafeText::default();
    let pending = document.pending_rollback.as_ref().filter(|_| args.run.is_none());
    let (file, execution) = (args.document.state.as_deref(), &args.document.execution.execution);
    let view = ThreadView {
        document: &document,
        thread: &thread,
        process: state::process_of(file, execution, &document),
        lived: thread.codons.first().and_then(|newest| {
            let is_lost = !newest.codon.is_terminal() && file.is_none() && holder(execution).is_none();
            if is_lost {
                lived(execution, &newest.codon)
            } else {
                None
            }
        }),
        holder: holder(execution),
        // Only the newest thread of a directory has a hank that says what is next.
        outlook: match (file, &args.run) {
            (None, None) => status::outlook_of(execution, &document)?.map(|outlook| outlook.to_string()),
            _ => None,
        },
        all: state::history_command(&args.document),
    };
    // Writing to a text cannot fail.
    let _ = view.write(&mut text, pending);
    output::print_lines(text)?;
    Ok(ExitCode::SUCCESS)
}

/// Output of `--format json` (CLI-8).
#[derive(Serialize)]
struct ThreadReport<'a> {
    #[serde(flatten)]
    thread: &'a ExecutionThread,
    sessions: BTreeMap<&'a CodonId, Option<&'a SessionId>>,
}

/// Output for people.
struct ThreadView<'a> {
    document: &'a HankweaveState,
    thread: &'a ExecutionThread,
    process: RunProcess,
    /// Lock record of the process that works in the directory.
    holder: Option<ServerLockRecord>,
    /// Least time at work of the newest codon, if it is open and its process no longer exists.
    lived: Option<Duration>,
    /// Next codon of the directory, or what blocks it, as `status` says it.
    outlook: Option<String>,
    /// The command that lists every run.
    all: String,
}

impl ThreadView<'_> {
    fn write(&self, text: &mut SafeText, pending: Option<&PendingRollback>) -> std::fmt::Result {
        if let Some(pending) = pending {
            writeln!(text, "{}", status::rolled_back(pending))?;
        }
        writeln!(text, "{}, newest first", numbers(self.document, self.thread))?;
        let codons = &self.thread.codons;
        let width = id_width(codons.iter().map(|entry| entry.codon.codon_id()));
        let open = self.open_codon();
        let (sums, mut summed) = (AttemptTotals::of(self.thread, open), HashSet::new());
        let mut run = None;
        for entry in codons {
            if run != Some(&entry.run_id) {
                writeln!(text, "run {} {}", entry.run_id, self.state_of_run(entry))?;
                run = Some(&entry.run_id);
            }
            let id = entry.codon.codon_id();
            match sums.get(id).filter(|sum| sum.count > 1) {
                None => self.write_codon(text, entry, width, false)?,
                Some(sum) => {
                    if summed.insert(id) {
                        self.write_sum(text, (entry, sum), width)?;
                    }
                    self.write_codon(text, entry, width, true)?;
                }
            }
        }
        if let Some(undone) = status::undone_words(&RunView::of_state(self.document, self.thread, 0)) {
            writeln!(text, "{undone}; `{}` lists them", self.all)?;
        }
        match &self.outlook {
            Some(outlook) => writeln!(text, "{outlook}"),
            None => self.write_next(text),
        }
    }

    fn open_codon(&self) -> OpenCodon {
        let live = self.process.is_live().then_some(self.holder.as_ref());
        let open = OpenCodon::of(self.thread, live);
        OpenCodon {
            worked: self.lived.unwrap_or(open.worked),
            ..open
        }
    }

    /// Returns the status of an entry's run in words.
    fn state_of_run(&self, entry: &ThreadCodon) -> String {
        let Some(run) = self.document.run(&entry.run_id) else {
            return entry.run_status.as_str().to_owned();
        };
        let state = run_standing(run, self.process);
        match self.process {
            RunProcess::Suspended(pid) if run.status == RunStatus::Running => {
                format!("{state} (process {pid})")
            }
            _ => state.to_owned(),
        }
    }

    /// Writes the row of a codon with the sums of its attempts. The rows of the attempts follow.
    fn write_sum(
        &self,
        text: &mut SafeText,
        (newest, sum): (&ThreadCodon, &AttemptTotals),
        width: usize,
    ) -> std::fmt::Result {
        let codon = sum.over(CodonSummary::of(&newest.codon));
        let line = codon_line(codon_standing(&newest.codon, self.process), sum.time(), &codon);
        write!(text, "  ")?;
        let style = style_of(codon.status, codon.interrupted_by);
        text.styled(style, format_args!("{:<width$}", codon.codon_id.as_str()))?;
        writeln!(text, "  {}  {} attempts", line.trim_end(), sum.count)
    }

    /// Writes the row of a codon, or, with `is_attempt`, of one of its attempts below the row of their sums.
    fn write_codon(
        &self,
        text: &mut SafeText,
        entry: &ThreadCodon,
        width: usize,
        is_attempt: bool,
    ) -> std::fmt::Result {
        let mut codon = CodonSummary::of(&entry.codon);
        if is_attempt {
            // Changed files are counted from the start of the first attempt, so they belong to the row of sums.
            codon.files_changed = None;
            write!(text, "  ")?;
        }
        let time = match entry.codon.is_terminal() || self.process.is_live() {
            true => codon_time(&entry.codon, self.process, self.holder.as_ref()),
            // Its process no longer exists, so it may have worked longer than is known.
            false => ColumnTime::of(self.open_codon().worked, true),
        };
        let line = codon_line(codon_standing(&entry.codon, self.process), time, &codon);
        write!(text, "  ")?;
        let style = style_of(codon.status, codon.interrupted_by);
        text.styled(style, format_args!("{:<width$}", codon.codon_id.as_str()))?;
        let checkpoints = entry.validated_checkpoints.iter().map(|checkpoint| {
            let sha = CheckpointSha::short(&checkpoint.sha);
            match checkpoint.checkpoint_type {
                // Not `error`: the codon was stopped or paused, and nothing failed.
                CheckpointType::Error if codon.interrupted_by.is_some() => {
                    format!("  {} {sha}", codon_standing(&entry.codon, self.process))
                }
                kind => format!("  {kind} {sha}"),
            }
        });
        let (checkpoints, note) = (checkpoints.collect::<String>(), budget_note(&codon));
        let line = format!("  {line}{checkpoints}{note}");
        writeln!(text, "{}", line.trim_end())?;
        if let Some(message) = codon.failure.and_then(|failure| failure.message) {
            writeln!(text, "    {}", with_local_times(&message))?;
        }
        if let Some(replacement) = entry.codon.replacement() {
            writeln!(text, "    {replacement}")?;
        }
        match loop_check(&entry.codon) {
            Some(words) => writeln!(text, "    {words}"),
            None => Ok(()),
        }
    }

    /// Writes the next codon as far as the thread itself knows it.
    fn write_next(&self, text: &mut SafeText) -> std::fmt::Result {
        let thread = self.thread;
        match (&thread.next_codon_id, thread.failed, thread.has_running_codon) {
            (Some(next), ..) => writeln!(text, "next: {next}"),
            (None, true, _) => writeln!(text, "nothing is next: the newest codon failed"),
            (None, false, true) if self.process.is_live() => {
                writeln!(text, "nothing is next: a codon is running")
            }
            (None, false, true) => writeln!(
                text,
                "nothing is next: a codon crashed, its process no longer exists"
            ),
            (None, false, false) => writeln!(text, "nothing is next"),
        }
    }
}

/// Returns `4 codons, 9 attempts in 6 runs; 12 runs are recorded`. A codon of a loop counts once.
fn numbers(document: &HankweaveState, thread: &ExecutionThread) -> String {
    let codons: HashSet<&str> = thread
        .codons
        .iter()
        .map(|entry| entry.codon.codon_id().configured())
        .collect();
    let runs: HashSet<&RunId> = thread.codons.iter().map(|entry| &entry.run_id).collect();
    let recorded = match document.runs.len() {
        all if all == runs.len() => String::new(),
        all => format!("; {} recorded", are(all, "run")),
    };
    format!(
        "{}, {} in {}{recorded}",
        counted(codons.len(), "codon"),
        counted(thread.codons.len(), "attempt"),
        counted(runs.len(), "run")
    )
}

/// Returns `12 runs are`.
fn are(number: usize, noun: &str) -> String {
    let verb = if number == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(number, noun))
}
