//! What clients see: the events of the WebSocket and of `run --json`.

mod budget;
mod event;

pub use budget::{ActualUse, BudgetCeiling, BudgetLimits, BudgetRow, BudgetStatus, BudgetTotals};
pub use event::{
    AgentAction, CurrentFigures, Event, ExitStatus, FailedPath, IdleReason, JournalEntry, RestoreStatus,
    RigStream,
};
