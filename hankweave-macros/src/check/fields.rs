//! Resolves the fields: which state has which, and which source gives each value when the state is entered.
//!
//! The fields of a state are the shared ones, those that it keeps from the states before it, and its own.

use std::collections::HashSet;

use proc_macro2::Ident;
use quote::ToTokens;
use syn::Type;

use crate::ast::{self, Again, Ast, Mark, Setters};
use crate::case::{Case, text};
use crate::error::{Errors, did_you_mean};
use crate::model::{Carried, FieldDef, ValueSource, inside_option};

use super::edges::Edges;
use super::{stored_name, total};

/// The fields of all states.
pub(super) struct Resolved {
    pub(super) shared: Vec<FieldDef>,
    pub(super) states: Vec<StateFields>,
}

/// The fields of one state.
pub(super) struct StateFields {
    pub(super) fields: Vec<FieldDef>,
    /// Stored names of fields of other states that are read here and dropped.
    pub(super) tolerated: Vec<String>,
}

/// Resolves `keeps`, `same_as`, `tolerates` and the marks of all fields.
pub(super) fn resolve(ast: &Ast, edges: &Edges, initial: usize, errors: &mut Errors) -> Resolved {
    let shared: Vec<FieldDef> = ast
        .shared
        .iter()
        .filter_map(|field| shared_field(ast, field, errors))
        .collect();
    let kept = kept_names(ast, errors);
    let resolver = Resolver {
        ast,
        edges,
        initial,
        kept: &kept,
    };
    let mut states: Vec<StateFields> = (0..ast.states.len())
        .map(|state| {
            let mut fields = shared.clone();
            // In a terminal state no field changes.
            if edges.exits[state].is_empty() {
                fields.iter_mut().for_each(|field| field.live = None);
            }
            fields.extend(
                kept[state]
                    .iter()
                    .filter_map(|name| resolver.kept_field(state, name, errors)),
            );
            fields.extend(
                ast.states[state]
                    .fields
                    .iter()
                    .map(|field| resolver.own_field(state, field, errors)),
            );
            StateFields {
                fields: unique(fields, errors),
                tolerated: Vec::new(),
            }
        })
        .collect();
    for (state, name) in changed_fields(edges) {
        check_changed_field(name, &ast.states[state].ident, &states[state].fields, errors);
    }
    let tolerated: Vec<Vec<String>> = (0..ast.states.len())
        .map(|state| tolerated(ast, &states, state, errors))
        .collect();
    for (state, tolerated) in states.iter_mut().zip(tolerated) {
        state.tolerated = tolerated;
    }
    Resolved { shared, states }
}

/// Returns the fields that steps back to their own state change, each with the index of that state, which should have the field.
fn changed_fields(edges: &Edges) -> impl Iterator<Item = (usize, &Ident)> {
    let methods = edges.methods.iter();
    methods.flat_map(|method| {
        let names = method.changes.iter().flatten();
        let targets = method.targets();
        names.flat_map(move |name| targets.clone().into_iter().map(move |state| (state, name)))
    })
}

/// Checks that a field which a step changes is among the fields of its state and not shared.
fn check_changed_field(name: &Ident, state: &Ident, fields: &[FieldDef], errors: &mut Errors) {
    let not_shared: Vec<&FieldDef> = fields
        .iter()
        .filter(|field| !matches!(field.entry, ValueSource::Shared))
        .collect();
    if not_shared.iter().all(|field| field.ident != *name) {
        let known: Vec<String> = not_shared.iter().map(|field| field.ident.to_string()).collect();
        let hint = did_you_mean(&name.to_string(), &known);
        let message = format!("`{state}` has no field `{name}` of its own to change{hint}");
        errors.once_at(name, message);
    }
}

