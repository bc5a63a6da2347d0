//! Refuses field types whose values would not be read as they were written, or not at all, and `#[origin]` fields whose type cannot be the phase, the
//! generated enum with the names of the states that are not terminal.

use proc_macro2::Span;
use quote::{ToTokens, format_ident};
use syn::{Type, parse_quote};

use crate::ast::{Ast, FieldSyntax, Mark};
use crate::case::text;
use crate::error::Errors;
use crate::model::{inside_option, is_plain};

/// Checks the types of fields without a function for reading; in a machine that is not stored only those of `#[origin]` fields.
pub(super) fn check(ast: &mut Ast, errors: &mut Errors) {
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

/// Reports a type of an `#[origin]` field that is surely not the machine's phase enum. The compiler would report it at each use of the field.
fn origins(ast: &mut Ast, errors: &mut Errors) {
    let phase = format_ident!("{}Phase", text(&ast.name), span = Span::call_site());
    let fields = ast
        .states
        .iter_mut()
        .chain(&mut ast.groups)
        .flat_map(|state| &mut state.fields);
    let is_wrong =
        |field: &&mut FieldSyntax| matches!(field.mark, Mark::Origin) && is_plain(field.ty.to_token_stream());
    for field in fields.filter(is_wrong) {
        errors.at(
            &field.ty,
            format!("`#[origin]` gives the state that was left, which is a `{phase}`"),
        );
        field.ty = parse_quote!(#phase);
    }
}

fn field_type(field: &mut FieldSyntax, errors: &mut Errors) {
    if inside_option(&field.ty).is_some_and(is_stored_as_null) {
        let message = "two values of this type are stored as the same `null`: use an enum of your own, or say how it is stored with \
                       `#[serde(with = \"..\")]`";
        errors.at(&field.ty, message);
    }
    if let Type::Reference(_) = inside_option(&field.ty).unwrap_or(&field.ty) {
        let message = "a value that is read again borrows from nobody: use a type that owns, such as `String`, or ask for types alone, \
                       `#[machine(Name, types)]`";
        errors.at(&field.ty, message);
        // With an owned type the compiler does not report the borrow again.
        field.ty = parse_quote!(::std::string::String);
    }
}

/// Whether a value of the type may be stored as `null`, like the `None` around it.
fn is_stored_as_null(ty: &Type) -> bool {
    match ty {
        Type::Tuple(tuple) => tuple.elems.is_empty(),
        _ => inside_option(ty).is_some(),
    }
}
