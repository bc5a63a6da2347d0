//! Reads the parts of a hank other than the list of codons: meta, overrides and requirements; also the budgets of hanks and loops.

use super::options::agent_options;
use super::{
    agent_of_all, at_least_one, dollars, fallback, file_limit, model, on_background_cut, on_exceeded,
    requires, seconds_of_silence, seconds_to_settle,
};
use crate::hank::budget::{Allocation, ContainerBudget};
use crate::hank::document::{HankMeta, Overrides, Requirements};
use crate::hank::keys;
use crate::hank::reader::{HankReader, JsonNode, choice, list, parsed};

pub(super) fn meta(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<HankMeta> {
    let fields = reader.fields(node, &keys::META)?;
    let name = fields.required(reader, "name", HankReader::non_empty);
    let version = fields.required(reader, "version", HankReader::non_empty);
    let description = fields.optional(reader, "description", HankReader::string);
    let author = fields.optional(reader, "author", HankReader::string);
    Some(HankMeta {
        name: name?,
        version: version?,
        description,
        author,
    })
}

pub(super) fn overrides(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<Overrides> {
    let fields = reader.fields(node, &keys::OVERRIDES)?;
    Some(Overrides {
        agent: fields.optional(reader, "agent", agent_of_all),
        model: fields.optional(reader, "model", model),
        data_hash_time_limit: fields.optional(reader, "dataHashTimeLimit", at_least_one),
        checkpointed_file_limit_mb: fields.optional(reader, "checkpointedFileLimitMb", file_limit),
        sentinel: fields.optional(reader, "sentinel", |reader, node| {
            reader.warning(
                node,
                "has no effect: answers are always kept, and no health is checked",
            );
            let sentinel = reader.fields(node, &keys::SENTINEL_DEFAULTS)?;
            sentinel.optional(reader, "enablePersistence", HankReader::boolean);
            sentinel.optional(reader, "healthCheckGracePeriodMs", at_least_one);
            sentinel.optional(reader, "waitForAllHealthChecks", HankReader::boolean);
            reader.json_object(node)
        }),
        shim_idle_timeout: fields.optional(reader, "shimIdleTimeout", seconds_of_silence),
        settle_seconds: fields.optional(reader, "settleSeconds", seconds_to_settle),
        max_background_seconds: fields.optional(reader, "maxBackgroundSeconds", seconds_to_settle),
        on_background_cut: fields.optional(reader, "onBackgroundCut", on_background_cut),
        fallback: fields.optional(reader, "fallback", fallback),
        requires: fields.optional(reader, "requires", requires),
        agent_options: agent_options(reader, &fields),
        budget: fields.optional(reader, "budget", container_budget),
    })
}

pub(super) fn requirements(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<Requirements> {
    let fields = reader.fields(node, &keys::REQUIREMENTS)?;
    Some(Requirements {
        env: fields.or_default(reader, "env", list(parsed(variable))),
        tools: fields.or_default(reader, "tools", list(parsed(tool))),
    })
}

fn variable(name: &str) -> Result<String, &'static str> {
    match name.trim() {
        "" => Err("must not be empty"),
        name if name.contains(['=', '\0']) => Err("is no name for an environment variable"),
        name => Ok(name.to_owned()),
    }
}

fn tool(name: &str) -> Result<String, &'static str> {
    match name.trim() {
        "" => Err("must not be empty"),
        name if name.contains(|c: char| c.is_whitespace() || matches!(c, '/' | '\\' | '\0')) => {
            Err("must be the bare name of a program, without a path or arguments")
        }
        name => Ok(name.to_owned()),
    }
}

pub(super) fn container_budget(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<ContainerBudget> {
    use Allocation::{Proportional, ProportionalStrict, Shared};
    let allocations = [
        ("shared", Shared),
        ("proportional", Proportional),
        ("proportional-strict", ProportionalStrict),
    ];
    let fields = reader.fields(node, &keys::CONTAINER_BUDGET)?;
    Some(ContainerBudget {
        max_dollars: fields.optional(reader, "maxDollars", dollars),
        max_time_seconds: fields.optional(reader, "maxTimeSeconds", HankReader::positive),
        allocation: fields.optional(reader, "allocation", choice(&allocations)),
        shares: fields.or_default(reader, "shares", |reader, node| reader.map(node, share)),
        on_exceeded: fields.optional(reader, "onExceeded", on_exceeded),
    })
}

fn share(reader: &mut HankReader<'_>, _child: &str, node: &JsonNode<'_>) -> Option<f64> {
    let share = reader.positive(node)?;
    if share > 1.0 {
        reader.error(node, "must not be above 1");
    }
    Some(share)
}
