//! Messages about a task that was started in another folder of tasks: where its files are, and what to type (TASK-125, TASK-127).
//!
//! `registry` has the options of the user's command that name the registry and the folder of tasks; the suggested commands repeat them.

use std::fmt::Display;
use std::path::PathBuf;

use hankweave_core::id::TaskId;
use hankweave_task_model::registry::FilesLocation;
use hankweave_tasks::layers::{LeaveReason, MissingFiles};

use crate::args::RegistryArgs;
use crate::hints::task_command;

/// Returns the line of a worker about a task that it leaves to others. Only its first line about a taken folder (`is_first`) has advice.
pub(crate) fn left_alone(registry: &RegistryArgs, id: &TaskId, why: &LeaveReason, is_first: bool) -> String {
    let why = match why {
        LeaveReason::Missing(missing) => format!("{id} was {}", words(registry, id, missing)),
        LeaveReason::Taken(taken) if !is_first => taken.to_string(),
        LeaveReason::Taken(taken) => {
            let there = RegistryArgs {
                tasks: Some(PathBuf::from("DIR")),
                ..registry.clone()
            };
            format!(
                "{taken}; `{}` takes the task, where DIR is the folder of this registry's tasks",
                task_command(&there, "worker")
            )
        }
    };
    format!("left alone: {why}")
}

/// Returns the sentence about a task whose files are missing here.
pub(crate) fn words(registry: &RegistryArgs, id: &TaskId, missing: &MissingFiles) -> String {
    let MissingFiles { location, .. } = missing;
    // Found files are on this machine, even if it had another name then.
    let begun = match missing.is_of_machine || missing.is_found {
        true => format!("begun in {}", location.folder),
        false => format!("begun in {} on {}", location.folder, location.machine),
    };
    format!(
        "{begun}: {}; {}",
        continues(registry, missing),
        starts_anew(registry, id)
    )
}

/// Returns what continues the task without losing the finished work.
pub(crate) fn continues(registry: &RegistryArgs, missing: &MissingFiles) -> String {
    let MissingFiles { location, .. } = missing;
    if missing.is_found {
        let there = RegistryArgs {
            tasks: Some(PathBuf::from(&location.folder)),
            ..registry.clone()
        };
        return format!("`{}` continues it", task_command(&there, "worker"));
    }
    let pushed = "a worker with the --remote to which its runs were pushed";
    match missing.is_of_machine {
        true => format!("its files are not there any more; {pushed} continues it"),
        false => format!("a worker there continues it, or {pushed}"),
    }
}

/// Returns where the newest files of a task are: `in /tasks on host-b, where its newest files are`.
pub(crate) fn newest_in(location: &FilesLocation) -> String {
    format!("{}, where its newest files are", place(location))
}

/// Returns a location: `in /tasks on host-b`.
pub(crate) fn place(FilesLocation { machine, folder }: &FilesLocation) -> String {
    format!("in {folder} on {machine}")
}

/// Returns the hint for a command that needs the files in `folder`; `other_machine` is the machine that has them, if it is not this one.
pub(crate) fn hint(registry: &RegistryArgs, id: &str, folder: &str, other_machine: Option<&str>) -> String {
    if let Some(machine) = other_machine {
        return format!("it can be typed on {machine}; {}", starts_anew(registry, id));
    }
    let there = RegistryArgs {
        tasks: Some(PathBuf::from(folder)),
        ..registry.clone()
    };
    format!(
        "name its folder on that machine with `--tasks`, as in `{}`; {}",
        task_command(&there, &format!("task show {id}")),
        starts_anew(registry, id)
    )
}

/// Returns the advice to start the task anew, without its files.
fn starts_anew(registry: &RegistryArgs, id: impl Display) -> String {
    format!(
        "`{}` starts it anew and pays for its codons again",
        task_command(registry, &format!("task resume {id} --anew"))
    )
}
