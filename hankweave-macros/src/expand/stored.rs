//! Generates how the stored form is read and written: what each stored name means in each state, and mirrors, private copies of each state's struct that
//! derive `Deserialize` or `Serialize`.
//!
//! The struct of a state does not derive `Deserialize` itself: it would then read stored values of any other status too.

use std::collections::BTreeSet;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::Type;

use crate::model::{FieldDef, MachineDef, StateDef, ValueSource, is_plain};

use super::rehydrate::rules_name;
use super::states::{at, serde_container, serde_field};
use super::{GeneratedNames, if_stored};

/// Generates `Deserialize` for the stored enum, and `Serialize` for the data of each state.
pub(super) fn stored(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        stored,
        status,
        krate,
        ..
    } = out;
    let tag = &machine.tag;
    let mirrors = machine.states.iter().map(|state| mirror(state, machine, out));
    let writers = machine.states.iter().enumerate();
    let writers = writers.map(|(index, state)| writer(index, state, machine, out));
    let belongs = machine.states.iter().map(|state| belongs(state, machine, out));
    let reads = machine.states.iter().map(|state| read(state, machine, out));
    let early = early(machine);
    let known_fields = machine.extra().is_none().then(|| {
        quote! {
            #[automatically_derived]
            impl stored::KnownFields for #stored {}
        }
    });
    if_stored(
        machine,
        quote! {
            const _: () = {
                use #krate::__private::serde;
                use #krate::stored::{self, NameScope};

                #(#mirrors)*
                #(#writers)*

                #[automatically_derived]
                impl stored::Stored for #stored {
                    type Status = #status;
                    const TAG: &'static str = #tag;

                    fn belongs(status: #status, name: &str) -> NameScope {
                        match status {
                            #(#belongs)*
                        }
                    }

                    #early

                    fn read<'de, A: serde::de::MapAccess<'de>>(
                        status: #status,
                        mut fields: stored::StoredFields<'de, A, Self>,
                    ) -> __core::result::Result<Self, A::Error> {
                        let deserializer = serde::de::value::MapAccessDeserializer::new(&mut fields);
                        match status {
                            #(#reads)*
                        }
                    }

                    fn validate(&self) -> #krate::__private::Vec<#krate::Violation> {
                        self.validate()
                    }
                }

                #known_fields

                #[automatically_derived]
                impl<'de> serde::Deserialize<'de> for #stored {
                    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> __core::result::Result<Self, D::Error> {
                        stored::read(deserializer)
                    }
                }
            };
        },
    )
}

