//! Reading of attributes, the part that states and fields share: lists of names, misspelt marks, derives.
//!
//! A mark is an attribute of the macro: `#[initial]` on a state, `#[carry]` on a field.

use proc_macro2::{Spacing, TokenTree};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Ident, Meta, Path, Token};

use crate::case::{is_name, text};
use crate::error::{Errors, nearest};

/// Traits that are always derived, unless there are types alone.
const ALWAYS_DERIVED: [&str; 3] = ["Debug", "Clone", "PartialEq"];

/// Replaces `#[machine(mark(..))]` by `#[mark(..)]`; the user writes the first where another macro owns a bare `mark`.
pub(super) fn unpack_marks(attrs: &mut [Attribute], errors: &mut Errors) {
    for attr in attrs.iter_mut().filter(|attr| attr.path().is_ident("machine")) {
        if let Some(meta) = errors.ok(attr.parse_args::<Meta>()) {
            attr.meta = meta;
        }
    }
}

/// Returns whether an attribute is written like the helper of a derive, `#[word]`, `#[word = ..]` or `#[word(key = value)]`, and so is no mark.
pub(super) fn is_of_a_derive(attr: &Attribute) -> bool {
    let tokens = match &attr.meta {
        Meta::List(list) => list.tokens.clone(),
        Meta::Path(_) | Meta::NameValue(_) => return true,
    };
    let mut tokens = tokens.into_iter();
    matches!(tokens.next(), Some(TokenTree::Ident(_)))
        && matches!(tokens.next(), Some(TokenTree::Punct(punct)) if punct.as_char() == '=' && punct.spacing() == Spacing::Alone)
}

/// Reads `#[name(a, b, c)]`.
pub(super) fn idents(attr: &Attribute) -> syn::Result<impl Iterator<Item = Ident>> {
    let idents = attr.parse_args_with(Punctuated::<Ident, Token![,]>::parse_terminated)?;
    Ok(idents.into_iter().map(plain))
}

/// Removes an `r#` that the name does not need, so that both spellings of the name are equal.
pub(super) fn plain(ident: Ident) -> Ident {
    if is_name(&text(&ident)) {
        ident.unraw()
    } else {
        ident
    }
}

/// Target of an attribute.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum AttributeTarget {
    State,
    Field,
}

impl AttributeTarget {
    const fn marks(self) -> &'static [&'static str] {
        match self {
            AttributeTarget::State => &[
                "initial",
                "to",
                "terminal",
                "again",
                "keeps",
                "same_as",
                "within",
                "group",
                "shared",
                "tolerates",
                "serde",
            ],
            AttributeTarget::Field => &[
                "carry",
                "carry_or_ask",
                "live",
                "fixed",
                "origin",
                "extra",
                "sample",
                "schema",
                "serde",
            ],
        }
    }
}

/// Attributes of Rust, and of derives that many use, none of which is a misspelt mark.
const OF_RUST: [&str; 14] = [
    "allow",
    "cold",
    "deny",
    "deprecated",
    "derive",
    "expect",
    "inline",
    "must_use",
    "non_exhaustive",
    "salsa",
    "schemars",
    "state",
    "store",
    "warn",
];

pub(super) const NO_CONDITION: &str = "a step has no condition, because stored events must replay without it: name the outcomes, `step => Open | Closed`, \
                                   and choose between them in the code that calls";
pub(super) const NO_ACTION: &str = "a step only moves data, because stored events must replay without anything else: act in the code that calls, \
                                before the step or after it";
const NO_SUPERSTATE: &str = "what several states have in common is a group: a variant with `#[group]`, and `#[within(Group)]` at its states";

/// Names that other crates use for attributes.
const OF_OTHERS: [(&str, &str); 13] = [
    ("guard", NO_CONDITION),
    ("when", NO_CONDITION),
    ("unless", NO_CONDITION),
    ("action", NO_ACTION),
    ("before", NO_ACTION),
    ("after", NO_ACTION),
    ("on_entry", NO_ACTION),
    ("on_exit", NO_ACTION),
    ("entry_action", NO_ACTION),
    ("exit_action", NO_ACTION),
    ("superstate", NO_SUPERSTATE),
    ("parent", NO_SUPERSTATE),
    ("substates", NO_SUPERSTATE),
];

/// Refuses an attribute that was probably meant as a mark; the compiler would only say that there is no such attribute. Returns the mark that was meant, or
/// `None` for an attribute that is none of ours.
pub(super) fn refuse_misspelt(
    attr: &Attribute,
    place: AttributeTarget,
    errors: &mut Errors,
) -> syn::Result<Option<&'static str>> {
    let Some(found) = attr.path().get_ident().map(Ident::to_string) else {
        return Ok(None);
    };
    let (other, here) = match place {
        AttributeTarget::State => (AttributeTarget::Field, "a field"),
        AttributeTarget::Field => (AttributeTarget::State, "a state"),
    };
    if other.marks().contains(&found.as_str()) {
        return Err(Error::new_spanned(attr, format!("`#[{found}]` stands on {here}")));
    }
    if let Some((_, message)) = OF_OTHERS.iter().find(|(name, _)| *name == found) {
        return Err(Error::new_spanned(attr, message));
    }
    let known: Vec<String> = place.marks().iter().map(ToString::to_string).collect();
    match nearest(&found, &known) {
        Some(mark) if !OF_RUST.contains(&found.as_str()) => {
            let message = format!(
                "there is no mark `#[{found}]`; did you mean `#[{}]`?",
                known[mark]
            );
            errors.at(attr, message);
            Ok(Some(place.marks()[mark]))
        }
        _ => Ok(None),
    }
}

/// Refuses conditional parts: the graph would differ from build to build.
pub(super) fn refuse_cfg(attr: &Attribute, errors: &mut Errors) {
    errors.at(
        attr,
        "a machine is the same in every build: put `cfg` on the whole enum",
    );
}

/// Splits a list of attributes into the documentation and the others.
pub(super) fn split_docs(attrs: Vec<Attribute>) -> (Vec<Attribute>, Vec<Attribute>) {
    attrs.into_iter().partition(|attr| attr.path().is_ident("doc"))
}

/// Takes the `derive`s out of the attributes of the enum and returns their traits, without those that are always derived; reports those of serde.
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
