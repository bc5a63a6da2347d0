//! Arguments of `run`, and the settings of runs.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use hankweave_core::cost::Usd;
use hankweave_core::hank::AgentChoice;
use hankweave_core::thread::Recovery;
use hankweave_runtime::{GivenOption, Invocation};

use super::HankArgs;
use super::values::{agent, dollars, duration, gigabytes, page_url, seconds};
use crate::signals::HangUp;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) hank: HankArgs,
    /// Show the next codon and limits; start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Rehearse without agents: rigs run, checks pass, approvals are given
    ///
    /// Works in a copy of the execution directory, which is removed again. Every codon runs with the scripted agent; a loop makes one pass. What a real run would
    /// ask, check or start besides is shown.
    #[arg(long, conflicts_with_all = ["dry_run", "no_autostart", "replan", "recover"])]
    pub(crate) rehearse: bool,
    /// Start from the first codon; keep the files and the history
    ///
    /// The plan is made anew from hank.json. Files stay as the last run left them: `hankweave rollback` brings earlier ones back first. `hankweave undo` afterwards
    /// returns to the run before, with its plan.
    #[arg(long, help_heading = "Continue")]
    pub(crate) new: bool,
    /// Use hank.json as it is now; keep completed codons
    ///
    /// Codons that were added, moved or removed are taken from hank.json. After a failure the run rolls back to the last success, unless --recover gives another
    /// position.
    #[arg(long, conflicts_with = "new", help_heading = "Continue")]
    pub(crate) replan: bool,
    /// Position to continue from after a failure or crash
    ///
    /// Without it, `run` asks on a terminal, and takes last-success elsewhere; after a pause it takes session.
    #[arg(
        long,
        value_enum,
        value_name = "WHERE",
        conflicts_with = "new",
        help_heading = "Continue"
    )]
    pub(crate) recover: Option<Recover>,
    /// Leave out the options that earlier runs here were given
    ///
    /// A run has the limits, the agent, the model and the other lasting options of the last run in its directory, unless it is given others.
    #[arg(long, help_heading = "Continue")]
    pub(crate) forget: bool,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    /// Open the live page in a browser
    #[arg(long, help_heading = "Watch")]
    pub(crate) open: bool,
    /// Plain lines and no questions, even on a terminal
    #[arg(long, help_heading = "Watch")]
    pub(crate) headless: bool,
    /// Action when the terminal is closed (SIGHUP) [default: stop]
    #[arg(long, value_enum, value_name = "ACTION", help_heading = "Watch")]
    pub(crate) on_hangup: Option<OnHangup>,
    /// Run without this terminal; return once the run is under way
    ///
    /// The run gets a session of its own, and its output goes to `.hankweave/logs/detached.log`. `status`, `attach`, `logs --follow`, `approve` and `stop` find it.
    /// It asks nothing on the terminal: it waits for `approve`, and after a failure continues as --recover says. A run that cannot start ends this command with its
    /// own message and exit code.
    #[arg(long, conflicts_with_all = ["dry_run", "rehearse"], help_heading = "Watch")]
    pub(crate) detach: bool,
    /// Process of a detached run; not for people
    #[arg(long, hide = true, requires = "detach")]
    pub(crate) detached_process: bool,
    /// Address for clients; token required
    ///
    /// Any address but the loopback opens the server to other machines.
    #[arg(long, value_name = "ADDR", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), help_heading = "Watch", hide_short_help = true)]
    pub(crate) listen: IpAddr,
    /// Address under which others reach the page, for notifications
    ///
    /// That of a tunnel or a proxy that leads to the port of the run. A notification over ntfy then has buttons that approve or deny: each holds a token that answers
    /// this one question once, and none of the tokens of the page.
    #[arg(long, value_name = "URL", value_parser = page_url, help_heading = "Watch", hide_short_help = true)]
    pub(crate) page_url: Option<String>,
    /// Send changed text (up to 64 KiB) to clients and journal
    #[arg(long, help_heading = "Watch", hide_short_help = true)]
    pub(crate) file_contents: bool,
    /// Replace existing result files [default: rename]
    #[arg(long, help_heading = "Safety", hide_short_help = true)]
    pub(crate) overwrite_output: bool,
    /// Fail if the recorded history cannot be read
    #[arg(long, help_heading = "Safety", hide_short_help = true)]
    pub(crate) strict_state: bool,
    /// Run without a lock, at your own risk
    ///
    /// For file systems that cannot lock: nothing keeps a second run out of the directory.
    #[arg(long, help_heading = "Safety", hide_short_help = true)]
    pub(crate) allow_no_lock: bool,
    /// Arguments as typed and kept, for hints and the next run
    #[arg(skip)]
    pub(crate) invocation: Invocation,
    /// Options that were not typed, but kept from the last run
    #[arg(skip)]
    pub(crate) kept: Vec<GivenOption>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Recover {
    /// Keep the files and resume the agent's session
    Session,
    /// Restore the files of the last completed codon, after a checkpoint of the current ones
    LastSuccess,
    /// Keep the files and restart the codon
    CrashPoint,
}

