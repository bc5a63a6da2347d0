//! Commands that come before a run: what they write or look at is a hank, its settings and this machine.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::SettingArgs;

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Where to write it; created when it does not exist.
    #[arg(default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// What to write.
    #[arg(long, value_enum, default_value_t = Template::Scripted)]
    pub(crate) template: Template,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    /// Two codons and a loop, played by the built-in scripted agent; needs no key and no network.
    Scripted,
    /// One codon for the `claude` program.
    Claude,
}

/// A hank, and where its agents work.
#[derive(Debug, Args)]
pub(crate) struct HankArgs {
    /// A hank.json, or the folder that holds one.
    #[arg(default_value = ".", value_hint = ValueHint::AnyPath)]
    pub(crate) hank: PathBuf,
    /// The directory in which agents work; a run creates it when it does not exist [default: the folder of the hank].
    #[arg(short, long, env = "HANKWEAVE_EXECUTION", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) execution: Option<PathBuf>,
    /// A file or folder that agents may read as read_only_data_source; it is linked, not copied.
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
    /// The hank whose agents and requirements are looked for [default: that of this folder, if it has one].
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) hank: Option<PathBuf>,
    /// The directory in which agents would work [default: the folder of the hank].
    #[arg(short, long, env = "HANKWEAVE_EXECUTION", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) execution: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// A hank.json, or the folder that holds one; without a hank its layer is empty.
    #[arg(default_value = ".", value_hint = ValueHint::AnyPath)]
    pub(crate) hank: PathBuf,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PricesArgs {
    /// The name of a model, as an agent says it or as it stands in a hank [default: all that are known].
    pub(crate) model: Option<String>,
    /// Prices of models, laid over the list prices: {"models": {"NAME": {"input": 3, "output": 15}}}, in dollars per million tokens.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) prices: Option<PathBuf>,
}
