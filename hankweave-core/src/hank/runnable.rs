//! Checks whether a valid hank can run with the agents and prices of this program: unknown agents and models, abilities that agents lack, and limits in
//! dollars that cannot be enforced (HANK-6).

use std::collections::HashSet;

use super::agent::{AgentChoice, agent_for_model};
use super::document::{CodonConfig, ContinuationMode, Hank, HankItem, PromptSource, Requires};
use super::keys::{did_you_mean, nearest};
use super::problem::{Problem, Severity, quoted};
use crate::agent::{Capabilities, CostReporting, OptionRefusal, ResultSupport};
use crate::cost::Usd;
use crate::cost::pricing::{ALIASES, Prices, is_alias};

/// Names of the output formats (`stream`) that a program of the author's own may print.
pub const STREAMS: [&str; 1] = ["claude"];

/// Agents whose models should be in the list of prices, so that an unlisted model is probably a misspelling.
const PRICED_AGENTS: [&str; 3] = ["claude", "codex", "gemini"];

/// Returns agents and streams that do not exist, as errors, and unknown names of models, as warnings.
///
/// `agents` are the names of the existing agents.
#[must_use]
pub fn unknown_names(hank: &Hank, agents: &[&str], prices: &Prices) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, codon) in hank.located_codons() {
        let place = match codon.agent {
            Some(_) => format!("{path}.agent"),
            None => format!("{path}.model"),
        };
        if let Some((message, hint)) = unknown_agent(codon, agents, prices) {
            problems.push(Problem::error(&hank.places, place, message).with_hint(hint));
        } else if let Some((message, hint)) = unknown_stream(codon) {
            let place = format!("{path}.agent.stream");
            problems.push(Problem::error(&hank.places, place, message).with_hint(hint));
        } else if PRICED_AGENTS.contains(&codon.agent_name())
            && let Some(model) = codon.model.as_deref()
            && !prices.is_known(model)
            // The agent's own name means the model that the agent chooses itself.
            && model != codon.agent_name()
        {
            let message = format!("nobody here knows the model {}", quoted(model));
            let agent = codon.agent_name();
            let list = format!("`hankweave prices` lists the models that are known; {agent} may know others");
            let hint = similar_claude_model(model, prices).unwrap_or(list);
            problems.push(Problem::warning(&hank.places, format!("{path}.model"), message).with_hint(hint));
        }
    }
    problems
}

/// Example of an agent that is the author's own program.
const OWN_PROGRAM: &str = r#"{ "command": ["your-program"], "stream": "claude" }"#;

/// Example of an agent that speaks ACP.
const ACP_PROGRAM: &str = r#"{ "acp": ["your-program"] }"#;

/// Names of agents that work only with a program, so the name alone is a mistake.
const PROGRAMS: [&str; 2] = ["acp", "command"];

/// Returns message and hint if the codon's agent does not exist or, for a codon without an agent, if no agent runs its model.
fn unknown_agent(codon: &CodonConfig, agents: &[&str], prices: &Prices) -> Option<(String, String)> {
    let name = codon.agent_name();
    match (&codon.agent, &codon.model) {
        (Some(AgentChoice::Named(_)), _) if PROGRAMS.contains(&name) => Some((
            format!("`{name}` alone names no program"),
            format!("write {}", if name == "acp" { ACP_PROGRAM } else { OWN_PROGRAM }),
        )),
        // Pi runs models that no other agent runs, so it would accept a misspelling, too.
        (None, Some(model))
            if !agents.contains(&name) || (name == "pi" && similar_claude_model(model, prices).is_some()) =>
        {
            let message = format!("no agent here runs the model {}", quoted(model));
            let program = || {
                format!(
                    "claude runs Anthropic's models, such as \"sonnet\", codex those of OpenAI, gemini those of Google and pi many others; name an agent, or a program that prints \
                     claude's stream: \"agent\": {OWN_PROGRAM}"
                )
            };
            let hint = similar_claude_model(model, prices).unwrap_or_else(program);
            Some((message, hint))
        }
        _ if agents.contains(&name) => None,
        _ => {
            let known = agents.iter().copied().filter(|agent| !PROGRAMS.contains(agent));
            let known: Vec<&str> = known.collect();
            let all = || format!("write \"{}\", or {OWN_PROGRAM}", known.join("\" or \""));
            let hint = did_you_mean(name, &known).unwrap_or_else(all);
            Some((format!("no agent is called {}", quoted(name)), hint))
        }
    }
}

