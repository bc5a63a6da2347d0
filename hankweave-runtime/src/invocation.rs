//! How a run was asked for on a command line, for hints that repeat it with what it had.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The command line of a run, without what is said for one start only. Paths are as they were typed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Invocation {
    /// Where it was typed: paths are relative to it, and hankweave.json is read there.
    pub folder: PathBuf,
    /// A hank.json, or the folder that holds one.
    pub hank: PathBuf,
    /// The execution directory, if it is not the folder of the hank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<PathBuf>,
    /// Everything else, in the order of the help page.
    pub options: Vec<GivenOption>,
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
