//! The macros of [`hankweave-core`](https://docs.rs/hankweave-core), which exports them.

mod case;
mod shape;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as TokenStream2;
use quote::quote;

/// The attribute of [`hankweave-machine`](https://docs.rs/hankweave-machine), for those who depend on `hankweave-core`: what is generated finds its
/// companion as `hankweave_core::machine`.
#[proc_macro_attribute]
pub fn machine(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let (arguments, item) = (TokenStream2::from(arguments), TokenStream2::from(item));
    let companion = quote!(::hankweave_core::machine);
    quote!(#[#companion::machine(crate = #companion, #arguments)] #item).into()
}

/// Implements `Shape` of `hankweave-core`: everything that is wrong with a JSON value that should be one, each at its place.
///
/// The names, and which of them may be absent, are what serde is told. On a field `#[shape(with = function)]` names another check than that of
/// its type. An enum without a tag is one text; one with a tag is checked as the variant that it names.
#[proc_macro_derive(Shape, attributes(shape))]
pub fn shape(item: TokenStream) -> TokenStream {
    let tokens = shape::derive(item.into());
    tokens.unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Tells of an enum what serde calls its variants: `name()`, and `ALL` where no variant has data.
#[proc_macro_derive(Named, attributes(serde))]
pub fn named(item: TokenStream) -> TokenStream {
    let tokens = shape::named(item.into());
    tokens.unwrap_or_else(syn::Error::into_compile_error).into()
}
