//! Names that would be given to two things.

use quote::format_ident;

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

/// Reports names that the generated code would give to two things, and lets the step give way, so that the rest still expands.
pub(super) fn collisions(machine: &mut Machine, errors: &mut Errors) {
    let taken = generated_names(machine);
    for state in machine
        .states
        .iter()
        .filter(|state| taken.contains(&state.ident.to_string()))
    {
        let message = format!(
            "the machine makes a `{}` of its own: give the state another name",
            state.ident
        );
        errors.at(&state.ident, message);
    }
    let states: Vec<String> = machine
        .states
        .iter()
        .map(|state| state.ident.to_string())
        .collect();
    for method in &mut machine.methods {
        let name = method.metadata.to_string();
        let owner = match (states.contains(&name), taken.contains(&name)) {
            (true, _) => "a state",
            (false, true) => "part of every machine",
            (false, false) => continue,
        };
        let message = format!(
            "step `{}` needs a struct `{name}` for what it demands, and that is {owner}: give the step another name",
            method.ident
        );
        errors.at(&method.ident, message);
        method.metadata = format_ident!("{name}Step");
    }
}

/// What the generated module holds besides states and metadata.
fn generated_names(machine: &Machine) -> Vec<String> {
    let name = &machine.name;
    let own = ["", "State", "Status", "Phase", "Transition"].map(|suffix| format!("{name}{suffix}"));
    let fixed = [
        "Active",
        "Edge",
        "InvalidTransition",
        "Refused",
        "Step",
        "Transition",
    ]
    .map(str::to_owned);
    own.into_iter()
        .chain(fixed)
        .chain([machine.stored.to_string()])
        .collect()
}
