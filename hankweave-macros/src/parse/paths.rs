//! Rewrites paths that start with `self` or `super`: the user writes them next to the enum, but generated code is one module deeper.

use syn::visit_mut::{self, VisitMut};
use syn::{Expr, Generics, Ident, Path, PathSegment, Token, Type};

/// Rewrites a type.
pub(crate) fn of_type(ty: &mut Type) {
    NestPaths.visit_type_mut(ty);
}

/// Rewrites a path.
pub(crate) fn of_path(path: &mut Path) {
    NestPaths.visit_path_mut(path);
}

/// Rewrites the bounds of parameters.
pub(crate) fn of_generics(generics: &mut Generics) {
    NestPaths.visit_generics_mut(generics);
}

/// Rewrites an expression.
pub(crate) fn of_expr(expr: &mut Expr) {
    NestPaths.visit_expr_mut(expr);
}

/// `self::Name` becomes `super::Name`, and `super::Name` becomes `super::super::Name`.
struct NestPaths;

impl VisitMut for NestPaths {
    fn visit_path_mut(&mut self, path: &mut Path) {
        visit_mut::visit_path_mut(self, path);
        if path.leading_colon.is_some() || path.segments.len() < 2 {
            return;
        }
        let first = &mut path.segments[0].ident;
        let up = Ident::from(Token![super](first.span()));
        if first == "self" {
            *first = up;
        } else if first == "super" {
            path.segments.insert(0, PathSegment::from(up));
        }
    }
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;

    use super::*;

    #[track_caller]
    fn check(written: &str, moved: &str) {
        let mut ty: Type = syn::parse_str(written).unwrap();
        of_type(&mut ty);
        let expected: Type = syn::parse_str(moved).unwrap();
        assert_eq!(
            ty.into_token_stream().to_string(),
            expected.into_token_stream().to_string()
        );
    }

    #[test]
    fn relative_paths_reach_the_same_place_from_one_module_deeper() {
        check("Option<super::Price>", "Option<super::super::Price>");
        check("self::money::Price", "super::money::Price");
        check("super::super::Price", "super::super::super::Price");
        check(
            "<super::Shop as Trade>::Price",
            "<super::super::Shop as Trade>::Price",
        );
        for same in ["Price", "crate::Price", "::std::string::String", "Vec<u8>"] {
            check(same, same);
        }
    }
}
