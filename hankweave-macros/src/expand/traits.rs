//! Generates the traits of states and steps, and their seals: private supertraits, so that no other code can implement the public traits.
//!
//! The traits carry the machine's error messages, in attributes `#[diagnostic::..]`. These are the compiler's own only as long as nothing in scope is called
//! `diagnostic`, so the traits are in modules that import nothing of the user's but the names of the machine.

use proc_macro2::TokenStream;
use quote::quote;

use crate::model::MachineDef;

use super::stubs::Generic;
use super::transitions::legal_moves;
use super::{GeneratedNames, if_stored, list};

/// Generates the public traits: of all states, of those that are not terminal (`Active`), of steps (`Edge`), and of pairs of states (`Transition`).
pub(super) fn traits(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        vis,
        typed,
        stored,
        status,
        phase,
        transition,
        state_trait,
        ..
    } = out;
    let not_a_state = format!("`{{Self}}` is not a state of machine `{typed}`");
    let of_any_state = format!("what is generic over states has the bound `S: {state_trait}`");
    let not_active = format!("`{{Self}}` is a terminal state of machine `{typed}`, or none of its states");
    let active = machine.states.iter().filter(|state| !state.terminal);
    let active = list(active.map(|state| format!("`{}`", state.ident)));
    let active = format!("the states that can still move: {active}");
    let no_step = format!("`{typed}<{{S}}>` has no transition `{{Self}}`");
    let notes = machine.states.iter().map(|state| legal_moves(state, machine));
    let no_edge = format!("machine `{typed}` has no edge from `{{Self}}` to `{{To}}`");
    let stored_form =
        (!machine.types).then(|| quote!(+ __core::clone::Clone + __core::convert::Into<#stored>));
    let record = (!machine.types).then(|| {
        quote! {
            /// The step as an event.
            fn record(&self) -> #transition;
        }
    });
    let events = (!machine.types).then(|| quote!(#stored, #transition, __core,));
    let sealed = sealed(machine, out);
    quote! {
        #sealed

        mod traits {
            use super::{#events #status, #phase, sealed};

            /// A state of the machine. Only the generated states implement it.
            #[diagnostic::on_unimplemented(message = #not_a_state, note = #of_any_state)]
            pub trait #state_trait: sealed::State #stored_form {
                /// The status of this state.
                const STATUS: #status;
                /// Whether no step leaves this state.
                const TERMINAL: bool;
                /// The statuses that can follow.
                const TARGETS: &'static [#status];
            }

            /// A state that is not terminal.
            #[diagnostic::on_unimplemented(message = #not_active, label = "this value is final", note = #active)]
            pub trait Active: #state_trait + sealed::Active {
                /// The name of this state among those that are not terminal.
                const PHASE: #phase;
            }

            /// Metadata is the key to its step: the macro makes one implementation for each legal edge.
            #[diagnostic::on_unimplemented(message = #no_step, label = "illegal from `{S}`" #(, note = #notes)*)]
            pub trait Edge<S: #state_trait>: sealed::Edge<S> {
                /// The state that the step leads to.
                type To: #state_trait;

                /// Makes the step on the data of the state.
                fn advance(self, from: S) -> Self::To;

                #record
            }

            /// There is an edge from this state to `To`.
            #[diagnostic::on_unimplemented(message = #no_edge)]
            pub trait Transition<To: #state_trait>: #state_trait + sealed::Transition<To> {}
        }
        #vis use self::traits::{#state_trait, Active, Edge, Transition};
    }
}

/// Generates the seals. Some are bounds that never hold; rustc prints their messages where code needs them.
fn sealed(machine: &MachineDef, out: &GeneratedNames) -> TokenStream {
    let GeneratedNames {
        typed,
        stored,
        state_trait,
        value,
        krate,
        ..
    } = out;
    let narrow = (!machine.types)
        .then(|| quote!(fn narrow(stored: super::#stored) -> __core::result::Result<Self, super::#stored>;));
    let core = (!machine.types).then(|| quote!(__core,));
    let generic = Generic::new(machine, out).methods();
    let only_declared =
        format!("only the declaration of machine `{typed}` says what its states and steps are");
    let no_copy = format!("`{typed}<{{Self}}>` cannot be cloned: a copy would be a second right to move on");
    let no_copy_label = format!("a {value} is one value in one state");
    let no_copy_note = "its data alone can be: `S::clone(&value)`, with the state for `S`";
    let unread = if_stored(machine, {
        let message = format!("a `{typed}<{{Self}}>` is not read: what is stored may be in any state");
        let note = format!(
            "read a `{stored}`, which knows its state: `{typed}::try_from(record)` or `record.typed()` makes a `{typed}` of it"
        );
        quote! {
            #[diagnostic::on_unimplemented(message = #message, label = "cannot be read", note = #note)]
            pub trait Read<'de>: Never {}
            #[diagnostic::do_not_recommend]
            impl<'de> Read<'de> for Nowhere {}
        }
    });
    quote! {
        /// Never runs: its bound never holds.
        fn never() -> ! {
            #krate::__private::never()
        }

        mod sealed {
            use super::{#core #state_trait, #typed, never};

            #[diagnostic::on_unimplemented(message = #only_declared, label = "not a state of the declaration")]
            pub trait State: Sized {
                #narrow
                #generic
            }
            #[diagnostic::on_unimplemented(message = #only_declared, label = "the declaration has no such step")]
            pub trait Edge<S>: Sized {}
            #[diagnostic::on_unimplemented(message = #only_declared, label = "the declaration has no such edge")]
            pub trait Transition<To> {}
            #[diagnostic::on_unimplemented(message = #only_declared, label = "terminal in the declaration")]
            pub trait Active {}
            #[diagnostic::on_unimplemented(message = #only_declared, label = "the declaration has no such step")]
            pub trait Never {}
            /// No state: nothing is implemented for it.
            pub struct Nobody;
            /// No state either: has what never holds for any other.
            pub struct Nowhere;
            impl Never for Nowhere {}
            #[diagnostic::on_unimplemented(message = #no_copy, label = #no_copy_label, note = #no_copy_note)]
            pub trait Copied<'a>: Never {}
            #[diagnostic::do_not_recommend]
            impl<'a> Copied<'a> for Nowhere {}
            #unread
        }
    }
}
