//! Lets rustc check once for each type of the data that it has the traits that a machine needs.
//!
//! rustc would report one missing trait many times: for each derive, reader and writer. So a field of type `T` is generated as an alias,
//! `type __Data0 = If<{ <T as Storable>::HOLDS }, T>`. If `T` lacks a trait, the constant cannot be evaluated: rustc reports that once, and nothing about the
//! alias, whose definition is wrong.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{GenericArgument, PathArguments, Type, parse_quote};

use crate::model::{FieldDef, MachineDef, ValueSource, is_plain};

use super::GeneratedNames;

/// Returns the machine with an alias for each type that may lack a trait, and the definitions of the aliases. A machine of types alone needs no traits and gets
/// no aliases. Only such a machine has type parameters, so the definitions need none.
pub(super) fn with_aliases(machine: &MachineDef, out: &GeneratedNames) -> (MachineDef, TokenStream) {
    let mut with_aliases = machine.clone();
    let mut aliases = Aliases::default();
    let states = with_aliases.states.iter_mut().flat_map(|state| &mut state.fields);
    let fields = with_aliases.shared.iter_mut().chain(states);
    for field in fields.filter(|field| !machine.types && !matches!(field.entry, ValueSource::Extra)) {
        let required = required_trait(field, machine);
        aliases.replace(&mut field.ty, required);
    }
    let definitions = aliases.known.iter().map(|alias| alias.definition(out));
    (with_aliases, definitions.collect())
}

/// Returns the trait of the companion crate that stands for all traits which the type of a field must have. A field with serde functions of its own needs no
/// serde.
fn required_trait(field: &FieldDef, machine: &MachineDef) -> &'static str {
    match machine.stored_form && field.with_attributes().next().is_none() {
        true => "Storable",
        false => "Recordable",
    }
}

/// The aliases made so far, one for each pair of a type and its required trait.
#[derive(Default)]
struct Aliases {
    known: Vec<Alias>,
}

struct Alias {
    ident: Ident,
    /// The type that the alias stands for.
    ty: Type,
    required_trait: &'static str,
}

impl Aliases {
    /// Replaces a type that may lack a trait by its alias; of an `Option` or a `Vec` the type inside.
    fn replace(&mut self, ty: &mut Type, required_trait: &'static str) {
        if let Some(inside) = inside(ty) {
            self.replace(inside, required_trait);
        } else if !is_plain(ty.to_token_stream()) {
            let alias = self.alias_of(ty, required_trait);
            *ty = parse_quote!(#alias);
        }
    }

    /// Returns the alias of a type, with the span of this use.
    fn alias_of(&mut self, ty: &Type, required_trait: &'static str) -> Ident {
        let written = |ty: &Type| ty.to_token_stream().to_string();
        let is_this =
            |alias: &Alias| alias.required_trait == required_trait && written(&alias.ty) == written(ty);
        let index = self.known.iter().position(is_this).unwrap_or(self.known.len());
        let here = Span::call_site().located_at(ty.span());
        let ident = Ident::new(&format!("__Data{index}"), here);
        if index == self.known.len() {
            self.known.push(Alias {
                ident: ident.clone(),
                ty: ty.clone(),
                required_trait,
            });
        }
        ident
    }
}

impl Alias {
    fn definition(&self, out: &GeneratedNames) -> TokenStream {
        let (Self { ident, ty, .. }, krate) = (self, &out.krate);
        let required_trait = Ident::new(self.required_trait, Span::call_site());
        // Documentation shows the type itself.
        quote! {
            #[cfg(not(doc))]
            type #ident = #krate::__private::If<{ <#ty as #krate::__private::#required_trait>::HOLDS }, #ty>;
            #[cfg(doc)]
            type #ident = #ty;
        }
    }
}

/// Returns the type inside an `Option` or a `Vec`: these have each trait that the type inside has.
fn inside(ty: &mut Type) -> Option<&mut Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last_mut()?;
    if last.ident != "Option" && last.ident != "Vec" {
        return None;
    }
    match &mut last.arguments {
        PathArguments::AngleBracketed(arguments) if arguments.args.len() == 1 => match &mut arguments.args[0]
        {
            GenericArgument::Type(inside) => Some(inside),
            _ => None,
        },
        _ => None,
    }
}
