//! What a run refuses although the hank is well written, because nobody here can do it, and what it can do only in part (HANK-6).

use super::agent::{AgentChoice, agent_for_model};
use super::document::{CodonConfig, Hank, HankItem};
use super::keys::{nearest, nearest_names};
use super::problem::{Problem, quoted};
use crate::cost::Usd;
use crate::cost::pricing::{ALIASES, Prices};

/// The streams that are understood.
pub const STREAMS: [&str; 1] = ["claude"];

/// Agents and streams that nobody can run, as errors, and names of models that nobody knows, as warnings; `agents` are those that there are.
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
        } else if codon.agent_name() == "claude"
            && let Some(model) = codon.model.as_deref().filter(|model| !prices.is_known(model))
        {
            let message = format!("nobody here knows the model {}", quoted(model));
            let hint = match nearest_model(model, prices) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    "`hankweave prices` lists the models that are known; claude may know others".to_owned()
                }
            };
            problems.push(Problem::warning(&hank.places, format!("{path}.model"), message).with_hint(hint));
        }
    }
    problems
}

const OWN_PROGRAM: &str = r#"{ "command": ["your-program"], "stream": "claude" }"#;

fn unknown_agent(codon: &CodonConfig, agents: &[&str], prices: &Prices) -> Option<(String, String)> {
    let name = codon.agent_name();
    match (&codon.agent, &codon.model) {
        (Some(AgentChoice::Named(_)), _) if name == "command" => Some((
            "`command` alone names no program".to_owned(),
            format!("write {OWN_PROGRAM}"),
        )),
        _ if agents.contains(&name) => None,
        (None, Some(model)) => {
            let message = format!("no agent here runs the model {}", quoted(model));
            let hint = match nearest_model(model, prices) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!(
                    "claude runs Anthropic's models, such as \"sonnet\"; for others name a program that prints claude's stream: \
                     \"agent\": {OWN_PROGRAM}"
                ),
            };
            Some((message, hint))
        }
        _ => {
            let known: Vec<&str> = agents
                .iter()
                .copied()
                .filter(|agent| *agent != "command")
                .collect();
            let hint = match nearest(name, &known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("write \"{}\", or {OWN_PROGRAM}", known.join("\" or \"")),
            };
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

/// The model of claude of which `model` is most probably a misspelling.
fn nearest_model<'p>(model: &str, prices: &'p Prices) -> Option<&'p str> {
    let mut near = nearest_models(model, prices).into_iter();
    near.find(|near| agent_for_model(near) == "claude")
}

/// The known models of which `model` may be a misspelling, at most three, the nearest one first.
#[must_use]
pub fn nearest_models<'p>(model: &str, prices: &'p Prices) -> Vec<&'p str> {
    let families = prices.iter().map(|(family, _)| family);
    let names: Vec<&str> = ALIASES.into_iter().chain(families).collect();
    nearest_names(model, &names, 3)
}

/// Limits in dollars that cannot be held because nobody can count the dollars, as errors, and money that is counted late or not at all, as
/// warnings. `ceiling` is the limit of the run, wherever it comes from.
#[must_use]
pub fn uncounted_money(hank: &Hank, prices: &Prices, ceiling: Option<Usd>) -> Vec<Problem> {
    let whole = hank
        .overrides
        .as_ref()
        .and_then(|overrides| overrides.budget.as_ref());
    let whole = whole
        .and_then(|budget| budget.max_dollars)
        .map(|_| "overrides.budget.maxDollars".to_owned());
    let mut problems = Vec::new();
    for (index, item) in hank.items.iter().enumerate() {
        let around = match item {
            HankItem::Loop(found) => found.budget.as_ref().and_then(|budget| budget.max_dollars),
            HankItem::Codon(_) => None,
        };
        for (path, codon) in item.located_codons(index) {
            let own = codon.budget.and_then(|budget| budget.max_dollars);
            let limit = own
                .map(|_| format!("{path}.budget.maxDollars"))
                .or_else(|| around.map(|_| format!("hank[{index}].budget.maxDollars")))
                .or_else(|| whole.clone());
            let limit = match (limit, ceiling) {
                (Some(place), _) => Limit::At(place),
                (None, Some(_)) => Limit::OfTheRun,
                (None, None) => Limit::None,
            };
            problems.extend(uncounted(hank, &path, codon, &limit, prices));
        }
    }
    problems
}

/// What limits the dollars of a codon.
enum Limit {
    /// What stands at this place of the hank.
    At(String),
    /// The command line or hankweave.json.
    OfTheRun,
    None,
}

