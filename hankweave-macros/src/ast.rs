//! Declaration as the user wrote it, with the position of every word. Nothing is decided here.

use proc_macro2::TokenStream;
use syn::{Attribute, Expr, Generics, Ident, LitStr, Path, Type, Visibility};

use crate::case::Case;

/// `schema`, or `schema = "feature"`.
#[derive(Clone)]
pub(crate) struct Schemas {
    /// The feature of the user's crate that switches the schemas on; `None` if they are always on.
    pub(crate) feature: Option<LitStr>,
}

/// `derive(events(..), metadata(..), statuses(..), typed(..))`: traits for generated items.
#[derive(Clone, Default)]
pub(crate) struct Derives {
    pub(crate) events: Vec<Path>,
    pub(crate) metadata: Vec<Path>,
    pub(crate) statuses: Vec<Path>,
    pub(crate) typed: Vec<Path>,
}

/// One declaration.
pub(crate) struct Ast {
    /// The name given to the attribute, `Codon`.
    pub(crate) name: Ident,
    /// Path of the crate that generated code depends on; `None` for `::hankweave_machine`.
    pub(crate) krate: Option<Path>,
    /// Whether there are types alone: no events, no stored form, and no traits required of the data.
    pub(crate) types: bool,
    /// Whether the stored form is generated.
    pub(crate) stored_form: bool,
    /// The word `cyclic`, if it is there: the machine need not have an end.
    pub(crate) cyclic: Option<Ident>,
    /// Whether tests are generated.
    pub(crate) tests: bool,
    /// The JSON Schemas, if they are generated.
    pub(crate) schema: Option<Schemas>,
    /// The user's macro that gets a table of the stored fields.
    pub(crate) fields_macro: Option<Path>,
    pub(crate) vis: Visibility,
    /// Type parameters, lifetimes and constants of the whole machine.
    pub(crate) generics: Generics,
    /// The enum's own name, `CodonExecution`.
    pub(crate) stored: Ident,
    /// Documentation of the enum.
    pub(crate) docs: Vec<Attribute>,
    /// `cfg` and all other attributes of the enum that are not for the macro.
    pub(crate) attrs: Vec<Attribute>,
    /// Traits to derive for the data of the states, in addition to those that are always derived.
    pub(crate) derives: Vec<Path>,
    /// Traits to derive for generated items other than the data.
    pub(crate) generated: Derives,
    pub(crate) storage: Storage,
    /// Fields of the variant marked `#[shared]`.
    pub(crate) shared: Vec<FieldSyntax>,
    /// Common parts of states, as pseudo states.
    pub(crate) groups: Vec<StateVariant>,
    pub(crate) states: Vec<StateVariant>,
}

impl Ast {
    /// Reduces the machine to types alone, so that a mistake about the stored form is reported once and the types still exist.
    pub(crate) fn reduce_to_types(&mut self) {
        self.types = true;
        self.stored_form = false;
        self.tests = false;
        self.schema = None;
        self.fields_macro = None;
        self.derives.clear();
        self.generated = Derives::default();
    }
}

/// How values are stored.
pub(crate) struct Storage {
    /// Name of the stored field with the state.
    pub(crate) tag: String,
    /// Spelling of the statuses.
    pub(crate) states: Option<Case>,
    /// Spelling of the fields.
    pub(crate) fields: Option<Case>,
}

/// One variant.
pub(crate) struct StateVariant {
    pub(crate) ident: Ident,
    pub(crate) docs: Vec<Attribute>,
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) names: SerdeNames,
    pub(crate) initial: Option<Initial>,
    pub(crate) terminal: Option<Attribute>,
    /// Whether an edge may lead back to the state it leaves.
    pub(crate) again: bool,
    pub(crate) exits: Vec<ExitSyntax>,
    /// Whether the state has exits that could not be read; checks of its exits would then report more than the one mistake.
    pub(crate) unread: bool,
    /// Fields that it takes over from the state that is left.
    pub(crate) keeps: Vec<Ident>,
    /// Another state, all of whose fields it keeps as well.
    pub(crate) same_as: Option<Ident>,
    /// The group that the state, or group, belongs to.
    pub(crate) within: Option<Ident>,
    /// Fields of other states that a stored value may have in this state; reading drops them.
    pub(crate) tolerates: Vec<Ident>,
    pub(crate) fields: Vec<FieldSyntax>,
}

