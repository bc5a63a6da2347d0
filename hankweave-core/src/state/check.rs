//! Every problem of a document that could not be read straight into its types ("state model", sections 2, 3 and 7).
//!
//! Which fields a codon has in which status comes from the codon machine; only the type behind each name stands here.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::outline::Outline;
use super::{ContinuationReason, ProblemKind, RunStatus, StateProblem};
use crate::agent::FailureKind;
use crate::codon::{CODON, CodonExecution, CodonPhase, CodonStatus, SentinelStatus, UnloadReason};
use crate::cost::Usd;
use crate::id::{CheckpointSha, CodonId, LoopId, Pid, RunId, SentinelId, SessionId};
use crate::machine::stored::{Belongs, Stored};
use crate::machine::{Name, UnknownName};
use crate::time::Timestamp;

/// Documents do not have it yet; a later format would.
pub(super) const SCHEMA_VERSION_FIELD: &str = "schemaVersion";

/// The only format there is; a document without the field has it ("reliability and security", rule D4).
const SCHEMA_VERSION: u64 = 1;

/// Finds every problem. Takes out known names whose value is `null`, which count as absent.
pub(super) fn check(tree: &mut Value) -> Vec<StateProblem> {
    let mut checker = Checker {
        kind: ProblemKind::CorruptedData,
        path: String::new(),
        problems: Vec::new(),
    };
    checker.object(tree, DOCUMENT);
    checker.problems.extend(Outline::of_tree(tree).problems());
    checker.problems
}

type Check = fn(&mut Checker, &mut Value);

/// What a name of an object must be.
struct Rule {
    name: &'static str,
    presence: Presence,
    check: Check,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// There, and not `null`.
    Required,
    /// There, or `null`, or absent.
    Optional,
    /// There; `null` is a value of its own.
    Nullable,
}

const fn required(name: &'static str, check: Check) -> Rule {
    let presence = Presence::Required;
    Rule {
        name,
        presence,
        check,
    }
}

const fn optional(name: &'static str, check: Check) -> Rule {
    let presence = Presence::Optional;
    Rule {
        name,
        presence,
        check,
    }
}

const fn nullable(name: &'static str, check: Check) -> Rule {
    let presence = Presence::Nullable;
    Rule {
        name,
        presence,
        check,
    }
}

const DOCUMENT: &[Rule] = &[
    required("runs", |checker, runs| {
        checker.list(runs, |checker, run| checker.object(run, RUN));
    }),
    nullable("currentRunId", leaf::<Option<RunId>>),
    optional("initialCheckpoint", leaf::<CheckpointSha>),
    required("executionPlan", |checker, plan| {
        checker.list(plan, |checker, entry| checker.object(entry, PLAN_ENTRY));
    }),
    optional("pendingRollback", |checker, pending| {
        checker.object(pending, PENDING_ROLLBACK)
    }),
    optional(SCHEMA_VERSION_FIELD, schema_version),
];

const PENDING_ROLLBACK: &[Rule] = &[
    required("source", |checker, source| checker.object(source, SOURCE)),
    optional("left", leaf::<CheckpointSha>),
    required("restored", leaf::<bool>),
];

const PLAN_ENTRY: &[Rule] = &[
    required("codon", leaf::<Map<String, Value>>),
    required("codonId", leaf::<CodonId>),
    optional("loopContext", loop_context),
];

const RUN: &[Rule] = &[
    required("runId", leaf::<RunId>),
    required("runFolder", leaf::<PathBuf>),
    required("gitBranch", leaf::<String>),
    required("startingConditions", starting_conditions),
    required("codons", |checker, codons| checker.list(codons, codon)),
    required("status", leaf::<RunStatus>),
    required("startTime", leaf::<Timestamp>),
    optional("endTime", leaf::<Timestamp>),
    required("serverPid", leaf::<Pid>),
];

const FRESH: &[Rule] = &[optional("initialCheckpointSha", leaf::<CheckpointSha>)];

const CONTINUATION: &[Rule] = &[
    required("source", |checker, source| checker.object(source, SOURCE)),
    optional("reason", leaf::<ContinuationReason>),
];

const SOURCE: &[Rule] = &[
    required("runId", leaf::<RunId>),
    nullable("afterCodon", |checker, id| {
        if id.as_str() != Some("") {
            leaf::<Option<CodonId>>(checker, id);
        }
    }),
    required("checkpointSha", leaf::<CheckpointSha>),
];

const LOOP_CONTEXT: &[Rule] = &[
    required("loopId", leaf::<LoopId>),
    required("iteration", leaf::<u32>),
    required("codonIndexInLoop", leaf::<u32>),
];

const TOKENS: &[Rule] = &[
    required("inputTokens", leaf::<u64>),
    required("outputTokens", leaf::<u64>),
    required("cacheCreationTokens", leaf::<u64>),
    required("cacheReadTokens", leaf::<u64>),
];

