//! Generates the steps: an implementation of the trait `Edge` for each edge, and methods of the typed value, which call these.
//!
//! `Edge<Source>` is implemented by the struct of a step, called its key: code that has a key can make the step from that source.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};

use crate::ast::Setters;
use crate::case::{pascal, text};
use crate::model::{Carried, FieldDef, MachineDef, Method, StateDef, ValueSource};

use super::states::{distinct, initial_data, target_data};
use super::stubs::Stubs;
use super::{GeneratedNames, checked, generics, list};

/// Generates the implementations of `Edge` and `Transition`, and the method `step`.
pub(super) fn edges(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let impls = machine
        .edges()
        .map(|(from, method, exit)| edge(from, method, exit.target, machine, out));
    let pairs = distinct(
        machine
            .edges()
            .map(|(from, _, exit)| (&from.ident, &machine.states[exit.target].ident)),
    );
    let (params, arguments, bounds) = machine.generics.split_for_impl();
    let pairs = pairs.into_iter().map(|(from, to)| {
        quote! {
            impl #params sealed::Transition<#to #arguments> for #from #arguments #bounds {}

            #[automatically_derived]
            impl #params Transition<#to #arguments> for #from #arguments #bounds {}
        }
    });
    let step = step(machine, out);
    quote! {
        #(#impls)*

        #(#pairs)*

        #step
    }
}

/// Generates the method `step`, and the struct `Step` that it returns: the new value with the event. With types alone the method returns the value.
fn step(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        vis,
        typed,
        transition,
        state_trait,
        value,
        ..
    } = out;
    if machine.types {
        let (params, arguments, bounds) = machine.generics.split_for_impl();
        let states = machine.states.iter().map(|state| {
            let state = &state.ident;
            quote!(impl #params sealed::State for #state #arguments #bounds {})
        });
        return quote! {
            #(#states)*

            impl<S: #state_trait> #typed<S> {
                /// Makes a step.
                #vis fn step<E: Edge<S>>(self, edge: E) -> #typed<E::To> {
                    #typed(edge.advance(self.0))
                }
            }
        };
    }
    let written_out = super::written_out::of_step(out);
    quote! {
        /// A step that was made: the value in its new state, and the event that says so.
        #[must_use = "the event has to be recorded and the value kept"]
        #vis struct Step<S: #state_trait> {
            #value: #typed<S>,
            event: #transition,
        }

        #written_out

        impl<S: #state_trait> Step<S> {
            /// Returns the event.
            #vis fn event(&self) -> &#transition {
                &self.event
            }

            /// Returns the event, without the value.
            #vis fn into_event(self) -> #transition {
                self.event
            }

            /// The value after the step, and what happened.
            #vis fn into_parts(self) -> (#typed<S>, #transition) {
                (self.#value, self.event)
            }
        }

        impl<S: #state_trait> #typed<S> {
            /// Makes a step and returns its event as well.
            #vis fn step<E: Edge<S>>(self, edge: E) -> Step<E::To> {
                let event = edge.record();
                Step { #value: #typed(edge.advance(self.0)), event }
            }
        }
    }
}

/// Generates the implementation of `Edge` for one edge.
fn edge(
    from: &StateDef,
    method: &Method,
    target: usize,
    machine: &MachineDef,
    out: &GeneratedNames,
) -> TokenStream {
    let (transition, key, source) = (&out.transition, &method.metadata, &from.ident);
    let to = &machine.states[target].ident;
    let target_data = target_data(method, target, from, machine, out);
    let record = (!machine.types).then(|| {
        quote! {
            fn record(&self) -> #transition {
                __core::convert::Into::into(__core::clone::Clone::clone(self))
            }
        }
    });
    let (params, arguments, bounds) = machine.generics.split_for_impl();
    let of_key = generics::used(machine.supplied_fields(method), machine);
    let (_, of_key, _) = of_key.split_for_impl();
    quote! {
        impl #params sealed::Edge<#source #arguments> for #key #of_key #bounds {}

        #[automatically_derived]
        impl #params Edge<#source #arguments> for #key #of_key #bounds {
            type To = #to #arguments;

            fn advance(self, from: #source #arguments) -> #to #arguments {
                #target_data
            }

            #record
        }
    }
}

/// Describes the legal steps of a state.
pub(super) fn legal_moves(state: &StateDef, machine: &MachineDef) -> String {
    if state.terminal {
        return format!("`{}` is terminal: it has no transitions", state.ident);
    }
    let moves = state.exits.iter().map(|exit| {
        let method = &machine.methods[exit.method];
        format!("{} -> {}", method.ident, machine.states[exit.target].ident)
    });
    format!("legal from `{}`: {}", state.ident, list(moves))
}

/// Generates `new`, and for each state its steps, its setters, and stubs for the steps that it lacks.
pub(super) fn methods(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let (new, stubs) = (new(machine, out), Stubs::new(machine, out));
    let bounds = stubs.bounds();
    let impls = machine.states.iter().enumerate().map(|(index, state)| {
        let (typed, ident) = (&out.typed, &state.ident);
        let moves = state
            .exits
            .iter()
            .map(|exit| method(&machine.methods[exit.method], exit.target, machine, out));
        let setters = state.fields.iter().map(|field| setters(field, machine, out));
        let stubs = stubs.methods(index);
        let (params, arguments, bounds) = machine.generics.split_for_impl();
        quote! {
            impl #params #typed<#ident #arguments> #bounds {
                #(#moves)*
                #(#setters)*
                #stubs
            }
        }
    });
    quote!(#new #(#impls)* #bounds)
}

