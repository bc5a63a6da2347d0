//! Illegal steps, so that the compiler can explain in the words of the machine why they are illegal.
//!
//! For each state and each method that the state lacks there is a hidden method whose bound can never hold. rustc
//! prints the text of that bound. Editors hide the stubs, because they are `#[doc(hidden)]`. Their number is the square of the machine's
//! size, so each is as short as can be.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};

use crate::model::{Branch, MachineDef, Method, StateDef};

use super::transitions::legal_moves;
use super::{GeneratedNames, generics, list};

/// Above this number of pairs the stubs would cost more compile time than their messages are worth.
const MOST_PAIRS: usize = 400;

/// Method that exists on some states and not on others.
struct StubCall<'a> {
    name: &'a Ident,
    /// The type of its argument; traits are named after it, also where there is none.
    key: &'a Ident,
    argument: Option<TokenStream>,
    gives: TokenStream,
    sources: Vec<usize>,
    /// The states in which it is legal, for messages.
    legal: String,
}

fn calls<'a>(machine: &'a MachineDef, out: &GeneratedNames) -> Vec<StubCall<'a>> {
    let typed = &out.typed;
    let (_, arguments, _) = machine.generics.split_for_impl();
    let steps = machine.methods.iter().map(|method| {
        let (targets, key) = (machine.targets(method), &method.metadata);
        let to = targets.first().map(|target| &target.ident);
        let of_key = generics::used(machine.metadata(method), machine);
        let (_, of_key, _) = of_key.split_for_impl();
        StubCall {
            name: &method.ident,
            key,
            argument: machine.metadata(method).next().map(|_| quote!(, _: #key #of_key)),
            gives: quote!(#typed<#to #arguments>),
            legal: legal(method, machine),
            sources: method.sources().collect(),
        }
    });
    let branches = machine.branches.iter().map(|branch| {
        let outcomes = branch.outcomes.iter().map(|method| &machine.methods[*method]);
        let targets: Vec<String> = outcomes
            .flat_map(|method| machine.targets(method))
            .map(|target| target.ident.to_string())
            .collect();
        let Branch { asks, gives, .. } = branch;
        let of_asks = generics::used(machine.demands(branch), machine);
        let (_, of_asks, _) = of_asks.split_for_impl();
        StubCall {
            name: &branch.ident,
            key: asks,
            argument: Some(quote!(, _: #asks #of_asks)),
            gives: quote!(#gives #arguments),
            legal: legal_from(&branch.ident, &targets.join(" | "), &branch.sources, machine),
            sources: branch.sources.clone(),
        }
    });
    steps.chain(branches).collect()
}

/// Returns where a step is legal, with its target: at each state where there is more than one.
fn legal(method: &Method, machine: &MachineDef) -> String {
    if let [target] = &machine.targets(method)[..] {
        let sources: Vec<usize> = method.sources().collect();
        return legal_from(&method.ident, &target.ident.to_string(), &sources, machine);
    }
    let edges = method.edges.iter().map(|(source, target)| {
        let [source, target] = [source, target].map(|state| &machine.states[*state].ident);
        format!("`{source}` -> {target}")
    });
    format!("`{}` is legal from: {}", method.ident, list(edges))
}

fn legal_from(step: &Ident, targets: &str, sources: &[usize], machine: &MachineDef) -> String {
    let sources = sources
        .iter()
        .map(|source| format!("`{}`", machine.states[*source].ident));
    format!("`{step}` -> {targets} is legal from: {}", list(sources))
}

/// Methods that cannot be called, for the states of a machine.
pub(super) struct Stubs<'a> {
    calls: Vec<StubCall<'a>>,
    machine: &'a MachineDef,
    out: &'a GeneratedNames,
}

impl<'a> Stubs<'a> {
    pub(super) fn new(machine: &'a MachineDef, out: &'a GeneratedNames) -> Self {
        let mut calls = calls(machine, out);
        if machine.states.len() * calls.len() > MOST_PAIRS {
            calls.clear();
        }
        Self { calls, machine, out }
    }

    /// One trait for each illegal pair; what is asked of data and of any state is here as well.
    pub(super) fn bounds(&self) -> TokenStream {
        let states = self.machine.states.iter().enumerate();
        let bounds = states.flat_map(|(index, state)| {
            let illegal = self.illegal(index);
            illegal.map(move |call| bound(state, call, self.machine, self.out))
        });
        let generic = Generic::new(self.machine, self.out).bounds();
        let (leads, hints) = self.elsewhere();
        quote! {
            #[doc(hidden)]
            pub mod illegal {
                #(#bounds)*
                #generic
                #hints
            }

            #leads
        }
    }

    /// One hidden method for each call that is illegal on a state.
    pub(super) fn methods(&self, index: usize) -> TokenStream {
        let state = &self.machine.states[index];
        self.illegal(index)
            .map(|call| stub(state, call, self.machine))
            .collect()
    }

    /// Returns hints for types without steps: the data of a state, a stored value, a value of any state. Each leads to a type without values, whose
    /// methods name the type that has the step. Methods of the user with that name are found first.
    fn elsewhere(&self) -> (TokenStream, TokenStream) {
        if self.calls.is_empty() {
            return (TokenStream::new(), TokenStream::new());
        }
        let GeneratedNames {
            typed,
            stored,
            module,
            ..
        } = self.out;
        let data = self.machine.states.iter().map(|state| {
            let ident = &state.ident;
            let message = format!(
                "`{module}::{ident}` is the data of a state, and data makes no steps: a `{typed}<{ident}>` does"
            );
            let note = match self.machine.types {
                true => format!("`{stored}` is an enum of typed values: `match` that"),
                false => format!("`record.typed()?` gives a `{module}::Typed` to `match`, with a `{typed}<{ident}>` in it"),
            };
            self.hint(ident, &format!("DataOf{ident}"), &message, &note)
        });
        let any = match self.machine.types {
            true => stored.clone(),
            false => Ident::new("Typed", Span::call_site()),
        };
        let message = format!(
            "a `{any}` may be in any state, and not each of them has this step: `match` it, and make the step of the `{typed}` in it"
        );
        let any = self.hint(
            &any,
            "AnyTyped",
            &message,
            "the name of the variant is that of the state",
        );
        let record = (!self.machine.types).then(|| {
            let message = format!("a `{stored}` may be in any state: its steps are events, or those of the typed value in it");
            let note = format!("`record.apply({}::..)` makes the step if the state has it; `record.typed()?` gives a `{module}::Typed` to `match`", self.out.transition);
            self.hint(stored, "AnyStored", &message, &note)
        });
        data.chain([any]).chain(record).unzip()
    }

    /// A type with a method for each step, to which `owner` leads.
    fn hint(&self, owner: &Ident, name: &str, message: &str, note: &str) -> (TokenStream, TokenStream) {
        let name = format_ident!("{name}", span = Span::call_site());
        let bound = format_ident!("Step{name}", span = Span::call_site());
        let (params, arguments, clause) = self.machine.generics.split_for_impl();
        let methods = self.calls.iter().map(|call| hint_method(&bound, call));
        let never = never(&bound, message, "makes no steps", &[note.to_owned()]);
        let leads = quote! {
            #[doc(hidden)]
            #[automatically_derived]
            impl #params super::__core::ops::Deref for #owner #arguments #clause {
                type Target = illegal::#name;

                fn deref(&self) -> &illegal::#name {
                    &illegal::#name
                }
            }
        };
        let hint = quote! {
            pub struct #name;

            impl #name {
                #(#methods)*
            }

            #never
        };
        (leads, hint)
    }

    fn illegal(&self, state: usize) -> impl Iterator<Item = &StubCall<'a>> {
        self.calls
            .iter()
            .filter(move |call| !call.sources.contains(&state))
    }
}

