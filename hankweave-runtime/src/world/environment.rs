//! What the program was given when it was started.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The environment variables, read once so that nothing that happens later changes an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// The variables of this process.
    #[must_use]
    pub fn of_process() -> Self {
        std::env::vars_os().collect()
    }

    /// The value of a variable; `None` when it is not set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// All variables with their values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Self { variables }
    }
}
