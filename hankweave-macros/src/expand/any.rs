//! Generates the enum of typed values, with a variant for each state, so that a `match` finds the state of a value.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

use crate::model::MachineDef;

use super::{GeneratedNames, if_stored};

/// Generates the enum. With types alone it has the name of the user's enum; else it is called `Typed`, and the stored enum's method `typed` returns it.
pub(super) fn any(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        vis,
        typed,
        stored,
        status,
        krate,
        into_stored,
        to_stored,
        ..
    } = out;
    let name = match machine.types {
        true => stored.clone(),
        false => Ident::new("Typed", Span::call_site()),
    };
    let docs: Vec<_> = machine.docs.iter().filter(|_| machine.types).collect();
    let attrs = machine.attrs.iter().filter(|_| machine.types);
    let summary = docs.is_empty().then(|| format!("A [`{typed}`] in any state."));
    let summary = summary.map(|text| quote!(#[doc = #text]));
    let derives = derives(machine);
    let open = machine.non_exhaustive().filter(|_| !machine.types);
    let states: Vec<_> = machine.states.iter().map(|state| &state.ident).collect();
    let state_docs = states.iter().map(|state| format!("It is [`{state}`]."));
    let generics = &machine.generics;
    let (params, arguments, bounds) = generics.split_for_impl();
    let typed_values: Vec<_> = states
        .iter()
        .map(|state| quote!(#typed<#state #arguments>))
        .collect();
    let conversions = states.iter().zip(&typed_values).map(|(state, typed_value)| {
        quote! {
            impl #params __core::convert::From<#typed_value> for #name #arguments #bounds {
                fn from(value: #typed_value) -> Self {
                    Self::#state(value)
                }
            }
        }
    });
    let serde = if_stored(
        machine,
        quote! {
            impl #krate::__private::serde::Serialize for Typed {
                fn serialize<Z: #krate::__private::serde::Serializer>(
                    &self,
                    serializer: Z,
                ) -> __core::result::Result<Z::Ok, Z::Error> {
                    match self {
                        #(Self::#states(value) => #krate::__private::serde::Serialize::serialize(value, serializer),)*
                    }
                }
            }
        },
    );
    let stored_form = (!machine.types).then(|| {
        quote! {
            impl Typed {
                /// Gives up the typed value for its stored form.
                #vis fn #into_stored(self) -> #stored {
                    match self {
                        #(Self::#states(value) => value.#into_stored(),)*
                    }
                }

                /// A copy in its stored form; the typed value stays.
                #vis fn #to_stored(&self) -> #stored {
                    match self {
                        #(Self::#states(value) => value.#to_stored(),)*
                    }
                }
            }

            #serde

            impl #stored {
                /// The typed value, whatever its state.
                ///
                /// # Errors
                ///
                /// Hands the value back untouched when it breaks rules of its state.
                #vis fn typed(self) -> __core::result::Result<Typed, Refused> {
                    __core::result::Result::Ok(match self.status() {
                        #(#status::#states => Typed::#states(__core::convert::TryFrom::try_from(self)?),)*
                    })
                }
            }
        }
    });
    quote! {
        #(#docs)*
        #summary
        #(#attrs)*
        #open
        #derives
        #vis enum #name #generics #bounds {
            #(#[doc = #state_docs] #states(#typed_values),)*
        }

        impl #params #name #arguments #bounds {
            /// The status of the value.
            #vis const fn status(&self) -> #status {
                match self {
                    #(Self::#states(_) => #status::#states,)*
                }
            }
        }

        #(
            #[automatically_derived]
            #conversions
        )*

        #stored_form
    }
}

/// Returns the derives of an enum of typed values: `Debug`, `PartialEq` and what `derive(typed(..))` requests. With types alone only those of the two that the
/// declaration derives.
pub(super) fn derives(machine: &MachineDef) -> TokenStream {
    if !machine.types {
        let requested = &machine.generated.typed;
        return quote!(#[derive(__core::fmt::Debug, __core::cmp::PartialEq #(, #requested)*)]);
    }
    let known = ["Debug", "PartialEq"];
    let requested = machine.derives.iter().filter(|path| {
        let last = path.segments.last();
        last.is_some_and(|last| known.iter().any(|known| last.ident == known))
    });
    quote!(#[derive(#(#requested),*)])
}
