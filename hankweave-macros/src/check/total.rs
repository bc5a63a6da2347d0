//! The function of `next`: `apply` calls it for events from outside, so it is defined for every value, or says where it is not (`try_next`).
//!
//! Methods are known by their names alone: those of the standard library that hold for all values are listed, and every other one is for a function of the
//! user's own, who answers for it.

use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, ExprIndex, ExprMethodCall, ExprPath, Item, Macro, Stmt};

use crate::ast::Next;
use crate::error::Errors;

/// Beginnings of the names of methods that say in their result when there is none, or go to the edge.
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

/// Other methods of the standard library that hold for all values.
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

/// Macros that only make a value.
const MAKES_A_VALUE: [&str; 3] = ["concat", "format", "stringify"];

/// Checks the function, and tells whether it can be used. A machine of types alone has no `apply`: its functions run where the program calls a step.
pub(super) fn check(next: &Next, is_option: bool, types: bool, errors: &mut Errors) -> bool {
    if types && next.may_fail {
        let message = "a machine of `types` alone has no `apply` that could refuse the step: write `next`";
        errors.at(&next.function, message);
        return false;
    }
    if types {
        return true;
    }
    if let Some(call) = optional_result(&next.function).filter(|_| !next.may_fail && !is_option) {
        let message = format!(
            "`{}` returns an `Option`: write `try_next = ..`, and the step is refused where there is none",
            call.method
        );
        errors.at(&call.method, message);
        return false;
    }
    let mut partial = Partial {
        errors,
        is_total: true,
    };
    partial.visit_expr_mut(&mut next.function.clone());
    partial.is_total
}

/// The last call of a function whose result is an `Option` by its name.
fn optional_result(function: &Expr) -> Option<&ExprMethodCall> {
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
    TOTAL.contains(&method) || TOTAL_FAMILIES.iter().any(|family| method.starts_with(family))
}

struct Partial<'a> {
    errors: &'a mut Errors,
    is_total: bool,
}

impl Partial<'_> {
    fn report(&mut self, tokens: impl ToTokens, what: &str) {
        let message = format!(
            "{what} may panic, and `apply` never does: write what holds for all values, or `try_next = ..` with a function that returns an `Option`, so \
             that the step is refused; a function of your own may be called, and is yours"
        );
        self.errors.at(tokens, message);
        self.is_total = false;
    }

    /// Whether a path leads into the standard library, so that its function is known by its name.
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
}

impl VisitMut for Partial<'_> {
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
        if is_function && Self::is_of_std(path) && !is_total(&name) {
            self.report(&*path, &format!("`{name}`"));
        }
    }

    fn visit_expr_index_mut(&mut self, index: &mut ExprIndex) {
        visit_mut::visit_expr_index_mut(self, index);
        self.report(&*index, "an index");
    }

    fn visit_macro_mut(&mut self, mac: &mut Macro) {
        let name = mac
            .path
            .segments
            .last()
            .map(|last| last.ident.to_string())
            .unwrap_or_default();
        if !MAKES_A_VALUE.contains(&name.as_str()) {
            self.report(&mac.path, &format!("`{name}!`"));
        }
    }

    fn visit_item_mut(&mut self, item: &mut Item) {
        let message = "what `next` calls stands beside the machine, where it is a function of your own: move the item there";
        self.errors.at(&*item, message);
        self.is_total = false;
    }
}
