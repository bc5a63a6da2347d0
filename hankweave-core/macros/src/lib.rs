//! The macros of [`hankweave-core`](https://docs.rs/hankweave-core), which exports them.

mod case;
mod shape;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as TokenStream2;
use quote::quote;

/// The attribute of [`hankweave-machine`](https://docs.rs/hankweave-machine), for crates that depend on `hankweave-core` alone: generated code uses
/// `hankweave_core::machine` as its companion crate.
#[proc_macro_attribute]
pub fn machine(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let (arguments, item) = (TokenStream2::from(arguments), TokenStream2::from(item));
    let companion = quote!(::hankweave_core::machine);
    quote!(#[#companion::machine(crate = #companion, #arguments)] #item).into()
}

/// Implements `Shape` of `hankweave-core`, which finds every error in a JSON value, each with its path.
///
/// The names, and which of them may be absent, follow from the attributes of serde. On a field, `#[shape(with = function)]` replaces the check of the field's
/// type by another. An enum without a tag must be the name of a variant, as text; an enum with a tag is checked as the variant that the tag names.
#[proc_macro_derive(Shape, attributes(shape))]
pub fn shape(item: TokenStream) -> TokenStream {
    let tokens = shape::derive(item.into());
    tokens.unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Adds the names that serde gives to the variants of an enum: `name()`, and `ALL` where no variant has data.
#[proc_macro_derive(Named, attributes(serde))]
pub fn named(item: TokenStream) -> TokenStream {
    let tokens = shape::named(item.into());
    tokens.unwrap_or_else(syn::Error::into_compile_error).into()
}
