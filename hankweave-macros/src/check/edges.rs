//! Resolves the steps of all states: finds each target by its name, and joins the edges of one name to one method.

use std::collections::HashSet;

use proc_macro2::Ident;
use quote::format_ident;

use crate::ast::{self, Mark, StateVariant};
use crate::case::{is_name, pascal, text};
use crate::error::{Errors, did_you_mean, nearest};
use crate::model::{Branch, ExitDef, Method};

/// All edges of a machine.
#[derive(Default)]
pub(crate) struct Edges {
    /// The exits of each state, by its index.
    pub(crate) exits: Vec<Vec<ExitDef>>,
    pub(crate) methods: Vec<Method>,
    pub(crate) branches: Vec<Branch>,
    /// Whether an edge had to be left out. Checks that need every edge are then skipped, since they could report a mistake where there is none.
    pub(crate) incomplete: bool,
}

impl Edges {
    /// The states that one state leads to.
    pub(crate) fn targets(&self, state: usize) -> impl Iterator<Item = usize> {
        self.exits[state].iter().map(|exit| exit.target)
    }

    /// The states that lead to one state.
    pub(crate) fn sources(&self, target: usize) -> impl Iterator<Item = usize> {
        (0..self.exits.len()).filter(move |source| self.targets(*source).any(|other| other == target))
    }
}

/// Resolves every `method => Target`.
pub(super) fn resolve(states: &[StateVariant], errors: &mut Errors) -> Edges {
    let mut edges = Edges::default();
    for (index, state) in states.iter().enumerate() {
        edges.incomplete |= state.unread;
        if !state.unread {
            check_exits(state, errors);
        }
        let mut exits: Vec<ExitDef> = Vec::new();
        // A terminal state stays terminal, even if it was given exits.
        for exit in state.exits.iter().filter(|_| state.terminal.is_none()) {
            let target = target(states, index, exit, errors);
            let exit = &without_wrong_changes(exit, target == Some(index), errors);
            let Some(target) = target else {
                edges.incomplete = true;
                continue;
            };
            let Some(method) = method(&mut edges, exit, target, states, errors) else {
                edges.incomplete = true;
                continue;
            };
            if exits.iter().any(|known| known.method == method) {
                errors.at(
                    &exit.method,
                    format!("`{}` already leaves `{}`", exit.method, state.ident),
                );
                edges.incomplete = true;
                continue;
            }
            if let Some(names) = &exit.changes {
                check_changes(names, state, errors);
            } else if target == index && !state.again && exit.target != "Self" {
                let message = if let Some(step) = &exit.branch {
                    format!(
                        "`{step}` leads back to `{0}` as one of several outcomes: mark `{0}` as `#[again]` if that is meant",
                        state.ident
                    )
                } else {
                    format!(
                        "`{0}` leads back to `{1}`: write `{0} => Self` if that is meant, `{0} {{ field }} => Self` if all else stays, or mark `{1}` as `#[again]` if \
                     others lead there by this step as well",
                        exit.method, state.ident
                    )
                };
                errors.at(&exit.target, message);
            }
            edges.methods[method].edges.push((index, target));
            exits.push(ExitDef {
                method,
                target,
                word: exit.method.clone(),
                label: exit.label.clone(),
            });
        }
        edges.exits.push(exits);
        add_branches(index, state, &mut edges, errors);
    }
    report_unused_again(states, &edges, errors);
    edges
}

/// Checks that a state either has exits or is terminal.
fn check_exits(state: &StateVariant, errors: &mut Errors) {
    match (&state.terminal, state.exits.first()) {
        (Some(_), Some(exit)) => errors.at(
            &exit.method,
            format!(
                "terminal state `{}` has an exit: remove the exit or `#[terminal]`",
                state.ident
            ),
        ),
        (None, None) => errors.at(
            &state.ident,
            format!(
                "state `{}` has no exit: give it `#[to(..)]` or mark it `#[terminal]`",
                state.ident
            ),
        ),
        _ => {}
    }
}

/// Finds the target of an exit; for an unknown one the state that was probably meant.
fn target(
    states: &[StateVariant],
    source: usize,
    exit: &ast::ExitSyntax,
    errors: &mut Errors,
) -> Option<usize> {
    if exit.target == "Self" {
        return Some(source);
    }
    if let Some(index) = states.iter().position(|state| state.ident == exit.target) {
        return Some(index);
    }
    let found = exit.target.to_string();
    let known: Vec<String> = states.iter().map(|state| state.ident.to_string()).collect();
    errors.at(
        &exit.target,
        format!("unknown state `{found}`{}", did_you_mean(&found, &known)),
    );
    nearest(&found, &known)
}

