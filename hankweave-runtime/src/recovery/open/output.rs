//! The output directory of a run.

use std::io;
use std::path::{Component, Path, PathBuf};

use super::super::own_files::exclusion;
use super::{LockedExecution, OpenExecutionError};
use crate::options::RunOptions;
use crate::world::disk::Disk;

/// Makes the output directory and resolves its path. Inside the workspace it is left out of checkpoints.
pub(super) fn prepare_output(
    possession: &LockedExecution,
    options: &mut RunOptions,
    own_files: &mut Vec<String>,
) -> Result<(), OpenExecutionError> {
    let is_rehearsal = options.rehearsal;
    let Some(output) = options.output.as_mut().filter(|_| !is_rehearsal) else {
        return Ok(());
    };
    let failed = |source| OpenExecutionError::Output {
        path: output.path.clone(),
        source,
    };
    let (root, state) = (possession.dir.root(), possession.dir.state_dir());
    let check = |place: &Path| match place == root || place.starts_with(&state) {
        true => Err(failed(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is where the agents work",
        ))),
        false => Ok(()),
    };
    // Checked before it is made, so that a refusal leaves no folder, and again at its real path.
    let disk = &*possession.world.disk;
    check(&place_of(disk, &output.path))?;
    let real = disk.make_dirs(&output.path).map_err(failed)?;
    check(&real)?;
    own_files.extend(real.strip_prefix(root).ok().and_then(Path::to_str).map(exclusion));
    output.path = real;
    Ok(())
}

/// The path that a folder will have once it is made: the real path of the part that exists, and the rest.
fn place_of(disk: &dyn Disk, path: &Path) -> PathBuf {
    let real = path.ancestors().find_map(|ancestor| {
        let named = match ancestor.as_os_str().is_empty() {
            true => Path::new("."),
            false => ancestor,
        };
        let rest = path.strip_prefix(ancestor).ok()?;
        Some((disk.real_path(named).ok()?, rest))
    });
    let (mut place, rest) = real.unwrap_or_else(|| (PathBuf::new(), path));
    for part in rest.components() {
        match part {
            Component::ParentDir => drop(place.pop()),
            Component::CurDir => {}
            part => place.push(part),
        }
    }
    place
}
