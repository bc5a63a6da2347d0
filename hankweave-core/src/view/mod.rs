//! View of a run: one pure fold of its events, which every screen, page and exporter draws (WIRE-36).
//!
//! [`RunView::take`] applies an entry of the journal. The view is its own state: stored as JSON and read back, it continues with the next event. Its
//! size is always bounded: see [`MAX_VIEW_BYTES`]. It holds no `null`, so that the [`difference`] of two views is a merge patch (RFC 7396), and no
//! transcript, tool output or file content, which clients request where they show it.

mod attempt;
mod files;
mod fold;
mod headline;
mod history;
mod item;
mod message;
mod now;
mod patch;
mod plan;
mod recorded;
mod run_view;
mod sentinel;
mod text;
mod transition;
mod undone;
mod wait;
mod words;

pub use attempt::{AttemptKey, AttemptState, AttemptView, AttemptWhy, EarlierAttempts};
pub use files::{ChangedFile, FileChanges};
pub use history::{HistoryStart, HistoryView};
pub use item::{CheckView, ItemKind, ItemView};
pub use message::change_message;
pub use now::{ContextUse, CurrentActivity, CurrentAttempt, OpenTool, SubAgentView};
pub use patch::{apply_patch, difference};
pub use run_view::{
    AskedApproval, CodonCount, CommandView, MAX_VIEW_BYTES, MoneyView, OmittedItems, ProblemView, RunState,
    RunView, ViewedRun,
};
pub use sentinel::{SentinelView, WatchStatus};
pub use text::{changed, excerpt, goal_of_prompt, prompt_excerpt};
pub use undone::{RolledBack, UndoView, UndoneAttempt, UndoneAttempts};
pub use wait::{AnsweredApproval, WaitKind, WaitView};
pub use words::{disk_words, fallback_words, line_of, stopped_words, subject, title_of_tool_use};
