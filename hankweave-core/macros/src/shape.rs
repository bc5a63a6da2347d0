//! `#[derive(Shape)]`: what the JSON of a record must be, from what serde is told of its fields.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, Fields, GenericArgument, Lit, LitStr, Meta,
    PathArguments, Token, Type,
};

use crate::case::{Case, text};

/// The implementation for one type, or what is wrong with it.
pub(crate) fn derive(item: TokenStream) -> syn::Result<TokenStream> {
    let item: DeriveInput = syn::parse2(item)?;
    let container = Words::of(&item.attrs)?;
    let name = &item.ident;
    let check = match &item.data {
        Data::Struct(data) => {
            let rules = rules(&data.fields, container.case("rename_all")?)?;
            quote!(checker.object(value, const { &[#(#rules),*] }))
        }
        Data::Enum(data) => {
            let Some(tag) = container.text("tag") else {
                return Ok(shape(name, quote!(shape::leaf::<Self>(checker, value))));
            };
            let (variants, fields) = (
                container.case("rename_all")?,
                container.case("rename_all_fields")?,
            );
            let variants = data.variants.iter().map(|variant| {
                let words = Words::of(&variant.attrs)?;
                let spelled = spelled(&words, &variant.ident, |name| {
                    variants.map(|case| case.variant(name))
                });
                let rules = rules(&variant.fields, fields)?;
                Ok(quote!((#spelled, &[#(#rules),*])))
            });
            let variants = variants.collect::<syn::Result<Vec<_>>>()?;
            let impls = quote! {
                #[automatically_derived]
                impl ::hankweave_core::shape::Variants for #name {
                    const VARIANTS: &'static [(&'static str, &'static [::hankweave_core::shape::Rule])] = {
                        use ::hankweave_core::shape::{self, Shape};
                        &[#(#variants),*]
                    };
                }
            };
            if container.has("content") {
                return Ok(impls);
            }
            let check = shape(name, quote!(checker.variant::<Self>(value, #tag)));
            return Ok(quote!(#impls #check));
        }
        Data::Union(_) => return Err(Error::new_spanned(name, "a union has no JSON")),
    };
    Ok(shape(name, check))
}

fn shape(name: &Ident, check: TokenStream) -> TokenStream {
    quote! {
        const _: () = {
            use ::hankweave_core::shape::{self, Shape};

            #[automatically_derived]
            impl Shape for #name {
                fn check(checker: &mut shape::Checker, value: &mut shape::Value) {
                    #check
                }
            }
        };
    }
}

/// A rule for each field that is stored under a name of its own.
fn rules(fields: &Fields, case: Option<Case>) -> syn::Result<Vec<TokenStream>> {
    let mut rules = Vec::new();
    for field in fields {
        let words = Words::of(&field.attrs)?;
        let (Some(ident), false) = (&field.ident, words.has("flatten") || words.has("skip")) else {
            continue;
        };
        let name = spelled(&words, ident, |name| case.map(|case| case.field(name)));
        let inside = inside_option(&field.ty);
        let presence = match (inside, words.has("default")) {
            (_, true) => quote!(optional),
            // Told how to be read, an option must be there.
            (Some(_), false) if words.has("deserialize_with") => quote!(nullable),
            (Some(_), false) => quote!(optional),
            (None, false) => quote!(required),
        };
        let ty = inside.unwrap_or(&field.ty);
        let check = words
            .check
            .map_or_else(|| quote!(<#ty as Shape>::check), |check| quote!(#check));
        rules.push(quote!(shape::#presence(#name, #check)));
    }
    Ok(rules)
}

/// The stored name: as it was given, as the case spells it, or as it is written.
fn spelled(words: &Words, ident: &Ident, by_case: impl FnOnce(&str) -> Option<String>) -> String {
    let written = text(ident);
    words
        .text("rename")
        .or_else(|| by_case(&written))
        .unwrap_or(written)
}

/// What stands in `#[serde(..)]`, and the function in `#[shape(with = ..)]`.
struct Words {
    serde: Vec<Meta>,
    check: Option<Expr>,
}

impl Words {
    fn of(attrs: &[Attribute]) -> syn::Result<Self> {
        let mut words = Self {
            serde: Vec::new(),
            check: None,
        };
        for attr in attrs {
            if attr.path().is_ident("serde") {
                words
                    .serde
                    .extend(attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?);
            } else if attr.path().is_ident("shape") {
                let pair: syn::MetaNameValue = attr.parse_args()?;
                if !pair.path.is_ident("with") {
                    return Err(Error::new_spanned(
                        pair.path,
                        "on a field shape takes `with = function`",
                    ));
                }
                words.check = Some(pair.value);
            }
        }
        Ok(words)
    }

    fn has(&self, name: &str) -> bool {
        self.serde.iter().any(|meta| meta.path().is_ident(name))
    }

    fn literal(&self, name: &str) -> Option<&LitStr> {
        let meta = self.serde.iter().find(|meta| meta.path().is_ident(name))?;
        match &meta.require_name_value().ok()?.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text), ..
            }) => Some(text),
            _ => None,
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        self.literal(name).map(LitStr::value)
    }

    fn case(&self, name: &str) -> syn::Result<Option<Case>> {
        self.literal(name).map(Case::parse).transpose()
    }
}

/// What stands inside a type that is written `Option<..>`. Names are all that a macro sees.
fn inside_option(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    match &last.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first()? {
            GenericArgument::Type(inside) => Some(inside),
            _ => None,
        },
        _ => None,
    }
}
