//! Starting: the agent is started with its prompt, or once more in its session.

use std::path::PathBuf;

use hankweave_agents::Launch;
use hankweave_core::agent::FailureReason;
use hankweave_core::codon::{Codon, Edge, Fail, Failed, Initialize, Initializing, Running, Starting};
use hankweave_core::cost::Usd;
use hankweave_core::hank::paths::reference;
use hankweave_core::hank::prompt::PromptValues;
use hankweave_core::hank::{AgentChoice, CodonConfig};
use hankweave_core::id::{Pid, SessionId};
use hankweave_core::thread::prompt_values;
use hankweave_core::view::prompt_excerpt;
use hankweave_core::wire::Event;

use super::context::{CodonRun, EarlyEnd, RunContext, StageResult};
use super::result;
use super::watchers::HasSentinels;
use crate::driver::{ProcessHost, RunningAgent, StartError, overridden_sandbox};
use crate::hank_files::PromptFileError;

pub(super) async fn start(
    codon: &CodonRun<'_>,
    starting: Codon<Starting>,
) -> StageResult<(Codon<Initializing>, RunningAgent)> {
    if codon.entry.codon.continues() && codon.session.is_none() && !codon.session_is_elsewhere {
        let reason = FailureReason::unknown(
            false,
            "there is no earlier session that this codon could continue",
        );
        return Err(codon.fail(starting, -1, reason).await);
    }
    if let Some(why) = codon.interruption() {
        return Err(codon.end_early(starting, -1, why).await);
    }
    // Read before the agent starts, so that its process is recorded without delay.
    let beginning_of_prompt = prompt_excerpt(&prompt_of(codon.run, codon.config).unwrap_or_default());
    let launch = launch(codon);
    let prompt = launch
        .as_ref()
        .map_or_else(|_| String::new(), |launch| launch.prompt.clone());
    let agent = match spawn(codon, launch).await {
        Ok(agent) => agent,
        Err(failure) => return Err(failure.end(codon, starting).await),
    };
    let host = ProcessHost::new(&codon.run.world);
    codon
        .remarks
        .extend(overridden_sandbox(&codon.run.hank, codon.config, &host));
    let initialize = Initialize {
        // A driver without a process has no pid; the record needs a number, and no process has the pid 0.
        agent_pid: Pid(agent.pid.unwrap_or(0)),
        agent_log_path: codon.run.dir.relative_to_state(&agent.log_path),
        previous_session_id: codon.session.clone(),
    };
    let (initializing, _) = codon
        .step_noting(starting, initialize, |event| {
            event.with_asked(&beginning_of_prompt)
        })
        .await;
    let prompted = Event::codon_prompted(codon.entry.codon_id.clone(), &prompt);
    codon.run.publish(prompted).await;
    Ok((initializing, agent))
}

/// Starts the agent once more, in its session and with its log.
pub(super) async fn resume(
    codon: &CodonRun<'_>,
    running: &Codon<Running>,
    prompt: String,
    max_dollars: Option<Usd>,
) -> Result<RunningAgent, SpawnFailure> {
    let session = &running.agent_session_id;
    let launch = launch(codon).map(|launch| Launch {
        prompt: result::with_request(codon, prompt),
        resume: Some(session.clone()),
        fork: false,
        carried: Some(carried(codon, session) + running.current_cost),
        max_dollars,
        log_path: codon.run.dir.state_dir().join(&running.agent_log_path),
        log_goes_on: true,
        ..launch
    });
    spawn(codon, launch).await
}

/// Returns a prompt of the hank with its variables filled in.
pub(super) fn rendered(codon: &CodonRun<'_>, prompt: &str) -> String {
    values(codon.run).render(prompt)
}

/// Returns the prompt of any codon with its variables filled in; `None` when the prompt cannot be read.
pub(crate) fn prompt_of(run: &RunContext, config: &CodonConfig) -> Option<String> {
    let prompt = run.loaded.prompt_text(&*run.world.disk, config).ok()?;
    Some(values(run).render(&prompt.text))
}

/// Returns the values for prompts and questions of the run.
pub(crate) fn values(run: &RunContext) -> PromptValues {
    prompt_values(run.dir.root(), &run.hank, &run.manager.snapshot())
}