/// Action for a closed terminal. Under `nohup` SIGHUP stops nothing in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnHangup {
    /// Stop in order, as after SIGTERM; the next run continues
    Stop,
    /// Continue without the terminal; `hankweave attach` follows the run
    Continue,
}

impl RunArgs {
    /// Returns the effect of SIGHUP. By default it stops a run, except a detached one, which has no terminal to lose.
    pub(crate) fn hang_up(&self) -> HangUp {
        match self.on_hangup {
            Some(chosen) => chosen.into(),
            None if self.detach => HangUp::Ignored,
            None => HangUp::Stops,
        }
    }

    /// Returns the path that names the directory of the run: `-e DIR`, or else the hank.
    pub(crate) fn workspace(&self) -> &Path {
        self.hank.execution.as_deref().unwrap_or(&self.hank.hank)
    }

    /// Whether the run asks nothing and draws nothing on a terminal.
    pub(crate) fn is_headless(&self) -> bool {
        self.headless || self.detach
    }
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
pub(crate) struct SettingArgs {
    /// Agent for every codon: a name, or '{"acp": [...]}'
    ///
    /// claude, codex, gemini, opencode or pi; scripted for a rehearsal; or a program as in a hank, such as '{"acp": ["goose", "acp"]}'. `--model acp` leaves the
    /// model to that program.
    #[arg(long, value_name = "AGENT", value_parser = agent, help_heading = "Agents")]
    pub(crate) agent: Option<AgentChoice>,
    /// Model for every codon
    #[arg(long, value_name = "NAME", help_heading = "Agents")]
    pub(crate) model: Option<String>,
    /// Port for clients [default: that of the directory] [env: HANKWEAVE_PORT]
    ///
    /// A directory keeps its port from run to run, in `.hankweave/port`, so that an open page follows the next run; if another program has it, the next free one
    /// is used. `.hankweave/server.lock` names the port of the live run.
    #[arg(long, value_name = "N", help_heading = "Watch", hide_short_help = true)]
    pub(crate) port: Option<u16>,
    /// Start codons only on command (client, or stdin: `help`)
    #[arg(long, help_heading = "Watch", hide_short_help = true)]
    pub(crate) no_autostart: bool,
    /// Total budget of all runs together; the run pauses when it is spent
    ///
    /// It replaces the budget of the hank. A paused run ends with exit code 3.
    #[arg(long, value_name = "USD", value_parser = dollars, allow_negative_numbers = true, help_heading = "Limits, all runs together")]
    pub(crate) max_cost: Option<Usd>,
    /// Total time at work of all runs together; the run pauses after it
    ///
    /// Seconds, or a time such as 90m, 8h or 1h30m. Waits between codons do not count: for an approval, a command, a usage limit or a retry. It replaces the limit of the hank. A paused run ends with exit code 3.
    #[arg(long, value_name = "DURATION", value_parser = seconds, allow_negative_numbers = true, help_heading = "Limits, all runs together")]
    pub(crate) max_time: Option<f64>,
    /// Longest wait for the end of a usage limit [default: 6h]
    ///
    /// Seconds, or a time such as 90m, 8h or 1h30m. Beyond it the run ends with exit code 3.
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Limits, all runs together")]
    pub(crate) max_wait: Option<Duration>,
    /// Room for the record (.hankweave) in GiB; the run pauses when full
    ///
    /// From four fifths on what nothing needs is removed between codons, and a warning shown. A paused run ends with exit code 3.
    #[arg(long, value_name = "GIB", value_parser = gigabytes, help_heading = "Limits, all runs together")]
    pub(crate) max_disk: Option<f64>,
    /// Directory for result files (`outputFiles`)
    ///
    /// They are copied when their codon has completed. Without it they stay in the workspace.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
    /// Continue when a rig step fails
    #[arg(long, help_heading = "Agents", hide_short_help = true)]
    pub(crate) ignore_rig_failures: bool,
    /// Notify about waits, pauses and ends: bell, desktop, a URL or a command
    ///
    /// A URL gets the notification as JSON in a POST, ntfy:URL of a topic as a message for a phone, a command on its standard input and in $HANKWEAVE_EVENT, $HANKWEAVE_REASON and $HANKWEAVE_NEXT.
    #[arg(long, value_name = "HOW", help_heading = "Watch", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) notify: Option<String>,
    /// Price list that overrides the built-in one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Agents", hide_short_help = true)]
    pub(crate) prices: Option<PathBuf>,
}
