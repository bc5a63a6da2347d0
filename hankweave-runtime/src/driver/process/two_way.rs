//! Two-way conversation with an agent: the actions that its decoder orders are carried out.
//!
//! The attendant owns the standard input of the agent. It waits only for the agent to read, and a stop of the agent does
//! not wait for that.

use std::pin::Pin;

use hankweave_agents::AcpAction;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

/// The standard input of an agent.
pub(super) type AgentInput = Pin<Box<dyn AsyncWrite + Send>>;

/// Lists of actions that may wait; then the agent waits at its pipe.
pub(super) const WAITING_ACTIONS: usize = 4;

/// Talks to one agent.
pub(super) struct AcpHost {
    /// `None` if the agent has closed its input, or is to get no more messages.
    input: Option<AgentInput>,
    /// Message that asks the agent to stop.
    stop_with: Option<String>,
    is_stopping: bool,
}

/// Signals between the attendant and the task that ends the process.
pub(super) struct StopSignals {
    /// The agent is to stop what it does.
    pub(super) stopping: watch::Receiver<bool>,
    /// Whether the work of the agent is done.
    pub(super) work_done_sender: watch::Sender<bool>,
}

impl AcpHost {
    pub(super) fn new(input: AgentInput) -> Self {
        Self {
            input: Some(input),
            stop_with: None,
            is_stopping: false,
        }
    }

    /// Works until nothing more can be ordered.
    pub(super) async fn run(mut self, mut actions: mpsc::Receiver<Vec<AcpAction>>, mut signals: StopSignals) {
        loop {
            // Every arm is cancel safe: they only wait, or take nothing before they return.
            tokio::select! {
                biased;
                () = is_true(&mut signals.stopping), if !self.is_stopping => self.stop().await,
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
        }
    }

    /// Writes a line. An agent that has closed its standard input gets no more lines; its exit shows whether that matters.
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

/// Waits until the sign is given; forever if its sender was dropped.
pub(super) async fn is_true(sign: &mut watch::Receiver<bool>) {
    if sign.wait_for(|given| *given).await.is_err() {
        std::future::pending().await
    }
}
