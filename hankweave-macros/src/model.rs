//! The checked machine, which `check` makes and `expand` turns into code. Every index in it is valid and every name is resolved.
//!
//! A step is a method of the typed value, so a step's name with all its edges is a [`Method`] here. Its "supplied" fields are those that the caller gives.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::{Attribute, Expr, GenericArgument, Generics, LitStr, Path, PathArguments, Type, Visibility};

use crate::ast::{Derives, Next, Schemas, Setters};
use crate::case::{Case, pascal, text};

/// Methods of every stored value. A shared field has a method of its name, so it cannot have one of these.
pub(crate) const STORED_METHODS: [&str; 6] =
    ["status", "is_terminal", "apply", "validate", "schema", "typed"];

/// A machine that can be generated.
#[derive(Clone)]
pub(crate) struct MachineDef {
    pub(crate) name: Ident,
    /// Whether the stored enum stays inside the generated module. Outside, the enum as the user wrote it has that name, for the code of a misplaced `derive`.
    pub(crate) apart: bool,
    /// Path of the crate that generated code depends on; `None` for `::hankweave_machine`.
    pub(crate) krate: Option<Path>,
    /// Whether there are types alone: no events, no stored form (`stored_form` is false), and no traits required of the data.
    pub(crate) types: bool,
    /// Whether the stored form is generated.
    pub(crate) stored_form: bool,
    /// Whether tests are generated.
    pub(crate) tests: bool,
    /// The JSON Schemas, if they are generated.
    pub(crate) schema: Option<Schemas>,
    /// The user's macro that gets a table of the stored fields.
    pub(crate) fields_macro: Option<Path>,
    pub(crate) vis: Visibility,
    /// Type parameters, lifetimes and constants of the whole machine.
    pub(crate) generics: Generics,
    /// Name of the stored enum.
    pub(crate) stored: Ident,
    pub(crate) docs: Vec<Attribute>,
    pub(crate) attrs: Vec<Attribute>,
    /// Traits to derive for the data of the states.
    pub(crate) derives: Vec<Path>,
    /// Traits to derive for all other generated items.
    pub(crate) generated: Derives,
    /// Name of the stored field with the state.
    pub(crate) tag: String,
    /// Spelling of stored fields.
    pub(crate) field_case: Option<Case>,
    pub(crate) shared: Vec<FieldDef>,
    pub(crate) states: Vec<StateDef>,
    /// In order of first mention.
    pub(crate) methods: Vec<Method>,
    /// Steps with several outcomes, each of which is one of `methods`.
    pub(crate) branches: Vec<Branch>,
    /// Index of the state in which values start.
    pub(crate) initial: usize,
    /// Label, in diagrams, of the arrow into the initial state.
    pub(crate) start_label: Option<LitStr>,
}

/// One state.
#[derive(Clone)]
pub(crate) struct StateDef {
    pub(crate) ident: Ident,
    pub(crate) docs: Vec<Attribute>,
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) stored_name: String,
    pub(crate) aliases: Vec<String>,
    pub(crate) terminal: bool,
    pub(crate) exits: Vec<ExitDef>,
    /// All fields: shared ones first, then kept ones, then the state's own.
    pub(crate) fields: Vec<FieldDef>,
    /// Stored names of fields that only other states have, and that are ignored when this state is read.
    pub(crate) tolerated: Vec<String>,
}

/// One edge, seen from the state that it leaves.
#[derive(Clone)]
pub(crate) struct ExitDef {
    /// Index of the method.
    pub(crate) method: usize,
    /// Index of the state that it leads to.
    pub(crate) target: usize,
    /// The name of the step, with the span of this edge.
    pub(crate) word: Ident,
    pub(crate) label: Option<LitStr>,
}