const FAILURE_REASON: &[Rule] = &[
    required("type", leaf::<FailureKind>),
    required("retriable", leaf::<bool>),
    optional("message", leaf::<String>),
    optional("retryAfterMs", leaf::<u64>),
    optional("interrupted", leaf::<bool>),
    optional("sentinelRefs", leaf::<Vec<String>>),
];

const LOADED: &[Rule] = &[
    required("loaded", sentinel_list),
    required("totalCost", leaf::<Usd>),
];
const EXECUTED: &[Rule] = &[
    required("executed", sentinel_list),
    required("totalCost", leaf::<Usd>),
];

const SENTINEL: &[Rule] = &[
    required("id", leaf::<SentinelId>),
    required("model", leaf::<String>),
    required("loadedAt", leaf::<Timestamp>),
    required("llmCallCount", leaf::<u64>),
    required("failedLLMCalls", leaf::<u64>),
    optional("lastLlmCallAt", leaf::<Timestamp>),
    optional("totalTriggers", leaf::<u64>),
    required("totalCost", leaf::<Usd>),
    required("status", leaf::<SentinelStatus>),
    optional("unloadedAt", leaf::<Timestamp>),
    optional("unloadReason", leaf::<UnloadReason>),
];

/// Walks the tree, knows where it is, and collects.
struct Checker {
    /// What a problem here is called.
    kind: ProblemKind,
    path: String,
    problems: Vec<StateProblem>,
}

impl Checker {
    fn report(&mut self, message: impl Into<String>) {
        let path = match self.path.as_str() {
            "" => "$",
            path => path,
        };
        self.problems.push(StateProblem {
            kind: self.kind,
            path: path.to_owned(),
            message: message.into(),
        });
    }

    fn within<T>(&mut self, step: &str, check: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        if length > 0 && !step.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(step);
        let result = check(self);
        self.path.truncate(length);
        result
    }

    fn list(&mut self, value: &mut Value, check: Check) {
        let Value::Array(items) = value else {
            return self.report(format!("must be a list, not {}", kind_of(value)));
        };
        for (index, item) in items.iter_mut().enumerate() {
            self.within(&format!("[{index}]"), |checker| check(checker, item));
        }
    }

    fn object(&mut self, value: &mut Value, rules: &[Rule]) {
        let Value::Object(object) = value else {
            return self.report(format!("must be an object, not {}", kind_of(value)));
        };
        for Rule {
            name,
            presence,
            check,
        } in rules
        {
            let found = object.get_mut(*name);
            self.within(name, |checker| match (found, presence) {
                (None, Presence::Required | Presence::Nullable) => checker.report("is missing"),
                (Some(Value::Null), Presence::Required) => checker.report("must not be null"),
                (None | Some(Value::Null), _) => {}
                (Some(value), _) => check(checker, value),
            });
            if *presence == Presence::Optional {
                remove_null(object, name);
            }
        }
    }
}

/// A value that is one type.
fn leaf<T: DeserializeOwned>(checker: &mut Checker, value: &mut Value) {
    if let Err(error) = T::deserialize(&*value) {
        checker.report(error.to_string());
    }
}

fn schema_version(checker: &mut Checker, value: &mut Value) {
    if value.as_u64() != Some(SCHEMA_VERSION) {
        checker.report(format!(
            "is {value}, and this version reads {SCHEMA_VERSION} only"
        ));
    }
}

fn starting_conditions(checker: &mut Checker, value: &mut Value) {
    match value.get("type").and_then(Value::as_str) {
        Some("fresh") => checker.object(value, FRESH),
        Some("continuation") => checker.object(value, CONTINUATION),
        Some(other) => {
            let message = format!("is `{other}`, not `fresh` or `continuation`");
            checker.within("type", |checker| checker.report(message));
        }
        None if value.is_object() => {
            checker.within("type", |checker| {
                checker.report("must be `fresh` or `continuation`")
            });
        }
        None => checker.report(format!("must be an object, not {}", kind_of(value))),
    }
}

fn codon(checker: &mut Checker, value: &mut Value) {
    checker.kind = ProblemKind::InvalidCodon;
    match value {
        Value::Object(object) => match status(checker, object) {
            Some(status) => codon_in(checker, object, status),
            None => codon_in_no_status(checker, object),
        },
        other => checker.report(format!("must be an object, not {}", kind_of(other))),
    }
    checker.kind = ProblemKind::CorruptedData;
}

fn status(checker: &mut Checker, codon: &Map<String, Value>) -> Option<CodonStatus> {
    checker.within(CodonExecution::TAG, |checker| {
        let Some(status) = codon.get(CodonExecution::TAG).filter(|status| !status.is_null()) else {
            checker.report("is missing");
            return None;
        };
        let name = status.as_str().unwrap_or_default();
        let known = CodonStatus::parse(name);
        if known.is_none() {
            let found = status.as_str().map_or_else(|| status.to_string(), str::to_owned);
            checker.report(UnknownName::new::<CodonStatus>(&found).to_string());
        }
        known
    })
}

