//! Checks a document as a tree of JSON and reports every problem, after it could not be read straight into its types (STATE-8, STATE-33).

use serde_json::{Map, Value};

use super::{HankweaveState, ProblemKind, StateProblem};
use crate::codon::{CODON, CodonExecution, CodonStatus};
use crate::machine::Name;
use crate::machine::stored::{NameScope, Stored};
use crate::shape::{Checker, Shape, ShapeProblem, kind_of, optional};

/// Name of a field that documents do not have yet; a later format would have it.
pub(super) const SCHEMA_VERSION_FIELD: &str = "schemaVersion";

/// Version of the format of state.json; a document without the field has it (D4).
pub const FORMAT: u64 = 1;

/// Turns a finding into a problem, whose kind follows from the path.
pub(super) fn problem(ShapeProblem { path, message }: ShapeProblem) -> StateProblem {
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

/// Checks the whole document.
pub(super) fn document(checker: &mut Checker, document: &mut Value) {
    HankweaveState::check(checker, document);
    if document.is_object() {
        checker.object(document, &[optional(SCHEMA_VERSION_FIELD, schema_version)]);
    }
}

fn schema_version(checker: &mut Checker, value: &mut Value) {
    if value.as_u64() != Some(FORMAT) {
        checker.report(format!("is {value}, and this version reads {FORMAT} only"));
    }
}

impl Shape for CodonExecution {
    fn check(checker: &mut Checker, value: &mut Value) {
        match value {
            Value::Object(object) => match status(checker, object) {
                Some(status) => codon_in(checker, object, status),
                None => codon_in_no_status(checker, object),
            },
            other => checker.report(format!("must be an object, not {}", kind_of(other))),
        }
    }
}

/// Returns the status of a codon; reports any other value.
fn status(checker: &mut Checker, codon: &mut Map<String, Value>) -> Option<CodonStatus> {
    checker.within(CodonExecution::TAG, |checker| {
        let Some(status) = codon
            .get_mut(CodonExecution::TAG)
            .filter(|status| !status.is_null())
        else {
            checker.report("is missing");
            return None;
        };
        CodonStatus::check(checker, status);
        status.as_str().and_then(CodonStatus::parse)
    })
}

fn codon_in(checker: &mut Checker, codon: &mut Map<String, Value>, status: CodonStatus) {
    let state = CODON
        .states
        .iter()
        .find(|state| state.stored_name == status.as_str())
        .expect("every status is a state of the machine");
    // STATE-9: `null` is absent.
    codon.retain(|name, value| {
        !value.is_null() || matches!(CodonExecution::belongs(status, name), NameScope::Extra)
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
            NameScope::Here => known_field(checker, name, value, Some(status)),
            NameScope::Elsewhere => checker.report(format!("a codon that is {status} does not have it")),
            NameScope::Tolerated | NameScope::Extra | NameScope::Unknown => {}
        });
    }
}

/// Checks a codon without a status. Its set of names is unknown then, but each name that is present must be valid.
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

/// Checks the value of a field that the codon machine declares.
fn known_field(checker: &mut Checker, name: &str, value: &mut Value, status: Option<CodonStatus>) {
    if name == "exitCode" && status == Some(CodonStatus::Completed) && value.as_i64() != Some(0) {
        let message = format!("is {value}, and the agent of a completed codon exits with 0");
        checker.report(message);
    } else if let Some(check) = CodonExecution::shape_of(status, name) {
        check(checker, value);
    }
}
