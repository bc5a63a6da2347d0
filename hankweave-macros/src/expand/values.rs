//! Puts each expression of the declaration, such as `start` and `next`, into a function next to the data, and generates calls of these functions.
//!
//! The typed value and its seals are a module deeper, which contains no expression of the user: an expression may hold a block, a block may hold an
//! implementation, and code inside a module sees all of its private items.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Expr, GenericParam, Type};

use crate::ast::Next;
use crate::case::text;
use crate::model::{Carried, FieldDef, MachineDef, StateDef, ValueSource};

use super::GeneratedNames;
use super::checked::{self, CheckedNext};
use super::states::at;

/// Generates one function for each expression of each state.
pub(super) fn values(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let states = machine.states.iter().enumerate();
    let fields = states.flat_map(|(state, def)| def.fields.iter().map(move |field| (state, field)));
    fields
        .map(|(state, field)| {
            let first = first_of(field).map(|value| first_function(state, field, value, machine));
            let next = next_of(field).map(|value| next_functions(state, field, value, machine, out));
            quote!(#first #next)
        })
        .collect()
}

/// The expression for the first value of a field, or its only one.
fn first_of(field: &FieldDef) -> Option<&Expr> {
    match &field.entry {
        ValueSource::Start(value) | ValueSource::Fixed(value) => Some(value),
        ValueSource::Carried(Carried { start, .. }) => start.as_ref(),
        _ => None,
    }
}

/// The function of the declaration that computes the next value of a field.
fn next_of(field: &FieldDef) -> Option<&Next> {
    match &field.entry {
        ValueSource::Carried(Carried { next, .. }) => next.as_ref(),
        _ => None,
    }
}

fn first_function(state: usize, field: &FieldDef, value: &Expr, machine: &MachineDef) -> TokenStream {
    let (name, ty) = (first_name(state, field), &field.ty);
    let (params, _, bounds) = machine.generics.split_for_impl();
    let unused = allow_unused(machine);
    quote! {
        #unused
        #[inline]
        fn #name #params() -> #ty #bounds {
            #value
        }
    }
}

/// Generates a function for the next value, once for each type that the field has in the states before. A checked function returns `None` where the step
/// has to be refused.
fn next_functions(
    state: usize,
    field: &FieldDef,
    next: &Next,
    machine: &MachineDef,
    out: &GeneratedNames,
) -> TokenStream {
    let (krate, ty) = (&out.krate, &field.ty);
    let (params, _, bounds) = machine.generics.split_for_impl();
    let types = types_before(state, field, machine);
    let functions = types.iter().enumerate().map(|(index, before)| {
        let (name, unused) = (next_name(state, field, index), allow_unused(machine));
        // A type error is then shown at the field, or in the closure.
        let here = Span::call_site().located_at(field.ident.span());
        let call = at(quote!(#krate::__private::next::<_, #ty>), &field.ident);
        match checked::of_next(next, machine, krate) {
            None => {
                let next = &next.function;
                let body = quote_spanned!(here=> #call(value, #next));
                quote! {
                    #unused
                    #[inline]
                    fn #name #params(value: #before) -> #ty #bounds {
                        #body
                    }
                }
            }
            Some(CheckedNext { sums, next, may_fail }) => {
                let result = match may_fail {
                    true => quote!(__core::option::Option<#ty>),
                    false => quote!(#ty),
                };
                let call = at(quote!(#krate::__private::next::<_, #result>), &field.ident);
                let next = quote_spanned!(here=> #call(value, #next));
                let or_none = may_fail.then(|| quote!(?));
                quote! {
                    #[inline]
                    fn #name(value: #before) -> __core::option::Option<#ty> {
                        let #sums = #krate::__private::Sums::new();
                        let next: #ty = #next #or_none;
                        #sums.unless_overflown(next)
                    }
                }
            }
        }
    });
    functions.collect()
}

/// The types that a carried field has in the states before, each once.
fn types_before(state: usize, field: &FieldDef, machine: &MachineDef) -> Vec<Type> {
    let ValueSource::Carried(Carried { from, .. }) = &field.entry else {
        return Vec::new();
    };
    let mut types: Vec<Type> = Vec::new();
    for source in machine.methods.iter().flat_map(|method| method.sources_of(state)) {
        if let Some(ty) = machine.states[source].type_of(from)
            && !types.iter().any(|known| written(known) == written(ty))
        {
            types.push(ty.clone());
        }
    }
    types
}

/// Returns the call that makes the first value.
pub(super) fn first_call(state: usize, field: &FieldDef, machine: &MachineDef) -> TokenStream {
    let (name, arguments) = (first_name(state, field), turbofish(machine));
    quote!(#name #arguments())
}

/// Returns the name of the function that makes the next value out of the value in `source`.
pub(super) fn next_function_name(
    state: usize,
    field: &FieldDef,
    source: &StateDef,
    machine: &MachineDef,
) -> TokenStream {
    let ValueSource::Carried(Carried { from, .. }) = &field.entry else {
        return TokenStream::new();
    };
    let before = source.type_of(from).map(written);
    let types = types_before(state, field, machine);
    let index = types.iter().position(|ty| Some(written(ty)) == before);
    let (name, arguments) = (
        next_name(state, field, index.unwrap_or_default()),
        turbofish(machine),
    );
    quote!(#name #arguments)
}

/// Returns the call that makes the next value out of `value`, the value in `source`; it panics where `apply` refuses the step.
pub(super) fn next_call(
    state: usize,
    field: &FieldDef,
    value: TokenStream,
    source: &StateDef,
    machine: &MachineDef,
    out: &GeneratedNames,
) -> TokenStream {
    let function = next_function_name(state, field, source, machine);
    let here = Span::call_site().located_at(field.ident.span());
    let call = quote_spanned!(here=> #function(#value));
    let Some(checked) = next_of(field).and_then(|next| checked::of_next(next, machine, &out.krate)) else {
        return call;
    };
    let field = &field.ident;
    let message = match checked.may_fail {
        true => format!("there is no next `{field}`; `apply` refuses such a step"),
        false => format!("the next `{field}` does not fit its type; `apply` refuses such a step"),
    };
    quote!(#call.expect(#message))
}

fn written(ty: &Type) -> String {
    ty.to_token_stream().to_string()
}

fn first_name(state: usize, field: &FieldDef) -> Ident {
    let here = Span::call_site().located_at(field.ident.span());
    format_ident!("first_{state}_{}", text(&field.ident), span = here)
}

fn next_name(state: usize, field: &FieldDef, index: usize) -> Ident {
    let here = Span::call_site().located_at(field.ident.span());
    format_ident!("next_{state}_{index}_{}", text(&field.ident), span = here)
}

/// Returns the machine's types and constants as arguments of a call; lifetimes are inferred.
fn turbofish(machine: &MachineDef) -> Option<TokenStream> {
    let names = machine.generics.params.iter().filter_map(|param| match param {
        GenericParam::Type(param) => Some(&param.ident),
        GenericParam::Const(param) => Some(&param.ident),
        GenericParam::Lifetime(_) => None,
    });
    let names: Vec<_> = names.collect();
    (!names.is_empty()).then(|| quote!(::<#(#names),*>))
}

/// Returns the attribute that lets a function leave parameters unused.
fn allow_unused(machine: &MachineDef) -> Option<TokenStream> {
    (!machine.generics.params.is_empty()).then(|| {
        quote! {
            #[allow(
                clippy::extra_unused_lifetimes,
                clippy::extra_unused_type_parameters,
                reason = "an expression may use any parameter of the machine"
            )]
        }
    })
}
