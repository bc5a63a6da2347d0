//! Terms of a codon or a loop besides limits and programs, a line each: what its agent must do and may do, and what happens at a failure.

use std::time::Duration;

use hankweave_core::agent::AskedResult;
use hankweave_core::cost::pricing::Prices;
use hankweave_core::hank::{
    Check, CodonConfig, Hank, LoopConfig, OnFailure, PromptSource, Requires, TerminateOn,
    redirecting_variables,
};
use hankweave_core::plan::AgentList;
use hankweave_core::time::short_duration;
use serde_json::Value;

use crate::terminal::report::counted;

/// Returns a line for each term of a codon.
pub(super) fn of_codon(hank: &Hank, codon: &CodonConfig, prices: &Prices) -> Vec<String> {
    let list = |what: &str, patterns: &[String]| {
        (!patterns.is_empty()).then(|| format!("{what} {}", patterns.join(", ")))
    };
    let results: Vec<String> = codon
        .output_files
        .iter()
        .flat_map(|item| item.copy.clone())
        .collect();
    // Variables that redirect programs have lines of their own in the tree.
    let redirects = redirecting_variables(codon);
    let variables = codon
        .env
        .keys()
        .filter(|name| !redirects.contains(&name.as_str()));
    let variables: Vec<String> = variables.cloned().collect();
    let requires = hank.required_of(codon).map(|required| match required {
        Requires::Nothing => "need not change or use anything (requires)".to_owned(),
        other => format!("has to leave {} (requires)", other.words()),
    });
    let mut asked = of_agent(hank, codon);
    let others = [
        requires,
        codon.result.as_ref().map(of_result),
        codon.check.as_ref().map(of_check),
        of_failure(codon),
        fallbacks(hank, codon, prices),
        codon.exhaust_with_prompt.as_ref().map(|_| {
            // The default, as in a run (HANK-48).
            let most = codon.max_extensions.unwrap_or(100);
            format!("continues with exhaustWithPrompt, {} at most", times(most))
        }),
        codon.append_system_prompt.as_ref().map(|added| match added {
            PromptSource::Files(files) => format!("adds {} to the system prompt", files.join(", ")),
            PromptSource::Text(text) => format!("adds {} B to the system prompt", text.len()),
        }),
        list("sets", &variables),
        codon
            .auto_compact
            .filter(|may| *may)
            .map(|_| "may compact its context (autoCompact)".to_owned()),
        codon
            .shim_idle_timeout
            .map(|most| format!("may be silent for {} (shimIdleTimeout)", seconds(most))),
        codon.settle_seconds.map(|most| {
            let most = seconds(most);
            format!("what it left running is ended {most} after the answer (settleSeconds)")
        }),
        list("copies as results", &results),
        list("archives after success", &codon.archive_on_success),
    ]
    .into_iter()
    .flatten();
    asked.extend(others);
    asked
}

/// Returns a line for each option of the codon's agent.
fn of_agent(hank: &Hank, codon: &CodonConfig) -> Vec<String> {
    let options = hank.agent_options(codon);
    let access = options.permissions.as_ref().map(|access| {
        let tools = |what: &str, tools: &[String]| match tools {
            [] => String::new(),
            tools => format!(", {what} {}", tools.join(", ")),
        };
        let (allow, deny) = (tools("with", &access.allow), tools("without", &access.deny));
        format!("may do {}{allow}{deny} (permissions)", access.mode.name())
    });
    let effort = options
        .effort
        .as_ref()
        .map(|effort| format!("works with effort {effort} (effort)"));
    let isolated = options
        .is_isolated()
        .then(|| "sees nothing of the user's own (isolate)".to_owned());
    let servers = options.servers();
    let servers =
        servers.map(|(name, server)| format!("starts MCP server {name}: {} (mcpServers)", server.line()));
    let args = options.arguments();
    let args = (!args.is_empty()).then(|| format!("gives its agent {} (args)", args.join(" ")));
    let first = [access, effort, isolated].into_iter().flatten();
    first.chain(servers).chain(args).collect()
}

