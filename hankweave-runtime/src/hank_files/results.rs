//! Checks of results and variables in a hank, as part of loading: invalid schemas of results, and references and variables
//! in prompts, commands and patterns that get no value (HANK-93).

use std::path::Path;

use hankweave_core::hank::{
    CodonConfig, Hank, Problem, PromptSource, ReferenceMistake, reference_mistakes, unknown_variables,
    variables_in,
};
use serde_json::Value;

use super::beneath::read_text;
use super::commands::commands;
use crate::structured::CheckedSchema;
use crate::world::disk::Disk;

/// Returns the problems of invalid schemas of results.
pub(super) fn wrong_schemas(hank: &Hank) -> Vec<Problem> {
    let wrong = hank.located_codons().filter_map(|(at, codon)| {
        let result = codon.result.as_ref()?;
        let why = CheckedSchema::of(&Value::from(result.schema.clone())).err()?;
        let why = match &result.file {
            Some(file) => format!("`{file}`: {why}"),
            None => why,
        };
        Some(Problem::error(&hank.places, format!("{at}.result.schema"), why))
    });
    wrong.collect()
}

/// Returns the problems of references to results, and of variables that do not exist. Files that cannot be read are passed
/// over; the check of the hank's files reports them.
pub(super) fn wrong_references(disk: &dyn Disk, root: &Path, hank: &Hank) -> Vec<Problem> {
    let mut problems = Vec::new();
    let texts = |source: &PromptSource, key: &str| texts(disk, root, source, key);
    if let Some(source) = &hank.global_system_prompt {
        for (place, text) in texts(source, "globalSystemPrompt") {
            problems.extend(in_text(hank, None, &place, &text));
        }
    }
    for (at, codon) in hank.located_codons() {
        let mut all = texts(&codon.prompt, "prompt");
        if let Some(source) = &codon.append_system_prompt {
            all.extend(texts(source, "appendSystemPrompt"));
        }
        if let Some(text) = &codon.exhaust_with_prompt {
            all.push(("exhaustWithPrompt".to_owned(), text.clone()));
        }
        if let Some(question) = codon
            .approval
            .as_ref()
            .and_then(|approval| approval.question.clone())
        {
            all.push(("approval".to_owned(), question));
        }
        for (key, text) in all {
            problems.extend(in_text(hank, Some(codon), &format!("{at}.{key}"), &text));
        }
        let commands = commands(codon, &at).into_iter();
        problems.extend(commands.flat_map(|(place, command)| in_command(hank, &place, command)));
        problems.extend(patterns(codon, &at).filter_map(|(place, pattern)| in_pattern(hank, place, pattern)));
    }
    problems
}

/// Returns the patterns of a codon's files, each with its JSON path in the hank.
fn patterns<'h>(codon: &'h CodonConfig, at: &str) -> impl Iterator<Item = (String, &'h String)> {
    let list = |place: String, patterns: &'h [String]| {
        let place = move |index: usize| format!("{place}[{index}]");
        patterns
            .iter()
            .enumerate()
            .map(move |(index, pattern)| (place(index), pattern))
    };
    let outputs: Vec<_> = codon.output_files.iter().enumerate().collect();
    let place = format!("{at}.outputFiles");
    list(format!("{at}.checkpointedFiles"), &codon.checkpointed_files)
        .chain(list(format!("{at}.archiveOnSuccess"), &codon.archive_on_success))
        .chain(
            outputs
                .into_iter()
                .flat_map(move |(index, group)| list(format!("{place}[{index}].copy"), &group.copy)),
        )
}

/// Returns a warning if a pattern holds a variable: nothing fills in variables there.
fn in_pattern(hank: &Hank, place: String, pattern: &str) -> Option<Problem> {
    let marks = ["<%", "${", "$(", "$HANKWEAVE_"];
    let mark = marks.into_iter().find(|mark| pattern.contains(mark))?;
    let message =
        format!("`{mark}` is a part of the name: a pattern has no variables, so it will match no file");
    let problem = Problem::warning(&hank.places, place, message);
    Some(problem.with_hint("write `*` for what changes, as in \"report-*.md\""))
}

/// Returns warnings about variables of prompts in a command: nothing fills them in there.
fn in_command(hank: &Hank, place: &str, command: &str) -> Vec<Problem> {
    let problem = |name: &str| {
        let message =
            format!("`<%{name}%>` stands for something in prompts alone, so the shell gets it as it stands");
        let hint = match name {
            "DATA_DIR" => "the data of a run is in `read_only_data_source`",
            name if name.starts_with("results.") => "the file that $HANKWEAVE_RESULTS names has the results",
            _ => "a command runs in the folder of the project",
        };
        Problem::warning(&hank.places, place, message).with_hint(hint)
    };
    variables_in(command).map(problem).collect()
}

/// Whether a prompt names the data of the run, `<%DATA_DIR%>`. Files that cannot be read do not count.
pub(super) fn names_data(disk: &dyn Disk, root: &Path, hank: &Hank) -> bool {
    let of_codons = hank.codons().map(|codon| &codon.prompt);
    let mut sources = of_codons.chain(&hank.global_system_prompt);
    let names = |text: &str| variables_in(text).any(|name| name == "DATA_DIR");
    sources.any(|source| texts(disk, root, source, "").iter().any(|(_, text)| names(text)))
}

/// Returns the texts of a prompt, each with the key that holds it. Files that cannot be read are left out.
fn texts(disk: &dyn Disk, root: &Path, source: &PromptSource, key: &str) -> Vec<(String, String)> {
    let files = match source {
        PromptSource::Text(text) => return vec![(format!("{key}Text"), text.clone())],
        PromptSource::Files(files) => files,
    };
    let texts = files.iter().enumerate().filter_map(|(index, file)| {
        let place = match files.len() {
            1 => format!("{key}File"),
            _ => format!("{key}File[{index}]"),
        };
        Some((place, read_text(disk, root, file).ok()?))
    });
    texts.collect()
}

/// Returns the problems of references and variables in `text`, the prompt at `place`.
fn in_text(hank: &Hank, codon: Option<&CodonConfig>, place: &str, text: &str) -> Vec<Problem> {
    let mistakes = reference_mistakes(hank, codon, text).into_iter();
    let problem = |mistake: ReferenceMistake| {
        let problem = match mistake.is_doubt {
            true => {
                let follows = match place.ends_with(".approval") {
                    true => "without it the question has the reference itself",
                    false => "without it the codon fails",
                };
                Problem::warning(&hank.places, place, format!("{}: {follows}", mistake.message))
            }
            false => Problem::error(&hank.places, place, mistake.message),
        };
        problem.with_hint(mistake.hint)
    };
    let unknown = unknown_variables(text).into_iter().map(|name| {
        let message = format!("`<%{name}%>` is no variable, so the agent gets it as it stands");
        let hint = "write <%PROJECT_DIR%>, <%DATA_DIR%> or <%results.ID.KEY%>";
        Problem::warning(&hank.places, place, message).with_hint(hint)
    });
    mistakes.map(problem).chain(unknown).collect()
}
