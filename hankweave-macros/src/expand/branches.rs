//! Branching steps: each outcome is a step of its own, and one method takes any outcome.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};

use crate::model::{Branch, MachineDef, Method};

use super::states::derives;
use super::{GeneratedNames, generics};

/// Generates for each branching step its data and its targets.
pub(super) fn branches(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let branches = machine.branches.iter();
    branches.map(|branch| data(branch, machine, out)).collect()
}

/// Generates the methods of branching steps, in the module of the typed value.
pub(super) fn methods(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let branches = machine.branches.iter();
    branches.map(|branch| method(branch, machine, out)).collect()
}

/// Returns the methods of all outcomes that a branch has.
fn outcomes<'a>(branch: &Branch, machine: &'a MachineDef) -> Vec<&'a Method> {
    let outcomes = branch.outcomes.iter();
    outcomes.map(|method| &machine.methods[*method]).collect()
}

/// Returns the target of each outcome; an outcome has only one.
fn targets<'a>(outcomes: &[&Method], machine: &'a MachineDef) -> Vec<&'a Ident> {
    let targets = outcomes.iter().flat_map(|method| machine.targets(method));
    targets.map(|target| &target.ident).collect()
}

/// How an outcome is matched, and the step that is then in hand.
fn cases(outcomes: &[&Method], machine: &MachineDef) -> (Vec<Option<TokenStream>>, Vec<TokenStream>) {
    let cases = outcomes
        .iter()
        .map(|method| match machine.metadata(method).next() {
            Some(_) => (Some(quote!((step))), quote!(step)),
            None => (None, method.metadata.to_token_stream()),
        });
    cases.unzip()
}

fn data(branch: &Branch, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames { vis, typed, .. } = out;
    let Branch {
        ident, asks, gives, ..
    } = branch;
    let outcomes = outcomes(branch, machine);
    let targets = targets(&outcomes, machine);
    let (patterns, steps) = cases(&outcomes, machine);
    let open = machine.non_exhaustive();
    let (told, given) = (derives(machine, false), super::any::derives(machine));
    let asks_docs = format!("The outcomes of `{ident}`, each with what it demands.");
    let gives_docs = format!("A {typed} after `{ident}`.");
    let to = targets.iter().map(|target| format!("It is [`{target}`]."));
    let told_docs = targets.iter().map(|target| format!("On to [`{target}`]."));
    let (_, arguments, _) = machine.generics.split_for_impl();
    let (generics, clause) = (&machine.generics, &machine.generics.where_clause);
    let asked = generics::used(machine.demands(branch), machine);
    let asked_clause = &asked.where_clause;
    let contents = outcomes.iter().map(|method| {
        let used = generics::used(machine.metadata(method), machine);
        let (key, (_, of_key, _)) = (&method.metadata, used.split_for_impl());
        let demands = machine.metadata(method).next();
        demands.map(|_| quote!((#key #of_key)))
    });
    let events = (!machine.types).then(|| {
        let transition = &out.transition;
        quote! {
            #[automatically_derived]
            impl __core::convert::From<#asks> for #transition {
                fn from(outcome: #asks) -> Self {
                    match outcome {
                        #(#asks::#targets #patterns => __core::convert::Into::into(#steps),)*
                    }
                }
            }
        }
    });
    let values = targets.iter().map(|target| quote!(#typed<#target #arguments>));
    quote! {
        #[doc = #asks_docs]
        #open
        #told
        #vis enum #asks #asked #asked_clause {
            #(#[doc = #told_docs] #targets #contents,)*
        }

        #[doc = #gives_docs]
        #open
        #given
        #[must_use = "the value is in here"]
        #vis enum #gives #generics #clause {
            #(#[doc = #to] #targets(#values),)*
        }

        #events
    }
}

fn method(branch: &Branch, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames { vis, typed, .. } = out;
    let Branch {
        ident, asks, gives, ..
    } = branch;
    let outcomes = outcomes(branch, machine);
    let targets = targets(&outcomes, machine);
    let (patterns, steps) = cases(&outcomes, machine);
    let sources = branch.sources.iter().map(|source| &machine.states[*source].ident);
    let docs = format!(
        "Moves on to one of {}.",
        super::list(targets.iter().map(|target| format!("[`{target}`]")))
    );
    let (params, arguments, bounds) = machine.generics.split_for_impl();
    let asked = generics::used(machine.demands(branch), machine);
    let (_, of_asked, _) = asked.split_for_impl();
    let method = quote! {
        #[doc = #docs]
        #vis fn #ident(self, outcome: #asks #of_asked) -> #gives #arguments {
            match outcome {
                #(#asks::#targets #patterns => #gives::#targets(#typed(Edge::advance(#steps, self.0))),)*
            }
        }
    };
    let methods = sources.map(|source| quote!(impl #params #typed<#source #arguments> #bounds { #method }));
    methods.collect()
}