/// Generates how a value is read that comes before the tag, when the state is not yet known: by its type if its name has one type in all states, else into a
/// buffer.
fn early(machine: &MachineDef) -> Option<TokenStream> {
    let names: BTreeSet<&str> = machine.states.iter().flat_map(names).collect();
    let arms: Vec<_> = names
        .into_iter()
        .filter_map(|name| {
            let field = early_field(name, machine)?;
            Some(quote!(#name => #field.read(value),))
        })
        .collect();
    (!arms.is_empty()).then(|| {
        quote! {
            fn early<'de, D: serde::Deserializer<'de>>(
                name: &str,
                value: D,
            ) -> __core::result::Result<stored::EarlyValue, D::Error> {
                #[allow(unused_imports, reason = "the types of the declaration can be read")]
                use stored::UnreadableField as _;
                match name {
                    #(#arms)*
                    _ => stored::early_value(value),
                }
            }
        }
    })
}

/// Returns the `EarlyField` that reads the values under a name; `None` if they have to go to a buffer, or lose nothing there.
fn early_field(name: &str, machine: &MachineDef) -> Option<TokenStream> {
    let fields = machine.states.iter().flat_map(|state| &state.fields);
    let fields: Vec<&FieldDef> = fields
        .filter(|field| field.stored_names().any(|known| known == name))
        .collect();
    let first = fields.first()?;
    let written = |ty: &Type| ty.to_token_stream().to_string();
    let all_have = |ty: fn(&FieldDef) -> &Type| {
        fields
            .iter()
            .all(|field| written(ty(field)) == written(ty(first)))
    };
    let tolerated = machine.states.iter().flat_map(|state| &state.tolerated);
    if fields.iter().any(|field| field.custom_read)
        || tolerated.into_iter().any(|known| known == name)
        || is_plain(first.ty.to_token_stream())
    {
        return None;
    }
    if all_have(|field| &field.ty) {
        let ty = &first.ty;
        return Some(quote!(stored::EarlyField::<#ty>::always()));
    }
    let ty = first.value_type();
    all_have(FieldDef::value_type).then(|| quote!(stored::EarlyField::<#ty>::sometimes()))
}

fn mirror_name(state: &StateDef) -> Ident {
    format_ident!("Stored{}", state.ident, span = Span::call_site())
}

/// Generates the struct from which serde reads a state.
fn mirror(state: &StateDef, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let (name, remote) = (mirror_name(state), state.ident.to_string());
    let container = at(serde_container(&["Deserialize"], machine, out), &state.ident);
    let fields = state.fields.iter().map(|field| {
        let FieldDef { ident, ty, .. } = field;
        let serde = match field.entry {
            ValueSource::Extra => quote!(#[serde(skip)]),
            _ => serde_field(field),
        };
        quote!(#serde #ident: #ty,)
    });
    quote! {
        #container
        #[serde(remote = #remote)]
        struct #name {
            #(#fields)*
        }
    }
}

/// Generates `Serialize` for the data of a state, with the tag, so that the output can be read as a stored value.
fn writer(index: usize, state: &StateDef, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let (ident, remote, stored, status) = (&state.ident, state.ident.to_string(), &out.stored, &out.status);
    let name = format_ident!("Written{}", state.ident, span = Span::call_site());
    let container = at(serde_container(&["Serialize"], machine, out), ident);
    let fields = state.fields.iter().map(|field| {
        let FieldDef { ident, ty, .. } = field;
        let serde = match field.entry {
            ValueSource::Extra => quote!(#[serde(flatten)]),
            _ => serde_field(field),
        };
        quote!(#serde #ident: #ty,)
    });
    let rules = rules_name(index);
    quote! {
        #container
        #[serde(remote = #remote)]
        struct #name {
            #(#fields)*
        }

        #[automatically_derived]
        impl serde::Serialize for #ident {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> __core::result::Result<S::Ok, S::Error> {
                if let __core::option::Option::Some(violation) = #rules(self).first() {
                    return __core::result::Result::Err(serde::ser::Error::custom(violation));
                }
                #name::serialize(self, stored::tagged::<#stored, S>(#status::#ident, serializer))
            }
        }
    }
}

/// Generates the arm of `belongs` for a state: what each stored name means there.
fn belongs(state: &StateDef, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let (status, ident) = (&out.status, &state.ident);
    let here: BTreeSet<&str> = names(state).collect();
    let tolerated: BTreeSet<&str> = state
        .tolerated
        .iter()
        .map(String::as_str)
        .filter(|name| !here.contains(name))
        .collect();
    let elsewhere = elsewhere(state, machine);
    let arm = |names: BTreeSet<&str>, belongs: TokenStream| {
        let names = names.into_iter();
        (names.len() > 0).then(|| quote!(#(#names)|* => NameScope::#belongs,))
    };
    let here = arm(here, quote!(Here));
    let tolerated = arm(tolerated, quote!(Tolerated));
    let elsewhere = arm(elsewhere, quote!(Elsewhere));
    let unknown = if machine.extra().is_some() {
        quote!(Extra)
    } else {
        quote!(Unknown)
    };
    quote! {
        #status::#ident => match name {
            #here
            #tolerated
            #elsewhere
            _ => NameScope::#unknown,
        },
    }
}

/// The stored names that other states have and this one neither has nor tolerates.
pub(super) fn elsewhere<'a>(state: &'a StateDef, machine: &'a MachineDef) -> BTreeSet<&'a str> {
    let allowed: BTreeSet<&str> = names(state)
        .chain(state.tolerated.iter().map(String::as_str))
        .collect();
    let all = machine.states.iter().flat_map(names);
    all.filter(|name| !allowed.contains(name)).collect()
}

/// Every stored name of a state's fields.
fn names(state: &StateDef) -> impl Iterator<Item = &str> {
    state
        .fields
        .iter()
        .filter(|field| !matches!(field.entry, ValueSource::Extra))
        .flat_map(FieldDef::stored_names)
}

/// Generates the arm of `read` for a state.
fn read(state: &StateDef, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let (status, ident, mirror) = (&out.status, &state.ident, mirror_name(state));
    let body = match machine.extra() {
        None => quote!(#mirror::deserialize(deserializer).map(Self::#ident)),
        Some(FieldDef { ident: extra, .. }) => quote! {{
            let mut state = #mirror::deserialize(deserializer)?;
            state.#extra = fields.into_extra();
            __core::result::Result::Ok(Self::#ident(state))
        }},
    };
    quote!(#status::#ident => #body,)
}
