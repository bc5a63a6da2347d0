//! Generates the tests of a machine, so that its user need not write them: `#[machine(Name, tests)]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Path;

use crate::case::text;
use crate::model::{FieldDef, MachineDef, Method};

use super::GeneratedNames;
use super::states::at;

/// Generates the test module. The tests themselves are functions of the companion crate. The module passes them two tables, which the compiler fills: whether
/// each state leads to each state, and whether each step is legal in each state.
pub(super) fn self_test(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    if !machine.tests {
        return TokenStream::new();
    }
    let (stored, state_trait, krate) = (&out.stored, &out.state_trait, &out.krate);
    let subject = subject(machine, out);
    let states: Vec<_> = machine.states.iter().map(|state| &state.ident).collect();
    let keys: Vec<_> = machine.methods.iter().map(|method| &method.metadata).collect();
    let pairs = states.iter().flat_map(|from| {
        let names = states.iter().map(ToString::to_string);
        let from_name = from.to_string();
        let states = &states;
        quote!(#((#from_name, #names, self::probe::Leads::<#from, #states>::HOLDS),)*)
    });
    let steps = states.iter().flat_map(|from| {
        let names = machine.methods.iter().map(|method| text(&method.ident));
        let from_name = from.to_string();
        let keys = &keys;
        quote!(#((#from_name, #names, self::probe::Moves::<#from, #keys>::HOLDS),)*)
    });
    let pairs: TokenStream = pairs.collect();
    let steps: TokenStream = steps.collect();
    let round_trips = machine.stored_form.then(|| {
        quote! {
            #[__core::prelude::v1::test]
            fn every_stored_value_and_every_event_survives_json() {
                testing::every_value_round_trips::<#stored>();
            }
        }
    });
    quote! {
        #[cfg(test)]
        mod tests {
            use #krate::testing;
            use self::probe::Otherwise as _;
            use super::*;

            /// In a module of their own, because a state may have any of these names.
            mod probe {
                use super::__core::marker::PhantomData;

                /// The inherent constant wins where the bound holds; everywhere else the one of this trait is found.
                pub trait Otherwise {
                    const HOLDS: bool = false;
                }

                pub struct Leads<A, B>(PhantomData<(A, B)>);

                impl<A, B> Otherwise for Leads<A, B> {}

                impl<A: super::Transition<B>, B: super::#state_trait> Leads<A, B> {
                    pub const HOLDS: bool = true;
                }

                pub struct Moves<S, E>(PhantomData<(S, E)>);

                impl<S, E> Otherwise for Moves<S, E> {}

                impl<S: super::#state_trait, E: super::Edge<S>> Moves<S, E> {
                    pub const HOLDS: bool = true;
                }
            }

            #subject

            #[__core::prelude::v1::test]
            fn types_table_and_apply_agree_on_every_pair() {
                testing::agree_on_every_pair::<#stored>(&[#pairs], &[#steps]);
            }

            #[__core::prelude::v1::test]
            fn every_edge_is_the_same_by_types_and_by_events() {
                testing::walk_every_edge::<#stored>();
            }

            #round_trips
        }
    }
}

