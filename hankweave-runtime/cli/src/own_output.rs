//! Notice for a run whose output was redirected into a file of its own workspace, where it counts as a change of codons.

use std::path::Path;

use hankweave_core::discovery::STATE_DIR;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::world::disk::{Disk as _, RealDisk};

/// Returns the notice for a run whose standard output or error is a file of the workspace. `None` if neither is, or if the system does not show it.
pub(crate) fn notice(directory: &ExecutionDir) -> Option<String> {
    let root = RealDisk.real_path(directory.root()).ok()?;
    let of = |descriptor: &str| {
        let file = RealDisk.real_path(Path::new(descriptor)).ok()?;
        let own = file.strip_prefix(&root).ok()?;
        (!own.starts_with(STATE_DIR)).then(|| own.display().to_string())
    };
    let file = ["/proc/self/fd/1", "/proc/self/fd/2"].into_iter().find_map(of)?;
    Some(format!(
        "{file} takes the output of this run and is in its workspace: it counts as a change of the codons; write it elsewhere"
    ))
}
