//! Work in the background of one claude process: the tasks that its stream lists, and the time for which it has asked to be called again.

use super::line::Task;
use crate::lenient::{List, Object};
use crate::open_tools::MAX_REMEMBERED_BYTES;
use hankweave_core::agent::{AgentEvent, BackgroundWork};

/// Maximum of tasks that are followed at once.
const MAX_TASKS: usize = 64;

/// Id of a wake-up, which has none of its own.
const WAKE_UP: &str = "wakeup";

/// Open work. A list of tasks takes the place of the one before.
#[derive(Debug, Default)]
pub(super) struct Background {
    tasks: Vec<BackgroundWork>,
    /// The agent has asked to be called again.
    wakes_up: bool,
}

impl Background {
    /// Takes in a list of tasks.
    pub(super) fn changed(&mut self, tasks: List<Object<Task<'_>>>) -> AgentEvent {
        let known = |task: Task<'_>| {
            let id = task.task_id.into_owned()?;
            let is_command = task.task_type.as_deref() == Some("local_bash");
            let description = task.description.as_deref().unwrap_or_default();
            (id.len() <= MAX_REMEMBERED_BYTES).then(|| BackgroundWork::new(id, description, is_command))
        };
        self.tasks = tasks.objects().filter_map(known).take(MAX_TASKS).collect();
        self.event()
    }

    /// Takes in that the agent is called again at a time, or has been; `None` if that is known.
    pub(super) fn wakes_up(&mut self, wakes_up: bool) -> Option<AgentEvent> {
        let before = std::mem::replace(&mut self.wakes_up, wakes_up);
        (before != wakes_up).then(|| self.event())
    }

    /// Whether some work is open.
    pub(super) fn is_open(&self) -> bool {
        self.wakes_up || !self.tasks.is_empty()
    }

    fn event(&self) -> AgentEvent {
        let mut all = self.tasks.clone();
        if self.wakes_up {
            all.push(BackgroundWork::new(
                WAKE_UP.to_owned(),
                "a wake-up of its own",
                false,
            ));
        }
        AgentEvent::Background(all)
    }
}
