//! Where the generated code finds hier: under the name that the calling crate's `Cargo.toml` gives it, be it the facade
//! `hier`, `hier-agents` or `hier-core`, or under the path that the call gives, `crate = path`.

use proc_macro_crate::{Error, FoundCrate, crate_name};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{Ident, Path};

use crate::diag::Errors;

/// The packages whose crates have what generated code needs. `hier-agents` has everything that `hier-core` has. The facade comes last: a
/// crate that names both may use it in tests and examples only.
const PACKAGES: [&str; 3] = ["hier-agents", CORE, FACADE];

/// The package that has no agents: with it, agents come from the facade, if that is there.
const CORE: &str = "hier-core";

/// Its library is called `hier`, which is also the name of a foreign package.
const FACADE: &str = "hier-graph";

/// The way to hier from the calling crate.
pub(crate) struct Hier {
    root: TokenStream,
    /// The crate that has agents and tools; none if the calling crate has `hier-core` alone.
    agents: Option<TokenStream>,
    /// Why it is only a guess.
    missing: Option<String>,
}

impl Hier {
    /// Looks into the manifest of the crate that is compiled.
    pub(crate) fn find() -> Self {
        for package in PACKAGES {
            let name = match crate_name(package) {
                Ok(found) => name_of(package, found),
                Err(Error::CrateNotFound { .. }) => continue,
                // No manifest, as in a build without Cargo: the compiler knows whether the crate is there.
                Err(_) => return Self::known("hier"),
            };
            if package != CORE {
                return Self::known(&name);
            }
            let facade = crate_name(FACADE).ok().map(|found| root(&name_of(FACADE, found)));
            return Self { agents: facade, ..Self::known(&name) };
        }
        let mend = "add `hier-graph` to its dependencies, or say where it is: `#[state(crate = path)]`, \
                    `#[view(of = …, crate = path)]`, `#[tool(crate = path)]`, `crate: path` in `graph!`";
        let missing = Some(format!("the `Cargo.toml` of this crate names neither `hier-graph` nor `hier-core`: {mend}"));
        Self { missing, ..Self::known("hier") }
    }

    /// The crate of this name, with agents.
    pub(crate) fn known(name: &str) -> Self {
        Self { root: root(name), agents: Some(root(name)), missing: None }
    }

    /// `hier-core` alone.
    #[cfg(test)]
    pub(crate) fn core() -> Self {
        Self { agents: None, ..Self::known("hier_core") }
    }

    /// The path of the module for generated code: in the crate that the call gives, or else in the one that was found.
    pub(crate) fn path(&self, given: Option<&Path>, errors: &mut Errors) -> TokenStream {
        if let (None, Some(missing)) = (given, &self.missing) {
            errors.at(Span::call_site(), missing);
        }
        let root = given.map_or_else(|| self.root.clone(), ToTokens::to_token_stream);
        quote!(#root::plumbing)
    }

    /// That of code with agents or tools. Returns `None` if there are none in the crate that the call gives, or in those that were found.
    pub(crate) fn with_agents(&self, given: Option<&Path>, errors: &mut Errors) -> Option<TokenStream> {
        let Some(given) = given else {
            let root = self.agents.as_ref()?;
            self.path(None, errors);
            return Some(quote!(#root::plumbing));
        };
        let is_core = given.segments.last().is_some_and(|last| last.ident == "hier_core");
        (!is_core).then(|| quote!(#given::plumbing))
    }

    /// Returns true if the crate of [`path`](Self::path) has agents.
    pub(crate) fn has_agents(&self, given: Option<&Path>) -> bool {
        match (given, &self.agents) {
            (Some(given), _) => given.segments.last().is_none_or(|last| last.ident != "hier_core"),
            (None, Some(agents)) => agents.to_string() == self.root.to_string(),
            (None, None) => false,
        }
    }
}

/// The name of a package's crate in the calling crate.
fn name_of(package: &str, found: FoundCrate) -> String {
    let own = package.replace('-', "_");
    match found {
        FoundCrate::Name(name) if name != own => name,
        // The crate's own tests and examples see it by the name of its library, too.
        _ if package == FACADE => "hier".to_owned(),
        _ => own,
    }
}

fn root(name: &str) -> TokenStream {
    let name = Ident::new(name, Span::call_site());
    quote!(::#name)
}
