//! `hankweave validate`

use std::fmt::Write;
use std::process::ExitCode;

use hankweave_core::hank::{CodonConfig, Hank, HankItem, Level, Problem, TerminateOn, unsupported};
use serde_json::{Value, json};

use super::args::{Global, ValidateArgs};
use super::exit::Failure;
use crate::hank_files::{self, LoadedHank};
use crate::report::printable;

/// Reads, checks and shows; starts nothing and writes nothing ("reliability and security", rule X8).
pub(super) fn validate(global: &Global, args: &ValidateArgs) -> Result<ExitCode, Failure> {
    let loaded = hank_files::load(&args.hank).map_err(|error| super::run::hank_failure(&error))?;
    let later = loaded.hank.as_ref().map(unsupported).unwrap_or_default();
    let valid = !loaded.problems.has_errors();
    let text = if global.json() {
        let document = serde_json::to_string_pretty(&as_json(&loaded, &later)).unwrap_or_default();
        format!("{document}\n")
    } else {
        as_text(&loaded, &later)
    };
    super::print(&text)?;
    Ok(if valid {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

fn as_json(loaded: &LoadedHank, later: &[Problem]) -> Value {
    let list = |level: Level| -> Vec<Value> {
        loaded
            .problems
            .iter()
            .filter(|problem| problem.level == level)
            .map(problem_json)
            .collect()
    };
    json!({
        "file": loaded.file,
        "valid": !loaded.problems.has_errors(),
        "errors": list(Level::Error),
        "warnings": list(Level::Warning),
        "notSupportedYet": later.iter().map(problem_json).collect::<Vec<_>>(),
        "codons": loaded.hank.iter().flat_map(Hank::codons).map(|codon| json!({
            "codonId": codon.id,
            "name": codon.name,
            "agent": codon.agent_name(),
            "model": codon.model,
            "promptBytes": prompt_bytes(loaded, codon),
        })).collect::<Vec<_>>(),
    })
}

fn problem_json(problem: &Problem) -> Value {
    json!({
        "path": problem.path,
        "line": problem.position.map(|position| position.line),
        "column": problem.position.map(|position| position.column),
        "message": problem.message,
        "hint": problem.hint,
    })
}

fn as_text(loaded: &LoadedHank, later: &[Problem]) -> String {
    let file = loaded.file.display().to_string();
    let mut text = String::new();
    if let Some(hank) = &loaded.hank {
        // Writing to a String cannot fail.
        let _ = tree(&mut text, loaded, hank);
    }
    if !loaded.problems.is_empty() {
        let _ = writeln!(
            text,
            "{}",
            printable(&loaded.problems.display_in(&file).to_string())
        );
    }
    for problem in later {
        let _ = writeln!(text, "{}", printable(&problem.display_in(&file).to_string()));
    }
    let _ = writeln!(text, "{file}: {}", verdict(loaded, later));
    text
}

fn verdict(loaded: &LoadedHank, later: &[Problem]) -> String {
    let (errors, warnings) = (loaded.problems.errors(), loaded.problems.warnings());
    match (errors, later.len()) {
        (0, 0) => format!("valid ({warnings} warnings)"),
        (0, later) => format!("valid, but `run` cannot do {later} things yet ({warnings} warnings)"),
        (errors, _) => format!("{errors} errors, {warnings} warnings"),
    }
}

/// The hank as it will run.
fn tree(text: &mut String, loaded: &LoadedHank, hank: &Hank) -> std::fmt::Result {
    if let Some(meta) = &hank.meta {
        writeln!(text, "{} {}", printable(&meta.name), printable(&meta.version))?;
    }
    for item in &hank.items {
        match item {
            HankItem::Codon(codon) => codon_line(text, loaded, codon, "")?,
            HankItem::Loop(found) => {
                let until = match found.terminate_on {
                    TerminateOn::IterationLimit { limit } => format!("{limit} times"),
                    TerminateOn::ContextExceeded => "until the context is full".to_owned(),
                };
                writeln!(text, "{}  loop, {until}", found.id)?;
                for codon in &found.codons {
                    codon_line(text, loaded, codon, "  ")?;
                }
            }
        }
    }
    Ok(())
}

fn codon_line(text: &mut String, loaded: &LoadedHank, codon: &CodonConfig, indent: &str) -> std::fmt::Result {
    let model = codon.model.as_deref().unwrap_or("-");
    let prompt = prompt_bytes(loaded, codon).map_or("prompt unreadable".to_owned(), |bytes| {
        format!("prompt {bytes} B")
    });
    let rig = match codon.rig_setup.len() {
        0 => String::new(),
        items => format!(", rig of {items}"),
    };
    writeln!(
        text,
        "{indent}{}  {} with {model}, {prompt}{rig}",
        codon.id,
        codon.agent_name()
    )?;
    for (name, _) in codon.env.iter().filter(|(name, _)| redirects(name)) {
        writeln!(text, "{indent}  sets {name}, which redirects programs or traffic")?;
    }
    Ok(())
}

/// Variables that nobody should set unseen ("reliability and security", rule S8).
fn redirects(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name == "PATH" || name.starts_with("LD_") || name.ends_with("_BASE_URL") || name.ends_with("_PROXY")
}

fn prompt_bytes(loaded: &LoadedHank, codon: &CodonConfig) -> Option<usize> {
    loaded.prompt_text(codon).ok().map(|prompt| prompt.text.len())
}
