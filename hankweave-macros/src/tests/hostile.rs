//! For any tokens under the attribute, the macro answers with Rust: an expansion, or errors at the user's words. It never panics.

use std::env;

use proc_macro2::{Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};
use proptest::prelude::*;
use proptest::sample::Index;
use syn::{Attribute, Item};

use super::declarations::{CODON, EVERYTHING, LOCK, TASK, WHOLE};
use crate::generate;

/// The arguments and the item of the one machine in a file.
pub(super) fn parts(source: &str) -> (TokenStream, TokenStream) {
    let file = syn::parse_file(source).expect("the declaration is Rust");
    let (arguments, item) = file
        .items
        .into_iter()
        .find_map(|item| match item {
            Item::Enum(mut item) => {
                let arguments = item.attrs.iter().find_map(arguments_of)?;
                item.attrs.retain(|attribute| arguments_of(attribute).is_none());
                Some((arguments, quote::quote!(#item)))
            }
            _ => None,
        })
        .expect("the file declares a machine");
    (arguments, item)
}

/// Returns the arguments of the attribute, also of one under a condition.
fn arguments_of(attribute: &Attribute) -> Option<TokenStream> {
    if attribute.path().is_ident("machine") {
        return attribute.parse_args().ok();
    }
    let conditional = attribute.path().is_ident("cfg_attr");
    let metas = syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
    let metas = conditional.then(|| attribute.parse_args_with(metas).ok())??;
    let machine = metas.iter().find(|meta| meta.path().is_ident("machine"))?;
    Some(machine.require_list().ok()?.tokens.clone())
}

/// Runs the macro and returns its output as a file of Rust.
#[track_caller]
pub(super) fn expansion(arguments: TokenStream, item: TokenStream) -> syn::File {
    let tokens = generate(arguments, item);
    // Printed and read again, as the compiler would see it; tokens alone may hold what no text can.
    let text = tokens.to_string();
    syn::parse_file(&text).unwrap_or_else(|error| panic!("the macro wrote no Rust: {error}"))
}

pub(super) fn has_error(file: &syn::File) -> bool {
    file.items.iter().any(|item| {
        matches!(item, Item::Macro(item) if item.mac.path.is_ident("compile_error")
            || item.mac.path.segments.last().is_some_and(|last| last.ident == "compile_error"))
    })
}

/// What is done to one token.
#[derive(Debug, Clone)]
pub(super) enum Damage {
    Drop,
    Double,
    SwapWithNext,
    Replace(TokenTree),
    Insert(TokenTree),
}

/// Words that mean something to the macro or to Rust, and some that mean nothing anywhere.
const WORDS: [&str; 31] = [
    "shared",
    "initial",
    "terminal",
    "again",
    "to",
    "keeps",
    "same_as",
    "tolerates",
    "serde",
    "carry",
    "origin",
    "live",
    "fixed",
    "extra",
    "start",
    "add",
    "Running",
    "Failed",
    "New",
    "Used",
    "Self",
    "status",
    "step",
    "new",
    "event",
    "match",
    "fn",
    "_1",
    "__",
    "Codon",
    "Ünï",
];

fn token() -> impl Strategy<Value = TokenTree> {
    let word = proptest::sample::select(&WORDS[..]).prop_map(|word| ident(word).into());
    let raw = Just(TokenTree::from(Ident::new_raw("type", Span::call_site())));
    let punct = proptest::sample::select(&['=', '>', ',', ':', '#', '<', '-', '&', '!'][..])
        .prop_map(|sign| Punct::new(sign, Spacing::Alone).into());
    let lifetime = Just(Punct::new('\'', Spacing::Joint).into());
    let literal = prop_oneof![
        Just(Literal::string("kebab-case")),
        Just(Literal::string("")),
        Just(Literal::string("::")),
        Just(Literal::u8_suffixed(1)),
        Just(Literal::character('"')),
    ]
    .prop_map(TokenTree::from);
    prop_oneof![8 => word, 2 => raw, 4 => punct, 1 => lifetime, 2 => literal]
}

fn ident(word: &str) -> Ident {
    Ident::new(word, Span::call_site())
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        Just(Damage::Drop),
        Just(Damage::Double),
        Just(Damage::SwapWithNext),
        token().prop_map(Damage::Replace),
        token().prop_map(Damage::Insert),
    ]
}

/// Damages the token at `place`, counted through all groups.
fn damaged(stream: TokenStream, place: &mut Option<usize>, how: &Damage) -> TokenStream {
    let mut out: Vec<TokenTree> = Vec::new();
    let mut rest = stream.into_iter().peekable();
    while let Some(token) = rest.next() {
        let here = *place == Some(0);
        *place = place.and_then(|left| left.checked_sub(1));
        match (here, how) {
            (true, Damage::Drop) => {}
            (true, Damage::Double) => out.extend([token.clone(), token]),
            (true, Damage::SwapWithNext) => out.extend(rest.next().into_iter().chain([token])),
            (true, Damage::Replace(other)) => out.push(other.clone()),
            (true, Damage::Insert(other)) => out.extend([other.clone(), token]),
            (false, _) => out.push(match token {
                TokenTree::Group(group) => {
                    let inside = damaged(group.stream(), place, how);
                    Group::new(group.delimiter(), inside).into()
                }
                other => other,
            }),
        }
    }
    out.into_iter().collect()
}

/// What is done to one declaration: to which tokens, and whether to the arguments of the attribute instead of the item.
#[derive(Debug, Clone)]
pub(super) struct Damages {
    tokens: Vec<(Index, Damage)>,
    of_arguments: bool,
}

pub(super) fn damages() -> impl Strategy<Value = Damages> {
    let tokens = proptest::collection::vec((any::<Index>(), damage()), 1..4);
    (tokens, proptest::bool::weighted(0.1))
        .prop_map(|(tokens, of_arguments)| Damages { tokens, of_arguments })
}

/// Returns the damaged arguments and the damaged item. Tokens that no file can contain, such as a `'` in front of a comma, reach no macro, so a
/// damage that would produce them is left out.
pub(super) fn with_damages(
    (mut arguments, mut item): (TokenStream, TokenStream),
    damages: &Damages,
) -> (TokenStream, TokenStream) {
    let target = if damages.of_arguments {
        &mut arguments
    } else {
        &mut item
    };
    for (place, how) in &damages.tokens {
        let place = place.index(size(target.clone()));
        let text = damaged(target.clone(), &mut Some(place), how).to_string();
        *target = text.parse().unwrap_or_else(|_| std::mem::take(target));
    }
    (arguments, item)
}

fn size(stream: TokenStream) -> usize {
    let inside = |token| match token {
        TokenTree::Group(group) => 1 + size(group.stream()),
        _ => 1,
    };
    stream.into_iter().map(inside).sum()
}

/// How often; `PROPTEST_CASES` asks for more.
const CASES: u32 = 1_000;

fn config() -> ProptestConfig {
    let cases = match env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default().cases,
        None => CASES,
    };
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_damaged_declaration_gives_rust_and_never_a_panic(
        source in proptest::sample::select(vec![CODON, TASK, LOCK, WHOLE, EVERYTHING]),
        damages in damages(),
    ) {
        let (arguments, item) = with_damages(parts(source), &damages);
        let file = expansion(arguments, item);
        let expanded = file.items.iter().any(|item| matches!(item, Item::Mod(_)));
        prop_assert!(expanded || has_error(&file), "neither a machine nor an error");
    }
}

#[test]
fn the_right_declarations_give_no_error() {
    for source in [CODON, TASK, LOCK, WHOLE, EVERYTHING] {
        let (arguments, item) = parts(source);
        let expanded = expansion(arguments, item);
        assert!(!has_error(&expanded), "{}", quote::quote!(#expanded));
    }
}

#[test]
fn what_is_no_enum_at_all_gives_an_error() {
    for item in [
        "",
        "fn door() {}",
        "enum Door {}",
        "enum Door { A }",
        "struct Door;",
        "1 + 1",
        "enum",
    ] {
        let item: TokenStream = item.parse().expect("the text has tokens");
        assert!(has_error(&expansion(quote::quote!(Door), item.clone())), "{item}");
        assert!(has_error(&expansion(TokenStream::new(), item)));
    }
}

/// With any part missing, the types are still there, so that one mistake gives one message.
#[test]
fn a_graph_that_lacks_something_still_expands() {
    for (item, errors) in [
        ("enum D { #[initial] #[to(a => Y)] X, #[to(b => X)] Y }", 1),
        ("enum D { #[initial] #[to(a => Elsewhere)] X, #[terminal] Y }", 1),
        ("enum D { #[to(a => Y)] X, #[terminal] Y }", 1),
        ("enum D { #[initial] #[terminal] X }", 0),
    ] {
        let item: TokenStream = item.parse().expect("the text has tokens");
        let file = expansion(quote::quote!(Door), item.clone());
        assert!(
            file.items.iter().any(|item| matches!(item, Item::Mod(_))),
            "{item}"
        );
        let macros = file.items.iter().filter(|item| matches!(item, Item::Macro(_)));
        assert_eq!(macros.count(), errors, "{item}");
    }
}
