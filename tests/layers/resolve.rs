//! Finds where the item that a path names is defined, through whatever re-exports it, and whether that stands above.

use std::collections::HashMap;

use crate::source::{File, Module, Path, read};
use crate::table::Order;

/// All modules of the workspace.
pub struct Workspace {
    modules: HashMap<Vec<String>, Module>,
}

/// An import of something that stands above.
#[derive(Debug, PartialEq, Eq)]
pub struct Upward {
    /// The file of the import.
    pub file: String,
    /// Its line.
    pub line: usize,
    /// The module that imports.
    pub from: String,
    /// The module that defines what is imported.
    pub to: String,
}

/// The word that stands in an order for what the folder's own file defines.
const OWN: &str = "self";

/// How many re-exports of re-exports are followed.
const DEPTH: usize = 16;

impl Workspace {
    /// The workspace of these files.
    pub fn new(files: &[File]) -> Self {
        let modules = files.iter().flat_map(read).map(|module| (module.path.clone(), module)).collect();
        Self { modules }
    }

    /// The imports that lead upward, and the modules that have no place in the table.
    pub fn check(&self, table: &[Order]) -> Vec<Upward> {
        let mut found = Vec::new();
        for module in self.modules.values() {
            if let Some(folder) = unplaced(table, &module.path) {
                let (file, from, to) = (module.file.clone(), module.path.join("::"), format!("no place in `{folder}`"));
                found.push(Upward { file, line: 1, from, to });
            }
            for path in module.imports.iter().map(|import| &import.path).chain(&module.paths) {
                let Some(target) = self.resolve(module, path, DEPTH) else { continue };
                if is_upward(table, &module.path, &target) {
                    let (file, line) = (module.file.clone(), path.line);
                    found.push(Upward { file, line, from: module.path.join("::"), to: target.join("::") });
                }
            }
        }
        found.sort_by(|a, b| (&a.file, a.line, &a.to).cmp(&(&b.file, b.line, &b.to)));
        found.dedup();
        found
    }

    /// The module in which that is defined which the path names; none for what is not of the workspace.
    fn resolve(&self, from: &Module, path: &Path, depth: usize) -> Option<Vec<String>> {
        let (first, mut rest) = path.segments.split_first()?;
        let mut at = match first.as_str() {
            "crate" => from.path[..1].to_vec(),
            "self" => from.path.clone(),
            "super" => parent(&from.path),
            name if self.modules.contains_key([name.to_owned()].as_slice()) => vec![name.to_owned()],
            name => Some(child(&from.path, name)).filter(|path| self.modules.contains_key(path))?,
        };
        while let Some(("super", after)) = rest.split_first().map(|(first, after)| (first.as_str(), after)) {
            at = parent(&at);
            rest = after;
        }
        for name in rest {
            let within = child(&at, name);
            if self.modules.contains_key(&within) {
                at = within;
                continue;
            }
            return Some(self.definition(&at, name, depth).unwrap_or(at));
        }
        Some(at)
    }

    /// The module in which the item with this name is defined that this module has or re-exports.
    fn definition(&self, module: &[String], name: &str, depth: usize) -> Option<Vec<String>> {
        let module = self.modules.get(module)?;
        if module.items.iter().any(|item| item == name) {
            return Some(module.path.clone());
        }
        let depth = depth.checked_sub(1)?;
        let named = module.imports.iter().find(|import| import.name.as_deref() == Some(name));
        if let Some(import) = named {
            return self.resolve(module, &import.path, depth);
        }
        let globs = module.imports.iter().filter(|import| import.name.is_none());
        let mut globs = globs.filter_map(|import| self.resolve(module, &import.path, depth));
        globs.find_map(|from| self.definition(&from, name, depth))
    }
}

fn parent(path: &[String]) -> Vec<String> {
    path[..path.len().saturating_sub(1).max(1)].to_vec()
}

fn child(path: &[String], name: &str) -> Vec<String> {
    path.iter().cloned().chain([name.to_owned()]).collect()
}

/// The order of the modules in this folder, if the table has one.
fn order<'a>(table: &'a [Order], folder: &[String]) -> Option<&'a Order> {
    let folder = folder.join("::");
    table.iter().find(|order| order.folder == folder)
}

/// The innermost folder with an order in which the module, or the folder that it is in, has no place.
fn unplaced<'a>(table: &'a [Order], module: &[String]) -> Option<&'a str> {
    (0..module.len()).find_map(|depth| {
        let order = order(table, &module[..depth])?;
        order.place(&module[depth]).is_none().then_some(if depth == 0 { "the workspace" } else { order.folder })
    })
}

/// Whether what is at `to` stands above `from`: to the right in the first folder in which they part.
fn is_upward(table: &[Order], from: &[String], to: &[String]) -> bool {
    let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let Some(order) = order(table, &from[..shared]) else { return false };
    match (from.get(shared), to.get(shared)) {
        // The folder's own file stands above all that is in the folder.
        (None, _) => false,
        (Some(from), None) => order.place(OWN).is_none_or(|own| order.place(from) < Some(own)),
        (Some(from), Some(to)) => order.place(from) < order.place(to),
    }
}
