//! Type parameters, lifetimes and constants of the machine. The struct of each state has all of them, so that a step can name its target; a struct that callers
//! fill in has those that its fields name.

use std::collections::HashSet;

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::punctuated::Punctuated;
use syn::{GenericParam, Generics, Ident, Lifetime, Type, WherePredicate};

use crate::model::{FieldDef, MachineDef};

/// Returns the machine's parameters that the types of some fields name. Bounds that name any other of its parameters are left out.
pub(super) fn used<'a>(fields: impl IntoIterator<Item = &'a FieldDef>, machine: &MachineDef) -> Generics {
    used_by(fields.into_iter().map(|field| &field.ty), machine)
}

/// Returns the machine's parameters that some types name. Bounds that name any other of its parameters are left out.
pub(super) fn used_by<'a>(types: impl IntoIterator<Item = &'a Type>, machine: &MachineDef) -> Generics {
    let mut names = HashSet::new();
    for ty in types {
        collect(ty.to_token_stream(), &mut names);
    }
    let mut generics = machine.generics.clone();
    let all = &machine.generics.params;
    generics.params = (all.iter().filter(|param| names.contains(&name(param))))
        .cloned()
        .collect();
    let dropped: HashSet<String> = (all.iter().map(name))
        .filter(|name| !names.contains(name))
        .collect();
    let names_no_dropped = |tokens: TokenStream| {
        let mut named = HashSet::new();
        collect(tokens, &mut named);
        named.is_disjoint(&dropped)
    };
    for param in &mut generics.params {
        match param {
            GenericParam::Type(param) => {
                param.bounds = retain(&param.bounds, names_no_dropped);
            }
            GenericParam::Lifetime(param) => {
                param.bounds = retain(&param.bounds, names_no_dropped);
            }
            GenericParam::Const(_) => {}
        }
    }
    if let Some(clause) = &mut generics.where_clause {
        clause.predicates = retain::<WherePredicate, _>(&clause.predicates, names_no_dropped);
    }
    let mut defaults = generics.type_params().filter_map(|param| param.default.as_ref());
    if !defaults.all(|(_, default)| names_no_dropped(default.to_token_stream())) {
        remove_defaults(&mut generics);
    }
    generics
}

/// Removes all defaults: a parameter with one must not stand before a parameter without one.
fn remove_defaults(generics: &mut Generics) {
    for param in &mut generics.params {
        match param {
            GenericParam::Type(param) => param.default = None,
            GenericParam::Const(param) => param.default = None,
            GenericParam::Lifetime(_) => {}
        }
    }
}

/// Returns the items of a list whose tokens `keep` accepts.
fn retain<T: ToTokens + Clone, P: Default>(
    all: &Punctuated<T, P>,
    keep: impl Fn(TokenStream) -> bool,
) -> Punctuated<T, P> {
    let kept = all.iter().filter(|one| keep(one.to_token_stream()));
    kept.cloned().collect()
}

/// Returns the type of the phantom field for the parameters that none of a state's fields names.
pub(super) fn phantom(fields: &[FieldDef], machine: &MachineDef) -> Option<Type> {
    let used: HashSet<String> = used(fields, machine).params.iter().map(name).collect();
    let unused = machine
        .generics
        .params
        .iter()
        .filter(|param| !used.contains(&name(param)));
    let parts: Vec<TokenStream> = unused
        .filter_map(|param| match param {
            GenericParam::Type(param) => {
                let ident = &param.ident;
                Some(quote!(__core::marker::PhantomData<#ident>))
            }
            GenericParam::Lifetime(param) => {
                let lifetime = &param.lifetime;
                Some(quote!(__core::marker::PhantomData<&#lifetime ()>))
            }
            GenericParam::Const(_) => None,
        })
        .collect();
    (!parts.is_empty()).then(|| Type::Verbatim(quote!((#(#parts,)*))))
}

/// Returns a lifetime for generated code that is none of the machine's.
pub(super) fn lifetime(machine: &MachineDef) -> Lifetime {
    let taken = machine
        .generics
        .lifetimes()
        .any(|param| param.lifetime.ident == "a");
    let name = if taken { "'of_machine" } else { "'a" };
    Lifetime::new(name, proc_macro2::Span::call_site())
}

fn name(param: &GenericParam) -> String {
    match param {
        GenericParam::Type(param) => param.ident.to_string(),
        GenericParam::Lifetime(param) => param.lifetime.to_string(),
        GenericParam::Const(param) => param.ident.to_string(),
    }
}

/// Collects every name and every lifetime among some tokens; a lifetime with its tick.
fn collect(tokens: TokenStream, names: &mut HashSet<String>) {
    let mut tick = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect(group.stream(), names),
            TokenTree::Ident(ident) => {
                let name = Ident::to_string(&ident);
                names.insert(if tick { format!("'{name}") } else { name });
                tick = false;
            }
            TokenTree::Punct(punct) => tick = punct.as_char() == '\'',
            TokenTree::Literal(_) => tick = false,
        }
    }
}
