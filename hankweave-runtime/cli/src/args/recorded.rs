//! Commands that tell what happened in recorded runs.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use hankweave_core::id::{CodonId, SentinelId};

use super::Execution;

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// What a codon changed, or a checkpoint, or everything between two of them (FROM..TO) [default: the newest codon].
    #[arg(value_name = "CODON|CHECKPOINT[..CHECKPOINT]")]
    pub(crate) what: Option<String>,
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Show how much changed in each file instead.
    #[arg(long)]
    pub(crate) stat: bool,
}

#[derive(Debug, Args)]
#[group(id = "speaker", multiple = false, args = ["agent", "rig", "server"])]
pub(crate) struct LogsArgs {
    /// Only this codon; a codon of a loop with all its iterations, unless one is named (draft#1) [default: all].
    pub(crate) codon: Option<CodonId>,
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Follow what comes, until interrupted.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only what agents said and did.
    #[arg(long)]
    pub(crate) agent: bool,
    /// Only what commands of rigs printed.
    #[arg(long)]
    pub(crate) rig: bool,
    /// Only what sentinels said, or only this one (--sentinel=ID).
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true, conflicts_with_all = ["agent", "rig"])]
    pub(crate) sentinel: Option<Option<SentinelId>>,
    /// The log of hankweave itself instead.
    #[arg(long, conflicts_with_all = ["codon", "follow", "sentinel"])]
    pub(crate) server: bool,
}

#[derive(Debug, Args)]
pub(crate) struct JournalArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Begin after this number.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(crate) after: u64,
    /// Follow the events that come, until interrupted.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only events of this type, such as codon.completed; can be given several times.
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kinds: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SentinelCommand {
    /// Show what a sentinel would have been asked in a recorded run, and when; asks nobody
    ///
    /// It sees each codon from the start of its agent to its end, by the recorded times, and never waits for an answer. With --json each
    /// line is what it would have been given. For example: hankweave sentinel test sentinels/guard.json --journal .
    Test(SentinelTestArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SentinelTestArgs {
    /// The sentinel, in a file of its own.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// The execution directory whose journal is read; it holds .hankweave.
    #[arg(long, short = 'e', visible_alias = "execution", env = "HANKWEAVE_EXECUTION", value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) journal: PathBuf,
    /// Only this codon; a codon of a loop with all its iterations, unless one is named (draft#1) [default: all].
    #[arg(long, value_name = "ID")]
    pub(crate) codon: Option<CodonId>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The execution directory that is played; it holds .hankweave.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) recorded: PathBuf,
    /// A new directory for what comes out [default: one in the folder for temporary files].
    #[arg(short, long, value_name = "NEW", value_hint = ValueHint::DirPath)]
    pub(crate) execution: Option<PathBuf>,
    /// How many times as fast as it was recorded, or `max` for no wait at all.
    #[arg(long, value_name = "TIMES", default_value = "1")]
    pub(crate) speed: Speed,
}

/// How fast the recorded gaps pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Speed {
    /// So many times as fast as they were.
    Times(f64),
    /// Without any wait.
    Max,
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            _ if text == "max" => Ok(Self::Max),
            Ok(times) if times.is_finite() && times > 0.0 => Ok(Self::Times(times)),
            _ => Err("write a number above 0, or max".to_owned()),
        }
    }
}

impl Speed {
    /// How long a recorded gap takes now.
    pub(crate) fn of(self, gap: Duration) -> Duration {
        match self {
            Self::Max => Duration::ZERO,
            Self::Times(times) => Duration::try_from_secs_f64(gap.as_secs_f64() / times).unwrap_or(gap),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: CLI-33
    #[test]
    fn the_gaps_of_a_replay_are_scaled() {
        let speed = |text: &str| text.parse::<Speed>();
        let gap = Duration::from_secs(30);
        assert_eq!(speed("10").unwrap().of(gap), Duration::from_secs(3));
        assert_eq!(speed("0.5").unwrap().of(gap), Duration::from_secs(60));
        assert_eq!(speed("max").unwrap().of(gap), Duration::ZERO);
        for wrong in ["0", "-1", "inf", "nan", "fast", ""] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }
}
