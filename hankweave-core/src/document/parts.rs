//! A document whose runs, codons and plan entries are checked and converted one by one while its text is read.
//!
//! A tree of values takes several times the memory of its text. So each part becomes what it is in the document, or findings, as soon as it
//! is complete, and only what is left of the document stands in a tree.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::check::{codon, document, problem};
use super::outline::{Outline, is_open};
use super::tree::{Path, Take};
use super::{HankweaveState, PlanEntry, ProblemKind, RunRecord, StateProblem};
use crate::codon::CodonExecution;
use crate::shape::{Checker, Finding, Shape};

/// The parts that have been read so far.
#[derive(Default)]
pub(super) struct Parts {
    /// Of the run that is being read.
    codons: Checked<Arc<CodonExecution>>,
    open_codons: Vec<usize>,
    runs: Checked<Arc<RunRecord>>,
    plan: Checked<PlanEntry>,
    outline: Outline<'static>,
    /// What the check accepted and the types did not.
    unreadable: Vec<StateProblem>,
}

/// Elements of one list: those without findings, and the findings of the others.
struct Checked<T> {
    values: Vec<T>,
    findings: Vec<Finding>,
}

impl<T> Default for Checked<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            findings: Vec::new(),
        }
    }
}

/// The lists whose elements are parts.
enum List {
    Runs,
    Codons,
    Plan,
}

impl List {
    fn at(path: &Path<'_>) -> Option<Self> {
        match path {
            Path::Name(Path::Root, "runs") => Some(Self::Runs),
            Path::Name(Path::Root, "executionPlan") => Some(Self::Plan),
            Path::Name(Path::Index(Path::Name(Path::Root, "runs"), _), "codons") => Some(Self::Codons),
            _ => None,
        }
    }
}

impl Take for Parts {
    fn begin(&mut self, list: &Path<'_>) {
        match List::at(list) {
            Some(List::Runs) => {
                self.runs = Checked::default();
                self.outline.forget_runs();
            }
            Some(List::Codons) => {
                self.codons = Checked::default();
                self.open_codons.clear();
            }
            Some(List::Plan) => {
                self.plan = Checked::default();
                self.outline.forget_plan();
            }
            None => {}
        }
    }

    fn take(&mut self, list: &Path<'_>, index: usize, element: Value) -> Option<Value> {
        let path = Path::Index(list, index);
        match List::at(list) {
            Some(List::Runs) => self.run(&path, element),
            Some(List::Codons) => self.codon(&path, index, element),
            Some(List::Plan) => self.plan_entry(&path, element),
            None => return Some(element),
        }
        None
    }
}

impl Parts {
    fn codon(&mut self, path: &Path<'_>, index: usize, mut value: Value) {
        if is_open(&value) {
            self.open_codons.push(index);
        }
        let mut checker = Checker::default();
        checker.within(&path.to_string(), |checker| codon(checker, &mut value));
        let codon = self.codons.judge(checker, path, value, &mut self.unreadable);
        self.codons.values.extend(codon.map(Arc::new));
    }

    fn run(&mut self, path: &Path<'_>, mut value: Value) {
        let codons = std::mem::take(&mut self.codons);
        self.outline
            .add_run(&value, std::mem::take(&mut self.open_codons));
        let mut checker = Checker::around(codons.findings);
        checker.within(&path.to_string(), |checker| RunRecord::check(checker, &mut value));
        let run = self.runs.judge(checker, path, value, &mut self.unreadable);
        self.runs.values.extend(run.map(|mut run: RunRecord| {
            run.codons = codons.values;
            Arc::new(run)
        }));
    }

    fn plan_entry(&mut self, path: &Path<'_>, mut value: Value) {
        self.outline.add_plan_entry(&value);
        let mut checker = Checker::default();
        checker.within(&path.to_string(), |checker| {
            PlanEntry::check(checker, &mut value);
        });
        let entry = self.plan.judge(checker, path, value, &mut self.unreadable);
        self.plan.values.extend(entry);
    }

    /// Puts the document together from its parts and from `rest`, the tree that lacks them.
    ///
    /// # Errors
    ///
    /// Returns `problems`, which were found on the way, with all others.
    pub(super) fn join(
        mut self,
        mut rest: Value,
        mut problems: Vec<StateProblem>,
    ) -> Result<HankweaveState, Vec<StateProblem>> {
        let mut findings = self.runs.findings;
        findings.extend(self.plan.findings);
        let mut checker = Checker::around(findings);
        document(&mut checker, &mut rest);
        problems.extend(checker.into_findings().into_iter().map(problem));
        self.outline.set_current(&rest);
        problems.extend(self.outline.problems());
        problems.extend(self.unreadable);
        if !problems.is_empty() {
            return Err(problems);
        }
        let state = typed::<HankweaveState>(&Path::Root, rest).map_err(|problem| vec![problem])?;
        Ok(HankweaveState {
            runs: VecDeque::from(self.runs.values),
            execution_plan: Arc::new(self.plan.values),
            ..state
        })
    }
}

impl<T> Checked<T> {
    /// The element at `path` as what it is, or what is wrong with it.
    fn judge<V: DeserializeOwned>(
        &mut self,
        checker: Checker,
        path: &Path<'_>,
        value: Value,
        unreadable: &mut Vec<StateProblem>,
    ) -> Option<V> {
        let findings = checker.into_findings();
        if !findings.is_empty() {
            self.findings.extend(findings);
            return None;
        }
        match typed(path, value) {
            Ok(value) => Some(value),
            Err(problem) => {
                unreadable.push(problem);
                None
            }
        }
    }
}

/// A tree in which nothing was found as its type.
///
/// The check knows every rule of the types, so this is not expected to fail; if it does, the reason still has a place.
fn typed<T: DeserializeOwned>(path: &Path<'_>, tree: Value) -> Result<T, StateProblem> {
    serde_path_to_error::deserialize(tree).map_err(|error| StateProblem {
        kind: ProblemKind::CorruptedData,
        path: match path {
            Path::Root => error.path().to_string(),
            path => format!("{path}.{}", error.path()),
        },
        message: error.inner().to_string(),
    })
}
