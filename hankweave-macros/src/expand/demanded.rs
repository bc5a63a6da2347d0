//! Types of the data, each asked once for the traits that a machine needs.
//!
//! Every derive, reader and writer would report a missing trait by itself. So data, and all that takes it, names the type by way of a constant that is no constant
//! where a trait is missing: rustc reports that one, and is silent about a type whose parts are mistaken.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{GenericArgument, PathArguments, Type, parse_quote};

use crate::model::{FieldDef, MachineDef, ValueSource, is_plain};

use super::GeneratedNames;

/// The machine with a name for each type that may lack a trait, and the definitions of these names. Types alone are asked for nothing.
pub(super) fn demanded(machine: &MachineDef, out: &GeneratedNames) -> (MachineDef, TokenStream) {
    let mut demanded = machine.clone();
    let mut names = Names::default();
    let states = demanded.states.iter_mut().flat_map(|state| &mut state.fields);
    let fields = demanded.shared.iter_mut().chain(states);
    for field in fields.filter(|field| !machine.types && !matches!(field.entry, ValueSource::Extra)) {
        let demand = demand(field, machine);
        names.replace(&mut field.ty, demand);
    }
    let definitions = names.known.iter().map(|name| name.definition(out));
    (demanded, definitions.collect())
}

/// Returns the trait that sums up the demands on a field; a field with its own serde functions needs no serde.
fn demand(field: &FieldDef, machine: &MachineDef) -> &'static str {
    match machine.stored_form && field.ways().next().is_none() {
        true => "Storable",
        false => "Recordable",
    }
}

#[derive(Default)]
struct Names {
    known: Vec<Name>,
}

struct Name {
    ident: Ident,
    ty: Type,
    demand: &'static str,
}

impl Names {
    fn replace(&mut self, ty: &mut Type, demand: &'static str) {
        if let Some(inside) = inside(ty) {
            self.replace(inside, demand);
        } else if !is_plain(ty.to_token_stream()) {
            let name = self.name(ty, demand);
            *ty = parse_quote!(#name);
        }
    }

    /// The name of a type, where it is written.
    fn name(&mut self, ty: &Type, demand: &'static str) -> Ident {
        let written = |ty: &Type| ty.to_token_stream().to_string();
        let is_this = |name: &Name| name.demand == demand && written(&name.ty) == written(ty);
        let index = self.known.iter().position(is_this).unwrap_or(self.known.len());
        let here = Span::call_site().located_at(ty.span());
        let ident = Ident::new(&format!("__Data{index}"), here);
        if index == self.known.len() {
            self.known.push(Name {
                ident: ident.clone(),
                ty: ty.clone(),
                demand,
            });
        }
        ident
    }
}

impl Name {
    fn definition(&self, out: &GeneratedNames) -> TokenStream {
        let Self { ident, ty, demand } = self;
        let (krate, demand) = (&out.krate, Ident::new(demand, Span::call_site()));
        quote! {
            #[cfg(not(doc))]
            type #ident = #krate::__private::If<{ <#ty as #krate::__private::#demand>::HOLDS }, #ty>;
            #[cfg(doc)]
            type #ident = #ty;
        }
    }
}

/// The type in an `Option` or a `Vec`, which have each trait that it has.
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
