//! Generates the code of a checked machine. Last step of the macro, after `check`. Each submodule generates one part; [`expand`] joins them in the order in
//! which a reader of the generated code needs them.

mod accessors;
mod any;
mod branches;
mod checked;
mod drawing;
mod dynamic;
mod events;
mod field_table;
mod generics;
mod graph;
mod names;
pub(crate) mod nested_module;
mod rehydrate;
mod required_traits;
mod schema;
mod self_test;
mod states;
mod stored;
mod stubs;
mod traits;
mod transitions;
mod values;
mod written_out;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::{Path, Visibility, parse_quote};

use crate::case::{is_name, snake, text};
use crate::model::MachineDef;

/// Generates the module of the machine and the re-exports next to it.
pub(crate) fn expand(declared: &MachineDef) -> TokenStream {
    let out = GeneratedNames::new(declared);
    let (machine, aliases) = required_traits::with_aliases(declared, &out);
    let machine = &machine;
    let GeneratedNames {
        module,
        typed,
        status,
        phase,
        transition,
        state_trait,
        graph,
        krate,
        ..
    } = &out;
    let (vis, stored, attrs) = (&machine.vis, &machine.stored, &machine.attrs);
    let cfgs: Vec<_> = attrs.iter().filter(|attr| attr.path().is_ident("cfg")).collect();
    let summary = format!("The `{typed}` machine: its states, and what each step demands.");
    let diagram = drawing::drawing(machine);
    let reexported = (!machine.apart).then(|| quote!(#stored,));
    let guarded = guarded(machine);
    // A machine of types alone has these; any other machine also has those with events below.
    let common_items = [
        states::states(machine, &out),
        states::metadata(machine, &out),
        branches::branches(machine, &out),
        names::statuses(machine, &out),
        any::any(machine, &out),
        graph::graph(machine, &out),
        values::values(machine, &out),
    ];
    let items_with_events = || {
        [
            dynamic::stored_enum(machine, &out),
            accessors::accessors(machine, &out),
            dynamic::event_enum(machine, &out),
            events::events(machine, &out),
            rehydrate::rules(machine, &out),
            stored::stored(machine, &out),
            schema::schema(machine, &out),
            // The user's macro gets the types as declared, without aliases.
            field_table::field_table(declared, &out),
            self_test::self_test(machine, &out),
        ]
    };
    let (items_with_events, transition) = match machine.types {
        true => (TokenStream::new(), None),
        false => (
            items_with_events().into_iter().collect(),
            Some(quote!(#transition,)),
        ),
    };
    quote! {
        #(#cfgs)*
        #[doc = #summary]
        #[doc = ""]
        #[doc = #diagram]
        #[allow(deprecated, reason = "whoever marks a state for others has to generate it")]
        #[allow(clippy::derive_partial_eq_without_eq, reason = "only the declaration knows whether its types are `Eq`")]
        #vis mod #module {
            // A dependency of the program may be called `core`.
            use #krate::__private::core as __core;
            use super::*;
            #aliases
            #(#common_items)*
            #items_with_events
            #guarded
        }
        #(#cfgs)*
        #[allow(deprecated, reason = "whoever marks a state for others has to generate it")]
        #vis use #module::{#typed, #reexported #status, #phase, #transition #state_trait, #graph};
    }
}

/// Generates the module of the typed value with its steps and seals, the private traits that no other code can implement. The module contains nothing of the
/// user's but names and types, so no code of the user can be inside and reach its private items.
fn guarded(machine: &MachineDef) -> TokenStream {
    let (machine, types) = nested_module::deeper(machine);
    let machine = &machine;
    let out = GeneratedNames::new(machine);
    let vis = out.vis.clone();
    let out = GeneratedNames {
        vis: visibility(&machine.vis, 2),
        ..out
    };
    let GeneratedNames {
        typed, state_trait, ..
    } = &out;
    let parts = [
        states::typed(machine, &out),
        traits::traits(machine, &out),
        transitions::edges(machine, &out),
        transitions::methods(machine, &out),
        branches::methods(machine, &out),
    ];
    let read_back = (!machine.types).then(|| rehydrate::rehydrate(machine, &out));
    let step = (!machine.types).then(|| quote!(Step,));
    quote! {
        #types
        mod guarded {
            use super::*;
            #(#parts)*
            #read_back
        }
        #[allow(unused_imports, reason = "not every machine is used generically")]
        #vis use self::guarded::{#typed, #state_trait, Active, Edge, Transition, #step};
    }
}

/// The names of generated items, and their visibility. The examples are those of `#[machine(Codon)] enum CodonExecution`.
pub(crate) struct GeneratedNames {
    /// Path of the companion crate, which generated code depends on.
    pub(crate) krate: Path,
    /// Path of the companion's serde, in the form that serde's attribute takes.
    pub(crate) serde_path: String,
    /// Visibility of the enum, as written inside the generated module.
    pub(crate) vis: TokenStream,
    /// `codon`
    pub(crate) module: Ident,
    /// `Codon`
    pub(crate) typed: Ident,
    /// `CodonExecution`
    pub(crate) stored: Ident,
    /// `CodonStatus`
    pub(crate) status: Ident,
    /// `CodonPhase`
    pub(crate) phase: Ident,
    /// `CodonTransition`
    pub(crate) transition: Ident,
    /// `CodonState`
    pub(crate) state_trait: Ident,
    /// `CODON`, the constant with the graph
    pub(crate) graph: Ident,
    /// `into_execution`, the method that turns a typed value into its stored form
    pub(crate) into_stored: Ident,
    /// `execution`, the method that copies a typed value into its stored form
    pub(crate) to_stored: Ident,
    /// `codon`, the field of the generated `Step` with the typed value
    pub(crate) value: Ident,
}

impl GeneratedNames {
    pub(crate) fn new(machine: &MachineDef) -> Self {
        let name = text(&machine.name);
        let generated = |text: String| Ident::new(&text, Span::call_site());
        let krate = (machine.krate.clone()).unwrap_or_else(|| parse_quote!(::hankweave_machine));
        let serde_path = quote!(#krate::__private::serde).to_string().replace(' ', "");
        Self {
            krate,
            serde_path,
            vis: visibility(&machine.vis, 1),
            module: generated(module_name(machine)),
            typed: machine.name.clone(),
            stored: machine.stored.clone(),
            status: format_ident!("{name}Status", span = Span::call_site()),
            phase: format_ident!("{name}Phase", span = Span::call_site()),
            transition: format_ident!("{name}Transition", span = Span::call_site()),
            state_trait: format_ident!("{name}State", span = Span::call_site()),
            graph: generated(graph_name(&name)),
            into_stored: generated(into_stored(machine)),
            to_stored: generated(to_stored(machine)),
            value: generated(module_name(machine)),
        }
    }
}

/// Returns the name of the method that turns a typed value into its stored form.
pub(crate) fn into_stored(machine: &MachineDef) -> String {
    let (name, stored) = (text(&machine.name), text(&machine.stored));
    let rest = stored.strip_prefix(&name).filter(|rest| !rest.is_empty());
    format!("into_{}", snake(rest.unwrap_or(&stored)))
}

/// Returns the name of the method that copies a typed value into its stored form: the name of the stored enum without that of the machine. If that is a
/// keyword, it gets an ending.
pub(crate) fn to_stored(machine: &MachineDef) -> String {
    let (name, stored) = (text(&machine.name), text(&machine.stored));
    let rest = stored.strip_prefix(&name).filter(|rest| !rest.is_empty());
    let name = snake(rest.unwrap_or(&stored));
    if is_name(&name) { name } else { name + "_stored" }
}

/// Returns the name of the constant with the graph: that of the machine, in capital letters.
pub(crate) fn graph_name(machine: &str) -> String {
    snake(machine).to_uppercase()
}

/// Returns the name of the module: that of the machine, in small letters. If that is a keyword, `check` has reported it, and any other name will do.
fn module_name(machine: &MachineDef) -> String {
    let name = snake(&text(&machine.name));
    if is_name(&name) { name } else { name + "_machine" }
}

/// Returns the visibility of the enum, written from `depth` modules deeper.
pub(crate) fn visibility(vis: &Visibility, depth: usize) -> TokenStream {
    let up = std::iter::repeat_n(quote!(super), depth);
    let up = quote!(#(#up)::*);
    let up_only = if depth == 1 {
        quote!(pub(super))
    } else {
        quote!(pub(in #up))
    };
    let Visibility::Restricted(restricted) = vis else {
        return match vis {
            Visibility::Public(_) => quote!(pub),
            _ => up_only,
        };
    };
    let path = &restricted.path;
    match path
        .segments
        .first()
        .map(|segment| segment.ident.to_string())
        .as_deref()
    {
        Some("crate") => vis.to_token_stream(),
        // Not legal Rust: copied as it is, so that the compiler reports it.
        _ if path.leading_colon.is_some() => vis.to_token_stream(),
        Some("self") => up_only,
        _ => quote!(pub(in #up::#path)),
    }
}

/// Returns the tokens if the machine has a stored form, else none.
pub(crate) fn if_stored(machine: &MachineDef, tokens: TokenStream) -> TokenStream {
    if machine.stored_form {
        tokens
    } else {
        TokenStream::new()
    }
}

/// Returns the words with commas between them, for documentation and messages.
pub(crate) fn list(words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().collect::<Vec<_>>().join(", ")
}
