//! Checks of the programs of agents, of the variables with their keys, and of git.

use hankweave_runtime::driver::{AgentProgram, DriverSet, StartError, version_of};
use hankweave_runtime::error::chain;
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::RealDisk;
use hankweave_runtime::world::environment::find_program;

use super::{CheckStatus, Finding};

/// Asks each program for its version, and nothing else.
pub(super) async fn check_agents(world: &World, drivers: &DriverSet) -> Vec<Finding> {
    let mut findings = Vec::new();
    let programs = drivers
        .names()
        .filter_map(|name| Some((name, drivers.get(name)?.program()?)));
    for (name, program) in programs {
        findings.push(check_program(world, name, &program).await);
        if program.path.is_ok() {
            findings.push(check_keys(world, name, &program));
        }
    }
    findings.push(check_acp_programs(world));
    findings.push(Finding::new("agents", "scripted", CheckStatus::Ok, "built in"));
    findings.push(check_git(world).await);
    findings
}

/// Programs that are known to speak the Agent Client Protocol (ACP), as a hank names them.
const ACP_PROGRAMS: [&str; 5] = [
    "opencode acp",
    "gemini --acp",
    "codex-acp",
    "claude-agent-acp",
    "pi-acp",
];

/// Lists the known programs that are installed. A hank can name any other program, so it is no error if there are none.
fn check_acp_programs(world: &World) -> Finding {
    let path = world.environment.get("PATH").unwrap_or_default();
    let is_installed = |command: &&&str| {
        let program = command.split(' ').next().unwrap_or_default();
        find_program(&RealDisk, program, path).is_some()
    };
    let installed: Vec<String> = ACP_PROGRAMS
        .iter()
        .filter(is_installed)
        .map(|command| format!("`{command}`"))
        .collect();
    match installed.is_empty() {
        false => Finding::new(
            "agents",
            "acp",
            CheckStatus::Ok,
            format!("{} on PATH", installed.join(", ")),
        ),
        true => Finding::new(
            "agents",
            "acp",
            CheckStatus::Note,
            "none of the programs that are known to speak it is on PATH",
        )
        .hint(r#"any program that speaks it will do: "agent": { "acp": ["program", "its arguments"] }"#),
    }
}

/// Finds the program of an agent, and compares its version with the tested ones.
async fn check_program(world: &World, name: &str, program: &AgentProgram) -> Finding {
    let finding = |level, found: String| Finding::new("agents", name, level, found);
    let path = match &program.path {
        Ok(path) => path,
        Err(StartError::ProgramNotFound {
            searched,
            hint,
            variable,
            ..
        }) => {
            let place = match searched.starts_with("PATH") {
                true => "on PATH",
                false => searched,
            };
            return finding(CheckStatus::Note, format!("not found {place}"))
                .hint(format!("install it ({hint}) or set {variable} to its path"));
        }
        Err(error) => return finding(CheckStatus::Warning, chain(error)),
    };
    let (tested, place) = (program.tested_with.join(", "), path.display());
    let Some(version) = version_of(world, path).await else {
        let hint = format!("`{place} --version` should print a version; tested are {tested}");
        return finding(CheckStatus::Warning, format!("{place} does not say its version")).hint(hint);
    };
    let found = format!("{version} at {place}");
    match compare_version(&version, program.tested_with) {
        VersionStatus::Tested => finding(CheckStatus::Ok, found),
        VersionStatus::Newer => finding(
            CheckStatus::Note,
            format!("{found}, newer than what was tested ({tested})"),
        ),
        VersionStatus::Older => finding(
            CheckStatus::Warning,
            format!("{found}, older than what was tested ({tested})"),
        )
        .hint("a newer one may tell costs and errors that this one does not"),
    }
}

/// Reports which keys of an agent are set. A key is never shown, and it may be set and still be invalid.
fn check_keys(world: &World, name: &str, program: &AgentProgram) -> Finding {
    let is_set = |key: &&&str| world.environment.get(key).is_some_and(|value| !value.is_empty());
    let set: Vec<&str> = program.keys.iter().filter(is_set).copied().collect();
    let finding = |level, found: String| Finding::new("agents", format!("{name} keys"), level, found);
    match set.is_empty() {
        false => finding(CheckStatus::Ok, format!("{} set", set.join(", "))),
        true => finding(
            CheckStatus::Note,
            format!(
                "none of {} is set; {name} may be signed in without",
                program.keys.join(", ")
            ),
        ),
    }
}

/// Checks git. Checkpoints are made without the program, but users need it to inspect them.
async fn check_git(world: &World) -> Finding {
    let path = world.environment.get("PATH").unwrap_or_default();
    match find_program(&RealDisk, "git", path) {
        Some(git) => {
            let version = version_of(world, &git).await.unwrap_or_default();
            Finding::new(
                "programs",
                "git",
                CheckStatus::Ok,
                format!("{version} at {}", git.display()),
            )
        }
        None => Finding::new("programs", "git", CheckStatus::Warning, "not found on PATH")
            .hint("runs do without it; `hankweave diff` and looking into checkpoints do not"),
    }
}

/// Comparison of a version with the tested versions.
#[derive(Debug, PartialEq, Eq)]
enum VersionStatus {
    Tested,
    Newer,
    Older,
}

/// Compares a version with the oldest and the newest tested one, number by number.
fn compare_version(version: &str, tested: &[&str]) -> VersionStatus {
    let numbers =
        |version: &str| -> Vec<u64> { version.split('.').map(|part| part.parse().unwrap_or(0)).collect() };
    let (version, tested) = (numbers(version), tested.iter().map(|tested| numbers(tested)));
    match (tested.clone().min(), tested.max()) {
        (Some(oldest), _) if version < oldest => VersionStatus::Older,
        (_, Some(newest)) if version > newest => VersionStatus::Newer,
        _ => VersionStatus::Tested,
    }
}

#[cfg(test)]
mod tests {
    use hankweave_runtime::driver::ProcessHost;

    use super::*;

    #[test]
    fn the_page_says_with_which_versions_agents_were_tested() {
        let page = include_str!("../../../../docs/agents.md");
        let cells = |name: &str| -> Vec<String> {
            let line = page
                .lines()
                .find(|line| line.starts_with(name))
                .unwrap_or_default();
            let cells = line
                .split('|')
                .skip(2)
                .map(|cell| cell.trim().trim_matches('`').to_owned());
            cells.filter(|cell| !cell.is_empty()).collect()
        };
        let drivers = DriverSet::built_in(&ProcessHost::new(&World::real()));
        let tested = |name: &String| {
            drivers
                .get(name)?
                .program()
                .map(|program| program.tested_with.join(", "))
        };
        let agents = cells("| | `claude` ");
        let expected: Vec<String> = agents.iter().filter_map(tested).collect();
        assert_eq!((agents.len(), cells("| Tested with ")), (5, expected));
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let tested = &["0.73.1", "0.87.0"];
        for (version, expected) in [
            ("0.73.1", VersionStatus::Tested),
            ("0.80.0", VersionStatus::Tested),
            ("0.9.0", VersionStatus::Older),
            ("0.100.0", VersionStatus::Newer),
            ("1.0", VersionStatus::Newer),
        ] {
            assert_eq!(compare_version(version, tested), expected, "{version}");
        }
    }
}
