//! The path of hier in generated code: the name that the calling crate's `Cargo.toml` gives to `hier`, `hier-agents` or
//! `hier-core`, or the path of `crate = path`.

use proc_macro_crate::{Error, FoundCrate, crate_name};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{Ident, Path};

use crate::diag::Errors;

/// The packages whose crates generated code can use. The facade comes last: a crate that depends on both may use it in
/// tests and examples only.
const PACKAGES: [&str; 3] = ["hier-agents", CORE, FACADE];

/// The package without agents. If the calling crate depends on it, agents come from the facade.
const CORE: &str = "hier-core";

/// The facade's library is called `hier`, which is also the name of an unrelated package.
const FACADE: &str = "hier-graph";

pub(crate) struct Hier {
    root: TokenStream,
    /// The crate with agents and tools. `None` if the calling crate depends on `hier-core` alone.
    agents: Option<TokenStream>,
    /// The error if no crate was found and `root` is a guess.
    missing: Option<&'static str>,
}

impl Hier {
    /// Searches the manifest of the crate that is being compiled.
    pub(crate) fn find() -> Self {
        for package in PACKAGES {
            let name = match crate_name(package) {
                Ok(found) => name_of(package, found),
                Err(Error::CrateNotFound { .. }) => continue,
                // Without a manifest, as in a build without Cargo, the compiler reports a missing crate.
                Err(_) => return Self::known("hier"),
            };
            if package != CORE {
                return Self::known(&name);
            }
            let facade = crate_name(FACADE).ok().map(|found| root(&name_of(FACADE, found)));
            return Self { agents: facade, ..Self::known(&name) };
        }
        let missing = "this crate depends on neither `hier-graph` nor `hier-core`: add `hier-graph` to its dependencies, or write \
                       `#[state(crate = path)]`, `#[view(of = …, crate = path)]`, `#[tool(crate = path)]`, or \
                       `crate: path` in `graph!`";
        let missing = Some(missing);
        Self { missing, ..Self::known("hier") }
    }

    pub(crate) fn known(name: &str) -> Self {
        Self { root: root(name), agents: Some(root(name)), missing: None }
    }

    #[cfg(test)]
    pub(crate) fn core() -> Self {
        Self { agents: None, ..Self::known("hier_core") }
    }

    /// Returns the path of the plumbing module, in the given crate or in the crate that was found.
    pub(crate) fn path(&self, given: Option<&Path>, errors: &mut Errors) -> TokenStream {
        if let (None, Some(missing)) = (given, &self.missing) {
            errors.at(Span::call_site(), missing);
        }
        let root = given.map_or_else(|| self.root.clone(), ToTokens::to_token_stream);
        quote!(#root::plumbing)
    }

    /// Like [`path`](Self::path), for code with agents or tools. Returns `None` if the crate has none.
    pub(crate) fn with_agents(&self, given: Option<&Path>, errors: &mut Errors) -> Option<TokenStream> {
        let Some(given) = given else {
            let root = self.agents.as_ref()?;
            self.path(None, errors);
            return Some(quote!(#root::plumbing));
        };
        let is_core = given.segments.last().is_some_and(|last| last.ident == "hier_core");
        (!is_core).then(|| quote!(#given::plumbing))
    }

    /// Returns true for the name of a crate in whose paths the calling crate finds hier.
    pub(crate) fn is_named(&self, name: &Ident) -> bool {
        let path = root(&name.to_string()).to_string();
        let is_found = self.agents.iter().chain([&self.root]).any(|root| root.to_string() == path);
        is_found || PACKAGES.iter().any(|package| *name == name_of(package, FoundCrate::Itself))
    }

    pub(crate) fn has_agents(&self, given: Option<&Path>) -> bool {
        match (given, &self.agents) {
            (Some(given), _) => given.segments.last().is_none_or(|last| last.ident != "hier_core"),
            (None, Some(agents)) => agents.to_string() == self.root.to_string(),
            (None, None) => false,
        }
    }
}

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
