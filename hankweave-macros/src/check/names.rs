//! Reports names that two parts of the generated code would have, and gives one of the two another name, so that the code can still be generated.

use std::collections::HashSet;

use proc_macro2::Ident;
use quote::{ToTokens, format_ident};

use crate::ast;
use crate::case::{is_name, pascal, snake, text};
use crate::error::Errors;
use crate::expand::nested_module::holds_code;
use crate::expand::{graph_name, into_stored, to_stored};
use crate::model::{FieldDef, LiveChange, MachineDef, STORED_METHODS, ValueSource};

use super::leading_names;

/// Names that every Rust module knows.
const PRELUDE: [&str; 24] = [
    "AsMut", "AsRef", "Box", "Clone", "Copy", "Default", "Drop", "Eq", "Err", "Fn", "FnMut", "FnOnce",
    "From", "Into", "Iterator", "None", "Ok", "Option", "Result", "Send", "Some", "String", "Sync", "Vec",
];

/// Leaves out states whose name is taken.
pub(super) fn unique_states(states: &mut Vec<ast::StateVariant>, errors: &mut Errors) {
    let mut seen = Vec::new();
    states.retain(|state| {
        let is_new = !seen.contains(&state.ident);
        if !is_new {
            errors.at(
                &state.ident,
                format!("there is already a state `{}`", state.ident),
            );
        }
        seen.push(state.ident.clone());
        is_new
    });
}

/// Reports generic parameters that would hide a part of the machine, and bounds that hold code. Returns whether there are any.
pub(super) fn has_hiding_parameters(ast: &ast::Ast, errors: &mut Errors) -> bool {
    let mut hidden = false;
    let inner = inner_names();
    let generics = &ast.generics;
    if holds_code(&generics.to_token_stream()) || holds_code(&generics.where_clause.to_token_stream()) {
        let message = "a parameter of a machine is bound by names alone, without a block or a macro: name the type beside the machine";
        errors.at(&ast.stored, message);
        hidden = true;
    }
    for param in ast
        .generics
        .type_params()
        .map(|param| &param.ident)
        .chain(ast.generics.const_params().map(|param| &param.ident))
    {
        if inner.contains(&param.to_string()) || ast.states.iter().any(|state| state.ident == *param) {
            errors.at(
                param,
                format!("the machine has a `{param}` of its own: give the parameter another name"),
            );
            hidden = true;
        }
    }
    hidden
}

/// Reports names that two generated items would have, and renames one of the two.
pub(super) fn collisions(machine: &mut MachineDef, errors: &mut Errors) {
    machine_name(machine, errors);
    let taken = generated_names(machine);
    state_names(machine, &taken, errors);
    stored_names(machine, errors);
    method_names(machine, errors);
    metadata_names(machine, &taken, errors);
    field_types(machine, &inner_names(), errors);
    field_names(machine, errors);
}

/// Reports and renames states that are called like an item that the macro generates.
fn state_names(machine: &mut MachineDef, taken: &[String], errors: &mut Errors) {
    for state in &mut machine.states {
        let name = state.ident.to_string();
        if taken.contains(&name) {
            let message = format!("the machine makes a `{name}` of its own: give the state another name");
            errors.at(&state.ident, message);
            state.ident = format_ident!("{name}OfMachine", span = state.ident.span());
        }
    }
}

/// Checks that each stored name belongs to one state.
fn stored_names(machine: &mut MachineDef, errors: &mut Errors) {
    let mut seen: Vec<(String, Ident)> = Vec::new();
    for state in &mut machine.states {
        let names = std::iter::once(&state.stored_name).chain(&state.aliases);
        let names: Vec<String> = names.cloned().collect();
        for name in &names {
            if let Some((_, other)) = seen.iter().find(|(known, _)| known == name) {
                let message = match *other == state.ident {
                    true => format!("`{name}` is a stored name of `{other}` already"),
                    false => format!(
                        "a stored `{name}` would be `{other}` and `{}`: give one of them another stored name",
                        state.ident
                    ),
                };
                errors.at(&state.ident, message);
                state.aliases.clear();
            }
            seen.push((name.clone(), state.ident.clone()));
        }
    }
}

/// Checks the name of the machine. In small letters it is the name of the module, and of the field of `Step` that has the value; in capitals that of the graph.
fn machine_name(machine: &mut MachineDef, errors: &mut Errors) {
    let name = text(&machine.name);
    let module = snake(&name);
    if name == text(&machine.stored) {
        let message =
            format!("the enum is called `{name}` as well: give it another name, such as `{name}Record`");
        errors.at(&machine.stored, message);
        machine.stored = format_ident!("{name}Record", span = machine.stored.span());
        return;
    }
    if module == name {
        let better = Some(pascal(&name)).filter(|better| snake(better) != *better && is_name(better));
        let better = better.unwrap_or_else(|| "Machine".to_owned());
        let message = format!(
            "the module of this machine is called `{module}` as well: begin the name with a capital letter, such as `{better}`"
        );
        errors.at(&machine.name, message);
        machine.name = Ident::new(&better, machine.name.span());
        return;
    }
    if graph_name(&name) == name {
        let message =
            format!("the graph of this machine is called `{name}` as well: give the machine a longer name");
        errors.at(&machine.name, message);
        machine.name = format_ident!("{name}Machine", span = machine.name.span());
        return;
    }
    if !is_name(&module) {
        let message = format!(
            "the module of this machine would be `{module}`, which is a keyword: give the machine another name"
        );
        errors.at(&machine.name, message);
    }
}

