//! The stored enum and the event enum.

use proc_macro2::TokenStream;
use quote::quote;

use crate::case::text;
use crate::model::{Machine, Method};

use super::{Names, if_stored};

/// The enum under the attribute: any state, checked at run time.
pub(super) fn execution(machine: &Machine, out: &Names) -> TokenStream {
    let Names {
        vis,
        stored,
        status,
        transition,
        typed,
        krate,
        serde_path,
        ..
    } = out;
    let Machine {
        docs,
        attrs,
        derives,
        tag,
        ..
    } = machine;
    let serde = if_stored(
        machine,
        quote! {
            #[derive(#krate::__private::serde::Serialize)]
            #[serde(crate = #serde_path, tag = #tag)]
        },
    );
    let variants = machine.states.iter().map(|state| {
        let (ident, docs, name) = (&state.ident, &state.docs, &state.stored_name);
        let summary = docs
            .is_empty()
            .then(|| format!("Status `{name}`."))
            .map(|text| quote!(#[doc = #text]));
        let rename = if_stored(machine, quote!(#[serde(rename = #name)]));
        quote!(#(#docs)* #summary #rename #ident(#ident),)
    });
    let idents: Vec<_> = machine.states.iter().map(|state| &state.ident).collect();
    let arms = machine
        .methods
        .iter()
        .map(|method| step_arm(method, machine, out));
    // A machine whose only edge is mistaken has no event that could be refused.
    let refuse = (!machine.methods.is_empty()).then(|| {
        quote! {
            #[cold]
            fn refuse(self, to: #status) -> InvalidTransition {
                let from = self.status();
                InvalidTransition {
                    value: #krate::__private::Box::new(self),
                    from,
                    to,
                    legal: from.targets(),
                }
            }
        }
    });
    let apply_docs = format!("Makes a step, if the {typed} has it in its present state.");
    quote! {
        #(#docs)*
        #(#attrs)*
        #[derive(::core::fmt::Debug, ::core::clone::Clone, ::core::cmp::PartialEq #(, #derives)*)]
        #serde
        #vis enum #stored {
            #(#variants)*
        }

        impl #stored {
            /// The status of the value.
            #vis const fn status(&self) -> #status {
                match self {
                    #(Self::#idents(_) => #status::#idents,)*
                }
            }

            /// Whether no step can follow.
            #vis const fn is_terminal(&self) -> bool {
                self.status().is_terminal()
            }

            #[doc = #apply_docs]
            ///
            /// # Errors
            ///
            /// Hands the value back untouched when its state has no such step.
            #vis fn apply(self, transition: #transition) -> ::core::result::Result<Self, InvalidTransition> {
                match transition {
                    #(#arms)*
                }
            }

            #refuse
        }

        /// Why a step on a stored value was refused.
        #vis type InvalidTransition = #krate::InvalidTransition<#stored, #status>;
    }
}

/// One event on every state. The value is matched where it lies: a pair of value and event would first be copied.
fn step_arm(method: &Method, machine: &Machine, out: &Names) -> TokenStream {
    let (status, transition, to) = (&out.status, &out.transition, &machine.target(method).ident);
    let (pattern, key) = event_pattern(method, machine);
    let sources = method.sources.iter().map(|source| &machine.states[*source].ident);
    quote! {
        #transition::#pattern => match self {
            #(Self::#sources(state) => ::core::result::Result::Ok(Self::#to(Edge::advance(#key, state))),)*
            value => ::core::result::Result::Err(value.refuse(#status::#to)),
        },
    }
}

/// How the event of a method is matched, and the metadata then in hand.
fn event_pattern(method: &Method, machine: &Machine) -> (TokenStream, TokenStream) {
    let (variant, key) = (&method.variant, &method.metadata);
    match machine.metadata(method).next() {
        Some(_) => (quote!(#variant(metadata)), quote!(metadata)),
        None => (quote!(#variant), quote!(#key)),
    }
}

/// The enum of all steps, each with what it demands.
pub(super) fn transition(machine: &Machine, out: &Names) -> TokenStream {
    let Names {
        vis,
        status,
        typed,
        transition,
        krate,
        serde_path,
        ..
    } = out;
    let docs = format!("A step of a {typed} as an event.");
    let serde = if_stored(
        machine,
        quote! {
            #[derive(
                #krate::__private::serde::Serialize,
                #krate::__private::serde::Deserialize
            )]
            #[serde(crate = #serde_path, tag = "method", content = "metadata")]
        },
    );
    let names: Vec<_> = machine.methods.iter().map(|method| text(&method.ident)).collect();
    let targets = machine.methods.iter().map(|method| &machine.target(method).ident);
    let has_metadata = |method: &&Method| machine.metadata(method).next().is_some();
    let patterns: Vec<_> = machine
        .methods
        .iter()
        .map(|method| {
            let variant = &method.variant;
            if has_metadata(&method) {
                quote!(#variant(_))
            } else {
                quote!(#variant)
            }
        })
        .collect();
    let variants = machine.methods.iter().zip(&names).map(|(method, name)| {
        let (variant, key, to) = (&method.variant, &method.metadata, &machine.target(method).ident);
        let docs = format!("The step to [`{to}`].");
        let rename = if_stored(machine, quote!(#[serde(rename = #name)]));
        let content = has_metadata(&method).then(|| quote!((#key)));
        quote!(#[doc = #docs] #rename #variant #content,)
    });
    let conversions = machine.methods.iter().map(|method| {
        let (variant, key) = (&method.variant, &method.metadata);
        let (argument, value) = match has_metadata(&method) {
            true => (quote!(metadata), quote!(Self::#variant(metadata))),
            false => (quote!(_), quote!(Self::#variant)),
        };
        quote! {
            #[automatically_derived]
            impl ::core::convert::From<#key> for #transition {
                fn from(#argument: #key) -> Self {
                    #value
                }
            }
        }
    });
    quote! {
        #[doc = #docs]
        #[derive(::core::fmt::Debug, ::core::clone::Clone, ::core::cmp::PartialEq)]
        #serde
        #vis enum #transition {
            #(#variants)*
        }

        impl #transition {
            /// The method that makes the step.
            #vis const fn method(&self) -> &'static str {
                match *self {
                    #(Self::#patterns => #names,)*
                }
            }

            /// The status that the step leads to.
            #vis const fn target(&self) -> #status {
                match *self {
                    #(Self::#patterns => #status::#targets,)*
                }
            }
        }

        #(#conversions)*
    }
}
