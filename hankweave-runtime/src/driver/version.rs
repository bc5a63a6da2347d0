//! Version of an installed program, as `hankweave doctor` shows it of agents and git.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use crate::world::World;
use crate::world::process::{CommandSpec, GroupSignal, Stdin, child_environment};

/// Time that a program has to print its version.
const PATIENCE: Duration = Duration::from_secs(10);

/// Read limit of the output, in bytes: a version is in the first lines.
const MAX_OUTPUT: u64 = 4 << 10;

/// Returns the first number with a dot that `PROGRAM --version` prints on its standard output, such as `2.1.330`; `None` when there is none within
/// ten seconds.
///
/// The exit code does not matter. No process of the program is left running.
pub async fn version_of(world: &World, program: &Path) -> Option<String> {
    let spec = CommandSpec {
        program: program.to_owned(),
        args: vec!["--version".into()],
        env: child_environment(&world.environment, &BTreeMap::new()),
        // Versions do not depend on the folder in which doctor runs, and this one always exists.
        work_dir: "/".into(),
        stdin: Stdin::Closed,
        marker: format!("version/{}", program.display()),
    };
    let mut process = world.spawner.spawn(spec).ok()?;
    let mut printed = Vec::new();
    let reading = async {
        // An error ends the reading like an end: what was printed before it counts.
        let _ = (&mut process.stdout)
            .take(MAX_OUTPUT)
            .read_to_end(&mut printed)
            .await;
    };
    let _ = timeout(PATIENCE, reading).await;
    // The program with its group first, then descendants that have left the group.
    let _ = process.control.signal_group(GroupSignal::Kill);
    process.control.sweep().await;
    version_in(&String::from_utf8_lossy(&printed))
}

/// Returns the first number with a dot in it.
fn version_in(text: &str) -> Option<String> {
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    let mut numbers = words.map(|word| word.trim_matches('.'));
    numbers.find(|number| number.contains('.')).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_first_number_with_a_dot() {
        for (text, version) in [
            ("2.1.330 (Claude Code)\n", Some("2.1.330")),
            ("codex-cli 0.169.0\n", Some("0.169.0")),
            ("git version 2.43.0.\n", Some("2.43.0")),
            ("v18 of nothing...\n", None),
            ("", None),
        ] {
            assert_eq!(version_in(text).as_deref(), version, "{text}");
        }
    }
}
