//! Arguments of commands that print recorded runs.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use hankweave_core::id::{CodonId, SentinelId};

use super::{ExecutionArgs, PartOrDir};

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Codon, checkpoint or range FROM..TO of checkpoints [default: the newest codon]
    #[arg(value_name = "CODON|CHECKPOINT[..CHECKPOINT]")]
    what: Option<PartOrDir<String>>,
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
    /// Show only the amount of changes by file
    #[arg(long)]
    pub(crate) stat: bool,
}

impl DiffArgs {
    pub(crate) fn what(&self) -> Option<&str> {
        Some(self.what.as_ref()?.part()?.as_str())
    }

    pub(crate) fn execution(&self) -> &Path {
        self.execution.or_first(self.what.as_ref())
    }
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
    /// Print one HTML page
    #[arg(long)]
    pub(crate) html: bool,
    /// Print Markdown, which is the default
    #[arg(long, conflicts_with = "html")]
    pub(crate) md: bool,
}

#[derive(Debug, Args)]
#[group(id = "speaker", multiple = false, args = ["agent", "rig", "server"])]
pub(crate) struct LogsArgs {
    /// Codon, or one iteration of it, as draft#1 [default: all]
    codon: Option<PartOrDir<CodonId>>,
    #[command(flatten)]
    execution: ExecutionArgs,
    /// Follow new output until the run ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Print output of agents only
    #[arg(long)]
    pub(crate) agent: bool,
    /// Print output of rig commands only
    #[arg(long)]
    pub(crate) rig: bool,
    /// Print output of sentinels only, or of this one (--sentinel=ID)
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true, conflicts_with_all = ["agent", "rig"])]
    pub(crate) sentinel: Option<Option<SentinelId>>,
    /// Print the server log of hankweave itself
    #[arg(long, conflicts_with_all = ["follow", "sentinel"])]
    pub(crate) server: bool,
}

impl LogsArgs {
    pub(crate) fn codon(&self) -> Option<&CodonId> {
        self.codon.as_ref()?.part()
    }

    pub(crate) fn execution(&self) -> &Path {
        self.execution.or_first(self.codon.as_ref())
    }
}

#[derive(Debug, Args)]
pub(crate) struct JournalArgs {
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
    /// Start after the event with this number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(crate) after: u64,
    /// Follow new events until interrupted
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Print events of this type only, such as codon.completed; repeatable
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kinds: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SentinelCommand {
    /// Show when a sentinel would have acted in a recorded run, and on what
    ///
    /// No model is asked and no command is run. The sentinel sees each codon from the start of its agent to its end, at the recorded times; an answer takes no
    /// time. With --json each line is one input of the sentinel.
    #[command(
        after_long_help = "Examples:\n  hankweave sentinel test sentinels/guard.json\n  hankweave sentinel test sentinels/guard.json my-hank --codon draft"
    )]
    Test(SentinelTestArgs),
    /// Convert sentinels that were written for the older system of this name
    ///
    /// Prints the new form, or with --write puts it in the place of the old one, with the prompt files that it names. What was changed and what could not be
    /// carried over is reported with its line. Everything else, comments included, stays as it is.
    #[command(
        after_long_help = "Examples:\n  hankweave sentinel convert sentinels/guard.json\n  hankweave sentinel convert --write sentinels/*.json"
    )]
    Convert(SentinelConvertArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SentinelConvertArgs {
    /// Sentinels, each in a file of its own
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Replace the files instead of printing the new form
    #[arg(long, short)]
    pub(crate) write: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SentinelTestArgs {
    /// Sentinel, in a file of its own
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Execution directory, or -e DIR [default: .] [env: HANKWEAVE_EXECUTION]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
    /// Execution directory with the recorded runs
    #[arg(long, short = 'e', alias = "journal", env = "HANKWEAVE_EXECUTION", value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath, hide = true)]
    execution: PathBuf,
    /// Codon, or one iteration of it, as draft#1 [default: all]
    #[arg(long, value_name = "ID")]
    pub(crate) codon: Option<CodonId>,
}

impl SentinelTestArgs {
    pub(crate) fn execution(&self) -> &Path {
        self.dir.as_ref().unwrap_or(&self.execution)
    }
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Execution directory to replay
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) recorded: PathBuf,
    /// New directory for the replayed execution [default: a temporary one]
    #[arg(long, short = 'e', alias = "execution", value_name = "NEW", value_hint = ValueHint::DirPath)]
    pub(crate) into: Option<PathBuf>,
    /// Factor of the recorded speed, or `max` for no waits
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    pub(crate) speed: Speed,
}

/// How fast the recorded gaps pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Speed {
    /// Factor of the original speed.
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
            Self::Times(times) => {
                Duration::try_from_secs_f64(gap.as_secs_f64() / times).unwrap_or(Duration::MAX)
            }
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

    // covers: CLI-33
    #[test]
    fn a_gap_that_is_longer_than_a_duration_holds_lasts_as_long_as_one_can() {
        let speed: Speed = "1e-20".parse().unwrap();
        assert_eq!(speed.of(Duration::from_secs(30)), Duration::MAX);
        assert_eq!(speed.of(Duration::ZERO), Duration::ZERO);
    }
}
