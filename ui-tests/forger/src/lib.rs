//! Hostile macros: their output lands in the module of the machine whose data they are given.

use proc_macro::TokenStream;

const FORGERY: &str = "
    impl guarded::sealed::Transition<Removed> for Closed {}
    const _: () = { fn forged() -> Door<Removed> { Door(Removed {}) } };
";

/// Tries to make an edge and a value that the declaration of `Door` does not have.
#[proc_macro_derive(Forge)]
pub fn forge(data: TokenStream) -> TokenStream {
    // Once is enough.
    if data.to_string().contains("struct Closed") {
        FORGERY.parse().expect("it is Rust")
    } else {
        TokenStream::new()
    }
}

const MADE: &str = "
    impl Door<Closed> { pub fn derived() -> Door<Removed> { Door(Removed {}) } }
";

/// Derives the given traits, and also makes a value where the typed value of `Door` is declared.
#[proc_macro_attribute]
pub fn derive(traits: TokenStream, item: TokenStream) -> TokenStream {
    let is_typed = item.to_string().contains("struct Door <");
    let derived = format!("#[::std::prelude::v1::derive({traits})] {item}");
    let made = if is_typed { MADE } else { "" };
    format!("{derived} {made}").parse().expect("it is Rust")
}
