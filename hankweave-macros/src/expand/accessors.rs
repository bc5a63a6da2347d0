//! Generates accessors of the stored enum: methods that read one field of a value in any state.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};

use crate::case::text;
use crate::model::{FieldDef, MachineDef, STORED_METHODS, StateDef, ValueSource, inside_option};

use super::{GeneratedNames, if_stored};

/// Methods that generated code calls on a stored value; fields of these names have no accessor.
const IN_USE: [&str; 2] = ["clone", "refuse"];

/// Generates accessors of the shared fields; with the stored form also of fields that have one type in all their states.
pub(super) fn accessors(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let stored = &out.stored;
    // `check` has reported a shared field whose name is that of a method.
    let shared = machine.shared.iter().filter(|field| is_free(&field.ident));
    let shared = shared.map(|field| shared_accessor(field, machine, out));
    let own = fields_of_one_type(machine).map(|(field, states)| accessor(field, &states, machine, out));
    let own = if_stored(machine, quote!(#(#own)*));
    quote! {
        impl #stored {
            #(#shared)*
            #own
        }
    }
}

fn is_free(field: &Ident) -> bool {
    !STORED_METHODS.contains(&text(field).as_str())
}

fn shared_accessor(field: &FieldDef, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let (vis, FieldDef { ident, ty, .. }) = (&out.vis, field);
    let docs = docs(field, &format!("The `{}` of every state.", field.stored_name));
    let states: Vec<_> = machine.states.iter().map(|state| &state.ident).collect();
    let for_change = matches!(field.entry, ValueSource::Extra).then(|| {
        let name = format_ident!("{}_mut", text(ident), span = Span::call_site());
        quote! {
            /// Returns a mutable reference.
            #vis const fn #name(&mut self) -> &mut #ty {
                match self {
                    #(Self::#states(state) => &mut state.#ident,)*
                }
            }
        }
    });
    quote! {
        #docs
        #vis const fn #ident(&self) -> &#ty {
            match self {
                #(Self::#states(state) => &state.#ident,)*
            }
        }
        #for_change
    }
}

/// Returns each field that is not shared and has one type in all states that have it, apart from an `Option` around it. With each field come those states and
/// their definitions of the field.
fn fields_of_one_type(
    machine: &MachineDef,
) -> impl Iterator<Item = (&FieldDef, Vec<(&StateDef, &FieldDef)>)> {
    let of_states = |name: &Ident| -> Vec<(&StateDef, &FieldDef)> {
        let holders = machine.states.iter().filter_map(|state| {
            let field = state.fields.iter().find(|field| field.ident == *name)?;
            Some((state, field))
        });
        holders.collect()
    };
    let mut seen: Vec<&Ident> = machine.shared.iter().map(|field| &field.ident).collect();
    let all = machine.states.iter().flat_map(|state| &state.fields);
    let first = all.filter(move |field| {
        let new = !seen.contains(&&field.ident);
        seen.push(&field.ident);
        new && is_free(&field.ident) && !IN_USE.contains(&text(&field.ident).as_str())
    });
    let with_states = first.map(move |field| (field, of_states(&field.ident)));
    with_states.filter(|(first, states)| {
        let written = |field: &FieldDef| field.value_type().to_token_stream().to_string();
        states.iter().all(|(_, field)| written(field) == written(first))
    })
}

fn accessor(
    field: &FieldDef,
    states: &[(&StateDef, &FieldDef)],
    machine: &MachineDef,
    out: &GeneratedNames,
) -> TokenStream {
    let (vis, ty) = (&out.vis, field.value_type());
    let docs = docs(field, "");
    // With the span of the macro, an unused accessor is not reported: no user has written it.
    let mut name = field.ident.clone();
    name.set_span(Span::call_site());
    let arms = states.iter().map(|(state, field)| {
        let (state, ident) = (&state.ident, &field.ident);
        match inside_option(&field.ty) {
            Some(_) => quote!(Self::#state(state) => state.#ident.as_ref(),),
            None => quote!(Self::#state(state) => __core::option::Option::Some(&state.#ident),),
        }
    });
    let others = (states.len() < machine.states.len()).then(|| quote!(_ => __core::option::Option::None,));
    quote! {
        #docs
        ///
        /// `None` in a state that has none.
        #vis const fn #name(&self) -> __core::option::Option<&#ty> {
            match self {
                #(#arms)*
                #others
            }
        }
    }
}

/// Returns the declaration's documentation of a field, or `otherwise`.
fn docs(field: &FieldDef, otherwise: &str) -> TokenStream {
    let docs: Vec<_> = field
        .attrs
        .iter()
        .filter(|attr| attr.path().is_ident("doc"))
        .collect();
    match docs.is_empty() {
        true => quote!(#[doc = #otherwise]),
        false => quote!(#(#docs)*),
    }
}
