//! The machine as written from one module deeper, which contains none of its expressions.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::{Path, Type, parse_quote};

use crate::model::MachineDef;
use crate::parse::paths;

use super::generics;

/// Lets types in a module inside that of the data keep their meaning. A type that is more than names gets a name next to the data: its definitions
/// are returned as well.
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
    let mut arrow = false;
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace || holds_code(&group.stream()),
        // `-> !` is the type of what never returns.
        TokenTree::Punct(punct) => {
            let never = std::mem::replace(&mut arrow, punct.as_char() == '>');
            punct.as_char() == '!' && !never
        }
        _ => false,
    })
}

/// Types that got a name.
#[derive(Default)]
struct Named {
    known: Vec<(String, Type)>,
    definitions: TokenStream,
}

impl Named {
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
