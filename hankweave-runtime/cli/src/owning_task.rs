//! Task whose workspace an execution directory is (CLI-40).

use std::path::Path;

use hankweave_core::id::{CodonId, TaskId};
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_task_model::task::TaskStatus;
use hankweave_tasks::layers::{TaskLayers, WORKSPACE};
use serde_json::{Value, json};

use crate::args::RegistryArgs;
use crate::exit::{CliError, CliErrorKind};
use crate::registry::{RESTATE, place_of};
use crate::screen::one_line;
use crate::typed::{tasks as typed, word};

/// Task of a workspace, by the state file next to it.
#[derive(Debug)]
pub(crate) struct OwningTask {
    id: TaskId,
    /// Absent before its first codon has started.
    name: Option<String>,
    /// Status by its files; that of the registry counts.
    status: TaskStatus,
    place: RegistryArgs,
    /// Restate keeps it, and no command about tasks knows it.
    is_of_restate: bool,
}

impl OwningTask {
    /// Returns the task whose workspace `execution` is; `None` for a directory of another kind.
    pub(crate) fn of(execution: &Path) -> Option<Self> {
        let workspace = RealDisk.real_path(execution).ok()?;
        if workspace.file_name()? != WORKSPACE {
            return None;
        }
        let folder = workspace.parent()?;
        let (root, id) = (folder.parent()?, folder.file_name()?.to_str()?);
        let id = TaskId::new(id).ok()?;
        let files = TaskLayers::new(World::real(), root).task(id.clone());
        let state = files.load_state().ok()??;
        let text = |name: &str| state.data.get(name).and_then(Value::as_str);
        Some(Self {
            place: place_of(text("registry"), root),
            is_of_restate: text("registry") == Some(RESTATE),
            name: text("name").map(str::to_owned),
            status: state.status,
            id,
        })
    }

    /// Returns the name, or the id where no name is known.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.id.as_str())
    }

    /// Returns name and id for people: `Publish the page [page-3]`.
    pub(crate) fn title(&self) -> String {
        match &self.name {
            Some(name) => format!("{} [{}]", one_line(name), self.id),
            None => self.id.to_string(),
        }
    }

    /// Returns name and id for JSON.
    pub(crate) fn to_json(&self) -> Value {
        json!({"id": self.id, "name": self.name})
    }

    fn command(&self, what: &str) -> String {
        typed(&self.place, &format!("task {what} {}", self.id))
    }

    /// Returns the line that says whose workspace a directory is.
    pub(crate) fn line(&self) -> String {
        match self.is_of_restate {
            true => format!("task {}, kept by Restate", self.title()),
            false => format!("task {}: `{}` shows it", self.title(), self.command("show")),
        }
    }

    /// Returns the commands that continue the task, with their effects, in place of those of a run.
    pub(crate) fn commands(&self, is_live: bool, asked: Option<&CodonId>) -> Vec<(String, String)> {
        let mut offers = Vec::new();
        if self.is_of_restate {
            return offers;
        }
        let mut offer = |what: &str, effect: String| offers.push((self.command(what), effect));
        match (asked, self.status) {
            _ if is_live => offer("cancel", "stops it".to_owned()),
            (Some(codon), TaskStatus::Waiting) => {
                offer("approve", format!("lets {codon} begin"));
                offer("deny", "fails the task; resumed, it asks again".to_owned());
            }
            (_, TaskStatus::Failed | TaskStatus::Cancelled) => {
                offer("resume", "lets a worker continue it".to_owned());
            }
            _ => {}
        }
        offer("show", "shows the task".to_owned());
        offers
    }

    /// Returns the note of a run that a user starts in the workspace.
    pub(crate) fn note(&self) -> String {
        let title = self.title();
        if self.is_of_restate {
            return format!("this is the workspace of task {title}; Restate continues it\n");
        }
        let continues = match self.status {
            TaskStatus::Waiting => format!(
                "`{}` or `{}` answers its question",
                self.command("approve"),
                self.command("deny")
            ),
            _ => format!("`{}` lets a worker continue it", self.command("resume")),
        };
        let show = self.command("show");
        format!("this is the workspace of task {title}; {continues}, `{show}` shows it\n")
    }

    /// Refuses an answer that the next worker would not find: the one that counts is in the registry (TASK-123).
    pub(crate) fn refuse_answer(&self, is_denial: bool, reason: Option<&str>) -> CliError {
        let answer = self.command(if is_denial { "deny" } else { "approve" });
        let reason = reason.map_or_else(String::new, |reason| format!(" --reason {}", word(reason)));
        let message = format!(
            "`approve` does not answer for a task, and this is the workspace of task {}",
            self.title()
        );
        let hint = match self.status {
            _ if self.is_of_restate => format!("call `answer` of `HankweaveTask/{}` in Restate", self.id),
            TaskStatus::Failed | TaskStatus::Cancelled => {
                format!("`{}` lets a worker ask again", self.command("resume"))
            }
            _ => format!("`{answer}{reason}` does"),
        };
        CliError::new(CliErrorKind::Failed, message).hint(hint)
    }

    /// Names the task in an error about its workspace.
    pub(crate) fn explain(&self, error: CliError) -> CliError {
        error.hint(self.note().trim_end().to_owned())
    }
}
