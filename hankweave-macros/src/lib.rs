//! The attribute macro of [`hankweave-machine`](https://docs.rs/hankweave-machine): one declaration becomes a state machine that the compiler
//! checks. Depend on `hankweave-machine` alone; it exports the macro and the items that generated code uses.
//!
//! The macro works in three steps: `parse` reads the declaration into `ast`, `check` verifies it and makes the `model`, `expand` generates the code.

mod ast;
mod case;
mod check;
mod error;
mod expand;
mod misplaced_derive;
mod model;
mod parse;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as TokenStream2;

/// Turns the declaration of a stored enum into a typestate machine: `#[machine(Door)]`.
///
/// The attribute goes above all others of the enum: a `derive` below it is given to the data of each state. `#[non_exhaustive]` below it keeps all
/// enums of the machine open for more, so that other crates match with a `_`: the stored enum, the typed values, events, statuses, phases and
/// outcomes.
///
/// # Arguments
///
/// | Argument | Effect |
/// | --- | --- |
/// | `Door` | the name of the typed value, `Door<Closed>`; first, and required |
/// | `types` | types alone: no events and no stored form, and the data needs no traits: it may be a socket or a closure. The enum is one of typed values, and may have type parameters, lifetimes and constants |
/// | `unstored` | events and values that are not typed, but no stored form, even if another crate of the build switches on the feature `serde` of `hankweave-machine` |
/// | `cyclic` | the machine need not end: states from which no terminal state can be reached are right |
/// | `tests` | tests of every pair of states, of every stored value and of every walk are generated for `cargo test` |
/// | `schema` | the stored enum and the transitions get JSON Schemas (feature `schema` of `hankweave-machine`) |
/// | `schema = "feature"` | JSON Schemas, if this feature of your own crate is on: write so if it is optional there, since another crate of the build may switch on that of `hankweave-machine` |
/// | `derive(events(..), metadata(..), statuses(..), typed(..))` | generated items derive these traits as well; the data of states has those of `#[derive(..)]` below the attribute, and the typed value can have `Eq`, `PartialOrd`, `Ord` and `Hash` |
/// | `crate = path` | where the companion crate is, when it is not `::hankweave_machine`: renamed, or exported by another crate |
/// | `fields = path` | calls the macro `path!` of your own with a table of all stored fields and their types |
///
/// # States
///
/// | On a variant | Meaning |
/// | --- | --- |
/// | `#[initial]`, `#[initial("label")]` | new values start here; on exactly one state. The label is for diagrams |
/// | `#[to(step => Target, ..)]`, `#[to(step("label") => Target)]` | the steps that leave the state. From another state a step of this name may lead elsewhere, as long as it asks its caller for equal fields |
/// | `#[to(step => Self)]` | a step back to the state itself; in a group, one for each of its states |
/// | `#[to(step { a, b } => Self)]` | a step back to the state itself that changes these fields: it asks for them, or their marks compute them; all others stay |
/// | `#[to(decide => A \| B)]` | a step with several outcomes, each of which is a step of its own (`decide_a`, `decide_b`); `value.decide(door::Decide::A)` takes any of them and gives a `door::DecideTo` |
/// | `#[terminal]` | nothing leaves the state |
/// | `#[again]` | a step that names the state as its target may be made in it as well |
/// | `#[keeps(a, b)]` | these fields come from the state that is left; every such state must have them |
/// | `#[same_as(State)]` | the state has all fields of that one, and keeps them |
/// | `#[group]` | no state: every state marked `#[within(Group)]` has the steps and fields of this pseudo variant, after its own; groups may be in groups |
/// | `#[within(Group)]` | the state, or group, has what the group has |
/// | `#[shared]` | no state: the fields of this pseudo variant are in every state |
/// | `#[tolerates(a)]` | fields of other states that old documents may have here; they are dropped on reading |
/// | `#[serde(rename = "..", alias = "..")]` | the stored name of the state, and former ones |
///
/// # Fields
///
/// The mark of a field names the source of its value when the state is entered. A step asks its caller for all other values, in a struct named like
/// the step: `Lock { code }`. A step that needs nothing takes no argument.
///
/// | Mark | Value on entry |
/// | --- | --- |
/// | none | from the caller |
/// | `#[carry]`, `#[carry(other)]` | from the field of that name in the state that is left, by `Into`; the default where that state has none |
/// | `#[carry(other, start = e, next = f)]` | as with `#[carry(other)]`, but `e` where that state has none, and `f(value)` where it has one: `next = \|attempt\| attempt + 1`. Where an operator's result does not fit, `apply` refuses the step; what panics by its name (`pow`, `unwrap`, an index) is an error |
/// | `#[carry(other, start = e, try_next = f)]` | as with `next`, with an `f` that returns an `Option`; where it is `None`, `apply` refuses the step: `try_next = \|size\| size.checked_pow(2)` |
/// | `#[carry_or_ask]`, `#[carry_or_ask(other, next = f)]` | from the state that is left, and from the caller where that state has none |
/// | `#[live]`, `#[live(start = e, add)]` | `e`, or from the caller; later changed by `set_field`, and by `add_field` when `add` is there |
/// | `#[live(start = e, keeps)]`, `#[live(start = e, restarts)]` | needed where a state that has the field leads here: its value there, or `e` again |
/// | `#[live]` and `#[carry(..)]` or `#[carry_or_ask(..)]` | as carried, and later changed as live; also in the state where values start, if others lead back there |
/// | `#[live]`, `#[live(start = e, ..)]` on a shared field | given to `new`, or `e`; in every state the value it had, and changed in each but terminal ones |
/// | `#[live]` with `types` | as without `types`, and changed in place by `field_mut` |
/// | `#[live(start = e, add, record)]` | as without `record`, and each change gives the event that records it, `DoorTransition::AddField`, for `apply` |
/// | `#[fixed(e)]` | always `e`; a stored value with another one is refused |
/// | `#[origin]` | the state that is left, as `DoorPhase` |
/// | `#[extra]` | of type `Extra`: stored fields that the machine does not know, kept as they are |
///
/// `#[sample(e)]` gives generated tests a value for a field whose type has no `Sample`, and `#[schema(Type)]` the JSON Schema of another type.
/// `#[serde(..)]` stays with every copy of the field.
///
/// Each of these words may be written as `#[machine(word)]` too, if another macro owns the bare word. An attribute for a derive, such as
/// `#[schema(example = 3)]`, is left to the derive.
///
/// # What is generated
///
/// For `#[machine(Door)] pub enum DoorRecord`:
///
/// | Name | What it is |
/// | --- | --- |
/// | `Door<S>` | the typed value; the fields of the present state are read through it |
/// | `door::Closed`, .. | the data of each state |
/// | `door::Lock`, .. | what each step asks for; `door::steps` has them all, also a step that is called like a state |
/// | `door::Decide`, `door::DecideTo` | for a branching step `decide`: its data, and its target |
/// | `Door::step(key)` | the step together with the event that records it, in a `door::Step`: `into_parts()` gives both |
/// | `DoorRecord` | the stored enum: `status`, `apply`, `validate`, `TryFrom` back to each `Door<S>`, and `typed`, which gives a `door::Typed` to `match` (and its `into_record` gives the stored form again); a field that has one type in all its states can be read in any state, as `code() -> Option<&u32>` |
/// | `DoorTransition` | the event of each step, and of each change of a live field that is recorded |
/// | `DoorStatus`, `DoorPhase` | the names of all states, and of those that are not terminal |
/// | `DoorState`, `door::Active`, `door::Transition<To>`, `door::Edge<From>` | sealed traits for code that is generic over states |
/// | `DOOR` | the graph as constant data: diagrams, walks |
///
/// Types, events, `apply` and the graph need no standard library. Everything stored needs the feature `serde` of `hankweave-machine`.
///
/// # Errors
///
/// All mistakes in a declaration are reported at once, each at the word that makes it: an unknown target (with the nearest name), a state that
/// cannot be reached or from which no terminal state can be reached, a kept field that a source lacks, and so on. Where possible, the types are
/// still generated, so that one mistake gives one message.
#[proc_macro_attribute]
pub fn machine(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let item = TokenStream2::from(item);
    match misplaced_derive::has_derive_above() {
        false => generate(arguments.into(), item).into(),
        true => below_a_derive(arguments.into(), item).into(),
    }
}

