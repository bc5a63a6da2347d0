//! What checks each stored field: `#[machine(Name, shape)]`.

use std::collections::BTreeMap;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use crate::model::{Entry, Field, Machine, State};

use super::{Names, if_stored};

/// `Shape` for the names of states, and the check of a field by its stored name.
pub(super) fn shape(machine: &Machine, out: &Names) -> TokenStream {
    if !machine.shape {
        return TokenStream::new();
    }
    let Names {
        vis,
        stored,
        status,
        phase,
        ..
    } = out;
    let mut fields: BTreeMap<&str, Vec<(&State, &Field)>> = BTreeMap::new();
    for state in &machine.states {
        for field in &state.fields {
            if !matches!(field.entry, Entry::Extra) {
                for name in field.stored_names() {
                    fields.entry(name).or_default().push((state, field));
                }
            }
        }
    }
    let arms = fields.into_iter().map(|(name, fields)| {
        let check = check(&fields, machine, out);
        quote!(#name => #check,)
    });
    if_stored(quote! {
        const _: () = {
            use ::hankweave_core::shape::{self, Shape};

            impl Shape for #status {
                fn check(checker: &mut shape::Checker, value: &mut shape::Value) {
                    shape::leaf::<Self>(checker, value);
                }
            }

            impl Shape for #phase {
                fn check(checker: &mut shape::Checker, value: &mut shape::Value) {
                    shape::leaf::<Self>(checker, value);
                }
            }

            impl #stored {
                /// What checks the stored field of this name. Without a status it is known where the field has one type in all states.
                #vis fn shape_of(status: ::core::option::Option<#status>, name: &str) -> ::core::option::Option<shape::Check> {
                    ::core::option::Option::Some(match name {
                        #(#arms)*
                        _ => return ::core::option::Option::None,
                    })
                }
            }
        };
    })
}

/// The check of a field; by the state where that decides on its type.
fn check(fields: &[(&State, &Field)], machine: &Machine, out: &Names) -> TokenStream {
    let of = |field: &Field| {
        let ty = field.value_type();
        quote!(<#ty as Shape>::check)
    };
    let written = |field: &Field| field.value_type().to_token_stream().to_string();
    let (_, first) = fields[0];
    if fields.iter().all(|(_, field)| written(field) == written(first)) {
        return of(first);
    }
    let status = &out.status;
    let arms = fields.iter().map(|(state, field)| {
        let (state, check) = (&state.ident, of(field));
        quote!(#status::#state => #check,)
    });
    let others = fields.len() < machine.states.len();
    let others = others.then(|| quote!(_ => return ::core::option::Option::None,));
    quote! {
        match status? {
            #(#arms)*
            #others
        }
    }
}
