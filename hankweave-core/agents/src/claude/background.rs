//! Work in the background of one claude process: the tasks that its stream lists, and a wake-up, if it has asked to be called again later.

use super::line::Task;
use crate::lenient::{List, Object};
use crate::open_tools::MAX_REMEMBERED_BYTES;
use hankweave_core::agent::{AgentEvent, BackgroundWork};

/// Maximum of tasks that are followed at once.
const MAX_TASKS: usize = 64;

/// Id under which a wake-up is reported; claude gives it none.
const WAKE_UP: &str = "wakeup";

/// Open work in the background.
#[derive(Debug, Default)]
pub(super) struct Background {
    tasks: Vec<BackgroundWork>,
    /// The agent has asked to be called again, and has not been yet.
    awaits_wake_up: bool,
}

impl Background {
    /// Replaces the tasks by a newer list, and returns the event that reports all open work.
    pub(super) fn replace_tasks(&mut self, tasks: List<Object<Task<'_>>>) -> AgentEvent {
        let work_of = |task: Task<'_>| {
            let id = task.task_id.into_owned()?;
            let is_command = task.task_type.as_deref() == Some("local_bash");
            let description = task.description.as_deref().unwrap_or_default();
            (id.len() <= MAX_REMEMBERED_BYTES).then(|| BackgroundWork::new(id, description, is_command))
        };
        self.tasks = tasks.objects().filter_map(work_of).take(MAX_TASKS).collect();
        self.event()
    }

    /// Sets whether the agent is waiting for a wake-up, and returns the event that reports all open work; `None` if nothing has changed.
    pub(super) fn set_wake_up(&mut self, is_waiting: bool) -> Option<AgentEvent> {
        let before = std::mem::replace(&mut self.awaits_wake_up, is_waiting);
        (before != is_waiting).then(|| self.event())
    }

    /// Whether some work is open.
    pub(super) fn is_open(&self) -> bool {
        self.awaits_wake_up || !self.tasks.is_empty()
    }

    fn event(&self) -> AgentEvent {
        let mut all = self.tasks.clone();
        if self.awaits_wake_up {
            all.push(BackgroundWork::new(
                WAKE_UP.to_owned(),
                "a wake-up of its own",
                false,
            ));
        }
        AgentEvent::Background(all)
    }
}
