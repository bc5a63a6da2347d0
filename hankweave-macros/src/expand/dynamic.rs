//! Generates the stored enum, which holds a value in any state and checks steps at run time, and the event enum, whose values are its steps.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

use crate::case::text;
use crate::model::{Carried, FieldDef, LiveChange, MachineDef, Method, StateDef, ValueSource};

use super::states::links;
use super::values::next_function_name;
use super::{GeneratedNames, checked, if_stored};

/// Generates the stored enum, under the name of the user's enum, with `apply`.
pub(super) fn stored_enum(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        vis,
        stored,
        status,
        transition,
        typed,
        krate,
        ..
    } = out;
    let MachineDef {
        docs, attrs, derives, ..
    } = machine;
    let states: Vec<_> = machine.states.iter().map(|state| &state.ident).collect();
    let serde = if_stored(
        machine,
        quote! {
            #[automatically_derived]
            impl #krate::__private::serde::Serialize for #stored {
                fn serialize<S: #krate::__private::serde::Serializer>(
                    &self,
                    serializer: S,
                ) -> __core::result::Result<S::Ok, S::Error> {
                    match self {
                        #(Self::#states(state) => #krate::__private::serde::Serialize::serialize(state, serializer),)*
                    }
                }
            }
        },
    );
    let variants = machine.states.iter().map(|state| {
        let (ident, docs, name) = (&state.ident, &state.docs, &state.stored_name);
        let summary = docs
            .is_empty()
            .then(|| format!("Status `{name}`."))
            .map(|text| quote!(#[doc = #text]));
        quote!(#(#docs)* #summary #ident(#ident),)
    });
    let idents: Vec<_> = machine.states.iter().map(|state| &state.ident).collect();
    let arms = machine
        .methods
        .iter()
        .map(|method| step_arm(method, machine, out));
    let changes = machine.live_changes();
    let change_arms = changes.iter().map(|change| change_arm(change, machine, out));
    // A machine whose only edge is mistaken has no event that could be refused.
    let refuse = (!machine.methods.is_empty()).then(|| {
        // The error always has a target: the only one of the event, else the one from the present state, else the present state itself.
        let to = match leads_to_one(machine) {
            true => quote!(event.target()),
            false => quote!(event.target().or(event.target_from(from)).unwrap_or(from)),
        };
        quote! {
            #[cold]
            fn refuse(self, event: #transition, reason: #krate::Reason) -> InvalidTransition {
                let from = self.status();
                #krate::__private::refused(from, event.method(), #to, from.steps(), reason, self, event)
            }
        }
    });
    let rules = rules(machine, out);
    let apply_docs = format!("Makes a step, if the {typed} has it in its present state.");
    quote! {
        #(#docs)*
        #(#attrs)*
        #[derive(__core::fmt::Debug, __core::clone::Clone, __core::cmp::PartialEq #(, #derives)*)]
        #vis enum #stored {
            #(#variants)*
        }

        #serde

        impl #stored {
            /// The status of the value.
            #vis const fn status(&self) -> #status {
                match self {
                    #(Self::#idents(_) => #status::#idents,)*
                }
            }

            /// Whether no step can follow.
            #vis const fn is_terminal(&self) -> bool {
                self.status().is_terminal()
            }

            #[doc = #apply_docs]
            ///
            /// # Errors
            ///
            /// Hands the value back untouched, and the event, when the state has no such step, when the value breaks rules of its state, or when a
            /// number would leave the range of its type.
            #vis fn apply(self, transition: #transition) -> __core::result::Result<Self, InvalidTransition> {
                #rules
                match transition {
                    #(#arms)*
                    #(#change_arms)*
                }
            }

            #refuse
        }

        /// Why a step on a stored value was refused.
        #vis type InvalidTransition = #krate::InvalidTransition<#stored, #transition, #status>;
    }
}

/// Returns whether each event leads to one target, whichever state it leaves. The change of a live field leads to none.
fn leads_to_one(machine: &MachineDef) -> bool {
    let one = |method: &Method| method.targets().len() == 1;
    machine.live_changes().is_empty() && machine.methods.iter().all(one)
}

