//! The execution thread: the history that counts, out of runs that continue one another (STATE-49 to STATE-60), and the parts that a cleanup may remove
//! (RUN-23).
//!
//! [`ThreadTip`] reads the thread from its newest codon back, for decisions; [`build`] makes the whole thread, for readers that show it. A position in the
//! thread, where a run continues or a rollback leads, is a [`ContinuationSource`](crate::document::ContinuationSource).

mod build;
mod cleanup;
mod history;
mod next;
mod operations;
mod results;
mod resume;
mod session;
mod start_files;
mod target;
mod tip;
mod walk;
mod work;

pub use build::{ExecutionThread, ThreadCodon, ValidatedCheckpoint, build};
pub use cleanup::{Removable, RetentionRule, removable};
pub use history::{UndoneAttempts, files_of_start, runs_of_history};
pub use operations::{LoggedOperation, Undo, end_at, head, name, operations, undo, undo_of, undoable};
#[cfg(feature = "hanks")]
pub use results::prompt_values;
pub use resume::{Recovery, Resume};
pub use session::resumed_session;
pub use start_files::StartOfWork;
pub use target::{
    CodonPoint, TargetError, can_continue_from, continuation_checkpoint, position, source_of_files,
};
pub use tip::ThreadTip;
pub use walk::{ThreadCodons, ThreadItem, walk};
pub use work::CodonWork;
