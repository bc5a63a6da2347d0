//! Generates the call of the user's macro that gets a table of the stored fields: `#[machine(Name, fields = path)]`.

use std::collections::BTreeMap;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use crate::model::{FieldDef, MachineDef, StateDef, ValueSource};

use super::{GeneratedNames, if_stored};

/// Generates the call, with all stored names and their types: one type for a name, or one for each state if they differ.
pub(super) fn field_table(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let Some(path) = &machine.fields_macro else {
        return TokenStream::new();
    };
    let GeneratedNames {
        vis,
        stored,
        status,
        phase,
        ..
    } = out;
    let mut fields: BTreeMap<&str, Vec<(&StateDef, &FieldDef)>> = BTreeMap::new();
    for state in &machine.states {
        for field in &state.fields {
            if !matches!(field.entry, ValueSource::Extra) {
                for name in field.stored_names() {
                    fields.entry(name).or_default().push((state, field));
                }
            }
        }
    }
    let rows = fields.into_iter().map(|(name, fields)| {
        let types = types(&fields);
        quote!(#name: #types,)
    });
    if_stored(
        machine,
        quote!(#path! { #vis #stored, #status, #phase; #(#rows)* }),
    )
}

/// Returns `[Type]` where all states agree, `{ State: Type, .. }` where they do not. An `Option` counts as the type inside.
fn types(fields: &[(&StateDef, &FieldDef)]) -> TokenStream {
    let written = |field: &FieldDef| field.value_type().to_token_stream().to_string();
    let (_, first) = fields[0];
    if fields.iter().all(|(_, field)| written(field) == written(first)) {
        let ty = first.value_type();
        return quote!([#ty]);
    }
    let states = fields.iter().map(|(state, _)| &state.ident);
    let types = fields.iter().map(|(_, field)| field.value_type());
    quote!({ #(#states: #types),* })
}
