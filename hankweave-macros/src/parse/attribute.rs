//! Parts that several kinds of attributes have in common.

use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, Path, Token};

use crate::case::{is_name, text};
use crate::error::Errors;

/// Derived without being asked, unless there are types alone.
const ALWAYS_DERIVED: [&str; 3] = ["Debug", "Clone", "PartialEq"];

/// Reads `#[name(a, b, c)]`.
pub(super) fn idents(attr: &Attribute) -> syn::Result<impl Iterator<Item = Ident>> {
    let idents = attr.parse_args_with(Punctuated::<Ident, Token![,]>::parse_terminated)?;
    Ok(idents.into_iter().map(plain))
}

/// Takes the `r#` from a name that does not need it, so that it is equal to the name without.
pub(super) fn plain(ident: Ident) -> Ident {
    if is_name(&text(&ident)) {
        ident.unraw()
    } else {
        ident
    }
}

/// Refuses conditional parts: the graph would differ from build to build.
pub(super) fn refuse_cfg(attr: &Attribute, errors: &mut Errors) {
    errors.at(
        attr,
        "a machine is the same in every build: put `cfg` on the whole enum",
    );
}

/// Takes the documentation out of a list of attributes.
pub(super) fn split_docs(attrs: Vec<Attribute>) -> (Vec<Attribute>, Vec<Attribute>) {
    attrs.into_iter().partition(|attr| attr.path().is_ident("doc"))
}

/// Takes the `derive`s out of the attributes of the enum.
pub(super) fn derives(attrs: &mut Vec<Attribute>, types: bool, errors: &mut Errors) -> Vec<Path> {
    let mut derives = Vec::new();
    for attr in attrs.extract_if(.., |attr| attr.path().is_ident("derive")) {
        let paths = attr.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated);
        for path in errors.ok(paths).into_iter().flatten() {
            match path
                .segments
                .last()
                .map(|segment| segment.ident.to_string())
                .as_deref()
            {
                Some("Serialize" | "Deserialize") => errors.at(path, "the macro writes this itself"),
                Some(name) if ALWAYS_DERIVED.contains(&name) && !types => {}
                _ => derives.push(path),
            }
        }
    }
    derives
}
