//! What the data of each event must be (STATE-22).

use std::path::PathBuf;

use serde_json::Value;

use super::LastCodonStatus;
use crate::agent::InterruptedBy;
use crate::codon::{CheckpointType, CodonStatus};
use crate::cost::Usd;
use crate::document::rules::{
    PENDING_ROLLBACK, PLAN_ENTRY, TOKENS, loop_context, sentinel_list, starting_conditions,
};
use crate::id::{CheckpointSha, CodonId, Pid, RunId};
use crate::shape::{Checker, Rule, any_object, leaf, optional, required};
use crate::time::Timestamp;

/// The rules for the data of the event with this name; `None` when there is no such event.
pub(super) fn rules(name: &str) -> Option<&'static [Rule]> {
    EVENTS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, rules)| *rules)
}

/// The names of all events.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    EVENTS.iter().map(|(name, _)| *name)
}

const EVENTS: &[(&str, &[Rule])] = &[
    ("RunStarted", RUN_STARTED),
    ("RunCompleted", RUN_ENDED),
    ("RunFailed", RUN_FAILED),
    ("RunCrashed", RUN_CRASHED),
    ("CodonStarted", CODON_STARTED),
    ("CodonTransitioned", CODON_TRANSITIONED),
    ("CostsUpdated", COSTS_UPDATED),
    ("CostsIncremented", COSTS_INCREMENTED),
    ("AssistantMessageCountUpdated", MESSAGE_COUNT_UPDATED),
    ("CodonFinalCostSet", FINAL_COST_SET),
    ("SentinelStatesUpdated", SENTINELS_UPDATED),
    ("CheckpointCreated", CHECKPOINT_CREATED),
    ("InitialCheckpointSet", INITIAL_CHECKPOINT_SET),
    ("ExtensionCountUpdated", EXTENSION_COUNT_UPDATED),
    ("RollbackPending", ROLLBACK_PENDING),
    ("PlanReplaced", PLAN_REPLACED),
];

const RUN_ID: Rule = required("runId", leaf::<RunId>);
const CODON_ID: Rule = required("codonId", leaf::<CodonId>);

const RUN_STARTED: &[Rule] = &[
    RUN_ID,
    required("runFolder", leaf::<PathBuf>),
    required("gitBranch", leaf::<String>),
    required("startingConditions", starting_conditions),
    required("serverPid", leaf::<Pid>),
];

const RUN_ENDED: &[Rule] = &[RUN_ID];

const RUN_FAILED: &[Rule] = &[RUN_ID, optional("interruptedBy", leaf::<InterruptedBy>)];

const RUN_CRASHED: &[Rule] = &[
    RUN_ID,
    required("detectedAt", leaf::<Timestamp>),
    required("lastCodonStatus", last_codon_status),
];

const CODON_STARTED: &[Rule] = &[RUN_ID, CODON_ID, optional("loopContext", loop_context)];

const CODON_TRANSITIONED: &[Rule] = &[
    RUN_ID,
    CODON_ID,
    required("from", leaf::<CodonStatus>),
    required("to", leaf::<CodonStatus>),
    optional("metadata", any_object),
];

const COSTS_UPDATED: &[Rule] = &[
    RUN_ID,
    CODON_ID,
    required("cost", leaf::<Usd>),
    required("tokens", tokens),
];

const COSTS_INCREMENTED: &[Rule] = &[
    RUN_ID,
    CODON_ID,
    required("costDelta", leaf::<Usd>),
    required("tokensDelta", tokens),
];

const MESSAGE_COUNT_UPDATED: &[Rule] = &[RUN_ID, CODON_ID, required("newCount", leaf::<u64>)];

const FINAL_COST_SET: &[Rule] = &[
    RUN_ID,
    CODON_ID,
    required("finalCost", leaf::<Usd>),
    required("finalTokens", tokens),
];

const SENTINELS_UPDATED: &[Rule] = &[
    RUN_ID,
    CODON_ID,
    required("sentinelStates", sentinel_list),
    required("totalCost", leaf::<Usd>),
];

const CHECKPOINT_CREATED: &[Rule] = &[
    RUN_ID,
    CODON_ID,
    required("checkpointType", leaf::<CheckpointType>),
    required("sha", leaf::<CheckpointSha>),
    required("branch", leaf::<String>),
];

const INITIAL_CHECKPOINT_SET: &[Rule] = &[required("sha", leaf::<CheckpointSha>)];

const EXTENSION_COUNT_UPDATED: &[Rule] = &[RUN_ID, CODON_ID, required("extensionCount", leaf::<u64>)];

const ROLLBACK_PENDING: &[Rule] = &[optional("rollback", |checker, pending| {
    checker.object(pending, PENDING_ROLLBACK)
})];

const PLAN_REPLACED: &[Rule] = &[required("executionPlan", |checker, plan| {
    checker.list(plan, |checker, entry| checker.object(entry, PLAN_ENTRY));
})];

fn tokens(checker: &mut Checker, value: &mut Value) {
    checker.object(value, TOKENS);
}

/// A state, or `unknown` in events of the older system.
fn last_codon_status(checker: &mut Checker, value: &mut Value) {
    if value.as_str() != Some(LastCodonStatus::UNKNOWN) {
        leaf::<CodonStatus>(checker, value);
    }
}
