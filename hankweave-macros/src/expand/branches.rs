//! Branching steps: each outcome is a step of its own, and one method takes whichever it was.

use proc_macro2::TokenStream;
use quote::quote;

use crate::model::{Branch, Machine, Method};

use super::states::derives;
use super::{Names, generics};

/// For each branching step what it is told, where it leads, and its method.
pub(super) fn branches(machine: &Machine, out: &Names) -> TokenStream {
    machine
        .branches
        .iter()
        .map(|branch| of_branch(branch, machine, out))
        .collect()
}

fn of_branch(branch: &Branch, machine: &Machine, out: &Names) -> TokenStream {
    let Names { vis, typed, .. } = out;
    let Branch {
        ident, asks, gives, ..
    } = branch;
    let outcomes: Vec<&Method> = branch
        .outcomes
        .iter()
        .map(|method| &machine.methods[*method])
        .collect();
    let targets: Vec<_> = outcomes
        .iter()
        .map(|method| &machine.target(method).ident)
        .collect();
    let keys: Vec<_> = outcomes.iter().map(|method| &method.metadata).collect();
    let demands = |method: &&Method| machine.metadata(method).next().is_some();
    let patterns: Vec<_> = outcomes
        .iter()
        .map(|method| demands(method).then(|| quote!((step))))
        .collect();
    let steps: Vec<_> = outcomes
        .iter()
        .zip(&keys)
        .map(|(method, key)| match demands(method) {
            true => quote!(step),
            false => quote!(#key),
        })
        .collect();
    let sources = branch.sources.iter().map(|source| &machine.states[*source].ident);
    let (told, given) = (derives(machine, false), super::any::derives(machine));
    let asks_docs = format!("The outcomes of `{ident}`, each with what it demands.");
    let gives_docs = format!("A {typed} after `{ident}`.");
    let to = targets.iter().map(|target| format!("It is [`{target}`]."));
    let told_docs = targets.iter().map(|target| format!("On to [`{target}`]."));
    let docs = format!(
        "Moves on to one of {}.",
        super::list(targets.iter().map(|target| format!("[`{target}`]")))
    );
    let (params, arguments, bounds) = machine.generics.split_for_impl();
    let (generics, clause) = (&machine.generics, &machine.generics.where_clause);
    let asked = generics::used(machine.demands(branch), machine);
    let asked_clause = &asked.where_clause;
    let (_, of_asked, _) = asked.split_for_impl();
    let contents = outcomes.iter().map(|method| {
        let used = generics::used(machine.metadata(method), machine);
        let (key, (_, of_key, _)) = (&method.metadata, used.split_for_impl());
        demands(method).then(|| quote!((#key #of_key)))
    });
    let events = (!machine.types).then(|| {
        let transition = &out.transition;
        quote! {
            #[automatically_derived]
            impl ::core::convert::From<#asks> for #transition {
                fn from(outcome: #asks) -> Self {
                    match outcome {
                        #(#asks::#targets #patterns => #steps.into(),)*
                    }
                }
            }
        }
    });
    let method = quote! {
        #[doc = #docs]
        #vis fn #ident(self, outcome: #asks #of_asked) -> #gives #arguments {
            match outcome {
                #(#asks::#targets #patterns => #gives::#targets(#typed(Edge::advance(#steps, self.0))),)*
            }
        }
    };
    let methods = sources.map(|source| quote!(impl #params #typed<#source #arguments> #bounds { #method }));
    let values = targets.iter().map(|target| quote!(#typed<#target #arguments>));
    quote! {
        #[doc = #asks_docs]
        #told
        #vis enum #asks #asked #asked_clause {
            #(#[doc = #told_docs] #targets #contents,)*
        }

        #[doc = #gives_docs]
        #given
        #[must_use = "the value is in here"]
        #vis enum #gives #generics #clause {
            #(#[doc = #to] #targets(#values),)*
        }

        #events

        #(#methods)*
    }
}
