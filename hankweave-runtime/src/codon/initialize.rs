//! Initializing: waits until the agent has reported its session, and checks that the session is the expected one.

use std::time::Duration;

use hankweave_core::agent::{AgentEvent, ExitOutcome, FailureKind, FailureReason, InterruptedBy, Verdict};
use hankweave_core::codon::{BudgetExceeded, Codon, Initializing, Run, Running};
use hankweave_core::id::SessionId;
use hankweave_core::wire;

use super::budget;
use super::context::{CodonRun, EarlyEnd, StageResult};
use super::interruption::Interruption;
use super::run::{halt, stop_to_end};
use crate::driver::RunningAgent;
use crate::world::suspension::Stopwatch;

/// Longest time from the spawn to the session id (S6).
const SESSION_DEADLINE: Duration = Duration::from_secs(60);

/// Result of waiting for the session of an agent. The number is the exit code of an agent that has ended.
pub(super) enum AgentStart {
    /// The agent has reported its session.
    Session(SessionId),
    /// The agent has ended, by itself or because it reported no session in time.
    Ended(FailureReason, i64),
    /// The agent was stopped because the codon has to end.
    Interrupted(Interruption, i64),
    /// The agent was stopped because the time of the codon is used up.
    OutOfTime(BudgetExceeded, i64),
}

pub(super) async fn initialize(
    codon: &CodonRun<'_>,
    initializing: Codon<Initializing>,
    mut agent: RunningAgent,
) -> StageResult<(Codon<Running>, RunningAgent)> {
    match wait_for_session(codon, &mut agent).await {
        AgentStart::Session(other) if codon.in_own_session && codon.session.as_ref() != Some(&other) => {
            let code = halt(codon, &mut agent).await;
            let why = "the agent began another one";
            Err(lost_session(codon, initializing, code, why).await)
        }
        // An agent that forks has to report the session of the copy.
        AgentStart::Session(original) if codon.is_fork && codon.session.as_ref() == Some(&original) => {
            let code = halt(codon, &mut agent).await;
            let why = format!("the agent continued session {original} itself, and not a copy of it");
            Err(codon
                .fail(initializing, code, FailureReason::unknown(false, why))
                .await)
        }
        AgentStart::Session(agent_session_id) => {
            let start_time = initializing.start_time;
            let previous_session_id = initializing.previous_session_id.clone();
            let (running, _) = codon
                .step(
                    initializing,
                    Run {
                        agent_session_id: agent_session_id.clone(),
                    },
                )
                .await;
            codon
                .run
                .publish(wire::Event::CodonStarted {
                    codon_id: codon.entry.codon_id.clone(),
                    codon_name: codon.config.name.clone(),
                    codon_description: codon.config.description.clone(),
                    session_id: agent_session_id,
                    previous_session_id,
                    start_time,
                    prompt_metadata: prompt_metadata(codon),
                    agent: Some(codon.config.agent_name().to_owned()),
                    model: codon.config.model.clone(),
                })
                .await;
            Ok((running, agent))
        }
        AgentStart::Ended(reason, exit_code) if codon.in_own_session || codon.in_skipped_session => {
            let why = reason.message.unwrap_or_else(|| "the agent ended".to_owned());
            Err(lost_session(codon, initializing, exit_code, &why).await)
        }
        AgentStart::Ended(reason, exit_code) => Err(codon.fail(initializing, exit_code, reason).await),
        AgentStart::Interrupted(why, exit_code) => Err(codon.end_early(initializing, exit_code, why).await),
        AgentStart::OutOfTime(exceeded, exit_code) => {
            Err(budget::end_before_work(codon, initializing, exit_code, exceeded).await)
        }
    }
}

/// Waits until the agent reports its session.
pub(super) async fn wait_for_session(codon: &CodonRun<'_>, agent: &mut RunningAgent) -> AgentStart {
    let clock = &*codon.run.world.clock;
    let started = Stopwatch::start(clock);
    let deadline = started.reach(clock, SESSION_DEADLINE);
    let time_is_over = codon.time_is_over();
    tokio::pin!(deadline, time_is_over);
    loop {
        // Every arm is cancel safe: a receive that is dropped loses nothing, the others only wait. The events
        // of the agent come last, as in `run`.
        tokio::select! {
            biased;
            why = codon.interrupted() => {
                let code = halt(codon, agent).await;
                return AgentStart::Interrupted(why, code);
            }
            exceeded = &mut time_is_over => {
                let code = halt(codon, agent).await;
                return AgentStart::OutOfTime(exceeded, code);
            }
            () = &mut deadline => {
                let message = format!("the agent named no session within {} s", SESSION_DEADLINE.as_secs());
                let (code, message) = match stop_to_end(codon, agent).await {
                    Some(exit) => (i64::from(exit.exit.code()), exit.with_stderr(message)),
                    None => (-1, message),
                };
                let reason = FailureReason { kind: FailureKind::Timeout, ..FailureReason::unknown(true, message) };
                return AgentStart::Ended(reason, code);
            }
            event = agent.events.recv() => match event {
                Some(AgentEvent::SessionStarted { session_id, .. }) => return AgentStart::Session(session_id),
                Some(AgentEvent::Finished(outcome)) => {
                    codon.note_usage_before_session(&outcome.usage);
                    let code = i64::from(outcome.exit.code());
                    return AgentStart::Ended(codon.with_limit(no_session(outcome)).await, code);
                }
                Some(_) => {}
                None => return AgentStart::Ended(FailureReason::unknown(false, "the agent's events ended early"), -1),
            },
        }
    }
}

/// Ends the record of a codon whose agent did not continue in the expected session. The runner starts the codon once more, from
/// its prompt.
async fn lost_session(
    codon: &CodonRun<'_>,
    initializing: Codon<Initializing>,
    exit_code: i64,
    why: &str,
) -> EarlyEnd {
    let id = &codon.entry.codon_id;
    let session = codon.session.as_ref().map_or("", SessionId::as_str);
    let whose = if codon.in_own_session {
        "its session"
    } else {
        "the session of the skipped codon,"
    };
    let message = format!("{whose} {session} cannot be resumed: {why}");
    let info = format!("{id} runs again from its beginning, with the files as they are");
    let reason = FailureReason::interrupted(InterruptedBy::LostSession, message);
    let ended = codon.fail(initializing, exit_code, reason).await;
    codon.run.publish(wire::Event::Info { message: info }).await;
    ended
}

/// An agent that ended before it reported a session has failed, whatever its exit code (S5).
fn no_session(outcome: ExitOutcome) -> FailureReason {
    match outcome.verdict {
        Verdict::Failure { reason, .. } => reason,
        Verdict::Success => {
            let message = format!("the agent {} and named no session", outcome.exit);
            FailureReason::unknown(false, outcome.with_stderr(message))
        }
    }
}

/// Returns the front matter of the prompt, if there is any.
fn prompt_metadata(codon: &CodonRun<'_>) -> Option<serde_json::Value> {
    let prompt = codon
        .run
        .loaded
        .prompt_text(&*codon.run.world.disk, codon.config)
        .ok()?;
    let metadata = serde_json::to_value(prompt.metadata).ok()?;
    Some(metadata).filter(|value| value.as_object().is_some_and(|object| !object.is_empty()))
}
