//! Reports the steps of a real run that a rehearsal leaves out (CLI-74). A rehearsal goes through a hank with the scripted agent, without checks,
//! questions and sentinels.

use hankweave_core::agent::Verdict;
use hankweave_core::document::PlanEntry;
use hankweave_core::hank::{CodonConfig, RehearsedKind, SentinelSource, fallback_list};
use hankweave_core::sentinel::SentinelConfig;
use hankweave_core::wire::Event;

use super::context::{CodonRun, RunContext};
use super::extend::MOST_EXTENSIONS;
use super::run::{AgentOutcome, AgentRun};
use super::start::values;

/// Reports what a real run would do before and around the agent of this codon: questions, required changes, results, options of its agent, fallbacks,
/// further iterations, extensions and sentinels.
pub(crate) async fn report_before(context: &RunContext, entry: &PlanEntry) {
    let original = context.loaded.hank.as_ref().filter(|_| context.options.rehearsal);
    let Some(original) = original else { return };
    if let Some(place) = &entry.loop_context
        && place.codon_index_in_loop == 0
        && let Some(found) = original.find_loop(&place.loop_id)
        && let Some(iterations) = found.iterations_left_out()
    {
        report(context, entry, RehearsedKind::Repeat, iterations).await;
    }
    let Some(config) = original.codon(entry.codon_id.configured()) else {
        return;
    };
    if let Some(asked) = &config.approval {
        let question = asked.fill(&entry.codon_id, &values(context));
        report(context, entry, RehearsedKind::Ask, question).await;
    }
    if let Some(required) = original
        .required_of(config)
        .filter(|required| required.needs_files())
    {
        report(context, entry, RehearsedKind::Require, required.words()).await;
    }
    if config.result.is_some() {
        let text = "an answer that fits the schema of its `result`".to_owned();
        report(context, entry, RehearsedKind::Require, text).await;
    }
    if let Some(options) = original.agent_options(config).in_short() {
        report(context, entry, RehearsedKind::Set, options).await;
    }
    if let Some(list) = fallback_list(original.fallbacks_of(config)) {
        report(context, entry, RehearsedKind::FallBack, list).await;
    }
    for sentinel in sentinels(context, config) {
        report(context, entry, RehearsedKind::Watch, sentinel).await;
    }
    if let Some(prompt) = &config.exhaust_with_prompt {
        let most = config.max_extensions.unwrap_or(MOST_EXTENSIONS);
        let text = format!("at most {most} times with: {prompt}");
        report(context, entry, RehearsedKind::Extend, text).await;
    }
}

/// Reports what a real run would do with the results of a codon that has completed.
pub(crate) async fn report_results(context: &RunContext, entry: &PlanEntry, config: &CodonConfig) {
    let output = context
        .options
        .output
        .as_ref()
        .filter(|_| context.options.rehearsal);
    let Some(output) = output else { return };
    for group in &config.output_files {
        for command in &group.before_copy {
            report(context, entry, RehearsedKind::Run, command.run.clone()).await;
        }
        let text = format!("{} to {}", group.copy.join(", "), output.path.display());
        report(context, entry, RehearsedKind::Copy, text).await;
    }
}

/// Counts an attempt in a rehearsal as a success when the script met a usage limit, or a failure for which another agent of the
/// list would take over; reports what a real run would do. A script meets its limit every time, so a rehearsal that waited
/// would never end.
pub(super) async fn pass_limit(codon: &CodonRun<'_>, work: &mut AgentRun) {
    let AgentOutcome::Ended(exit) = &mut work.outcome else {
        return;
    };
    let Verdict::Failure { reason, .. } = &exit.verdict else {
        return;
    };
    if !codon.run.options.rehearsal {
        return;
    }
    let reason = codon.with_limit(reason.clone()).await;
    let original = codon.run.loaded.hank.as_ref();
    let list = original.and_then(|hank| {
        let config = hank.codon(codon.entry.codon_id.configured())?;
        fallback_list(hank.fallbacks_of(config))
    });
    let limit = reason
        .retry_at
        .map(|ends_at| format!("its usage limit until {ends_at}"));
    let (kind, text) = match (reason.fallback_cause(), limit, list) {
        (Some(_), Some(limit), Some(list)) => (RehearsedKind::FallBack, format!("{list}, at {limit}")),
        (Some(_), None, Some(list)) => (RehearsedKind::FallBack, format!("{list}, after this failure")),
        (_, Some(limit), None) => (RehearsedKind::Wait, format!("for {limit}")),
        _ => return,
    };
    exit.verdict = Verdict::Success;
    report(codon.run, codon.entry, kind, text).await;
}

/// Reports a step that is left out, and keeps it for the outcome of the run. Further attempts of a codon do not report
/// the step again.
pub(crate) async fn report(context: &RunContext, entry: &PlanEntry, kind: RehearsedKind, text: String) {
    let codon_id = entry.codon_id.clone();
    if context.rehearsed.add(&codon_id, kind, &text) {
        context
            .publish(Event::RehearsalStep { codon_id, kind, text })
            .await;
    }
}

/// Returns each sentinel of a codon in words, with the events on which it would act.
fn sentinels(context: &RunContext, config: &CodonConfig) -> Vec<String> {
    let named = config.sentinels.iter().map(|entry| {
        let name = match &entry.sentinel_config {
            SentinelSource::File(path) => path.as_str(),
            SentinelSource::Inline(inline) => inline.get("id").and_then(|id| id.as_str()).unwrap_or("?"),
        };
        match SentinelConfig::of(entry, &context.loaded.sentinels) {
            Ok(config) => format!("{}, on {}", config.id, config.in_words()),
            Err(_) => name.to_owned(),
        }
    });
    named.collect()
}
