//! The machine as it is written from one module deeper, where none of its expressions stand.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::{Path, Type, parse_quote};

use crate::model::MachineDef;
use crate::parse::paths;

use super::generics;

/// Lets types mean in a module beneath the data what they mean beside it. A type that is more than names gets one beside the data: gives the definitions
/// as well.
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

/// Whether some tokens hold a block or the call of a macro, in which an implementation may stand.
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
