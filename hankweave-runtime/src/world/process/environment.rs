//! Environment of a child.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::world::environment::Environment;

/// Returns the environment of a child: the inherited variables that may be passed on (S8), then those meant for children alone (HANK-59), then `own`
/// as written. A later value replaces an earlier one.
pub fn child_environment(
    inherited: &Environment,
    own: &BTreeMap<String, String>,
) -> BTreeMap<OsString, OsString> {
    let passed_on = inherited.iter().filter(|(name, _)| !is_denied(name));
    let mut environment: BTreeMap<OsString, OsString> = passed_on
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    for (name, value) in inherited.iter() {
        let Some(name) = child_name(name) else { continue };
        if value == "unset" {
            environment.remove(name);
        } else {
            environment.insert(name.to_owned(), value.to_owned());
        }
    }
    environment.extend(own.iter().map(|(name, value)| (name.into(), value.into())));
    environment
}

const PREFIX: &str = "HANKWEAVE_";

/// Names, without the prefix, of the variables that hankweave reads (CLI-21) or sets for its children. Every variable that is read anywhere in the
/// workspace must be here or in a family of [`child_name`]: agents get the value of any other one, such as the password of a registry.
const RESERVED: [&str; 24] = [
    "APPENDED_SYSTEM_PROMPT",
    "CODON",
    "COMPLETE",
    "EVENT",
    "EXECUTION",
    "FORK_SESSION",
    "HANK",
    "ITERATION",
    "LOG",
    "MAX_SIZE",
    "MODEL",
    "NEXT",
    "PORT",
    "READONLY_TOKEN",
    "REASON",
    "REGISTRY",
    "REHEARSAL",
    "REMOTE",
    "REPORT",
    "RESULTS",
    "RESUME_SESSION",
    "TASKS",
    "TOKEN",
    "WORKER",
];

/// Returns `X` for the variable `HANKWEAVE_X`, if it sets X for children (HANK-59).
pub(crate) fn child_name(variable: &OsStr) -> Option<&OsStr> {
    let name = variable.to_str()?.strip_prefix(PREFIX)?;
    let is_reserved = RESERVED.contains(&name)
        // A family, because agents are added without a change of this list: HANKWEAVE_<AGENT>_PATH is the program of an agent.
        || name.ends_with("_PATH")
        || ["RUNTIME_", "SENTINEL_", "TEST_"].iter().any(|family| name.starts_with(family));
    let name = OsStr::new(name);
    (!name.is_empty() && !is_reserved && !is_denied(name)).then_some(name)
}

/// Whether children do not inherit a variable: one of ours, one of git's, or one that loads code into every program.
fn is_denied(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name == b"LD_PRELOAD" || name.starts_with(PREFIX.as_bytes()) || name.starts_with(b"GIT_")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    // covers: S8
    #[test]
    fn secrets_of_the_server_and_git_redirections_are_not_passed_on() {
        let inherited = [
            ("PATH", "/bin"),
            ("HANKWEAVE_TOKEN", "secret"),
            ("GIT_DIR", "/elsewhere"),
            ("LD_PRELOAD", "x.so"),
            ("GITHUB_ACTOR", "me"),
        ];
        let inherited = Environment::from_iter(inherited);
        let own = BTreeMap::from([("GIT_PAGER".to_owned(), "cat".to_owned())]);
        let names: Vec<OsString> = child_environment(&inherited, &own).into_keys().collect();
        assert_eq!(names, ["GITHUB_ACTOR", "GIT_PAGER", "PATH"]);
    }

    // covers: HANK-59
    #[test]
    fn variables_can_be_set_and_unset_for_children_alone_but_never_to_our_own_secrets() {
        let inherited = Environment::from_iter([
            ("API_KEY", "ours"),
            ("PROXY", "ours"),
            ("HANKWEAVE_API_KEY", "theirs"),
            ("HANKWEAVE_PROXY", "unset"),
            ("HANKWEAVE_TOKEN", "secret"),
            ("HANKWEAVE_READONLY_TOKEN", "secret"),
            ("HANKWEAVE_SENTINEL_API_KEY", "sentinel"),
            ("HANKWEAVE_CLAUDE_PATH", "/bin/claude"),
            ("HANKWEAVE_GIT_DIR", "/elsewhere"),
            ("HANKWEAVE_HANKWEAVE_TOKEN", "x"),
            ("HANKWEAVE_", "x"),
        ]);
        let environment = child_environment(&inherited, &BTreeMap::new());
        assert_eq!(environment, BTreeMap::from([("API_KEY".into(), "theirs".into())]));
    }

    // covers: CLI-21, HANK-59
    #[test]
    fn settings_of_hankweave_do_not_become_variables_of_children() {
        let reserved = RESERVED.map(|name| (format!("{PREFIX}{name}"), "postgres://me:password@db/tasks"));
        let families = ["RUNTIME_AGENT", "SENTINEL_API_KEY", "TEST_SEED", "CODEX_PATH"]
            .map(|name| (format!("{PREFIX}{name}"), "secret"));
        let inherited = Environment::from_iter(reserved.into_iter().chain(families));
        assert_eq!(child_environment(&inherited, &BTreeMap::new()), BTreeMap::new());
    }

    // covers: CLI-21
    #[test]
    fn every_variable_that_the_sources_name_is_reserved() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut folders = vec![
            workspace.join("hankweave-core"),
            workspace.join("hankweave-runtime"),
        ];
        let mut named = BTreeSet::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                let is_of_tests = ["tests", "benches", "testing", "node_modules"].contains(&name);
                if path.is_dir() && !is_of_tests {
                    folders.push(path);
                } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                    named.extend(variables(&fs::read_to_string(path).unwrap()));
                }
            }
        }
        assert!(named.contains("HANKWEAVE_REGISTRY"), "{named:?}");
        // Variables of the build are read by the compiler alone.
        named.retain(|name| !name.starts_with("HANKWEAVE_BUILD_") && child_name(OsStr::new(name)).is_some());
        assert_eq!(named, BTreeSet::new(), "agents would get their values");
    }

    /// Returns the variables of hankweave that are literals of a source file, outside of its tests.
    fn variables(source: &str) -> Vec<String> {
        let code = source
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        let after_prefix = code.split("\"HANKWEAVE_").skip(1);
        let names = after_prefix.filter_map(|rest| {
            let (name, _) = rest.split_once('"')?;
            let is_name = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
            is_name.then(|| format!("{PREFIX}{name}"))
        });
        names.collect()
    }

    #[test]
    fn the_codons_own_values_win() {
        let own = BTreeMap::from([("PATH".to_owned(), "/own".to_owned())]);
        let env = child_environment(&Environment::from_iter([("PATH", "/bin")]), &own);
        assert_eq!(env[OsStr::new("PATH")], "/own");
    }
}