/// Returns the output where a `derive` stands above the attribute: the machine, the enum as written, and the mistake. The derived code needs the enum as
/// written. The stored enum of the machine has the same name, so it stays inside the module (`apart`).
fn below_a_derive(arguments: TokenStream2, item: TokenStream2) -> TokenStream2 {
    let mut errors = error::Errors::default();
    let message = "a `derive` stands below `#[machine(..)]`, which gives it to the data of each state; above, it is given the declaration, which is no enum yet";
    errors.at(&arguments, message);
    let as_written = misplaced_derive::as_written(&item);
    let machine = parse::parse(arguments, item, &mut errors).and_then(|ast| check::check(ast, &mut errors));
    let mut tokens = machine.map_or_else(TokenStream2::new, |mut machine| {
        machine.apart = true;
        expand::expand(&machine)
    });
    tokens.extend(as_written);
    tokens.extend(errors.into_tokens());
    tokens
}

/// Runs the whole pipeline: parse, check, expand. Mistakes of the user become `compile_error!` next to the generated types.
fn generate(arguments: TokenStream2, item: TokenStream2) -> TokenStream2 {
    let mut errors = error::Errors::default();
    let Some(ast) = parse::parse(arguments, item, &mut errors) else {
        return errors.into_tokens();
    };
    let machine = check::check(ast, &mut errors);
    let mut tokens = machine.map_or_else(TokenStream2::new, |machine| expand::expand(&machine));
    tokens.extend(errors.into_tokens());
    tokens
}
