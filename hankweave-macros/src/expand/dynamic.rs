//! The stored enum and the event enum.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

use crate::case::text;
use crate::model::{Change, Machine, Method};

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
        ..
    } = out;
    let Machine {
        docs, attrs, derives, ..
    } = machine;
    let states: Vec<_> = machine.states.iter().map(|state| &state.ident).collect();
    let serde = if_stored(
        machine,
        quote! {
            #[automatically_derived]
            impl #krate::__private::serde::Serialize for #stored {
                fn serialize<S: #krate::__private::serde::Serializer>(
                    &self,
                    serializer: S,
                ) -> ::core::result::Result<S::Ok, S::Error> {
                    match self {
                        #(Self::#states(state) => #krate::stored::write::<Self, _, _>(#status::#states, state, serializer),)*
                    }
                }
            }
        },
    );
    let variants = machine.states.iter().map(|state| {
        let (ident, docs, name) = (&state.ident, &state.docs, &state.stored_name);
        let summary = docs
            .is_empty()
            .then(|| format!("Status `{name}`."))
            .map(|text| quote!(#[doc = #text]));
        quote!(#(#docs)* #summary #ident(#ident),)
    });
    let idents: Vec<_> = machine.states.iter().map(|state| &state.ident).collect();
    let arms = machine
        .methods
        .iter()
        .map(|method| step_arm(method, machine, out));
    let changes = machine.changes();
    let changes = changes.iter().map(|change| change_arm(change, machine, out));
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
        #vis enum #stored {
            #(#variants)*
        }

        #serde

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
                    #(#changes)*
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

/// The change of a live field on every state.
fn change_arm(change: &Change<'_>, machine: &Machine, out: &Names) -> TokenStream {
    let (transition, field, variant) = (&out.transition, &change.field.ident, change.variant());
    let states = change.states.iter().map(|state| &state.ident);
    let here = Span::call_site().located_at(field.span());
    let operator = if change.adds {
        quote_spanned!(here=> +=)
    } else {
        quote!(=)
    };
    let others = (change.states.len() < machine.states.len()).then(|| {
        quote! {
            other => {
                let status = other.status();
                ::core::result::Result::Err(other.refuse(status))
            }
        }
    });
    quote! {
        #transition::#variant(value) => match self {
            #(Self::#states(mut state) => {
                state.#field #operator value;
                ::core::result::Result::Ok(Self::#states(state))
            })*
            #others
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
        typed,
        transition,
        ..
    } = out;
    let docs = format!("A step of a {typed} as an event.");
    let names: Vec<_> = machine.methods.iter().map(|method| text(&method.ident)).collect();
    let targets: Vec<_> = machine
        .methods
        .iter()
        .map(|method| &machine.target(method).ident)
        .collect();
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
    let variants = machine.methods.iter().map(|method| {
        let (variant, key, to) = (&method.variant, &method.metadata, &machine.target(method).ident);
        let docs = format!("The step to [`{to}`].");
        let content = has_metadata(&method).then(|| quote!((#key)));
        quote!(#[doc = #docs] #variant #content,)
    });
    let changes = machine.changes();
    let change_variants = changes.iter().map(change_variant);
    let change_names: Vec<_> = changes.iter().map(Change::method).collect();
    let change_patterns: Vec<_> = changes.iter().map(Change::variant).collect();
    let target = target(&patterns, &targets, &change_patterns, out);
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
        #vis enum #transition {
            #(#variants)*
            #(#change_variants)*
        }

        impl #transition {
            /// The method that makes the step.
            #vis const fn method(&self) -> &'static str {
                match *self {
                    #(Self::#patterns => #names,)*
                    #(Self::#change_patterns(_) => #change_names,)*
                }
            }

            #target
        }

        #(#conversions)*
    }
}

/// Where a step leads; nowhere else, when it changes a live field.
fn target(patterns: &[TokenStream], targets: &[&Ident], changes: &[Ident], out: &Names) -> TokenStream {
    let (vis, status) = (&out.vis, &out.status);
    if changes.is_empty() {
        return quote! {
            /// The status that the step leads to.
            #vis const fn target(&self) -> #status {
                match *self {
                    #(Self::#patterns => #status::#targets,)*
                }
            }
        };
    }
    quote! {
        /// The status that the step leads to; `None` for the change of a live field, which leaves the status as it is.
        #vis const fn target(&self) -> ::core::option::Option<#status> {
            match *self {
                #(Self::#patterns => ::core::option::Option::Some(#status::#targets),)*
                #(Self::#changes(_))|* => ::core::option::Option::None,
            }
        }
    }
}

fn change_variant(change: &Change<'_>) -> TokenStream {
    let (variant, ident, ty) = (change.variant(), &change.field.ident, &change.field.ty);
    let what = if change.adds { "Adds to" } else { "Replaces" };
    let docs = format!("{what} `{ident}`; the status stays.");
    // What its type lacks is then reported at the field.
    let here = Span::call_site().located_at(ident.span());
    quote_spanned!(here=> #[doc = #docs] #variant(#ty),)
}