/// Returns the keys of a result that its schema names.
fn of_result(asked: &AskedResult) -> String {
    let properties = asked.schema.get("properties").and_then(Value::as_object);
    let keys: Vec<&str> = properties
        .into_iter()
        .flat_map(|keys| keys.keys().map(String::as_str))
        .collect();
    match keys.is_empty() {
        true => "has to answer with an object (result)".to_owned(),
        false => format!("has to answer with {} (result)", keys.join(", ")),
    }
}

fn of_check(check: &Check) -> String {
    // The default, as in a run.
    match check.retries.unwrap_or(3) {
        0 => "fails when its check does not pass (retries: 0)".to_owned(),
        most => format!(
            "continues when its check does not pass, {} at most (retries)",
            times(most)
        ),
    }
}

/// Returns the fallbacks of the codon in words, with the prices of a million tokens.
fn fallbacks(hank: &Hank, codon: &CodonConfig, prices: &Prices) -> Option<String> {
    let list = AgentList::of(hank, codon)?;
    let entries = list.entries().skip(1).map(|agent| match agent {
        None => "a wait for the usage limit".to_owned(),
        Some(agent) => {
            let codon = &agent.codon;
            let price = codon.model.as_deref().and_then(|model| prices.find(model));
            let price = price.map(|(_, price)| {
                let rates = &price.rate.rates;
                format!(" ({} in, {} out per million tokens)", rates.input, rates.output)
            });
            let variables = agent.written.iter().flat_map(|(_, written)| written.env.keys());
            let variables: Vec<&str> = variables.map(String::as_str).collect();
            let account = match variables.as_slice() {
                [] => String::new(),
                variables => format!(" and another {}", variables.join(", ")),
            };
            format!("{}{account}{}", codon.agent_words(), price.unwrap_or_default())
        }
    });
    let entries: Vec<String> = entries.collect();
    (!entries.is_empty()).then(|| format!("falls back to {} (fallback)", entries.join(", then ")))
}

fn of_failure(codon: &CodonConfig) -> Option<String> {
    match codon.failure_policy() {
        OnFailure::Abort => None,
        OnFailure::Ignore => Some("the run continues when it fails (onFailure)".to_owned()),
        OnFailure::Retry => {
            let config = codon.retry_config.unwrap_or_default();
            let (most, delay) = (times(config.retries().into()), short_duration(config.delay()));
            Some(format!(
                "runs again when it fails, {most} at most, the first time after {delay} (onFailure)"
            ))
        }
    }
}

/// Returns the end of a loop in words: `until `make test` passes, at most 5 times`.
pub(crate) fn until(found: &LoopConfig) -> String {
    match &found.terminate_on {
        TerminateOn::IterationLimit { limit } => times(u64::from(*limit)),
        TerminateOn::ContextExceeded => "until the context is full".to_owned(),
        TerminateOn::UntilCheckPasses { run, .. } => {
            let most = found.most_iterations().unwrap_or_default();
            format!("until `{run}` passes, at most {}", times(most.into()))
        }
    }
}

/// Returns a line for each term of a loop.
pub(crate) fn of_loop(found: &LoopConfig) -> Vec<String> {
    let is_checked = matches!(found.terminate_on, TerminateOn::UntilCheckPasses { .. });
    let is_asked = is_checked || found.stalled_after.is_some();
    let stalled = found.stall_limit().filter(|_| is_asked).map(|most| {
        let iterations = counted(usize::try_from(most).unwrap_or(usize::MAX), "iteration");
        format!("pauses after {iterations} in a row without a change (stalledAfter)")
    });
    let archived = &found.archive_on_success;
    let archived = (!archived.is_empty()).then(|| format!("archives after its end {}", archived.join(", ")));
    stalled.into_iter().chain(archived).collect()
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

fn seconds(count: u64) -> String {
    short_duration(Duration::from_secs(count))
}
