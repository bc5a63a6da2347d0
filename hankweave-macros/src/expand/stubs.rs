//! Illegal steps, so that the compiler can say in the words of the machine why they are illegal.
//!
//! For each state and each method that the state lacks there is a hidden method whose bound can never hold. rustc
//! prints the text of that bound. Editors hide the stubs, because they are `#[doc(hidden)]`. Their number is the square of the machine's
//! size, so each is as short as can be.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};

use crate::model::{Branch, Machine, State};

use super::transitions::legal_moves;
use super::{Names, generics, list};

/// Above this number of pairs the stubs would cost more compile time than their messages are worth.
const MOST_PAIRS: usize = 400;

/// What can be called on some states and not on others.
struct Call<'a> {
    name: &'a Ident,
    /// The type of its argument; traits are named after it, also where there is none.
    key: &'a Ident,
    argument: Option<TokenStream>,
    gives: TokenStream,
    targets: String,
    sources: &'a [usize],
}

fn calls<'a>(machine: &'a Machine, out: &Names) -> Vec<Call<'a>> {
    let typed = &out.typed;
    let (_, arguments, _) = machine.generics.split_for_impl();
    let steps = machine.methods.iter().map(|method| {
        let (to, key) = (&machine.target(method).ident, &method.metadata);
        let of_key = generics::used(machine.metadata(method), machine);
        let (_, of_key, _) = of_key.split_for_impl();
        Call {
            name: &method.ident,
            key,
            argument: machine.metadata(method).next().map(|_| quote!(, _: #key #of_key)),
            gives: quote!(#typed<#to #arguments>),
            targets: to.to_string(),
            sources: &method.sources,
        }
    });
    let branches = machine.branches.iter().map(|branch| {
        let targets = branch.outcomes.iter().map(|method| &machine.methods[*method]);
        let targets: Vec<String> = targets
            .map(|method| machine.target(method).ident.to_string())
            .collect();
        let Branch { asks, gives, .. } = branch;
        let of_asks = generics::used(machine.demands(branch), machine);
        let (_, of_asks, _) = of_asks.split_for_impl();
        Call {
            name: &branch.ident,
            key: asks,
            argument: Some(quote!(, _: #asks #of_asks)),
            gives: quote!(#gives #arguments),
            targets: targets.join(" | "),
            sources: &branch.sources,
        }
    });
    steps.chain(branches).collect()
}

/// What cannot be called, for the states of a machine.
pub(super) struct Stubs<'a> {
    calls: Vec<Call<'a>>,
    machine: &'a Machine,
    out: &'a Names,
}

impl<'a> Stubs<'a> {
    pub(super) fn new(machine: &'a Machine, out: &'a Names) -> Self {
        let mut calls = calls(machine, out);
        if machine.states.len() * calls.len() > MOST_PAIRS {
            calls.clear();
        }
        Self { calls, machine, out }
    }

    /// One trait for each illegal pair.
    pub(super) fn bounds(&self) -> TokenStream {
        let states = self.machine.states.iter().enumerate();
        let bounds = states.flat_map(|(index, state)| {
            let illegal = self.illegal(index);
            illegal.map(move |call| bound(state, call, self.machine, self.out))
        });
        quote! {
            #[doc(hidden)]
            pub mod illegal {
                #(#bounds)*
            }
        }
    }

    /// One hidden method for each call that is illegal on a state.
    pub(super) fn methods(&self, index: usize) -> TokenStream {
        let state = &self.machine.states[index];
        self.illegal(index)
            .map(|call| stub(state, call, self.machine))
            .collect()
    }

    fn illegal(&self, state: usize) -> impl Iterator<Item = &Call<'a>> {
        self.calls
            .iter()
            .filter(move |call| !call.sources.contains(&state))
    }
}

fn bound(state: &State, call: &Call<'_>, machine: &Machine, out: &Names) -> TokenStream {
    let (typed, value) = (&out.typed, &out.value);
    let name = bound_name(state, call);
    let message = format!("`{typed}<{}>` has no transition `{}`", state.ident, call.name);
    let label = match state.terminal {
        true => format!("illegal: `{}` is terminal", state.ident),
        false => format!("illegal: this {value} is `{}`", state.ident),
    };
    let here = legal_moves(state, machine);
    let sources = call
        .sources
        .iter()
        .map(|source| format!("`{}`", machine.states[*source].ident));
    let there = format!(
        "`{}` -> {} is legal from: {}",
        call.name,
        call.targets,
        list(sources)
    );
    quote! {
        #[diagnostic::on_unimplemented(message = #message, label = #label, note = #here, note = #there)]
        pub trait #name<'a>: super::sealed::Never {}
    }
}

fn stub(state: &State, call: &Call<'_>, machine: &Machine) -> TokenStream {
    let (ident, bound) = (&state.ident, bound_name(state, call));
    let Call {
        name,
        argument,
        gives,
        ..
    } = call;
    let (_, arguments, _) = machine.generics.split_for_impl();
    let lifetime = generics::lifetime(machine);
    // The compiler's last note then shows the state with its `#[to(..)]`.
    let here = Span::call_site().located_at(ident.span());
    let name = format_ident!("{name}", span = here);
    quote_spanned! {here=>
        #[doc(hidden)]
        pub fn #name(self #argument) -> #gives
        where
            for<#lifetime> #ident #arguments: illegal::#bound<#lifetime>,
        {
            sealed::never()
        }
    }
}

fn bound_name(state: &State, call: &Call<'_>) -> Ident {
    format_ident!("{}{}", state.ident, call.key, span = Span::call_site())
}
