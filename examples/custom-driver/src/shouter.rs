//! An agent that is no process: it writes its prompt in capital letters.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use hankweave_agents::Launch;
use hankweave_core::agent::{AgentEvent, Capabilities, CostReporting, ExitOutcome, ProcessExit, Verdict};
use hankweave_core::id::SessionId;
use hankweave_runtime::driver::{AgentControl, AgentDriver, RunningAgent, StartError};

/// The driver; hank.json names it with `"agent": "shouter"`.
pub(crate) struct Shouter;

impl AgentDriver for Shouter {
    fn name(&self) -> &str {
        "shouter"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            cost: CostReporting::Exact,
            model_choice: true,
            ..Capabilities::NONE
        }
    }

    fn start<'a>(&'a self, launch: Launch) -> BoxFuture<'a, Result<RunningAgent, StartError>> {
        ready(shout(launch)).boxed()
    }
}

fn shout(launch: Launch) -> Result<RunningAgent, StartError> {
    let file = launch.work_dir.join("SHOUT.txt");
    let text = launch.prompt.to_uppercase();
    std::fs::write(&file, &text).map_err(|source| StartError::Prepare { path: file, source })?;
    let events = vec![
        AgentEvent::SessionStarted {
            session_id: SessionId::new(launch.marker.clone()).expect("a marker is not empty"),
            model: Some(launch.model),
        },
        AgentEvent::Message {
            text,
            parent_tool_use_id: None,
        },
        AgentEvent::Finished(ExitOutcome::new(ProcessExit::Exited(0), Verdict::Success)),
    ];
    Ok(RunningAgent {
        pid: None,
        log_path: launch.log_path,
        // All of its events are there before the runner reads the first one.
        events: events.into(),
        control: Box::new(Finished),
    })
}

/// There is nothing left to stop.
struct Finished;

impl AgentControl for Finished {
    fn stop<'a>(&'a self, _: Duration) -> BoxFuture<'a, ()> {
        ready(()).boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hankweave_driver_suite::{DriverSuite, Scene};

    use super::*;

    /// It is no process and has done its work before a caller could stop it, so no other scene can be shown.
    #[tokio::test]
    async fn it_keeps_the_contract_of_drivers() {
        let suite = DriverSuite::new(Arc::new(Shouter)).scene(Scene::Succeeds, |launch| {
            launch.prompt = "hello".to_owned();
        });
        suite.run().await.assert_kept();
    }
}
