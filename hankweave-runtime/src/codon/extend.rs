//! Extensions: after each success the agent continues in its session, until its context is full (HANK-48).

use hankweave_core::codon::{Codon, Running};
use hankweave_core::wire;

use super::context::{CodonRun, StageResult};
use super::finish::settle_costs;
use super::initialize::{AgentStart, wait_for_session};
use super::run::{self, AgentOutcome, AgentRun};
use super::start;

/// Default maximum of extensions of a codon (HANK-48).
pub(super) const MOST_EXTENSIONS: u64 = 100;

/// Extends a codon with `exhaustWithPrompt` until its agent cannot continue or the maximum is reached, and returns the work of all its processes.
pub(super) async fn extend(
    codon: &CodonRun<'_>,
    mut running: Codon<Running>,
    mut work: AgentRun,
) -> StageResult<(Codon<Running>, AgentRun)> {
    let Some(prompt) = &codon.config.exhaust_with_prompt else {
        return Ok((running, work));
    };
    for number in 1..=codon.config.max_extensions.unwrap_or(MOST_EXTENSIONS) {
        let Some(exit) = work.success() else { break };
        if let Some(why) = codon.interruption() {
            work.outcome = AgentOutcome::Stopped(why, exit);
            break;
        }
        settle_costs(codon, &mut running, &exit).await;
        report_extension(codon, &running, number, prompt).await;
        (running, work) = start_extension(codon, running, work, start::rendered(codon, prompt)).await?;
    }
    Ok((running, work))
}

/// Lets the agent continue with this prompt in its session.
pub(super) async fn start_extension(
    codon: &CodonRun<'_>,
    running: Codon<Running>,
    mut work: AgentRun,
    prompt: String,
) -> StageResult<(Codon<Running>, AgentRun)> {
    let mut agent = match start::resume(codon, &running, prompt, work.dollars_left()).await {
        Ok(agent) => agent,
        Err(failure) => return Err(failure.end(codon, running).await),
    };
    match wait_for_session(codon, &mut agent).await {
        AgentStart::Session(_) => run::run(codon, running, agent, work.so_far()).await,
        AgentStart::Ended(reason, code) => Err(codon.fail(running, code, reason).await),
        AgentStart::OutOfTime(exceeded, _) => {
            work.reach(exceeded);
            Ok((running, work))
        }
        AgentStart::Interrupted(why, code) => Err(codon.end_early(running, code, why).await),
    }
}

async fn report_extension(
    codon: &CodonRun<'_>,
    running: &Codon<Running>,
    extension_number: u64,
    prompt: &str,
) {
    codon
        .run
        .publish(wire::Event::CodonExtended {
            codon_id: codon.entry.codon_id.clone(),
            codon_name: codon.config.name.clone(),
            extension_number,
            exhaust_with_prompt: prompt.to_owned(),
            cumulative_tokens: running.current_tokens.usage,
            cumulative_cost: running.current_cost,
        })
        .await;
}
