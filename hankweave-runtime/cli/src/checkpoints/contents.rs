//! `hankweave diff`: what changed in the files, as git tells it.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use anstyle::{AnsiColor, Style};
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::world::disk::RealDisk;
use hankweave_runtime::world::environment::{Environment, find_program};
use serde_json::json;

use super::catalogue::{Catalogue, Row};
use super::unreadable;
use crate::args::{DiffArgs, Global};
use crate::exit::{Failure, FailureKind};
use crate::output;
use crate::screen::{Text, is_drawable, print};

/// The longest line that is shown in one piece.
const LINE_BYTES: u64 = 64 << 10;

/// Shows what changed (CLI-23).
pub(crate) fn diff(global: &Global, args: &DiffArgs) -> Result<ExitCode, Failure> {
    let catalogue = Catalogue::of(&args.execution.execution)?;
    let (from, to) = ends(&catalogue, args.what.as_deref())?;
    if global.json() {
        let changes = catalogue.history()?.diff(&from.sha, &to.sha);
        let changes = changes.map_err(|error| unreadable(&catalogue, &to.sha, &error))?;
        return output::print_json(&json!({"from": from.sha, "to": to.sha, "changes": changes}));
    }
    let failed = |error: io::Error| Failure::from_error(FailureKind::Io, &error);
    let mut git = git(&catalogue, &args.execution.execution, args.stat, [from, to])?;
    let git = git.spawn().map_err(failed)?;
    match pager() {
        Some(pager) => through(git, pager),
        None => show(git, print),
    }
    .map_err(failed)
}

/// The two checkpoints that are compared.
fn ends<'c>(catalogue: &'c Catalogue, what: Option<&str>) -> Result<(&'c Row, &'c Row), Failure> {
    let one = |name: &str| match catalogue.newest_of(Some(name)) {
        Some(row) => Ok(row),
        None => catalogue.find(name),
    };
    if let Some((from, to)) = what.and_then(|what| what.split_once("..")) {
        return Ok((one(from)?, one(to)?));
    }
    let to = match what {
        Some(name) => one(name)?,
        None => catalogue.newest_of(None).ok_or_else(|| {
            Failure::new(FailureKind::Input, "no codon has a checkpoint yet").hint(catalogue.lists())
        })?,
    };
    Ok((catalogue.before(to), to))
}

/// git, with nothing of the configuration of the repository or of the user that could run a program.
fn git(catalogue: &Catalogue, execution: &Path, stat: bool, ends: [&Row; 2]) -> Result<Command, Failure> {
    let environment = Environment::of_process();
    let git = environment
        .get("PATH")
        .and_then(|path| find_program(&RealDisk, "git", path));
    let Some(git) = git else {
        let [from, to] = ends.map(|row| row.sha.short());
        let files = catalogue.typed.command(&format!("checkpoints diff {from} {to}"));
        return Err(
            Failure::new(FailureKind::Input, "there is no git, which tells what changed")
                .hint(format!("`{files}` lists the files")),
        );
    };
    let mut command = Command::new(git);
    command
        .arg("--git-dir")
        .arg(ExecutionDir::new(execution.to_owned()).checkpoints())
        .args([
            "-c",
            "core.fsmonitor=false",
            "-c",
            "core.attributesFile=/dev/null",
            "diff",
        ])
        .args(["--no-ext-diff", "--no-textconv", "--no-color"])
        .args(if stat { &["--stat"][..] } else { &[] })
        .args(ends.map(|row| row.sha.as_str()))
        .arg("--")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    Ok(command)
}

/// The program in which a person reads what is long; nobody has to have one.
fn pager() -> Option<Child> {
    if !is_drawable() {
        return None;
    }
    let environment = Environment::of_process();
    let path = environment.get("PATH")?;
    let less = find_program(&RealDisk, "less", path)?;
    // It ends at once when everything fits, shows our colours and leaves the text on the screen.
    let mut less = Command::new(less);
    less.arg("-FRX").env_remove("LESS").env_remove("LESSOPEN");
    less.stdin(Stdio::piped()).spawn().ok()
}

/// Shows what git prints in a pager, which may be left before its end.
fn through(git: Child, mut pager: Child) -> io::Result<ExitCode> {
    let mut page = pager.stdin.take();
    let code = show(git, |text| match &mut page {
        Some(page) => page.write_all(text.as_str().as_bytes()),
        None => Ok(()),
    });
    drop(page);
    pager.wait()?;
    code
}

/// Passes what git prints on, line by line, with colours of ours. A reader that has gone away is no failure.
fn show(mut git: Child, mut print: impl FnMut(Text) -> io::Result<()>) -> io::Result<ExitCode> {
    let mut lines = BufReader::new(git.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
    let mut line = Vec::new();
    let mut is_read = true;
    while is_read && (&mut lines).take(LINE_BYTES).read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        is_read = print(colored(&text)).is_ok();
        line.clear();
    }
    // What nobody reads git need not finish.
    drop(lines);
    let status = git.wait()?;
    Ok(match status.success() || !is_read {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FailureKind::Failed.code()),
    })
}

fn colored(line: &str) -> Text {
    let style = match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', b' ', ..] => {
            Style::new().bold()
        }
        [b'+', ..] => AnsiColor::Green.on_default(),
        [b'-', ..] => AnsiColor::Red.on_default(),
        [b'@', ..] => AnsiColor::Cyan.on_default(),
        _ => return Text::from(line),
    };
    let (words, end) = line.strip_suffix('\n').map_or((line, ""), |words| (words, "\n"));
    let mut text = Text::default();
    // Writing to a text cannot fail.
    let _ = text.styled(style, words).and_then(|()| text.write_str(end));
    text
}
