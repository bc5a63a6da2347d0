//! Refusal of a `next`, the function that computes a carried value, if it may panic: `apply` calls it for events from outside and must never panic.
//!
//! A method is checked by its name, because a macro knows no types. The listed methods are those of the standard library that have a result for
//! every value; all its others are refused. A path that does not lead into the standard library is a function of the user's own, who is responsible
//! for that. Operators need no check: `expand/checked.rs` makes them refuse the step.

use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, ExprIndex, ExprMethodCall, ExprPath, Item, LitStr, Macro, Stmt, Type};

use crate::ast::Next;
use crate::error::Errors;

/// Prefixes of the names of total methods, with the exceptions in [`PARTIAL`].
const TOTAL_FAMILIES: [&str; 13] = [
    "as_",
    "checked_",
    "count_",
    "from_",
    "into_",
    "is_",
    "leading_",
    "overflowing_",
    "saturating_",
    "to_",
    "trailing_",
    "trim",
    "wrapping_",
];

/// Methods of the families above that can still panic: on a division by zero, a radix above 36, or a duration that does not fit.
const PARTIAL: [&str; 20] = [
    "from_days",
    "from_digit",
    "from_hours",
    "from_mins",
    "from_nanos_u128",
    "from_secs_f32",
    "from_secs_f64",
    "from_str_radix",
    "from_weeks",
    "is_digit",
    "overflowing_div",
    "overflowing_div_euclid",
    "overflowing_rem",
    "overflowing_rem_euclid",
    "saturating_div",
    "to_digit",
    "wrapping_div",
    "wrapping_div_euclid",
    "wrapping_rem",
    "wrapping_rem_euclid",
];

/// Other total methods of the standard library.
const TOTAL: [&str; 100] = [
    "abs_diff",
    "all",
    "and",
    "and_then",
    "any",
    "append",
    "bytes",
    "ceil",
    "chain",
    "chars",
    "clear",
    "clone",
    "cloned",
    "cmp",
    "collect",
    "concat",
    "contains",
    "contains_key",
    "copied",
    "count",
    "dedup",
    "default",
    "ends_with",
    "entry",
    "enumerate",
    "eq",
    "err",
    "extend",
    "filter",
    "filter_map",
    "find",
    "first",
    "flatten",
    "floor",
    "fold",
    "from",
    "get",
    "get_mut",
    "get_or_insert_with",
    "into",
    "iter",
    "iter_mut",
    "join",
    "keys",
    "last",
    "len",
    "lines",
    "map",
    "map_or",
    "map_or_else",
    "max",
    "max_by_key",
    "min",
    "min_by_key",
    "mul_add",
    "ne",
    "new",
    "next",
    "not",
    "nth",
    "ok",
    "ok_or",
    "or",
    "or_default",
    "or_else",
    "or_insert",
    "partial_cmp",
    "pop",
    "position",
    "powf",
    "powi",
    "push",
    "push_str",
    "replace",
    "retain",
    "rev",
    "reverse",
    "reverse_bits",
    "round",
    "signum",
    "skip",
    "sort",
    "sort_unstable",
    "split_first",
    "split_last",
    "sqrt",
    "starts_with",
    "swap_bytes",
    "take",
    "then",
    "then_some",
    "trunc",
    "unsigned_abs",
    "unwrap_or",
    "unwrap_or_default",
    "unwrap_or_else",
    "values",
    "with",
    "xor",
    "zip",
];

/// Reports mistakes in `next`, and returns whether it can be used. A machine of `types` alone has no `apply`: its functions run where the program
/// calls a step, and may panic there.
pub(super) fn check(next: &Next, field_is_option: bool, types_alone: bool, errors: &mut Errors) -> bool {
    if types_alone && next.may_fail {
        let message = "a machine of `types` alone has no `apply` that could refuse the step: write `next`";
        errors.at(&next.function, message);
        return false;
    }
    if types_alone {
        return true;
    }
    // The compiler would refuse it too, but with a type error in generated code that does not mention `try_next`.
    if !next.may_fail
        && !field_is_option
        && let Some(call) = final_checked_call(&next.function)
    {
        let message = format!(
            "`{}` returns an `Option`: write `try_next = ..`, and the step is refused where there is none",
            call.method
        );
        errors.at(&call.method, message);
        return false;
    }
    let mut visitor = PanicVisitor { errors, found: false };
    visitor.visit_expr_mut(&mut next.function.clone());
    !visitor.found
}

