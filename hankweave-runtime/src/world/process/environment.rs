//! What a child gets to see of our environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::world::environment::Environment;

/// The environment of a child: everything inherited that is not on the deny list, and `own` laid over it.
///
/// Not passed on ("reliability and security", rule S8): `HANKWEAVE_*`, among it the server's token; `GIT_*`, which would
/// point the child's git at another repository; `LD_PRELOAD`. What `own` says applies as written.
pub fn environment(inherited: &Environment, own: &BTreeMap<String, String>) -> BTreeMap<OsString, OsString> {
    let inherited = inherited.iter().filter(|(name, _)| !is_denied(name));
    let inherited = inherited.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let own = own.iter().map(|(name, value)| (name.into(), value.into()));
    inherited.chain(own).collect()
}

fn is_denied(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name == b"LD_PRELOAD" || name.starts_with(b"HANKWEAVE_") || name.starts_with(b"GIT_")
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

    #[test]
    fn the_codons_own_values_win() {
        let own = BTreeMap::from([("PATH".to_owned(), "/own".to_owned())]);
        let env = environment(&Environment::from_iter([("PATH", "/bin")]), &own);
        assert_eq!(env[OsStr::new("PATH")], "/own");
    }
}
