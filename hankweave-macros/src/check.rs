//! Checks the user's declaration and returns a machine that can be generated. Second step of the macro, between `parse` and `expand`.
//!
//! Every broken rule is reported at the word that breaks it. A part that breaks a rule is left out or replaced by what
//! was probably meant, so that the result can be expanded in any case and one mistake does not cause a page of others.

mod demands;
mod edges;
mod fields;
mod groups;
mod leading_names;
mod names;
mod reach;
mod storable;
mod total;

use crate::ast::Ast;
use crate::case::Case;
use crate::error::Errors;
use crate::model::{MachineDef, StateDef};

/// Resolves names and checks all rules. Returns `None` if the enum has no states, or if its generic parameters cannot be used (`names::has_hiding_parameters`).
pub(crate) fn check(mut ast: Ast, errors: &mut Errors) -> Option<MachineDef> {
    storable::check(&mut ast, errors);
    groups::resolve(&mut ast, errors);
    names::unique_states(&mut ast.states, errors);
    if ast.states.is_empty() {
        errors.at(
            &ast.stored,
            "a machine needs at least an initial and a terminal state",
        );
        return None;
    }
    if names::has_hiding_parameters(&ast, errors) {
        return None;
    }
    let edges = edges::resolve(&ast.states, errors);
    let initial = reach::check(&ast, &edges, errors);
    let fields = fields::resolve(&ast, &edges, initial, errors);
    let start_label = ast.states[initial]
        .initial
        .as_ref()
        .and_then(|mark| mark.label.clone());
    let states = ast.states.into_iter().zip(edges.exits).zip(fields.states);
    let states = states.map(|((state, exits), resolved)| StateDef {
        stored_name: stored_name(
            &state.names.rename,
            &state.ident.to_string(),
            ast.storage.states,
            Case::variant,
        ),
        aliases: state.names.aliases,
        ident: state.ident,
        docs: state.docs,
        attrs: state.attrs,
        terminal: exits.is_empty(),
        exits,
        fields: resolved.fields,
        tolerated: resolved.tolerated,
    });
    let mut machine = MachineDef {
        name: ast.name,
        apart: false,
        krate: ast.krate,
        types: ast.types,
        stored_form: ast.stored_form,
        tests: ast.tests,
        schema: ast.schema,
        fields_macro: ast.fields_macro,
        vis: ast.vis,
        generics: ast.generics,
        stored: ast.stored,
        docs: ast.docs,
        attrs: ast.attrs,
        derives: ast.derives,
        generated: ast.generated,
        tag: ast.storage.tag,
        field_case: ast.storage.fields,
        shared: fields.shared,
        states: states.collect(),
        methods: edges.methods,
        branches: edges.branches,
        initial,
        start_label,
    };
    demands::check(&mut machine, errors);
    names::collisions(&mut machine, errors);
    Some(machine)
}

/// Returns the stored name of a state or field: as renamed, else spelled by `spell` in the declared case, else as it is.
fn stored_name(
    rename: &Option<String>,
    name: &str,
    case: Option<Case>,
    spell: fn(Case, &str) -> String,
) -> String {
    match (rename, case) {
        (Some(rename), _) => rename.clone(),
        (None, Some(case)) => spell(case, name),
        (None, None) => name.to_string(),
    }
}
