//! An agent that talks both ways: it is told what its decoder orders, and what it asks for is done (AGENT-26).
//!
//! The attendant owns the standard input of the agent and the processes that it has asked for. It waits only for the agent to read, and whoever stops the
//! agent does not wait for that.

mod files;
mod terminals;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::pin::Pin;

use hankweave_agents::AcpAction;
use hankweave_agents::acp::{AcpRequest, BAD_PARAMS, FAILED, error_line, result_line};
use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

use self::files::AgentFiles;
use self::terminals::Terminals;
use super::host::ProcessHost;

/// The standard input of an agent.
pub(super) type AgentInput = Pin<Box<dyn AsyncWrite + Send>>;

/// Lists of actions that may wait; then the agent waits at its pipe.
pub(super) const WAITING_ACTIONS: usize = 4;

/// Talks to one agent.
pub(super) struct AcpHost {
    /// `None` when the agent no longer listens, or is to hear nothing more.
    input: Option<AgentInput>,
    workspace: AgentFiles,
    terminals: Terminals,
    /// Message that asks the agent to stop.
    stop_with: Option<String>,
    is_stopping: bool,
}

/// Working directory of the agent, and the mark of its processes.
#[derive(Debug, Clone)]
pub(super) struct AgentEnvironment {
    pub(super) work_dir: PathBuf,
    pub(super) env: BTreeMap<OsString, OsString>,
    pub(super) marker: String,
}

/// How the attendant and whoever ends the process know of each other.
pub(super) struct StopSignals {
    /// The agent is to stop what it does.
    pub(super) stopping: watch::Receiver<bool>,
    /// The work of the agent is over.
    pub(super) work_done_sender: watch::Sender<bool>,
}

impl AcpHost {
    pub(super) fn new(host: &ProcessHost, input: AgentInput, place: AgentEnvironment) -> Self {
        Self {
            input: Some(input),
            workspace: AgentFiles::new(host.world(), place.work_dir.clone()),
            terminals: Terminals::new(host.clone(), place),
            stop_with: None,
            is_stopping: false,
        }
    }

    /// Works until nothing more can be ordered. What was started is killed when this is dropped.
    pub(super) async fn run(mut self, mut actions: mpsc::Receiver<Vec<AcpAction>>, mut signals: StopSignals) {
        loop {
            // Every arm is cancel safe: they only wait, or take nothing before they return.
            tokio::select! {
                biased;
                () = is_true(&mut signals.stopping), if !self.is_stopping => self.stop().await,
                ended = self.terminals.wait_ended() => self.say_all(ended).await,
                list = actions.recv() => {
                    let Some(list) = list else { return };
                    for action in list {
                        self.carry_out(action, &signals.work_done_sender).await;
                    }
                }
            }
        }
    }

    async fn stop(&mut self) {
        self.is_stopping = true;
        if let Some(line) = self.stop_with.take() {
            self.write_line(line).await;
        }
    }

    async fn carry_out(&mut self, action: AcpAction, work_done_sender: &watch::Sender<bool>) {
        match action {
            AcpAction::Say(line) => self.write_line(line).await,
            AcpAction::Permit { answer, stopped } => {
                let line = if self.is_stopping { stopped } else { answer };
                self.write_line(line).await;
            }
            AcpAction::StopWith(line) => self.stop_with = Some(line),
            AcpAction::Over => {
                self.input = None;
                work_done_sender.send_replace(true);
            }
            AcpAction::Do { id, what } => {
                if let Some(done) = self.act(&id, what).await {
                    self.write_line(done.into_line(&id)).await;
                }
            }
        }
    }

    /// Does what the agent asks for; `None` when it is answered later.
    async fn act(&mut self, id: &Value, what: AcpRequest) -> Option<RequestResult> {
        match what {
            AcpRequest::Read { path, line, limit } => {
                let read = self.workspace.read(path, line, limit).await;
                Some(RequestResult::of(read.map(|content| json!({"content": content}))))
            }
            AcpRequest::Write { path, content } => {
                let written = self.workspace.write(path, content).await;
                Some(RequestResult::of(written.map(|()| json!({}))))
            }
            AcpRequest::Start {
                command,
                args,
                env,
                cwd,
                output_byte_limit,
            } => {
                let folder = self.workspace.folder(cwd).await;
                let started = folder.and_then(|folder| {
                    self.terminals
                        .start(command, args, env, folder, output_byte_limit)
                });
                Some(RequestResult::of(started.map(|name| json!({"terminalId": name}))))
            }
            AcpRequest::Output(name) => Some(RequestResult::from_result(self.terminals.output(&name))),
            AcpRequest::Wait(name) => match self.terminals.wait(&name, id) {
                Some(status) => status.map(RequestResult::Result),
                None => Some(RequestResult::from_result(None)),
            },
            AcpRequest::Kill(name) => Some(RequestResult::from_result(
                self.terminals.kill(&name).then(|| json!({})),
            )),
            AcpRequest::Release(name) => Some(RequestResult::from_result(
                self.terminals.release(&name).then(|| json!({})),
            )),
        }
    }

    async fn say_all(&mut self, lines: Vec<String>) {
        for line in lines {
            self.write_line(line).await;
        }
    }

    /// An agent that has closed its standard input hears no more; how it ends tells whether that matters.
    async fn write_line(&mut self, mut line: String) {
        let Some(input) = &mut self.input else { return };
        line.push('\n');
        let mut said = input.write_all(line.as_bytes()).await;
        if said.is_ok() {
            said = input.flush().await;
        }
        if said.is_err() {
            self.input = None;
        }
    }
}

/// Outcome of a request.
enum RequestResult {
    Result(Value),
    Error(i64, String),
}

impl RequestResult {
    fn of(result: Result<Value, String>) -> Self {
        result.map_or_else(|why| Self::Error(FAILED, why), Self::Result)
    }

    fn from_result(result: Option<Value>) -> Self {
        match result {
            Some(result) => Self::Result(result),
            None => Self::Error(BAD_PARAMS, "there is no such terminal".to_owned()),
        }
    }

    fn into_line(self, id: &Value) -> String {
        match self {
            Self::Result(result) => result_line(id, &result),
            Self::Error(code, why) => error_line(id, code, &why),
        }
    }
}

/// Waits until the sign is given; for ever when nobody is left to give it.
pub(super) async fn is_true(sign: &mut watch::Receiver<bool>) {
    if sign.wait_for(|given| *given).await.is_err() {
        std::future::pending().await
    }
}
