//! The typestate generator.

mod ast;
mod case;
mod check;
mod error;
mod expand;
mod model;
mod parse;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as TokenStream2;

/// Turns the declaration of a stored enum into a typestate machine.
#[proc_macro_attribute]
pub fn machine(arguments: TokenStream, item: TokenStream) -> TokenStream {
    generate(arguments.into(), item.into()).into()
}

/// The whole pipeline: parse, check, expand. Mistakes of the user become `compile_error!` beside the generated types.
fn generate(arguments: TokenStream2, item: TokenStream2) -> TokenStream2 {
    let mut errors = error::Errors::default();
    let Some(ast) = parse::parse(arguments, item, &mut errors) else {
        return errors.into_tokens();
    };
    let machine = check::check(ast, &mut errors);
    let mut tokens = machine.map_or_else(TokenStream2::new, |machine| expand::expand(&machine));
    tokens.extend(errors.into_tokens());
    tokens
}
