//! Reads the tokens of the attribute and of its enum into an [`Ast`], the declaration as the user wrote it. First step of the macro; `check` is next.

mod attribute;
mod field;
pub(crate) mod paths;
mod serde;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Fields, Ident, Item, ItemEnum, LitStr, Meta, Path, Token, Variant, parse_quote};

use crate::ast::{Ast, Derives, ExitSyntax, FieldSyntax, Initial, Schemas, SerdeNames, StateVariant};
use crate::case::{snake, text};
use crate::error::Errors;

use attribute::{AttributeTarget, derives, idents, plain, refuse_cfg, split_docs};

/// Whether this build has the stored form at all: the stored form needs serde, which a build without `std` may leave out.
const STORED: bool = cfg!(feature = "serde");

/// Reads the argument of the attribute and the enum under it.
///
/// Returns nothing when either is too far from a machine to continue; the mistakes found are in `errors`.
pub(crate) fn parse(arguments: TokenStream, item: TokenStream, errors: &mut Errors) -> Option<Ast> {
    let mut arguments = errors.ok(syn::parse2::<MachineArguments>(arguments))?;
    for word in arguments.unknown.drain(..) {
        errors.at(word, WORDS);
    }
    let item = errors.ok(parse_enum(item))?;
    let mut generics = item.generics;
    let is_generic = !generics.params.is_empty() || generics.where_clause.is_some();
    let has_forbidden_generics = is_generic && !arguments.types;
    if has_forbidden_generics {
        let position = match &generics.where_clause {
            Some(clause) if generics.params.is_empty() => clause.to_token_stream(),
            _ => generics.to_token_stream(),
        };
        errors.at(
            position,
            "a machine that is stored has no generic parameters: give its fields concrete types, or ask for types alone, `#[machine(Name, types)]`",
        );
    }
    paths::of_generics(&mut generics);
    let (mut attrs, storage) = serde::storage(one_machine(item.attrs, errors), errors);
    let derives = derives(&mut attrs, arguments.types, errors);
    let (docs, attrs) = split_docs(attrs);
    let mut ast = Ast {
        name: arguments.name,
        krate: arguments.krate,
        types: arguments.types,
        stored_form: STORED && !arguments.types && !arguments.unstored,
        cyclic: arguments.cyclic,
        tests: arguments.tests,
        schema: arguments.schema,
        fields_macro: arguments.fields_macro,
        vis: item.vis,
        generics,
        stored: item.ident,
        docs,
        attrs,
        derives,
        generated: arguments.derives,
        storage,
        shared: Vec::new(),
        groups: Vec::new(),
        states: Vec::new(),
    };
    if has_forbidden_generics {
        ast.reduce_to_types();
    }
    for mut variant in item.variants {
        attribute::unpack_marks(&mut variant.attrs, errors);
        for field in &mut variant.fields {
            attribute::unpack_marks(&mut field.attrs, errors);
        }
        let marked = |mark: &str| variant.attrs.iter().position(|attr| attr.path().is_ident(mark));
        if let Some(index) = marked("shared") {
            shared(variant, index, &mut ast, errors);
        } else if let Some(index) = marked("group") {
            errors.ok(variant.attrs.remove(index).meta.require_path_only());
            ast.groups.push(group(variant, errors));
        } else {
            ast.states.push(state(variant, errors));
        }
    }
    Some(ast)
}

/// Reports and leaves out a second `#[machine(..)]` of the enum.
fn one_machine(attrs: Vec<Attribute>, errors: &mut Errors) -> Vec<Attribute> {
    let is_machine = |attr: &Attribute| {
        attr.path()
            .segments
            .last()
            .is_some_and(|last| last.ident == "machine")
    };
    let (machines, others) = attrs.into_iter().partition::<Vec<_>, _>(is_machine);
    for second in machines {
        errors.at(second, "an enum declares one machine");
    }
    others
}

fn parse_enum(item: TokenStream) -> syn::Result<ItemEnum> {
    match syn::parse2(item)? {
        Item::Enum(item) => Ok(item),
        other => {
            let message = "a machine is declared on an `enum`: each variant is a state, with the data that a value has in it";
            let place = match &other {
                Item::Struct(item) => item.struct_token.to_token_stream(),
                _ => other.to_token_stream(),
            };
            Err(syn::Error::new_spanned(place, message))
        }
    }
}

