//! The work of the tools: each does what the command about tasks with that meaning does (CLI-55).

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

use super::attached::{Attachment, Attachments};
use super::execute::execute;
use super::refusal::{EXECUTION_FAILED, INVALID_REQUEST, ToolError};
use crate::registry::Registry;
use crate::task::{cancel_or_ask, free_ids, resume_command, task_spec};

/// JSON for the agent, or the error.
type ToolCallResult = Result<Value, ToolError>;

pub(super) struct Tools {
    registry: Registry,
    attachments: Attachments,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateParams {
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
struct AttachParams {
    task_id: String,
    agent_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DetachParams {
    task_id: String,
    agent_id: Option<String>,
    outcome: Option<String>,
    result: Option<Value>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecuteParams {
    task_id: String,
    command: String,
    /// Milliseconds.
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

/// Reads arguments that fit the schema of their tool.
fn read<T: DeserializeOwned>(mut arguments: JsonObject) -> Result<T, ToolError> {
    arguments.values_mut().for_each(make_integer);
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| ToolError::new(INVALID_REQUEST, error.to_string()))
}

/// Largest number up to which a float is exactly one integer.
pub(super) const MAX_INTEGER: u64 = (1 << 53) - 1;

/// Replaces a number such as `5000.0`, which is an integer in JSON Schema but not for serde. Other values stay.
fn make_integer(value: &mut Value) {
    let number = value.as_f64().filter(|_| value.is_f64());
    #[expect(
        clippy::cast_precision_loss,
        reason = "a float has all integers up to this one"
    )]
    let whole = number.filter(|number| number.fract() == 0.0 && number.abs() <= MAX_INTEGER as f64);
    if let Some(whole) = whole {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number that is in range")]
        let integer = whole as i64;
        *value = integer.into();
    }
}

fn task_id(text: &str) -> Result<TaskId, TaskError> {
    Ok(TaskId::new(text)?)
}

fn agent_id(text: String) -> Result<AgentId, ToolError> {
    AgentId::new(text).map_err(|error| ToolError::request(vec![format!("/agentId: {error}")]))
}

impl Tools {
    pub(super) fn new(registry: Registry, attachments: Attachments) -> Self {
        Self {
            registry,
            attachments,
        }
    }

    /// Calls a tool by its name, which must exist, with arguments that fit its schema.
    pub(super) async fn call(&self, name: &str, arguments: JsonObject) -> ToolCallResult {
        match name {
            "create_task_sandbox" => self.create(read(arguments)?).await,
            "attach_agent_to_task" => self.attach(read(arguments)?).await,
            "detach_agent_from_task" => self.detach(read(arguments)?).await,
            "execute_in_task" => self.execute(read(arguments)?).await,
            "list_tasks" => self.list(read(arguments)?).await,
            "get_task_status" => self.status(read(arguments)?).await,
            "cancel_task" => self.cancel(read(arguments)?).await,
            // `delete_task`
            _ => self.delete(read(arguments)?).await,
        }
    }

    async fn create(&self, params: CreateParams) -> ToolCallResult {
        let agent = params.agent_id.clone().map(agent_id).transpose()?;
        let metadata = metadata(&params, agent.is_some())?;
        let after = self.existing_ids(&params.after).await?;
        let task = |id| NewTask {
            name: params.name.clone(),
            description: params.description.clone(),
            owner: params.owner.clone().unwrap_or_else(|| "system".to_owned()),
            metadata: metadata.clone(),
            priority: params.priority,
            after: after.clone(),
            ..NewTask::new(id)
        };
        if let Some(id) = &params.task_id {
            let row = self.make(task(task_id(id)?), agent.as_ref()).await?;
            return Ok(self.describe(&row));
        }
        // An id may be in use already: tries the next one.
        let mut last_error = ToolError::new(EXECUTION_FAILED, "no id is free");
        for id in free_ids(self.registry.coordinator.now().await?) {
            match self.make(task(id), agent.as_ref()).await {
                Err(error) if matches!(error.code, "TASK_CREATE_FAILED" | "FOLDER_TAKEN") => {
                    last_error = error
                }
                row => return Ok(self.describe(&row?)),
            }
        }
        Err(last_error)
    }

    /// Returns the ids of tasks, all of which must exist.
    async fn existing_ids(&self, texts: &[String]) -> Result<Vec<TaskId>, ToolError> {
        let mut ids = Vec::new();
        for text in texts {
            let id = task_id(text)?;
            self.row(&id).await?;
            ids.push(id);
        }
        Ok(ids)
    }

    /// Creates a task; for an agent, if given, that is attached at once.
    async fn make(&self, task: NewTask, agent: Option<&AgentId>) -> Result<TaskRow, ToolError> {
        match agent {
            Some(agent) => self.start_for(&task.id.clone(), agent.clone(), Some(task)).await,
            None => Ok(self.registry.lifecycle.create(task).await?),
        }
    }

    /// Attaches an agent to a task, which is created first if it is `new`. The workspace is made before that: without one the task must not start.
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
        Ok(self.attachments.attach(id, agent, new).await?)
    }

    async fn attach(&self, params: AttachParams) -> ToolCallResult {
        let (id, agent) = (task_id(&params.task_id)?, agent_id(params.agent_id)?);
        if self.row(&id).await?.record.status() == TaskStatus::Waiting {
            let [approve, deny] = self.answers(&id);
            let message = format!("`{id}` waits for the answer of a user: `{approve}` or `{deny}`");
            return Err(ToolError::new("INVALID_TRANSITION", message));
        }
        let row = self.start_for(&id, agent, None).await?;
        Ok(self.describe(&row))
    }

    async fn detach(&self, params: DetachParams) -> ToolCallResult {
        let id = task_id(&params.task_id)?;
        let attachment = self.attachment(&id).await?;
        if let Some(agent) = &params.agent_id
            && agent != attachment.agent.as_str()
        {
            let message = format!("{} works on `{id}`, not {agent}", attachment.agent.as_str());
            return Err(ToolError::new(INVALID_REQUEST, message));
        }
        let step = match params.outcome.as_deref() {
            Some("completed") => TaskStep::Complete(TaskResult {
                success: true,
                status: None,
                data: params.result,
                error: None,
                message: None,
                by_hand: false,
                extra: Extra::default(),
            }),
            Some("failed") => TaskStep::Fail(
                params
                    .error
                    .unwrap_or_else(|| "the agent gave no reason".to_owned())
                    .into(),
            ),
            _ => TaskStep::Requeue("DETACHED".to_owned()),
        };
        let row = attachment.lifecycle.take(&id, &step).await?;
        self.attachments.leave(&id).await;
        Ok(self.describe(&row))
    }

    async fn execute(&self, params: ExecuteParams) -> ToolCallResult {
        let id = task_id(&params.task_id)?;
        let attachment = self.attachment(&id).await?;
        let world = &self.registry.world;
        let marker = format!("task/{id}/{}", world.ids.nonce());
        let limit = Duration::from_millis(params.timeout);
        let output = tokio::select! {
            output = execute(world, self.registry.workspace(&id), &params.command, limit, marker) => output,
            () = attachment.ended.cancelled() => {
                return Err(ToolError::new(EXECUTION_FAILED, format!("`{id}` is cancelled or lost; the command was stopped")));
            }
        };
        let output = output.map_err(|error| ToolError::new(EXECUTION_FAILED, error.to_string()))?;
        let took = u64::try_from(output.took.as_millis()).unwrap_or(u64::MAX);
        let mut answer =
            json!({"exitCode": output.exit.code(), "timedOut": output.timed_out, "duration": took});
        // The log gets no output of the command.
        self.log_command(&id, attachment.agent.as_str(), answer.clone())
            .await?;
        answer["stdout"] = json!(output.stdout.text());
        answer["stderr"] = json!(output.stderr.text());
        answer["cut"] = json!(output.stdout.is_cut || output.stderr.is_cut);
        Ok(answer)
    }

    /// Writes a line into the log of the task, without the command: it may hold a secret.
    async fn log_command(&self, id: &TaskId, agent: &str, data: Value) -> Result<(), ToolError> {
        let message = format!("Command of {agent} ended");
        let append = move |files: &hankweave_tasks::layers::TaskFiles| {
            files.append_log(&[files.entry(LogLevel::Info, message.clone(), Some(data.clone()))])
        };
        Ok(self.registry.files(&self.row(id).await?).run(append).await?)
    }

    async fn list(&self, params: ListParams) -> ToolCallResult {
        let query = ListQuery {
            filter: TaskFilter {
                status: params.status,
                owner: params.owner,
            },
            offset: params.offset,
            limit: Some(params.limit.unwrap_or(100)),
        };
        let total = self.registry.coordinator.count(query.filter.clone()).await?;
        let rows = self.registry.coordinator.tasks(query).await?;
        Ok(json!({"tasks": rows, "total": total}))
    }

    async fn status(&self, params: TaskIdParams) -> ToolCallResult {
        let row = self.row(&task_id(&params.task_id)?).await?;
        let files = self.registry.files(&row);
        let (state, checkpoints) = files
            .run(|files| Ok((files.load_state()?, files.checkpoints()?)))
            .await?;
        let mut answer = self.describe(&row);
        answer["data"] = json!(state.map(|state| state.data));
        answer["checkpoints"] = json!(checkpoints.valid.len());
        answer["attachedHere"] = json!(self.attachments.get(row.id()).is_some());
        Ok(answer)
    }

    async fn cancel(&self, params: TaskIdParams) -> ToolCallResult {
        let id = task_id(&params.task_id)?;
        let row = match self.attachments.get(&id) {
            Some(attachment) => {
                let row = attachment.lifecycle.cancel(&id).await?;
                self.attachments.leave(&id).await;
                row
            }
            None => cancel_or_ask(&self.registry, &id).await?,
        };
        Ok(self.describe(&row))
    }

    async fn delete(&self, params: TaskIdParams) -> ToolCallResult {
        let id = task_id(&params.task_id)?;
        let row = self.registry.lifecycle.delete(&id).await?;
        Ok(json!({"task": row, "deleted": true}))
    }

    /// Returns a task, which must exist.
    async fn row(&self, id: &TaskId) -> Result<TaskRow, TaskError> {
        let row = self.registry.coordinator.task(id.clone()).await?;
        row.ok_or_else(|| TaskError::TaskNotFound(id.to_string()))
    }

    /// Returns the attachment of a task, which must exist.
    async fn attachment(&self, id: &TaskId) -> Result<Attachment, ToolError> {
        self.row(id).await?;
        self.attachments.get(id).ok_or_else(|| {
            let message =
                format!("no agent works on `{id}` through this server; attach_agent_to_task lets one begin");
            ToolError::new(INVALID_REQUEST, message)
        })
    }

    /// Returns a task as JSON, with its folders and the commands of a user that let it continue.
    fn describe(&self, row: &TaskRow) -> Value {
        let mut answer = json!({
            "task": row, "folder": self.registry.files(row).path(), "workspace": self.registry.workspace_of(row),
        });
        if row.record.status() == TaskStatus::Waiting {
            answer["answerWith"] = json!(self.answers(row.id()));
        }
        if let Some(command) = resume_command(&self.registry, row) {
            answer["continueWith"] = json!(command);
        }
        answer
    }

    /// Returns the commands with which a user answers the question of a task.
    fn answers(&self, id: &TaskId) -> [String; 2] {
        ["approve", "deny"].map(|answer| self.registry.command(&format!("task {answer} {id}")))
    }
}

/// Returns the metadata of a new task, with what its run needs if a worker is to run a hank.
fn metadata(params: &CreateParams, has_agent: bool) -> Result<Map<String, Value>, ToolError> {
    let mut metadata = params.metadata.clone();
    if metadata.contains_key("run") {
        return Err(ToolError::request(vec![
            "/metadata/run: `hank`, `data` and `arguments` say what the task runs".to_owned(),
        ]));
    }
    match (&params.hank, has_agent) {
        (Some(hank), _) => {
            let spec = task_spec(
                hank,
                params.data.as_deref().map(Path::new),
                params.arguments.clone(),
            )
            .map_err(|failure| ToolError::request(vec![format!("/hank: {}", failure.message())]))?;
            spec.put_into(&mut metadata)
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