/// Resolves a field of the variant marked `#[shared]`; `None` for a mark that a shared field cannot have.
fn shared_field(ast: &Ast, field: &ast::FieldSyntax, errors: &mut Errors) -> Option<FieldDef> {
    let entry = match &field.mark {
        Mark::None => ValueSource::Shared,
        Mark::Extra => {
            if !ast.stored_form {
                errors.at(
                    &field.ident,
                    "unknown fields are those of a stored value, and this machine is not stored",
                );
            }
            ValueSource::Extra
        }
        Mark::Live(live) if live.carry.is_none() && live.again != Again::Restarts => {
            let entry = match &live.start {
                None => ValueSource::Shared,
                // Every state has the field: it begins with `start` and keeps its value from state to state.
                Some(start) => ValueSource::Carried(Carried {
                    from: field.ident.clone(),
                    start: Some(start.clone()),
                    next: None,
                    or_ask: false,
                }),
            };
            return Some(field_of(
                ast,
                field,
                entry,
                allowed_setters(ast, field, live.setters, errors),
            ));
        }
        Mark::Carry(_) | Mark::Origin | Mark::Live(_) | Mark::Fixed(_) => {
            errors.at(
                &field.ident,
                "a shared field is given once and stays: mark it `#[live]` if its value changes in place, or move it into the states that need it",
            );
            return None;
        }
    };
    Some(field_of(ast, field, entry, None))
}

/// The names of the fields that each state keeps: all fields of its `same_as` state, of that state's own `same_as` state and so on, then those of `keeps`.
fn kept_names(ast: &Ast, errors: &mut Errors) -> Vec<Vec<Ident>> {
    let mut kept = Vec::new();
    for state in &ast.states {
        let mut names = Vec::new();
        let mut seen = HashSet::from([state.ident.to_string()]);
        let mut like = state.same_as.as_ref();
        while let Some(ident) = like {
            let Some(index) = ast.states.iter().position(|other| other.ident == *ident) else {
                let known: Vec<String> = ast.states.iter().map(|state| state.ident.to_string()).collect();
                errors.at(
                    ident,
                    format!(
                        "unknown state `{ident}`{}",
                        did_you_mean(&ident.to_string(), &known)
                    ),
                );
                break;
            };
            if !seen.insert(ident.to_string()) {
                errors.at(ident, "`same_as` leads back to the state itself");
                break;
            }
            names.extend(ast.states[index].keeps.iter().cloned());
            names.extend(ast.states[index].fields.iter().map(|field| field.ident.clone()));
            like = ast.states[index].same_as.as_ref();
        }
        names.extend(state.keeps.iter().cloned());
        kept.push(names);
    }
    kept
}

/// Resolves fields of single states.
struct Resolver<'a> {
    ast: &'a Ast,
    edges: &'a Edges,
    initial: usize,
    /// The names that each state keeps.
    kept: &'a [Vec<Ident>],
}

