//! Resolves groups, which declare the common steps and fields of several states once: copies them into each state. The rest of the macro knows no groups.

use std::collections::HashSet;

use crate::ast::{Ast, StateVariant};
use crate::error::{Errors, did_you_mean, nearest};

/// Adds to each state, after its own steps and fields, those of its group and of the groups around that group.
pub(super) fn resolve(ast: &mut Ast, errors: &mut Errors) {
    let groups = std::mem::take(&mut ast.groups);
    let mut parents = Vec::new();
    for group in &groups {
        parents.push(parent(group, &groups, errors));
    }
    let mut used = HashSet::new();
    for state in &mut ast.states {
        let mut seen = HashSet::new();
        let mut next = parent(state, &groups, errors);
        // A group within itself ends the loop when it comes up again; it is reported below.
        while let Some(index) = next.filter(|index| seen.insert(*index)) {
            join(state, &groups[index]);
            next = parents[index];
        }
        used.extend(seen);
        refuse_steps_into_groups(state, &groups, errors);
    }
    for (index, group) in groups.iter().enumerate() {
        let ident = &group.ident;
        let around = std::iter::successors(parents[index], |parent| parents[*parent]);
        if around.take(groups.len()).any(|parent| parent == index) {
            errors.at(ident, format!("group `{ident}` is within itself"));
        }
        if ast.states.iter().any(|state| state.ident == *ident) {
            errors.at(ident, format!("there is already a state `{ident}`"));
        } else if !used.contains(&index) {
            let message =
                format!("no state is in group `{ident}`: write `#[within({ident})]` at those that are");
            errors.at(ident, message);
        }
    }
}

/// Returns the index of the group that a state or a group is in; for an unknown one the group that was probably meant.
fn parent(child: &StateVariant, groups: &[StateVariant], errors: &mut Errors) -> Option<usize> {
    let within = child.within.as_ref()?;
    let found = groups.iter().position(|group| group.ident == *within);
    if found.is_none() {
        let known: Vec<String> = groups.iter().map(|group| group.ident.to_string()).collect();
        let hint = match did_you_mean(&within.to_string(), &known) {
            hint if hint.is_empty() => format!(": declare it as a variant, `#[group] {within}`"),
            hint => hint,
        };
        errors.at(within, format!("unknown group `{within}`{hint}"));
        return nearest(&within.to_string(), &known);
    }
    found
}

/// Reports and removes the exits that lead to a group.
fn refuse_steps_into_groups(state: &mut StateVariant, groups: &[StateVariant], errors: &mut Errors) {
    state.exits.retain(|exit| {
        let target = &exit.target;
        let is_state = groups.iter().all(|group| group.ident != *target);
        if !is_state {
            let message = format!("`{target}` is a group, and no value is in it: lead to one of its states");
            errors.at(target, message);
            state.unread = true;
        }
        is_state
    });
}

fn join(state: &mut StateVariant, group: &StateVariant) {
    state.unread |= group.unread;
    state.exits.extend(group.exits.iter().cloned());
    state.keeps.extend(group.keeps.iter().cloned());
    state.tolerates.extend(group.tolerates.iter().cloned());
    state.fields.extend(group.fields.iter().cloned());
}
