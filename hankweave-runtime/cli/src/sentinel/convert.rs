//! `hankweave sentinel convert` (SENT-24)

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hankweave_core::hank::{ConversionNote, ConvertedSentinel, convert_prompt, convert_sentinel};
use hankweave_core::sentinel::{SentinelConfig, Texts};
use hankweave_runtime::world::disk::{Disk as _, IoError, RealDisk, parent};
use serde_json::{Map, Value, json};

use super::read_text;
use crate::args::{Global, SentinelConvertArgs};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::screen::print_stderr;

/// Stands for the way from the folder of the hank, which is not known here, to that of the sentinel: what the sentinel names may lie anywhere on it.
const SOMEWHERE: &str = "a/a/a/a/a/a/a/a";

/// One file and what it says now.
struct ConvertedFile {
    path: PathBuf,
    /// Prompt files that it names and that are old, with their new text.
    prompts: Vec<(PathBuf, String)>,
    /// Prompts that cannot be converted, each with the reason.
    lost_prompts: Vec<(PathBuf, &'static str)>,
    sentinel: ConvertedSentinel,
}

/// Converts each file, and prints its changes line by line. Nothing is written unless all files can be read.
pub(super) fn convert(global: &Global, args: &SentinelConvertArgs) -> Result<ExitCode, CliError> {
    let files: Vec<ConvertedFile> = args
        .files
        .iter()
        .map(|path| read(path))
        .collect::<Result<_, _>>()?;
    if args.write {
        for file in &files {
            file.write()?;
        }
    }
    if global.json() {
        let files: Vec<Value> = files.iter().map(|file| file.as_json(args.write)).collect();
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
    let is_valid = files.iter().all(|file| !file.sentinel.problems.has_errors());
    Ok(ExitCode::from(u8::from(!is_valid)))
}

fn with_line_ends(texts: &[&str]) -> String {
    let ended = texts.iter().map(|text| format!("{}\n", text.trim_end()));
    ended.collect()
}

fn read(path: &Path) -> Result<ConvertedFile, CliError> {
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
        lost_prompts: Vec::new(),
        sentinel,
    };
    file.read_prompts()?;
    Ok(file)
}

impl ConvertedFile {
    /// Converts the prompt files that the sentinel names; one that is not there is reported when the hank is read.
    fn read_prompts(&mut self) -> Result<(), CliError> {
        let Ok(config) = jsonc(&self.sentinel.text) else {
            return Ok(());
        };
        let named = match config.user_prompt_file {
            None => Vec::new(),
            Some(Texts::One(file)) => vec![file],
            Some(Texts::Several(files)) => files,
        };
        for file in named {
            let path = parent(&self.path).join(file);
            if RealDisk.metadata_followed(&path).is_err() {
                continue;
            }
            let text = read_text(&path)?;
            match convert_prompt(&text) {
                Some(converted) => {
                    self.lost_prompts
                        .extend(converted.lost.into_iter().map(|loss| (path.clone(), loss)));
                    self.prompts.push((path, converted.text));
                }
                None if text.contains("<%") => {
                    let why =
                        "the program inside `<% … %>` is beyond this conversion; write it as a template";
                    self.lost_prompts.push((path, why));
                }
                None => {}
            }
        }
        Ok(())
    }

    fn is_old(&self) -> bool {
        !self.sentinel.changed.is_empty()
            || !self.sentinel.lost.is_empty()
            || !self.prompts.is_empty()
            || !self.lost_prompts.is_empty()
    }

    fn write(&self) -> Result<(), CliError> {
        if !self.sentinel.changed.is_empty() || !self.sentinel.lost.is_empty() {
            replace(&self.path, &self.sentinel.text)?;
        }
        for (path, text) in &self.prompts {
            replace(path, text)?;
        }
        Ok(())
    }

    fn as_text(&self, written: bool) -> String {
        let path = self.path.display();
        if !self.is_old() {
            return format!("{path}: nothing to convert\n");
        }
        let mut text = String::new();
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
            let what = match written {
                true => "changed: the template is written in the language of Jinja now",
                false => "an old template, which --write replaces",
            };
            text.push_str(&format!("{}: {what}\n", prompt.display()));
        }
        for (prompt, why) in &self.lost_prompts {
            text.push_str(&format!("{}: not carried over: {why}\n", prompt.display()));
        }
        if !self.sentinel.problems.is_empty() {
            text.push_str(&format!("what is left to do in the new form of {path}:\n"));
            text.push_str(&self.sentinel.problems.display_in(&path.to_string()));
        }
        text
    }

    fn as_json(&self, written: bool) -> Value {
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
        let lost_prompts = self
            .lost_prompts
            .iter()
            .map(|(path, why)| json!({"file": path, "message": why}));
        let problems =
            self.sentinel.problems.iter().map(
                |problem| json!({"path": problem.path, "message": problem.message, "hint": problem.hint}),
            );
        json!({"file": self.path, "written": written && self.is_old(), "text": self.sentinel.text, "changed": notes(&self.sentinel.changed),
            "notCarriedOver": notes(&self.sentinel.lost), "prompts": prompts, "promptsNotCarriedOver": lost_prompts.collect::<Vec<_>>(),
            "problems": problems.collect::<Vec<_>>()})
    }
}

/// Reads a sentinel from a text that may hold comments; its problems are reported elsewhere.
fn jsonc(text: &str) -> Result<SentinelConfig, ()> {
    let checked = hankweave_core::hank::check_sentinel(text, &format!("{SOMEWHERE}/sentinel.json"));
    let config: Map<String, Value> = checked.config.ok_or(())?;
    SentinelConfig::from_checked(config).map_err(drop)
}

/// Puts a new file in the place of the old one, with the bits of that.
fn replace(path: &Path, text: &str) -> Result<(), CliError> {
    let failed =
        |error: io::Error| CliError::from_error(CliErrorKind::Io, &IoError::at("write", path)(error));
    // A link to the file stays one.
    let real = RealDisk.real_path(path).map_err(failed)?;
    let mode = RealDisk.metadata(&real).map_err(failed)?.mode;
    let folder = RealDisk.open_folder(parent(&real)).map_err(failed)?;
    let name = real.file_name().unwrap_or_default();
    let mut temporary = name.to_owned();
    temporary.push(".new");
    let write = |new: &OsStr| folder.create_file(new, mode, &mut text.as_bytes());
    folder.replace(name, &temporary, write).map_err(failed)
}
