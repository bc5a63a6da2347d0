//! `hankweave sentinel convert`: rewrites sentinels that were made for the older system, with their prompt files, in today's form (SENT-24).

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hankweave_core::hank::{ConversionNote, ConvertedSentinel, convert_prompt, convert_sentinel};
use hankweave_runtime::world::disk::{Disk as _, IoError, RealDisk, parent};
use serde_json::{Value, json};

use super::read_text;
use crate::args::{Global, SentinelConvertArgs};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::screen::print_stderr;

/// Made-up path from the folder of the hank to that of the sentinel: a sentinel's file does not say which hank uses it. The path is eight folders deep,
/// so that a `../` in a path that the sentinel names does not count as leaving the hank.
pub(super) const SOMEWHERE: &str = "a/a/a/a/a/a/a/a";

/// A file of a sentinel and its conversion.
struct ConvertedFile {
    path: PathBuf,
    /// Prompt files that are converted, with their new text.
    prompts: Vec<(PathBuf, String)>,
    /// Parts of prompt files that could not be carried over, each with the reason.
    prompt_losses: Vec<(PathBuf, &'static str)>,
    sentinel: ConvertedSentinel,
    /// Whether the file of the sentinel or one of its prompt files was replaced.
    is_written: bool,
}

/// Converts each file, and reports each change with its line. Nothing is written unless all of them can be read.
pub(super) fn convert(global: &Global, args: &SentinelConvertArgs) -> Result<ExitCode, CliError> {
    let mut files: Vec<ConvertedFile> = args
        .files
        .iter()
        .map(|path| convert_file(path))
        .collect::<Result<_, _>>()?;
    if args.write {
        write_all(&mut files)?;
    }
    if global.json() {
        let files: Vec<Value> = files.iter().map(ConvertedFile::as_json).collect();
        output::print_json(&json!({"files": files}))?;
    } else {
        if !args.write {
            let texts: Vec<&str> = files.iter().map(|file| file.sentinel.text.as_str()).collect();
            output::print(with_line_ends(&texts))?;
        }
        if !global.quiet {
            print_stderr(
                files
                    .iter()
                    .map(|file| file.as_text(args.write))
                    .collect::<String>(),
            );
        }
    }
    match files.iter().any(|file| file.sentinel.problems.has_errors()) {
        true => Ok(ExitCode::FAILURE),
        false => Ok(ExitCode::SUCCESS),
    }
}

/// Writes each file. The error of one names those that are written already.
fn write_all(files: &mut [ConvertedFile]) -> Result<(), CliError> {
    let mut written: Vec<String> = Vec::new();
    for file in files {
        file.write().map_err(|error| match written.as_slice() {
            [] => error,
            paths => error.hint(format!("already converted: {}", paths.join(", "))),
        })?;
        written.push(file.path.display().to_string());
    }
    Ok(())
}

fn with_line_ends(texts: &[&str]) -> String {
    let ended = texts.iter().map(|text| format!("{}\n", text.trim_end()));
    ended.collect()
}

fn convert_file(path: &Path) -> Result<ConvertedFile, CliError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let place = format!("{SOMEWHERE}/{name}");
    let sentinel = convert_sentinel(&read_text(path)?, &place).map_err(|problems| {
        let shown = problems.display_in(&path.display().to_string());
        let message = format!("`{}` is no sentinel\n{}", path.display(), shown.trim_end());
        CliError::new(CliErrorKind::Input, message)
            .hint("name files that hold one sentinel each; those inside hank.json are changed there")
    })?;
    let mut file = ConvertedFile {
        path: path.to_owned(),
        prompts: Vec::new(),
        prompt_losses: Vec::new(),
        sentinel,
        is_written: false,
    };
    file.convert_prompts()?;
    Ok(file)
}

impl ConvertedFile {
    /// Converts the prompt files that the sentinel names; a missing one is reported when the hank is read.
    fn convert_prompts(&mut self) -> Result<(), CliError> {
        for file in &self.sentinel.prompt_files {
            let path = parent(&self.path).join(file);
            if RealDisk.metadata_followed(&path).is_err() {
                continue;
            }
            let text = read_text(&path)?;
            match convert_prompt(&text) {
                Some(converted) => {
                    let losses = converted.lost.into_iter().map(|loss| (path.clone(), loss));
                    self.prompt_losses.extend(losses);
                    self.prompts.push((path, converted.text));
                }
                // `None` means that nothing is to be converted, or that the text has a program that cannot be converted.
                None if text.contains("<%") => {
                    let why =
                        "the program inside `<% … %>` is beyond this conversion; write it as a template";
                    self.prompt_losses.push((path, why));
                }
                None => {}
            }
        }
        Ok(())
    }

