//! Expands `#[derive(Shape)]`, the rules for the JSON of a type, and `#[derive(Named)]`, the names of variants; both follow the attributes of serde.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, Fields, GenericArgument, Lit, LitStr, Meta,
    PathArguments, Token, Type, Variant,
};

use crate::case::{Case, text};

/// Returns the implementation of `Shape` for one type, or the error for a type that has none.
pub(crate) fn derive(item: TokenStream) -> syn::Result<TokenStream> {
    let item: DeriveInput = syn::parse2(item)?;
    refuse_shape(&item.attrs)?;
    let container = Words::of(&item.attrs, CONTAINER)?;
    let name = &item.ident;
    let check = match &item.data {
        Data::Struct(data) => {
            let rules = rules(&data.fields, container.case("rename_all")?)?;
            quote!(checker.object(value, const { &[#(#rules),*] }))
        }
        Data::Enum(data) => {
            data.variants
                .iter()
                .try_for_each(|variant| refuse_shape(&variant.attrs))?;
            // Without a tag the JSON of the enum is the name of a variant, so no variant may have data.
            let Some(tag) = container.text("tag") else {
                let with_data = data.variants.iter().find(|variant| !variant.fields.is_empty());
                if let Some(variant) = with_data {
                    return Err(Error::new_spanned(
                        variant,
                        "a variant with data needs a `tag` beside it",
                    ));
                }
                return Ok(shape_impl(name, quote!(shape::leaf::<Self>(checker, value))));
            };
            let (variant_case, field_case) = (
                container.case("rename_all")?,
                container.case("rename_all_fields")?,
            );
            let variants = data.variants.iter().map(|variant| {
                let spelled = variant_name(variant, variant_case)?;
                let rules = rules(&variant.fields, field_case)?;
                Ok(quote!((#spelled, &[#(#rules),*])))
            });
            let variants = variants.collect::<syn::Result<Vec<_>>>()?;
            let impls = quote! {
                #[automatically_derived]
                impl ::hankweave_core::shape::Variants for #name {
                    const VARIANTS: &'static [(&'static str, &'static [::hankweave_core::shape::FieldRule])] = {
                        use ::hankweave_core::shape::{self, Shape};
                        &[#(#variants),*]
                    };
                }
            };
            // With `content` the data is an object of its own. Readers of such an enum (events, commands) split it off and check it with `VARIANTS`.
            if container.has("content") {
                return Ok(impls);
            }
            let check = shape_impl(name, quote!(checker.variant::<Self>(value, #tag)));
            return Ok(quote!(#impls #check));
        }
        Data::Union(_) => return Err(Error::new_spanned(name, "a union has no JSON")),
    };
    Ok(shape_impl(name, check))
}

/// Refuses `#[shape(..)]` on a type or a variant, where nothing reads it.
fn refuse_shape(attrs: &[Attribute]) -> syn::Result<()> {
    match attrs.iter().find(|attr| attr.path().is_ident("shape")) {
        Some(attr) => Err(Error::new_spanned(
            attr,
            "`shape(with = function)` replaces the check of a field: write it on the field",
        )),
        None => Ok(()),
    }
}

/// Returns the method `name()` for an enum, and `ALL` where no variant has data.
pub(crate) fn named(item: TokenStream) -> syn::Result<TokenStream> {
    let item: DeriveInput = syn::parse2(item)?;
    let (vis, name) = (&item.vis, &item.ident);
    let Data::Enum(data) = &item.data else {
        return Err(Error::new_spanned(
            name,
            "only the variants of an enum have names",
        ));
    };
    let case = Words::of(&item.attrs, CONTAINER)?.case("rename_all")?;
    let names = data.variants.iter().map(|variant| variant_name(variant, case));
    let names = names.collect::<syn::Result<Vec<_>>>()?;
    let variants: Vec<_> = data.variants.iter().map(|variant| &variant.ident).collect();
    let count = variants.len();
    let plain = data.variants.iter().all(|variant| variant.fields.is_empty());
    let all = plain.then(|| {
        quote! {
            /// All of them, in the order of their declaration.
            #vis const ALL: [Self; #count] = [#(Self::#variants),*];
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl #name {
            #all

            /// The name in JSON.
            #[must_use]
            #vis const fn name(&self) -> &'static str {
                match self {
                    #(Self::#variants { .. } => #names,)*
                }
            }
        }
    })
}

fn variant_name(variant: &Variant, case: Option<Case>) -> syn::Result<String> {
    let words = Words::of(&variant.attrs, VARIANT)?;
    Ok(spelled(&words, &variant.ident, |name| {
        case.map(|case| case.variant(name))
    }))
}

fn shape_impl(name: &Ident, check: TokenStream) -> TokenStream {
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

/// Returns a rule for each field that is stored under a name of its own.
fn rules(fields: &Fields, case: Option<Case>) -> syn::Result<Vec<TokenStream>> {
    let mut rules = Vec::new();
    for field in fields {
        let words = Words::of(&field.attrs, FIELD)?;
        if words.has("flatten") || words.has("skip") {
            continue;
        }
        let Some(ident) = &field.ident else {
            return Err(Error::new_spanned(
                field,
                "a field needs a name to be found by in an object",
            ));
        };
        let name = spelled(&words, ident, |name| case.map(|case| case.field(name)));
        let inside = inside_option(&field.ty);
        let presence = match (inside, words.has("default")) {
            (_, true) => quote!(optional),
            // serde lets a field of type `Option` be absent, but not if the field has its own `deserialize_with`.
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

/// Returns the stored name: that of `rename`, else as the case spells the name, else the name itself.
fn spelled(words: &Words, ident: &Ident, by_case: impl FnOnce(&str) -> Option<String>) -> String {
    let written = text(ident);
    words
        .text("rename")
        .or_else(|| by_case(&written))
        .unwrap_or(written)
}

/// The attributes of a type, variant or field.
struct Words {
    /// Contents of `#[serde(..)]`.
    serde: Vec<Meta>,
    /// The function in `#[shape(with = ..)]`.
    check: Option<Expr>,
}

/// Attributes of serde that are allowed on each kind of item; any other could make JSON that the rules do not describe.
const CONTAINER: &[&str] = &["tag", "content", "rename_all", "rename_all_fields"];
const VARIANT: &[&str] = &["rename"];
const FIELD: &[&str] = &[
    "rename",
    "default",
    "flatten",
    "skip",
    "skip_serializing_if",
    "deserialize_with",
];

impl Words {
    /// Reads the attributes; a word of serde that is not in `known` is an error.
    fn of(attrs: &[Attribute], known: &[&str]) -> syn::Result<Self> {
        let mut words = Self {
            serde: Vec::new(),
            check: None,
        };
        for attr in attrs {
            if attr.path().is_ident("serde") {
                let metas = attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?;
                let is_known = |meta: &Meta| known.iter().any(|name| meta.path().is_ident(name));
                let plain = |meta: &Meta| is_known(meta) && !matches!(meta, Meta::List(_));
                if let Some(other) = metas.iter().find(|meta| !plain(meta)) {
                    let message = format!(
                        "here only these words of serde are understood: {}",
                        known.join(", ")
                    );
                    return Err(Error::new_spanned(other, message));
                }
                words.serde.extend(metas);
            } else if attr.path().is_ident("shape") {
                let pair: syn::MetaNameValue = attr.parse_args()?;
                if !pair.path.is_ident("with") {
                    return Err(Error::new_spanned(
                        pair.path,
                        "`shape` takes `with = function`, on a field",
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

/// Returns the type inside a type written as `Option<..>`. A macro sees names only.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(item: TokenStream, message: &str) {
        assert_eq!(derive(item).unwrap_err().to_string(), message);
    }

    /// Any other serde attribute would produce JSON that the rules do not describe.
    #[test]
    fn what_is_not_understood_is_refused() {
        let container =
            "here only these words of serde are understood: tag, content, rename_all, rename_all_fields";
        refused(
            quote!(
                #[serde(untagged)]
                enum E {
                    A,
                    B,
                }
            ),
            container,
        );
        refused(
            quote!(
                #[serde(default)]
                struct S {
                    a: u64,
                }
            ),
            container,
        );
        let both = quote!(
            #[serde(rename_all(serialize = "camelCase"))]
            struct S {
                a: u64,
            }
        );
        refused(both, container);
        let variant = "here only these words of serde are understood: rename";
        refused(
            quote!(
                #[serde(tag = "type")]
                enum E {
                    #[serde(alias = "a")]
                    A,
                }
            ),
            variant,
        );
        let field = "here only these words of serde are understood: rename, default, flatten, skip, skip_serializing_if, deserialize_with";
        refused(
            quote!(
                struct S {
                    #[serde(alias = "a")]
                    b: u64,
                }
            ),
            field,
        );
    }

    #[test]
    fn what_has_no_names_in_json_is_refused() {
        let nameless = "a field needs a name to be found by in an object";
        refused(
            quote!(
                struct S(u64);
            ),
            nameless,
        );
        refused(
            quote!(
                #[serde(tag = "type")]
                enum E {
                    A(Inner),
                }
            ),
            nameless,
        );
        refused(
            quote!(
                enum E {
                    A { b: u64 },
                }
            ),
            "a variant with data needs a `tag` beside it",
        );
        refused(quote!(union U { a: u64 }), "a union has no JSON");
        let message = named(quote!(
            struct S;
        ))
        .unwrap_err()
        .to_string();
        assert_eq!(message, "only the variants of an enum have names");
    }

    #[test]
    fn shape_takes_a_function() {
        let other = quote!(
            struct S {
                #[shape(without = f)]
                a: u64,
            }
        );
        refused(other, "`shape` takes `with = function`, on a field");
    }

    #[test]
    fn a_function_for_a_type_or_a_variant_is_refused() {
        let message = "`shape(with = function)` replaces the check of a field: write it on the field";
        let of_struct = quote!(
            #[shape(with = f)]
            struct S {
                a: u64,
            }
        );
        let of_variant = quote!(
            enum E {
                #[shape(with = f)]
                A,
            }
        );
        let of_tagged_variant = quote!(
            #[serde(tag = "type")]
            enum E {
                #[shape(with = f)]
                A { b: u64 },
            }
        );
        for item in [of_struct, of_variant, of_tagged_variant] {
            refused(item, message);
        }
    }

    #[test]
    fn a_case_that_is_not_known_is_refused() {
        let error = derive(quote!(
            #[serde(rename_all = "Train-Case")]
            struct S {
                a: u64,
            }
        ))
        .unwrap_err();
        assert!(error.to_string().contains("`Train-Case`"), "{error}");
    }
}
