//! Requirements of a hank that this machine lacks (HANK-4).

use std::collections::BTreeMap;
use std::ffi::OsStr;

use hankweave_core::hank::Hank;

use crate::world::disk::Disk;
use crate::world::environment::{Environment, find_program};
use crate::world::process;

/// A variable that is not set, or a program that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingRequirement {
    /// JSON path of its name in the hank, such as `requirements.env[1]`.
    pub place: String,
    /// Name of the requirement, for people.
    pub what: String,
}

/// Returns the required variables and programs that this machine lacks, in the order of the hank. A variable is present if
/// it has a value for us or, through `HANKWEAVE_X`, for agents alone; a program is present if it is on PATH.
#[must_use]
pub fn missing_requirements(
    hank: &Hank,
    environment: &Environment,
    disk: &dyn Disk,
) -> Vec<MissingRequirement> {
    let is_set = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty());
    let for_children = process::child_environment(environment, &BTreeMap::new());
    let is_set_for_children = |name: &str| {
        for_children
            .get(OsStr::new(name))
            .is_some_and(|value| !value.is_empty())
    };
    let path = environment.get("PATH").unwrap_or_default();
    let variables = hank.requirements.env.iter().enumerate();
    let variables = variables
        .filter(|(_, name)| !is_set(name) && !is_set_for_children(name))
        .map(|(index, name)| MissingRequirement {
            place: format!("requirements.env[{index}]"),
            what: format!("the environment variable {name}"),
        });
    let programs = hank.requirements.tools.iter().enumerate();
    let programs = programs
        .filter(|(_, tool)| find_program(disk, tool, path).is_none())
        .map(|(index, tool)| MissingRequirement {
            place: format!("requirements.tools[{index}]"),
            what: format!("the program {tool}"),
        });
    variables.chain(programs).collect()
}
