//! Types of the data, each asked once for the traits that a machine needs.
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

/// Returns the machine with an alias for each type that may lack a trait, and the definitions of the aliases. A machine of types alone needs none; only such a
/// machine may have parameters, so a type of the data names none.
pub(super) fn demanded(machine: &MachineDef, out: &GeneratedNames) -> (MachineDef, TokenStream) {
    let mut demanded = machine.clone();
    let mut aliases = Aliases::default();
    let states = demanded.states.iter_mut().flat_map(|state| &mut state.fields);
    let fields = demanded.shared.iter_mut().chain(states);
    for field in fields.filter(|field| !machine.types && !matches!(field.entry, ValueSource::Extra)) {
        let demand = demand(field, machine);
        aliases.replace(&mut field.ty, demand);
    }
    let definitions = aliases.known.iter().map(|alias| alias.definition(out));
    (demanded, definitions.collect())
}

/// Returns the trait that sums up the traits of a field. A field with serde functions of its own needs no serde.
fn demand(field: &FieldDef, machine: &MachineDef) -> &'static str {
    match machine.stored_form && field.ways().next().is_none() {
        true => "Storable",
        false => "Recordable",
    }
}

#[derive(Default)]
struct Aliases {
    known: Vec<Alias>,
}

struct Alias {
    ident: Ident,
    ty: Type,
    demand: &'static str,
}

impl Aliases {
    /// Replaces every part of a type that may lack a trait by its alias.
    fn replace(&mut self, ty: &mut Type, demand: &'static str) {
        if let Some(inside) = inside(ty) {
            self.replace(inside, demand);
        } else if !is_plain(ty.to_token_stream()) {
            let alias = self.alias_of(ty, demand);
            *ty = parse_quote!(#alias);
        }
    }

    /// Returns the alias of a type, with the span of this use.
    fn alias_of(&mut self, ty: &Type, demand: &'static str) -> Ident {
        let written = |ty: &Type| ty.to_token_stream().to_string();
        let is_this = |alias: &Alias| alias.demand == demand && written(&alias.ty) == written(ty);
        let index = self.known.iter().position(is_this).unwrap_or(self.known.len());
        let here = Span::call_site().located_at(ty.span());
        let ident = Ident::new(&format!("__Data{index}"), here);
        if index == self.known.len() {
            self.known.push(Alias {
                ident: ident.clone(),
                ty: ty.clone(),
                demand,
            });
        }
        ident
    }
}

impl Alias {
    fn definition(&self, out: &GeneratedNames) -> TokenStream {
        let Self { ident, ty, demand } = self;
        let (krate, demand) = (&out.krate, Ident::new(demand, Span::call_site()));
        // Documentation shows the type itself.
        quote! {
            #[cfg(not(doc))]
            type #ident = #krate::__private::If<{ <#ty as #krate::__private::#demand>::HOLDS }, #ty>;
            #[cfg(doc)]
            type #ident = #ty;
        }
    }
}

/// Returns the type in an `Option` or a `Vec`: both have each trait that it has.
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