async fn spawn(
    codon: &CodonRun<'_>,
    launch: Result<Launch, FailureReason>,
) -> Result<RunningAgent, SpawnFailure> {
    let launch = launch.map_err(SpawnFailure::Other)?;
    let agent = codon.config.agent_name();
    let unknown = || FailureReason::unknown(false, format!("the agent `{agent}` is not known"));
    let driver = codon.run.drivers.get(agent);
    let driver = driver.ok_or_else(|| SpawnFailure::Other(unknown()))?;
    if codon.run.failure().is_some() {
        let reason = FailureReason::unknown(true, "the state could not be saved");
        return Err(SpawnFailure::Other(reason));
    }
    driver.start(launch).await.map_err(|error| {
        let reason = FailureReason::unknown(false, crate::error::chain(&error));
        match error {
            StartError::Prepare { .. } => SpawnFailure::Disk(reason),
            _ => SpawnFailure::Other(reason),
        }
    })
}

/// Why the agent was not started.
pub(super) enum SpawnFailure {
    /// The folders and files that the agent needs could not be written.
    Disk(FailureReason),
    /// Any other reason.
    Other(FailureReason),
}

impl SpawnFailure {
    /// Ends the codon.
    pub(super) async fn end<S: HasSentinels>(self, codon: &CodonRun<'_>, state: Codon<S>) -> EarlyEnd
    where
        Fail: Edge<S, To = Failed>,
    {
        match self {
            Self::Disk(reason) => codon.fail_for_disk(state, -1, reason).await,
            Self::Other(reason) => codon.fail(state, -1, reason).await,
        }
    }
}

/// Returns the cost of earlier attempts in a session, which some agents count again.
fn carried(codon: &CodonRun<'_>, session: &SessionId) -> Usd {
    codon.run.manager.snapshot().carried_in(session).cost
}

/// The prompt of an agent that continues in its own session: the conversation begins with the task already.
const CONTINUE_PROMPT: &str = "You were interrupted before you had finished. Your earlier work and the files are as you left them; \
    what you had running in the background was ended. Continue where you stopped, and finish the task as it was given to you.";

/// Returns everything that the driver needs to know, with the prompts read and their variables filled in.
fn launch(codon: &CodonRun<'_>) -> Result<Launch, FailureReason> {
    let run = codon.run;
    let unreadable = |error: PromptFileError| FailureReason::unknown(true, crate::error::chain(&error));
    let disk = &*run.world.disk;
    let values = values(run);
    let filled = |text: &str| {
        let filled = values.fill(text);
        filled.map_err(|why| FailureReason::unknown(false, why))
    };
    let prompt = match codon.in_own_session {
        true => CONTINUE_PROMPT.to_owned(),
        false => {
            let prompt = run.loaded.prompt_text(disk, codon.config).map_err(unreadable)?;
            let mut prompt = filled(&prompt.text)?;
            // A loop whose check did not pass: the next iteration gets the message of that check.
            let before = run.manager.snapshot().check_before(codon.entry);
            if let Some(says) = before.and_then(|check| check.says) {
                prompt = format!("{prompt}\n\n{says}");
            }
            if let Some(handover) = &codon.handover {
                prompt = format!("{prompt}\n\n{handover}");
            }
            prompt
        }
    };
    let system = run.loaded.system_prompt(disk, codon.config).map_err(unreadable)?;
    let system = system.map(|text| filled(&text)).transpose()?;
    let agent = codon.config.agent_name();
    let choice = codon.config.agent.as_ref();
    let script = match choice {
        Some(AgentChoice::Script { script }) => {
            let names = reference(script).expect("its spelling was checked when the hank was read");
            Some(run.loaded.root.join(PathBuf::from_iter(names)))
        }
        _ => None,
    };
    let acp = match choice {
        Some(AgentChoice::Acp(agent)) => Some(agent),
        _ => None,
    };
    Ok(Launch {
        model: codon.config.model.clone().unwrap_or_else(|| agent.to_owned()),
        prompt: result::with_request(codon, prompt),
        appended_system_prompt: system,
        resume: codon.session.clone(),
        fork: codon.is_fork,
        env: codon.config.env.clone(),
        max_dollars: codon.limits.dollars,
        carried: codon.session.as_ref().map(|session| carried(codon, session)),
        prices: run.options.prices.clone(),
        iteration: codon.entry.loop_context.as_ref().map(|context| context.iteration),
        work_dir: run.dir.root().to_owned(),
        log_path: run.dir.agent_log(&run.run_id, &codon.entry.codon_id, agent),
        log_goes_on: false,
        auto_compact: codon.config.auto_compact == Some(true),
        temp_dir: run.dir.temp_dir(),
        script,
        program: None,
        command: choice.map_or_else(Vec::new, |choice| choice.command().to_owned()),
        permissions: acp.and_then(|agent| agent.permissions).unwrap_or_default(),
        options: run.hank.agent_options(codon.config),
        result: codon.config.result.clone(),
        auth: acp.and_then(|agent| agent.auth.clone()),
        marker: codon.marker(),
        grace: run.options.grace,
    })
}
