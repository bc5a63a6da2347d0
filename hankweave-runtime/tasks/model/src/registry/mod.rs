//! Contents of a registry for each task, and their changes by steps (TASK-20 to TASK-22). Storage is separate.

mod anew_request;
mod change;
mod cost;
mod files_location;
mod patch;
mod row;

pub use anew_request::AnewRequest;
pub(crate) use change::BY_HAND;
pub use change::{ChangedTask, RegistryChange};
pub use cost::TaskCost;
pub(crate) use cost::{ATTEMPT_COST, ATTEMPT_COST_IS_LOWER_BOUND};
pub use files_location::FilesLocation;
pub use patch::{Patch, TaskPatch};
pub use row::{NewTask, TaskRow};