impl Resolver<'_> {
    fn own_field(&self, state: usize, field: &ast::FieldSyntax, errors: &mut Errors) -> FieldDef {
        let (entry, live) = match &field.mark {
            Mark::None => (ValueSource::Caller, None),
            Mark::Extra => {
                errors.at(
                    &field.ident,
                    "extra fields belong to every state: put this into the shared variant",
                );
                (ValueSource::Caller, None)
            }
            Mark::Carry(carry) => (
                ValueSource::Carried(self.carried(state, field, carry, errors)),
                None,
            ),
            Mark::Origin => (self.origin(state, field, errors), None),
            Mark::Live(live) => {
                let entry = self.live(state, field, live, errors);
                (entry, self.setters(state, field, live.setters, errors))
            }
            Mark::Fixed(value) => (ValueSource::Fixed(value.clone()), None),
        };
        field_of(self.ast, field, entry, live)
    }

    /// Returns the source of a live field. A field that would get its first value again must say so with `restarts`.
    fn live(
        &self,
        state: usize,
        field: &ast::FieldSyntax,
        live: &ast::Live,
        errors: &mut Errors,
    ) -> ValueSource {
        let carry = match (&live.carry, live.again) {
            (Some(carry), _) => Some(carry.clone()),
            (None, Again::Keeps) => Some(ast::Carry {
                start: live.start.clone(),
                or_ask: live.start.is_none(),
                ..ast::Carry::default()
            }),
            (None, Again::Unsaid | Again::Restarts) => None,
        };
        if let Some(carry) = carry {
            return ValueSource::Carried(self.carried(state, field, &carry, errors));
        }
        let Some(start) = &live.start else {
            return ValueSource::Caller;
        };
        // A step that lists its changes leaves all other fields as they are, so it does not start this one again.
        let entering = self
            .edges
            .methods
            .iter()
            .filter(|method| method.changes.is_none());
        let mut sources = entering.flat_map(|method| method.sources_of(state));
        let has = |source: &usize| self.names(*source).contains(&field.ident.to_string());
        if live.again == Again::Unsaid
            && let Some(source) = sources.find(has)
        {
            let [source, target] = [source, state].map(|state| &self.ast.states[state].ident);
            let message = format!(
                "`{0}` would start again whenever `{target}` is entered from `{source}`, which has it: write `#[live(start = .., keeps)]` to keep its \
                 value, or `#[live(start = .., restarts)]` if that is meant",
                field.ident
            );
            errors.once_at(&field.ident, message);
        }
        ValueSource::Start(start.clone())
    }

    /// Resolves `#[carry(..)]`, and checks that a state before has the field and that `next` can be used.
    fn carried(
        &self,
        state: usize,
        field: &ast::FieldSyntax,
        carry: &ast::Carry,
        errors: &mut Errors,
    ) -> Carried {
        let from = carry.from.as_ref().unwrap_or(&field.ident);
        let mut sources = self.edges.sources(state).peekable();
        let known: Vec<String> = self
            .edges
            .sources(state)
            .flat_map(|source| self.names(source))
            .collect();
        // The initial state may carry without a state before it: the field begins with `start` or the default.
        if (sources.peek().is_some() || state != self.initial)
            && !known.contains(&from.to_string())
            && !self.edges.incomplete
        {
            let hint = match did_you_mean(&from.to_string(), &known) {
                hint if hint.is_empty() => {
                    ": a value of its own begins with `#[live(start = ..)]`, and one that never changes is `#[fixed(..)]`".to_owned()
                }
                hint => hint,
            };
            let target = &self.ast.states[state].ident;
            errors.at(
                from,
                format!("no state before `{target}` has a field `{from}` to carry{hint}"),
            );
        }
        let is_option = inside_option(&field.ty).is_some();
        if carry.or_ask {
            self.check_supplied_alike(state, from, errors);
        }
        Carried {
            from: from.clone(),
            start: carry.start.clone(),
            next: (carry.next.clone()).filter(|next| total::check(next, is_option, self.ast.types, errors)),
            or_ask: carry.or_ask,
        }
    }

    /// Checks for `#[carry_or_ask]` that each step into the state leaves only states that have the field, or only states that lack it. A step has one struct
    /// for what its caller supplies, and the field is either in it or not.
    fn check_supplied_alike(&self, state: usize, from: &Ident, errors: &mut Errors) {
        for method in &self.edges.methods {
            let has = |source: &usize| self.names(*source).contains(&from.to_string());
            let (with, without): (Vec<usize>, Vec<usize>) = method.sources_of(state).partition(has);
            if let (Some(with), Some(without)) = (with.first(), without.first()) {
                let [with, without] = [*with, *without].map(|state| &self.ast.states[state].ident);
                let message = format!(
                    "`{}` leaves `{with}`, which has `{from}`, and `{without}`, which is asked for it: give one of these steps another name",
                    method.ident
                );
                errors.at(from, message);
            }
        }
    }

    fn origin(&self, state: usize, field: &ast::FieldSyntax, errors: &mut Errors) -> ValueSource {
        if state == self.initial {
            let ident = &self.ast.states[state].ident;
            errors.at(
                &field.ident,
                format!("`{ident}` is where values start: there is no state before it to name"),
            );
            return ValueSource::Caller;
        }
        ValueSource::Origin
    }

    /// Returns the setters of a live field; a terminal state has none.
    fn setters(
        &self,
        state: usize,
        field: &ast::FieldSyntax,
        setters: Setters,
        errors: &mut Errors,
    ) -> Option<Setters> {
        let setters = allowed_setters(self.ast, field, setters, errors)?;
        if self.edges.exits[state].is_empty() && !self.ast.states[state].unread {
            let ident = &self.ast.states[state].ident;
            errors.at(
                &field.ident,
                format!("`{ident}` is terminal, its fields are final: use `#[carry]` or `#[fixed(..)]`"),
            );
            return None;
        }
        Some(setters)
    }

    /// Resolves a kept field, which every state before must have, with one type.
    fn kept_field(&self, state: usize, name: &Ident, errors: &mut Errors) -> Option<FieldDef> {
        if self.ast.shared.iter().any(|field| field.ident == *name) {
            let message = format!("`{name}` is shared: every state has it and keeps it without being asked");
            errors.at(name, message);
            return None;
        }
        if state == self.initial {
            errors.at(
                name,
                format!(
                    "`{}` is where values start, with nothing to keep: declare the field in it, with `#[carry(start = ..)]` if states that lead back have it",
                    self.ast.states[state].ident
                ),
            );
            return None;
        }
        let mut found: Option<(&ast::FieldSyntax, usize)> = None;
        for source in self.edges.sources(state) {
            let Some(field) = self.declaration(source, name, &mut HashSet::from([state])) else {
                if !self.names(source).contains(&name.to_string()) {
                    self.report_missing(state, source, name, errors);
                    return None;
                }
                // `source` keeps the field as well, and no state before it declares the field: it comes from `state` itself, or a state on the way lacks
                // it, which is reported there.
                continue;
            };
            match &found {
                Some((known, first)) if !is_same_type(&known.ty, &field.ty) => {
                    let [first, second] = [*first, source].map(|state| &self.ast.states[state].ident);
                    errors.at(
                        name,
                        format!(
                            "`{name}` has one type in `{first}` and another in `{second}`: use `#[carry]`"
                        ),
                    );
                    return None;
                }
                Some(_) => {}
                None => found = Some((field, source)),
            }
        }
        let (field, _) = found?;
        let live = match field.mark {
            Mark::Live(ast::Live { setters, .. }) if !self.edges.exits[state].is_empty() => Some(setters),
            _ => None,
        };
        Some(field_of(self.ast, field, ValueSource::Kept, live))
    }

    fn report_missing(&self, state: usize, source: usize, name: &Ident, errors: &mut Errors) {
        let [target, source_ident] = [state, source].map(|state| &self.ast.states[state].ident);
        let hint = did_you_mean(&name.to_string(), &self.names(source));
        let message =
            format!("`{target}` is entered from `{source_ident}`, which has no field `{name}` to keep{hint}");
        errors.at(name, message);
    }

    /// Returns the declaration of a field of a state: its own, or for a kept field that of a state before. `seen` has the states already searched.
    fn declaration(
        &self,
        state: usize,
        name: &Ident,
        seen: &mut HashSet<usize>,
    ) -> Option<&ast::FieldSyntax> {
        let declared = &self.ast.states[state].fields;
        if let Some(field) = declared.iter().find(|field| field.ident == *name) {
            return Some(field);
        }
        if !self.kept[state].contains(name) || !seen.insert(state) {
            return None;
        }
        self.edges
            .sources(state)
            .find_map(|source| self.declaration(source, name, seen))
    }

    /// The names of all fields of a state that are not shared.
    fn names(&self, state: usize) -> Vec<String> {
        let own = self.ast.states[state].fields.iter().map(|field| &field.ident);
        own.chain(&self.kept[state]).map(ToString::to_string).collect()
    }
}