/// Generates the arm of `apply` for one event, in all states. The value is matched inside the match of the event: a pair of both would first be copied.
fn step_arm(method: &Method, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let (krate, transition) = (&out.krate, &out.transition);
    let (pattern, key) = event_pattern(method, machine);
    let arms = method.edges.iter().map(|(source, target)| {
        let [source, to] = [source, target].map(|state| &machine.states[*state]);
        let (from, to, refusals) = (
            &source.ident,
            &to.ident,
            refusals(method, *target, source, machine, out),
        );
        quote! {
            Self::#from(state) => {
                #refusals
                __core::result::Result::Ok(Self::#to(Edge::advance(#key, state)))
            }
        }
    });
    quote! {
        #transition::#pattern => match self {
            #(#arms)*
            value => __core::result::Result::Err(value.refuse(#transition::#pattern, #krate::Reason::NoSuchStep)),
        },
    }
}

/// Generates the checks that refuse a step whose computed fields have no next value or one that does not fit its type.
fn refusals(
    method: &Method,
    target: usize,
    source: &StateDef,
    machine: &MachineDef,
    out: &GeneratedNames,
) -> TokenStream {
    let (krate, transition, from) = (&out.krate, &out.transition, &source.ident);
    let (pattern, _) = event_pattern(method, machine);
    let changed = method.changes.as_ref();
    let computed = machine.states[target].fields.iter().filter(|field| {
        changed.is_none_or(|names| names.contains(&field.ident))
            && !machine.is_supplied(method, target, field)
    });
    let checks = computed.filter_map(|field| {
        let ValueSource::Carried(Carried {
            from: before,
            next: Some(next),
            ..
        }) = &field.entry
        else {
            return None;
        };
        if !source.has(before) || checked::of_next(next, machine, krate).is_none() {
            return None;
        }
        let function = next_function_name(target, field, source, machine);
        let name = &field.stored_name;
        let reason = match next.may_fail {
            true => quote!(NoNextValue),
            false => quote!(OutOfRange),
        };
        Some(quote! {
            if #function(__core::clone::Clone::clone(&state.#before)).is_none() {
                let reason = #krate::Reason::#reason { field: #name };
                return __core::result::Result::Err(Self::#from(state).refuse(#transition::#pattern, reason));
            }
        })
    });
    checks.collect()
}

/// Generates the check that refuses any step of a value that breaks rules of its state: the value after the step would be wrong as well.
fn rules(machine: &MachineDef, out: &GeneratedNames) -> Option<TokenStream> {
    let krate = &out.krate;
    let has_rule = |field: &FieldDef| {
        matches!(
            field.entry,
            ValueSource::Fixed(_) | ValueSource::Origin | ValueSource::Extra
        )
    };
    let mut fields = machine.states.iter().flat_map(|state| &state.fields);
    (fields.any(has_rule) && !machine.methods.is_empty()).then(|| {
        quote! {
            let violations = self.validate();
            if !violations.is_empty() {
                let reason = #krate::Reason::BrokenRules { violations };
                return __core::result::Result::Err(self.refuse(transition, reason));
            }
        }
    })
}

/// Generates the arm of `apply` for one recorded change of a live field, in all states.
fn change_arm(change: &LiveChange<'_>, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let (transition, field, variant) = (&out.transition, &change.field.ident, change.variant());
    let krate = &out.krate;
    let states = change.states.iter().map(|state| &state.ident);
    let others = (change.states.len() < machine.states.len()).then(|| {
        quote! {
            other => __core::result::Result::Err(
                other.refuse(#transition::#variant(value), #krate::Reason::NoSuchStep),
            ),
        }
    });
    if change.adds {
        let name = &change.field.stored_name;
        let sum = checked::sum(change.field, &quote!(state.#field), krate);
        return quote! {
            #transition::#variant(value) => match self {
                #(Self::#states(mut state) => {
                    let delta = __core::clone::Clone::clone(&value);
                    match #sum {
                        true => __core::result::Result::Ok(Self::#states(state)),
                        false => {
                            let reason = #krate::Reason::OutOfRange { field: #name };
                            __core::result::Result::Err(Self::#states(state).refuse(#transition::#variant(value), reason))
                        }
                    }
                })*
                #others
            },
        };
    }
    quote! {
        #transition::#variant(value) => match self {
            #(Self::#states(mut state) => {
                state.#field = value;
                __core::result::Result::Ok(Self::#states(state))
            })*
            #others
        },
    }
}

