//! The command line of a run, recorded so that hints can repeat it with its options.

use std::path::{Path, PathBuf};

use hankweave_core::id::is_model_name;
use serde::{Deserialize, Serialize};

/// The command line of a run, without the options for one start only. Paths are as they were typed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Invocation {
    /// Working directory of the command: paths are relative to it, and hankweave.json is read there.
    pub folder: PathBuf,
    /// A hank.json, or the folder that holds one.
    pub hank: PathBuf,
    /// The execution directory, if it is not the folder of the hank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<PathBuf>,
    /// Everything else, in the order of the help page.
    pub options: Vec<GivenOption>,
}

impl Invocation {
    /// Returns the command after the folder `old`, which holds hank and execution directory, was moved to `new`. Both
    /// paths are absolute.
    pub(crate) fn moved(self, old: &Path, new: &Path) -> Self {
        // The path after the move; `None` for a path outside of `old`. Collecting the components drops the slash that joining an
        // empty path leaves.
        let inside = |path: &Path| -> Option<PathBuf> {
            Some(new.join(path.strip_prefix(old).ok()?).components().collect())
        };
        match inside(&self.folder) {
            Some(folder) => Self {
                hank: inside(&self.hank).unwrap_or(self.hank),
                execution: self.execution.map(|path| inside(&path).unwrap_or(path)),
                folder,
                ..self
            },
            None => {
                // The working directory stays, so a relative path to a moved folder would lead nowhere: it becomes absolute.
                let whole = |path: PathBuf| inside(&self.folder.join(&path)).unwrap_or(path);
                Self {
                    hank: whole(self.hank),
                    execution: self.execution.map(whole),
                    ..self
                }
            }
        }
    }
}

/// One option as it was given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GivenOption {
    /// Its long name, without the dashes.
    pub name: String,
    /// Its value; none for a flag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Whether the value is a path.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_path: bool,
}

/// How long and how far an option of `run` counts. Each scope includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OptionScope {
    /// This start alone.
    Start,
    /// Every start whose command line names the option, as the command lines in hints do. Such an option opens, serves or starts something; a record, which
    /// may come from anywhere, must not cause that.
    CommandLine,
    /// The next runs in the directory (RUN-41).
    Directory,
    /// The next runs, also on another machine to which the directory moves (RUN-33).
    AnyMachine,
}

impl GivenOption {
    /// Returns the scope of the option. A path, an agent and a value that is no plain word stay in the directory where they were typed.
    #[must_use]
    pub fn scope(&self) -> OptionScope {
        let value = self.value.as_deref();
        match self.name.as_str() {
            "detached-process" | "dry-run" | "forget" | "headless" | "new" | "open" | "recover"
            | "rehearse" | "replan" => OptionScope::Start,
            // An agent given as JSON may name a program, which a record must not start.
            "agent" if value.is_some_and(|value| value.starts_with('{')) => OptionScope::CommandLine,
            "agent" | "on-hangup" | "output" | "prices" => OptionScope::Directory,
            // Every plain word passes `is_model_name`, also a number or a duration.
            "file-contents"
            | "ignore-rig-failures"
            | "max-cost"
            | "max-disk"
            | "max-time"
            | "max-wait"
            | "model"
            | "overwrite-output" => match value.is_none_or(is_model_name) {
                true => OptionScope::AnyMachine,
                false => OptionScope::Directory,
            },
            _ => OptionScope::CommandLine,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: RUN-33, RUN-41
    #[test]
    fn what_starts_or_reaches_something_counts_where_it_was_typed() {
        let scope = |name: &str, value: Option<&str>| {
            let option = GivenOption {
                name: name.to_owned(),
                value: value.map(str::to_owned),
                is_path: false,
            };
            option.scope()
        };
        for (name, value) in [
            ("max-cost", Some("2.50")),
            ("max-wait", Some("1h30m")),
            ("model", Some("claude-opus-5")),
            ("file-contents", None),
        ] {
            assert_eq!(scope(name, value), OptionScope::AnyMachine, "{name}");
        }
        for (name, value) in [
            ("max-cost", "1; touch X"),
            ("model", "$(touch X)"),
            ("agent", "claude"),
            ("output", "/etc"),
        ] {
            assert_eq!(scope(name, Some(value)), OptionScope::Directory, "{name}");
        }
        for (name, value) in [
            ("agent", Some("{\"acp\": [\"x\"]}")),
            ("max-cost 1; touch X #", None),
            ("notify", Some("bell")),
            ("listen", Some("0.0.0.0")),
            ("registry", Some("sqlite:x")),
            ("allow-no-lock", None),
            ("no-autostart", None),
        ] {
            assert_eq!(scope(name, value), OptionScope::CommandLine, "{name}");
        }
        assert_eq!(scope("new", None), OptionScope::Start);
    }

    // covers: CLI-4
    #[test]
    fn a_command_finds_what_moved_wherever_it_was_typed() {
        let moved = |folder: &str, hank: &str, execution: Option<&str>| {
            let typed = Invocation {
                folder: folder.into(),
                hank: hank.into(),
                execution: execution.map(PathBuf::from),
                options: Vec::new(),
            };
            let moved = typed.moved(Path::new("/old"), Path::new("/new/place"));
            let text = |path: &Path| path.to_str().unwrap().to_owned();
            (
                text(&moved.folder),
                text(&moved.hank),
                moved.execution.as_deref().map(text),
            )
        };
        let is = |folder: &str, hank: &str, execution: Option<&str>| {
            (folder.to_owned(), hank.to_owned(), execution.map(str::to_owned))
        };
        assert_eq!(moved("/old", ".", None), is("/new/place", ".", None));
        assert_eq!(
            moved("/old/in", "..", Some("..")),
            is("/new/place/in", "..", Some(".."))
        );
        assert_eq!(moved("/", "old", None), is("/", "/new/place", None));
        let named = is("/x", "/new/place/hank.json", Some("/new/place"));
        assert_eq!(moved("/x", "/old/hank.json", Some("/old")), named);
        assert_eq!(moved("/x", "other", None), is("/x", "other", None));
    }
}