/// Returns the stored names of the fields of other states that this state reads and drops.
fn tolerated(ast: &Ast, states: &[StateFields], state: usize, errors: &mut Errors) -> Vec<String> {
    let mut tolerated = Vec::new();
    for name in &ast.states[state].tolerates {
        if states[state].fields.iter().any(|field| field.ident == *name) {
            errors.at(
                name,
                format!(
                    "`{}` has the field `{name}`: nothing to tolerate",
                    ast.states[state].ident
                ),
            );
            continue;
        }
        let elsewhere = || states.iter().flat_map(|state| &state.fields);
        let known: Vec<String> = elsewhere().map(|field| field.ident.to_string()).collect();
        let mut fields = elsewhere().filter(|field| field.ident == *name).peekable();
        if fields.peek().is_none() {
            errors.at(
                name,
                format!(
                    "no state has a field `{name}`{}",
                    did_you_mean(&name.to_string(), &known)
                ),
            );
        }
        tolerated.extend(fields.flat_map(FieldDef::stored_names).map(str::to_string));
    }
    tolerated
}

/// Leaves out fields whose name is taken.
fn unique(fields: Vec<FieldDef>, errors: &mut Errors) -> Vec<FieldDef> {
    let mut kept: Vec<FieldDef> = Vec::new();
    for mut field in fields {
        if kept.iter().any(|known| known.ident == field.ident) {
            errors.at(
                &field.ident,
                format!("there is already a field `{}` in this state", field.ident),
            );
            continue;
        }
        if let Some(known) = kept.iter_mut().find(|known| known.shares_stored_name(&field)) {
            let message = format!(
                "`{}` and `{}` are stored under the same name",
                known.ident, field.ident
            );
            errors.at(&field.ident, message);
            // Without these attributes serde does not report this mistake again.
            known.serde.clear();
            field.serde.clear();
        }
        kept.push(field);
    }
    kept
}