fn bound(state: &StateDef, call: &StubCall<'_>, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let (typed, value) = (&out.typed, &out.value);
    let name = bound_name(state, call);
    let message = format!("`{typed}<{}>` has no transition `{}`", state.ident, call.name);
    let label = match state.terminal {
        true => format!("illegal: `{}` is terminal", state.ident),
        false => format!("illegal: this {value} is `{}`", state.ident),
    };
    let here = legal_moves(state, machine);
    never(&name, &message, &label, &[here, call.legal.clone()])
}

/// Generates a bound that never holds, with the message of the compiler. Without an implementation rustc would add that there is none, and that one
/// be added.
fn never(name: &Ident, message: &str, label: &str, notes: &[String]) -> TokenStream {
    quote! {
        #[diagnostic::on_unimplemented(message = #message, label = #label #(, note = #notes)*)]
        pub trait #name<'a>: super::sealed::Never {}
        #[diagnostic::do_not_recommend]
        impl<'a> #name<'a> for super::sealed::Nowhere {}
    }
}

/// Steps on a value whose state is a parameter: the trait of all states has each of them, under a bound that names the one to write.
pub(super) struct Generic<'a> {
    calls: Vec<StubCall<'a>>,
    machine: &'a MachineDef,
    out: &'a GeneratedNames,
}

