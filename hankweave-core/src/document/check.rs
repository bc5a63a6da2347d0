//! What the parts of a document must look like, for one that could not be read straight into its types (STATE-8, STATE-33).
//!
//! Which fields a codon has in which status comes from the codon machine; only the type behind each name stands here.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::rules::{
    FAILURE_REASON, PENDING_ROLLBACK, TOKENS, loop_context, sentinel_list, starting_conditions,
};
use super::{ProblemKind, RunStatus, StateProblem};
use crate::agent::InterruptedBy;
use crate::codon::{CODON, CodonExecution, CodonPhase, CodonStatus};
use crate::cost::Usd;
use crate::id::{CheckpointSha, CodonId, Pid, RunId, SessionId};
use crate::machine::Name;
use crate::machine::stored::{Belongs, Stored};
use crate::shape::{Checker, Finding, Rule, kind_of, leaf, nullable, optional, remove_null, required};
use crate::time::Timestamp;

/// Documents do not have it yet; a later format would.
pub(super) const SCHEMA_VERSION_FIELD: &str = "schemaVersion";

/// The only format there is; a document without the field has it (D4).
pub(super) const SCHEMA_VERSION: u64 = 1;

/// A finding, with the kind that follows from its place.
pub(super) fn problem(Finding { path, message }: Finding) -> StateProblem {
    let kind = match is_in_codon(&path) {
        true => ProblemKind::InvalidCodon,
        false => ProblemKind::CorruptedData,
    };
    let path = if path.is_empty() { "$".to_owned() } else { path };
    StateProblem { kind, path, message }
}

/// Whether the path leads into `runs[…].codons[…]`.
fn is_in_codon(path: &str) -> bool {
    let mut steps = path.split('.');
    steps.next().is_some_and(|run| run.starts_with("runs["))
        && steps.next().is_some_and(|codon| codon.starts_with("codons["))
}

/// The document; its runs and the entries of its plan are judged one by one before.
pub(super) const DOCUMENT: &[Rule] = &[
    required("runs", Checker::judged_list),
    nullable("currentRunId", leaf::<Option<RunId>>),
    optional("initialCheckpoint", leaf::<CheckpointSha>),
    required("executionPlan", Checker::judged_list),
    optional("pendingRollback", |checker, pending| {
        checker.object(pending, PENDING_ROLLBACK)
    }),
    optional(SCHEMA_VERSION_FIELD, schema_version),
];

/// A run; its codons are judged one by one before.
pub(super) const RUN: &[Rule] = &[
    required("runId", leaf::<RunId>),
    required("runFolder", leaf::<PathBuf>),
    required("gitBranch", leaf::<String>),
    required("startingConditions", starting_conditions),
    required("codons", Checker::judged_list),
    required("status", leaf::<RunStatus>),
    required("startTime", leaf::<Timestamp>),
    optional("endTime", leaf::<Timestamp>),
    required("serverPid", leaf::<Pid>),
    optional("interruptedBy", leaf::<InterruptedBy>),
];

const LOADED: &[Rule] = &[
    required("loaded", sentinel_list),
    required("totalCost", leaf::<Usd>),
];
const EXECUTED: &[Rule] = &[
    required("executed", sentinel_list),
    required("totalCost", leaf::<Usd>),
];

fn schema_version(checker: &mut Checker, value: &mut Value) {
    if value.as_u64() != Some(SCHEMA_VERSION) {
        checker.report(format!(
            "is {value}, and this version reads {SCHEMA_VERSION} only"
        ));
    }
}

pub(super) fn codon(checker: &mut Checker, value: &mut Value) {
    match value {
        Value::Object(object) => match status(checker, object) {
            Some(status) => codon_in(checker, object, status),
            None => codon_in_no_status(checker, object),
        },
        other => checker.report(format!("must be an object, not {}", kind_of(other))),
    }
}

fn status(checker: &mut Checker, codon: &mut Map<String, Value>) -> Option<CodonStatus> {
    checker.within(CodonExecution::TAG, |checker| {
        let Some(status) = codon
            .get_mut(CodonExecution::TAG)
            .filter(|status| !status.is_null())
        else {
            checker.report("is missing");
            return None;
        };
        leaf::<CodonStatus>(checker, status);
        status.as_str().and_then(CodonStatus::parse)
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

/// `loaded` until the codon ends and `executed` afterwards, never both (STATE-12).
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_the_codon_machine_has_its_type_here() {
        // A number that nothing accepts, not even the fields that take any text.
        for field in CODON.states.iter().flat_map(|state| state.fields) {
            let mut checker = Checker::default();
            let status = Some(CodonStatus::Running);
            known_field(&mut checker, field.stored_name, &mut Value::from(-1.5), status);
            assert!(!checker.into_findings().is_empty(), "{}", field.stored_name);
        }
    }
}
