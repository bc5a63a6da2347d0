//! Programs that the commands of a hank start and this machine lacks (HANK-4).

use std::path::Path;

use hankweave_core::hank::{CodonConfig, Hank, RigAction};

use super::requirements::MissingRequirement;
use crate::world::disk::Disk;
use crate::world::environment::{Environment, find_program};

/// Characters with which a command is more than a program and its arguments.
const SYNTAX: &str = "|&;<>()$`{}!\n\\'\"#";

/// First words that are commands of the shell itself, so they need no program on PATH.
const BUILT_IN: &str = "alias bg break case cd command continue eval exec exit export false fg for getopts hash if \
    jobs kill let local printf pwd read readonly return set shift source test time times trap true type ulimit \
    umask unalias unset until wait while";

/// Returns the programs that simple commands of rigs and checks begin with, if they are neither on PATH nor in the hank's
/// folder `root`; and the programs of agents whose absolute path does not exist.
///
/// A run starts anyway, because an earlier command may install them. Commands of codons with a PATH of their own are not
/// checked.
#[must_use]
pub fn missing_programs(
    hank: &Hank,
    root: &Path,
    environment: &Environment,
    disk: &dyn Disk,
) -> Vec<MissingRequirement> {
    let path = environment.get("PATH").unwrap_or_default();
    let is_missing = |program: &str| {
        find_program(disk, program, path).is_none() && disk.metadata(&root.join(program)).is_err()
    };
    let codons = hank.located_codons();
    let agents = hank.located_codons().filter_map(|(at, codon)| {
        let program = codon.agent.as_ref()?.command().first()?;
        let program_path = Path::new(program);
        let is_lost = program_path.is_absolute() && disk.metadata_followed(program_path).is_err();
        is_lost.then(|| (format!("{at}.agent"), program.as_str()))
    });
    let commands = codons
        .filter(|(_, codon)| !codon.env.contains_key("PATH"))
        .flat_map(|(at, codon)| commands(codon, &at));
    let programs = commands.filter_map(|(place, command)| Some((place, program(command)?)));
    programs
        .filter(|(_, program)| is_missing(program))
        .chain(agents)
        .map(|(place, program)| MissingRequirement {
            place,
            what: format!("the program {program}"),
        })
        .collect()
}

/// Returns the commands of a codon's rig and of its check, each with its JSON path in the hank.
pub(super) fn commands<'h>(codon: &'h CodonConfig, at: &str) -> Vec<(String, &'h str)> {
    let items = codon.rig_setup.iter().enumerate();
    let rig = items.filter_map(|(index, item)| match &item.action {
        RigAction::Command { command } => Some((
            format!("{at}.rigSetup[{index}].command.run"),
            command.run.as_str(),
        )),
        RigAction::Copy { .. } => None,
    });
    let check = codon.check.iter();
    rig.chain(check.map(|check| (format!("{at}.check"), check.run.as_str())))
        .collect()
}

/// Returns the program that a command without shell syntax begins with; `None` for other commands, for a path, and for a
/// command of the shell itself.
fn program(command: &str) -> Option<&str> {
    let word = command.split_whitespace().next()?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
    let is_plain = !command.trim().contains(|c| SYNTAX.contains(c)) && word.chars().all(is_name);
    let is_program = is_plain && word != "." && !BUILT_IN.split_whitespace().any(|name| name == word);
    is_program.then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: HANK-4
    #[test]
    fn only_the_program_of_a_plain_command_is_named() {
        assert_eq!(program(" frobnicate --all x=1\n"), Some("frobnicate"));
        for other in [
            "cd x && make",
            "a | b",
            "X=1 make",
            "./go.sh",
            "bin/go",
            "$TOOL x",
            "test -f x",
            "exit 1",
            ". x",
            "echo 'x'",
            "[ -f x ]",
            "",
        ] {
            assert_eq!(program(other), None, "{other}");
        }
    }
}
