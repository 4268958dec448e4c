//! `#[derive(TextFree)]`: checks that no field can carry text.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Field};

use crate::crate_path::Hier;
use crate::diag::{Errors, unknown};

const ATTRIBUTE: &str = "text_free";
/// Makes the derive accept a field of a foreign type.
const ASSUME: &str = "assume";

pub(crate) fn derive(input: TokenStream, hier: &Hier) -> TokenStream {
    let mut errors = Errors::default();
    let code = errors.keep(syn::parse2(input)).map(|input| expand(&input, hier, &mut errors));
    let errors = errors.into_tokens();
    quote!(#errors #code)
}

/// Also generates the implementation after an error, so that no errors follow elsewhere.
fn expand(input: &DeriveInput, hier: &Hier, errors: &mut Errors) -> TokenStream {
    let ident = &input.ident;
    if !input.generics.params.is_empty() {
        errors.push(&input.generics, "a text-free type has no parameters: write concrete types");
        return TokenStream::new();
    }
    let hier = hier.with_agents(None, errors).unwrap_or_else(|| {
        errors.push(
            ident,
            "answers are for agents, but this crate depends only on `hier-core`: add `hier-graph` or `hier-agents` to its dependencies",
        );
        hier.path(None, errors)
    });
    let fields: Vec<&Field> = match &input.data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|variant| &variant.fields).collect(),
        Data::Union(_) => {
            errors.push(ident, "a union is not text-free: write a struct or an enum");
            Vec::new()
        }
    };
    let fields: Vec<&Field> = fields.into_iter().filter(|field| !is_assumed(field, errors)).collect();
    let checks = fields.iter().map(|field| {
        let ty = &field.ty;
        quote_spanned!(ty.span()=> __hier::assert_text_free::<#ty>();)
    });
    quote! {
        const _: () = {
            use #hier as __hier;
            #[automatically_derived]
            impl __hier::TextFree for #ident {}
            const _: () = { #(#checks)* };
        };
    }
}

fn is_assumed(field: &Field, errors: &mut Errors) -> bool {
    let mut is_assumed = false;
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident(ATTRIBUTE)) {
        let read = attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident(ASSUME) {
                is_assumed = true;
                return Ok(());
            }
            let word = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            Err(meta.error(unknown("option of `#[text_free]`", &word, &[ASSUME])))
        });
        errors.keep(read);
    }
    is_assumed
}

#[cfg(test)]
mod tests {
    use crate::crate_path::Hier;
    use crate::testing::{expect, messages};

    fn errors(item: &str) -> Vec<String> {
        messages(super::derive(item.parse().unwrap(), &Hier::known("hier")))
    }

    #[test]
    fn the_shape_of_a_text_free_type_is_checked() {
        expect(&errors("struct Verdict { ok: bool, #[text_free(assume)] day: Date }"), &[]);
        expect(&errors("enum Topic { Invoice, Other(u8) }"), &[]);
        expect(&errors("struct Verdict<T> { ok: T }"), &["a text-free type has no parameters"]);
        expect(&errors("union Both { a: u8, b: u16 }"), &["a union is not text-free"]);
        expect(
            &errors("struct Verdict { #[text_free(asume)] day: Date }"),
            &["unknown option of `#[text_free]` `asume`; did you mean `assume`?"],
        );
    }

    #[test]
    fn a_text_free_type_needs_agents() {
        let found = messages(super::derive("struct Verdict;".parse().unwrap(), &Hier::core()));
        assert!(found[0].contains("add `hier-graph` or `hier-agents`"), "{found:?}");
    }
}
