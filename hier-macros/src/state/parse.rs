//! Reads the struct and the attributes of its fields.

mod reducer;

use proc_macro2::Span;
use quote::ToTokens;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Data, DeriveInput, Expr, ExprPath, Fields, Generics, Ident, Lit, LitStr, Meta, Path, Token, Type,
    Visibility, parse_quote,
};

use crate::diag::{Errors, unknown};
use crate::fragment;
use crate::symbol;

pub(super) struct StateInput {
    pub(super) vis: Visibility,
    pub(super) ident: Ident,
    pub(super) generics: Generics,
    pub(super) fields: Vec<StateField>,
    /// The value of `crate = path`.
    pub(super) home: Option<Path>,
    /// Each `version`, with its location.
    pub(super) versions: Vec<(u32, Span)>,
    /// Each list of `migrate`, with its location.
    pub(super) migrations: Vec<(Vec<ExprPath>, Span)>,
}

/// A field. Each list has one entry per occurrence of the attribute.
pub(super) struct StateField {
    pub(super) ident: Ident,
    pub(super) ty: Type,
    pub(super) docs: Vec<Attribute>,
    pub(super) reducers: Vec<Reducer>,
    pub(super) kinds: Vec<KindWord>,
    pub(super) deltas: Vec<Span>,
    pub(super) secrets: Vec<Span>,
    pub(super) initials: Vec<Span>,
    pub(super) flattens: Vec<Span>,
    pub(super) renames: Vec<LitStr>,
}

impl StateField {
    /// Makes a field that cannot be stored an untracked channel, so that its method exists.
    fn leave_unstored(&mut self) {
        self.kinds = vec![KindWord { word: Ident::new(symbol::UNTRACKED, self.ty.span()), accumulate: false }];
        self.reducers.clear();
        self.deltas.clear();
        self.flattens.clear();
    }
}

/// The value of `#[reducer(…)]`.
#[derive(Clone)]
pub(super) enum Reducer {
    Builtin(Ident),
    With {
        word: Ident,
        path: ExprPath,
    },
    /// A value that the macro has rejected.
    Unknown(Span),
}

impl Reducer {
    pub(super) fn span(&self) -> Span {
        match self {
            Self::Builtin(word) | Self::With { word, .. } => word.span(),
            Self::Unknown(span) => *span,
        }
    }

    pub(super) const fn word(&self) -> Option<&Ident> {
        match self {
            Self::Builtin(word) | Self::With { word, .. } => Some(word),
            Self::Unknown(_) => None,
        }
    }
}

/// The value of `#[channel(…)]`, except `delta`, `secret` and `initial`.
pub(super) struct KindWord {
    pub(super) word: Ident,
    pub(super) accumulate: bool,
}

pub(super) fn parse(input: DeriveInput, errors: &mut Errors) -> StateInput {
    let borrows = input.generics.lifetimes().next().is_some();
    for lifetime in input.generics.lifetimes() {
        errors.push(
            lifetime,
            "a state cannot borrow, because it outlives every step: use owned types (`String` for `&str`, `Vec<T>` for `&[T]`)",
        );
    }
    let written = named_fields(input.data, &input.ident, errors);
    let mut fields: Vec<StateField> = Vec::new();
    for field in written.into_iter().filter(|_| !borrows) {
        // The compiler reports a field that is declared twice, and a type that no field can have.
        match field.ident.clone() {
            Some(ident) if fields.iter().all(|other| other.ident != ident) && !NoFieldType::is(&field.ty) => {
                let mut field = self::field(ident, field, errors);
                Named { state: &input.ident, generics: &input.generics }.visit_type_mut(&mut field.ty);
                let is_stored = !field.kinds.iter().any(|kind| kind.word == symbol::UNTRACKED);
                if is_stored && matches!(field.ty, Type::Reference(_)) {
                    errors.push(&field.ty, BORROWED);
                    field.leave_unstored();
                }
                fields.push(field);
            }
            _ => {}
        }
    }
    let (vis, ident, generics) = (input.vis, input.ident, input.generics);
    let mut read =
        StateInput { vis, ident, generics, fields, home: None, versions: Vec::new(), migrations: Vec::new() };
    for attribute in &input.attrs {
        let path = attribute.path();
        if path.is_ident(symbol::STATE) {
            for word in words(attribute, "version = 2", errors) {
                struct_option(&word, &mut read, errors);
            }
        } else if path.is_ident(symbol::REDUCER) || path.is_ident(symbol::CHANNEL) {
            errors.push(attribute, format!("`{}` is an attribute of a channel: write it above a field", text(path)));
        }
    }
    read
}

const BORROWED: &str = "a stored channel owns its value: write an owned type (`String` for `&str`, `Vec<T>` for `&[T]`), or add \
                        `#[channel(untracked)]`";

