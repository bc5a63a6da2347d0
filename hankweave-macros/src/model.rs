//! The checked machine. Every index in it is valid and every name is resolved.

use proc_macro2::{Ident, TokenStream};
use syn::{Attribute, Expr, GenericArgument, LitStr, Path, PathArguments, Type, Visibility};

use crate::case::Case;

/// What every stored value can be asked, so that no shared field can be asked for by these names.
pub(crate) const STORED_METHODS: [&str; 6] =
    ["status", "is_terminal", "apply", "validate", "schema", "typed"];

/// A machine that can be generated.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) name: Ident,
    /// The crate that generated code stands on, when it has another name here.
    pub(crate) krate: Option<Path>,
    /// Whether there are types alone: no events, no stored form, and nothing demanded of the data.
    pub(crate) types: bool,
    /// Whether tests are generated.
    pub(crate) tests: bool,
    /// Whether JSON Schemas are generated.
    pub(crate) schema: bool,
    /// The macro that is given a table of the stored fields.
    pub(crate) fields: Option<Path>,
    pub(crate) vis: Visibility,
    pub(crate) stored: Ident,
    pub(crate) docs: Vec<Attribute>,
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) derives: Vec<Path>,
    pub(crate) tag: String,
    /// Spelling of stored fields.
    pub(crate) field_case: Option<Case>,
    pub(crate) shared: Vec<Field>,
    pub(crate) states: Vec<State>,
    /// In order of first mention.
    pub(crate) methods: Vec<Method>,
    /// Index of the state in which values start.
    pub(crate) initial: usize,
    /// What diagrams print on the way into it.
    pub(crate) start_label: Option<LitStr>,
}

/// One state.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) ident: Ident,
    pub(crate) docs: Vec<Attribute>,
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) stored_name: String,
    pub(crate) aliases: Vec<String>,
    pub(crate) terminal: bool,
    pub(crate) exits: Vec<Exit>,
    /// All fields: shared ones first, then kept ones, then the state's own.
    pub(crate) fields: Vec<Field>,
    /// Stored names of other states that are dropped when read here.
    pub(crate) tolerated: Vec<String>,
}

/// One edge, seen from the state that it leaves.
#[derive(Debug, Clone)]
pub(crate) struct Exit {
    /// Index of the method.
    pub(crate) method: usize,
    pub(crate) label: Option<LitStr>,
}

/// All edges of one name; they lead to one state.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) ident: Ident,
    /// What it is called among events and in the module of steps.
    pub(crate) variant: Ident,
    /// The struct that holds what the caller supplies; called like the variant, where that name is free.
    pub(crate) metadata: Ident,
    /// Index of the target.
    pub(crate) target: usize,
    /// Indices of the states that it leaves.
    pub(crate) sources: Vec<usize>,
}

/// One field of a state.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) serde: Vec<TokenStream>,
    pub(crate) stored_name: String,
    pub(crate) aliases: Vec<String>,
    /// Whether a stored value may lack it.
    pub(crate) optional: bool,
    /// The type that tells the JSON Schema of the value.
    pub(crate) schema: Type,
    /// A value for the generated tests; made up when there is none.
    pub(crate) sample: Option<Expr>,
    pub(crate) entry: Entry,
    /// Whether the state has setters for it.
    pub(crate) live: Option<Setters>,
}

/// Where a value comes from when the state is entered.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    /// A field of every state: it stays.
    Shared,
    /// Unknown stored names: they stay.
    Extra,
    /// The caller.
    Caller,
    /// The field of the same name in the source.
    Kept,
    /// This field of the source, converted; the default when the source lacks it.
    Carried(Ident),
    /// The name of the source.
    Origin,
    /// An expression, the first value of a live field.
    Start(Expr),
    /// An expression, the only legal value.
    Fixed(Expr),
}

/// Which setters a live field has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setters {
    /// Whether there is `add_` besides `set_`.
    pub(crate) add: bool,
}

impl Machine {
    /// Edges in order of declaration: source, exit.
    pub(crate) fn edges(&self) -> impl Iterator<Item = (&State, &Method, &Exit)> {
        self.states.iter().flat_map(move |state| {
            state
                .exits
                .iter()
                .map(move |exit| (state, &self.methods[exit.method], exit))
        })
    }

    pub(crate) fn target(&self, method: &Method) -> &State {
        &self.states[method.target]
    }

    /// The field that takes unknown stored names.
    pub(crate) fn extra(&self) -> Option<&Field> {
        self.shared
            .iter()
            .find(|field| matches!(field.entry, Entry::Extra))
    }

    /// What the caller supplies to a method.
    pub(crate) fn metadata(&self, method: &Method) -> impl Iterator<Item = &Field> {
        self.target(method).supplied()
    }
}

impl State {
    /// The fields whose value comes from the caller on every way into this state.
    pub(crate) fn supplied(&self) -> impl Iterator<Item = &Field> {
        self.fields
            .iter()
            .filter(|field| matches!(field.entry, Entry::Caller))
    }

    /// The arguments of `new`, if values start here.
    pub(crate) fn started_with(&self) -> impl Iterator<Item = &Field> {
        self.fields
            .iter()
            .filter(|field| matches!(field.entry, Entry::Shared | Entry::Caller))
    }

    pub(crate) fn has(&self, field: &Ident) -> bool {
        self.fields.iter().any(|known| known.ident == *field)
    }

    /// The documentation as plain lines.
    pub(crate) fn docs_text(&self) -> String {
        docs_text(&self.docs)
    }
}

impl Field {
    /// Every name under which the field is read.
    pub(crate) fn stored_names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.stored_name)
            .chain(&self.aliases)
            .map(String::as_str)
    }

    /// The type of the value where there is one.
    pub(crate) fn value_type(&self) -> &Type {
        inside_option(&self.ty).unwrap_or(&self.ty)
    }

    pub(crate) fn shares_stored_name(&self, other: &Field) -> bool {
        self.stored_names()
            .any(|name| other.stored_names().any(|known| known == name))
    }
}

/// What stands inside a type that is written `Option<..>`. Names are all that a macro sees.
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