fn unknown_stream(codon: &CodonConfig) -> Option<(String, String)> {
    let Some(AgentChoice::Command(custom)) = &codon.agent else {
        return None;
    };
    if STREAMS.contains(&custom.stream.as_str()) {
        return None;
    }
    let message = format!("no stream is called {}", quoted(&custom.stream));
    let hint = "write \"claude\", and let the program print what `claude -p --output-format stream-json --verbose` prints";
    Some((message, hint.to_owned()))
}

/// Returns a hint with the model of claude that `model` probably misspells.
fn similar_claude_model(model: &str, prices: &Prices) -> Option<String> {
    let mut near = nearest_models(model, prices).into_iter();
    let near = near.find(|near| agent_for_model(near) == "claude")?;
    Some(format!("did you mean `{near}`?"))
}

/// Returns the known models of which `model` may be a misspelling, at most three, the nearest one first.
#[must_use]
pub fn nearest_models<'p>(model: &str, prices: &'p Prices) -> Vec<&'p str> {
    let families = prices.iter().map(|(family, _)| family);
    let names: Vec<&str> = ALIASES.into_iter().chain(families).collect();
    nearest(model, &names, 3)
}

/// Returns abilities that agents lack, as errors, and settings that they ignore, as warnings (AGENT-22). `abilities` returns the abilities of an agent by
/// its name; `None` for one that does not exist.
#[must_use]
pub fn beyond_agents(hank: &Hank, abilities: impl Fn(&str) -> Option<Capabilities>) -> Vec<Problem> {
    let mut problems = Vec::new();
    // Checkpoints also use the patterns of all earlier codons.
    let mut watches_files = false;
    for (path, codon) in hank.located_codons() {
        watches_files |= !codon.checkpointed_files.is_empty();
        let Some(can) = abilities(codon.agent_name()) else {
            continue;
        };
        let agent = quoted(codon.agent_name());
        let mut refuse = |key: &str, cannot: &str, hint: &str| {
            let problem = Problem::error(
                &hank.places,
                format!("{path}.{key}"),
                format!("agent {agent} {cannot}"),
            );
            problems.push(problem.with_hint(hint));
        };
        let no_session = "cannot continue with a session";
        match codon.continuation_mode {
            ContinuationMode::ContinuePrevious if !can.resume => {
                refuse("continuationMode", no_session, "write \"fresh\"");
            }
            ContinuationMode::Fork(_) if !can.fork => refuse(
                "continuationMode",
                "cannot continue with a copy of a session",
                "write \"fresh\" or \"continue-previous\", or have both codons run by claude, codex, opencode or pi",
            ),
            _ => {}
        }
        if !can.resume && codon.exhaust_with_prompt.is_some() {
            refuse("exhaustWithPrompt", no_session, "leave it out");
        }
        if !can.resume && codon.check.as_ref().is_some_and(|check| check.retries != Some(0)) {
            refuse("check", no_session, "write \"retries\": 0");
        }
        if let Some(text) = codon.append_system_prompt.as_ref().filter(|_| !can.system_prompt) {
            let key = match text {
                PromptSource::Files(_) => "appendSystemPromptFile",
                PromptSource::Text(_) => "appendSystemPromptText",
            };
            refuse(
                key,
                "takes no text for its system prompt",
                "write it into the prompt",
            );
        }
        for key in token_limits(codon) {
            if can.cost == CostReporting::Unknown {
                let cannot = "does not tell what it uses, so this limit cannot be held";
                refuse(key, cannot, "limit its time with maxTimeSeconds");
            } else if !can.per_message_usage && key == CONTEXT_TOKENS {
                let cannot = "tells only what its requests have used together, so this limit cannot be held";
                refuse(key, cannot, "limit its time with maxTimeSeconds");
            }
        }
        if !can.success && codon.check.is_none() && !watches_files {
            refuse(
                "agent",
                "does not say whether it has succeeded, and nothing else would show it",
                "write a \"check\", or the \"checkpointedFiles\" that its work changes",
            );
        }
        if codon.result.is_some() && can.result == ResultSupport::None {
            refuse(
                "result",
                "tells no answer that could be one",
                "leave it out, or choose another agent",
            );
        }
        for key in late_limits(codon, can) {
            let message = format!(
                "agent {agent} tells only at its end what it has used, so this limit does not end it while it works"
            );
            let problem = Problem::warning(&hank.places, format!("{path}.{key}"), message);
            problems.push(problem.with_hint("limit its time with maxTimeSeconds as well"));
        }
        let may_change_nothing = hank.required_of(codon) == Some(&Requires::Nothing);
        if !can.success && codon.check.is_none() && watches_files && may_change_nothing {
            let problem = Problem::warning(
                &hank.places,
                format!("{path}.requires"),
                format!(
                    "agent {agent} does not say whether it has succeeded, so a codon that changes nothing fails all the same"
                ),
            );
            problems.push(problem.with_hint("write a \"check\" that passes when it has done its work"));
        }
        problems.extend(refused_options(hank, &path, codon, can));
        if !can.model_choice && codon.model.is_some() {
            let message = format!("agent {agent} works with the model of its own settings");
            problems.push(Problem::warning(&hank.places, format!("{path}.model"), message));
        }
    }
    problems
}