fn uncounted(
    hank: &Hank,
    path: &str,
    codon: &CodonConfig,
    limit: &Limit,
    prices: &Prices,
) -> Option<Problem> {
    let id = codon.id.as_str();
    let model = codon.model.as_deref();
    if model.is_some_and(|model| prices.is_known(model)) {
        return None;
    }
    let place = match limit {
        Limit::At(place) => place.clone(),
        Limit::OfTheRun | Limit::None => match model {
            Some(_) => format!("{path}.model"),
            None => format!("{path}.agent"),
        },
    };
    let limited = match limit {
        Limit::At(_) => "this limit",
        Limit::OfTheRun => "the limit of the run in dollars",
        Limit::None => "",
    };
    match (&codon.agent, model, limit) {
        // The program can be anything, and what it prints as well.
        (Some(AgentChoice::Command(_)), Some(model), Limit::At(_) | Limit::OfTheRun) => {
            let message = format!(
                "{limited} cannot be held: nobody here knows the price of {}, which codon `{id}` uses",
                quoted(model)
            );
            let hint = format!(
                "give the price with `--prices FILE`, in dollars per million tokens; FILE holds such as {}",
                example(model)
            );
            Some(Problem::error(&hank.places, place, message).with_hint(hint))
        }
        (Some(AgentChoice::Command(_)), Some(model), Limit::None) => {
            let message = format!(
                "the price of {} is not known: the money is counted only as far as the program reports it",
                quoted(model)
            );
            let hint = format!("`--prices FILE` gives it; FILE holds such as {}", example(model));
            Some(Problem::warning(&hank.places, place, message).with_hint(hint))
        }
        (Some(AgentChoice::Command(_)), None, Limit::At(_) | Limit::OfTheRun) => {
            let message = format!(
                "whether {limited} can be held is not known before codon `{id}` says which model it uses"
            );
            let hint = format!("write \"model\": \"NAME\" into codon `{id}`, the one that its program uses");
            Some(Problem::warning(&hank.places, place, message).with_hint(hint))
        }
        // It tells its money itself, at its end.
        (_, Some(model), Limit::At(_) | Limit::OfTheRun) if codon.agent_name() == "claude" => {
            let message = format!(
                "the price of {} is not known, so the dollars of codon `{id}` count only when claude reports them",
                quoted(model)
            );
            let hint = format!("`--prices FILE` gives it; FILE holds such as {}", example(model));
            Some(Problem::warning(&hank.places, place, message).with_hint(hint))
        }
        // The scripted agent costs nothing, and what an embedding program registers tells its money itself.
        _ => None,
    }
}

/// What a file of prices has to hold for `model`, with prices that are to be replaced.
fn example(model: &str) -> String {
    let model = serde_json::Value::from(model);
    format!(r#"{{"models": {{{model}: {{"input": 3, "output": 15}}}}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hank::{Level, parse};

    const AGENTS: [&str; 3] = ["claude", "command", "scripted"];

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

    fn told(problems: &[Problem]) -> Vec<String> {
        problems.iter().map(ToString::to_string).collect()
    }

    // covers: HANK-6
    #[test]
    fn what_nobody_can_run_is_an_error_with_what_to_write_instead() {
        let hank = hank(
            "{}",
            &[
                codon("a", r#""model": "gpt-5.2""#),
                codon("b", r#""model": "sonet""#),
                codon("c", r#""model": "sonnet", "agent": "codex""#),
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
                "hank[0].model (codon \"a\", \"N\"): no agent here runs the model `gpt-5.2`",
                "\"agent\": { \"command\"",
            ),
            (
                "hank[1].model (codon \"b\", \"N\"): no agent here runs the model `sonet`",
                "did you mean `sonnet`?",
            ),
            (
                "hank[2].agent (codon \"c\", \"N\"): no agent is called `codex`",
                "write \"claude\" or \"scripted\", or { \"command\"",
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
                .all(|problem| problem.level == Level::Error && problem.position.is_some())
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
            ],
        );
        let problems = unknown_names(&hank, &AGENTS, &Prices::default());
        assert!(problems.iter().all(|problem| problem.level == Level::Warning));
        let told = told(&problems);
        assert_eq!(told.len(), 2, "{told:#?}");
        assert!(told[0].contains("`claude-sonet-5`") && told[0].contains("did you mean `claude-sonnet-5`?"));
        assert!(told[1].contains("`zzz`") && told[1].contains("hankweave prices"));
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
            let problems = uncounted_money(&hank, prices, ceiling);
            problems
                .first()
                .map(|problem| (problem.level, problem.path.clone()))
        };
        let error = |path: &str| Some((Level::Error, path.to_owned()));
        let warning = |path: &str| Some((Level::Warning, path.to_owned()));
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
        for counted in [
            r#""model": "opus[1m]""#,
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
        let problem = crate::hank::PriceFile::parse(&example("house-model"));
        assert!(problem.problems.is_empty() && problem.models.contains_key("house-model"));
    }
}
