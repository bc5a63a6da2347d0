//! Generates the graph, the machine as constant data for diagrams, walks and tests.

use proc_macro2::TokenStream;
use quote::quote;

use crate::case::text;
use crate::model::{ExitDef, FieldDef, MachineDef, Method, ValueSource};

use super::GeneratedNames;

/// Generates the constant with the graph.
pub(super) fn graph(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        vis,
        typed,
        graph,
        krate,
        ..
    } = out;
    let (name, tag, open) = (typed.to_string(), &machine.tag, machine.extra().is_some());
    let start_label = start_label(machine);
    let docs = format!("The graph of the `{typed}` machine.");
    let states = machine.states.iter().enumerate().map(|(index, state)| {
        let (name, stored_name, docs) = (state.ident.to_string(), &state.stored_name, state.docs_text());
        let (initial, terminal) = (index == machine.initial, state.terminal);
        let fields = state
            .fields
            .iter()
            .filter(|field| !matches!(field.entry, ValueSource::Extra))
            .map(field);
        quote! {
            State {
                name: #name,
                stored_name: #stored_name,
                docs: #docs,
                initial: #initial,
                terminal: #terminal,
                fields: &[#(#fields),*],
            }
        }
    });
    let edges = machine.edges().map(|(from, method, exit)| {
        let [from, to] = [from, &machine.states[exit.target]].map(|state| state.ident.to_string());
        let (name, label) = (text(&method.ident), label(method, exit));
        let metadata = machine.supplied_fields(method).map(field);
        quote! {
            Edge { from: #from, to: #to, method: #name, label: #label, metadata: &[#(#metadata),*] }
        }
    });
    quote! {
        #[doc = #docs]
        #vis const #graph: #krate::Machine = {
            use #krate::{Edge, Field, Machine, State};
            Machine { name: #name, tag: #tag, open: #open, start_label: #start_label, states: &[#(#states),*], edges: &[#(#edges),*] }
        };
    }
}

fn field(field: &FieldDef) -> TokenStream {
    let FieldDef {
        stored_name,
        optional,
        ..
    } = field;
    let (name, required) = (text(&field.ident), !optional);
    quote!(Field { name: #name, stored_name: #stored_name, required: #required })
}

fn label(method: &Method, exit: &ExitDef) -> String {
    exit.label
        .as_ref()
        .map_or_else(|| text(&method.ident), syn::LitStr::value)
}

/// Returns the text of diagrams on the arrow into the initial state; may be empty.
fn start_label(machine: &MachineDef) -> String {
    machine
        .start_label
        .as_ref()
        .map_or_else(String::new, syn::LitStr::value)
}
