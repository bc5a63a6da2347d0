//! Version of a program, by its own word.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use crate::world::World;
use crate::world::process::{CommandSpec, GroupSignal, Stdin, child_environment};

/// Maximum time for a program to print its version.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum length of the output that is read, in bytes.
const LONGEST: u64 = 4 << 10;

/// Returns the first number with a dot in the output of `PROGRAM --version`, such as `2.1.330`; `None` if there is none
/// within ten seconds. No process of the program is left.
pub async fn version_of(world: &World, program: &Path) -> Option<String> {
    let spec = CommandSpec {
        program: program.to_owned(),
        args: vec!["--version".into()],
        env: child_environment(&world.environment, &BTreeMap::new()),
        work_dir: "/".into(),
        stdin: Stdin::Closed,
        marker: format!("version/{}", program.display()),
    };
    let mut process = world.spawner.spawn(spec).ok()?;
    let mut printed = Vec::new();
    let said = async {
        // Output that cannot be read has no version.
        let _ = (&mut process.stdout)
            .take(LONGEST)
            .read_to_end(&mut printed)
            .await;
    };
    let _ = timeout(PATIENCE, said).await;
    let _ = process.control.signal_group(GroupSignal::Kill);
    process.control.sweep().await;
    version_in(&String::from_utf8_lossy(&printed))
}

fn version_in(text: &str) -> Option<String> {
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    let mut numbers = words.map(|word| word.trim_matches('.'));
    numbers.find(|word| word.contains('.')).map(str::to_owned)
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
