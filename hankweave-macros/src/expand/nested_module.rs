//! Rewrites the types of a machine for the module `guarded`, which is inside that of the data and contains no code of the user.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::{Path, Type, parse_quote};

use crate::model::MachineDef;
use crate::parse::paths;

use super::generics;

/// Returns the machine with types that mean one module deeper what they mean next to the data. A type that holds code of the user is replaced by an alias; the
/// definitions of the aliases, which belong next to the data, are returned as well.
pub(super) fn deeper(machine: &MachineDef) -> (MachineDef, TokenStream) {
    let mut deeper = machine.clone();
    paths::of_generics(&mut deeper.generics);
    let one_down = |path: &mut Path| paths::of_path(path);
    deeper.krate.iter_mut().for_each(one_down);
    let mut named = Named::default();
    let states = deeper.states.iter_mut().flat_map(|state| &mut state.fields);
    for field in deeper.shared.iter_mut().chain(states) {
        match holds_code(&field.ty.to_token_stream()) {
            true => field.ty = named.name(&field.ty, machine),
            false => paths::of_type(&mut field.ty),
        }
    }
    (deeper, named.definitions)
}

/// Returns whether some tokens hold a block or a macro call, which may contain an implementation.
pub(crate) fn holds_code(tokens: &TokenStream) -> bool {
    // Whether the last punctuation was a `>`, as in `-> !`, the type of what never returns.
    let mut after_arrow = false;
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace || holds_code(&group.stream()),
        TokenTree::Punct(punct) => {
            let is_never_type = std::mem::replace(&mut after_arrow, punct.as_char() == '>');
            punct.as_char() == '!' && !is_never_type
        }
        _ => false,
    })
}

/// Aliases of types that hold code.
#[derive(Default)]
struct Named {
    /// Each type as text, with its alias.
    known: Vec<(String, Type)>,
    definitions: TokenStream,
}

impl Named {
    /// Returns the alias of a type, which is defined at its first use.
    fn name(&mut self, ty: &Type, machine: &MachineDef) -> Type {
        let written = ty.to_token_stream().to_string();
        if let Some((_, name)) = self.known.iter().find(|(known, _)| *known == written) {
            return name.clone();
        }
        let mut params = generics::used_by([ty], machine);
        params.where_clause = None;
        let name = format_ident!("Named{}", self.known.len(), span = Span::call_site());
        let (_, arguments, _) = params.split_for_impl();
        self.definitions.extend(quote! {
            #[allow(type_alias_bounds, reason = "associated types need them")]
            type #name #params = #ty;
        });
        let name: Type = parse_quote!(#name #arguments);
        self.known.push((written, name.clone()));
        name
    }
}