/// All edges of one name; their supplied fields are equal for all targets.
#[derive(Clone)]
pub(crate) struct Method {
    pub(crate) ident: Ident,
    /// Name among events and in the module of steps.
    pub(crate) variant: Ident,
    /// The struct that holds what the caller supplies; called like the variant, where that name is free.
    pub(crate) metadata: Ident,
    /// Indices of source and target of each edge, in order of declaration; never empty, and no source twice.
    pub(crate) edges: Vec<(usize, usize)>,
    /// The fields that a step back to its own state changes, while all others stay; `None` for a step that gives each field its value by [`ValueSource`].
    pub(crate) changes: Option<Vec<Ident>>,
}

impl Method {
    /// The states that the step leaves.
    pub(crate) fn sources(&self) -> impl Iterator<Item = usize> {
        self.edges.iter().map(|(source, _)| *source)
    }

    /// The states that the step leaves for one target.
    pub(crate) fn sources_of(&self, target: usize) -> impl Iterator<Item = usize> {
        let edges = self.edges.iter().filter(move |(_, to)| *to == target);
        edges.map(|(source, _)| *source)
    }

    /// The states that the step leads to, each once.
    pub(crate) fn targets(&self) -> Vec<usize> {
        let mut targets = Vec::new();
        for (_, target) in &self.edges {
            if !targets.contains(target) {
                targets.push(*target);
            }
        }
        targets
    }
}

/// One method with several outcomes.
#[derive(Clone)]
pub(crate) struct Branch {
    pub(crate) ident: Ident,
    /// Name of the enum from which the caller chooses: the outcomes, each with its supplied fields.
    pub(crate) choice: Ident,
    /// Name of the enum that the method returns: the typed value after each outcome.
    pub(crate) result: Ident,
    /// Indices of the methods of its outcomes.
    pub(crate) outcomes: Vec<usize>,
    /// Indices of the states that the method leaves.
    pub(crate) sources: Vec<usize>,
}

/// Recorded change of a live field: a setter whose calls are events.
pub(crate) struct LiveChange<'a> {
    pub(crate) field: &'a FieldDef,
    /// Whether the setter adds to the field instead of replacing its value.
    pub(crate) adds: bool,
    /// The states in which the field is live.
    pub(crate) states: Vec<&'a StateDef>,
}

/// One field of a state.
#[derive(Clone)]
pub(crate) struct FieldDef {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    pub(crate) attrs: Vec<Attribute>,
    /// The contents of its serde attributes.
    pub(crate) serde: Vec<TokenStream>,
    /// Whether the field has its own function for reading.
    pub(crate) custom_read: bool,
    pub(crate) stored_name: String,
    pub(crate) aliases: Vec<String>,
    /// Whether a stored value may lack the field.
    pub(crate) optional: bool,
    /// The type that provides the JSON Schema of the value.
    pub(crate) schema: Type,
    /// A value for the generated tests; made up when there is none.
    pub(crate) sample: Option<Expr>,
    pub(crate) entry: ValueSource,
    /// The setters of a live field; `None` for a field that is not live in this state.
    pub(crate) live: Option<Setters>,
}

/// Source of a value when the state is entered.
#[derive(Clone)]
pub(crate) enum ValueSource {
    /// A field of every state: it stays.
    Shared,
    /// Unknown stored names: they stay.
    Extra,
    /// The caller.
    Caller,
    /// The field of this name in the source.
    Kept,
    /// A field of the source.
    Carried(Carried),
    /// The name of the source.
    Origin,
    /// An expression, the first value of a live field.
    Start(Expr),
    /// An expression, the only legal value.
    Fixed(Expr),
}

/// How the value of a field comes from the state that is left.
#[derive(Clone)]
pub(crate) struct Carried {
    /// The field of the source.
    pub(crate) from: Ident,
    /// The value when the source lacks the field; `None` for the default of the type.
    pub(crate) start: Option<Expr>,
    /// Function from the source's value to the new one; without it the value is converted by `Into`.
    pub(crate) next: Option<Next>,
    /// Whether the caller supplies the value when the source lacks the field.
    pub(crate) or_ask: bool,
}

