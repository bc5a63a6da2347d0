//! Illegal steps, so that the compiler can say in the words of the machine why they are illegal.
//!
//! For each state and each method that the state lacks there is a hidden method whose bound can never hold. rustc
//! prints the text of that bound. Editors hide the stubs, because they are `#[doc(hidden)]`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};

use crate::model::{Machine, Method, State};

use super::transitions::legal_moves;
use super::{Names, list};

/// Above this number of pairs the stubs would cost more compile time than their messages are worth.
const MOST_PAIRS: usize = 400;

/// One hidden method and one trait for each illegal pair.
pub(super) fn stubs(machine: &Machine, out: &Names) -> TokenStream {
    if machine.states.len() * machine.methods.len() > MOST_PAIRS {
        return TokenStream::new();
    }
    let pairs = machine.states.iter().enumerate().flat_map(|(index, state)| {
        machine
            .methods
            .iter()
            .filter(move |method| !method.sources.contains(&index))
            .map(move |method| (state, method))
    });
    let (traits, methods): (Vec<_>, Vec<_>) = pairs
        .map(|(state, method)| {
            (
                bound(state, method, machine, out),
                stub(state, method, machine, out),
            )
        })
        .unzip();
    quote! {
        #[doc(hidden)]
        pub mod illegal {
            #(#traits)*
        }

        #(#methods)*
    }
}

fn bound(state: &State, method: &Method, machine: &Machine, out: &Names) -> TokenStream {
    let (typed, value) = (&out.typed, &out.value);
    let name = bound_name(state, method);
    let message = format!("`{typed}<{}>` has no transition `{}`", state.ident, method.ident);
    let label = match state.terminal {
        true => format!("illegal: `{}` is terminal", state.ident),
        false => format!("illegal: this {value} is `{}`", state.ident),
    };
    let here = legal_moves(state, machine);
    let sources = method
        .sources
        .iter()
        .map(|source| format!("`{}`", machine.states[*source].ident));
    let there = format!(
        "`{}` -> {} is legal from: {}",
        method.ident,
        machine.target(method).ident,
        list(sources)
    );
    quote! {
        #[diagnostic::on_unimplemented(message = #message, label = #label, note = #here, note = #there)]
        pub trait #name<'a>: super::sealed::Never {}
    }
}

fn stub(state: &State, method: &Method, machine: &Machine, out: &Names) -> TokenStream {
    let typed = &out.typed;
    let (ident, target) = (&state.ident, machine.target(method));
    let (name, key, to, bound) = (
        &method.ident,
        &method.metadata,
        &target.ident,
        bound_name(state, method),
    );
    let argument = target.supplied().next().map(|_| quote!(, _: #key));
    // The compiler's last note then shows the state with its `#[to(..)]`.
    let here = Span::call_site().located_at(ident.span());
    let name = format_ident!("{name}", span = here);
    quote_spanned! {here=>
        impl #typed<#ident> {
            #[doc(hidden)]
            pub fn #name(self #argument) -> #typed<#to>
            where
                for<'a> #ident: illegal::#bound<'a>,
            {
                ::core::unreachable!("the bound never holds")
            }
        }
    }
}

fn bound_name(state: &State, method: &Method) -> proc_macro2::Ident {
    format_ident!("{}{}", state.ident, method.metadata, span = Span::call_site())
}
