//! Generates how events are read and written: in every format as a map of the method's name and its data.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};

use crate::case::text;
use crate::model::{LiveChange, MachineDef, Method};

use super::{GeneratedNames, if_stored};

/// Generates `Serialize` and `Deserialize` for the event enum.
pub(super) fn events(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        transition, krate, ..
    } = out;
    let changes = machine.live_changes();
    let steps = machine.methods.iter().map(|method| step(method, machine));
    let changed = changes.iter().map(|change| self::change(change));
    let (writes, reads): (Vec<_>, Vec<_>) = steps.chain(changed).unzip();
    let methods = machine.methods.iter().map(|method| text(&method.ident));
    let methods = methods.chain(changes.iter().map(LiveChange::method));
    let mirrors = changes.iter().filter_map(|change| mirror(change, out));
    if_stored(
        machine,
        quote! {
            const _: () = {
                use #krate::__private::serde;
                use #krate::stored;

                #(#mirrors)*

                #[automatically_derived]
                impl serde::Serialize for #transition {
                    fn serialize<S: serde::Serializer>(&self, serializer: S) -> __core::result::Result<S::Ok, S::Error> {
                        match *self {
                            #(#writes)*
                        }
                    }
                }

                #[automatically_derived]
                impl stored::StoredEvent for #transition {
                    const METHODS: &'static [&'static str] = &[#(#methods),*];

                    fn read<'de, D: serde::Deserializer<'de>>(
                        method: &'static str,
                        metadata: D,
                    ) -> __core::result::Result<Self, D::Error> {
                        match method {
                            #(#reads)*
                            other => __core::result::Result::Err(serde::de::Error::unknown_variant(other, Self::METHODS)),
                        }
                    }
                }

                #[automatically_derived]
                impl stored::KnownFields for #transition {}

                #[automatically_derived]
                impl<'de> serde::Deserialize<'de> for #transition {
                    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> __core::result::Result<Self, D::Error> {
                        stored::read_event(deserializer)
                    }
                }
            };
        },
    )
}

/// Returns the arm that writes the event of a step, and the arm that reads it.
fn step(method: &Method, machine: &MachineDef) -> (TokenStream, TokenStream) {
    let (name, variant) = (text(&method.ident), &method.variant);
    match machine.supplied_fields(method).next() {
        Some(_) => (
            quote! {
                Self::#variant(ref metadata) => {
                    stored::write_event(#name, __core::option::Option::Some(stored::write_metadata(metadata)), serializer)
                }
            },
            quote!(#name => stored::read_metadata(metadata).map(Self::#variant),),
        ),
        None => (
            quote!(Self::#variant => stored::write_event(#name, __core::option::Option::None::<()>, serializer),),
            quote!(#name => stored::read_nothing(metadata).map(|()| Self::#variant),),
        ),
    }
}

/// Returns the arm that writes the event of a live field's change, and the arm that reads it.
fn change(change: &LiveChange<'_>) -> (TokenStream, TokenStream) {
    let (name, variant) = (change.method(), change.variant());
    // A trait that the type lacks is then reported at the field.
    let here = Span::call_site().located_at(change.field.ident.span());
    let (written, read) = match change.field.with_attributes().next() {
        Some(_) => {
            let mirror = mirror_name(change);
            (
                quote!(#mirror(__core::clone::Clone::clone(value))),
                quote!(<#mirror as serde::Deserialize>::deserialize(metadata).map(|mirror| Self::#variant(mirror.0))),
            )
        }
        None => (
            quote!(value),
            quote_spanned!(here=> serde::Deserialize::deserialize(metadata).map(Self::#variant)),
        ),
    };
    let written =
        quote_spanned!(here=> stored::write_event(#name, __core::option::Option::Some(#written), serializer));
    (
        quote!(Self::#variant(ref value) => #written,),
        quote!(#name => #read,),
    )
}

/// Generates a struct that serde derives for, if the field has its own serde functions: the event must use these too.
fn mirror(change: &LiveChange<'_>, out: &GeneratedNames) -> Option<TokenStream> {
    change.field.with_attributes().next()?;
    let (name, with_attributes, ty, path) = (
        mirror_name(change),
        change.field.with_attributes(),
        &change.field.ty,
        &out.serde_path,
    );
    Some(quote! {
        #[derive(serde::Serialize, serde::Deserialize)]
        #[serde(crate = #path, transparent)]
        struct #name(#(#[serde(#with_attributes)])* #ty);
    })
}

fn mirror_name(change: &LiveChange<'_>) -> Ident {
    format_ident!("Stored{}", change.variant(), span = Span::call_site())
}