/// Reports setters that a field cannot have, and returns those that it can.
fn allowed_setters(
    ast: &Ast,
    field: &ast::FieldSyntax,
    setters: Setters,
    errors: &mut Errors,
) -> Option<Setters> {
    if setters.record && ast.types {
        let message = "a machine of `types` alone has no events: leave out `record`";
        errors.at(&field.ident, message);
        return None;
    }
    let last = match &field.ty {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => None,
    };
    if let (true, Some(name)) = (
        setters.add,
        last.filter(|name| NOT_ADDED.contains(&name.as_str())),
    ) {
        let message = format!(
            "`add` adds a value of the field's own type by `+=`, which `{name}` does not have: leave out `add`"
        );
        errors.once_at(&field.ty, message);
        return Some(Setters {
            add: false,
            ..setters
        });
    }
    Some(setters)
}

/// Types that cannot be added to themselves; a macro sees only their names.
const NOT_ADDED: [&str; 6] = ["Option", "PathBuf", "String", "Vec", "bool", "char"];

fn field_of(ast: &Ast, field: &ast::FieldSyntax, entry: ValueSource, live: Option<Setters>) -> FieldDef {
    let name = text(&field.ident);
    let mut serde = field.serde.metas.clone();
    let is_option = inside_option(&field.ty).is_some();
    if is_option && !field.serde.skip {
        serde.push(quote::quote!(
            skip_serializing_if = "__core::option::Option::is_none"
        ));
    }
    // Serde reads a missing `Option` as `None` by itself, but not where the field has a reading function of its own.
    if is_option && field.serde.custom_read && !field.serde.default {
        serde.push(quote::quote!(default));
    }
    FieldDef {
        stored_name: stored_name(&field.serde.names.rename, &name, ast.storage.fields, Case::field),
        aliases: field.serde.names.aliases.clone(),
        optional: is_option || field.serde.default,
        schema: field
            .schema
            .clone()
            .or_else(|| inside_option(&field.ty).cloned())
            .unwrap_or_else(|| field.ty.clone()),
        sample: field.sample.clone(),
        ident: field.ident.clone(),
        ty: field.ty.clone(),
        attrs: field.attrs.clone(),
        custom_read: field.serde.custom_read,
        serde,
        entry,
        live,
    }
}

fn is_same_type(left: &Type, right: &Type) -> bool {
    left.to_token_stream().to_string() == right.to_token_stream().to_string()
}
