//! What a registry keeps of each task, and how a step changes it (TASK-20 to TASK-22). Where it is kept is another matter.

mod change;
mod cost;
mod patch;
mod row;

pub use change::{Change, Changed};
pub use cost::TaskCost;
pub use patch::{Patch, TaskPatch};
pub use row::{NewTask, TaskRow};