/// The name, `Codon`, and after it any of the words that [`WORDS`] lists. `crate = path` may also come before the name.
struct MachineArguments {
    name: Ident,
    krate: Option<Path>,
    types: bool,
    unstored: bool,
    cyclic: Option<Ident>,
    tests: bool,
    schema: Option<Schemas>,
    fields_macro: Option<Path>,
    derives: Derives,
    /// Words that are none of [`WORDS`], each a mistake.
    unknown: Vec<Ident>,
}

const WORDS: &str = "after the name of the machine only `tests`, `schema`, `types`, `unstored`, `cyclic`, `derive(..)`, `fields = path` and `crate = path` may stand: \
                     `#[machine(Door, tests)]`";

impl Parse for MachineArguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        // `crate = path` comes first if another macro puts it before the arguments that it passes on.
        let leading = input.peek(Token![crate]).then(|| companion(input)).transpose()?;
        input.parse::<Option<Token![,]>>()?;
        let name = input
            .parse()
            .map_err(|error| syn::Error::new(error.span(), "give the machine a name: `#[machine(Door)]`"))?;
        let mut arguments = Self {
            name,
            krate: leading,
            types: false,
            unstored: false,
            cyclic: None,
            tests: false,
            schema: None,
            fields_macro: None,
            derives: Derives::default(),
            unknown: Vec::new(),
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
                Some(word) if word == "unstored" => arguments.unstored = true,
                Some(word) if word == "cyclic" => arguments.cyclic = Some(word),
                Some(word) if word == "tests" => arguments.tests = true,
                Some(word) if word == "schema" => arguments.schema = Some(schemas(input)?),
                Some(word) if word == "derive" => generated_derives(input, &mut arguments.derives)?,
                Some(word) if word == "fields" => {
                    input.parse::<Token![=]>()?;
                    arguments.fields_macro = Some(moved(input.call(Path::parse_mod_style)?));
                }
                Some(word) => arguments.unknown.push(word),
                None if input.is_empty() => break,
                None => return Err(input.error(WORDS)),
            }
        }
        if arguments.types
            && (arguments.tests || arguments.schema.is_some() || arguments.fields_macro.is_some())
        {
            let message = "a machine of `types` alone has neither events nor a stored form: `tests`, `schema` and `fields` are about those";
            return Err(syn::Error::new(arguments.name.span(), message));
        }
        if arguments.unstored && (arguments.schema.is_some() || arguments.fields_macro.is_some()) {
            let message = "an `unstored` machine has no stored form: `schema` and `fields` are about that";
            return Err(syn::Error::new(arguments.name.span(), message));
        }
        Ok(arguments)
    }
}

/// Parses the brackets of `derive(events(Eq), statuses(Enum))`.
fn generated_derives(input: ParseStream<'_>, derives: &mut Derives) -> syn::Result<()> {
    const WORDS: &str = "what is generated derives more on demand: `derive(events(..), metadata(..), statuses(..), typed(..))`; the data of states has a `#[derive(..)]` below";
    let content;
    syn::parenthesized!(content in input);
    while !content.is_empty() {
        let word: Ident = content
            .parse()
            .map_err(|error| syn::Error::new(error.span(), WORDS))?;
        let into = match word.to_string().as_str() {
            "events" => &mut derives.events,
            "metadata" => &mut derives.metadata,
            "statuses" => &mut derives.statuses,
            "typed" => &mut derives.typed,
            _ => return Err(syn::Error::new(word.span(), WORDS)),
        };
        let paths;
        syn::parenthesized!(paths in content);
        into.extend(Punctuated::<Path, Token![,]>::parse_terminated(&paths)?);
        if word == "typed" {
            typed_derives(into)?;
        } else {
            into.iter_mut().for_each(paths::of_path);
        }
        if !content.is_empty() {
            content.parse::<Token![,]>()?;
        }
    }
    Ok(())
}

/// Replaces the traits that the typed value derives by those of `core`: no code of another crate is expanded in the module of the typed value.
fn typed_derives(paths: &mut [Path]) -> syn::Result<()> {
    for path in paths {
        let name = path.segments.last().map(|last| last.ident.clone());
        *path = match name.as_ref().map(Ident::to_string).as_deref() {
            Some("Eq") => parse_quote!(__core::cmp::Eq),
            Some("PartialOrd") => parse_quote!(__core::cmp::PartialOrd),
            Some("Ord") => parse_quote!(__core::cmp::Ord),
            Some("Hash") => parse_quote!(__core::hash::Hash),
            _ => {
                let message = "the typed value can derive `Eq`, `PartialOrd`, `Ord` and `Hash`: what another crate derives would be written where the value is sealed";
                return Err(syn::Error::new_spanned(path, message));
            }
        };
    }
    Ok(())
}

