//! Generates the typed value, a struct for the data of each state, and a struct for the fields that the caller of each step supplies.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::Type;

use crate::model::{Carried, FieldDef, MachineDef, Method, StateDef, ValueSource, inside_option};

use super::generics::{self, phantom};
use super::values::{first_call, next_call};
use super::{GeneratedNames, if_stored, visibility};

/// Generates the typed value, `Door<S>`.
pub(super) fn typed(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        vis,
        typed,
        stored,
        status,
        state_trait,
        into_stored,
        to_stored,
        krate,
        ..
    } = out;
    let written_out = super::written_out::of_typed(machine, out);
    let docs = format!("A value of the `{typed}` machine that is known to be in state `S`.");
    let diagram = super::drawing::drawing(machine);
    let state_impls = machine.states.iter().map(|state| state_impl(state, machine, out));
    let into_stored_form = (!machine.types).then(|| {
        quote! {
            /// Gives up the typed value for its stored form.
            #vis fn #into_stored(self) -> #stored {
                __core::convert::Into::into(self.0)
            }

            /// A copy in its stored form; the typed value stays.
            #vis fn #to_stored(&self) -> #stored {
                __core::convert::Into::into(__core::clone::Clone::clone(&self.0))
            }
        }
    });
    let serde = if_stored(
        machine,
        quote! {
            impl<S: #state_trait + #krate::__private::serde::Serialize> #krate::__private::serde::Serialize for #typed<S> {
                fn serialize<Z: #krate::__private::serde::Serializer>(
                    &self,
                    serializer: Z,
                ) -> __core::result::Result<Z::Ok, Z::Error> {
                    #krate::__private::serde::Serialize::serialize(&self.0, serializer)
                }
            }

            /// There to be refused in the words of the machine.
            #[doc(hidden)]
            impl<'de, S: #state_trait + sealed::Read<'de>> #krate::__private::serde::Deserialize<'de> for #typed<S> {
                fn deserialize<D: #krate::__private::serde::Deserializer<'de>>(_: D) -> __core::result::Result<Self, D::Error> {
                    never()
                }
            }
        },
    );
    let usage_docs = match machine.types {
        true => {
            "It is made by [`new`](Self::new) and moved on by the methods of its state. It cannot be cloned: a copy would be a second right to move on."
        }
        false => {
            "It is made by [`new`](Self::new), moved on by the methods of its state, and read back from its stored form with `TryFrom`, by whoever has that: \
                  the types vouch for steps, not for what was stored. It cannot be cloned: a copy would be a second right to move on."
        }
    };
    quote! {
        #[doc = #docs]
        ///
        #[doc = #usage_docs]
        ///
        #[doc = #diagram]
        #vis struct #typed<S: #state_trait>(S);

        #written_out

        impl<S: #state_trait> #typed<S> {
            /// Found before that of the data, which would look like a second value.
            #[doc(hidden)]
            #[allow(clippy::should_implement_trait, reason = "it is there to be refused")]
            #vis fn clone(&self) -> Self
            where
                for<'a> S: sealed::Copied<'a>,
            {
                never()
            }

            /// The status of this state.
            #vis const fn status(&self) -> #status {
                S::STATUS
            }

            /// Gives up the typed value for its data.
            #vis fn into_data(self) -> S {
                self.0
            }

            #into_stored_form
        }

        #serde

        impl<S: #state_trait> __core::ops::Deref for #typed<S> {
            type Target = S;

            fn deref(&self) -> &S {
                &self.0
            }
        }

        #(#state_impls)*
    }
}

/// Generates the implementations of traits for one state: its status, and whether it is terminal.
fn state_impl(state: &StateDef, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        status,
        phase,
        stored,
        state_trait,
        ..
    } = out;
    let (ident, terminal) = (&state.ident, state.terminal);
    let (params, arguments, bounds) = machine.generics.split_for_impl();
    let active = (!terminal).then(|| {
        quote! {
            impl #params sealed::Active for #ident #arguments #bounds {}

            #[automatically_derived]
            impl #params Active for #ident #arguments #bounds {
                const PHASE: #phase = #phase::#ident;
            }
        }
    });
    let into_stored = (!machine.types).then(|| {
        quote! {
            #[automatically_derived]
            impl __core::convert::From<#ident> for #stored {
                fn from(state: #ident) -> Self {
                    Self::#ident(state)
                }
            }
        }
    });
    quote! {
        #[automatically_derived]
        impl #params #state_trait for #ident #arguments #bounds {
            const STATUS: #status = #status::#ident;
            const TERMINAL: bool = #terminal;
            const TARGETS: &'static [#status] = #status::#ident.targets();
        }

        #active

        #into_stored
    }
}

/// Returns the items without repetitions.
pub(super) fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

