//! Checks the shape of the graph: one initial state, every state reachable, and a terminal state within reach of each.

use std::collections::HashSet;

use crate::ast::Ast;
use crate::error::Errors;

use super::edges::Edges;

/// Checks the graph and returns the index of the initial state.
pub(super) fn check(ast: &Ast, edges: &Edges, errors: &mut Errors) -> usize {
    let initial = initial(ast, errors);
    if edges.incomplete {
        // The missing edges may be the ones that make everything reachable.
        return initial.unwrap_or(0);
    }
    if let Some(initial) = initial {
        report_unreachable_states(ast, edges, initial, errors);
    }
    report_endless_states(ast, edges, errors);
    initial.unwrap_or(0)
}

fn initial(ast: &Ast, errors: &mut Errors) -> Option<usize> {
    let mut marked = ast
        .states
        .iter()
        .enumerate()
        .filter_map(|(index, state)| Some((index, state.initial.as_ref()?)));
    let Some((first, _)) = marked.next() else {
        errors.at(
            &ast.stored,
            "no initial state: mark the state in which values start with `#[initial]`",
        );
        return None;
    };
    for (_, second) in marked {
        let message = format!("there is already an initial state, `{}`", ast.states[first].ident);
        errors.at(&second.attr, message);
    }
    Some(first)
}

fn report_unreachable_states(ast: &Ast, edges: &Edges, initial: usize, errors: &mut Errors) {
    let reached = closure(initial, |state| edges.targets(state).collect());
    let start = &ast.states[initial].ident;
    for (index, state) in ast.states.iter().enumerate() {
        if !reached.contains(&index) && state.initial.is_none() {
            let ident = &state.ident;
            errors.at(ident, format!("state `{ident}` is unreachable from the initial state `{start}`: add an edge to it or remove it"));
        }
    }
}

/// Reports states from which no terminal state can be reached, unless the machine is `cyclic`.
fn report_endless_states(ast: &Ast, edges: &Edges, errors: &mut Errors) {
    let is_end = |state: &usize| edges.exits[*state].is_empty() || ast.states[*state].terminal.is_some();
    let ends = |state| {
        closure(state, |state| edges.targets(state).collect())
            .iter()
            .any(is_end)
    };
    let endless: Vec<usize> = (0..ast.states.len()).filter(|state| !ends(*state)).collect();
    if let Some(word) = &ast.cyclic {
        if endless.is_empty() {
            errors.at(
                word,
                "every state can reach a terminal one: the machine is not `cyclic`",
            );
        }
        return;
    }
    if endless.len() == ast.states.len() {
        errors.at(
            &ast.stored,
            "no terminal state: mark each state that is never left with `#[terminal]`, or say that there is no end: `#[machine(Name, cyclic)]`",
        );
        return;
    }
    for index in endless {
        let ident = &ast.states[index].ident;
        let message = format!(
            "state `{ident}` can never reach a terminal state: add an edge that leads towards one, or say that there need be no end: \
             `#[machine(Name, cyclic)]`"
        );
        errors.at(ident, message);
    }
}

/// Every state that `next` leads to from `start`, and `start`.
fn closure(start: usize, next: impl Fn(usize) -> Vec<usize>) -> HashSet<usize> {
    let mut seen = HashSet::from([start]);
    let mut open = vec![start];
    while let Some(state) = open.pop() {
        open.extend(next(state).into_iter().filter(|target| seen.insert(*target)));
    }
    seen
}
