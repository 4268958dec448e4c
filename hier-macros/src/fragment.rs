//! Fragments such as `$kind:ty`, which a `macro_rules!` passes on in a group without delimiters.

use syn::{Expr, Type};

/// Returns the expression inside the groups.
pub(crate) fn expression(mut value: &Expr) -> &Expr {
    while let Expr::Group(group) = value {
        value = &group.expr;
    }
    value
}

/// Returns the type inside the groups.
pub(crate) fn ty(mut ty: Type) -> Type {
    while let Type::Group(group) = ty {
        ty = *group.elem;
    }
    ty
}
