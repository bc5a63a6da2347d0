//! The scenes, and what is looked at in them (AGENT-27).

use std::time::Duration;

use hankweave_agents::Launch;
use hankweave_core::agent::{AgentEvent, CostReporting, ExitOutcome, Verdict};
use hankweave_core::cost::UsageTotals;
use hankweave_core::id::{SessionId, check_configured_id};
use hankweave_runtime::driver::{AgentDriver, EventReceiver, RunningAgent, StartError};
use hankweave_runtime::world::process::{sweep_marked, until_ended};
use tokio::time::{Instant, timeout};

use crate::report::Report;
use crate::{PATIENCE, stage};

/// How much longer than its grace a stop may take.
const BEYOND_GRACE: Duration = Duration::from_secs(5);

const ENDS_ONCE: &str = "its events end exactly once, with the end of the agent";

/// What a driver says of itself.
pub(crate) fn statements(driver: &dyn AgentDriver, report: &mut Report) {
    let name = check_configured_id(driver.name()).err();
    report.note(
        "its name can stand in a hank and in the name of a file",
        name.map(str::to_owned),
    );
    let changes = driver.capabilities() != driver.capabilities();
    report.note(
        "what its agents can do does not change",
        changes.then(|| "two answers differ".to_owned()),
    );
}

/// All events of an agent, the end apart.
struct Played {
    events: Vec<AgentEvent>,
    outcome: ExitOutcome,
}

pub(crate) async fn success(driver: &dyn AgentDriver, set_up: &dyn Fn(&mut Launch), report: &mut Report) {
    let (_folder, mut launch) = stage(set_up);
    let Some((played, agent)) = play(driver, launch.clone(), report).await else {
        return;
    };
    let failed = match &played.outcome.verdict {
        Verdict::Success => None,
        Verdict::Failure { reason, .. } => Some(format!("{reason:?}")),
    };
    report.note("an agent that did its work has succeeded", failed);
    let session = named_session(&played, report);
    log_is_there(&agent, report);
    usage(driver, &played, report);
    if let Some(session) = session.filter(|_| driver.capabilities().resume) {
        launch.resume = Some(session.clone());
        let again = play(driver, launch, report).await;
        let named = again.as_ref().and_then(|(played, _)| session_of(&played.events));
        let other = (named != Some(&session)).then(|| format!("{session:?} became {named:?}"));
        report.note("an agent that continues with a session names the same one", other);
    }
}

pub(crate) async fn failure(driver: &dyn AgentDriver, set_up: &dyn Fn(&mut Launch), report: &mut Report) {
    let (_folder, launch) = stage(set_up);
    let Some((played, _)) = play(driver, launch, report).await else {
        return;
    };
    let message = match &played.outcome.verdict {
        Verdict::Success => Some("it has succeeded".to_owned()),
        Verdict::Failure { reason, .. } if reason.message.as_deref().is_none_or(str::is_empty) => {
            Some("nothing says why".to_owned())
        }
        Verdict::Failure { .. } => None,
    };
    report.note(
        "an agent that did not do its work has failed, with a reason for people",
        message,
    );
}

pub(crate) async fn stops(driver: &dyn AgentDriver, set_up: &dyn Fn(&mut Launch), report: &mut Report) {
    stopped(driver, set_up, report).await;
    dropped(driver, set_up, report).await;
}

async fn stopped(driver: &dyn AgentDriver, set_up: &dyn Fn(&mut Launch), report: &mut Report) {
    let (_folder, launch) = stage(set_up);
    let (grace, marker) = (launch.grace, launch.marker.clone());
    let Some(mut agent) = start_agent(driver, launch, report).await else {
        return;
    };
    let begun = Instant::now();
    // Nobody reads its events meanwhile.
    let in_time = timeout(grace + BEYOND_GRACE, agent.control.stop(grace)).await;
    let late = in_time
        .is_err()
        .then(|| format!("not within {:?}", begun.elapsed()));
    report.note(
        "a stop ends the agent in its grace and a little more, whoever reads its events",
        late,
    );
    let left = sweep_marked(&marker).await.killed;
    report.note(
        "a stop leaves no process behind that carries the marker",
        (left > 0).then(|| format!("{left} were left")),
    );
    let again = timeout(BEYOND_GRACE, agent.control.stop(grace)).await;
    report.note(
        "another stop does nothing",
        again.err().map(|_| "it hangs".to_owned()),
    );
    let ended = finish(Vec::new(), &mut agent.events).await;
    let how = match &ended {
        Ok(played) if played.outcome.verdict.is_success() => Some("it has succeeded".to_owned()),
        Ok(_) => None,
        Err(why) => Some(why.clone()),
    };
    report.note(
        "an agent that was stopped has failed, and its events are still there",
        how,
    );
}