/// Returns the pattern for the event of a method, and the expression for the struct of the step in the arm of that pattern.
fn event_pattern(method: &Method, machine: &MachineDef) -> (TokenStream, TokenStream) {
    let (variant, key) = (&method.variant, &method.metadata);
    match machine.supplied_fields(method).next() {
        Some(_) => (quote!(#variant(metadata)), quote!(metadata)),
        None => (quote!(#variant), quote!(#key)),
    }
}

/// Generates the event enum: a variant for each step, with the struct of the step if it has fields, and one for each recorded change of a live field.
pub(super) fn event_enum(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        vis,
        typed,
        transition,
        ..
    } = out;
    let docs = format!("A step of a {typed} as an event.");
    let (open, requested) = (machine.non_exhaustive(), &machine.generated.events);
    let names: Vec<_> = machine.methods.iter().map(|method| text(&method.ident)).collect();
    let has_metadata = |method: &&Method| machine.supplied_fields(method).next().is_some();
    let patterns: Vec<_> = machine
        .methods
        .iter()
        .map(|method| {
            let variant = &method.variant;
            if has_metadata(&method) {
                quote!(#variant(_))
            } else {
                quote!(#variant)
            }
        })
        .collect();
    let variants = machine.methods.iter().map(|method| {
        let (variant, key) = (&method.variant, &method.metadata);
        let docs = format!("The step to {}.", links(method, machine));
        let content = has_metadata(&method).then(|| quote!((#key)));
        quote!(#[doc = #docs] #variant #content,)
    });
    let changes = machine.live_changes();
    let change_variants = changes.iter().map(change_variant);
    let change_names: Vec<_> = changes.iter().map(LiveChange::method).collect();
    let change_patterns: Vec<_> = changes.iter().map(LiveChange::variant).collect();
    let target = target(&patterns, &change_patterns, machine, out);
    let conversions = machine.methods.iter().map(|method| {
        let (variant, key) = (&method.variant, &method.metadata);
        let (argument, value) = match has_metadata(&method) {
            true => (quote!(metadata), quote!(Self::#variant(metadata))),
            false => (quote!(_), quote!(Self::#variant)),
        };
        quote! {
            #[automatically_derived]
            impl __core::convert::From<#key> for #transition {
                fn from(#argument: #key) -> Self {
                    #value
                }
            }
        }
    });
    quote! {
        #[doc = #docs]
        #open
        #[derive(__core::fmt::Debug, __core::clone::Clone, __core::cmp::PartialEq #(, #requested)*)]
        #vis enum #transition {
            #(#variants)*
            #(#change_variants)*
        }

        impl #transition {
            /// The method that makes the step.
            #vis const fn method(&self) -> &'static str {
                match *self {
                    #(Self::#patterns => #names,)*
                    #(Self::#change_patterns(_) => #change_names,)*
                }
            }

            #target
        }

        #(#conversions)*
    }
}

/// Generates the methods of an event that return its target: `target`, and `target_from` for the target from a given status.
fn target(
    patterns: &[TokenStream],
    changes: &[Ident],
    machine: &MachineDef,
    out: &GeneratedNames,
) -> TokenStream {
    let (vis, status) = (&out.vis, &out.status);
    let one = leads_to_one(machine);
    let targets = machine
        .methods
        .iter()
        .map(|method| match &machine.targets(method)[..] {
            [StateDef { ident, .. }] if one => quote!(#status::#ident),
            [StateDef { ident, .. }] => quote!(__core::option::Option::Some(#status::#ident)),
            _ => quote!(__core::option::Option::None),
        });
    let (docs, gives) = match one {
        true => ("The status that the step leads to.", quote!(#status)),
        false => (
            "The status that the step leads to; `None` for the change of a live field, which leaves the status as it is, and for a step that leads elsewhere \
             from another state: `target_from` tells that.",
            quote!(__core::option::Option<#status>),
        ),
    };
    let changes =
        (!changes.is_empty()).then(|| quote!(#(Self::#changes(_))|* => __core::option::Option::None,));
    quote! {
        #[doc = #docs]
        #vis const fn target(&self) -> #gives {
            match *self {
                #(Self::#patterns => #targets,)*
                #changes
            }
        }

        /// The status that the step leads to from this one; `None` where it is no step of that.
        #vis fn target_from(&self, from: #status) -> __core::option::Option<#status> {
            let mut steps = from.steps().iter();
            steps.find(|(step, _)| *step == self.method()).map(|(_, to)| *to)
        }
    }
}

fn change_variant(change: &LiveChange<'_>) -> TokenStream {
    let (variant, ident, ty) = (change.variant(), &change.field.ident, &change.field.ty);
    let what = if change.adds { "Adds to" } else { "Replaces" };
    let docs = format!("{what} `{ident}`; the status stays.");
    // A trait that the type lacks is then reported at the field.
    let here = Span::call_site().located_at(ident.span());
    quote_spanned!(here=> #[doc = #docs] #variant(#ty),)
}
