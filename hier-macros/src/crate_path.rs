//! Where the generated code finds hier: under the name that the calling crate's `Cargo.toml` gives it, be it the facade
//! `hier`, `hier-agents` or `hier-core`, or under the path that the call gives, `crate = path`.

use proc_macro_crate::{Error, FoundCrate, crate_name};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{Ident, Path};

use crate::diag::Errors;

/// The packages whose crates have what generated code needs. `hier-agents` has everything that `hier-core` has. The facade comes last: a
/// crate that names both may use it in tests and examples only.
const PACKAGES: [&str; 3] = ["hier-agents", CORE, "hier"];

/// The package that has no agents.
const CORE: &str = "hier-core";

/// The way to hier from the calling crate.
pub(crate) struct Hier {
    root: TokenStream,
    /// False for `hier-core`, which has no agents and tools.
    agents: bool,
    /// Why it is only a guess.
    missing: Option<String>,
}

impl Hier {
    /// Looks into the manifest of the crate that is compiled.
    pub(crate) fn find() -> Self {
        for package in PACKAGES {
            let name = match crate_name(package) {
                Ok(FoundCrate::Name(name)) => name,
                // Its tests and examples see it by its name; in itself it is known by that, too.
                Ok(FoundCrate::Itself) => package.replace('-', "_"),
                Err(Error::CrateNotFound { .. }) => continue,
                // No manifest, as in a build without Cargo: the compiler knows whether the crate is there.
                Err(_) => return Self::known("hier"),
            };
            return Self { agents: package != CORE, ..Self::known(&name) };
        }
        let mend = "add `hier` to its dependencies, or say where it is: `#[state(crate = path)]`, \
                    `#[view(of = …, crate = path)]`, `#[tool(crate = path)]`, `crate: path` in `graph!`";
        let missing = Some(format!("the `Cargo.toml` of this crate names neither `hier` nor `hier-core`: {mend}"));
        Self { missing, ..Self::known("hier") }
    }

    /// The crate of this name.
    pub(crate) fn known(name: &str) -> Self {
        let name = Ident::new(name, Span::call_site());
        Self { root: quote!(::#name), agents: true, missing: None }
    }

    /// Returns true if agents and tools can be declared. A path that the call gives is expected to have them.
    pub(crate) fn agents(&self, given: Option<&Path>) -> bool {
        given.is_some() || self.agents
    }

    /// The path of the module for generated code: in the crate that the call gives, or else in the one that was found.
    pub(crate) fn path(&self, given: Option<&Path>, errors: &mut Errors) -> TokenStream {
        if let (None, Some(missing)) = (given, &self.missing) {
            errors.at(Span::call_site(), missing);
        }
        let root = given.map_or_else(|| self.root.clone(), ToTokens::to_token_stream);
        quote!(#root::plumbing)
    }
}
