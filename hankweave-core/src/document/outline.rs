//! What the parts of a document must be to one another (D3).

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use super::{HankweaveState, ProblemKind, StateProblem};
use crate::codon::CodonStatus;
use crate::machine::Name;

/// The ids and open codons of a document, of one that was read or of trees that may be no document.
#[derive(Debug, Default)]
pub(super) struct Outline<'a> {
    current: Option<Cow<'a, str>>,
    runs: Vec<RunOutline<'a>>,
    plan: Vec<Option<Cow<'a, str>>>,
}

#[derive(Debug)]
struct RunOutline<'a> {
    id: Option<Cow<'a, str>>,
    /// The positions of the codons that have not ended.
    open: Vec<usize>,
}

impl<'a> Outline<'a> {
    pub(super) fn of(state: &'a HankweaveState) -> Self {
        let runs = state.runs.iter().map(|run| RunOutline {
            id: Some(run.run_id.as_str().into()),
            open: positions(run.codons.iter().map(|codon| !codon.is_terminal())),
        });
        let plan = state.execution_plan.iter();
        Self {
            current: state.current_run_id.as_ref().map(|id| id.as_str().into()),
            runs: runs.collect(),
            plan: plan.map(|entry| Some(entry.codon_id.as_str().into())).collect(),
        }
    }

    /// Ids that stand twice, a current run that does not exist, and open codons beside another open one.
    pub(super) fn problems(&self) -> Vec<StateProblem> {
        let mut problems = Vec::new();
        let mut report = |kind, path: String, message: String| {
            problems.push(StateProblem { kind, path, message });
        };
        let mut runs = HashSet::new();
        for (index, run) in self.runs.iter().enumerate() {
            if let Some(id) = run.id.as_deref().filter(|id| !runs.insert(*id)) {
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
        if let Some(id) = self.current.as_deref().filter(|id| !runs.contains(id)) {
            let message = format!("run `{id}` does not exist");
            report(ProblemKind::MissingRun, "currentRunId".to_owned(), message);
        }
        let mut planned = HashSet::new();
        for (index, id) in self.plan.iter().enumerate() {
            if let Some(id) = id.as_deref().filter(|id| !planned.insert(*id)) {
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

/// What trees say about a document, as far as they have the right shape.
impl Outline<'static> {
    pub(super) fn forget_runs(&mut self) {
        self.runs.clear();
    }

    pub(super) fn forget_plan(&mut self) {
        self.plan.clear();
    }

    /// The next run, and which of its codons are open.
    pub(super) fn add_run(&mut self, run: &Value, open: Vec<usize>) {
        let id = text(run, "runId");
        self.runs.push(RunOutline { id, open });
    }

    /// The next entry of the plan.
    pub(super) fn add_plan_entry(&mut self, entry: &Value) {
        self.plan.push(text(entry, "codonId"));
    }

    /// The document around them.
    pub(super) fn set_current(&mut self, document: &Value) {
        self.current = text(document, "currentRunId");
    }
}

/// Whether the tree of a codon says that it has not ended.
pub(super) fn is_open(codon: &Value) -> bool {
    let status = codon.get("status").and_then(Value::as_str);
    status
        .and_then(CodonStatus::parse)
        .is_some_and(|status| !status.is_terminal())
}

fn text(object: &Value, name: &str) -> Option<Cow<'static, str>> {
    let text = object.get(name).and_then(Value::as_str)?;
    Some(Cow::Owned(text.to_owned()))
}

fn positions(open: impl Iterator<Item = bool>) -> Vec<usize> {
    let open = open.enumerate().filter(|(_, open)| *open);
    open.map(|(position, _)| position).collect()
}
