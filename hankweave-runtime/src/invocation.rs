//! How a run was asked for on a command line, for hints that repeat it with what it had.

use std::path::{Path, PathBuf};

use hankweave_core::id::is_model_name;
use serde::{Deserialize, Serialize};

/// The command line of a run, without what is said for one start only. Paths are as they were typed.
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
    /// Returns the same command after the folder `old`, which holds hank and execution directory, has become `new`. Both are absolute.
    pub(crate) fn moved(self, old: &Path, new: &Path) -> Self {
        // Collected, because joining nothing would leave a slash.
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
    /// The value is a path.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_path: bool,
}

impl GivenOption {
    /// Whether another machine repeats it in its hints when the run moves there: limits, names of models and how a run behaves. What starts a program, reaches an
    /// address, opens this machine to others or names a place is of the machine where it was typed (RUN-33).
    #[must_use]
    pub fn travels(&self) -> bool {
        let is_amount = |value: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.';
            !value.is_empty() && value.bytes().all(plain)
        };
        match (self.name.as_str(), self.value.as_deref()) {
            ("max-cost" | "max-time" | "max-wait" | "port", Some(value)) => is_amount(value),
            ("model", Some(value)) => is_model_name(value),
            (
                "no-autostart"
                | "file-contents"
                | "overwrite-output"
                | "strict-state"
                | "ignore-rig-failures",
                None,
            ) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: RUN-33
    #[test]
    fn what_starts_or_reaches_something_stays_where_it_was_typed() {
        let travels = |name: &str, value: Option<&str>| {
            let value = value.map(str::to_owned);
            let name = name.to_owned();
            GivenOption {
                name,
                value,
                is_path: false,
            }
            .travels()
        };
        assert!(travels("max-cost", Some("2.50")) && travels("max-wait", Some("1h30m")));
        assert!(travels("model", Some("claude-opus-5")) && travels("no-autostart", None));
        for (name, value) in [
            ("max-cost 1; touch X #", None),
            ("max-cost", Some("1; touch X")),
            ("max-cost", None),
            ("no-autostart", Some("x")),
            ("model", Some("$(touch X)")),
            ("notify", Some("bell")),
            ("agent", Some("claude")),
            ("listen", Some("0.0.0.0")),
            ("registry", Some("sqlite:x")),
            ("remote", Some("x")),
            ("output", Some("/etc")),
            ("allow-no-lock", None),
        ] {
            assert!(!travels(name, value), "{name} {value:?}");
        }
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
