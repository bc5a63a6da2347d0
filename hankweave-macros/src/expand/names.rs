//! Generates the names of states as enums without data: the status, with all states, and the phase, with those that are not terminal.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::Path;

use crate::case::text;
use crate::model::{MachineDef, StateDef};

use super::states::distinct;
use super::{GeneratedNames, if_stored};

/// Generates both enums and their methods.
pub(super) fn statuses(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        vis,
        typed,
        status,
        phase,
        ..
    } = out;
    let all: Vec<&StateDef> = machine.states.iter().collect();
    let active: Vec<&StateDef> = machine.states.iter().filter(|state| !state.terminal).collect();
    let status_docs = format!("The state of a {typed} without its data.");
    let phase_docs = format!("A state of a {typed} that is not terminal, without its data.");
    let status_enum = name_enum(status, &status_docs, &all, machine, out);
    let phase_enum = name_enum(phase, &phase_docs, &active, machine, out);
    let targets = all.iter().map(|state| {
        let targets = state.exits.iter().map(|exit| &machine.states[exit.target].ident);
        let targets = distinct(targets);
        quote!(#(Self::#targets),*)
    });
    let steps = machine.states.iter().map(|state| {
        let steps = state.exits.iter().map(|exit| {
            let method = &machine.methods[exit.method];
            let (name, target) = (text(&method.ident), &machine.states[exit.target].ident);
            quote!((#name, Self::#target))
        });
        quote!(#(#steps),*)
    });
    let steps: Vec<_> = steps.collect();
    let all: Vec<_> = all.iter().map(|state| &state.ident).collect();
    let actives: Vec<_> = active.iter().map(|state| &state.ident).collect();
    let terminals = machine.states.iter().filter(|state| state.terminal);
    let terminals = terminals.map(|state| {
        let ident = &state.ident;
        quote!(#status::#ident => __core::result::Result::Err(status),)
    });
    quote! {
        #status_enum

        impl #status {
            /// Whether no step can follow.
            #vis const fn is_terminal(self) -> bool {
                self.targets().is_empty()
            }

            /// The statuses that can follow; empty for a terminal one.
            #vis const fn targets(self) -> &'static [Self] {
                match self {
                    #(Self::#all => &[#targets],)*
                }
            }

            /// The steps that can follow, each with the status that it leads to.
            #vis const fn steps(self) -> &'static [(&'static str, Self)] {
                match self {
                    #(Self::#all => &[#steps],)*
                }
            }

            /// Whether `to` can follow at once.
            #vis fn legal(self, to: Self) -> bool {
                self.targets().contains(&to)
            }
        }

        #phase_enum

        impl #phase {
            /// Returns this state as a status.
            #vis const fn status(self) -> #status {
                match self {
                    #(Self::#actives => #status::#actives,)*
                }
            }
        }

        #[automatically_derived]
        impl __core::convert::From<#phase> for #status {
            fn from(phase: #phase) -> Self {
                phase.status()
            }
        }

        #[automatically_derived]
        impl __core::convert::TryFrom<#status> for #phase {
            /// The status, when it is terminal.
            type Error = #status;

            fn try_from(status: #status) -> __core::result::Result<Self, #status> {
                match status {
                    #(#status::#actives => __core::result::Result::Ok(Self::#actives),)*
                    #(#terminals)*
                }
            }
        }
    }
}

fn name_enum(
    name: &Ident,
    docs: &str,
    states: &[&StateDef],
    machine: &MachineDef,
    out: &GeneratedNames,
) -> TokenStream {
    let (vis, krate) = (&out.vis, &out.krate);
    let (open, requested) = (machine.non_exhaustive(), &machine.generated.statuses);
    let idents: Vec<_> = states.iter().map(|state| &state.ident).collect();
    let names: Vec<_> = states.iter().map(|state| &state.stored_name).collect();
    let variants = states.iter().map(|state| {
        let (ident, summary) = (&state.ident, summary(state));
        quote!(#[doc = #summary] #ident,)
    });
    let serde = if_stored(
        machine,
        quote! {
            #[automatically_derived]
            impl #krate::__private::serde::Serialize for #name {
                fn serialize<S: #krate::__private::serde::Serializer>(
                    &self,
                    serializer: S,
                ) -> __core::result::Result<S::Ok, S::Error> {
                    serializer.serialize_str(self.as_str())
                }
            }

            #[automatically_derived]
            impl<'de> #krate::__private::serde::Deserialize<'de> for #name {
                fn deserialize<D: #krate::__private::serde::Deserializer<'de>>(
                    deserializer: D,
                ) -> __core::result::Result<Self, D::Error> {
                    #krate::stored::read_name(deserializer)
                }
            }
        },
    );
    // With types alone no code reads a name.
    let read = (!machine.types).then(|| reading(name, states, krate));
    let unused = (machine.types)
        .then(|| quote!(#[allow(dead_code, reason = "not every state is asked for its name")]));
    quote! {
        #[doc = #docs]
        #unused
        #open
        #[derive(
            __core::fmt::Debug,
            __core::clone::Clone,
            __core::marker::Copy,
            __core::cmp::PartialEq,
            __core::cmp::Eq,
            __core::cmp::PartialOrd,
            __core::cmp::Ord,
            __core::hash::Hash
            #(, #requested)*
        )]
        #vis enum #name {
            #(#variants)*
        }

        impl #name {
            /// All of them, in order of declaration.
            #vis const ALL: &'static [Self] = &[#(Self::#idents),*];

            /// The name in stored documents.
            #vis const fn as_str(self) -> &'static str {
                match self {
                    #(Self::#idents => #names,)*
                }
            }
        }

        #[automatically_derived]
        impl __core::fmt::Display for #name {
            fn fmt(&self, f: &mut __core::fmt::Formatter<'_>) -> __core::fmt::Result {
                f.pad(self.as_str())
            }
        }

        #read
        #serde
    }
}

/// Generates implementations of the traits that read a name: `Name` of the companion crate, and `FromStr`.
fn reading(name: &Ident, states: &[&StateDef], krate: &Path) -> TokenStream {
    let idents = states.iter().map(|state| &state.ident);
    let names = states.iter().map(|state| &state.stored_name);
    let readable = states.iter().map(|state| {
        let aliases = &state.aliases;
        let name = &state.stored_name;
        quote!(#name #(| #aliases)*)
    });
    quote! {
        #[automatically_derived]
        impl #krate::Name for #name {
            const ALL: &'static [Self] = Self::ALL;
            const NAMES: &'static [&'static str] = &[#(#names),*];

            fn as_str(self) -> &'static str {
                self.as_str()
            }

            fn parse(name: &str) -> __core::option::Option<Self> {
                match name {
                    #(#readable => __core::option::Option::Some(Self::#idents),)*
                    _ => __core::option::Option::None,
                }
            }
        }

        #[automatically_derived]
        impl __core::str::FromStr for #name {
            type Err = #krate::UnknownName;

            fn from_str(name: &str) -> __core::result::Result<Self, #krate::UnknownName> {
                <Self as #krate::Name>::parse(name)
                    .ok_or_else(|| #krate::UnknownName::new::<Self>(name))
            }
        }
    }
}

/// The first line of the documentation of a state.
fn summary(state: &StateDef) -> String {
    let docs = state.docs_text();
    match docs.lines().next() {
        Some(line) => line.to_string(),
        None => format!("Status `{}`.", state.stored_name),
    }
}
