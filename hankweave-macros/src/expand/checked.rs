//! Arithmetic of `next`, checked: an event from outside must not make `apply` panic, nor wrap around in silence.
//!
//! Each operator becomes a call that does what the operator does and notes in the variable `sums` if the result does not fit. The types decide what the call
//! does: numbers and durations are checked, other types keep their operator.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Expr, ExprBinary, ExprUnary, Path, UnOp, parse_quote};

use crate::ast::Next;
use crate::model::{FieldDef, MachineDef};

use super::states::at;

/// The function of `next` with checked operators.
pub(super) struct CheckedNext {
    /// The variable in which the operators note that a result does not fit.
    pub(super) sums: Ident,
    pub(super) next: Expr,
    /// Whether the function itself returns an `Option`: `try_next`.
    pub(super) may_fail: bool,
}

/// Replaces the operators of `next`. Returns `None` where nothing can fail, or where there is no `apply` that could refuse the step.
pub(super) fn of_next(next: &Next, machine: &MachineDef, krate: &Path) -> Option<CheckedNext> {
    if machine.types {
        return None;
    }
    let may_fail = next.may_fail;
    let mut next = next.function.clone();
    let mut operators = Operators {
        sums: Ident::new("sums", Span::mixed_site()),
        krate,
        found: false,
    };
    operators.visit_expr_mut(&mut next);
    let Operators { sums, found, .. } = operators;
    (found || may_fail).then_some(CheckedNext { sums, next, may_fail })
}

/// Visitor that replaces operators.
struct Operators<'a> {
    sums: Ident,
    krate: &'a Path,
    /// Whether an operator was replaced.
    found: bool,
}

impl Operators<'_> {
    /// Returns the call that replaces an operator at `position`, where a type error is then shown.
    fn call(&mut self, method: &str, position: Span, left: &Expr, right: &Expr) -> Expr {
        self.found = true;
        let (sums, krate) = (&self.sums, self.krate);
        let here = Span::call_site().located_at(position);
        let method = Ident::new(method, here);
        let pair = at(quote!(#krate::__private::Pair), &method);
        let [left, right] = [left, right].map(unwrapped);
        let block = quote_spanned! {here=> {
            #[allow(unused_imports, reason = "numbers need it no more than durations")]
            use #krate::__private::Unchecked as _;
            #pair(#left, #right).#method(&#sums)
        }};
        Expr::Verbatim(block)
    }

    /// Returns the assignment to a computed place. The place is borrowed once: written twice, the calls in it would happen twice. The right side comes first,
    /// as rustc does it for numbers, because it may read what the place borrows. With `+=`, other types keep their operator, which may need no `Copy`.
    fn assignment(&mut self, method: &str, position: Span, left: &Expr, right: &Expr) -> Expr {
        self.found = true;
        let [place, value] = ["place", "value"].map(|name| Ident::new(name, Span::mixed_site()));
        let change = match method {
            "plus" => {
                let here = Span::call_site().located_at(position);
                let (sums, added) = (&self.sums, added(here, &quote!(#place), &value, self.krate));
                quote!(#sums.note_unless(#added))
            }
            _ => {
                let result = self.call(method, position, &parse_quote!(*#place), &parse_quote!(#value));
                quote!(*#place = #result)
            }
        };
        let [left, right] = [left, right].map(unwrapped);
        Expr::Verbatim(quote!(match (#right, &mut #left) { (#value, #place) => #change }))
    }
}

/// Returns the method that replaces an operator, and whether the operator assigns its result; `None` for an operator that cannot overflow.
fn method(operator: &BinOp) -> Option<(&'static str, bool)> {
    Some(match operator {
        BinOp::Add(_) => ("plus", false),
        BinOp::Sub(_) => ("minus", false),
        BinOp::Mul(_) => ("times", false),
        BinOp::Div(_) => ("divided", false),
        BinOp::Rem(_) => ("rest", false),
        BinOp::AddAssign(_) => ("plus", true),
        BinOp::SubAssign(_) => ("minus", true),
        BinOp::MulAssign(_) => ("times", true),
        BinOp::DivAssign(_) => ("divided", true),
        BinOp::RemAssign(_) => ("rest", true),
        BinOp::Shl(_) => ("shifted_left", false),
        BinOp::Shr(_) => ("shifted_right", false),
        BinOp::ShlAssign(_) => ("shifted_left", true),
        BinOp::ShrAssign(_) => ("shifted_right", true),
        _ => return None,
    })
}

/// Returns whether an expression names a place in memory and does nothing else, so that it can be written twice: `a += b` becomes `a = plus(a, b)`.
fn is_place(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) => true,
        Expr::Field(field) => is_place(&field.base),
        Expr::Paren(inner) => is_place(&inner.expr),
        Expr::Group(inner) => is_place(&inner.expr),
        Expr::Index(index) => is_place(&index.expr) && (is_literal(&index.index) || is_place(&index.index)),
        Expr::Unary(ExprUnary {
            op: UnOp::Deref(_),
            expr,
            ..
        }) => is_place(expr),
        _ => false,
    }
}

/// Returns whether an expression is a place that is computed, such as `*map.entry(1).or_default()`. rustc reports an assignment to anything else.
fn is_computed_place(expr: &Expr) -> bool {
    match expr {
        Expr::Field(_) | Expr::Index(_) => true,
        Expr::Unary(ExprUnary { op, .. }) => matches!(op, UnOp::Deref(_)),
        Expr::Paren(inner) => is_computed_place(&inner.expr),
        Expr::Group(inner) => is_computed_place(&inner.expr),
        _ => false,
    }
}

/// Returns an operand without its parentheses, which an argument of a call does not need.
fn unwrapped(operand: &Expr) -> &Expr {
    match operand {
        Expr::Paren(inner) => &inner.expr,
        other => other,
    }
}

fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Lit(_))
}

impl VisitMut for Operators<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        visit_mut::visit_expr_mut(self, expr);
        if let Expr::Unary(ExprUnary {
            op: UnOp::Neg(_),
            expr: operand,
            ..
        }) = expr
            && !is_literal(operand)
        {
            *expr = self.call("negated", operand.span(), operand, &parse_quote!(()));
        }
        let Expr::Binary(ExprBinary { left, op, right, .. }) = expr else {
            return;
        };
        let Some((method, assigns)) = method(op) else {
            return;
        };
        // The compiler computes this itself, and checks it.
        if is_literal(left) && is_literal(right) {
            return;
        }
        let position = op.span();
        if !assigns {
            *expr = self.call(method, position, left, right);
        } else if is_place(left) {
            let value = self.call(method, position, left, right);
            *expr = parse_quote!(#left = #value);
        } else if is_computed_place(left) {
            *expr = self.assignment(method, position, left, right);
        }
    }
}

/// Generates the expression that adds the variable `delta` to the field at `place` and is `true` if the sum fits.
pub(super) fn sum(field: &FieldDef, place: &TokenStream, krate: &Path) -> TokenStream {
    // A type that cannot be added to is then reported at its field.
    let here = Span::call_site().located_at(field.ident.span());
    let delta = Ident::new("delta", here);
    added(here, &quote_spanned!(here=> &mut #place), &delta, krate)
}

/// Generates the expression that adds the variable `value` to the variable that `place` refers to and is `true` if the sum fits.
fn added(here: Span, place: &TokenStream, value: &Ident, krate: &Path) -> TokenStream {
    quote_spanned! {here=> {
        #[allow(unused_imports, reason = "numbers do not need it")]
        use #krate::__private::Assigned as _;
        #krate::__private::Change(#place, #value).added()
    }}
}
