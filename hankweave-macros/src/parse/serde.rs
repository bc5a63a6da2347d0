//! Reads the user's serde attributes. Those of fields are copied to the generated code; names are read as well, because the graph, the statuses and the code
//! that reads stored values need them.

use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, ExprLit, ExprPath, Lit, LitStr, Meta, Token};

use crate::ast::{Serde, SerdeNames, Storage};
use crate::case::Case;
use crate::error::Errors;

use super::paths;

/// Takes `#[serde(..)]` out of the attributes of the enum. Returns the other attributes, and how values are stored.
pub(super) fn storage(attrs: Vec<Attribute>, errors: &mut Errors) -> (Vec<Attribute>, Storage) {
    let mut storage = Storage {
        tag: "status".to_string(),
        states: None,
        fields: None,
    };
    let (serde, others): (Vec<_>, Vec<_>) = attrs
        .into_iter()
        .partition(|attr: &Attribute| attr.path().is_ident("serde"));
    let all: Vec<_> = serde
        .iter()
        .filter_map(|attr| errors.ok(metas(attr)))
        .flatten()
        .collect();
    for meta in all {
        let result = storage_meta(&mut storage, &meta);
        errors.ok(result);
    }
    (others, storage)
}

fn storage_meta(storage: &mut Storage, meta: &Meta) -> syn::Result<()> {
    match key(meta).as_str() {
        "tag" => storage.tag = text(meta)?.value(),
        "rename_all" => storage.states = Some(Case::parse(&text(meta)?)?),
        "rename_all_fields" => storage.fields = Some(Case::parse(&text(meta)?)?),
        _ => {
            let message = "on a machine serde takes `tag`, `rename_all` and `rename_all_fields`";
            return Err(Error::new_spanned(meta, message));
        }
    }
    Ok(())
}

/// Reads the names of a state.
pub(super) fn state_names(attr: &Attribute, names: &mut SerdeNames) -> syn::Result<()> {
    for meta in metas(attr)? {
        if !read_name(&meta, names)? {
            return Err(Error::new_spanned(
                meta,
                "on a state serde takes `rename` and `alias`",
            ));
        }
    }
    Ok(())
}

/// Reads the serde attributes of a field.
pub(super) fn field(attr: &Attribute, serde: &mut Serde) -> syn::Result<()> {
    for meta in metas(attr)? {
        if !read_name(&meta, &mut serde.names)? {
            match key(&meta).as_str() {
                "default" => serde.default = true,
                "with" | "deserialize_with" => serde.custom_read = true,
                "skip_serializing_if" => serde.skip = true,
                "serialize_with" => {}
                "flatten" => {
                    return Err(Error::new_spanned(
                        meta,
                        "mark one shared field `#[extra]` instead",
                    ));
                }
                _ => {
                    let message = "on a field serde takes `rename`, `alias`, `default`, `with`, `serialize_with`, \
                                   `deserialize_with` and `skip_serializing_if`";
                    return Err(Error::new_spanned(meta, message));
                }
            }
        }
        serde.metas.push(with_moved_path(meta)?.into_token_stream());
    }
    Ok(())
}

/// Rewrites a path that serde takes as text so that it means in the generated module what it means next to the enum.
fn with_moved_path(mut meta: Meta) -> syn::Result<Meta> {
    let is_path = matches!(
        key(&meta).as_str(),
        "with" | "serialize_with" | "deserialize_with" | "skip_serializing_if" | "default"
    );
    if let (true, Meta::NameValue(pair)) = (is_path, &mut meta) {
        let text = literal(&pair.value)?;
        let mut path: ExprPath = text.parse()?;
        paths::of_path(&mut path.path);
        let path = path.into_token_stream().to_string().replace(' ', "");
        pair.value = Expr::Lit(ExprLit {
            attrs: Vec::new(),
            lit: Lit::Str(LitStr::new(&path, text.span())),
        });
    }
    Ok(meta)
}

/// Reads `rename` or `alias`; returns whether the word is one of these.
fn read_name(meta: &Meta, names: &mut SerdeNames) -> syn::Result<bool> {
    match key(meta).as_str() {
        "rename" => names.rename = Some(text(meta)?.value()),
        "alias" => names.aliases.push(text(meta)?.value()),
        _ => return Ok(false),
    }
    Ok(true)
}

fn metas(attr: &Attribute) -> syn::Result<Punctuated<Meta, Token![,]>> {
    attr.parse_args_with(Punctuated::parse_terminated)
}

fn key(meta: &Meta) -> String {
    meta.path()
        .get_ident()
        .map(ToString::to_string)
        .unwrap_or_default()
}

fn text(meta: &Meta) -> syn::Result<LitStr> {
    literal(&meta.require_name_value()?.value)
}

fn literal(value: &Expr) -> syn::Result<LitStr> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text), ..
        }) => Ok(text.clone()),
        other => Err(Error::new_spanned(other, "expected a text in quotes")),
    }
}