/// Generates one struct for each state: the data of a value in that state.
pub(super) fn states(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let structs = machine
        .states
        .iter()
        .map(|state| state_struct(state, machine, out));
    quote!(#(#structs)*)
}

fn state_struct(state: &StateDef, machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames { vis, typed, .. } = out;
    let StateDef {
        ident, docs, attrs, ..
    } = state;
    let summary = format!("A {typed} in state `{}`.", state.stored_name);
    let summary = if docs.is_empty() {
        quote!(#[doc = #summary])
    } else {
        quote!()
    };
    let derives = derives(machine, true);
    let derives = at(derives, ident);
    let fields = state
        .fields
        .iter()
        .map(|field| plain_field(field, TokenStream::new(), machine, out));
    let undocumented = undocumented(machine);
    let bounds = &machine.generics.where_clause;
    let params = &machine.generics;
    let phantom = phantom(&state.fields, machine).map(|ty| quote!(of_machine: #ty,));
    quote! {
        #(#docs)*
        #summary
        #(#attrs)*
        #undocumented
        #derives
        #vis struct #ident #params #bounds {
            #(#fields)*
            #phantom
        }
    }
}

/// Generates one struct for each method, with the fields that the caller supplies.
pub(super) fn metadata(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames { vis, typed, .. } = out;
    let serde = serde_container(&["Serialize", "Deserialize"], machine, out);
    let (derives, undocumented) = (derives(machine, false), undocumented(machine));
    let derives = quote!(#derives #serde);
    let structs = machine.methods.iter().map(|method| {
        let (ident, targets) = (&method.metadata, links(method, machine));
        let derives = at(derives.clone(), &method.ident);
        let docs = format!(
            "What `{}` demands on the way of a {typed} to {targets}.",
            method.ident
        );
        let fields: Vec<_> = machine
            .supplied_fields(method)
            .map(|field| plain_field(field, serde_field(field), machine, out))
            .collect();
        let params = generics::used(machine.supplied_fields(method), machine);
        let bounds = &params.where_clause;
        let body = if fields.is_empty() {
            quote!(;)
        } else {
            quote!(#params #bounds { #(#fields)* })
        };
        quote! {
            #[doc = #docs]
            #undocumented
            #derives
            #vis struct #ident #body
        }
    });
    let keys = machine.methods.iter().map(|method| {
        let Method {
            variant, metadata, ..
        } = method;
        match variant == metadata {
            true => quote!(#metadata),
            false => quote!(#metadata as #variant),
        }
    });
    let inside = visibility(&machine.vis, 2);
    quote! {
        #(#structs)*

        /// Metadata of each step, under the name of the step.
        #[allow(unused_imports, reason = "not every step is called by its name")]
        #vis mod steps {
            #(#inside use super::#keys;)*
        }
    }
}

/// The states that a method leads to, for documentation.
pub(super) fn links(method: &Method, machine: &MachineDef) -> String {
    let targets = machine.targets(method).into_iter();
    let targets: Vec<String> = targets.map(|target| format!("[`{}`]", target.ident)).collect();
    targets.join(" or ")
}

/// Returns the derives of the struct of a state or of a step: with types alone those that the declaration requests and no others.
pub(super) fn derives(machine: &MachineDef, is_state: bool) -> TokenStream {
    let metadata = machine.generated.metadata.iter().filter(|_| !is_state);
    if machine.types {
        let requested = machine.derives.iter().chain(metadata);
        return quote!(#[derive(#(#requested),*)]);
    }
    let requested = machine.derives.iter().filter(|_| is_state).chain(metadata);
    quote!(#[derive(__core::fmt::Debug, __core::clone::Clone, __core::cmp::PartialEq #(, #requested)*)])
}

/// Returns the attribute that lets a field of types alone go without documentation; a stored field gets its stored name as its documentation.
fn undocumented(machine: &MachineDef) -> Option<TokenStream> {
    let reason = "whoever declares a field may leave it to its name";
    machine
        .types
        .then(|| quote!(#[allow(missing_docs, reason = #reason)]))
}

fn plain_field(
    field: &FieldDef,
    serde: TokenStream,
    machine: &MachineDef,
    out: &GeneratedNames,
) -> TokenStream {
    let FieldDef { ident, ty, attrs, .. } = field;
    let is_documented = attrs.iter().any(|attr| attr.path().is_ident("doc"));
    let docs = (!is_documented && !machine.types).then(|| {
        let docs = format!("Stored as `{}`.", field.stored_name);
        quote!(#[doc = #docs])
    });
    let serde = if_stored(machine, serde);
    let vis = &out.vis;
    let head = at(quote!(#docs #vis), ident);
    quote!(#(#attrs)* #serde #head #ident: #ty,)
}

/// Returns the tokens with the position of another word and their meaning unchanged: derives then report errors at that word.
pub(super) fn at(tokens: TokenStream, word: &Ident) -> TokenStream {
    let moved = tokens.into_iter().map(|token| {
        let here = token.span().located_at(word.span());
        let mut token = match token {
            TokenTree::Group(group) => Group::new(group.delimiter(), at(group.stream(), word)).into(),
            other => other,
        };
        token.set_span(here);
        token
    });
    moved.collect()
}

/// Returns `#[derive(..)]` for traits of serde, and the attribute that spells the fields in the declared case.
pub(super) fn serde_container(traits: &[&str], machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        krate, serde_path, ..
    } = out;
    let traits: Vec<Ident> = traits.iter().map(|name| format_ident!("{name}")).collect();
    let case = machine.field_case.map(|case| {
        let name = case.name();
        quote!(rename_all = #name,)
    });
    if_stored(
        machine,
        quote! {
            #[derive(#(#krate::__private::serde::#traits),*)]
            #[serde(crate = #serde_path, #case)]
        },
    )
}

/// Returns the user's serde attributes of a field.
pub(super) fn serde_field(field: &FieldDef) -> TokenStream {
    let metas = &field.serde;
    if metas.is_empty() {
        TokenStream::new()
    } else {
        at(quote!(#[serde(#(#metas),*)]), &field.ident)
    }
}

/// Returns the expression for the data of the initial state in the body of `new`, whose arguments are local variables.
pub(super) fn initial_data(state: &StateDef, machine: &MachineDef) -> TokenStream {
    let is_argument = |field: &FieldDef| {
        state
            .start_arguments()
            .any(|argument| argument.ident == field.ident)
    };
    let values = state.fields.iter().map(|field| {
        let (ident, value) = (&field.ident, first_value(machine.initial, field, machine));
        match is_argument(field) {
            true => quote!(#ident,),
            false => quote!(#ident: #value,),
        }
    });
    let ident = &state.ident;
    let phantom = phantom_value(state, machine);
    quote!(#ident { #(#values)* #phantom })
}

/// Returns the value of the field `of_machine`, which uses the parameters of the machine that no other field names.
fn phantom_value(state: &StateDef, machine: &MachineDef) -> Option<TokenStream> {
    phantom(&state.fields, machine).map(|_| quote!(of_machine: __core::default::Default::default(),))
}

/// Returns the expression for the data of a step's target: in the generated code `from` is the data of the source, and `self` the struct of the step.
pub(super) fn target_data(
    method: &Method,
    target: usize,
    source: &StateDef,
    machine: &MachineDef,
    out: &GeneratedNames,
) -> TokenStream {
    let state = &machine.states[target];
    let values = state.fields.iter().map(|field| {
        let ident = &field.ident;
        let stays = (method.changes.as_ref()).is_some_and(|names| !names.contains(ident));
        let value = match machine.is_supplied(method, target, field) {
            true => quote!(self.#ident),
            false if stays => quote!(from.#ident),
            false => entry_value(target, field, source, machine, out),
        };
        quote!(#ident: #value,)
    });
    let ident = &state.ident;
    let phantom = phantom_value(state, machine);
    quote!(#ident { #(#values)* #phantom })
}

/// Returns the expression for a value that comes neither from a caller nor from another state.
fn first_value(state: usize, field: &FieldDef, machine: &MachineDef) -> TokenStream {
    // A type error in a generated call is then shown at the field.
    let here = Span::call_site().located_at(field.ident.span());
    match &field.entry {
        ValueSource::Start(_)
        | ValueSource::Fixed(_)
        | ValueSource::Carried(Carried { start: Some(_), .. }) => first_call(state, field, machine),
        _ if inside_option(&field.ty).is_some() => quote_spanned!(here=> __core::option::Option::None),
        _ => quote_spanned!(here=> __core::default::Default::default()),
    }
}

/// Returns the expression for a value that the caller does not supply when `state` is entered from `source`.
fn entry_value(
    state: usize,
    field: &FieldDef,
    source: &StateDef,
    machine: &MachineDef,
    out: &GeneratedNames,
) -> TokenStream {
    let ident = &field.ident;
    // A type error in a generated call is then shown at the field.
    let here = Span::call_site().located_at(ident.span());
    match &field.entry {
        ValueSource::Shared | ValueSource::Extra | ValueSource::Kept => quote!(from.#ident),
        ValueSource::Origin => {
            let (phase, source) = (&out.phase, &source.ident);
            at(quote!(#phase::#source), ident)
        }
        ValueSource::Carried(Carried { from, next, .. }) if source.has(from) => {
            let mut from = from.clone();
            from.set_span(here);
            match next {
                Some(_) => {
                    let value = quote_spanned!(here=> from.#from);
                    next_call(state, field, value, source, machine, out)
                }
                None => converted(
                    quote_spanned!(here=> from.#from),
                    source.type_of(&from),
                    field,
                    here,
                ),
            }
        }
        _ => first_value(state, field, machine),
    }
}

/// Converts a value of the type `found` to the type of a field: as it is, by `Some`, or by `Into` where neither will do, since `Into` costs compile time.
fn converted(value: TokenStream, found: Option<&Type>, field: &FieldDef, here: Span) -> TokenStream {
    let is_written = |ty: Option<&Type>| {
        let [found, ty] = [found, ty].map(|ty| ty.map(|ty| ty.to_token_stream().to_string()));
        ty.is_some() && found == ty
    };
    if is_written(Some(&field.ty)) {
        value
    } else if is_written(inside_option(&field.ty)) {
        quote_spanned!(here=> __core::option::Option::Some(#value))
    } else {
        quote_spanned!(here=> __core::convert::Into::into(#value))
    }
}