/// Finds a reference without a lifetime, `_` and `impl Trait`, which the type of a field cannot contain.
struct NoFieldType(bool);

impl NoFieldType {
    fn is(ty: &Type) -> bool {
        let mut visitor = Self(false);
        visitor.visit_type(ty);
        visitor.0
    }
}

impl<'ast> Visit<'ast> for NoFieldType {
    fn visit_type_reference(&mut self, reference: &'ast syn::TypeReference) {
        self.0 |= reference.lifetime.is_none();
        visit::visit_type_reference(self, reference);
    }

    fn visit_type_infer(&mut self, _: &'ast syn::TypeInfer) {
        self.0 = true;
    }

    fn visit_type_impl_trait(&mut self, _: &'ast syn::TypeImplTrait) {
        self.0 = true;
    }

    // The arguments of a function need no lifetimes.
    fn visit_type_fn_ptr(&mut self, _: &'ast syn::TypeFnPtr) {}

    fn visit_parenthesized_generic_arguments(&mut self, _: &'ast syn::ParenthesizedGenericArguments) {}
}

/// Replaces `Self` by the state, because `Self` is another type in the generated types.
struct Named<'a> {
    state: &'a Ident,
    generics: &'a Generics,
}

impl VisitMut for Named<'_> {
    fn visit_path_mut(&mut self, path: &mut Path) {
        visit_mut::visit_path_mut(self, path);
        let Some(first) = path.segments.first_mut().filter(|first| first.ident == "Self") else { return };
        let (mut state, (_, arguments, _)) = (self.state.clone(), self.generics.split_for_impl());
        state.set_span(state.span().located_at(first.ident.span()));
        let arguments = arguments.as_turbofish();
        *first = parse_quote!(#state #arguments);
    }
}

fn struct_option(meta: &Meta, input: &mut StateInput, errors: &mut Errors) {
    let name = text(meta.path());
    let value = match meta {
        Meta::NameValue(value) => Some(fragment::expression(&value.value)),
        _ => None,
    };
    match (&*name, value) {
        (symbol::VERSION, value) => match value.and_then(version) {
            Some(number) => input.versions.push((number, meta.span())),
            None => errors.push(meta, format!("the version of a state is a number up to {}: `version = 2`", u32::MAX)),
        },
        (symbol::MIGRATE, Some(value)) => match paths(value) {
            Some(paths) => input.migrations.push((paths, meta.span())),
            None => errors.push(value, MIGRATE),
        },
        (symbol::CRATE, Some(_)) if input.home.is_some() => errors.push(meta, "`crate` is given twice: remove one"),
        (symbol::CRATE, Some(Expr::Path(path))) => input.home = Some(path.path.clone()),
        (symbol::CRATE, _) => errors.push(meta, "`crate` takes the path of hier: `crate = my_crate::hier`"),
        (symbol::MIGRATE, None) => errors.push(meta, MIGRATE),
        _ => errors.push(meta, unknown("option of a state:", &name, symbol::STRUCT_OPTIONS)),
    }
}

fn version(value: &Expr) -> Option<u32> {
    match value {
        Expr::Lit(syn::ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse().ok(),
        _ => None,
    }
}

const MIGRATE: &str = "`migrate` takes a function, or a list whose last function migrates from the previous version: \
                       `migrate = from_v2`, `migrate = [from_v1, from_v2]`";

fn paths(value: &Expr) -> Option<Vec<ExprPath>> {
    match fragment::expression(value) {
        Expr::Path(path) => Some(vec![path.clone()]),
        Expr::Array(list) => list.elems.iter().map(|item| paths(item).and_then(|mut one| one.pop())).collect(),
        _ => None,
    }
}

fn named_fields(data: Data, ident: &Ident, errors: &mut Errors) -> Vec<syn::Field> {
    let what = match data {
        Data::Struct(data) => match data.fields {
            Fields::Named(fields) => return fields.named.into_iter().collect(),
            Fields::Unnamed(_) => "a struct whose fields have no names",
            Fields::Unit => "a struct without fields",
        },
        Data::Enum(_) => "an enum",
        Data::Union(_) => "a union",
    };
    errors.push(
        ident,
        format!("a state is a struct with named fields, and `{ident}` is {what}: write `struct {ident} {{ … }}`"),
    );
    Vec::new()
}

fn field(ident: Ident, field: syn::Field, errors: &mut Errors) -> StateField {
    let mut read = StateField {
        ident,
        ty: fragment::ty(field.ty),
        docs: Vec::new(),
        reducers: Vec::new(),
        kinds: Vec::new(),
        deltas: Vec::new(),
        secrets: Vec::new(),
        initials: Vec::new(),
        flattens: Vec::new(),
        renames: Vec::new(),
    };
    for attribute in field.attrs {
        let path = attribute.path();
        if path.is_ident("doc") {
            read.docs.push(attribute);
        } else if path.is_ident(symbol::REDUCER) {
            let words = words(&attribute, "append", errors);
            if words.is_empty() {
                read.reducers.push(Reducer::Unknown(path.span()));
            }
            read.reducers.extend(words.iter().map(|word| reducer::reducer(word, errors)));
        } else if path.is_ident(symbol::CHANNEL) {
            for word in words(&attribute, symbol::EPHEMERAL, errors) {
                channel(&word, &mut read, errors);
            }
        } else if path.is_ident(symbol::STATE) {
            for word in words(&attribute, symbol::FLATTEN, errors) {
                option(&word, &mut read, errors);
            }
        }
    }
    read
}

fn words(attribute: &Attribute, example: &str, errors: &mut Errors) -> Vec<Meta> {
    let name = attribute.path().to_token_stream().to_string();
    let list = match &attribute.meta {
        Meta::List(list) if !list.tokens.is_empty() => list,
        Meta::NameValue(meta) => {
            errors.push(meta, format!("write the value of `{name}` in parentheses: `#[{name}({example})]`"));
            return Vec::new();
        }
        _ => {
            errors.push(&attribute.meta, format!("`#[{name}]` is empty: write, for example, `#[{name}({example})]`"));
            return Vec::new();
        }
    };
    let meta = if name == symbol::REDUCER { reducer::meta } else { meta };
    let read =
        list.parse_args_with(|input: ParseStream<'_>| Punctuated::<_, Token![,]>::parse_terminated_with(input, meta));
    errors.keep(read).into_iter().flatten().collect()
}

fn meta(input: ParseStream<'_>) -> syn::Result<Meta> {
    if input.peek(syn::Lit) {
        return Err(input.error("expected a word such as `append`, without quotes"));
    }
    input.parse()
}

fn channel(meta: &Meta, field: &mut StateField, errors: &mut Errors) {
    let name = text(meta.path());
    match (word(meta), meta) {
        (Some(word), Meta::Path(_)) if name == symbol::DELTA => field.deltas.push(word.span()),
        (Some(word), Meta::Path(_)) if name == symbol::SECRET => field.secrets.push(word.span()),
        (Some(word), Meta::Path(_)) if name == symbol::INITIAL => field.initials.push(word.span()),
        (Some(word), Meta::Path(_)) if symbol::CHANNEL_KINDS.contains(&&*name) => {
            field.kinds.push(KindWord { word, accumulate: false });
        }
        (Some(word), Meta::List(list)) if name == symbol::TOPIC => {
            let inner = list.tokens.to_string();
            if inner.is_empty() {
                errors.push(list, "write `topic` alone, or `topic(accumulate)`");
            } else if inner != symbol::ACCUMULATE {
                errors.push(&list.tokens, unknown("option of a topic:", &inner, &[symbol::ACCUMULATE]));
            }
            field.kinds.push(KindWord { word, accumulate: true });
        }
        _ if symbol::CHANNEL_KINDS.contains(&&*name) => {
            errors.push(meta, format!("`{name}` takes no value: write `#[channel({name})]`"));
        }
        _ if symbol::REDUCERS.contains(&&*name) => {
            errors.push(meta, format!("`{name}` is a reducer, not a kind of channel: write `#[reducer({name})]`"));
        }
        _ => errors.push(meta, unknown("kind of channel", &name, symbol::CHANNEL_KINDS)),
    }
}

fn option(meta: &Meta, field: &mut StateField, errors: &mut Errors) {
    let name = text(meta.path());
    match meta {
        Meta::Path(path) if name == symbol::FLATTEN => field.flattens.push(path.span()),
        Meta::NameValue(value) if name == symbol::RENAME => match fragment::expression(&value.value) {
            Expr::Lit(syn::ExprLit { lit: Lit::Str(text), .. }) => field.renames.push(text.clone()),
            other => errors.push(other, "the name of a channel is a string: `rename = \"name\"`"),
        },
        _ if name == symbol::FLATTEN => errors.push(meta, "`flatten` takes no value: write `#[state(flatten)]`"),
        _ if name == symbol::RENAME => errors.push(meta, "`rename` needs a name: `#[state(rename = \"name\")]`"),
        _ if symbol::REDUCERS.contains(&&*name) => {
            errors.push(meta, format!("`{name}` is a reducer: write `#[reducer({name})]`"));
        }
        _ if symbol::CHANNEL_KINDS.contains(&&*name) => {
            errors.push(meta, format!("`{name}` is a kind of channel: write `#[channel({name})]`"));
        }
        _ => errors.push(meta, unknown("option", &name, symbol::STATE_OPTIONS)),
    }
}

fn word(meta: &Meta) -> Option<Ident> {
    meta.path().get_ident().cloned()
}

fn text(path: &Path) -> String {
    path.to_token_stream().to_string().replace(' ', "")
}