/// Generates `testing::Subject`, through which the tests make and move values.
fn subject(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        stored,
        status,
        transition,
        typed,
        graph,
        into_stored,
        krate,
        ..
    } = out;
    let initial = &machine.states[machine.initial];
    let (start, arguments) = (&initial.ident, samples(initial.start_arguments(), krate));
    let names = machine.methods.iter().map(|method| text(&method.ident));
    let keys = machine.methods.iter().map(|method| key(method, machine, krate));
    let stir = stir(machine, out);
    let steps = machine.edges().map(|(from, method, _)| {
        let (from, name, ident) = (&from.ident, text(&method.ident), &method.ident);
        let key = key(method, machine, krate);
        let argument = machine.supplied_fields(method).next().map(|_| &key);
        quote! {
            (Self::#from(_), #name) => {
                let typed = || #typed::<#from>::try_from(__core::clone::Clone::clone(&self));
                let by_method = typed().ok()?.#ident(#argument);
                let (by_step, event) = typed().ok()?.step(#key).into_parts();
                __core::option::Option::Some((by_method.#into_stored(), by_step.#into_stored(), event))
            }
        }
    });
    quote! {
        impl testing::Subject for #stored {
            type Transition = #transition;
            type Status = #status;

            const MACHINE: &'static #krate::Machine = &#graph;

            fn start(n: u32) -> Self {
                let _ = n;
                #typed::<#start>::new(#(#arguments),*).#into_stored()
            }

            fn status(&self) -> #status {
                self.status()
            }

            fn stir(self, n: u32) -> Self {
                #stir
            }

            fn event(method: &str, n: u32) -> #transition {
                let _ = n;
                match method {
                    #(#names => __core::convert::Into::into(#keys),)*
                    other => __core::panic!("no method `{other}`"),
                }
            }

            fn dynamic(self, event: #transition) -> __core::result::Result<Self, Self> {
                self.apply(event).map_err(|refused| *refused.value)
            }

            fn typed(self, method: &str, n: u32) -> __core::option::Option<(Self, Self, #transition)> {
                let _ = n;
                match (&self, method) {
                    #(#steps)*
                    _ => __core::option::Option::None,
                }
            }
        }
    }
}

/// Generates the body of `stir`, which sets every live field of a value, so that steps have values other than the first to carry. Changes that are recorded
/// must have the same effect as events.
fn stir(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        typed, into_stored, ..
    } = out;
    let arms = machine.states.iter().filter_map(|state| {
        let live = |record: bool| {
            let is_live = move |field: &&FieldDef| field.live.is_some_and(|live| live.record == record);
            state.fields.iter().filter(is_live)
        };
        // A state without live fields needs no arm.
        live(false).chain(live(true)).next()?;
        let ident = &state.ident;
        let setters = |record: bool| live(record).map(|field| format_ident!("set_{}", text(&field.ident)));
        let (values, changed) = (samples(live(false), &out.krate), samples(live(true), &out.krate));
        let (set, record) = (setters(false), setters(true));
        let recorded = (!changed.is_empty()).then(|| {
            quote! {
                let before = __core::clone::Clone::clone(&stirred);
                let mut typed = #typed::<#ident>::try_from(stirred).expect("the state was looked at");
                let changes = [#(typed.#record(#changed)),*];
                let stirred = typed.#into_stored();
                let replayed = changes.into_iter().try_fold(before, |value, change| value.apply(change));
                __core::assert_eq!(replayed.as_ref(), __core::result::Result::Ok(&stirred), "changes as events");
            }
        });
        Some(quote! {
            Self::#ident(_) => {
                let mut typed = #typed::<#ident>::try_from(self).expect("the state was looked at");
                #(typed.#set(#values);)*
                let stirred = typed.#into_stored();
                #recorded
                stirred
            }
        })
    });
    let arms: Vec<_> = arms.collect();
    if arms.is_empty() {
        return quote! {
            let _ = n;
            self
        };
    }
    // Other states: those without live fields, such as the terminal ones.
    quote! {
        match self {
            #(#arms)*
            other => other,
        }
    }
}

/// Generates the struct of a step with made-up values.
fn key(method: &Method, machine: &MachineDef, krate: &Path) -> TokenStream {
    let key = &method.metadata;
    let fields: Vec<_> = machine
        .supplied_fields(method)
        .map(|field| &field.ident)
        .collect();
    if fields.is_empty() {
        return quote!(#key);
    }
    let values = samples(machine.supplied_fields(method), krate);
    quote!(#key { #(#fields: #values),* })
}

/// Generates a made-up value for each field, each with another number.
fn samples<'a>(fields: impl Iterator<Item = &'a FieldDef>, krate: &Path) -> Vec<TokenStream> {
    let values = fields.zip(0_u32..).map(|(field, index)| match &field.sample {
        Some(value) => quote!(#value),
        None => {
            // A type that has no samples is then reported at its field.
            at(
                quote!(#krate::Sample::sample(n.wrapping_add(#index))),
                &field.ident,
            )
        }
    });
    values.collect()
}