/// Returns the call whose result a closure returns, if the name of the call shows that this is an `Option`, as in `|tries| tries.checked_add(1)`.
fn final_checked_call(function: &Expr) -> Option<&ExprMethodCall> {
    let body = match function {
        Expr::Closure(closure) => &*closure.body,
        _ => return None,
    };
    let last = match body {
        Expr::Block(block) => match block.block.stmts.last()? {
            Stmt::Expr(last, None) => last,
            _ => return None,
        },
        other => other,
    };
    match last {
        Expr::MethodCall(call) if call.method.to_string().starts_with("checked_") => Some(call),
        _ => None,
    }
}

fn is_total(method: &str) -> bool {
    let in_family = || TOTAL_FAMILIES.iter().any(|family| method.starts_with(family));
    TOTAL.contains(&method) || (in_family() && !PARTIAL.contains(&method))
}

/// Reports each call that may panic.
struct PanicVisitor<'a> {
    errors: &'a mut Errors,
    found: bool,
}

impl PanicVisitor<'_> {
    fn report(&mut self, tokens: impl ToTokens, what: &str) {
        let message = format!(
            "{what} may panic, and `apply` never does: write what holds for all values, or `try_next = ..` with a function that returns an `Option`, so \
             that the step is refused; a function of your own may be called, and is yours"
        );
        self.errors.at(tokens, message);
        self.found = true;
    }
}

/// Whether a path leads into the standard library, so that its function is known by its name. `<T>::f` counts too: `T` may be a type of it.
fn is_of_std(path: &ExprPath) -> bool {
    let first = path
        .path
        .segments
        .first()
        .map(|first| first.ident.to_string())
        .unwrap_or_default();
    let is_number = matches!(
        first.as_bytes(),
        [b'u' | b'i' | b'f', rest @ ..] if rest == b"size" || (!rest.is_empty() && rest.iter().all(u8::is_ascii_digit))
    );
    let known = [
        "core",
        "std",
        "alloc",
        "char",
        "str",
        "String",
        "Vec",
        "Duration",
        "Instant",
        "SystemTime",
        "Option",
        "Result",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Rem",
        "Neg",
        "Shl",
        "Shr",
    ];
    path.qself.is_some() || is_number || known.contains(&first.as_str())
}

/// Whether a path is `Duration::new`, the one `new` that panics: on seconds that do not fit.
fn is_new_duration(path: &ExprPath) -> bool {
    let segments = &path.path.segments;
    let owner = match path.qself.as_ref().map(|of| &*of.ty) {
        Some(Type::Path(owner)) => owner.path.segments.last(),
        Some(_) => None,
        None => segments.iter().rev().nth(1),
    };
    let is_named = |name: &str, segment: &syn::PathSegment| segment.ident == name;
    segments.last().is_some_and(|method| is_named("new", method))
        && owner.is_some_and(|owner| is_named("Duration", owner))
}

/// Whether a macro makes a value out of text alone. `format!` must have no arguments, since operators in them would not be checked, and no `$`, which takes a
/// width from a variable: a width that is too large panics.
fn is_total_macro(name: &str, call: &Macro) -> bool {
    match name {
        "concat" | "stringify" => true,
        "format" => call
            .parse_body::<LitStr>()
            .is_ok_and(|text| !text.value().contains('$')),
        _ => false,
    }
}

impl VisitMut for PanicVisitor<'_> {
    fn visit_expr_method_call_mut(&mut self, call: &mut ExprMethodCall) {
        visit_mut::visit_expr_method_call_mut(self, call);
        let name = call.method.to_string();
        if !is_total(&name) {
            self.report(&call.method, &format!("`{name}`"));
        }
    }

    fn visit_expr_path_mut(&mut self, path: &mut ExprPath) {
        visit_mut::visit_expr_path_mut(self, path);
        let name = path
            .path
            .segments
            .last()
            .map(|last| last.ident.to_string())
            .unwrap_or_default();
        let is_function = name.starts_with(char::is_lowercase) && path.path.segments.len() > 1;
        if is_function && is_of_std(path) && (!is_total(&name) || is_new_duration(path)) {
            self.report(&*path, &format!("`{name}`"));
        }
    }

    fn visit_expr_index_mut(&mut self, index: &mut ExprIndex) {
        visit_mut::visit_expr_index_mut(self, index);
        self.report(&*index, "an index");
    }

    fn visit_macro_mut(&mut self, call: &mut Macro) {
        let name = call
            .path
            .segments
            .last()
            .map(|last| last.ident.to_string())
            .unwrap_or_default();
        if !is_total_macro(&name, call) {
            self.report(&call.path, &format!("`{name}!`"));
        }
    }

    fn visit_item_mut(&mut self, item: &mut Item) {
        let message = "what `next` calls stands beside the machine, where it is a function of your own: move the item there";
        self.errors.at(&*item, message);
        self.found = true;
    }
}
