//! `hankweave init` (CLI-18): writes the files of a new hank, from a template of the program or as a copy of another hank.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hankweave_core::hank::FILE_NAMES;
use hankweave_core::schema;
use hankweave_runtime::hank_files;
use hankweave_runtime::world::disk::{CopyRules, Disk, RealDisk};

use crate::args::{Global, InitArgs, Template};
use crate::failures::{hank_failure, hank_with_mistakes, load_hank};
use crate::hints::in_folder;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;

/// File name of the schema next to the hank, to which its `$schema` points.
const SCHEMA: &str = "hank.schema.json";

/// Folders in an execution directory that runs make; a copy of its hank leaves them out.
const OF_RUNS: [&str; 3] = [".hankweave", "rigArchive", "read_only_data_source"];

/// Files of a template: path below the directory, and content.
type TemplateFiles = &'static [(&'static str, &'static str)];

macro_rules! template {
    ($name:literal: $($path:literal),+) => {
        &[$(($path, include_str!(concat!("templates/", $name, "/", $path)))),+]
    };
}

fn files_of(template: Template) -> TemplateFiles {
    match template {
        Template::Scripted => {
            template!("scripted": "hank.json", "prompts/outline.md", "prompts/draft.md", "scripts/outline.json", "scripts/draft.json")
        }
        Template::Claude => template!("claude": "hank.json", "prompts/hello.md"),
        Template::UntilGreen => template!("until-green": "hank.json", "prompts/fix.md"),
        Template::Docs => {
            template!("docs": "hank.json", "prompts/outline.md", "prompts/write.md", "prompts/style.md", "prompts/review.md", "prompts/revise.md")
        }
        Template::Extract => {
            template!("extract": "hank.json", "record.schema.json", "prompts/extract.md", "prompts/verify.md")
        }
        Template::Migrate => template!("migrate": "hank.json", "prompts/plan.md", "prompts/step.md"),
        Template::Review => {
            template!("review": "hank.json", "prompts/fix.md", "prompts/review.md", "prompts/address.md")
        }
        Template::Night => template!("night": "hank.json", "TODO.md", "prompts/task.md", "prompts/report.md"),
    }
}

/// Content of a new file.
enum NewContent {
    Text(String),
    CopyOf(PathBuf),
}

/// New files: path below the directory, and content.
type NewFiles = Vec<(PathBuf, NewContent)>;

pub(crate) fn init(global: &Global, args: &InitArgs) -> Result<ExitCode, CliError> {
    let mut files = match &args.from {
        Some(folder) => copies(folder)?,
        None => files_of(args.template)
            .iter()
            .map(|(path, text)| (PathBuf::from(path), NewContent::Text((*text).to_owned())))
            .collect(),
    };
    if !files.iter().any(|(path, _)| path == Path::new(SCHEMA)) {
        files.push((SCHEMA.into(), NewContent::Text(format!("{:#}\n", schema::hank()))));
    }
    refuse_taken(&args.dir, &files)?;
    for (path, content) in &files {
        write(&args.dir.join(path), content)?;
    }
    if !global.quiet {
        let names: Vec<String> = files
            .iter()
            .map(|(path, _)| format!("  {}", args.dir.join(path).display()))
            .collect();
        let can_run_at_once = args.from.is_none() && args.template == Template::Scripted;
        let next = match can_run_at_once {
            true => format!("now try: {}", in_folder("run", &args.dir)),
            false => format!(
                "change its prompts and commands, then try: {}",
                in_folder("validate", &args.dir)
            ),
        };
        output::print(format!("wrote\n{}\n{next}\n", names.join("\n")))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses a directory that holds one of the new files, or a hank under its other name.
fn refuse_taken(dir: &Path, files: &NewFiles) -> Result<(), CliError> {
    let new = files.iter().map(|(path, _)| path.as_path());
    let mut taken: Vec<String> = Vec::new();
    for path in FILE_NAMES.iter().map(Path::new).chain(new) {
        let shown = path.display().to_string();
        if dir.join(path).symlink_metadata().is_ok() && !taken.contains(&shown) {
            taken.push(shown);
        }
    }
    if taken.is_empty() {
        return Ok(());
    }
    let message = format!("`{}` already holds {}", dir.display(), taken.join(", "));
    Err(CliError::new(CliErrorKind::Input, message).hint("choose an empty directory; nothing was written"))
}

/// Lists the files to copy of the hank in `folder` (HANK-15). A hank with mistakes is refused.
fn copies(folder: &Path) -> Result<NewFiles, CliError> {
    let file = hank_files::find_in(&RealDisk, folder).map_err(|error| hank_failure(&error))?;
    let loaded = load_hank(&file)?;
    if loaded.problems.has_errors() {
        return Err(hank_with_mistakes(&loaded));
    }
    let failed = |error: io::Error| {
        let message = format!("failed to read `{}`: {error}", folder.display());
        CliError::new(CliErrorKind::Io, message)
    };
    let rules = RealDisk
        .open_folder(&loaded.root)
        .and_then(|root| CopyRules::of(&*root));
    let mut found = Vec::new();
    list(&loaded.root, Path::new(""), &rules.map_err(failed)?, &mut found).map_err(failed)?;
    found.sort();
    let mut files = NewFiles::new();
    for path in found {
        let from = loaded.root.join(&path);
        if !from.symlink_metadata().map_err(failed)?.is_file() {
            let message = format!("`{}` is neither a file nor a folder", from.display());
            return Err(
                CliError::new(CliErrorKind::Input, message).hint("links are not copied; nothing was written")
            );
        }
        files.push((path, NewContent::CopyOf(from)));
    }
    Ok(files)
}

/// Collects the files of a folder and of the folders in it, as paths relative to `root`; leaves out what `rules` and [`OF_RUNS`] leave out.
fn list(root: &Path, folder: &Path, rules: &CopyRules, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        let is_folder = entry.file_type()?.is_dir();
        let is_of_runs = is_folder && OF_RUNS.iter().any(|name| path == Path::new(name));
        if is_of_runs || rules.leave_out(&path, is_folder) {
            continue;
        }
        match is_folder {
            true => list(root, &path, rules, found)?,
            false => found.push(path),
        }
    }
    Ok(())
}

fn write(path: &Path, content: &NewContent) -> Result<(), CliError> {
    let folder = path.parent().unwrap_or(path);
    let write = || {
        std::fs::create_dir_all(folder)?;
        let mut file = std::fs::File::create_new(path)?;
        match content {
            NewContent::Text(text) => io::Write::write_all(&mut file, text.as_bytes()),
            NewContent::CopyOf(from) => {
                let mut source = std::fs::File::open(from)?;
                io::copy(&mut source, &mut file)?;
                file.set_permissions(source.metadata()?.permissions())
            }
        }
    };
    write().map_err(|error: io::Error| {
        CliError::new(
            CliErrorKind::Io,
            format!("failed to write `{}`: {error}", path.display()),
        )
    })
}