/// Returns the options that the codon's agent does not support, each at its place: in the codon, or in the overrides of the hank (AGENT-60).
fn refused_options(hank: &Hank, path: &str, codon: &CodonConfig, can: Capabilities) -> Vec<Problem> {
    let asked = hank.agent_options(codon);
    let refusals = can.options.refusals(codon.agent_name(), &asked);
    let at = |refusal: OptionRefusal| {
        let own = serde_json::to_value(&codon.agent_options).unwrap_or_default();
        let key = refusal.key.split('[').next().unwrap_or_default();
        let place = match own.get(key) {
            Some(_) => format!("{path}.{}", refusal.key),
            None => format!("overrides.{}", refusal.key),
        };
        Problem::error(&hank.places, place, refusal.message).with_hint(refusal.hint)
    };
    refusals.into_iter().map(at).collect()
}

const CONTEXT_TOKENS: &str = "budget.maxContextTokens";

/// Returns the keys of the limits in tokens that a codon has.
fn token_limits(codon: &CodonConfig) -> impl Iterator<Item = &'static str> + use<> {
    let budget = codon.budget.unwrap_or_default();
    let limits = [
        ("budget.maxOutputTokens", budget.max_output_tokens),
        (CONTEXT_TOKENS, budget.max_context_tokens),
    ];
    limits.into_iter().filter_map(|(key, limit)| limit.map(|_| key))
}

/// Returns the keys of the limits that are checked only after the agent has ended, because it reports its usage only then.
fn late_limits(codon: &CodonConfig, can: Capabilities) -> Vec<&'static str> {
    if can.per_message_usage || can.cost == CostReporting::Unknown {
        return Vec::new();
    }
    let dollars = codon.budget.and_then(|budget| budget.max_dollars);
    let dollars = dollars.map(|_| "budget.maxDollars");
    let tokens = token_limits(codon).filter(|key| *key != CONTEXT_TOKENS);
    dollars.into_iter().chain(tokens).collect()
}

