//! Tokens -> what the user wrote.

mod attribute;
mod field;
mod paths;
mod serde;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Fields, Ident, Item, ItemEnum, Meta, Path, Token, Variant};

use crate::ast::{Ast, Exit, Field, Initial, Names, State};
use crate::error::Errors;

use attribute::{Place, derives, idents, plain, refuse_cfg, split_docs};

/// Reads the argument of the attribute and the enum under it.
///
/// Returns nothing when either is too far from a machine to go on; the mistakes found are in `errors`.
pub(crate) fn parse(arguments: TokenStream, item: TokenStream, errors: &mut Errors) -> Option<Ast> {
    let arguments = errors.ok(syn::parse2::<Arguments>(arguments))?;
    let item = errors.ok(parse_enum(item))?;
    if !item.generics.params.is_empty() || item.generics.where_clause.is_some() {
        let place = match &item.generics.where_clause {
            Some(clause) if item.generics.params.is_empty() => clause.to_token_stream(),
            _ => item.generics.to_token_stream(),
        };
        errors.at(
            place,
            "a machine has no generic parameters: give its fields concrete types",
        );
        return None;
    }
    let (mut attrs, storage) = serde::storage(item.attrs, errors);
    let derives = derives(&mut attrs, arguments.types, errors);
    let (docs, attrs) = split_docs(attrs);
    let mut ast = Ast {
        name: arguments.name,
        krate: arguments.krate,
        types: arguments.types,
        tests: arguments.tests,
        schema: arguments.schema,
        fields: arguments.fields,
        vis: item.vis,
        stored: item.ident,
        docs,
        attrs,
        derives,
        storage,
        shared: Vec::new(),
        states: Vec::new(),
    };
    for variant in item.variants {
        match variant
            .attrs
            .iter()
            .position(|attr| attr.path().is_ident("shared"))
        {
            Some(index) => shared(variant, index, &mut ast, errors),
            None => ast.states.push(state(variant, errors)),
        }
    }
    Some(ast)
}

fn parse_enum(item: TokenStream) -> syn::Result<ItemEnum> {
    match syn::parse2(item)? {
        Item::Enum(item) => Ok(item),
        other => Err(syn::Error::new_spanned(
            other,
            "a machine is declared on an enum: each variant is a state, with the data that a value has in it",
        )),
    }
}

/// `Codon`, and before or after it `tests`, `schema`, `types`, `fields = path` and `crate = path`.
struct Arguments {
    name: Ident,
    krate: Option<Path>,
    types: bool,
    tests: bool,
    schema: bool,
    fields: Option<Path>,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        const WORDS: &str = "after the name of the machine only `tests`, `schema`, `types`, `fields = path` and `crate = path` may stand: \
                             `#[machine(Door, tests)]`";
        // A macro that hands its own arguments on says first where the companion is.
        let leading = input.peek(Token![crate]).then(|| companion(input)).transpose()?;
        input.parse::<Option<Token![,]>>()?;
        let name = input
            .parse()
            .map_err(|error| syn::Error::new(error.span(), "give the machine a name: `#[machine(Door)]`"))?;
        let mut arguments = Self {
            name,
            krate: leading,
            types: false,
            tests: false,
            schema: false,
            fields: None,
        };
        while !input.is_empty() {
            if input.parse::<Token![,]>().is_err() {
                return Err(input.error(WORDS));
            }
            if input.peek(Token![crate]) {
                arguments.krate = Some(companion(input)?);
                continue;
            }
            match input.parse::<Option<Ident>>()? {
                Some(word) if word == "types" => arguments.types = true,
                Some(word) if word == "tests" => arguments.tests = true,
                Some(word) if word == "schema" => arguments.schema = true,
                Some(word) if word == "fields" => {
                    input.parse::<Token![=]>()?;
                    arguments.fields = Some(moved(input.call(Path::parse_mod_style)?));
                }
                Some(word) => return Err(syn::Error::new(word.span(), WORDS)),
                None if input.is_empty() => break,
                None => return Err(input.error(WORDS)),
            }
        }
        if arguments.types && (arguments.tests || arguments.schema || arguments.fields.is_some()) {
            let message = "a machine of `types` alone has neither events nor a stored form: `tests`, `schema` and `fields` are about those";
            return Err(syn::Error::new(arguments.name.span(), message));
        }
        Ok(arguments)
    }
}

