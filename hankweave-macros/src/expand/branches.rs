//! Generates branching steps, `decide => Open | Closed`: each outcome is a step of its own (`decide_open`), and the method `decide` takes any outcome.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};

use crate::model::{Branch, MachineDef, Method};

use super::states::derives;
use super::{GeneratedNames, generics};

/// Generates for each branching step the enum from which the caller chooses, and the enum that the method returns.
pub(super) fn branches(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let branches = machine.branches.iter();
    branches.map(|branch| enums(branch, machine, out)).collect()
}

/// Generates the methods of branching steps, in the module of the typed value.
pub(super) fn methods(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let branches = machine.branches.iter();
    branches.map(|branch| method(branch, machine, out)).collect()
}

/// Returns the methods of all outcomes of a branch.
fn outcomes<'a>(branch: &Branch, machine: &'a MachineDef) -> Vec<&'a Method> {
    let outcomes = branch.outcomes.iter();
    outcomes.map(|method| &machine.methods[*method]).collect()
}

/// Returns the target of each outcome; an outcome has only one.
fn targets<'a>(outcomes: &[&Method], machine: &'a MachineDef) -> Vec<&'a Ident> {
    let targets = outcomes.iter().flat_map(|method| machine.targets(method));
    targets.map(|target| &target.ident).collect()
}

/// Returns for each outcome the content of its pattern, and the expression for its step in the arm of that pattern.
fn cases(outcomes: &[&Method], machine: &MachineDef) -> (Vec<Option<TokenStream>>, Vec<TokenStream>) {
    let cases = outcomes
        .iter()
        .map(|method| match machine.supplied_fields(method).next() {
            Some(_) => (Some(quote!((step))), quote!(step)),
            None => (None, method.metadata.to_token_stream()),
        });
    cases.unzip()
}

fn enums(branch: &Branch, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames { vis, typed, .. } = out;
    let Branch {
        ident,
        choice,
        result,
        ..
    } = branch;
    let outcomes = outcomes(branch, machine);
    let targets = targets(&outcomes, machine);
    let (patterns, steps) = cases(&outcomes, machine);
    let open = machine.non_exhaustive();
    let (choice_derives, result_derives) = (derives(machine, false), super::any::derives(machine));
    let choice_docs = format!("The outcomes of `{ident}`, each with what it demands.");
    let result_docs = format!("A {typed} after `{ident}`.");
    let result_variant_docs = targets.iter().map(|target| format!("It is [`{target}`]."));
    let choice_variant_docs = targets.iter().map(|target| format!("On to [`{target}`]."));
    let (_, arguments, _) = machine.generics.split_for_impl();
    let (generics, clause) = (&machine.generics, &machine.generics.where_clause);
    let choice_generics = generics::used(machine.supplied_fields_of_branch(branch), machine);
    let choice_clause = &choice_generics.where_clause;
    let contents = outcomes.iter().map(|method| {
        let used = generics::used(machine.supplied_fields(method), machine);
        let (key, (_, of_key, _)) = (&method.metadata, used.split_for_impl());
        let first_supplied = machine.supplied_fields(method).next();
        first_supplied.map(|_| quote!((#key #of_key)))
    });
    let events = (!machine.types).then(|| {
        let transition = &out.transition;
        quote! {
            #[automatically_derived]
            impl __core::convert::From<#choice> for #transition {
                fn from(outcome: #choice) -> Self {
                    match outcome {
                        #(#choice::#targets #patterns => __core::convert::Into::into(#steps),)*
                    }
                }
            }
        }
    });
    let values = targets.iter().map(|target| quote!(#typed<#target #arguments>));
    quote! {
        #[doc = #choice_docs]
        #open
        #choice_derives
        #vis enum #choice #choice_generics #choice_clause {
            #(#[doc = #choice_variant_docs] #targets #contents,)*
        }

        #[doc = #result_docs]
        #open
        #result_derives
        #[must_use = "the value is in here"]
        #vis enum #result #generics #clause {
            #(#[doc = #result_variant_docs] #targets(#values),)*
        }

        #events
    }
}

/// Generates the method of a branching step, once for each state that it leaves.
fn method(branch: &Branch, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames { vis, typed, .. } = out;
    let Branch {
        ident,
        choice,
        result,
        ..
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
    let choice_generics = generics::used(machine.supplied_fields_of_branch(branch), machine);
    let (_, choice_arguments, _) = choice_generics.split_for_impl();
    let method = quote! {
        #[doc = #docs]
        #vis fn #ident(self, outcome: #choice #choice_arguments) -> #result #arguments {
            match outcome {
                #(#choice::#targets #patterns => #result::#targets(#typed(Edge::advance(#steps, self.0))),)*
            }
        }
    };
    let methods = sources.map(|source| quote!(impl #params #typed<#source #arguments> #bounds { #method }));
    methods.collect()
}
