//! Allowed paths of a registry file: SQLite's locks and its shared memory work on one machine only (TASK-26).

use std::path::Path;

use hankweave_task_model::TaskError;
use rustix::fs::StatFs;

/// File systems that other machines can access, by their magic numbers (`man 2 statfs`).
#[cfg(target_os = "linux")]
const NETWORK_FILE_SYSTEMS: [(i64, &str); 14] = [
    (0x6969, "NFS"),
    (0x517B, "SMB"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB2"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE, such as sshfs"),
    (0x5346_414F, "AFS"),
    (0x6B41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x564C, "NCP"),
    (0x00C3_6400, "Ceph"),
    (0x0116_1970, "GFS2"),
    (0x7461_636F, "OCFS2"),
    (0x0BD0_0BD0, "Lustre"),
];

/// Returns the kind of network file system with this magic number, if it is one.
#[cfg(target_os = "linux")]
fn network_kind(magic: i64) -> Option<&'static str> {
    // Some architectures store the number in 32 bits with a sign.
    let magic = magic & 0xFFFF_FFFF;
    let known = NETWORK_FILE_SYSTEMS.iter().find(|(number, _)| *number == magic);
    known.map(|(_, name)| *name)
}

/// Returns the kind of the file system if it is a network file system.
#[cfg(target_os = "linux")]
fn network_file_system(stat: &StatFs) -> Option<&'static str> {
    #[allow(clippy::unnecessary_cast, reason = "its width depends on the architecture")]
    network_kind(stat.f_type as i64)
}

/// Returns a description of the file system, if it is a network file system. macOS has no number for each kind, but marks local ones.
#[cfg(not(target_os = "linux"))]
fn network_file_system(stat: &StatFs) -> Option<&'static str> {
    /// `MNT_LOCAL` of `man 2 statfs`.
    const LOCAL: u32 = 0x1000;
    (stat.f_flags & LOCAL == 0).then_some("a file system of another machine")
}

/// Refuses a file in a folder that other machines can write to.
pub(super) fn check(path: &Path) -> Result<(), TaskError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = parent.unwrap_or_else(|| Path::new("."));
    let refused =
        |reason: String| TaskError::RegistryNotInitialized(format!("`{}`: {reason}", path.display()));
    let stat = rustix::fs::statfs(folder);
    let stat = stat.map_err(|error| refused(format!("its folder cannot be read: {error}")))?;
    match network_file_system(&stat) {
        Some(kind) => Err(refused(format!(
            "it lies on {kind}, where the locks of SQLite do not hold; take a local folder, or `--registry postgres://…` for several machines"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TASK-26
    #[test]
    fn a_file_that_other_machines_see_is_refused() {
        assert_eq!(network_kind(0x6969), Some("NFS"));
        assert_eq!(network_kind(i64::from(0xFF53_4D42_u32 as i32)), Some("CIFS"));
        assert_eq!(network_kind(0xEF53), None, "ext4");
        let nowhere = check(Path::new("/nowhere/at/all/registry.db")).unwrap_err();
        assert_eq!(nowhere.code(), "REGISTRY_NOT_INITIALIZED");
    }
}