/// `#[initial]` or `#[initial("label")]`.
pub(crate) struct Initial {
    pub(crate) attr: Attribute,
    pub(crate) label: Option<LitStr>,
}

/// `method("label") { changed } => Target`, where `Self` is the state that the step leaves.
#[derive(Clone)]
pub(crate) struct ExitSyntax {
    pub(crate) method: Ident,
    pub(crate) label: Option<LitStr>,
    /// The fields that a step back to its own state changes; all others stay.
    pub(crate) changes: Option<Vec<Ident>>,
    /// The step that has this one as an outcome, `decide` in `decide => Open | Closed`.
    pub(crate) branch: Option<Ident>,
    pub(crate) target: Ident,
}

/// Names given with `#[serde(rename = "..", alias = "..")]`.
#[derive(Default, Clone)]
pub(crate) struct SerdeNames {
    pub(crate) rename: Option<String>,
    pub(crate) aliases: Vec<String>,
}

/// One field.
#[derive(Clone)]
pub(crate) struct FieldSyntax {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    /// Documentation and all attributes that are neither for the macro nor for serde.
    pub(crate) attrs: Vec<Attribute>,
    /// `#[serde(..)]`, copied with the field.
    pub(crate) serde: Serde,
    pub(crate) mark: Mark,
    /// The type whose JSON Schema replaces the field's own.
    pub(crate) schema: Option<Type>,
    /// A value for the generated tests.
    pub(crate) sample: Option<Expr>,
}

/// Serde attributes of a field.
#[derive(Default, Clone)]
pub(crate) struct Serde {
    /// The content of the attributes, as written.
    pub(crate) metas: Vec<TokenStream>,
    pub(crate) names: SerdeNames,
    /// Whether there is `default`.
    pub(crate) default: bool,
    /// Whether there is `with` or `deserialize_with`.
    pub(crate) custom_read: bool,
    /// Whether there is `skip_serializing_if`.
    pub(crate) skip: bool,
}

/// `#[carry(from, start = .., next = ..)]` or `#[carry_or_ask(from, next = ..)]`, with `try_next` in the place of `next` where a next value may be missing.
#[derive(Default, Clone)]
pub(crate) struct Carry {
    /// The field of the state that is left; `None` if it is called like this field.
    pub(crate) from: Option<Ident>,
    /// The value where that state has no such field; `None` for the default of the type.
    pub(crate) start: Option<Expr>,
    /// Conversion of the value on the way.
    pub(crate) next: Option<Next>,
    /// Whether the caller supplies the value where that state has no such field: `carry_or_ask`.
    pub(crate) or_ask: bool,
}

/// Function from the value before a step to the value after it.
#[derive(Clone)]
pub(crate) struct Next {
    pub(crate) function: Expr,
    /// Whether it returns an `Option`: `try_next`.
    pub(crate) may_fail: bool,
}

/// Which setters a live field has.
#[derive(Default, Clone, Copy)]
pub(crate) struct Setters {
    /// Whether there is `add_` in addition to `set_`.
    pub(crate) add: bool,
    /// Whether the setters return the event that records the change.
    pub(crate) record: bool,
}

/// `#[live(start = .., add, record, keeps)]`, with or without a `#[carry(..)]` next to it.
#[derive(Default, Clone)]
pub(crate) struct Live {
    pub(crate) start: Option<Expr>,
    pub(crate) setters: Setters,
    pub(crate) again: Again,
    /// The `#[carry(..)]` or `#[carry_or_ask(..)]` next to it.
    pub(crate) carry: Option<Carry>,
}

/// Effect on a live field when its state is entered from a state that has the field as well.
#[derive(Default, Clone, Copy, PartialEq)]
pub(crate) enum Again {
    /// The declaration does not say.
    #[default]
    Unsaid,
    /// The field keeps its value.
    Keeps,
    /// The field gets its first value again.
    Restarts,
}

/// Source of a field's value when its state is entered.
#[derive(Clone)]
pub(crate) enum Mark {
    /// From the caller.
    None,
    /// From the stored fields that the declaration does not name.
    Extra,
    /// From a field of the source state.
    Carry(Carry),
    /// From the source state itself.
    Origin,
    /// From this expression, or from the caller when there is none; setters change it later.
    Live(Live),
    /// From this expression, for ever.
    Fixed(Expr),
}
