//! Tools, each like the command of that meaning (CLI-55).

use std::path::{Path, PathBuf};
use std::time::Duration;

use hankweave_core::id::{AgentId, TaskId};
use hankweave_core::machine::Extra;
use hankweave_task_model::registry::{NewTask, TaskRow};
use hankweave_task_model::task::{TaskResult, TaskStatus};
use hankweave_task_model::{LogLevel, TaskError};
use hankweave_tasks::coordinator::{ListQuery, TaskFilter};
use hankweave_tasks::lifecycle::TaskStep;
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::attached::{Attached, Attachment};
use super::execute::execute;
use super::refusal::{EXECUTION_FAILED, INVALID_REQUEST, ToolError};
use crate::registry::Registry;
use crate::task::{cancel_or_ask, free_ids, resume_command, task_spec};

type ToolCallResult = Result<Value, ToolError>;

pub(super) struct Tools {
    registry: Registry,
    attached: Attached,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    name: String,
    hank: Option<PathBuf>,
    data: Option<PathBuf>,
    #[serde(default)]
    arguments: Vec<String>,
    agent_id: Option<String>,
    task_id: Option<String>,
    description: Option<String>,
    owner: Option<String>,
    #[serde(default)]
    metadata: Map<String, Value>,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    after: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskIdParams {
    task_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attach {
    task_id: String,
    agent_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Detach {
    task_id: String,
    agent_id: Option<String>,
    outcome: Option<String>,
    result: Option<Value>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Execute {
    task_id: String,
    command: String,
    #[serde(default = "half_a_minute")]
    timeout: u64,
}

fn half_a_minute() -> u64 {
    30_000
}

#[derive(Deserialize)]
struct ListParams {
    status: Option<TaskStatus>,
    owner: Option<String>,
    limit: Option<u64>,
    #[serde(default)]
    offset: u64,
}

fn read<T: DeserializeOwned>(given: JsonObject) -> Result<T, ToolError> {
    serde_json::from_value(Value::Object(given))
        .map_err(|error| ToolError::new(INVALID_REQUEST, error.to_string()))
}

fn task_id(text: &str) -> Result<TaskId, TaskError> {
    Ok(TaskId::new(text)?)
}

fn agent_id(text: String) -> Result<AgentId, ToolError> {
    AgentId::new(text).map_err(|error| ToolError::request(vec![format!("/agentId: {error}")]))
}

impl Tools {
    pub(super) fn new(registry: Registry, attached: Attached) -> Self {
        Self { registry, attached }
    }

    pub(super) async fn call(&self, name: &str, given: JsonObject) -> ToolCallResult {
        match name {
            "create_task_sandbox" => self.create(read(given)?).await,
            "attach_agent_to_task" => self.attach(read(given)?).await,
            "detach_agent_from_task" => self.detach(read(given)?).await,
            "execute_in_task" => self.execute(read(given)?).await,
            "list_tasks" => self.list(read(given)?).await,
            "get_task_status" => self.status(read(given)?).await,
            "cancel_task" => self.cancel(read(given)?).await,
            _ => self.delete(read(given)?).await,
        }
    }

    async fn create(&self, created: Created) -> ToolCallResult {
        let agent = created.agent_id.clone().map(agent_id).transpose()?;
        let metadata = metadata(&created, agent.is_some())?;
        let after = self.earlier(&created.after).await?;
        let task = |id| NewTask {
            name: created.name.clone(),
            description: created.description.clone(),
            owner: created.owner.clone().unwrap_or_else(|| "system".to_owned()),
            metadata: metadata.clone(),
            priority: created.priority,
            after: after.clone(),
            ..NewTask::new(id)
        };
        if let Some(id) = &created.task_id {
            let row = self.make(task(task_id(id)?), agent.as_ref()).await?;
            return Ok(self.describe(&row));
        }
        let mut refused = ToolError::new(EXECUTION_FAILED, "no id is free");
        for id in free_ids(self.registry.coordinator.now().await?) {
            match self.make(task(id), agent.as_ref()).await {
                Err(error) if matches!(error.code, "TASK_CREATE_FAILED" | "FOLDER_TAKEN") => refused = error,
                row => return Ok(self.describe(&row?)),
            }
        }
        Err(refused)
    }

    /// Returns the ids of earlier tasks, which must exist.
    async fn earlier(&self, after: &[String]) -> Result<Vec<TaskId>, ToolError> {
        let mut earlier = Vec::new();
        for id in after {
            let id = task_id(id)?;
            self.row(&id).await?;
            earlier.push(id);
        }
        Ok(earlier)
    }

    async fn make(&self, task: NewTask, agent: Option<&AgentId>) -> Result<TaskRow, ToolError> {
        match agent {
            Some(agent) => self.start_for(&task.id.clone(), agent.clone(), Some(task)).await,
            None => Ok(self.registry.lifecycle.create(task).await?),
        }
    }

    /// Gives an agent the task and a workspace. The workspace is made first, so that a task is begun only where its agent can work.
    async fn start_for(
        &self,
        id: &TaskId,
        agent: AgentId,
        new: Option<NewTask>,
    ) -> Result<TaskRow, ToolError> {
        let made = self.registry.make_workspace(id).await;
        made.map_err(|error| {
            ToolError::new(EXECUTION_FAILED, format!("its workspace cannot be made: {error}"))
        })?;
        Ok(self.attached.attach(id, agent, new).await?)
    }

    async fn attach(&self, attach: Attach) -> ToolCallResult {
        let (id, agent) = (task_id(&attach.task_id)?, agent_id(attach.agent_id)?);
        if self.row(&id).await?.record.status() == TaskStatus::Waiting {
            let [approve, deny] = self.answers(&id);
            let told = format!("`{id}` waits for the answer of a user: `{approve}` or `{deny}`");
            return Err(ToolError::new("INVALID_TRANSITION", told));
        }
        let row = self.start_for(&id, agent, None).await?;
        Ok(self.describe(&row))
    }

    async fn detach(&self, detach: Detach) -> ToolCallResult {
        let id = task_id(&detach.task_id)?;
        let one = self.attachment(&id).await?;
        if let Some(agent) = &detach.agent_id
            && agent != one.agent.as_str()
        {
            let told = format!("{} works on `{id}`, not {agent}", one.agent.as_str());
            return Err(ToolError::new(INVALID_REQUEST, told));
        }
        let step = match detach.outcome.as_deref() {
            Some("completed") => TaskStep::Complete(TaskResult {
                success: true,
                status: None,
                data: detach.result,
                error: None,
                message: None,
                by_hand: false,
                extra: Extra::default(),
            }),
            Some("failed") => TaskStep::Fail(
                detach
                    .error
                    .unwrap_or_else(|| "the agent gave no reason".to_owned())
                    .into(),
            ),
            _ => TaskStep::Requeue("DETACHED".to_owned()),
        };
        let row = one.lifecycle.take(&id, &step).await?;
        self.attached.leave(&id).await;
        Ok(self.describe(&row))
    }

    async fn execute(&self, given: Execute) -> ToolCallResult {
        let id = task_id(&given.task_id)?;
        let one = self.attachment(&id).await?;
        let world = &self.registry.world;
        let marker = format!("task/{id}/{}", world.ids.nonce());
        let limit = Duration::from_millis(given.timeout);
        let done = tokio::select! {
            done = execute(world, self.registry.workspace(&id), &given.command, limit, marker) => done,
            () = one.is_over.cancelled() => {
                return Err(ToolError::new(EXECUTION_FAILED, format!("`{id}` is cancelled or lost; the command was stopped")));
            }
        };
        let done = done.map_err(|error| ToolError::new(EXECUTION_FAILED, error.to_string()))?;
        let took = u64::try_from(done.took.as_millis()).unwrap_or(u64::MAX);
        let told = json!({"exitCode": done.exit.code(), "timedOut": done.timed_out, "duration": took});
        self.note(&id, one.agent.as_str(), told.clone()).await?;
        let mut told = told;
        told["stdout"] = json!(done.stdout.text());
        told["stderr"] = json!(done.stderr.text());
        told["cut"] = json!(done.stdout.is_cut || done.stderr.is_cut);
        Ok(told)
    }

    /// Writes a line into the log of the task, without the command: it may hold a secret.
    async fn note(&self, id: &TaskId, agent: &str, told: Value) -> Result<(), ToolError> {
        let message = format!("Command of {agent} ended");
        let note = move |files: &hankweave_tasks::layers::TaskFiles| {
            files.append_log(&[files.entry(LogLevel::Info, message.clone(), Some(told.clone()))])
        };
        Ok(self.registry.files(&self.row(id).await?).run(note).await?)
    }

    async fn list(&self, listed: ListParams) -> ToolCallResult {
        let query = ListQuery {
            filter: TaskFilter {
                status: listed.status,
                owner: listed.owner,
            },
            offset: listed.offset,
            limit: Some(listed.limit.unwrap_or(100)),
        };
        let total = self.registry.coordinator.count(query.filter.clone()).await?;
        let rows = self.registry.coordinator.tasks(query).await?;
        Ok(json!({"tasks": rows, "total": total}))
    }

    async fn status(&self, named: TaskIdParams) -> ToolCallResult {
        let row = self.row(&task_id(&named.task_id)?).await?;
        let files = self.registry.files(&row);
        let (state, checkpoints) = files
            .run(|files| Ok((files.load_state()?, files.checkpoints()?)))
            .await?;
        let mut told = self.describe(&row);
        told["data"] = json!(state.map(|state| state.data));
        told["checkpoints"] = json!(checkpoints.valid.len());
        told["attachedHere"] = json!(self.attached.get(row.id()).is_some());
        Ok(told)
    }

    async fn cancel(&self, named: TaskIdParams) -> ToolCallResult {
        let id = task_id(&named.task_id)?;
        let row = match self.attached.get(&id) {
            Some(one) => {
                let row = one.lifecycle.cancel(&id).await?;
                self.attached.leave(&id).await;
                row
            }
            None => cancel_or_ask(&self.registry, &id).await?,
        };
        Ok(self.describe(&row))
    }

    async fn delete(&self, named: TaskIdParams) -> ToolCallResult {
        let id = task_id(&named.task_id)?;
        let row = self.registry.lifecycle.delete(&id).await?;
        Ok(json!({"task": row, "deleted": true}))
    }

    async fn row(&self, id: &TaskId) -> Result<TaskRow, TaskError> {
        let row = self.registry.coordinator.task(id.clone()).await?;
        row.ok_or_else(|| TaskError::TaskNotFound(id.to_string()))
    }

    async fn attachment(&self, id: &TaskId) -> Result<Attachment, ToolError> {
        self.row(id).await?;
        self.attached.get(id).ok_or_else(|| {
            let told =
                format!("no agent works on `{id}` through this server; attach_agent_to_task lets one begin");
            ToolError::new(INVALID_REQUEST, told)
        })
    }

    fn describe(&self, row: &TaskRow) -> Value {
        let mut told = json!({
            "task": row, "folder": self.registry.files(row).path(), "workspace": self.registry.workspace(row.id()),
        });
        if row.record.status() == TaskStatus::Waiting {
            told["answerWith"] = json!(self.answers(row.id()));
        }
        if let Some(command) = resume_command(&self.registry, row) {
            told["continueWith"] = json!(command);
        }
        told
    }

    /// Returns the commands with which a user answers the question of a task.
    fn answers(&self, id: &TaskId) -> [String; 2] {
        ["approve", "deny"].map(|answer| self.registry.command(&format!("task {answer} {id}")))
    }
}

/// Returns the metadata of the task's run, if a worker is to run it.
fn metadata(created: &Created, has_agent: bool) -> Result<Map<String, Value>, ToolError> {
    let mut metadata = created.metadata.clone();
    if metadata.contains_key("run") {
        return Err(ToolError::request(vec![
            "/metadata/run: `hank`, `data` and `arguments` say what the task runs".to_owned(),
        ]));
    }
    match (&created.hank, has_agent) {
        (Some(hank), _) => {
            let order = task_spec(
                hank,
                created.data.as_deref().map(Path::new),
                created.arguments.clone(),
            )
            .map_err(|failure| ToolError::request(vec![format!("/hank: {}", failure.message())]))?;
            order
                .put_into(&mut metadata)
                .map_err(|error| ToolError::request(vec![format!("/hank: {error}")]))?;
        }
        (None, true) => {}
        (None, false) => {
            return Err(ToolError::request(vec![
                "either `hank`, for a worker, or `agentId`, for an agent that works on it here, is needed"
                    .to_owned(),
            ]));
        }
    }
    Ok(metadata)
}
