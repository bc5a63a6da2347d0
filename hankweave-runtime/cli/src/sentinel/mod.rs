//! `hankweave sentinel`: `test` shows when a sentinel would have acted in a recorded run, `convert` rewrites files of the older system.
//!
//! `test` reads the sentinel here, [`rehearsal`] feeds it the journal, and [`asked`] prints each action.

mod asked;
mod convert;
mod rehearsal;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use hankweave_core::hank::{
    MAX_HANK_BYTES, SentinelEntry, SentinelSource, check_prompt, check_sentinel, convert_sentinel,
    prompt::join,
};
use hankweave_core::sentinel::SentinelConfig;
use hankweave_core::sentinel::model::AnswerSchema;
use hankweave_runtime::world::disk::{Disk as _, IoError, RealDisk, parent};

use self::asked::RehearsalOutput;
use self::convert::SOMEWHERE;
use self::rehearsal::Rehearsal;
use crate::args::{Global, SentinelCommand, SentinelTestArgs};
use crate::failures::conversion_of;
use crate::recorded::{self, Follow, JournalRange};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::screen::print_stderr;

pub(crate) fn sentinel(global: &Global, command: &SentinelCommand) -> Result<ExitCode, CliError> {
    match command {
        SentinelCommand::Test(args) => test(global, args),
        SentinelCommand::Convert(args) => convert::convert(global, args),
    }
}

/// A sentinel that was read from its own file.
struct Sentinel {
    config: SentinelConfig,
    /// Prompt of the model; `None` for a command.
    prompt: Option<String>,
}

/// Shows the questions that a sentinel would have put to its model, and when; no model is asked (CLI-25).
fn test(global: &Global, args: &SentinelTestArgs) -> Result<ExitCode, CliError> {
    let sentinel = read(&args.file)?;
    let mut rehearsal = Rehearsal::new(
        &sentinel.config,
        args.codon.as_ref(),
        RehearsalOutput::new(global, &sentinel),
    );
    let part = JournalRange {
        after: 0,
        follow: Follow::No,
        quiet: global.quiet,
    };
    let code = recorded::read(args.execution(), part, &mut rehearsal)?;
    if let Some(codon) = args.codon.as_ref().filter(|_| rehearsal.is_empty()) {
        return Err(rehearsal.nothing_of(codon));
    }
    if !global.quiet {
        print_stderr(format!("{}\n", rehearsal.summary()));
    }
    Ok(code)
}

/// Reads the file, and the prompts and the schema that it names. An error names all mistakes of the file, or the first other file that is wrong.
fn read(path: &Path) -> Result<Sentinel, CliError> {
    let folder = parent(path);
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let text = read_text(path)?;
    // The conversion shows only whether the file is in the old form; its result is not used.
    let is_old = convert_sentinel(&text, &name).is_ok_and(|converted| !converted.changed.is_empty());
    let hint = match is_old {
        true => conversion_of(path),
        false => "`hankweave schema sentinel` prints what one can say".to_owned(),
    };
    let wrong = |problems: String| {
        CliError::new(
            CliErrorKind::Input,
            format!("`{}` is no sentinel\n{}", path.display(), problems.trim_end()),
        )
        .hint(hint.clone())
    };
    let checked = check_sentinel(&text, &format!("{SOMEWHERE}/{name}"));
    let problems = checked.problems.display_in(&name);
    let config = match checked.config {
        Some(config) if !checked.problems.has_errors() => config,
        _ => return Err(wrong(problems)),
    };
    if !checked.problems.is_empty() {
        print_stderr(problems);
    }
    // As if a hank in the folder of the sentinel named it: paths that the sentinel names then start in this folder.
    let files = BTreeMap::from([(name.clone(), config)]);
    let entry = SentinelEntry {
        sentinel_config: SentinelSource::File(name),
        settings: None,
    };
    let config = SentinelConfig::of(&entry, &files).map_err(&wrong)?;
    let mut texts = Vec::new();
    for file in config.user_prompt_files(&entry) {
        let text = read_text(&folder.join(&file))?;
        check_prompt(&text).map_err(|error| {
            let hint = error.hint.unwrap_or_default();
            wrong(format!("`{file}` {}\n{hint}", error.message))
        })?;
        texts.push(text);
    }
    for file in config.system_prompt_files(&entry) {
        read_text(&folder.join(&file))?;
    }
    if let Some(structured) = &config.structured_output {
        let schema = match config.schema_file(&entry) {
            Some(file) => Some(read_text(&folder.join(&file))?),
            None => structured.schema_str.clone(),
        };
        AnswerSchema::of(structured, schema.as_deref())
            .map_err(|why| wrong(format!("structuredOutput: {why}")))?;
    }
    texts.extend(config.user_prompt_text.clone());
    let prompt = (!texts.is_empty()).then(|| join(texts.iter().map(String::as_str)));
    Ok(Sentinel { config, prompt })
}

fn read_text(path: &Path) -> Result<String, CliError> {
    let bytes = RealDisk.read(path, MAX_HANK_BYTES as u64).map_err(|error| {
        let kind = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::InvalidInput | io::ErrorKind::PermissionDenied => {
                CliErrorKind::Input
            }
            _ => CliErrorKind::Io,
        };
        CliError::from_error(kind, &IoError::at("read", path)(error))
    })?;
    String::from_utf8(bytes).map_err(|_| {
        let message = format!("`{}` is not UTF-8 text", path.display());
        CliError::new(CliErrorKind::Input, message)
    })
}
