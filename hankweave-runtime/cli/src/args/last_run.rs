//! Arguments that a run takes over from the last run in its directory (RUN-41), and the paths by which hanks are named.

use std::path::{Path, PathBuf};

use hankweave_runtime::hank_files::LoadHankError;
use hankweave_runtime::inspect::LastRun;
use hankweave_runtime::world::disk::{Disk, FileKind, RealDisk};
use hankweave_runtime::world::environment::Environment;
use hankweave_runtime::world::process::MARKER_VARIABLE;
use hankweave_runtime::{ExecutionDir, GivenOption, OptionScope, hank_files, inspect};

use super::read::repeated_by;
use super::{HankArgs, RunArgs};
use crate::put_back::put_back;

/// Permission to replace files in the directory of `--output`.
const OVERWRITE: &str = "overwrite-output";

/// The last run in the directory of a new run.
pub(super) struct LastRunHere {
    execution: PathBuf,
    /// `None` if no run is recorded there.
    last: Option<LastRun>,
}

impl LastRunHere {
    /// Reads the last run in the directory in which a run with these arguments works.
    pub(super) fn of(args: &RunArgs) -> Self {
        let execution = match &args.hank.execution {
            Some(execution) => execution.clone(),
            None => folder_of(&args.hank.hank),
        };
        put_back(&execution);
        Self {
            last: inspect::last_run(&RealDisk, &ExecutionDir::new(execution.clone())),
            execution,
        }
    }

    /// Returns the options that a run started in `here` takes over, except those that were typed. The run of a worker takes over none: its task says all.
    pub(super) fn options(&self, here: &Path, is_typed: impl Fn(&str) -> bool) -> Vec<GivenOption> {
        let invocation = self.last.as_ref().and_then(|last| last.invocation.as_ref());
        let Some(invocation) = invocation.filter(|_| !is_of_worker()) else {
            return Vec::new();
        };
        let is_known = repeated_by("run");
        // The permission to replace files was given for another directory if a new one is typed.
        let is_void = |name: &str| name == OVERWRITE && is_typed("output");
        let is_taken_over = |option: &&GivenOption| {
            let lasts = option.scope() >= OptionScope::Directory;
            lasts && is_known(option) && !is_typed(&option.name) && !is_void(&option.name)
        };
        let seen_from_here = |option: &GivenOption| GivenOption {
            value: option
                .value
                .as_ref()
                .map(|value| match option.is_path && invocation.folder != here {
                    true => invocation.folder.join(value).to_string_lossy().into_owned(),
                    false => value.clone(),
                }),
            ..option.clone()
        };
        let options = invocation.options.iter().filter(is_taken_over);
        options.map(seen_from_here).collect()
    }

    /// If the arguments name only a directory without a hank, replaces that by the hank of its last run.
    pub(super) fn name_hank(self, args: &mut HankArgs) {
        let names_a_hank = args.execution.is_some() && args.hank != Path::new(".");
        let last = self.last.filter(|_| !names_a_hank);
        if let Some(hank) = last.and_then(|last| found_by_directory(&args.hank, &last)) {
            args.hank = shortest_name(hank);
            args.execution = Some(self.execution);
        }
    }
}

/// Returns the hank that `hankweave run DIRECTORY` finds by the last run there, because the directory holds none.
pub(crate) fn found_by_directory(directory: &Path, last: &LastRun) -> Option<PathBuf> {
    let found = hank_files::find_in(&RealDisk, directory);
    let has_none = matches!(found, Err(LoadHankError::NoHankInFolder { .. })) && !is_file(directory);
    (has_none && is_file(&last.hank)).then(|| last.hank.clone())
}

/// Returns the folder of a hank file if the folder is enough to find this file, else the path of the file.
pub(crate) fn shortest_name(hank: PathBuf) -> PathBuf {
    let folder = folder_of(&hank);
    let found = hank_files::find_in(&RealDisk, &folder);
    match found.is_ok_and(|found| found.file_name() == hank.file_name()) {
        true => folder,
        false => hank,
    }
}

/// Returns the folder of a hank: the path itself, or the folder that holds the file.
pub(crate) fn folder_of(hank: &Path) -> PathBuf {
    folder_in(Path::new(""), hank)
}

/// Returns the folder of a hank; `hank` and the result are relative to `base`.
pub(crate) fn folder_in(base: &Path, hank: &Path) -> PathBuf {
    match is_file(&base.join(hank)) {
        true => hank
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."))
            .to_owned(),
        false => hank.to_owned(),
    }
}

/// Whether the path is a file, or a link to one.
pub(crate) fn is_file(path: &Path) -> bool {
    let found = RealDisk.metadata_followed(path);
    found.is_ok_and(|found| found.kind == FileKind::File)
}

/// Whether a worker started this run for a task.
pub(crate) fn is_of_worker() -> bool {
    let environment = Environment::of_process();
    let marker = environment.get(MARKER_VARIABLE);
    marker.is_some_and(|marker| marker.as_encoded_bytes().starts_with(b"task/"))
}
