//! The mark of a snapshot in the log, which identifies the exact bytes of a state.json.

use serde::{Deserialize, Serialize};

/// Identifies the exact bytes of one snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotMark {
    /// The last event that the snapshot contains; 0 before the first.
    pub seq: u64,
    /// Length of the snapshot, in bytes.
    pub bytes: u64,
    /// CRC-32 of the bytes, eight hex digits.
    pub crc: String,
}

impl SnapshotMark {
    /// The mark of a snapshot that contains all events up to `seq`.
    #[must_use]
    pub fn of(seq: u64, snapshot: &[u8]) -> Self {
        Self {
            seq,
            bytes: snapshot.len() as u64,
            crc: checksum(snapshot),
        }
    }

    /// Whether these are the marked bytes.
    #[must_use]
    pub fn fits(&self, snapshot: &[u8]) -> bool {
        self.bytes == snapshot.len() as u64 && self.crc == checksum(snapshot)
    }
}

fn checksum(bytes: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_fits_its_own_bytes_only() {
        let mark = SnapshotMark::of(3, b"{}");
        assert!(mark.fits(b"{}"));
        assert!(!mark.fits(b"{ }") && !mark.fits(b"[]"));
    }
}
