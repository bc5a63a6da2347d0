//! Prepares the directory to which a run copies results.

use std::io;
use std::path::{Component, Path, PathBuf};

use super::super::own_files::exclusion;
use super::{LockedExecution, OpenExecutionError};
use crate::options::RunOptions;
use crate::world::disk::Disk;

/// Makes the output directory and resolves its path. If it is inside the workspace, adds it to `own_files`, the patterns that checkpoints leave out.
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
    // Checked before the directory is made, so that a refusal leaves no folder, and again at its real path.
    let disk = &*possession.world.disk;
    check(&place_of(disk, &output.path))?;
    let real = disk.make_dirs(&output.path).map_err(failed)?;
    check(&real)?;
    own_files.extend(real.strip_prefix(root).ok().and_then(Path::to_str).map(exclusion));
    output.path = real;
    Ok(())
}

/// Returns the path that a folder will have once it is made: the real path of the existing part, joined with the missing part.
fn place_of(disk: &dyn Disk, path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|ancestor| {
        // The empty path, the last ancestor of a relative one, means the working directory.
        let ancestor_path = match ancestor.as_os_str().is_empty() {
            true => Path::new("."),
            false => ancestor,
        };
        let missing = path.strip_prefix(ancestor).ok()?;
        Some((disk.real_path(ancestor_path).ok()?, missing))
    });
    let (mut place, missing) = existing.unwrap_or_else(|| (PathBuf::new(), path));
    for part in missing.components() {
        match part {
            Component::ParentDir => drop(place.pop()),
            Component::CurDir => {}
            part => place.push(part),
        }
    }
    place
}
