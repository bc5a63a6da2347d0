//! Types of which another value would be read than was written, or none.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident};
use syn::{Type, parse_quote};

use crate::ast::{Ast, FieldSyntax, Mark};
use crate::case::text;
use crate::error::Errors;
use crate::model::{inside_option, is_plain};

/// Checks the fields of a machine that is stored.
pub(super) fn check(ast: &mut Ast, errors: &mut Errors) {
    if !ast.types {
        types_alone(ast, errors);
    }
    origins(ast, errors);
    if !ast.stored_form {
        return;
    }
    let states = ast.states.iter_mut().chain(&mut ast.groups);
    let fields = states.flat_map(|state| &mut state.fields).chain(&mut ast.shared);
    for field in fields.filter(|field| !field.serde.custom_read) {
        field_type(field, errors);
    }
}

/// Types of which each value is one thing of the running program. Names are all that a macro sees; nobody calls anything else so.
const OF_THE_PROCESS: [&str; 15] = [
    "Fn",
    "FnMut",
    "FnOnce",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "UnixListener",
    "UnixDatagram",
    "JoinHandle",
    "JoinSet",
    "MutexGuard",
    "RwLockReadGuard",
    "RwLockWriteGuard",
    "SyncSender",
];

/// Data that nobody can store is said once, instead of by each trait that it lacks; the types are there all the same.
fn types_alone(ast: &mut Ast, errors: &mut Errors) {
    let states = ast.states.iter().chain(&ast.groups);
    let fields = states.flat_map(|state| &state.fields).chain(&ast.shared);
    let mut found = false;
    for field in fields.filter(|field| is_of_the_process(field.ty.to_token_stream())) {
        let message = "a value of this type is a part of the running program: it is neither stored nor compared nor told as an event. Ask for types alone, \
                       `#[machine(Name, types)]`; `unstored` would leave out the stored form, and keep the events";
        errors.at(&field.ty, message);
        found = true;
    }
    if found {
        ast.demand_nothing();
    }
}

/// Whether one of these types is named, or an object or a closure.
fn is_of_the_process(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => OF_THE_PROCESS.iter().any(|name| ident == name),
        TokenTree::Group(group) => is_of_the_process(group.stream()),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// The state that was left has one type, which is said instead of by each place where another one does not fit.
fn origins(ast: &mut Ast, errors: &mut Errors) {
    let phase = format_ident!("{}Phase", text(&ast.name), span = Span::call_site());
    let fields = ast
        .states
        .iter_mut()
        .chain(&mut ast.groups)
        .flat_map(|state| &mut state.fields);
    let of_others =
        |field: &&mut FieldSyntax| matches!(field.mark, Mark::Origin) && is_plain(field.ty.to_token_stream());
    for field in fields.filter(of_others) {
        errors.at(
            &field.ty,
            format!("`#[origin]` gives the state that was left, which is a `{phase}`"),
        );
        field.ty = parse_quote!(#phase);
    }
}

fn field_type(field: &mut FieldSyntax, errors: &mut Errors) {
    if inside_option(&field.ty).is_some_and(is_nothing) {
        let message = "two values of this type are stored as the same `null`: use an enum of your own, or say how it is stored with \
                       `#[serde(with = \"..\")]`";
        errors.at(&field.ty, message);
    }
    if let Type::Reference(_) = inside_option(&field.ty).unwrap_or(&field.ty) {
        let message = "a value that is read again borrows from nobody: use a type that owns, such as `String`, or ask for types alone, \
                       `#[machine(Name, types)]`";
        errors.at(&field.ty, message);
        // What the compiler would say about the borrow besides is not told.
        field.ty = parse_quote!(::std::string::String);
    }
}

fn is_nothing(ty: &Type) -> bool {
    match ty {
        Type::Tuple(tuple) => tuple.elems.is_empty(),
        _ => inside_option(ty).is_some(),
    }
}
