//! Generates implementations that a derive could write. In the module of the typed value no derive is called: a macro of the user may have the name of the
//! derive, and its code could reach the private items there.

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use crate::model::MachineDef;

use super::GeneratedNames;

/// Generates for the typed value `Debug`, `PartialEq`, and the traits that `derive(typed(..))` requests.
pub(super) fn of_typed(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let (typed, state_trait) = (&out.typed, &out.state_trait);
    let name = typed.to_string();
    let requested = machine
        .generated
        .typed
        .iter()
        .filter_map(|path| path.segments.last());
    let requested = requested.map(|last| requested_impl(&last.ident, typed, state_trait));
    quote! {
        #[automatically_derived]
        impl<S: #state_trait + __core::fmt::Debug> __core::fmt::Debug for #typed<S> {
            fn fmt(&self, f: &mut __core::fmt::Formatter<'_>) -> __core::fmt::Result {
                f.debug_tuple(#name).field(&self.0).finish()
            }
        }

        #[automatically_derived]
        impl<S: #state_trait + __core::cmp::PartialEq> __core::cmp::PartialEq for #typed<S> {
            fn eq(&self, other: &Self) -> bool {
                self.0 == other.0
            }
        }

        #(#requested)*
    }
}

/// Generates one of the four traits that `derive(typed(..))` takes; `parse` has refused all others.
fn requested_impl(name: &Ident, typed: &Ident, state_trait: &Ident) -> TokenStream {
    let (path, body) = match name.to_string().as_str() {
        "Eq" => (quote!(__core::cmp::Eq), quote!()),
        "PartialOrd" => (
            quote!(__core::cmp::PartialOrd),
            quote! {
                fn partial_cmp(&self, other: &Self) -> __core::option::Option<__core::cmp::Ordering> {
                    self.0.partial_cmp(&other.0)
                }
            },
        ),
        "Ord" => (
            quote!(__core::cmp::Ord),
            quote! {
                fn cmp(&self, other: &Self) -> __core::cmp::Ordering {
                    self.0.cmp(&other.0)
                }
            },
        ),
        // `Hash`
        _ => (
            quote!(__core::hash::Hash),
            quote! {
                fn hash<H: __core::hash::Hasher>(&self, state: &mut H) {
                    self.0.hash(state);
                }
            },
        ),
    };
    quote! {
        #[automatically_derived]
        impl<S: #state_trait + #path> #path for #typed<S> {
            #body
        }
    }
}

/// Generates `Debug` and `PartialEq` for the struct `Step`.
pub(super) fn of_step(out: &GeneratedNames) -> TokenStream {
    let (state_trait, value) = (&out.state_trait, &out.value);
    let name = value.to_string();
    quote! {
        #[automatically_derived]
        impl<S: #state_trait + __core::fmt::Debug> __core::fmt::Debug for Step<S> {
            fn fmt(&self, f: &mut __core::fmt::Formatter<'_>) -> __core::fmt::Result {
                f.debug_struct("Step").field(#name, &self.#value).field("event", &self.event).finish()
            }
        }

        #[automatically_derived]
        impl<S: #state_trait + __core::cmp::PartialEq> __core::cmp::PartialEq for Step<S> {
            fn eq(&self, other: &Self) -> bool {
                self.#value == other.#value && self.event == other.event
            }
        }
    }
}