/// Returns limits in dollars that cannot be enforced because the dollars are unknown, as errors, and money that is counted late or not at all, as
/// warnings. `ceiling` is the limit of the run, from any source; `abilities` returns the abilities of an agent by its name.
#[must_use]
pub fn uncounted_money(
    hank: &Hank,
    prices: &Prices,
    ceiling: Option<Usd>,
    abilities: impl Fn(&str) -> Option<Capabilities>,
) -> Vec<Problem> {
    let of_hank = hank.budget().and_then(|budget| budget.max_dollars);
    let of_hank = of_hank.map(|_| "overrides.budget.maxDollars".to_owned());
    let mut problems = Vec::new();
    // Unless a codon or loop has a limit of its own, a problem of a model is reported once, however many codons use the model.
    let mut reported = HashSet::new();
    for (index, item) in hank.items.iter().enumerate() {
        let of_loop = HankItem::as_loop(item).and_then(|found| found.budget.as_ref()?.max_dollars);
        for (path, codon) in item.located_codons(index) {
            let own = codon.budget.and_then(|budget| budget.max_dollars);
            let place = own
                .map(|_| format!("{path}.budget.maxDollars"))
                .or_else(|| of_loop.map(|_| format!("hank[{index}].budget.maxDollars")))
                .or_else(|| of_hank.clone());
            let limit = match (&place, ceiling) {
                (Some(_), _) => Some("this limit"),
                (None, Some(_)) => Some("the limit of the run in dollars"),
                (None, None) => None,
            };
            let Some((level, message, hint)) = uncounted(codon, limit, prices, abilities(codon.agent_name()))
            else {
                continue;
            };
            let is_common_limit = own.is_none() && of_loop.is_none() && codon.model.is_some();
            if is_common_limit && !reported.insert((codon.agent_name(), codon.model.as_deref())) {
                continue;
            }
            let place = place.unwrap_or_else(|| match codon.model {
                Some(_) => format!("{path}.model"),
                None => format!("{path}.agent"),
            });
            let problem = Problem::error(&hank.places, place, message).with_hint(hint);
            problems.push(Problem { level, ..problem });
        }
    }
    problems
}

/// Returns level, message and hint of the problem with the codon's dollars, if they cannot be counted. `limit` is the limit on them, in words; `None`
/// if they are not limited.
fn uncounted(
    codon: &CodonConfig,
    limit: Option<&str>,
    prices: &Prices,
    can: Option<Capabilities>,
) -> Option<(Severity, String, String)> {
    let id = codon.id.as_str();
    let cost = can.map(|can| can.cost);
    if let (Some(limit), Some(CostReporting::Unknown)) = (limit, cost) {
        let agent = quoted(codon.agent_name());
        return Some((
            Severity::Error,
            format!("{limit} cannot be held: agent {agent} does not tell what it uses"),
            "limit its time with maxTimeSeconds".to_owned(),
        ));
    }
    let Some(model) = codon.model.as_deref() else {
        // A program of the author's own may use any model, and reports it only in its output.
        return match (&codon.agent, limit) {
            (Some(AgentChoice::Command(_)), Some(limit)) => Some((
                Severity::Warning,
                format!(
                    "whether {limit} can be held is not known before codon `{id}` says which model it uses"
                ),
                format!("write \"model\": \"NAME\" into codon `{id}`, the one that its program uses"),
            )),
            _ => None,
        };
    };
    if prices.find(model).is_some() || (is_alias(model) && resolves_aliases(codon)) {
        return None;
    }
    let (name, example) = (quoted(model), price_example(model));
    let hint = price_hint(&example);
    match (&codon.agent, limit) {
        (Some(AgentChoice::Command(_)), Some(limit)) => Some((
            Severity::Error,
            format!("{limit} cannot be held: nobody here knows the price of {name}, which codon `{id}` uses"),
            hint,
        )),
        (Some(AgentChoice::Command(_)), None) => Some((
            Severity::Warning,
            format!(
                "the price of {name} is not known: the money is counted only as far as the program reports it"
            ),
            hint,
        )),
        (_, Some(limit)) if cost == Some(CostReporting::TokensOnly) => Some((
            Severity::Error,
            format!(
                "{limit} cannot be held: nobody here knows the price of {name}, and {} tells no money",
                codon.agent_name()
            ),
            hint,
        )),
        // A script may report tokens, but no money.
        (Some(AgentChoice::Script { .. }), Some(limit)) => Some((
            Severity::Error,
            format!("{limit} cannot be held: nobody here knows the price of {name}, which codon `{id}` uses"),
            hint,
        )),
        // Claude knows the prices of its own models only.
        (_, Some(limit)) if codon.agent_name() == "claude" && agent_for_model(model) != "claude" => Some((
            Severity::Error,
            format!(
                "{limit} cannot be held: nobody here knows the price of {name}, and claude guesses it, since the model is none of Anthropic's"
            ),
            hint,
        )),
        // These agents report money themselves if they know the price: claude at its end, opencode and pi with each answer.
        (_, Some(_)) if codon.agent_name() == "claude" => Some((
            Severity::Warning,
            format!(
                "the price of {name} is not known, so the dollars of codon `{id}` count only when claude reports them"
            ),
            hint,
        )),
        (_, Some(_)) if matches!(codon.agent_name(), "opencode" | "pi") => Some((
            Severity::Warning,
            format!(
                "the price of {name} is not known here; if {} does not know it either, codon `{id}` is ended at its first answer",
                codon.agent_name()
            ),
            hint,
        )),
        // Without a script the scripted agent costs nothing, and an agent that an embedding program registers reports its
        // money itself.
        _ => None,
    }
}