impl MachineDef {
    /// Edges in order of declaration, each as the state that it leaves, its method, and the exit of that state.
    pub(crate) fn edges(&self) -> impl Iterator<Item = (&StateDef, &Method, &ExitDef)> {
        self.states.iter().flat_map(move |state| {
            state
                .exits
                .iter()
                .map(move |exit| (state, &self.methods[exit.method], exit))
        })
    }

    /// The attribute that keeps enums open for more, where the declaration has it.
    pub(crate) fn non_exhaustive(&self) -> Option<&Attribute> {
        let mut attrs = self.attrs.iter();
        attrs.find(|attr| attr.path().is_ident("non_exhaustive"))
    }

    /// The states that a method leads to, each once.
    pub(crate) fn targets(&self, method: &Method) -> Vec<&StateDef> {
        let targets = method.targets().into_iter();
        targets.map(|target| &self.states[target]).collect()
    }

    /// The field that takes unknown stored names.
    pub(crate) fn extra(&self) -> Option<&FieldDef> {
        self.shared
            .iter()
            .find(|field| matches!(field.entry, ValueSource::Extra))
    }

    /// Returns the fields that the caller of a method supplies. A check has ensured that they are equal for all targets.
    pub(crate) fn supplied_fields(&self, method: &Method) -> impl Iterator<Item = &FieldDef> {
        let target = method.edges.first().map(|(_, target)| *target);
        target
            .into_iter()
            .flat_map(|target| self.supplied_fields_for(method, target))
    }

    /// Returns the fields that the caller of a method supplies if it leads to this target.
    pub(crate) fn supplied_fields_for(
        &self,
        method: &Method,
        target: usize,
    ) -> impl Iterator<Item = &FieldDef> {
        let fields = self.states[target].fields.iter();
        fields.filter(move |field| self.is_supplied(method, target, field))
    }

    /// Returns the fields that the caller supplies for any outcome of a branch.
    pub(crate) fn supplied_fields_of_branch(&self, branch: &Branch) -> impl Iterator<Item = &FieldDef> {
        let outcomes = branch.outcomes.iter().map(|method| &self.methods[*method]);
        outcomes.flat_map(|method| self.supplied_fields(method))
    }

    /// Returns whether the caller of a method supplies this field of its target. A check has ensured that this is equal for all sources.
    pub(crate) fn is_supplied(&self, method: &Method, target: usize, field: &FieldDef) -> bool {
        if let Some(changed) = &method.changes {
            // A step back to its own state changes these fields alone: the caller supplies them, unless a function computes them.
            return changed.contains(&field.ident)
                && match &field.entry {
                    ValueSource::Caller | ValueSource::Kept => true,
                    ValueSource::Carried(carried) => carried.next.is_none(),
                    _ => false,
                };
        }
        match &field.entry {
            ValueSource::Caller => true,
            ValueSource::Carried(Carried {
                or_ask: true, from, ..
            }) => {
                let source = method.sources_of(target).next();
                source.is_some_and(|source| !self.states[source].has(from))
            }
            _ => false,
        }
    }

    /// Returns the recorded changes of live fields, each an event: setting a field, and adding to it if it may be added to; in order of declaration.
    pub(crate) fn live_changes(&self) -> Vec<LiveChange<'_>> {
        let mut changes: Vec<LiveChange<'_>> = Vec::new();
        for state in &self.states {
            for field in &state.fields {
                let Some(Setters { add, record: true }) = field.live else {
                    continue;
                };
                let kinds: &[bool] = if add { &[false, true] } else { &[false] };
                for &adds in kinds {
                    let is_this = |change: &&mut LiveChange<'_>| {
                        change.field.ident == field.ident && change.adds == adds
                    };
                    match changes.iter_mut().find(is_this) {
                        Some(change) => change.states.push(state),
                        None => changes.push(LiveChange {
                            field,
                            adds,
                            states: vec![state],
                        }),
                    }
                }
            }
        }
        changes
    }
}

