//! `hankweave diff`: changes of the files, as git prints them. Compares two checkpoints; for a codon that crashed or still runs, the checkpoint of its
//! start with the workspace ([`Unsaved`]).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use anstyle::{AnsiColor, Style};
use hankweave_core::document::HankweaveState;
use hankweave_core::id::{CheckpointSha, CodonId};
use hankweave_core::plan::DeclaredPatterns;
use hankweave_core::thread;
use hankweave_core::time::Timestamp;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::checkpoint::{ChangeKind, GitHistory, HistoryError, PathChange, TreePath};
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_runtime::world::environment::{Environment, find_program};
use serde::Serialize;
use serde_json::{Value, json};

use super::catalogue::{Catalogue, CheckpointRow};
use super::unreadable;
use crate::args::{DiffArgs, Global};
use crate::directory::is_served;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::screen::{SafeText, is_drawable, print, print_stderr};
use crate::terminal::shell::word;

/// Largest length in bytes of a line that is printed in one piece.
const LINE_BYTES: u64 = 64 << 10;

/// Shows the changes of a codon, a checkpoint or a range of checkpoints (CLI-23).
pub(crate) fn diff(global: &Global, args: &DiffArgs) -> Result<ExitCode, CliError> {
    let catalogue = Catalogue::of(args.execution())?;
    if let Some(unsaved) = Unsaved::of(&catalogue.state, args.what()) {
        return unsaved.show(global, &catalogue, args);
    }
    let ends = find_ends(&catalogue, args.what())?;
    let DiffEnds {
        from, to, left_out, ..
    } = &ends;
    let changes = || {
        let mut changes = catalogue.history()?.diff(&from.sha, &to.sha);
        if let Ok(changes) = &mut changes {
            changes.retain(|change| !left_out.contains(&change.path));
        }
        changes.map_err(|error| unreadable(&catalogue, &to.sha, &error))
    };
    if global.json() {
        let changes = changes()?;
        let document = json!({"from": from.sha, "to": to.sha, "changes": changes});
        return output::print_json(&with_crash_mark(document, ends.crashed));
    }
    if let Some(note) = iteration_note(&catalogue, args.what(), to).filter(|_| !global.quiet) {
        print_stderr(note);
    }
    // An error of this comparison is not reported here: git reports it below.
    if changes().is_ok_and(|changes| changes.is_empty()) {
        if !global.quiet {
            print_stderr(no_change_text(args.what(), from, to));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(codon) = to.codon_id.as_ref().filter(|_| ends.crashed && !global.quiet) {
        print_stderr(format!(
            "note: {codon} crashed: what changed until its next attempt is shown as its own, your changes included\n"
        ));
    }
    let failed = |error: io::Error| CliError::from_error(CliErrorKind::Io, &error);
    let comparisons = git_commands(&catalogue, args.execution(), args.stat, &ends)?;
    match start_pager() {
        Some(pager) => show_in_pager(comparisons, pager),
        None => show_all(comparisons, print),
    }
    .map_err(failed)
}

/// Adds the mark of a crash, after which changes of the user may be among the differences.
fn with_crash_mark(mut document: Value, crashed: bool) -> Value {
    if crashed {
        document["crashed"] = true.into();
    }
    document
}

/// Work of a codon that crashed or still runs: only the workspace has it, no checkpoint.
struct Unsaved {
    codon: CodonId,
    /// Checkpoint of the files with which the work began.
    from: CheckpointSha,
    /// Start of the earliest attempt of this codon after which no other codon has run. A new file belongs to the work only if it was touched since then.
    since: Timestamp,
}

impl Unsaved {
    /// Returns the work of the newest codon, if that has no checkpoint of its end and, with a `name`, has that name.
    fn of(state: &HankweaveState, name: Option<&str>) -> Option<Self> {
        let thread = thread::build(state, None, None);
        let newest = thread
            .codons
            .first()
            .filter(|_| state.pending_rollback.is_none())?;
        let codon = &newest.codon;
        let is_named = name.is_none_or(|name| codon.codon_id().as_str() == name);
        if !is_named || codon.end_checkpoint().is_some() {
            return None;
        }
        let attempts = thread.codons.iter();
        let attempts = attempts.take_while(|entry| entry.codon.codon_id() == codon.codon_id());
        let oldest = attempts.last().map_or(codon, |oldest| &oldest.codon);
        Some(Self {
            codon: codon.codon_id().clone(),
            from: thread.work_began(state, 0)?,
            since: *oldest.start_time(),
        })
    }

    /// Returns the work of the newest attempt alone; `None` if that has no checkpoint of its start, or starts where the whole work starts.
    fn newest_attempt(&self, state: &HankweaveState) -> Option<Self> {
        let codon = state.runs.iter().find_map(|run| run.codons.last())?;
        let began = codon.rig_setup_checkpoint().cloned();
        let from = began.or_else(|| codon.start_checkpoint())?;
        (from != self.from).then(|| Self {
            codon: self.codon.clone(),
            from,
            since: *codon.start_time(),
        })
    }

    /// Returns the files of the workspace that differ from those with which the work began.
    fn changes(
        &self,
        history: &GitHistory,
        state: &HankweaveState,
        execution: &Path,
    ) -> Result<Vec<PathChange>, CliError> {
        let patterns = DeclaredPatterns::of(&state.execution_plan);
        // Times of files may lag a few milliseconds behind the clock.
        let since = Timestamp::from_millis(self.since.as_millis().saturating_sub(20));
        history
            .diff_with_workspace(&self.from, execution, (&patterns, since))
            .map_err(|error| CliError::from_error(CliErrorKind::Input, &error))
    }

    fn show(&self, global: &Global, catalogue: &Catalogue, args: &DiffArgs) -> Result<ExitCode, CliError> {
        let execution = args.execution();
        let changes = self.changes(catalogue.history()?, &catalogue.state, execution)?;
        let crashed = !is_served(execution);
        if global.json() {
            let document = json!({"from": self.from, "to": null, "changes": changes});
            return output::print_json(&with_crash_mark(document, crashed));
        }
        if crashed && !changes.is_empty() && !global.quiet {
            print_stderr(format!(
                "note: {} crashed: what has changed since is shown as its own, your changes included\n",
                self.codon
            ));
        }
        if changes.is_empty() && !global.quiet {
            print_stderr(format!("{} has changed nothing\n", self.codon));
        }
        for change in &changes {
            let text = match (args.stat, change.kind) {
                (true, kind) | (_, kind @ ChangeKind::Deleted) => {
                    format!("{} ({})\n", change.path, word_of(kind))
                }
                (false, _) => {
                    let text = compare_file(execution, &self.from, change.path.as_path())
                        .map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
                    String::from_utf8_lossy(&text).into_owned()
                }
            };
            // It is no failure if the reader has closed the pipe; then nothing more is printed.
            if text
                .split_inclusive('\n')
                .try_for_each(|line| print(colored(line)))
                .is_err()
            {
                break;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Changed files of the newest codon, which is at work or crashed.
pub(crate) struct UnsavedChanges {
    pub(crate) codon: CodonId,
    /// Files that differ from those with which its work began.
    pub(crate) changes: Vec<PathChange>,
    /// Number of files that differ from those with which its newest attempt began: an earlier attempt may have left a checkpoint of the others.
    pub(crate) without_checkpoint: usize,
}

impl UnsavedChanges {
    /// Returns the changes; `None` if the newest codon has ended, or there is nothing to compare with.
    pub(crate) fn of(execution: &Path, state: &HankweaveState) -> Option<Self> {
        let unsaved = Unsaved::of(state, None)?;
        let repository = ExecutionDir::new(execution.to_owned()).checkpoints();
        let history = GitHistory::open(&repository).ok().flatten()?;
        let changes = unsaved.changes(&history, state, execution).ok()?;
        let without_checkpoint = match unsaved.newest_attempt(state) {
            None => changes.len(),
            Some(newest) => newest.changes(&history, state, execution).ok()?.len(),
        };
        Some(Self {
            codon: unsaved.codon,
            changes,
            without_checkpoint,
        })
    }
}

const fn word_of(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "new",
        ChangeKind::Modified => "changed",
        ChangeKind::Deleted => "deleted",
    }
}

/// Returns the note that only the newest iteration is shown, if a codon of a loop was named without an iteration.
fn iteration_note(catalogue: &Catalogue, what: Option<&str>, to: &CheckpointRow) -> Option<String> {
    let codon = CodonId::new(to.codon_id.as_deref()?).ok()?;
    let is_named = what == Some(codon.configured()) && what != Some(codon.as_str());
    // `iteration()` counts from 1, ids from 0.
    let before = codon.iteration().checked_sub(2).filter(|_| is_named)?;
    let earlier = word(&format!("{}#{before}", codon.configured()));
    let shows = catalogue.hints.command(&format!("diff {earlier}"));
    Some(format!(
        "note: {codon} is shown, the newest iteration; `{shows}` shows the one before\n"
    ))
}

/// Returns the sentence that is printed if there are no differences.
fn no_change_text(what: Option<&str>, from: &CheckpointRow, to: &CheckpointRow) -> String {
    let is_of_codon = !what.is_some_and(|what| what.contains(".."));
    match to.codon_id.as_ref().filter(|_| is_of_codon) {
        Some(codon) => format!("{codon} changed nothing\n"),
        None => format!(
            "nothing changed from checkpoint {} to {}\n",
            from.sha.short(),
            to.sha.short()
        ),
    }
}

/// Two checkpoints to compare, and what to leave out between them.
struct DiffEnds<'c> {
    from: &'c CheckpointRow,
    to: &'c CheckpointRow,
    /// Files that only the user has changed, between attempts of the codon.
    left_out: BTreeSet<TreePath>,
    /// Files that both codon and user have changed: these are compared for each attempt alone, to show what the codon did.
    mixed: BTreeSet<TreePath>,
    /// Checkpoints of the start and the end of each attempt.
    attempts: Vec<(CheckpointSha, CheckpointSha)>,
    /// An earlier attempt crashed, so that no checkpoint separates its changes from those of the user until the next attempt.
    crashed: bool,
}

impl<'c> DiffEnds<'c> {
    /// Compares two checkpoints and leaves nothing out.
    fn between(from: &'c CheckpointRow, to: &'c CheckpointRow) -> Self {
        Self {
            from,
            to,
            left_out: BTreeSet::new(),
            mixed: BTreeSet::new(),
            attempts: Vec::new(),
            crashed: false,
        }
    }
}

/// Whether an attempt before the last one crashed, so that it has no checkpoint of its end.
fn has_crashed(state: &HankweaveState, attempts: &[(CheckpointSha, CheckpointSha)]) -> bool {
    let is_end = |sha: &CheckpointSha| {
        let mut codons = state.runs.iter().flat_map(|run| run.codons.iter());
        codons.any(|codon| codon.end_checkpoint().is_some_and(|(_, end)| end == sha))
    };
    let Some((_, earlier)) = attempts.split_last() else {
        return false;
    };
    earlier.iter().any(|(_, end)| !is_end(end))
}

/// Finds the checkpoints that `what` means: a range, a codon, a checkpoint, or by default the newest codon.
fn find_ends<'c>(catalogue: &'c Catalogue, what: Option<&str>) -> Result<DiffEnds<'c>, CliError> {
    let row_of = |name: &str| match catalogue.newest_of(Some(name)) {
        Some(row) => Ok(row),
        None => catalogue.find(name),
    };
    if let Some((from, to)) = what.and_then(|what| what.split_once("..")) {
        return Ok(DiffEnds::between(row_of(from)?, row_of(to)?));
    }
    let to = match what {
        Some(name) => row_of(name)?,
        None => catalogue.newest_of(None).ok_or_else(|| {
            CliError::new(CliErrorKind::Input, "no codon has a checkpoint yet").hint(catalogue.lists())
        })?,
    };
    // A safety checkpoint is compared with the checkpoint that was restored then: the difference is what the rollback replaced.
    let restored = catalogue
        .restored_after(to)
        .filter(|_| what.is_some_and(|what| to.sha.as_str().starts_with(what)));
    if let Some(from) = restored.and_then(|sha| catalogue.rows.iter().find(|row| row.sha == *sha)) {
        return Ok(DiffEnds::between(from, to));
    }
    let failed = |error: HistoryError| unreadable(catalogue, &to.sha, &error);
    let history = catalogue.history()?;
    let work = history
        .work_until(Some(&catalogue.state), &to.sha)
        .map_err(failed)?;
    let left_out = history.changed_between(&work).map_err(failed)?;
    let by_user = history.changed_by_user(&work).map_err(failed)?;
    let from = work.ends().map_or(&to.sha, |(from, _)| from);
    let from = catalogue.rows.iter().find(|row| row.sha == *from);
    Ok(DiffEnds {
        from: from.unwrap_or(to),
        to,
        mixed: by_user.difference(&left_out).cloned().collect(),
        left_out,
        crashed: has_crashed(&catalogue.state, &work.attempts),
        attempts: work.attempts,
    })
}

/// Largest length in bytes of the differences of one file; the rest is left out.
const FILE_BYTES: u64 = 1 << 20;

/// Compares one file of the workspace, by its relative path, with a checkpoint. All lines are new if the checkpoint has no such file.
pub(crate) fn compare_file(execution: &Path, base: &CheckpointSha, path: &Path) -> io::Result<Vec<u8>> {
    let execution = &RealDisk.real_path(execution)?;
    let git = find_git().ok_or_else(|| io::Error::other("there is no git, which tells what changed"))?;
    let compare = |before: &str, after: &Path| {
        let mut command = plain_git(&git, execution);
        command.arg("--work-tree").arg(execution).current_dir(execution);
        command.args(DIFF).arg(before).arg("--").arg(after);
        first_bytes(command.stderr(Stdio::null()))
    };
    let known = format!("{}:{}", base.as_str(), path.to_string_lossy());
    match compare(&known, path)? {
        (text, true) => Ok(text),
        // The checkpoint has no such file: compares with nothing.
        (_, false) => {
            let mut command = plain_git(&git, execution);
            command.current_dir(execution).args(DIFF);
            command.args(["--no-index", "--", "/dev/null"]).arg(path);
            Ok(first_bytes(command.stderr(Stdio::null()))?.0)
        }
    }
}

/// Numbers of lines that a change added and removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct LineCounts {
    pub(crate) added: u64,
    pub(crate) removed: u64,
}

/// Returns the added and removed lines of each file between two checkpoints, by path; `None` without git, or if git fails. Binary files are left out.
pub(crate) fn changed_lines(
    execution: &Path,
    from: &CheckpointSha,
    to: &CheckpointSha,
) -> Option<BTreeMap<String, LineCounts>> {
    let mut command = plain_git(&find_git()?, execution);
    command.args(DIFF).args(["--numstat", "-z", "--no-renames"]);
    command
        .args([from.as_str(), to.as_str(), "--"])
        .stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    let files = output.stdout.split(|byte| *byte == 0);
    Some(files.filter_map(numbers).collect())
}

/// Largest number of pairs of checkpoints that are compared at once: their names fill half of a pipe's buffer.
pub(crate) const MOST_PAIRS: usize = 400;

/// Returns the added and removed lines and the number of changed files of each pair of checkpoints, by the second checkpoint. `None` without git, or if git
/// fails. Pairs beyond [`MOST_PAIRS`] are left out.
pub(crate) fn changed_lines_of(
    execution: &Path,
    pairs: &[(&CheckpointSha, &CheckpointSha)],
) -> Option<BTreeMap<CheckpointSha, (LineCounts, u64)>> {
    let mut command = plain_git(&find_git()?, execution);
    // The arguments of `DIFF`, with `diff-tree` in place of `diff`. It reads lines of two commits: one, and the one to compare it with.
    command
        .args(&DIFF[..4])
        .args(["diff-tree", "--stdin", "-r", "--numstat", "--no-renames"]);
    command
        .args(&DIFF[5..])
        .stdin(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let pairs = &pairs[..pairs.len().min(MOST_PAIRS)];
    let wanted: String = pairs.iter().map(|(from, to)| format!("{to} {from}\n")).collect();
    // The pipe holds all lines, so this does not block even if git does not read.
    child.stdin.take()?.write_all(wanted.as_bytes()).ok()?;
    let output = child
        .wait_with_output()
        .ok()
        .filter(|output| output.status.success())?;
    let mut lines: BTreeMap<CheckpointSha, (LineCounts, u64)> = pairs
        .iter()
        .map(|(_, to)| ((*to).clone(), (LineCounts::default(), 0)))
        .collect();
    // Git prints the first commit of each line, then the files that differ.
    let mut current = None;
    for line in output.stdout.split(|byte| *byte == b'\n') {
        if let Some((_, counts)) = numbers(line) {
            if let Some((sum, files)) = current.as_ref().and_then(|to| lines.get_mut(to)) {
                *files += 1;
                sum.added = sum.added.saturating_add(counts.added);
                sum.removed = sum.removed.saturating_add(counts.removed);
            }
        } else if line.contains(&b'\t') {
            // A binary file has no lines.
            if let Some((_, files)) = current.as_ref().and_then(|to| lines.get_mut(to)) {
                *files += 1;
            }
        } else if let Ok(to) = std::str::from_utf8(line) {
            current = Some(CheckpointSha::new(to));
        }
    }
    Some(lines)
}

/// Reads `ADDED<tab>REMOVED<tab>PATH`, as git prints it; binary files have `-` for numbers.
fn numbers(line: &[u8]) -> Option<(String, LineCounts)> {
    let mut parts = line.splitn(3, |byte| *byte == b'\t');
    let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse().ok();
    let (added, removed) = (number()?, number()?);
    let path = TreePath::new(parts.next()?).ok()?;
    Some((path.to_string(), LineCounts { added, removed }))
}

/// Returns the first bytes of a command's output, and whether it succeeded or has more output than is read.
fn first_bytes(command: &mut Command) -> io::Result<(Vec<u8>, bool)> {
    let mut child = command.spawn()?;
    let mut text = Vec::new();
    if let Some(printed) = child.stdout.take() {
        printed.take(FILE_BYTES).read_to_end(&mut text)?;
    }
    // Its output is closed now, so it cannot block on writing. What still writes then dies of that, which is no failure.
    let status = child.wait()?;
    let is_full = text.len() as u64 == FILE_BYTES;
    Ok((text, status.success() || is_full))
}

fn find_git() -> Option<PathBuf> {
    let environment = Environment::of_process();
    find_program(&RealDisk, "git", environment.get("PATH")?)
}

/// Arguments of `git diff` that switch off everything in configurations that could start a program.
const DIFF: [&str; 8] = [
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.attributesFile=/dev/null",
    "diff",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
];

/// Returns git for the checkpoint repository of this directory, without the configurations of system and user.
fn plain_git(git: &Path, execution: &Path) -> Command {
    let mut command = Command::new(git);
    command
        .arg("--git-dir")
        .arg(ExecutionDir::new(execution.to_owned()).checkpoints())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// Returns the git commands that print the differences: first between the two checkpoints, then for each attempt those of the `mixed` files.
fn git_commands(
    catalogue: &Catalogue,
    execution: &Path,
    stat: bool,
    ends: &DiffEnds<'_>,
) -> Result<Vec<Command>, CliError> {
    let rows = [ends.from, ends.to];
    let Some(git) = find_git() else {
        let [from, to] = rows.map(|row| row.sha.short());
        let files = catalogue.hints.command(&format!("checkpoints diff {from} {to}"));
        return Err(
            CliError::new(CliErrorKind::Input, "there is no git, which tells what changed")
                .hint(format!("`{files}` lists the files")),
        );
    };
    // `magic` is git's prefix that makes a path a literal one to include or exclude.
    let compare = |[from, to]: [&CheckpointSha; 2], magic: &str, paths: Vec<&TreePath>| {
        let mut command = plain_git(&git, execution);
        command
            .args(DIFF)
            .args(if stat { &["--stat"][..] } else { &[] })
            .args([from.as_str(), to.as_str(), "--"]);
        for path in paths.into_iter().take(MOST_NAMED) {
            let pathspec = [magic.as_bytes(), path.as_bytes()].concat();
            command.arg(OsStr::from_bytes(&pathspec));
        }
        command
    };
    let excluded = ends.left_out.union(&ends.mixed).collect();
    let mut commands = vec![compare(rows.map(|row| &row.sha), ":(exclude,literal)", excluded)];
    if !ends.mixed.is_empty() {
        for (from, to) in &ends.attempts {
            commands.push(compare([from, to], ":(literal)", ends.mixed.iter().collect()));
        }
    }
    Ok(commands)
}

/// Largest number of files that one command names, because the length of its arguments is limited; other files are not named.
const MOST_NAMED: usize = 1_000;

/// Starts `less` for a long text; `None` if the terminal cannot be drawn on, or if `less` is missing or does not start.
fn start_pager() -> Option<Child> {
    if !is_drawable() {
        return None;
    }
    let environment = Environment::of_process();
    let path = environment.get("PATH")?;
    let less = find_program(&RealDisk, "less", path)?;
    // -F ends at once if everything fits on the screen, -R shows our colours, -X leaves the text on the screen.
    let mut less = Command::new(less);
    less.arg("-FRX").env_remove("LESS").env_remove("LESSOPEN");
    less.stdin(Stdio::piped()).spawn().ok()
}

/// Shows what git prints in a pager, which the user may leave before the end.
fn show_in_pager(comparisons: Vec<Command>, mut pager: Child) -> io::Result<ExitCode> {
    let mut page = pager.stdin.take();
    let code = show_all(comparisons, |text| match &mut page {
        Some(page) => page.write_all(text.as_str().as_bytes()),
        None => Ok(()),
    });
    drop(page);
    pager.wait()?;
    code
}

/// Shows what the commands print, one after the other, until one of them fails.
fn show_all(
    comparisons: Vec<Command>,
    mut print: impl FnMut(SafeText) -> io::Result<()>,
) -> io::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for mut git in comparisons {
        code = show(git.spawn()?, &mut print)?;
        if code != ExitCode::SUCCESS {
            break;
        }
    }
    Ok(code)
}

/// Passes on what git prints, line by line, with our own colours. It is no failure if the reader has closed the pipe.
fn show(mut git: Child, mut print: impl FnMut(SafeText) -> io::Result<()>) -> io::Result<ExitCode> {
    let mut lines = BufReader::new(git.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
    let mut line = Vec::new();
    let mut is_read = true;
    while is_read && (&mut lines).take(LINE_BYTES).read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        is_read = print(colored(&text)).is_ok();
        line.clear();
    }
    // After an early end git need not finish: the closed pipe ends it.
    drop(lines);
    let status = git.wait()?;
    Ok(match status.success() || !is_read {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(CliErrorKind::Failed.code()),
    })
}

/// Colours a line of a difference by its first characters.
fn colored(line: &str) -> SafeText {
    let style = match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', b' ', ..] => {
            Style::new().bold()
        }
        [b'+', ..] => AnsiColor::Green.on_default(),
        [b'-', ..] => AnsiColor::Red.on_default(),
        [b'@', ..] => AnsiColor::Cyan.on_default(),
        _ => return SafeText::from(line),
    };
    let (words, end) = line.strip_suffix('\n').map_or((line, ""), |words| (words, "\n"));
    let mut text = SafeText::default();
    // Writing to a text cannot fail.
    let _ = text.styled(style, words).and_then(|()| text.write_str(end));
    text
}
