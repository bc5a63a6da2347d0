//! Rigs, which prepare a codon's workspace before its agent starts, and what happens to files after the codon.
//!
//! [`Rig`] runs the items of `rigSetup` in order: copies and commands. The first failure that is not allowed ends the rig (HANK-20).
//!
//! When the codon is rolled back, [`RigCopies`] removes the copies. When the codon has completed, [`OutputCopier`]
//! copies its results to the output directory, and [`Archive`] moves files away that are no longer wanted.

mod archive;
mod command;
mod copies;
mod copy;
mod files;
mod outputs;
mod run;
mod target;

pub use archive::{Archive, ArchiveEntry, ArchiveError, ArchiveRequest, Moved, RestoredEntry};
pub use copies::{KeptCopy, RigCopies, RigCopy};
pub use copy::CopyError;
pub use outputs::{OutputCopier, OutputError};
pub use run::{Rig, RigError, RigEvent, RigFailure};
pub use target::CopyTargetError;
