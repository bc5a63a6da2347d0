//! Faults of a disk during one life of the runtime, and their times.

use std::io;
use std::ops::Range;

/// Operations of the runtime that change or sync something are numbered from 0 in each life.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The operation in which the runtime stops for good; a write may have happened in part.
    pub crash_at: Option<u64>,
    /// When the disk refuses.
    pub troubles: Vec<Trouble>,
    /// The reads that fail with EIO, numbered from 0 in each life.
    pub unreadable: Range<u64>,
}

/// A time in which the disk refuses operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trouble {
    /// The first operation that is refused.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// Which operations are affected, and how.
    pub kind: TroubleKind,
}

/// Why a disk refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TroubleKind {
    /// ENOSPC for everything that needs space; a write leaves what still fitted.
    Full,
    /// EIO for everything; a write leaves a part.
    Broken,
}

/// Resource that an operation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Space for bytes or names.
    Space,
    /// The device: space may have been promised and not be there.
    Device,
    /// Nothing that a full disk lacks.
    Nothing,
}

impl Plan {
    /// The error of read `number`, if the disk refuses it.
    pub(super) fn read_refusal(&self, number: u64) -> Option<io::Error> {
        let refused = self.unreadable.contains(&number);
        refused.then(|| io::Error::from_raw_os_error(EIO))
    }

    /// The error of operation `number`, if the disk refuses it.
    pub(super) fn refusal(&self, number: u64, need: Need) -> Option<io::Error> {
        let now = |trouble: &&Trouble| (trouble.first..=trouble.last).contains(&number);
        let refuses = |trouble: &&Trouble| match trouble.kind {
            TroubleKind::Broken => true,
            TroubleKind::Full => need != Need::Nothing,
        };
        let trouble = self.troubles.iter().filter(now).find(refuses)?;
        Some(io::Error::from_raw_os_error(match trouble.kind {
            TroubleKind::Full => ENOSPC,
            TroubleKind::Broken => EIO,
        }))
    }
}

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