impl LiveChange<'_> {
    /// The name of the setter: `set_total` or `add_total`.
    pub(crate) fn method(&self) -> String {
        let verb = if self.adds { "add" } else { "set" };
        format!("{verb}_{}", text(&self.field.ident))
    }

    /// The name of the event: `SetTotal` or `AddTotal`.
    pub(crate) fn variant(&self) -> Ident {
        let here = Span::call_site().located_at(self.field.ident.span());
        Ident::new(&pascal(&self.method()), here)
    }
}

impl StateDef {
    /// The arguments of `new`, if values start in this state.
    pub(crate) fn start_arguments(&self) -> impl Iterator<Item = &FieldDef> {
        self.fields.iter().filter(|field| match &field.entry {
            ValueSource::Shared | ValueSource::Caller => true,
            ValueSource::Carried(carried) => carried.or_ask,
            _ => false,
        })
    }

    pub(crate) fn has(&self, field: &Ident) -> bool {
        self.type_of(field).is_some()
    }

    /// The type of the field of this name.
    pub(crate) fn type_of(&self, field: &Ident) -> Option<&Type> {
        let field = self.fields.iter().find(|known| known.ident == *field)?;
        Some(&field.ty)
    }

    /// The documentation as plain lines.
    pub(crate) fn docs_text(&self) -> String {
        docs_text(&self.docs)
    }
}

impl FieldDef {
    /// The name under which the field is stored, then its aliases: all names under which it is read.
    pub(crate) fn stored_names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.stored_name)
            .chain(&self.aliases)
            .map(String::as_str)
    }

    /// Returns the serde attributes `with`, `serialize_with` and `deserialize_with`, which say how the value itself is read and written.
    pub(crate) fn with_attributes(&self) -> impl Iterator<Item = &TokenStream> {
        let is_with = |meta: &&TokenStream| {
            let text = meta.to_string();
            text.split_whitespace()
                .next()
                .is_some_and(|word| word.ends_with("with"))
        };
        self.serde.iter().filter(is_with)
    }

    /// The type of the value: what is inside the `Option` if the field's type is one.
    pub(crate) fn value_type(&self) -> &Type {
        inside_option(&self.ty).unwrap_or(&self.ty)
    }

    pub(crate) fn shares_stored_name(&self, other: &FieldDef) -> bool {
        self.stored_names()
            .any(|name| other.stored_names().any(|known| known == name))
    }
}

/// Returns the type inside a type written as `Option<..>`. A macro sees names only, so an alias of an `Option` is not found.
pub(crate) fn inside_option(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    match &last.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first()? {
            GenericArgument::Type(inside) => Some(inside),
            _ => None,
        },
        _ => None,
    }
}

/// Names of which a plain type is made. Every format reads the values of such a type back as it wrote them, also from a buffer (`deserialize_any`). `u128` is
/// not among them, since buffers refuse it.
const PLAIN: [&str; 25] = [
    "Box", "Option", "String", "Vec", "alloc", "bool", "boxed", "char", "core", "f32", "f64", "i16", "i32",
    "i64", "i8", "isize", "option", "std", "string", "u16", "u32", "u64", "u8", "usize", "vec",
];

/// Whether a type is made of [`PLAIN`] names alone.
pub(crate) fn is_plain(ty: TokenStream) -> bool {
    ty.into_iter().all(|token| match token {
        TokenTree::Ident(ident) => PLAIN.iter().any(|plain| ident == plain),
        TokenTree::Group(group) => is_plain(group.stream()),
        TokenTree::Punct(_) | TokenTree::Literal(_) => true,
    })
}

/// The documentation among some attributes as plain lines.
pub(crate) fn docs_text(docs: &[Attribute]) -> String {
    let lines: Vec<String> = docs
        .iter()
        .filter_map(|attr| match &attr.meta.require_name_value().ok()?.value {
            Expr::Lit(syn::ExprLit {
                lit: syn::Lit::Str(text),
                ..
            }) => Some(text.value().trim().to_string()),
            _ => None,
        })
        .collect();
    lines.join("\n").trim().to_string()
}