/// `crate = path`.
fn companion(input: ParseStream<'_>) -> syn::Result<Path> {
    input.parse::<Token![crate]>()?;
    input.parse::<Token![=]>()?;
    Ok(moved(input.call(Path::parse_mod_style)?))
}

/// A path that means in the generated module what it means here.
fn moved(mut path: Path) -> Path {
    paths::of_path(&mut path);
    path
}

fn shared(variant: Variant, mark: usize, ast: &mut Ast, errors: &mut Errors) {
    for (index, attr) in variant.attrs.iter().enumerate() {
        if index != mark && !attr.path().is_ident("doc") {
            errors.at(
                attr,
                "the shared variant is no state: only documentation may stand here",
            );
        }
    }
    if !ast.shared.is_empty() {
        errors.at(
            &variant.ident,
            "there is already a shared variant: put these fields there",
        );
    }
    ast.shared.extend(fields(&variant, errors));
}

fn state(variant: Variant, errors: &mut Errors) -> State {
    if let Some((_, value)) = &variant.discriminant {
        errors.at(value, "a state has no discriminant");
    }
    let fields = fields(&variant, errors);
    let mut state = State {
        ident: plain(variant.ident),
        docs: Vec::new(),
        attrs: Vec::new(),
        names: Names::default(),
        initial: None,
        terminal: None,
        again: false,
        exits: Vec::new(),
        unread: false,
        keeps: Vec::new(),
        same_as: None,
        tolerates: Vec::new(),
        fields,
    };
    for attr in variant.attrs {
        let result = state_attribute(&mut state, attr, errors);
        errors.ok(result);
    }
    state
}

fn state_attribute(state: &mut State, attr: Attribute, errors: &mut Errors) -> syn::Result<()> {
    let name = attr.path().get_ident().map(Ident::to_string).unwrap_or_default();
    let again = match name.as_str() {
        "initial" => state.initial.is_some(),
        "terminal" => state.terminal.is_some(),
        "again" => state.again,
        "same_as" => state.same_as.is_some(),
        _ => false,
    };
    if again {
        errors.at(&attr, format!("`{}` has its `#[{name}]` already", state.ident));
    }
    match name.as_str() {
        "doc" => state.docs.push(attr),
        "initial" => {
            let label = match &attr.meta {
                Meta::Path(_) => None,
                _ => Some(attr.parse_args()?),
            };
            state.initial = Some(Initial { attr, label });
        }
        "terminal" => {
            attr.meta.require_path_only()?;
            state.terminal = Some(attr);
        }
        "again" => {
            attr.meta.require_path_only()?;
            state.again = true;
        }
        "to" => {
            let exits = attr.parse_args_with(Punctuated::<Exit, Token![,]>::parse_terminated);
            state.unread |= exits.is_err();
            state.exits.extend(exits?);
        }
        "keeps" => state.keeps.extend(idents(&attr)?),
        "tolerates" => state.tolerates.extend(idents(&attr)?),
        "same_as" => state.same_as = Some(plain(attr.parse_args()?)),
        "serde" => serde::state_names(&attr, &mut state.names)?,
        "cfg" | "cfg_attr" => refuse_cfg(&attr, errors),
        _ => {
            attribute::refuse_misspelt(&attr, Place::State)?;
            state.attrs.push(attr);
        }
    }
    Ok(())
}

impl Parse for Exit {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let method = plain(input.parse()?);
        let mut label = None;
        if input.peek(syn::token::Paren) {
            let content;
            syn::parenthesized!(content in input);
            label = Some(content.parse()?);
        }
        input.parse::<Token![=>]>()?;
        let target = plain(input.parse()?);
        if input.peek(Token![if]) || input.peek(Token![|]) || input.peek(syn::token::Bracket) {
            return Err(input.error(
                "a step has one target and no condition, because stored events must replay without it: give each outcome a step of its own, \
                 and choose between them in the code that calls",
            ));
        }
        Ok(Self {
            method,
            label,
            target,
        })
    }
}

fn fields(variant: &Variant, errors: &mut Errors) -> Vec<Field> {
    match &variant.fields {
        Fields::Unit => Vec::new(),
        Fields::Named(named) => named
            .named
            .iter()
            .filter_map(|field| field::parse(field.clone(), errors))
            .collect(),
        Fields::Unnamed(unnamed) => {
            errors.at(unnamed, "name the fields of a state: `State { field: Type }`");
            Vec::new()
        }
    }
}
