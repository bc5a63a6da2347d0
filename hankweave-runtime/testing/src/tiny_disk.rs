//! A file system of its own that is too small.

use std::path::Path;
use std::process::Command;

use crate::agents::Skip;

/// A mount in memory, removed when this is dropped.
#[derive(Debug)]
pub struct TinyDisk(tempfile::TempDir);

impl TinyDisk {
    /// Mounts one of this size.
    ///
    /// # Errors
    ///
    /// Returns [`Skip`] if nothing can be mounted, as for users other than root.
    pub fn mount(kib: u32) -> Result<Self, Skip> {
        let skip = |error: std::io::Error| Skip(format!("no mount: {error}"));
        let folder = tempfile::tempdir().map_err(skip)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"]);
        let mounted = mount.arg(folder.path()).output().map_err(skip)?;
        match mounted.status.success() {
            true => Ok(Self(folder)),
            false => Err(Skip(format!(
                "mount says {}",
                String::from_utf8_lossy(&mounted.stderr)
            ))),
        }
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Gives it another size.
    ///
    /// # Panics
    ///
    /// When that cannot be done.
    pub fn grow(&self, kib: u32) {
        let grown = Command::new("mount")
            .args(["-o", &format!("remount,size={kib}k")])
            .arg(self.path())
            .status();
        assert!(grown.is_ok_and(|status| status.success()), "it does not grow");
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        // Lazily: a process that still uses it must not keep the mount.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