fn new(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        vis, typed, value, ..
    } = out;
    let state = &machine.states[machine.initial];
    let (ident, data) = (&state.ident, initial_data(state, machine));
    let arguments: Vec<_> = state
        .start_arguments()
        .map(|FieldDef { ident, ty, .. }| quote!(#ident: #ty))
        .collect();
    let many = (!arguments.is_empty()).then(|| {
        quote!(#[allow(clippy::too_many_arguments, reason = "the declaration leaves these fields to the caller")])
    });
    let docs = format!(
        "Starts in [`{ident}`]. The arguments are the fields that the declaration leaves to the caller."
    );
    let keep = format!("a {value} that is not kept is lost");
    let (params, of_state, bounds) = machine.generics.split_for_impl();
    quote! {
        impl #params #typed<#ident #of_state> #bounds {
            #[doc = #docs]
            #many
            #[must_use = #keep]
            #vis fn new(#(#arguments),*) -> Self {
                Self(#data)
            }
        }
    }
}

/// Generates the method of a step on one state.
fn method(method: &Method, target: usize, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        vis, typed, value, ..
    } = out;
    let target = &machine.states[target];
    let (name, key, to) = (&method.ident, &method.metadata, &target.ident);
    let supplied: Vec<String> = machine
        .supplied_fields(method)
        .map(|field| format!("`{}`", field.ident))
        .collect();
    let docs = match supplied.is_empty() {
        true => format!("Moves on to [`{to}`]."),
        false => format!("Moves on to [`{to}`]. Demands {}, in [`{key}`].", list(supplied)),
    };
    let panics = panics(target, machine, out);
    let keep = format!("the {value} has moved on to `{to}`: the new value is the only one");
    let keep = (!target.terminal).then(|| quote!(#[must_use = #keep]));
    let (_, arguments, _) = machine.generics.split_for_impl();
    let of_key = generics::used(machine.supplied_fields(method), machine);
    let (_, of_key, _) = of_key.split_for_impl();
    let (argument, edge) = match machine.supplied_fields(method).next() {
        Some(_) => (quote!(, metadata: #key #of_key), quote!(metadata)),
        None => (quote!(), quote!(#key)),
    };
    quote! {
        #[doc = #docs]
        #panics
        #keep
        #vis fn #name(self #argument) -> #typed<#to #arguments> {
            #typed(Edge::advance(#edge, self.0))
        }
    }
}

/// Documents that a step panics where `apply` refuses it.
fn panics(target: &StateDef, machine: &MachineDef, out: &GeneratedNames) -> Option<TokenStream> {
    let may_refuse = |field: &&FieldDef| match &field.entry {
        ValueSource::Carried(Carried { next: Some(next), .. }) => {
            checked::of_next(next, machine, &out.krate).is_some()
        }
        _ => false,
    };
    let fields: Vec<String> = target
        .fields
        .iter()
        .filter(may_refuse)
        .map(|field| format!("`{}`", field.ident))
        .collect();
    (!fields.is_empty()).then(|| {
        let panics = format!(
            "Panics when there is no next {} that fits; `apply` refuses such a step.",
            list(fields)
        );
        quote!(#[doc = ""] #[doc = "# Panics"] #[doc = ""] #[doc = #panics])
    })
}

/// Generates the setters of a live field; nothing for other fields.
fn setters(field: &FieldDef, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let Some(Setters { add, record }) = field.live else {
        return TokenStream::new();
    };
    let (vis, FieldDef { ident, ty, .. }) = (&out.vis, field);
    // A type that lacks a trait is then reported at its field.
    let here = Span::call_site().located_at(ident.span());
    let setter = |adds: bool| {
        let (verb, what) = if adds {
            ("add", "Adds to")
        } else {
            ("set", "Replaces")
        };
        let name = format_ident!("{verb}_{}", text(ident));
        let docs = format!("{what} `{ident}`.");
        let (argument, operator) = match adds {
            true => (quote_spanned!(here=> delta), quote_spanned!(here=> +=)),
            false => (quote_spanned!(here=> value), quote!(=)),
        };
        let change = match (record, adds) {
            (true, true) => {
                let sum = checked::sum(field, &quote!(self.0.#ident), &out.krate);
                let full = format!("`{ident}` cannot hold the sum; `apply` refuses such an event");
                let krate = &out.krate;
                quote! {
                    let event = __core::clone::Clone::clone(&delta);
                    #krate::__private::holds(#sum, #full);
                }
            }
            (true, false) => quote_spanned! {here=>
                let event = __core::clone::Clone::clone(&value);
                self.0.#ident = value;
            },
            (false, _) => quote_spanned!(here=> self.0.#ident #operator #argument;),
        };
        if !record {
            return quote! {
                #[doc = #docs]
                #vis fn #name(&mut self, #argument: #ty) {
                    #change
                }
            };
        }
        let transition = &out.transition;
        let panics = adds.then(|| {
            let panics = "Panics when the field cannot hold the sum.";
            quote!(#[doc = ""] #[doc = "# Panics"] #[doc = ""] #[doc = #panics])
        });
        let variant = Ident::new(&pascal(&text(&name)), Span::call_site());
        quote! {
            #[doc = #docs]
            ///
            /// Gives the event that records the change.
            #panics
            #[must_use = "the event has to be recorded"]
            #vis fn #name(&mut self, #argument: #ty) -> #transition {
                #change
                #transition::#variant(event)
            }
        }
    };
    // With types alone no change is recorded, so a field may be borrowed to change in place; a socket has to be.
    let in_place = machine.types.then(|| {
        let name = format_ident!("{}_mut", text(ident));
        let docs = format!("`{ident}`, to be changed.");
        quote! {
            #[doc = #docs]
            #vis fn #name(&mut self) -> &mut #ty {
                &mut self.0.#ident
            }
        }
    });
    let (set, add) = (setter(false), add.then(|| setter(true)));
    quote!(#set #add #in_place)
}
