//! Execution directory of a command, as its last argument or with `-e`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{ArgMatches, Args, Command, FromArgMatches, ValueHint};
use hankweave_core::discovery::STATE_DIR;
use hankweave_runtime::world::disk::{Disk, FileKind, RealDisk};

/// Execution directory that a command looks at.
#[derive(Debug, Clone)]
pub(crate) struct ExecutionArgs {
    pub(crate) execution: PathBuf,
}

/// Both ways to name it.
#[derive(Debug, Clone, Args)]
struct DirArgs {
    /// Execution directory, or -e DIR [default: .] [env: HANKWEAVE_EXECUTION]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
    /// Execution directory
    #[arg(short, long, env = "HANKWEAVE_EXECUTION", value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath, hide = true)]
    execution: PathBuf,
}

impl From<DirArgs> for ExecutionArgs {
    fn from(args: DirArgs) -> Self {
        Self {
            execution: args.dir.unwrap_or(args.execution),
        }
    }
}

impl FromArgMatches for ExecutionArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        DirArgs::from_arg_matches(matches).map(Self::from)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ExecutionArgs {
    fn augment_args(command: Command) -> Command {
        DirArgs::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        DirArgs::augment_args_for_update(command)
    }
}

/// First argument of a command about a part of a run: the part, or the execution directory in its place.
#[derive(Debug, Clone)]
pub(crate) enum PartOrDir<T> {
    Part(T),
    Dir(PathBuf),
}

impl<T: FromStr<Err: ToString>> FromStr for PartOrDir<T> {
    type Err = String;

    /// Reads a folder with `.hankweave` in it as the execution directory, anything else as the part.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let metadata = RealDisk.metadata(&Path::new(text).join(STATE_DIR));
        if metadata.is_ok_and(|metadata| metadata.kind == FileKind::Directory) {
            return Ok(Self::Dir(text.into()));
        }
        text.parse()
            .map(Self::Part)
            .map_err(|error: T::Err| error.to_string())
    }
}

impl<T> PartOrDir<T> {
    pub(crate) const fn part(&self) -> Option<&T> {
        match self {
            Self::Part(part) => Some(part),
            Self::Dir(_) => None,
        }
    }
}

impl ExecutionArgs {
    /// Returns the execution directory of a command with this first argument, which may name the directory.
    pub(crate) fn or_first<'a, T>(&'a self, first: Option<&'a PartOrDir<T>>) -> &'a Path {
        match first {
            Some(PartOrDir::Dir(dir)) => dir,
            Some(PartOrDir::Part(_)) | None => &self.execution,
        }
    }
}
