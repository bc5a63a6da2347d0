//! Checks the relations between the parts of a document: ids that occur twice, the current run, codons that are open (D3).

use std::collections::HashSet;

use serde_json::Value;

use super::{HankweaveState, ProblemKind, StateProblem};
use crate::codon::CodonStatus;
use crate::machine::Name;

/// The ids and open codons of a document. They come from a document that was read, or from a tree of JSON, which may be no document: then an id may be missing.
#[derive(Debug)]
pub(super) struct Outline<'a> {
    /// The id of the current run.
    current: Option<&'a str>,
    runs: Vec<RunOutline<'a>>,
    /// The ids in the plan.
    plan: Vec<Option<&'a str>>,
}

#[derive(Debug)]
struct RunOutline<'a> {
    id: Option<&'a str>,
    /// Positions of the codons that have not ended.
    open: Vec<usize>,
}

impl<'a> Outline<'a> {
    pub(super) fn of(state: &'a HankweaveState) -> Self {
        let runs = state.runs.iter().map(|run| RunOutline {
            id: Some(run.run_id.as_str()),
            open: positions(run.codons.iter().map(|codon| !codon.is_terminal())),
        });
        let plan = state.execution_plan.iter();
        Self {
            current: state.current_run_id.as_ref().map(|id| id.as_str()),
            runs: runs.collect(),
            plan: plan.map(|entry| Some(entry.codon_id.as_str())).collect(),
        }
    }

    /// Returns the outline of a tree that may be no document; parts of a wrong shape are left out.
    pub(super) fn of_tree(tree: &'a Value) -> Self {
        let runs = elements(&tree["runs"]).map(|run| RunOutline {
            id: run["runId"].as_str(),
            open: positions(elements(&run["codons"]).map(is_open)),
        });
        let plan = elements(&tree["executionPlan"]);
        Self {
            current: tree["currentRunId"].as_str(),
            runs: runs.collect(),
            plan: plan.map(|entry| entry["codonId"].as_str()).collect(),
        }
    }

    /// Returns ids that occur twice, a current run that does not exist, and open codons in addition to the first open one of a run.
    pub(super) fn problems(&self) -> Vec<StateProblem> {
        let mut problems = Vec::new();
        let mut report = |kind, path: String, message: String| {
            problems.push(StateProblem { kind, path, message });
        };
        let mut runs = HashSet::new();
        for (index, run) in self.runs.iter().enumerate() {
            if let Some(id) = run.id.filter(|id| !runs.insert(*id)) {
                let path = format!("runs[{index}].runId");
                report(
                    ProblemKind::CorruptedData,
                    path,
                    format!("run `{id}` is in the document twice"),
                );
            }
            for codon in run.open.iter().skip(1) {
                let path = format!("runs[{index}].codons[{codon}].status");
                let first = run.open[0];
                let message = format!("codons[{first}] of the same run is open already");
                report(ProblemKind::InvalidCodon, path, message);
            }
        }
        if let Some(id) = self.current.filter(|id| !runs.contains(id)) {
            let message = format!("run `{id}` does not exist");
            report(ProblemKind::MissingRun, "currentRunId".to_owned(), message);
        }
        let mut planned = HashSet::new();
        for (index, id) in self.plan.iter().enumerate() {
            if let Some(id) = id.filter(|id| !planned.insert(*id)) {
                let path = format!("executionPlan[{index}].codonId");
                report(
                    ProblemKind::CorruptedData,
                    path,
                    format!("codon `{id}` is in the plan twice"),
                );
            }
        }
        problems
    }
}

/// Returns whether the tree of a codon shows that it has not ended.
fn is_open(codon: &Value) -> bool {
    let status = codon["status"].as_str().and_then(CodonStatus::parse);
    status.is_some_and(|status| !status.is_terminal())
}

fn elements(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn positions(open: impl Iterator<Item = bool>) -> Vec<usize> {
    let open = open.enumerate().filter(|(_, open)| *open);
    open.map(|(position, _)| position).collect()
}