    fn is_old(&self) -> bool {
        self.is_sentinel_old() || !self.prompts.is_empty() || !self.prompt_losses.is_empty()
    }

    fn is_sentinel_old(&self) -> bool {
        !self.sentinel.changed.is_empty() || !self.sentinel.lost.is_empty()
    }

    fn write(&mut self) -> Result<(), CliError> {
        if self.is_sentinel_old() {
            replace(&self.path, &self.sentinel.text)?;
            self.is_written = true;
        }
        for (path, text) in &self.prompts {
            replace(path, text)?;
            self.is_written = true;
        }
        Ok(())
    }

    /// Returns the report for people; `is_write` says whether the files were to be written.
    fn as_text(&self, is_write: bool) -> String {
        let path = self.path.display();
        let mut text = String::new();
        if !self.is_old() {
            text.push_str(&format!("{path}: nothing to convert\n"));
        }
        let notes = [
            ("changed", &self.sentinel.changed),
            ("not carried over", &self.sentinel.lost),
        ];
        for (word, notes) in notes {
            for ConversionNote {
                position,
                path: place,
                message,
            } in notes
            {
                let (line, column) = (position.line, position.column);
                text.push_str(&format!("{path}:{line}:{column}: {word}: {place}: {message}\n"));
            }
        }
        for (prompt, _) in &self.prompts {
            let what = match is_write {
                true => "changed: the template is written in the language of Jinja now",
                false => "an old template, which --write replaces",
            };
            text.push_str(&format!("{}: {what}\n", prompt.display()));
        }
        for (prompt, why) in &self.prompt_losses {
            text.push_str(&format!("{}: not carried over: {why}\n", prompt.display()));
        }
        if !self.sentinel.problems.is_empty() {
            text.push_str(&format!("what is left to do in the new form of {path}:\n"));
            text.push_str(&self.sentinel.problems.display_in(&path.to_string()));
        }
        text
    }

    fn as_json(&self) -> Value {
        let notes = |notes: &[ConversionNote]| -> Vec<Value> {
            notes
                .iter()
                .map(|note| json!({"line": note.position.line, "column": note.position.column, "path": note.path, "message": note.message}))
                .collect()
        };
        let prompts: Vec<Value> = self
            .prompts
            .iter()
            .map(|(path, text)| json!({"file": path, "text": text}))
            .collect();
        let prompt_losses = self
            .prompt_losses
            .iter()
            .map(|(path, why)| json!({"file": path, "message": why}));
        let problems =
            self.sentinel.problems.iter().map(
                |problem| json!({"path": problem.path, "message": problem.message, "hint": problem.hint}),
            );
        json!({"file": self.path, "written": self.is_written, "text": self.sentinel.text, "changed": notes(&self.sentinel.changed),
            "notCarriedOver": notes(&self.sentinel.lost), "prompts": prompts, "promptsNotCarriedOver": prompt_losses.collect::<Vec<_>>(),
            "problems": problems.collect::<Vec<_>>()})
    }
}

/// Replaces the text of a file, and keeps its permission bits.
fn replace(path: &Path, text: &str) -> Result<(), CliError> {
    let cannot_write =
        |error: io::Error| CliError::from_error(CliErrorKind::Io, &IoError::at("write", path)(error));
    // The target of a symbolic link is replaced, not the link.
    let real = RealDisk.real_path(path).map_err(cannot_write)?;
    let mode = RealDisk.metadata(&real).map_err(cannot_write)?.mode;
    let folder = RealDisk.open_folder(parent(&real)).map_err(cannot_write)?;
    let name = real.file_name().unwrap_or_default();
    let mut temporary = name.to_owned();
    temporary.push(".new");
    let write = |new: &OsStr| folder.create_file(new, mode, &mut text.as_bytes());
    folder.replace(name, &temporary, write).map_err(cannot_write)
}