/// Renames the struct of a step, or an enum of a branch, if anything else has its name. `steps` exports the struct under the name of the step in any case.
fn metadata_names(machine: &mut MachineDef, taken: &[String], errors: &mut Errors) {
    let mut taken: HashSet<String> = taken
        .iter()
        .cloned()
        .chain(leading_names::names(machine, true))
        .collect();
    taken.extend(machine.states.iter().map(|state| state.ident.to_string()));
    // Values of the prelude: an expression may name them inside a macro call, where `leading_names` does not look.
    taken.extend(["Err", "None", "Ok", "Some"].map(str::to_owned));
    for branch in &mut machine.branches {
        for name in [&mut branch.choice, &mut branch.result] {
            while !taken.insert(name.to_string()) {
                *name = format_ident!("{name}Step");
            }
        }
    }
    let mut variants: Vec<Ident> = machine.live_changes().iter().map(LiveChange::variant).collect();
    for method in &mut machine.methods {
        if variants.contains(&method.variant) {
            let message = format!(
                "step `{}` needs a struct `{}`, and so does another step: give one of them another name",
                method.ident, method.variant
            );
            errors.at(&method.ident, message);
            method.variant = format_ident!("{}Step", method.variant);
        }
        variants.push(method.variant.clone());
        method.metadata = method.variant.clone();
        while !taken.insert(method.metadata.to_string()) {
            method.metadata = format_ident!("{}Step", method.metadata);
        }
    }
}

/// Lets the types of fields keep the meaning that they have next to the machine, and reports states that hide a type of the prelude.
fn field_types(machine: &mut MachineDef, inner: &[String], errors: &mut Errors) {
    let used = leading_names::names(machine, false);
    for state in &machine.states {
        let name = state.ident.to_string();
        if PRELUDE.contains(&name.as_str()) && used.contains(&name) {
            let message = format!(
                "state `{name}` hides the type of that name, which a field has: give it another name"
            );
            errors.at(&state.ident, message);
        }
    }
    // Names of the prelude are left out: `super::Option` would not be found. A state that hides one which a field uses is reported above.
    let own = machine.states.iter().map(|state| state.ident.to_string());
    let own: HashSet<String> = own
        .chain(inner.iter().cloned())
        .filter(|name| !PRELUDE.contains(&name.as_str()))
        .collect();
    leading_names::lift(machine, &own);
}

/// Checks that no step is called like another method of a typed value.
fn method_names(machine: &mut MachineDef, errors: &mut Errors) {
    let mut taken: Vec<String> = [
        "clone",
        "from",
        "into",
        "into_data",
        "new",
        "status",
        "step",
        "try_from",
        "try_into",
    ]
    .map(str::to_owned)
    .into();
    taken.extend([into_stored(machine), to_stored(machine)]);
    let live = machine
        .states
        .iter()
        .flat_map(|state| &state.fields)
        .filter(|field| field.live.is_some());
    taken.extend(live.flat_map(|field| {
        let name = text(&field.ident);
        [
            format!("set_{name}"),
            format!("add_{name}"),
            format!("{name}_mut"),
        ]
    }));
    for branch in &machine.branches {
        if taken.contains(&text(&branch.ident))
            || machine.methods.iter().any(|method| method.ident == branch.ident)
        {
            let message = format!(
                "there is already a `{}`: give the step another name",
                branch.ident
            );
            errors.at(&branch.ident, message);
        }
    }
    for method in &mut machine.methods {
        if taken.contains(&text(&method.ident)) {
            let message = format!(
                "typed values have a method `{}` of their own: give the step another name",
                method.ident
            );
            errors.at(&method.ident, message);
            method.ident = format_ident!("{}_step", text(&method.ident));
            method.variant = format_ident!("{}Step", method.variant);
        }
    }
}

/// Checks that no field is stored under the name of the tag, and that no shared field is called like a method of every stored value.
fn field_names(machine: &MachineDef, errors: &mut Errors) {
    let taken = |field: &&FieldDef| STORED_METHODS.contains(&text(&field.ident).as_str());
    for field in machine.shared.iter().filter(taken) {
        let message = format!(
            "stored values have a method `{}` of their own: give the field another name; `#[serde(rename = \"..\")]` keeps what is stored",
            field.ident
        );
        errors.at(&field.ident, message);
    }
    let own = machine.states.iter().flat_map(|state| &state.fields);
    let own = own.filter(|field| {
        !matches!(
            field.entry,
            ValueSource::Shared | ValueSource::Kept | ValueSource::Extra
        )
    });
    let stored_as_tag = |field: &&FieldDef| field.stored_names().any(|name| name == machine.tag);
    for field in machine.shared.iter().chain(own).filter(stored_as_tag) {
        let message = format!(
            "`{}` would be stored as `{}`, where the name of the state stands",
            field.ident, machine.tag
        );
        errors.at(&field.ident, message);
    }
}

/// Returns the names in the generated module other than those of states and of the structs of steps.
fn generated_names(machine: &MachineDef) -> Vec<String> {
    let name = &machine.name;
    let own = ["", "State", "Status", "Phase", "Transition"].map(|suffix| format!("{name}{suffix}"));
    let own = own
        .into_iter()
        .chain([machine.stored.to_string(), "ALL".to_owned()]);
    own.chain(inner_names()).collect()
}

/// Returns the names that are in the generated module whatever the machine is called.
fn inner_names() -> Vec<String> {
    let names = [
        "Active",
        "Edge",
        "InvalidTransition",
        "Refused",
        "Step",
        "Transition",
        "Typed",
        "guarded",
        "illegal",
        "sealed",
        "steps",
        "tests",
        "traits",
    ];
    names.map(str::to_owned).into()
}
