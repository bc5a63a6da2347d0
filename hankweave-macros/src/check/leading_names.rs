//! First names of the paths in the types and expressions of fields: `serde_json` in `serde_json::Value`. The generated module has names of its own, which
//! must not change what these mean.

use std::collections::HashSet;

use syn::visit_mut::{self, VisitMut};
use syn::{ExprPath, Ident, Path, PathSegment, Token, parse_quote};

use crate::model::{Carried, MachineDef, ValueSource};

/// Returns the first name of each path. A path in an expression that is a single name may name a value; it counts only with `values`.
pub(super) fn names(machine: &mut MachineDef, values: bool) -> HashSet<String> {
    let mut names = HashSet::new();
    let collect = |path: &mut Path, is_value: bool| {
        if values || !is_value {
            names.insert(path.segments[0].ident.to_string());
        }
    };
    visit(machine, &mut Heads(collect));
    names
}

/// Rewrites paths that begin with one of `own`, the generated module's own names, so that they still mean the names next to the machine. `Self` becomes the
/// enum, which it means in the declaration. A single name in an expression stays: the module has only types.
pub(super) fn lift(machine: &mut MachineDef, own: &HashSet<String>) {
    let (_, arguments, _) = machine.generics.split_for_impl();
    let (stored, arguments) = (&machine.stored, arguments.as_turbofish());
    let this: Path = parse_quote!(#stored #arguments);
    let lift = move |path: &mut Path, is_value: bool| {
        let first = &path.segments[0].ident;
        if first == "Self" && !is_value {
            path.segments[0] = this.segments[0].clone();
        } else if !is_value && own.contains(&first.to_string()) {
            let up = Ident::from(Token![super](first.span()));
            path.segments.insert(0, PathSegment::from(up));
        }
    };
    visit(machine, &mut Heads(lift));
}

fn visit(machine: &mut MachineDef, visitor: &mut impl VisitMut) {
    visitor.visit_generics_mut(&mut machine.generics);
    let states = machine.states.iter_mut().flat_map(|state| &mut state.fields);
    for field in machine.shared.iter_mut().chain(states) {
        visitor.visit_type_mut(&mut field.ty);
        visitor.visit_type_mut(&mut field.schema);
        field
            .sample
            .iter_mut()
            .for_each(|sample| visitor.visit_expr_mut(sample));
        match &mut field.entry {
            ValueSource::Start(value) | ValueSource::Fixed(value) => visitor.visit_expr_mut(value),
            ValueSource::Carried(Carried { start, next, .. }) => {
                let next = next.iter_mut().map(|next| &mut next.function);
                for value in start.iter_mut().chain(next) {
                    visitor.visit_expr_mut(value);
                }
            }
            _ => {}
        }
    }
}

/// Calls the function for each path without a leading `::`. Its second argument is whether the path is a single name in an expression, as a value is named.
struct Heads<F>(F);

impl<F: FnMut(&mut Path, bool)> VisitMut for Heads<F> {
    fn visit_path_mut(&mut self, path: &mut Path) {
        visit_mut::visit_path_mut(self, path);
        if path.leading_colon.is_none() && !path.segments.is_empty() {
            (self.0)(path, false);
        }
    }

    fn visit_expr_path_mut(&mut self, expr: &mut ExprPath) {
        match expr.path.get_ident() {
            Some(_) => (self.0)(&mut expr.path, true),
            None => visit_mut::visit_expr_path_mut(self, expr),
        }
    }
}
