//! Limits on what a machine accepts from a remote, checked by clone and pull: small data on a remote can unpack to so much
//! that it fills the disk (RUN-32).

use hankweave_core::id::CheckpointSha;
use hankweave_runtime::checkpoint::{CheckpointExtent, GitHistory};
use hankweave_runtime::error::chain;
use hankweave_runtime::world::World;

use crate::error::RemoteError;
use crate::git::Git;
use crate::manifest::RecordManifest;

/// Environment variable with the limit in bytes, such as `8GB`.
pub const VARIABLE: &str = "HANKWEAVE_MAX_SIZE";

/// Default of the limit, in bytes.
const BYTES: u64 = 2 << 30;

/// Longest line of a list that git prints, in bytes.
const LONGEST_LINE: usize = 64 << 10;

/// Limits on what arrives. A normal history of runs reaches none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArrivalLimits {
    /// Limit in bytes, applied to git's fetch, to all files of the record, and to the files of each checkpoint.
    pub bytes: u64,
    /// Maximum number of files of the record, and of files and folders of each checkpoint.
    pub entries: u64,
    /// Maximum number of git objects.
    pub objects: u64,
    /// Maximum depth of nested folders.
    pub depth: usize,
}

impl Default for ArrivalLimits {
    fn default() -> Self {
        Self {
            bytes: BYTES,
            entries: 2_000_000,
            objects: 20_000_000,
            depth: 256,
        }
    }
}

impl ArrivalLimits {
    /// Returns the limits of this machine: `HANKWEAVE_MAX_SIZE`, else the defaults.
    ///
    /// # Errors
    ///
    /// [`RemoteError::BadSize`] when the variable holds no size.
    pub fn of(world: &World) -> Result<Self, RemoteError> {
        let Some(value) = world.environment.get(VARIABLE).filter(|value| !value.is_empty()) else {
            return Ok(Self::default());
        };
        let value = value.to_string_lossy();
        let bytes = parse_size(&value).ok_or_else(|| RemoteError::BadSize {
            value: value.escape_debug().to_string(),
        })?;
        Ok(Self {
            bytes,
            ..Self::default()
        })
    }

    /// Returns limits that nothing exceeds, for records that this machine wrote itself.
    pub(crate) fn none() -> Self {
        Self {
            bytes: u64::MAX,
            entries: u64::MAX,
            objects: u64::MAX,
            depth: usize::MAX,
        }
    }

    /// Checks the file sizes in a record's manifest.
    pub(crate) fn check_manifest(&self, manifest: &RecordManifest) -> Result<(), RemoteError> {
        let mut extent = CheckpointExtent::default();
        for (path, length) in &manifest.files {
            extent.bytes = extent.bytes.saturating_add(*length);
            extent.entries += 1;
            extent.depth = extent.depth.max(path.matches('/').count());
        }
        self.check_extent("the record", extent)
    }

    /// Checks number and size of the fetched objects. No object may be larger than the limit for all files together, because
    /// each is read into memory.
    pub(crate) async fn check_objects(&self, git: &Git) -> Result<(), RemoteError> {
        let arguments = [
            "cat-file",
            "--batch-all-objects",
            "--unordered",
            "--batch-check=%(objectsize)",
        ];
        let (limits, mut objects) = (*self, 0);
        let visit = |line: &[u8]| {
            objects += 1;
            let size = number(line).unwrap_or(u64::MAX);
            if objects > limits.objects {
                return Err(too_large("it has", objects, "objects", limits.objects));
            }
            match size > limits.bytes {
                true => Err(too_large("one of its objects has", size, "bytes", limits.bytes)),
                false => Ok(()),
            }
        };
        git.each_line("look at what was fetched", &arguments, b'\n', LONGEST_LINE, visit)
            .await
    }

    /// Checks the files of each checkpoint: one is restored now, and a rollback can restore any other. Folders count too,
    /// because a few folders that contain one another repeatedly expand without end. Blocks.
    pub(crate) fn check_checkpoints(
        &self,
        history: &GitHistory,
        checkpoints: &[CheckpointSha],
    ) -> Result<(), RemoteError> {
        let measured = history.extents(checkpoints, self.depth);
        let measured = measured.map_err(|error| RemoteError::corrupt(chain(&error)))?;
        for (sha, extent) in checkpoints.iter().zip(measured) {
            let short: String = sha.as_str().chars().take(12).collect();
            self.check_extent(&format!("its checkpoint {short}"), extent)?;
        }
        Ok(())
    }

    fn check_extent(&self, of: &str, extent: CheckpointExtent) -> Result<(), RemoteError> {
        let counts = [
            (extent.bytes, "bytes", self.bytes),
            (extent.entries, "files and folders", self.entries),
            (
                extent.depth as u64,
                "folders inside one another",
                self.depth as u64,
            ),
        ];
        match counts.into_iter().find(|(found, _, limit)| found > limit) {
            Some((found, unit, limit)) => Err(too_large(of, found, unit, limit)),
            None => Ok(()),
        }
    }
}

/// Returns the error for `found` units of `of`, which may end with "has".
fn too_large(of: &str, found: u64, unit: &str, limit: u64) -> RemoteError {
    let of = match of.ends_with("has") {
        true => of.to_owned(),
        false => format!("{of} has"),
    };
    RemoteError::TooLarge {
        what: format!("{of} {found} {unit}, of at most {limit}"),
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.trim().parse().ok()
}

/// Parses a size such as `1048576`, `512MiB` or `8GB`. It must be above 0.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 9] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1_000),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ];
    let text = text.trim();
    let unit = UNITS.into_iter().find(|(unit, _)| text.ends_with(unit));
    let (unit, factor) = unit.unwrap_or(("", 1));
    let digits = text.strip_suffix(unit)?.trim_end();
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| plain)?;
    number.checked_mul(factor).filter(|size| *size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: RUN-32
    #[test]
    fn a_size_has_a_unit_or_is_in_bytes() {
        for (text, size) in [
            ("1048576", Some(1 << 20)),
            ("512MiB", Some(512 << 20)),
            ("8 GB", Some(8_000_000_000)),
            ("0", None),
            ("", None),
            ("GiB", None),
            ("-1", None),
            ("+1", None),
            ("1.5GiB", None),
            ("99999999999TiB", None),
            ("much", None),
        ] {
            assert_eq!(parse_size(text), size, "{text}");
        }
    }
}
