//! Generates stubs: methods for illegal steps, so that the compiler can explain in the words of the machine why a step is illegal.
//!
//! For each state and each step that the state lacks there is a hidden method whose bound can never hold: a trait whose message rustc prints. Values whose
//! state is a type parameter ([`Generic`]) and types that make no steps, such as the data of a state (`Stubs::hints`), have such methods too. Editors hide the
//! stubs, because they are `#[doc(hidden)]`. Their number grows with the square of the machine's size, so each is as short as can be.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};

use crate::model::{Branch, MachineDef, Method, StateDef};

use super::transitions::legal_moves;
use super::{GeneratedNames, generics, list};

/// Number of pairs of state and step above which there are no stubs: they would cost more compile time than their messages are worth.
const MOST_PAIRS: usize = 400;

/// Method of a step or of a branch, which some states lack.
struct StubCall<'a> {
    name: &'a Ident,
    /// The type of the argument; the traits are named after it, also where the method takes no argument.
    key: &'a Ident,
    /// The argument as declared, `, _: Lock`; `None` for a step without fields.
    argument: Option<TokenStream>,
    returns: TokenStream,
    /// Indices of the states that have the method.
    sources: Vec<usize>,
    /// Text for messages: the states that have the method.
    legal: String,
}

/// Returns the methods of all steps and branches; none if there are too many pairs.
fn calls<'a>(machine: &'a MachineDef, out: &GeneratedNames) -> Vec<StubCall<'a>> {
    let typed = &out.typed;
    let (_, arguments, _) = machine.generics.split_for_impl();
    let steps = machine.methods.iter().map(|method| {
        let (targets, key) = (machine.targets(method), &method.metadata);
        let to = targets.first().map(|target| &target.ident);
        let of_key = generics::used(machine.supplied_fields(method), machine);
        let (_, of_key, _) = of_key.split_for_impl();
        StubCall {
            name: &method.ident,
            key,
            argument: machine
                .supplied_fields(method)
                .next()
                .map(|_| quote!(, _: #key #of_key)),
            returns: quote!(#typed<#to #arguments>),
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
        let Branch { choice, result, .. } = branch;
        let choice_generics = generics::used(machine.supplied_fields_of_branch(branch), machine);
        let (_, choice_arguments, _) = choice_generics.split_for_impl();
        StubCall {
            name: &branch.ident,
            key: choice,
            argument: Some(quote!(, _: #choice #choice_arguments)),
            returns: quote!(#result #arguments),
            legal: legal_from(&branch.ident, &targets.join(" | "), &branch.sources, machine),
            sources: branch.sources.clone(),
        }
    });
    let calls: Vec<StubCall<'a>> = steps.chain(branches).collect();
    let is_too_large = machine.states.len() * calls.len() > MOST_PAIRS;
    if is_too_large { Vec::new() } else { calls }
}

/// Returns the text that says in which states a step is legal and where it leads.
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

/// Stubs of the typed value in each state, and hints for types that make no steps at all.
pub(super) struct Stubs<'a> {
    calls: Vec<StubCall<'a>>,
    machine: &'a MachineDef,
    out: &'a GeneratedNames,
}

impl<'a> Stubs<'a> {
    pub(super) fn new(machine: &'a MachineDef, out: &'a GeneratedNames) -> Self {
        let calls = calls(machine, out);
        Self { calls, machine, out }
    }

    /// Generates the module `illegal` with all bounds, also those of [`Generic`], and the hints.
    pub(super) fn bounds(&self) -> TokenStream {
        let states = self.machine.states.iter().enumerate();
        let bounds = states.flat_map(|(index, state)| {
            let illegal = self.illegal(index);
            illegal.map(move |call| bound(state, call, self.machine, self.out))
        });
        let generic = Generic::new(self.machine, self.out).bounds();
        let (derefs, hints) = self.hints();
        quote! {
            #[doc(hidden)]
            pub mod illegal {
                #(#bounds)*
                #generic
                #hints
            }

            #derefs
        }
    }

    /// Generates a hidden method for each step that a state lacks.
    pub(super) fn methods(&self, index: usize) -> TokenStream {
        let state = &self.machine.states[index];
        self.illegal(index)
            .map(|call| stub(state, call, self.machine))
            .collect()
    }

    /// Generates hints for types that make no steps: the data of a state, a stored value, a typed value of any state. Each of these types dereferences to a
    /// hint, a struct with a stub for each step, whose message names the type that has the step. A method of the user with the name of a step is found first.
    /// Returns the `Deref` implementations, and the hints with their bounds.
    fn hints(&self) -> (TokenStream, TokenStream) {
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

    /// Generates one hint for the type `owner`: its `Deref` implementation, and the struct with its bound.
    fn hint(&self, owner: &Ident, name: &str, message: &str, note: &str) -> (TokenStream, TokenStream) {
        let name = format_ident!("{name}", span = Span::call_site());
        let bound = format_ident!("Step{name}", span = Span::call_site());
        let (params, arguments, clause) = self.machine.generics.split_for_impl();
        let methods = self.calls.iter().map(|call| hint_method(&bound, call));
        let never = never(&bound, message, "makes no steps", &[note.to_owned()]);
        let deref = quote! {
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
        (deref, hint)
    }

    /// Returns the steps that a state lacks.
    fn illegal(&self, state: usize) -> impl Iterator<Item = &StubCall<'a>> {
        self.calls
            .iter()
            .filter(move |call| !call.sources.contains(&state))
    }
}

/// Generates the bound of a step that a state lacks.
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

/// Generates a bound that never holds: a trait with the message that rustc prints. Its one implementation is for a type that nothing uses; without any, rustc
/// would add that no type implements the trait, and advise to write an implementation.
fn never(name: &Ident, message: &str, label: &str, notes: &[String]) -> TokenStream {
    quote! {
        #[diagnostic::on_unimplemented(message = #message, label = #label #(, note = #notes)*)]
        pub trait #name<'a>: super::sealed::Never {}
        #[diagnostic::do_not_recommend]
        impl<'a> #name<'a> for super::sealed::Nowhere {}
    }
}

/// Stubs of a typed value whose state is a type parameter: the sealed trait of all states has a method for each step, whose message names the bound that the
/// user has to write.
pub(super) struct Generic<'a> {
    calls: Vec<StubCall<'a>>,
    machine: &'a MachineDef,
    out: &'a GeneratedNames,
}

impl<'a> Generic<'a> {
    pub(super) fn new(machine: &'a MachineDef, out: &'a GeneratedNames) -> Self {
        let calls = calls(machine, out);
        Self { calls, machine, out }
    }

    fn bound_name(call: &StubCall<'_>) -> Ident {
        format_ident!("AnyState{}", call.key, span = Span::call_site())
    }

    /// Generates the bounds of these methods.
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

    /// Generates the methods of the sealed trait.
    pub(super) fn methods(&self) -> TokenStream {
        let typed = &self.out.typed;
        let (state_trait, lifetime) = (&self.out.state_trait, generics::lifetime(self.machine));
        let methods = self.calls.iter().map(|call| {
            let bound = Self::bound_name(call);
            let here = Span::call_site().located_at(call.name.span());
            let name = with_span(call.name, here);
            let parameter = call.argument.as_ref().map(|_| quote!(<T>));
            let argument = call.argument.as_ref().map(|_| quote!(, _: T));
            quote_spanned! {here=>
                #[doc(hidden)]
                fn #name #parameter(self #argument) -> #typed<Self>
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

/// Generates the hidden method for a step that a state lacks.
fn stub(state: &StateDef, call: &StubCall<'_>, machine: &MachineDef) -> TokenStream {
    let (ident, bound) = (&state.ident, bound_name(state, call));
    let StubCall {
        name,
        argument,
        returns,
        ..
    } = call;
    let (_, arguments, _) = machine.generics.split_for_impl();
    let lifetime = generics::lifetime(machine);
    // The compiler's last note then shows the state with its `#[to(..)]`.
    let here = Span::call_site().located_at(ident.span());
    let name = with_span(name, here);
    quote_spanned! {here=>
        #[doc(hidden)]
        pub fn #name(self #argument) -> #returns
        where
            for<#lifetime> #ident #arguments: illegal::#bound<#lifetime>,
        {
            never()
        }
    }
}

fn hint_method(bound: &Ident, call: &StubCall<'_>) -> TokenStream {
    let here = Span::call_site().located_at(call.name.span());
    let bound = with_span(bound, here);
    let name = with_span(call.name, here);
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

fn with_span(name: &Ident, here: Span) -> Ident {
    let mut name = name.clone();
    name.set_span(here);
    name
}

fn bound_name(state: &StateDef, call: &StubCall<'_>) -> Ident {
    format_ident!("{}{}", state.ident, call.key, span = Span::call_site())
}