/// Parses the rest of `schema`: `= "feature"`.
fn schemas(input: ParseStream<'_>) -> syn::Result<Schemas> {
    let equals = input.parse::<Option<Token![=]>>()?;
    let feature = equals.map(|_| input.parse()).transpose()?;
    Ok(Schemas { feature })
}

/// Parses `crate = path`, the path of the companion crate.
fn companion(input: ParseStream<'_>) -> syn::Result<Path> {
    input.parse::<Token![crate]>()?;
    input.parse::<Token![=]>()?;
    Ok(moved(input.call(Path::parse_mod_style)?))
}

/// Rewrites a path so that it means in the generated module what it means next to the enum.
fn moved(mut path: Path) -> Path {
    paths::of_path(&mut path);
    path
}

/// Adds the fields of the variant marked `#[shared]`; `mark` is the index of that attribute.
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

/// Reads a group, which looks like a state, and reports the marks that only a state may have.
fn group(variant: Variant, errors: &mut Errors) -> StateVariant {
    let of_states = ["initial", "terminal", "again", "same_as", "serde"];
    for attr in &variant.attrs {
        if of_states.iter().any(|mark| attr.path().is_ident(mark)) {
            let message = "a group is no state: `#[to(..)]`, `#[keeps(..)]`, `#[tolerates(..)]` and `#[within(..)]` may stand here";
            errors.at(attr, message);
        }
    }
    state(variant, errors)
}

fn state(variant: Variant, errors: &mut Errors) -> StateVariant {
    if let Some((_, value)) = &variant.discriminant {
        errors.at(value, "a state has no discriminant");
    }
    let fields = fields(&variant, errors);
    let mut state = StateVariant {
        ident: plain(variant.ident),
        docs: Vec::new(),
        attrs: Vec::new(),
        names: SerdeNames::default(),
        initial: None,
        terminal: None,
        again: false,
        exits: Vec::new(),
        unread: false,
        keeps: Vec::new(),
        same_as: None,
        within: None,
        tolerates: Vec::new(),
        fields,
    };
    for attr in variant.attrs {
        let result = state_attribute(&mut state, attr, errors);
        errors.ok(result);
    }
    state
}

fn state_attribute(state: &mut StateVariant, attr: Attribute, errors: &mut Errors) -> syn::Result<()> {
    let name = attr.path().get_ident().map(Ident::to_string).unwrap_or_default();
    let is_repeated = match name.as_str() {
        "initial" => state.initial.is_some(),
        "terminal" => state.terminal.is_some(),
        "again" => state.again,
        "same_as" => state.same_as.is_some(),
        "within" => state.within.is_some(),
        _ => false,
    };
    if is_repeated {
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
            let steps = attr.parse_args_with(Punctuated::<TransitionSyntax, Token![,]>::parse_terminated);
            state.unread |= steps.is_err();
            state
                .exits
                .extend(steps?.into_iter().flat_map(TransitionSyntax::exits));
        }
        "keeps" => state.keeps.extend(idents(&attr)?),
        "tolerates" => state.tolerates.extend(idents(&attr)?),
        "same_as" => state.same_as = Some(plain(attr.parse_args()?)),
        "within" => state.within = Some(plain(attr.parse_args()?)),
        "serde" => serde::state_names(&attr, &mut state.names)?,
        "cfg" | "cfg_attr" => refuse_cfg(&attr, errors),
        _ => {
            match attribute::refuse_misspelt(&attr, AttributeTarget::State, errors)? {
                // The mark that was meant counts, so that one slip gives one message.
                Some("initial") => state.initial = Some(Initial { attr, label: None }),
                Some("terminal") => state.terminal = Some(attr),
                Some("again") => state.again = true,
                Some("to") => state.unread = true,
                Some(_) => {}
                None => state.attrs.push(attr),
            }
        }
    }
    Ok(())
}

/// One step of `#[to(..)]`: `method("label") { changed } => Target | Target`.
struct TransitionSyntax {
    method: Ident,
    label: Option<LitStr>,
    changes: Option<Vec<Ident>>,
    targets: Vec<Ident>,
}

