//! Arguments of commands before a run: about a hank, its settings and this machine.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::SettingArgs;

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Folder for the new hank, created if missing
    #[arg(default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Template of the hank
    #[arg(long, value_enum, default_value_t = Template::Scripted)]
    pub(crate) template: Template,
    /// Folder of a hank to copy instead of a template
    ///
    /// Copies what a rig would copy of it: all files but git's and those that its .gitignore names.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "template")]
    pub(crate) from: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    /// Two codons and a loop for the built-in scripted agent; no key, no network
    Scripted,
    /// One codon for claude
    Claude,
    /// Fix until the tests pass
    UntilGreen,
    /// Write documentation, review and revise it
    Docs,
    /// Extract records from a folder of data
    Extract,
    /// Plan a migration, approve it, and migrate part by part
    Migrate,
    /// Fix, have another vendor's model review, approve, address
    Review,
    /// Work off a list of tasks overnight
    Night,
}

/// Hank, and the execution directory of its runs.
#[derive(Debug, Args)]
pub(crate) struct HankArgs {
    /// hank.json, or the folder that contains it
    #[arg(default_value = ".", value_hint = ValueHint::AnyPath)]
    pub(crate) hank: PathBuf,
    /// Execution directory, created if missing [default: the hank's folder]
    #[arg(short, long, env = "HANKWEAVE_EXECUTION", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) execution: Option<PathBuf>,
    /// Read-only file or folder for agents, linked as read_only_data_source
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    pub(crate) hank: HankArgs,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Hank whose agents and requirements to check [default: that of this folder]
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) hank: Option<PathBuf>,
    /// Execution directory of a run [default: the hank's folder]
    #[arg(short, long, env = "HANKWEAVE_EXECUTION", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) execution: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// hank.json, or the folder that contains it; its layer may be empty
    #[arg(default_value = ".", value_hint = ValueHint::AnyPath)]
    pub(crate) hank: PathBuf,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    /// Accept notify, agent and anthropicBaseUrl of hankweave.json
    ///
    /// Needed once for those that a clone or a pull has brought, and again when they change. The
    /// hankweave.json is that of the working directory.
    #[arg(long)]
    pub(crate) trust: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PricesArgs {
    /// Model, as an agent reports it or a hank names it [default: all]
    pub(crate) model: Option<String>,
    /// Price list that overrides the built-in one
    ///
    /// For example {"models": {"NAME": {"input": 3, "output": 15}}}, in dollars per million tokens.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) prices: Option<PathBuf>,
}
