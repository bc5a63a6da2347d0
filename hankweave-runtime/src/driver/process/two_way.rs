//! Two-way conversation with an agent that speaks ACP. The attendant owns the agent's standard input, and carries out the actions that the agent's decoder
//! returns, such as writing a message.
//!
//! The attendant waits only for the agent to read its input, and a stop of the agent does not wait for that.

use std::pin::Pin;

use hankweave_agents::AcpAction;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

/// The standard input of an agent.
pub(super) type AgentInput = Pin<Box<dyn AsyncWrite + Send>>;

/// Lists of actions that may wait. If there are more, the agent's output is not read, so the agent waits at its full pipe.
pub(super) const WAITING_ACTIONS: usize = 4;

/// Writes the messages to one agent.
pub(super) struct Attendant {
    /// `None` if the agent has closed its input, or is to get no more messages.
    input: Option<AgentInput>,
    /// Message that asks the agent to stop its work; `None` if there is none, or it was sent.
    stop_message: Option<String>,
    is_stopping: bool,
}

/// Signals between the attendant and the task that ends the process.
pub(super) struct StopSignals {
    /// Becomes `true` when the agent is to stop its work.
    pub(super) stopping: watch::Receiver<bool>,
    /// Set to `true` when the work of the agent is done.
    pub(super) work_done_sender: watch::Sender<bool>,
}

impl Attendant {
    pub(super) fn new(input: AgentInput) -> Self {
        Self {
            input: Some(input),
            stop_message: None,
            is_stopping: false,
        }
    }

    /// Works until the sender of `actions` is dropped.
    pub(super) async fn run(mut self, mut actions: mpsc::Receiver<Vec<AcpAction>>, mut signals: StopSignals) {
        loop {
            // Every arm is cancel safe: it takes nothing before it returns.
            tokio::select! {
                biased;
                () = wait_until_true(&mut signals.stopping), if !self.is_stopping => self.stop().await,
                list = actions.recv() => {
                    let Some(list) = list else { return };
                    for action in list {
                        self.carry_out(action, &signals.work_done_sender).await;
                    }
                }
            }
        }
    }

    /// Asks the agent to stop its work.
    async fn stop(&mut self) {
        self.is_stopping = true;
        if let Some(line) = self.stop_message.take() {
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
            AcpAction::StopWith(line) => self.stop_message = Some(line),
            AcpAction::Over => {
                self.input = None;
                work_done_sender.send_replace(true);
            }
        }
    }

    /// Writes a line. An agent that has closed its standard input gets no more lines: the way in which it exits shows whether that is an error.
    async fn write_line(&mut self, mut line: String) {
        let Some(input) = &mut self.input else { return };
        line.push('\n');
        let mut written = input.write_all(line.as_bytes()).await;
        if written.is_ok() {
            written = input.flush().await;
        }
        if written.is_err() {
            self.input = None;
        }
    }
}

/// Waits until the signal is `true`; forever if its sender was dropped.
pub(super) async fn wait_until_true(signal: &mut watch::Receiver<bool>) {
    if signal.wait_for(|value| *value).await.is_err() {
        std::future::pending().await
    }
}