impl Parse for TransitionSyntax {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(Token![async]) {
            return Err(
                input.error("a step never waits: wait before it, and make the step that fits the outcome")
            );
        }
        let method = plain(input.parse()?);
        let (mut label, mut changes) = (None, None);
        if input.peek(syn::token::Paren) {
            let content;
            syn::parenthesized!(content in input);
            label = Some(
                content
                    .parse()
                    .map_err(|error| syn::Error::new(error.span(), LABEL))?,
            );
        }
        if input.peek(syn::token::Brace) {
            let content;
            syn::braced!(content in input);
            let names = Punctuated::<Ident, Token![,]>::parse_terminated(&content)?;
            changes = Some(names.into_iter().map(plain).collect());
        }
        refuse_condition_or_action(input)?;
        if !input.peek(Token![=>]) {
            let position = if input.is_empty() {
                method.span()
            } else {
                input.span()
            };
            let message = "a step is written `step => Target`: its name, and the state that it leads to";
            return Err(syn::Error::new(position, message));
        }
        input.parse::<Token![=>]>()?;
        let targets = Punctuated::<Ident, Token![|]>::parse_separated_nonempty_with(input, target)?;
        refuse_condition_or_action(input)?;
        let targets: Vec<Ident> = targets.into_iter().map(plain).collect();
        if let (Some(itself), 2..) = (targets.iter().find(|target| *target == "Self"), targets.len()) {
            let message = "each of several outcomes is named after its state: write that of this state instead of `Self`, and mark it as `#[again]`";
            return Err(syn::Error::new(itself.span(), message));
        }
        if let (Some(_), [_, second, ..]) = (&changes, &targets[..]) {
            let message =
                "a step that changes only what it names leads back to its own state, and to no other";
            return Err(syn::Error::new(second.span(), message));
        }
        let twice = targets
            .iter()
            .enumerate()
            .find(|(index, target)| targets[..*index].contains(target));
        if let Some((_, target)) = twice {
            return Err(syn::Error::new(
                target.span(),
                format!("`{target}` is among the outcomes already"),
            ));
        }
        Ok(Self {
            method,
            label,
            changes,
            targets,
        })
    }
}

/// The name of a state, or `Self` for the one that the step leaves.
fn target(input: ParseStream<'_>) -> syn::Result<Ident> {
    match input.parse::<Option<Token![Self]>>()? {
        Some(itself) => Ok(itself.into()),
        None => input.parse(),
    }
}

const LABEL: &str = "in brackets stands what diagrams print, `step(\"label\")`: what a step demands are the fields of its target that have no mark";

/// Rejects the conditions and actions that other crates allow in a step, and says what to write instead.
fn refuse_condition_or_action(input: ParseStream<'_>) -> syn::Result<()> {
    let word = input
        .cursor()
        .ident()
        .map(|(word, _)| word.to_string())
        .unwrap_or_default();
    if input.peek(syn::token::Bracket) || ["if", "when", "unless"].contains(&word.as_str()) {
        return Err(input.error(attribute::NO_CONDITION));
    }
    if input.peek(Token![/]) {
        return Err(input.error(attribute::NO_ACTION));
    }
    Ok(())
}

impl TransitionSyntax {
    /// Returns one edge for each target. With several targets the step is a branch, and each edge is a step of its own, named after its outcome.
    fn exits(self) -> impl Iterator<Item = ExitSyntax> {
        let branch = (self.targets.len() > 1).then(|| self.method.clone());
        self.targets.into_iter().map(move |target| match &branch {
            None => ExitSyntax {
                method: self.method.clone(),
                label: self.label.clone(),
                changes: self.changes.clone(),
                branch: None,
                target,
            },
            Some(branch) => ExitSyntax {
                method: outcome_name(branch, &target),
                // Diagrams show the name that the user wrote, `decide`, not the generated `decide_closed`.
                label: (self.label.clone()).or_else(|| Some(LitStr::new(&text(branch), branch.span()))),
                changes: None,
                branch: Some(branch.clone()),
                target,
            },
        })
    }
}

/// Returns the name of the step for one outcome: `decide_closed`.
fn outcome_name(branch: &Ident, target: &Ident) -> Ident {
    let name = format!("{}_{}", text(branch), snake(&text(target)));
    Ident::new(&name, branch.span())
}

fn fields(variant: &Variant, errors: &mut Errors) -> Vec<FieldSyntax> {
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