impl<'a> Generic<'a> {
    pub(super) fn new(machine: &'a MachineDef, out: &'a GeneratedNames) -> Self {
        let mut calls = calls(machine, out);
        if machine.states.len() * calls.len() > MOST_PAIRS {
            calls.clear();
        }
        Self { calls, machine, out }
    }

    fn bound_name(call: &StubCall<'_>) -> Ident {
        format_ident!("AnyState{}", call.key, span = Span::call_site())
    }

    /// The bounds.
    pub(super) fn bounds(&self) -> TokenStream {
        let GeneratedNames { typed, module, .. } = self.out;
        let bounds = self.calls.iter().map(|call| {
            let StubCall { name, key, .. } = call;
            let message = format!("not every state of `{typed}` has the step `{name}`");
            let bound = match self.is_branch(call) {
                true => "take the value in one of these states".to_owned(),
                false => format!(
                    "write the bound `{module}::{key}: {module}::Edge<S>` for the state `S`, and make the step with `.step(..)`, which takes a `{module}::{key}`"
                ),
            };
            never(&Self::bound_name(call), &message, "the state is not known here", &[call.legal.clone(), bound])
        });
        bounds.collect()
    }

    fn is_branch(&self, call: &StubCall<'_>) -> bool {
        self.machine
            .branches
            .iter()
            .any(|branch| branch.ident == *call.name)
    }

    /// The methods of the trait.
    pub(super) fn methods(&self) -> TokenStream {
        let typed = &self.out.typed;
        let (state_trait, lifetime) = (&self.out.state_trait, generics::lifetime(self.machine));
        let methods = self.calls.iter().map(|call| {
            let bound = Self::bound_name(call);
            let here = Span::call_site().located_at(call.name.span());
            let name = named(call.name, here);
            let argument = call.argument.as_ref().map(|_| quote!(<T>));
            let argument_type = call.argument.as_ref().map(|_| quote!(, _: T));
            quote_spanned! {here=>
                #[doc(hidden)]
                fn #name #argument(self #argument_type) -> #typed<Self>
                where
                    Self: #state_trait,
                    for<#lifetime> Nobody: super::illegal::#bound<#lifetime>,
                {
                    never()
                }
            }
        });
        methods.collect()
    }
}

fn stub(state: &StateDef, call: &StubCall<'_>, machine: &MachineDef) -> TokenStream {
    let (ident, bound) = (&state.ident, bound_name(state, call));
    let StubCall {
        name,
        argument,
        gives,
        ..
    } = call;
    let (_, arguments, _) = machine.generics.split_for_impl();
    let lifetime = generics::lifetime(machine);
    // The compiler's last note then shows the state with its `#[to(..)]`.
    let here = Span::call_site().located_at(ident.span());
    let name = named(name, here);
    quote_spanned! {here=>
        #[doc(hidden)]
        pub fn #name(self #argument) -> #gives
        where
            for<#lifetime> #ident #arguments: illegal::#bound<#lifetime>,
        {
            never()
        }
    }
}

fn hint_method(bound: &Ident, call: &StubCall<'_>) -> TokenStream {
    let here = Span::call_site().located_at(call.name.span());
    let bound = named(bound, here);
    let name = named(call.name, here);
    let parameter = call.argument.as_ref().map(|_| quote!(<T>));
    let argument = call.argument.as_ref().map(|_| quote!(, _: T));
    quote_spanned! {here=>
        pub fn #name #parameter(self #argument) -> Self
        where
            for<'a> super::sealed::Nobody: #bound<'a>,
        {
            super::never()
        }
    }
}

/// A name at another place.
fn named(name: &Ident, here: Span) -> Ident {
    let mut name = name.clone();
    name.set_span(here);
    name
}

fn bound_name(state: &StateDef, call: &StubCall<'_>) -> Ident {
    format_ident!("{}{}", state.ident, call.key, span = Span::call_site())
}
