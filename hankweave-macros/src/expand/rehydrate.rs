//! Generates the way from the stored enum back to a typed value, and `validate`: the rules that types cannot express and a stored value may break.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};

use crate::model::{FieldDef, MachineDef, StateDef, ValueSource};

use super::GeneratedNames;
use super::states::{at, distinct};
use super::values::first_call;

/// Generates `TryFrom` for all states, in the module of the typed value.
pub(super) fn rehydrate(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        typed,
        stored,
        state_trait,
        krate,
        ..
    } = out;
    let idents: Vec<_> = machine.states.iter().map(|state| &state.ident).collect();
    let narrows = idents.iter().map(|ident| {
        quote! {
            #[automatically_derived]
            impl sealed::State for #ident {
                fn narrow(stored: #stored) -> __core::result::Result<Self, #stored> {
                    match stored {
                        #stored::#ident(state) => __core::result::Result::Ok(state),
                        other => __core::result::Result::Err(other),
                    }
                }
            }
        }
    });
    quote! {
        #(#narrows)*

        impl<S: #state_trait> __core::convert::TryFrom<#stored> for #typed<S> {
            type Error = Refused;

            fn try_from(value: #stored) -> __core::result::Result<Self, Refused> {
                let found = value.status();
                let violations = value.validate();
                if found == S::STATUS && !violations.is_empty() {
                    let value = #krate::__private::Box::new(value);
                    return __core::result::Result::Err(Refused::Invalid { status: found, violations, value });
                }
                S::narrow(value).map(#typed).map_err(|value| Refused::WrongState {
                    expected: S::STATUS,
                    found,
                    value: #krate::__private::Box::new(value),
                })
            }
        }
    }
}

/// Generates `validate`, next to the data.
pub(super) fn rules(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        vis,
        stored,
        status,
        krate,
        ..
    } = out;
    let idents: Vec<_> = machine.states.iter().map(|state| &state.ident).collect();
    let checks = machine.states.iter().map(|state| checks(state, machine, out));
    let functions: Vec<_> = (0..machine.states.len()).map(rules_name).collect();
    quote! {
        #(
            fn #functions(state: &#idents) -> #krate::__private::Vec<#krate::Violation> {
                #checks
            }
        )*

        /// Why a stored value could not become a typed one.
        #vis type Refused = #krate::StateMismatch<#stored, #status>;

        impl #stored {
            /// Every rule of its state that the value breaks; empty for a value that is right.
            ///
            /// Types make most rules impossible to break. What is left: a fixed field has its value, a field that names
            /// the previous state names one that leads here, and what travels along as unknown is unknown.
            #vis fn validate(&self) -> #krate::__private::Vec<#krate::Violation> {
                match self {
                    #(Self::#idents(state) => #functions(state),)*
                }
            }
        }
    }
}

/// Returns the name of the function that checks the rules of a state; `validate` and `Serialize` call it.
pub(super) fn rules_name(state: usize) -> Ident {
    format_ident!("rules_{state}", span = Span::call_site())
}

fn checks(state: &StateDef, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let krate = &out.krate;
    let index = machine
        .states
        .iter()
        .position(|other| other.ident == state.ident)
        .unwrap_or_default();
    let checks: Vec<_> = state
        .fields
        .iter()
        .filter_map(|field| check(field, index, machine, out))
        .collect();
    let extra = machine
        .extra()
        .filter(|_| machine.stored_form)
        .map(|FieldDef { ident: extra, .. }| {
            let (stored, status, state) = (&out.stored, &out.status, &state.ident);
            let extra = at(quote!(&state.#extra), extra);
            quote! {
                .chain(#krate::stored::known_names::<#stored>(#status::#state, #extra))
            }
        });
    if checks.is_empty() && extra.is_none() {
        return quote! {
            let _ = state;
            #krate::__private::Vec::new()
        };
    }
    quote! {
        <[__core::option::Option<#krate::Violation>; _]>::into_iter([#(#checks),*])
            .flatten()
            #extra
            .collect()
    }
}

fn check(field: &FieldDef, state: usize, machine: &MachineDef, out: &GeneratedNames) -> Option<TokenStream> {
    let FieldDef {
        ident,
        ty,
        stored_name,
        ..
    } = field;
    let krate = &out.krate;
    match &field.entry {
        ValueSource::Fixed(_) => Some({
            // A call of the function that computes the declared value.
            let value = first_call(state, field, machine);
            quote! {{
                let expected: #ty = #value;
                #krate::Violation::unless_equal(#stored_name, &expected, &state.#ident)
            }}
        }),
        ValueSource::Origin => {
            let phase = &out.phase;
            let sources = origins(state, machine);
            let found = at(quote!(state.#ident), ident);
            Some(quote! {
                #krate::Violation::unless_among(#stored_name, &[#(#phase::#sources),*], #found)
            })
        }
        _ => None,
    }
}

/// The states that lead to one state.
pub(super) fn origins(state: usize, machine: &MachineDef) -> Vec<&Ident> {
    let sources = machine.methods.iter().flat_map(|method| method.sources_of(state));
    distinct(sources)
        .into_iter()
        .map(|source| &machine.states[source].ident)
        .collect()
}
