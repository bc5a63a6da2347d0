//! Generates JSON Schemas: `#[machine(Name, schema)]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Path;

use crate::case::text;
use crate::model::{FieldDef, MachineDef, StateDef, ValueSource, docs_text, inside_option};

use super::GeneratedNames;
use super::rehydrate::origins;
use super::stored::elsewhere;

/// Whether the feature `schema` of the companion crate is on. Without the feature the word `schema` does nothing, so a declaration may always have the word.
const SCHEMA: bool = cfg!(feature = "schema");

/// Generates `JsonSchema` for the enums of the machine, and for the stored enum and the event enum the method `schema`, which returns a whole document.
pub(super) fn schema(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let Some(requested) = machine.schema.as_ref().filter(|_| SCHEMA) else {
        return TokenStream::new();
    };
    let condition = requested
        .feature
        .iter()
        .map(|name| quote!(#[cfg(feature = #name)]));
    let GeneratedNames {
        vis,
        stored,
        status,
        phase,
        transition,
        typed,
        krate,
        ..
    } = out;
    let states = machine
        .states
        .iter()
        .enumerate()
        .map(|(index, state)| state_schema(index, state, machine, out));
    let events = machine.methods.iter().map(|method| {
        let targets = machine.targets(method).into_iter();
        let targets: Vec<String> = targets
            .map(|target| format!("`{}`", target.stored_name))
            .collect();
        let docs = format!("Leads a {typed} to {}.", targets.join(" or "));
        let (name, fields) = (text(&method.ident), machine.supplied_fields(method));
        let fields = fields.map(|field| property(field, TokenStream::new()));
        quote!(schema::event(#name, #docs, [#(#fields),*]))
    });
    let changes = machine.live_changes();
    let changes = changes.iter().map(|change| {
        let name = change.method();
        let docs = format!("Changes `{}`; the state stays.", change.field.stored_name);
        let FieldDef {
            ty, schema, ident, ..
        } = change.field;
        let here = Span::call_site().located_at(ident.span());
        let ty = match inside_option(ty) {
            Some(_) => quote!(__core::option::Option<#schema>),
            None => quote!(#schema),
        };
        let value = quote_spanned!(here=> generator.subschema_for::<#ty>());
        quote!(schema::change(#name, #docs, #value))
    });
    let events = events.chain(changes);
    let docs = docs_text(&machine.docs);
    let event_docs = format!("A step of a {typed} as an event.");
    let [status_docs, phase_docs] = ["The state", "A state that is not terminal, as the state"]
        .map(|what| format!("{what} of a {typed} without its data."));
    let impls = [
        json_schema(stored, quote!(schema::one_of(#docs, [#(#states),*])), krate),
        json_schema(
            transition,
            quote!(schema::one_of(#event_docs, [#(#events),*])),
            krate,
        ),
        json_schema(status, quote!(schema::names::<Self>(#status_docs)), krate),
        json_schema(phase, quote!(schema::names::<Self>(#phase_docs)), krate),
    ];
    let documents = [stored, transition].map(|name| {
        let docs = format!("The JSON Schema of [`{name}`], a document of its own.");
        quote! {
            impl #name {
                #[doc = #docs]
                #vis fn schema() -> #krate::__private::Value {
                    schema::document::<Self>()
                }
            }
        }
    });
    quote! {
        #(#condition)*
        const _: () = {
            use #krate::__private::schemars;
            use #krate::schema;

            #(#impls)*
            #(#documents)*
        };
    }
}

fn json_schema(name: &Ident, body: TokenStream, krate: &Path) -> TokenStream {
    let text = name.to_string();
    quote! {
        #[automatically_derived]
        impl schemars::JsonSchema for #name {
            fn schema_name() -> #krate::__private::Cow<'static, str> {
                __core::convert::Into::into(#text)
            }

            fn schema_id() -> #krate::__private::Cow<'static, str> {
                __core::convert::Into::into(__core::concat!(__core::module_path!(), "::", #text))
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                // A machine without fields does not need it.
                let _ = &generator;
                #body
            }
        }
    }
}

/// Generates the schema of a state: its fields, and the names of fields that it must not have.
fn state_schema(index: usize, state: &StateDef, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let (tag, name, docs) = (&machine.tag, &state.stored_name, state.docs_text());
    let fields = state
        .fields
        .iter()
        .filter(|field| !matches!(field.entry, ValueSource::Extra))
        .map(|field| {
            let origins = origins(index, machine);
            let phase = &out.phase;
            property(field, quote!(#(#phase::#origins),*))
        });
    let elsewhere = elsewhere(state, machine);
    let elsewhere = elsewhere.iter();
    quote!(schema::state(#tag, #name, #docs, [#(#fields),*], &[#(#elsewhere),*]))
}

/// Generates the schema of a field; `origins` are the values that an `#[origin]` field may have.
fn property(field: &FieldDef, origins: TokenStream) -> TokenStream {
    let FieldDef {
        stored_name,
        ty,
        optional,
        schema,
        ..
    } = field;
    let (docs, required) = (docs_text(&field.attrs), !optional);
    let value = match &field.entry {
        ValueSource::Fixed(value) => quote!({
            let fixed: #ty = #value;
            schema::constant(&fixed)
        }),
        ValueSource::Origin => quote!(schema::among(&[#origins])),
        _ => {
            // A type without schema is then reported at its field.
            let here = Span::call_site().located_at(field.ident.span());
            quote_spanned!(here=> generator.subschema_for::<#schema>())
        }
    };
    quote!(schema::Property { name: #stored_name, docs: #docs, required: #required, schema: #value })
}
