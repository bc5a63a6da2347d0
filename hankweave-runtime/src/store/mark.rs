//! The mark in the log that names the bytes of a state.json.

use serde::{Deserialize, Serialize};

/// Names the exact bytes of one snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotMark {
    /// The last event that the snapshot contains; 0 before the first.
    pub seq: u64,
    /// Its length.
    pub bytes: u64,
    /// CRC-32 of its bytes, eight hex digits.
    pub crc: String,
}

impl SnapshotMark {
    /// The mark of a snapshot that contains everything up to `seq`.
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
