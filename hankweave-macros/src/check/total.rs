//! The function of `next`: `apply` calls it for events from outside, so it is defined for every value, or says where it is not (`try_next`).

use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{ExprIndex, ExprMethodCall, Macro, Path};

use crate::ast::Next;
use crate::error::Errors;

/// Methods of the standard library that panic for some values.
const PARTIAL: [&str; 30] = [
    "abs",
    "clamp",
    "copy_from_slice",
    "div_ceil",
    "div_euclid",
    "div_f32",
    "div_f64",
    "drain",
    "expect",
    "expect_err",
    "ilog",
    "ilog10",
    "ilog2",
    "isqrt",
    "mul_f32",
    "mul_f64",
    "next_multiple_of",
    "next_power_of_two",
    "pow",
    "product",
    "rem_euclid",
    "remove",
    "split_at",
    "split_off",
    "strict_add",
    "sum",
    "swap",
    "swap_remove",
    "unwrap",
    "unwrap_err",
];

const PANICS: [&str; 8] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "panic",
    "todo",
    "unimplemented",
    "unreachable",
    "unreachable_unchecked",
];

/// Reports whatever panics by its name, and tells whether there was nothing. A machine of types alone has no `apply`: its functions run where the program calls a step.
pub(super) fn check(next: &Next, types: bool, errors: &mut Errors) -> bool {
    if types && next.may_fail {
        let message = "a machine of `types` alone has no `apply` that could refuse the step: write `next`";
        errors.at(&next.function, message);
        return false;
    }
    let mut partial = Partial {
        errors,
        is_total: true,
    };
    if !types {
        partial.visit_expr_mut(&mut next.function.clone());
    }
    partial.is_total
}

struct Partial<'a> {
    errors: &'a mut Errors,
    is_total: bool,
}

impl Partial<'_> {
    fn report(&mut self, tokens: impl ToTokens, what: &str) {
        let message = format!(
            "{what} panics for some values, and `apply` never does: write what holds for all of them, or `try_next = ..` with a function that returns an \
             `Option`, so that the step is refused"
        );
        self.errors.at(tokens, message);
        self.is_total = false;
    }

    fn path(&mut self, path: &Path) {
        let is_primitive = |name: &str| matches!(name.as_bytes(), [b'u' | b'i' | b'f', rest @ ..] if rest == b"size" || (!rest.is_empty() && rest.iter().all(u8::is_ascii_digit)));
        let mut last_two = path
            .segments
            .iter()
            .rev()
            .map(|segment| segment.ident.to_string());
        if let (Some(name), Some(ty)) = (last_two.next(), last_two.next())
            && PARTIAL.contains(&name.as_str())
            && is_primitive(&ty)
        {
            self.report(path, &format!("`{ty}::{name}`"));
        }
    }
}

impl VisitMut for Partial<'_> {
    fn visit_expr_method_call_mut(&mut self, call: &mut ExprMethodCall) {
        visit_mut::visit_expr_method_call_mut(self, call);
        let name = call.method.to_string();
        if PARTIAL.contains(&name.as_str()) {
            self.report(&call.method, &format!("`{name}`"));
        }
    }

    fn visit_expr_index_mut(&mut self, index: &mut ExprIndex) {
        visit_mut::visit_expr_index_mut(self, index);
        self.report(&*index, "an index");
    }

    fn visit_path_mut(&mut self, path: &mut Path) {
        visit_mut::visit_path_mut(self, path);
        self.path(path);
    }

    fn visit_macro_mut(&mut self, mac: &mut Macro) {
        let name = mac.path.segments.last().map(|last| last.ident.to_string());
        if let Some(name) = name.filter(|name| PANICS.contains(&name.as_str())) {
            self.report(&mac.path, &format!("`{name}!`"));
        }
    }

    /// Skips items, which are functions of the user's own.
    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
}
