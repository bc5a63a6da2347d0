//! Environment of a child.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::world::environment::Environment;

/// The environment of a child: everything inherited that may be passed on (S8), what is meant for children alone (HANK-59), and `own` laid over
/// both, as written.
pub fn environment(inherited: &Environment, own: &BTreeMap<String, String>) -> BTreeMap<OsString, OsString> {
    let passed_on = inherited.iter().filter(|(name, _)| !is_denied(name));
    let mut environment: BTreeMap<OsString, OsString> = passed_on
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    for (name, value) in inherited.iter() {
        let Some(name) = for_children(name) else { continue };
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

/// Names after the prefix in hankweave's own variables (CLI-21), and in those that it sets for agents.
const OWN: [&str; 13] = [
    "EXECUTION",
    "PORT",
    "TOKEN",
    "READONLY_TOKEN",
    "LOG",
    "CODON",
    "ITERATION",
    "REHEARSAL",
    "WORKER",
    "RESULTS",
    "MODEL",
    "RESUME_SESSION",
    "APPENDED_SYSTEM_PROMPT",
];

/// The name that a variable of ours has for children, if it is meant for them.
fn for_children(name: &OsStr) -> Option<&OsStr> {
    let name = name.to_str()?.strip_prefix(PREFIX)?;
    let child_name = OsStr::new(name);
    let reserved = ["RUNTIME_", "SENTINEL_", "TEST_", PREFIX];
    let is_own = OWN.contains(&name)
        || name.ends_with("_PATH")
        || reserved.iter().any(|beginning| name.starts_with(beginning));
    (!name.is_empty() && !is_own && !is_denied(child_name)).then_some(child_name)
}

fn is_denied(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name == b"LD_PRELOAD" || name.starts_with(PREFIX.as_bytes()) || name.starts_with(b"GIT_")
}

#[cfg(test)]
mod tests {
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
        let names: Vec<OsString> = environment(&inherited, &own).into_keys().collect();
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
        let environment = environment(&inherited, &BTreeMap::new());
        assert_eq!(environment, BTreeMap::from([("API_KEY".into(), "theirs".into())]));
    }

    #[test]
    fn the_codons_own_values_win() {
        let own = BTreeMap::from([("PATH".to_owned(), "/own".to_owned())]);
        let env = environment(&Environment::from_iter([("PATH", "/bin")]), &own);
        assert_eq!(env[OsStr::new("PATH")], "/own");
    }
}
