//! Child processes: how one is started, signalled, waited for and cleaned up after.
//!
//! [`Spawner`] is the seam; [`ChildSpawner`] is the operating system's side of it. A child always has its own session
//! and carries a marker in its environment, because killing its group is not enough: agents run their tools
//! in sessions of their own (AGENT-14, S1 to S4).
//!
//! The parts that differ between systems are in `world::system`.

mod activity;
mod child;
mod environment;
mod launch;
mod lines;
mod seam;
mod stop;
mod suspend;
mod sweep;
mod table;

pub use activity::{ChildUse, FamilyUse};
pub use child::{ChildSpawner, until_ended};
pub use environment::child_environment;
pub(crate) use environment::child_name;
pub use lines::{BoundedLines, LinePiece};
pub(crate) use seam::marker;
pub use seam::{
    CommandSpec, GroupSignal, ITERATION_VARIABLE, MARKER_VARIABLE, ProcessControl, SPARED_MARKER,
    SpawnedProcess, Spawner, Stdin,
};
pub use stop::{interrupt, stop};
pub use suspend::{StoppedProcesses, has_job_control, stop_suspended, uninterrupted};
pub use sweep::{Sweep, marked, sweep_marked};
pub(in crate::world) use table::Process;
