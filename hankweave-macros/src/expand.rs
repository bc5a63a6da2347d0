//! A machine -> the code that the user gets, in the order in which one reads it.

mod accessors;
mod any;
mod branches;
mod checked;
mod demanded;
mod drawing;
mod dynamic;
mod events;
mod field_table;
mod generics;
mod graph;
mod names;
pub(crate) mod nested_module;
mod rehydrate;
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
    let (machine, named) = demanded::demanded(declared, &out);
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
    let types = [
        states::states(machine, &out),
        states::metadata(machine, &out),
        branches::branches(machine, &out),
        names::statuses(machine, &out),
        any::any(machine, &out),
        graph::graph(machine, &out),
        values::values(machine, &out),
    ];
    let values = || {
        [
            dynamic::execution(machine, &out),
            accessors::accessors(machine, &out),
            dynamic::transition(machine, &out),
            events::events(machine, &out),
            rehydrate::rules(machine, &out),
            stored::stored(machine, &out),
            schema::schema(machine, &out),
            field_table::field_table(declared, &out),
            self_test::self_test(machine, &out),
        ]
    };
    let (values, transition) = match machine.types {
        true => (TokenStream::new(), None),
        false => (values().into_iter().collect(), Some(quote!(#transition,))),
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
            #named
            #(#types)*
            #values
            #guarded
        }
        #(#cfgs)*
        #[allow(deprecated, reason = "whoever marks a state for others has to generate it")]
        #vis use #module::{#typed, #reexported #status, #phase, #transition #state_trait, #graph};
    }
}

/// Generates the typed value with its steps and seals, in a module that contains nothing of the user's but names and types. So no code next to the
/// data can reach its private items.
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

/// The names of what is generated, and how visible it is.
pub(crate) struct GeneratedNames {
    /// The crate that generated code depends on.
    pub(crate) krate: Path,
    /// Its serde, in the form that serde's attribute takes.
    pub(crate) serde_path: String,
    pub(crate) vis: TokenStream,
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
    /// `CODON`
    pub(crate) graph: Ident,
    /// `into_execution`
    pub(crate) into_stored: Ident,
    /// `execution`
    pub(crate) to_stored: Ident,
    /// `codon`, the field of a step
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

/// The name of the method that gives up the type.
pub(crate) fn into_stored(machine: &MachineDef) -> String {
    let (name, stored) = (text(&machine.name), text(&machine.stored));
    let rest = stored.strip_prefix(&name).filter(|rest| !rest.is_empty());
    format!("into_{}", snake(rest.unwrap_or(&stored)))
}

/// The name of the method that gives a copy of the stored form: what the stored enum is called beyond the machine. A name that no method can have gets
/// another one.
pub(crate) fn to_stored(machine: &MachineDef) -> String {
    let (name, stored) = (text(&machine.name), text(&machine.stored));
    let rest = stored.strip_prefix(&name).filter(|rest| !rest.is_empty());
    let name = snake(rest.unwrap_or(&stored));
    if is_name(&name) { name } else { name + "_stored" }
}

/// The graph is called like the machine, in capital letters.
pub(crate) fn graph_name(machine: &str) -> String {
    snake(machine).to_uppercase()
}

/// The module is called like the machine. A name that no module can have was reported and only has to stay out of the way.
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
        // The compiler refuses it in its own words.
        _ if path.leading_colon.is_some() => vis.to_token_stream(),
        Some("self") => up_only,
        _ => quote!(pub(in #up::#path)),
    }
}

/// Tokens that are only there when the stored form is.
pub(crate) fn if_stored(machine: &MachineDef, tokens: TokenStream) -> TokenStream {
    if machine.stored_form {
        tokens
    } else {
        TokenStream::new()
    }
}

/// `"a, b and c"`-like lists for documentation and messages.
pub(crate) fn list(words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().collect::<Vec<_>>().join(", ")
}