/// Returns the index of the exit's method, which the first edge of that name adds. Returns `None` after reporting a name that no struct can have, or an edge
/// that does not fit the earlier edges of the method.
fn method(
    edges: &mut Edges,
    exit: &ast::ExitSyntax,
    target: usize,
    states: &[StateVariant],
    errors: &mut Errors,
) -> Option<usize> {
    let Some(index) = edges
        .methods
        .iter()
        .position(|method| method.ident == exit.method)
    else {
        let metadata = pascal(&text(&exit.method));
        if !is_name(&metadata) {
            let message = format!(
                "step `{}` would need a struct `{metadata}` for what it demands: give it a name of letters",
                exit.method
            );
            errors.at(&exit.method, message);
            return None;
        }
        let metadata = format_ident!("{metadata}", span = exit.method.span());
        edges.methods.push(Method {
            ident: exit.method.clone(),
            variant: metadata.clone(),
            metadata,
            edges: Vec::new(),
            changes: exit.changes.clone(),
        });
        return Some(edges.methods.len() - 1);
    };
    let known = &edges.methods[index];
    if known.changes != exit.changes {
        errors.at(&exit.method, other_changes(known, exit));
        return None;
    }
    let is_outcome = exit.branch.is_some()
        || edges
            .branches
            .iter()
            .any(|branch| branch.outcomes.contains(&index));
    match known.edges.first() {
        Some((_, other)) if is_outcome && *other != target => {
            let message = format!(
                "`{}` is an outcome that leads to `{}`: give this edge another name",
                exit.method, states[*other].ident
            );
            errors.at(&exit.method, message);
            None
        }
        _ => Some(index),
    }
}

/// Returns the message for two steps of one name that list different changes, or of which only one lists any.
fn other_changes(known: &Method, exit: &ast::ExitSyntax) -> String {
    let (name, target) = (&exit.method, &exit.target);
    match (&known.changes, &exit.changes) {
        (Some(_), Some(_)) => format!(
            "`{name}` changes other fields elsewhere, and a step asks for the same wherever it is made: give one of the two another name"
        ),
        _ => format!(
            "`{name}` enters `{target}` with all that it demands from one state and changes some of its fields from another: give one of the two \
             another name"
        ),
    }
}

/// Returns the exit; if it names the fields that it changes but does not lead back to its own state, reports that and leaves the names out.
fn without_wrong_changes(exit: &ast::ExitSyntax, leads_back: bool, errors: &mut Errors) -> ast::ExitSyntax {
    let mut exit = exit.clone();
    if !leads_back && exit.changes.take().is_some() {
        let message = format!(
            "a step that changes only what it names leads back to its own state: write `{} => {}`, which asks for what that state needs",
            exit.method, exit.target
        );
        errors.at(&exit.target, message);
    }
    exit
}

/// Checks that each field that a step changes can change and is named once.
fn check_changes(names: &[Ident], state: &StateVariant, errors: &mut Errors) {
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            errors.at(name, format!("`{name}` is named already"));
        }
    }
    let fixed = |field: &&ast::FieldSyntax| matches!(field.mark, Mark::Fixed(_) | Mark::Origin);
    for field in state
        .fields
        .iter()
        .filter(fixed)
        .filter(|field| names.contains(&field.ident))
    {
        if let Some(name) = names.iter().find(|name| **name == field.ident) {
            errors.at(
                name,
                format!("the mark of `{name}` gives its value: no step can change it"),
            );
        }
    }
}

/// Adds the branching steps of a state, each with its outcomes, which must be equal in all states.
fn add_branches(index: usize, state: &StateVariant, edges: &mut Edges, errors: &mut Errors) {
    let mut seen: Vec<&Ident> = Vec::new();
    for name in state.exits.iter().filter_map(|exit| exit.branch.as_ref()) {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        let of_name = |exit: &&ast::ExitSyntax| exit.branch.as_ref() == Some(name);
        let position = |exit: &ast::ExitSyntax| {
            edges
                .methods
                .iter()
                .position(|method| method.ident == exit.method)
        };
        let outcomes: Vec<usize> = state.exits.iter().filter(of_name).filter_map(position).collect();
        match edges.branches.iter_mut().find(|branch| branch.ident == *name) {
            Some(branch) if branch.outcomes == outcomes => branch.sources.push(index),
            Some(_) => errors.at(
                name,
                format!("`{name}` has other outcomes elsewhere: give it another name here"),
            ),
            None => {
                let choice = format_ident!("{}", pascal(&text(name)), span = name.span());
                edges.branches.push(Branch {
                    ident: name.clone(),
                    result: format_ident!("{choice}To"),
                    choice,
                    outcomes,
                    sources: vec![index],
                });
            }
        }
    }
}

/// Reports `#[again]` on a state without a step back to itself.
fn report_unused_again(states: &[StateVariant], edges: &Edges, errors: &mut Errors) {
    let with_loop: HashSet<usize> = (0..states.len())
        .filter(|state| edges.targets(*state).any(|to| to == *state))
        .collect();
    for (index, state) in states.iter().enumerate() {
        if state.again && !with_loop.contains(&index) && !edges.incomplete {
            errors.at(
                &state.ident,
                format!("`#[again]` without an edge from `{}` to itself", state.ident),
            );
        }
    }
}
