//! Trust of tools: their labels, and `approve: |args, shop| args.eur > shop.limit`, which
//! determines when a person must approve their calls. Options of tools and items of `tools: […]` have both.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Expr, ExprClosure, LitBool, Path, Result, Token};

use crate::symbol;

pub(crate) enum Approval {
    Always(Span),
    Tainted(Span),
    Function(Path),
    Closure(Box<ExprClosure>),
}

/// The maximum number of a condition's parameters: the arguments, the context and the labels of the conversation.
const MOST: usize = 3;

impl Approval {
    pub(crate) fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(Token![|]) || input.peek(Token![||]) || input.peek(Token![move]) || input.peek(Token![async]) {
            return closure(input.parse()?);
        }
        if input.peek(LitBool) {
            return Err(input.error("write `always`, `tainted` or a condition, or remove this option"));
        }
        let expected = "expected `always`, `tainted`, a closure or the path of a function";
        let path: Path = input.parse().map_err(|error| syn::Error::new(error.span(), expected))?;
        if input.peek(syn::token::Paren) {
            return Err(input.error("a condition is named, not called: remove the parentheses"));
        }
        Ok(match path.get_ident() {
            Some(word) if word == symbol::ALWAYS => Self::Always(word.span()),
            Some(word) if word == symbol::TAINTED => Self::Tainted(word.span()),
            _ => Self::Function(path),
        })
    }

    /// Returns the code of an `ApprovalRule`. The type of `tool` determines the type of its arguments.
    pub(crate) fn rule(&self, tool: &TokenStream, context: &TokenStream) -> TokenStream {
        match self {
            Self::Always(here) => quote_spanned!(*here=> __hier::ApprovalRule::<#context>::always()),
            Self::Tainted(here) => quote_spanned!(*here=> __hier::ApprovalRule::<#context>::tainted()),
            Self::Function(path) => {
                let here = path.segments.last().map_or_else(Span::call_site, |last| last.ident.span());
                quote_spanned!(here=> __hier::path_rule::<#tool, _, #context, _, _>(#path))
            }
            Self::Closure(closure) => closure_rule(closure, tool, context),
        }
    }
}

fn closure(closure: ExprClosure) -> Result<Approval> {
    if closure.inputs.is_empty() || closure.inputs.len() > MOST {
        let shape = "a condition takes the arguments, then optionally the context and the labels of the conversation: write \
                     `|args, shop| args.eur > shop.limit`";
        return Err(syn::Error::new_spanned(closure, shape));
    }
    Ok(Approval::Closure(Box::new(closure)))
}

/// Wraps the user's closure in a closure whose parameters have known types.
fn closure_rule(closure: &ExprClosure, tool: &TokenStream, context: &TokenStream) -> TokenStream {
    let here = closure.body.span();
    let name = |name: &str| Ident::new(name, Span::mixed_site());
    let given = [name("__args"), name("__context"), name("__labels")];
    let bound = closure.inputs.iter().zip(&given).map(|(pattern, value)| quote!(let #pattern = #value;));
    let (body, given) = (&closure.body, &given);
    let asynchronous = match &**body {
        Expr::Async(block) => Some(&block.block),
        _ => None,
    };
    if closure.asyncness.is_none() && asynchronous.is_none() {
        return quote_spanned! {here=>
            __hier::sync_rule::<#tool, _, #context, _, _>(|#(#given),*| { let _ = (#(&#given),*); #(#bound)* #body })
        };
    }
    // A block keeps its braces, because a second pair would cause a warning in the user's code.
    let body = match (&**body, asynchronous) {
        (_, Some(block)) => quote!(#block),
        (Expr::Block(block), None) if block.label.is_none() && block.attrs.is_empty() => quote!(#block),
        _ => quote!({ #body }),
    };
    quote_spanned! {here=>
        __hier::async_rule::<#tool, _, #context, _, _>(
            |#(#given),*| { let _ = (#(&#given),*); #(#bound)* __hier::std::boxed::Box::pin(async move #body) }
        )
    }
}

pub(crate) fn labels(words: &[Ident]) -> TokenStream {
    let constants = words.iter().filter_map(|word| {
        let (_, constant) = symbol::LABELS.iter().find(|(label, _)| word == label)?;
        let constant = Ident::new(constant, word.span());
        Some(quote!(.with(__hier::TrustLabels::#constant)))
    });
    quote!(__hier::TrustLabels::NONE #(#constants)*)
}