fn codon_in(checker: &mut Checker, codon: &mut Map<String, Value>, status: CodonStatus) {
    let state = CODON
        .states
        .iter()
        .find(|state| state.stored_name == status.as_str())
        .expect("every status is a state of the machine");
    codon.retain(|name, value| {
        !value.is_null() || matches!(CodonExecution::belongs(status, name), Belongs::Extra)
    });
    for field in state.fields.iter().filter(|field| field.required) {
        if !codon.contains_key(field.stored_name) {
            checker.within(field.stored_name, |checker| {
                checker.report(format!("is missing, and a codon that is {status} has it"));
            });
        }
    }
    for (name, value) in codon.iter_mut() {
        if name == CodonExecution::TAG {
            continue;
        }
        checker.within(name, |checker| match CodonExecution::belongs(status, name) {
            Belongs::Here => known_field(checker, name, value, Some(status)),
            Belongs::Elsewhere => checker.report(format!("a codon that is {status} does not have it")),
            Belongs::Tolerated | Belongs::Extra | Belongs::Unknown => {}
        });
    }
}

/// Without a status nobody knows which names belong; those that are there must still be what they always are.
fn codon_in_no_status(checker: &mut Checker, codon: &mut Map<String, Value>) {
    for name in ["codonId", "startTime"] {
        if !codon.contains_key(name) {
            checker.within(name, |checker| checker.report("is missing"));
        }
    }
    for (name, value) in codon.iter_mut().filter(|(_, value)| !value.is_null()) {
        checker.within(name, |checker| known_field(checker, name, value, None));
    }
}

/// The type behind a name; it is the same in every status.
fn known_field(checker: &mut Checker, name: &str, value: &mut Value, status: Option<CodonStatus>) {
    match name {
        "codonId" => leaf::<CodonId>(checker, value),
        "startTime" | "endTime" => leaf::<Timestamp>(checker, value),
        "loopContext" => loop_context(checker, value),
        "rigSetupCheckpoint" | "completionCheckpoint" | "errorCheckpoint" | "skipCheckpoint" => {
            leaf::<CheckpointSha>(checker, value);
        }
        "sentinels" => sentinels(checker, value, status),
        "claudePid" => leaf::<Pid>(checker, value),
        "claudeLogPath" => leaf::<PathBuf>(checker, value),
        "claudeSessionId" | "previousSessionId" => leaf::<SessionId>(checker, value),
        "currentCost" | "finalCost" | "partialCost" => leaf::<Usd>(checker, value),
        "currentTokens" | "finalTokens" | "partialTokens" => checker.object(value, TOKENS),
        "assistantMessageCount" => leaf::<u64>(checker, value),
        "exitCode" if status == Some(CodonStatus::Completed) && value.as_i64() != Some(0) => {
            checker.report(format!(
                "is {value}, and the agent of a completed codon exits with 0"
            ));
        }
        "exitCode" => leaf::<i64>(checker, value),
        "resultMessageReceived" => leaf::<bool>(checker, value),
        "failedDuring" | "skippedDuring" => leaf::<CodonPhase>(checker, value),
        "failureReason" => checker.object(value, FAILURE_REASON),
        _ => {}
    }
}

fn loop_context(checker: &mut Checker, value: &mut Value) {
    checker.object(value, LOOP_CONTEXT);
}

/// `loaded` until the codon ends and `executed` afterwards, never both ("state model", section 3).
fn sentinels(checker: &mut Checker, value: &mut Value, status: Option<CodonStatus>) {
    let (rules, other) = match status {
        Some(status) if status.is_terminal() => (EXECUTED, "loaded"),
        Some(_) => (LOADED, "executed"),
        None => return,
    };
    checker.object(value, rules);
    let Value::Object(object) = value else {
        return;
    };
    remove_null(object, other);
    if object.contains_key(other) {
        let message = format!("stands beside or instead of `{}`", rules[0].name);
        checker.within(other, |checker| checker.report(message));
    }
}

fn sentinel_list(checker: &mut Checker, value: &mut Value) {
    checker.list(value, |checker, sentinel| checker.object(sentinel, SENTINEL));
}

fn remove_null(object: &mut Map<String, Value>, name: &str) {
    if object.get(name).is_some_and(Value::is_null) {
        object.shift_remove(name);
    }
}

const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_the_codon_machine_has_its_type_here() {
        // A number that nothing accepts, not even the fields that take any text.
        for field in CODON.states.iter().flat_map(|state| state.fields) {
            let mut checker = Checker {
                kind: ProblemKind::InvalidCodon,
                path: String::new(),
                problems: Vec::new(),
            };
            let status = Some(CodonStatus::Running);
            known_field(&mut checker, field.stored_name, &mut Value::from(-1.5), status);
            assert!(!checker.problems.is_empty(), "{}", field.stored_name);
        }
    }
}
