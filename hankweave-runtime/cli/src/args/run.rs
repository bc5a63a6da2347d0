//! `run`, and the settings of runs.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use hankweave_core::cost::Usd;
use hankweave_core::hank::AgentChoice;
use hankweave_core::thread::Recovery;
use hankweave_runtime::Invocation;

use super::HankArgs;
use super::values::{agent, dollars, duration, seconds};
use crate::signals::HangUp;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) hank: HankArgs,
    /// Start from the first codon and keep the history.
    #[arg(long)]
    pub(crate) new: bool,
    /// Keep what has succeeded, and go on with everything else of hank.json as it is now: codons that were added, moved or removed. Behind a failure the run
    /// goes back to the last success, unless --recover says otherwise.
    #[arg(long, conflicts_with = "new")]
    pub(crate) replan: bool,
    /// Where to go on when the newest codon failed or was cut off [default: ask on a terminal, else last-success; after a pause session].
    #[arg(long, value_enum, value_name = "WHERE", conflicts_with = "new")]
    pub(crate) recover: Option<Recover>,
    /// The address on which clients connect. Anything but the loopback opens the server to other machines; a token is needed in any case.
    #[arg(long, value_name = "ADDR", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub(crate) listen: IpAddr,
    /// Open the page that follows the run in a browser, for reading.
    #[arg(long)]
    pub(crate) open: bool,
    /// Send clients the content of files that change, if it is text of at most 64 KiB; the journal keeps it.
    #[arg(long)]
    pub(crate) file_contents: bool,
    /// Only show what the run would do, from where, and within which limits; starts nothing and writes nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// No live view and no questions, even on a terminal.
    #[arg(long)]
    pub(crate) headless: bool,
    /// What to do when the terminal is closed (SIGHUP).
    #[arg(long, value_enum, value_name = "ACTION", default_value_t = OnHangup::Stop)]
    pub(crate) on_hangup: OnHangup,
    /// Replace files in the output directory; otherwise a copy whose name is taken gets another one.
    #[arg(long)]
    pub(crate) overwrite_output: bool,
    /// Stop instead of starting over when the recorded history cannot be read.
    #[arg(long)]
    pub(crate) strict_state: bool,
    /// Start on a file system that cannot lock; you vouch that no other instance uses the directory.
    #[arg(long)]
    pub(crate) allow_no_lock: bool,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    /// All of this as it was typed, for hints that repeat it.
    #[arg(skip)]
    pub(crate) invocation: Invocation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Recover {
    /// Keep the files as they are, and let the agent go on in its session where it was interrupted.
    Session,
    /// Take the files back to the last success; what was there is kept in a checkpoint.
    LastSuccess,
    /// Keep the files as they are and run the codon again.
    CrashPoint,
}

/// Action for a closed terminal. Under `nohup` SIGHUP stops nothing in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnHangup {
    /// Stop in order, as SIGTERM does; the next run continues.
    Stop,
    /// Continue without the terminal; `hankweave attach` follows the run.
    Continue,
}

impl From<OnHangup> for HangUp {
    fn from(on_hangup: OnHangup) -> Self {
        match on_hangup {
            OnHangup::Stop => Self::Stops,
            OnHangup::Continue => Self::Ignored,
        }
    }
}

impl From<Recover> for Recovery {
    fn from(recover: Recover) -> Self {
        match recover {
            Recover::Session => Self::Session,
            Recover::LastSuccess => Self::LastSuccess,
            Recover::CrashPoint => Self::CrashPoint,
        }
    }
}

/// Settings that can also come from the environment, the hank or hankweave.json; here they win.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Settings, also of hankweave.json; `hankweave config` shows them")]
pub(crate) struct SettingArgs {
    /// Run every codon with this agent: a name such as `codex`, or `scripted` for a dry run, or a program as in a hank, such as
    /// '{"acp": ["opencode", "acp"]}'. `--model acp` leaves the model to it.
    #[arg(long, value_name = "AGENT", value_parser = agent)]
    pub(crate) agent: Option<AgentChoice>,
    /// Run every codon with this model.
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The port on which clients connect; 0 means any free one, which `.hankweave/server.lock` names [env: HANKWEAVE_PORT].
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<u16>,
    /// Start no codon until asked: commands come from clients, or from standard input, one a line (`help` lists them).
    #[arg(long)]
    pub(crate) no_autostart: bool,
    /// Spend at most this many US dollars, earlier runs included; replaces what the hank says. When they are spent the run pauses (exit code 3).
    #[arg(long, value_name = "USD", value_parser = dollars, allow_negative_numbers = true)]
    pub(crate) max_cost: Option<Usd>,
    /// Run for at most this many seconds, earlier runs included; replaces what the hank says. When they are over the run pauses (exit code 3).
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) max_time: Option<f64>,
    /// Wait at most this long for the end of a provider's usage limit: seconds, or `90m`, `6h`, `1h30m`; beyond it the run ends with exit code 3
    /// [default: 6h].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) max_wait: Option<Duration>,
    /// Copy the files of `outputFiles` there when their codon has completed [default: they stay in the workspace].
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
    /// Go on when an item of a rig fails.
    #[arg(long)]
    pub(crate) ignore_rig_failures: bool,
    /// Notify somebody when the run waits for a command, pauses, fails or has finished: `bell`, `desktop`, an address that gets it as JSON, or a command, which gets it as JSON on
    /// its standard input and in $HANKWEAVE_EVENT, $HANKWEAVE_REASON and $HANKWEAVE_NEXT.
    #[arg(long, value_name = "HOW", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) notify: Option<String>,
    /// Prices of models, laid over the list prices; `hankweave prices` shows both.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) prices: Option<PathBuf>,
}
