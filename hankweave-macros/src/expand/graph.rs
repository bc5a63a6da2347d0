//! The machine as constant data, and its diagram for the documentation.

use std::fmt::Write;

use proc_macro2::TokenStream;
use quote::quote;

use crate::case::text;
use crate::model::{Entry, Exit, Field, Machine, Method};

use super::Names;

/// The constant graph.
pub(super) fn graph(machine: &Machine, out: &Names) -> TokenStream {
    let Names {
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
            .filter(|field| !matches!(field.entry, Entry::Extra))
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
        let (from, to) = (from.ident.to_string(), machine.target(method).ident.to_string());
        let (name, label) = (text(&method.ident), label(method, exit));
        let metadata = machine.metadata(method).map(field);
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

fn field(field: &Field) -> TokenStream {
    let Field {
        stored_name,
        optional,
        ..
    } = field;
    let (name, required) = (text(&field.ident), !optional);
    quote!(Field { name: #name, stored_name: #stored_name, required: #required })
}

fn label(method: &Method, exit: &Exit) -> String {
    exit.label
        .as_ref()
        .map_or_else(|| text(&method.ident), syn::LitStr::value)
}

/// What diagrams print on the way into the initial state; may be empty.
fn start_label(machine: &Machine) -> String {
    machine
        .start_label
        .as_ref()
        .map_or_else(String::new, syn::LitStr::value)
}

/// The diagram as documentation that many readers draw.
pub(super) fn fenced(machine: &Machine) -> String {
    format!("```mermaid\n{}```", mermaid(machine))
}

/// The diagram for the documentation; the text is the one of `Machine::to_mermaid`.
fn mermaid(machine: &Machine) -> String {
    let mut text = String::from("stateDiagram-v2\n");
    let (start, words) = (&machine.states[machine.initial].ident, start_label(machine));
    let colon = if words.is_empty() { "" } else { " : " };
    let _ = writeln!(text, "    [*] --> {start}{colon}{words}");
    for (from, method, exit) in machine.edges() {
        let to = &machine.target(method).ident;
        let _ = writeln!(text, "    {} --> {to} : {}", from.ident, label(method, exit));
    }
    for state in machine.states.iter().filter(|state| state.terminal) {
        let _ = writeln!(text, "    {} --> [*]", state.ident);
    }
    text
}
