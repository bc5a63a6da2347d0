//! `hankweave init` (CLI-18)

use std::path::Path;
use std::process::ExitCode;

use crate::args::{Global, InitArgs, Template};
use crate::exit::{CliError, CliErrorKind};
use crate::output;
use crate::typed::in_folder;

/// The files of a template: path below the directory, and content.
type TemplateFiles = &'static [(&'static str, &'static str)];

const SCRIPTED: TemplateFiles = &[
    ("hank.json", include_str!("templates/scripted/hank.json")),
    (
        "prompts/outline.md",
        include_str!("templates/scripted/prompts/outline.md"),
    ),
    (
        "prompts/draft.md",
        include_str!("templates/scripted/prompts/draft.md"),
    ),
    (
        "scripts/outline.json",
        include_str!("templates/scripted/scripts/outline.json"),
    ),
    (
        "scripts/draft.json",
        include_str!("templates/scripted/scripts/draft.json"),
    ),
];

const CLAUDE: TemplateFiles = &[
    ("hank.json", include_str!("templates/claude/hank.json")),
    (
        "prompts/hello.md",
        include_str!("templates/claude/prompts/hello.md"),
    ),
];

pub(crate) fn init(global: &Global, args: &InitArgs) -> Result<ExitCode, CliError> {
    let files = match args.template {
        Template::Scripted => SCRIPTED,
        Template::Claude => CLAUDE,
    };
    let taken: Vec<&str> = files
        .iter()
        .map(|(path, _)| *path)
        .filter(|path| args.dir.join(path).symlink_metadata().is_ok())
        .collect();
    if !taken.is_empty() {
        let message = format!("`{}` already holds {}", args.dir.display(), taken.join(", "));
        return Err(CliError::new(CliErrorKind::Input, message)
            .hint("choose an empty directory; nothing was written"));
    }
    for (path, content) in files {
        write(&args.dir.join(path), content)?;
    }
    if !global.quiet {
        let dir = args.dir.display();
        let names: Vec<String> = files.iter().map(|(path, _)| format!("  {dir}/{path}")).collect();
        output::print(format!(
            "wrote\n{}\nnow try: {}\n",
            names.join("\n"),
            in_folder("run", &args.dir)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, content: &str) -> Result<(), CliError> {
    let folder = path.parent().unwrap_or(path);
    let write = || {
        std::fs::create_dir_all(folder)?;
        let mut file = std::fs::File::create_new(path)?;
        std::io::Write::write_all(&mut file, content.as_bytes())
    };
    write().map_err(|error: std::io::Error| {
        CliError::new(
            CliErrorKind::Io,
            format!("failed to write `{}`: {error}", path.display()),
        )
    })
}