async fn dropped(driver: &dyn AgentDriver, set_up: &dyn Fn(&mut Launch), report: &mut Report) {
    let (_folder, launch) = stage(set_up);
    let Some(agent) = start_agent(driver, launch, report).await else {
        return;
    };
    let Some(pid) = agent.pid else { return };
    let ended = until_ended(pid);
    drop(agent);
    let lives = timeout(PATIENCE, ended).await.is_err();
    report.note(
        "whoever drops an agent kills it",
        lives.then(|| format!("process {pid} lives on")),
    );
}

/// Starts an agent that works, and waits until it has named its session.
async fn start_agent(driver: &dyn AgentDriver, launch: Launch, report: &mut Report) -> Option<RunningAgent> {
    let mut agent = started(driver.start(launch).await, report)?;
    let waiting = async {
        while let Some(event) = agent.events.recv().await {
            match event {
                AgentEvent::SessionStarted { .. } => return None,
                AgentEvent::Finished(outcome) => return Some(format!("it has ended: {outcome:?}")),
                _ => {}
            }
        }
        Some("its events ended".to_owned())
    };
    let waited = timeout(PATIENCE, waiting).await;
    let broken = waited.unwrap_or_else(|_| Some(format!("not within {PATIENCE:?}")));
    let has_begun = broken.is_none();
    report.note("an agent that works names its session", broken);
    has_begun.then_some(agent)
}

async fn play(
    driver: &dyn AgentDriver,
    launch: Launch,
    report: &mut Report,
) -> Option<(Played, RunningAgent)> {
    let mut agent = started(driver.start(launch).await, report)?;
    match finish(Vec::new(), &mut agent.events).await {
        Ok(played) => {
            report.note(ENDS_ONCE, None);
            Some((played, agent))
        }
        Err(why) => {
            report.note(ENDS_ONCE, Some(why));
            None
        }
    }
}

fn started(started: Result<RunningAgent, StartError>, report: &mut Report) -> Option<RunningAgent> {
    let broken = started.as_ref().err().map(ToString::to_string);
    report.note("an agent starts", broken);
    started.ok()
}

async fn finish(mut events: Vec<AgentEvent>, more: &mut EventReceiver) -> Result<Played, String> {
    loop {
        let next = timeout(PATIENCE, more.recv()).await;
        match next.map_err(|_| format!("nothing comes for {PATIENCE:?}"))? {
            Some(event) => events.push(event),
            None => break,
        }
    }
    let is_end = |event: &AgentEvent| matches!(event, AgentEvent::Finished(_));
    let ends = events.iter().filter(|event| is_end(event)).count();
    match events.pop() {
        Some(AgentEvent::Finished(outcome)) if ends == 1 => Ok(Played { events, outcome }),
        last => Err(format!("there are {ends} ends, and the last event is {last:?}")),
    }
}

fn session_of(events: &[AgentEvent]) -> Option<&SessionId> {
    events.iter().find_map(|event| match event {
        AgentEvent::SessionStarted { session_id, .. } => Some(session_id),
        _ => None,
    })
}

fn named_session(played: &Played, report: &mut Report) -> Option<SessionId> {
    let is_word = |event: &AgentEvent| {
        matches!(
            event,
            AgentEvent::Message { .. } | AgentEvent::ToolUse { .. } | AgentEvent::Usage(_)
        )
    };
    let is_session = |event: &AgentEvent| matches!(event, AgentEvent::SessionStarted { .. });
    let first = played
        .events
        .iter()
        .find(|event| is_word(event) || is_session(event));
    let broken = match first {
        Some(first) if is_session(first) => None,
        other => Some(format!("first comes {other:?}")),
    };
    report.note("the session is named before anything is said or used", broken);
    session_of(&played.events).cloned()
}

#[expect(
    clippy::disallowed_methods,
    reason = "it is about the file that a run would read"
)]
fn log_is_there(agent: &RunningAgent, report: &mut Report) {
    let missing = agent.pid.is_some() && !agent.log_path.is_file();
    report.note(
        "what a process prints is in its log",
        missing.then(|| format!("there is no {}", agent.log_path.display())),
    );
}

fn usage(driver: &dyn AgentDriver, played: &Played, report: &mut Report) {
    let told = played.events.iter().filter_map(|event| match event {
        AgentEvent::Usage(usage) => Some(usage.added.tokens.output_tokens),
        _ => None,
    });
    let (told, used) = (told.sum::<u64>(), &played.outcome.usage);
    let in_the_end = used.tokens.output_tokens;
    let broken = told > in_the_end;
    report.note(
        "no more is told while an agent works than it has used in the end",
        broken.then(|| format!("{told} output tokens were told, {in_the_end} were used")),
    );
    let is_certain = driver.capabilities().cost == CostReporting::Unknown
        && *used != UsageTotals::default()
        && !used.lower_bound;
    report.note(
        "a cost that nobody knows is a lower bound",
        is_certain.then(|| format!("{used:?}")),
    );
}
