//! Folders in which agents keep their own files, such as sessions and settings.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Folder of an agent: the one that a variable names, else its usual one in the home of the user.
#[derive(Debug, Clone, Copy)]
pub struct AgentFolder {
    variable: &'static str,
    usual: &'static str,
}

impl AgentFolder {
    /// Folder of claude.
    pub const CLAUDE: Self = Self::new("CLAUDE_CONFIG_DIR", ".claude");
    /// Folder of codex.
    pub const CODEX: Self = Self::new("CODEX_HOME", ".codex");
    /// Folder in which gemini makes its own, called `.gemini`.
    pub const GEMINI: Self = Self::new("GEMINI_CLI_HOME", "");
    /// Folder of pi.
    pub const PI: Self = Self::new("PI_CODING_AGENT_DIR", ".pi/agent");

    const fn new(variable: &'static str, usual: &'static str) -> Self {
        Self { variable, usual }
    }

    /// Returns its path for an agent that works in `work_dir`; `variable` looks up the agent's environment. `None` without a home. As in the agent itself, a
    /// relative path in a variable starts at `work_dir`, and an empty variable counts as unset.
    #[must_use]
    pub fn path<'v>(
        self,
        work_dir: &Path,
        variable: impl Fn(&'static str) -> Option<&'v OsStr>,
    ) -> Option<PathBuf> {
        let named = |name| variable(name).filter(|value| !value.is_empty());
        match named(self.variable) {
            Some(folder) => Some(work_dir.join(folder)),
            None => Some(work_dir.join(named("HOME")?).join(self.usual)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: RUN-27
    #[test]
    fn a_folder_is_named_by_its_variable_or_lies_in_the_home() {
        let path = |folder: Option<&'static str>, home: Option<&'static str>| {
            let value = |name: &str| match name {
                "CODEX_HOME" => folder,
                _ => home,
            };
            AgentFolder::CODEX.path(Path::new("/work"), |name| value(name).map(OsStr::new))
        };
        let is = |expected: &str| Some(PathBuf::from(expected));
        assert_eq!(path(Some("/own"), Some("/home/u")), is("/own"));
        assert_eq!(path(Some("own"), None), is("/work/own"));
        assert_eq!(path(Some(""), Some("/home/u")), is("/home/u/.codex"));
        assert_eq!(path(None, Some("")), None);
        assert_eq!(path(None, None), None);
    }
}