/// Returns whether the agent of a codon chooses a model for an alias and reports that model at its start: claude, a program that may run claude, or the
/// scripted agent.
fn resolves_aliases(codon: &CodonConfig) -> bool {
    match &codon.agent {
        Some(AgentChoice::Command(_) | AgentChoice::Script { .. }) => true,
        Some(AgentChoice::Named(_) | AgentChoice::Acp(_)) | None => {
            !matches!(codon.agent_name(), "codex" | "gemini" | "opencode" | "pi")
        }
    }
}

/// Returns a hint about setting a price, with an [example](price_example) of the file.
fn price_hint(example: &str) -> String {
    format!(
        "write its price, in dollars per million tokens, into a file such as prices.json: {example}; `--prices prices.json` gives it to a run, and \"prices\": \"prices.json\" in hankweave.json to all here"
    )
}

/// Returns an example of a file of prices for `model`, with prices to be replaced.
#[must_use]
pub fn price_example(model: &str) -> String {
    let model = serde_json::Value::from(model);
    format!(r#"{{"models": {{{model}: {{"input": 3, "output": 15}}}}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hank::{Severity, parse};

    const AGENTS: [&str; 4] = ["claude", "codex", "command", "scripted"];

    fn codon(id: &str, more: &str) -> String {
        format!(r#"{{"id": "{id}", "name": "N", "continuationMode": "fresh", "promptText": "x", {more}}}"#)
    }

    fn hank(overrides: &str, codons: &[String]) -> Hank {
        let text = format!(
            r#"{{"overrides": {overrides}, "hank": [{}]}}"#,
            codons.join(",\n")
        );
        let parsed = parse(&text);
        parsed
            .hank
            .unwrap_or_else(|| panic!("{}", parsed.problems.display_in("hank.json")))
    }

    /// As the built-in agents.
    fn can(agent: &str) -> Option<Capabilities> {
        let cost = match agent {
            "claude" => CostReporting::Cumulative,
            "codex" => CostReporting::TokensOnly,
            "mute" => return Some(Capabilities::NONE),
            "acp" => CostReporting::Unknown,
            _ => CostReporting::Exact,
        };
        let resume = true;
        Some(Capabilities {
            resume,
            fork: agent == "claude",
            cost,
            per_message_usage: agent != "late",
            interrupt: false,
            system_prompt: true,
            model_choice: true,
            permissions: false,
            success: agent != "acp",
            result: ResultSupport::Prompt,
            options: crate::agent::OptionSupport::NONE,
        })
    }

    // covers: HANK-93
    #[test]
    fn an_agent_that_tells_no_answer_gives_no_result() {
        let places = |agent: &str| {
            let asked = format!(
                r#""agent": "{agent}", "model": "sonnet", "result": {{"schema": {{"type": "object"}}}}"#
            );
            let problems = beyond_agents(&hank("{}", &[codon("a", &asked)]), can).into_iter();
            problems.map(|problem| problem.path).collect::<Vec<_>>()
        };
        assert_eq!(places("mute"), ["hank[0].result", "hank[0].model"]);
        assert_eq!(places("claude"), [""; 0]);
    }

    // covers: AGENT-22
    #[test]
    fn a_limit_that_is_seen_only_at_the_end_is_a_warning() {
        let limits =
            r#", "model": "sonnet", "budget": {"maxDollars": 1, "maxOutputTokens": 9, "maxTimeSeconds": 9}"#;
        let told = |agent: &str| {
            let codons = [codon("a", &format!(r#""agent": "{agent}"{limits}"#))];
            let problems = beyond_agents(&hank("{}", &codons), can);
            problems
                .into_iter()
                .map(|problem| (problem.level, problem.path))
                .collect::<Vec<_>>()
        };
        let warning = |key: &str| (Severity::Warning, format!("hank[0].budget.{key}"));
        assert_eq!(told("late"), [warning("maxDollars"), warning("maxOutputTokens")]);
        assert_eq!(told("claude"), []);
    }

    // covers: AGENT-22
    #[test]
    fn the_size_of_a_context_that_nobody_tells_cannot_be_limited() {
        let told = |agent: &str| {
            let more =
                format!(r#""agent": "{agent}", "model": "sonnet", "budget": {{"maxContextTokens": 9}}"#);
            let problems = beyond_agents(&hank("{}", &[codon("a", &more)]), can);
            problems
                .into_iter()
                .map(|problem| (problem.level, problem.path))
                .collect::<Vec<_>>()
        };
        let refused = (Severity::Error, "hank[0].budget.maxContextTokens".to_owned());
        assert_eq!(told("late"), [refused]);
        assert_eq!(told("claude"), []);
    }

    // covers: AGENT-24
    #[test]
    fn an_agent_that_says_nothing_of_success_needs_what_shows_it() {
        let codon = |id: &str, more: &str| codon(id, &format!(r#""agent": {{"acp": ["x"]}}{more}"#));
        let refused = |codons: &[String]| {
            let problems = beyond_agents(&hank("{}", codons), can);
            problems
                .into_iter()
                .map(|problem| problem.path)
                .collect::<Vec<_>>()
        };
        let files = r#", "checkpointedFiles": ["*.md"]"#;
        assert_eq!(refused(&[codon("a", ""), codon("b", files)]), ["hank[0].agent"]);
        assert_eq!(refused(&[codon("a", files), codon("b", "")]), [""; 0]);
        assert_eq!(refused(&[codon("a", r#", "check": {"run": "true"}"#)]), [""; 0]);
        // One that need not change anything fails where it does not.
        let reviewer = codon("b", r#", "requires": "nothing""#);
        assert_eq!(refused(&[codon("a", files), reviewer]), ["hank[1].requires"]);
    }

    // covers: AGENT-22
    #[test]
    fn what_an_agent_cannot_do_is_refused_where_it_is_written() {
        let mute = r#""agent": "mute", "model": "sonnet", "appendSystemPromptText": "t", "exhaustWithPrompt": "on", "check": {"run": "true"},
            "budget": {"maxDollars": 1, "maxOutputTokens": 9, "maxContextTokens": 9}"#;
        let first = codon("a", r#""agent": "mute", "model": "sonnet""#);
        let codons = [first, codon("b", mute).replace("fresh", "continue-previous")];
        let problems = |agent: &str| {
            let hank = hank("{}", &codons.clone().map(|codon| codon.replace("mute", agent)));
            let money = uncounted_money(&hank, &Prices::default(), None, can);
            let all = beyond_agents(&hank, can).into_iter().chain(money);
            all.map(|problem| (problem.level, problem.path))
                .collect::<Vec<_>>()
        };
        let [error, warning] = [Severity::Error, Severity::Warning];
        let expected = [
            (warning, "[0].model"),
            (error, "[1].continuationMode"),
            (error, "[1].exhaustWithPrompt"),
            (error, "[1].check"),
            (error, "[1].appendSystemPromptText"),
            (error, "[1].budget.maxOutputTokens"),
            (error, "[1].budget.maxContextTokens"),
            (warning, "[1].model"),
            (error, "[1].budget.maxDollars"),
        ];
        let expected = expected.map(|(level, place)| (level, format!("hank{place}")));
        assert_eq!(problems("mute"), expected);
        assert_eq!(problems("claude"), []);
    }

    fn told(problems: &[Problem]) -> Vec<String> {
        problems.iter().map(ToString::to_string).collect()
    }

    // covers: HANK-6
    #[test]
    fn what_nobody_can_run_is_an_error_with_what_to_write_instead() {
        let hank = hank(
            "{}",
            &[
                codon("a", r#""model": "flash""#),
                codon("b", r#""model": "sonet""#),
                codon("c", r#""model": "sonnet", "agent": "nobody""#),
                codon("d", r#""model": "sonnet", "agent": "claud""#),
                codon("e", r#""agent": {"command": ["x"], "stream": "codex"}"#),
                codon("f", r#""model": "m", "agent": "command""#),
                codon("g", r#""model": "opus[1m]""#),
                codon("h", r#""agent": {"command": ["x"], "stream": "claude"}"#),
                codon("i", r#""agent": {"script": "s.json"}"#),
            ],
        );
        let problems = unknown_names(&hank, &AGENTS, &Prices::default());
        let told = told(&problems);
        let expected = [
            (
                "hank[0].model (codon \"a\", \"N\"): no agent here runs the model `flash`",
                "\"agent\": { \"command\"",
            ),
            (
                "hank[1].model (codon \"b\", \"N\"): no agent here runs the model `sonet`",
                "did you mean `sonnet`?",
            ),
            (
                "hank[2].agent (codon \"c\", \"N\"): no agent is called `nobody`",
                "write \"claude\" or \"codex\" or \"scripted\", or { \"command\"",
            ),
            (
                "hank[3].agent (codon \"d\", \"N\"): no agent is called `claud`",
                "did you mean `claude`?",
            ),
            (
                "hank[4].agent.stream (codon \"e\", \"N\"): no stream is called `codex`",
                "write \"claude\"",
            ),
            (
                "hank[5].agent (codon \"f\", \"N\"): `command` alone names no program",
                "write { \"command\"",
            ),
        ];
        assert_eq!(told.len(), expected.len(), "{told:#?}");
        for (told, (message, hint)) in told.iter().zip(expected) {
            assert!(told.contains(message) && told.contains(hint), "{told}");
        }
        assert!(
            problems
                .iter()
                .all(|problem| problem.level == Severity::Error && problem.position.is_some())
        );
    }

    #[test]
    fn a_model_that_nobody_knows_is_a_warning_with_the_nearest_one() {
        let hank = hank(
            "{}",
            &[
                codon("a", r#""model": "claude-sonet-5""#),
                codon("b", r#""model": "claude-opus-5[1m]""#),
                codon("c", r#""model": "zzz", "agent": "claude""#),
                codon("d", r#""model": "default", "agent": "claude""#),
                codon("e", r#""model": "gpt-9", "agent": "codex""#),
            ],
        );
        let problems = unknown_names(&hank, &AGENTS, &Prices::default());
        assert!(problems.iter().all(|problem| problem.level == Severity::Warning));
        let told = told(&problems);
        assert_eq!(told.len(), 3, "{told:#?}");
        assert!(told[2].contains("`gpt-9`"));
        assert!(told[0].contains("`claude-sonet-5`") && told[0].contains("did you mean `claude-sonnet-5`?"));
        assert!(told[1].contains("`zzz`") && told[1].contains("hankweave prices"));
    }

    // covers: HANK-6
    #[test]
    fn codex_tells_no_money_so_a_limit_needs_a_price() {
        let told = |model: &str| {
            let codon = codon(
                "a",
                &format!(r#""agent": "codex", "model": "{model}", "budget": {{"maxDollars": 1}}"#),
            );
            let problems = uncounted_money(&hank("{}", &[codon]), &Prices::default(), None, can);
            problems.iter().map(|problem| problem.level).collect::<Vec<_>>()
        };
        assert_eq!(told("gpt-9"), [Severity::Error]);
        assert_eq!(told("codex"), [Severity::Error], "whatever codex chooses");
        assert_eq!(told("gpt-5.1-codex"), []);
    }

    // covers: HANK-6
    #[test]
    fn a_limit_in_dollars_that_nobody_can_count_is_an_error() {
        let program = r#""agent": {"command": ["x"], "stream": "claude"}"#;
        let house = codon("a", &format!(r#""model": "house-model", {program}"#));
        let limited = house.replace("}}", r#"}, "budget": {"maxDollars": 1}}"#);
        let prices = Prices::default();
        let level = |overrides: &str, codon: &String, ceiling: Option<Usd>, prices: &Prices| {
            let hank = hank(overrides, std::slice::from_ref(codon));
            let problems = uncounted_money(&hank, prices, ceiling, can);
            problems
                .first()
                .map(|problem| (problem.level, problem.path.clone()))
        };
        let error = |path: &str| Some((Severity::Error, path.to_owned()));
        let warning = |path: &str| Some((Severity::Warning, path.to_owned()));
        let budget = r#"{"budget": {"maxDollars": 1}}"#;
        let one = Some(Usd::from_micros(1_000_000));
        assert_eq!(
            level("{}", &limited, None, &prices),
            error("hank[0].budget.maxDollars")
        );
        assert_eq!(
            level(budget, &house, None, &prices),
            error("overrides.budget.maxDollars")
        );
        assert_eq!(level("{}", &house, one, &prices), error("hank[0].model"));
        assert_eq!(level("{}", &house, None, &prices), warning("hank[0].model"));
        assert_eq!(
            level(budget, &codon("a", program), None, &prices),
            warning("overrides.budget.maxDollars")
        );
        assert_eq!(level("{}", &codon("a", program), None, &prices), None);
        let claude = codon("a", r#""model": "claude-next", "agent": "claude""#);
        assert_eq!(
            level(budget, &claude, None, &prices),
            warning("overrides.budget.maxDollars")
        );
        for refused in [
            r#""model": "house-model", "agent": "claude""#,
            r#""model": "house-model", "agent": {"script": "s.json"}"#,
            r#""model": "sonnet", "agent": "codex""#,
        ] {
            let told = level(budget, &codon("a", refused), None, &prices);
            assert_eq!(told, error("overrides.budget.maxDollars"), "{refused}");
        }
        let pi = codon("a", r#""model": "house/m", "agent": "pi""#);
        assert_eq!(
            level(budget, &pi, None, &prices),
            warning("overrides.budget.maxDollars")
        );
        for counted in [
            r#""model": "sonnet", "agent": {"script": "s.json"}"#,
            r#""model": "opus[1m]""#,
            r#""model": "claude-sonnet-5", "agent": {"script": "s.json"}"#,
            r#""model": "claude-opus-5""#,
            r#""agent": "scripted", "model": "m""#,
        ] {
            assert_eq!(
                level(budget, &codon("a", counted), None, &prices),
                None,
                "{counted}"
            );
        }
        let (_, price) = prices.find("claude-opus-5").unwrap();
        let known = Prices::default().with([("house-model".to_owned(), price.rate)], "mine.json");
        assert_eq!(level(budget, &limited, one, &known), None);
    }

    #[test]
    fn the_hint_holds_a_file_of_prices_that_can_be_read() {
        let problem = crate::hank::PriceFile::parse(&price_example("house-model"));
        assert!(problem.problems.is_empty() && problem.models.contains_key("house-model"));
    }
}
