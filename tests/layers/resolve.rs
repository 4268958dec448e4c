//! Finds where the item that a path names is defined, through whatever re-exports it, and whether that stands above.

use std::collections::{BTreeMap, BTreeSet, HashMap};

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

/// Modules of one folder that import each other in a circle.
#[derive(Debug, PartialEq, Eq)]
pub struct Knot {
    /// The path of the folder.
    pub folder: String,
    /// The names of the modules, sorted.
    pub modules: String,
}

/// The word that stands in an order for what the folder's own file defines.
const OWN: &str = "self";

/// The depth to which re-exports are followed.
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

    /// The groups of modules of one folder that import each other in a circle. A module stands for all that is in its folder.
    pub fn knots(&self) -> Vec<Knot> {
        let mut imports: BTreeMap<&[String], BTreeMap<&str, BTreeSet<String>>> = BTreeMap::new();
        for module in self.modules.values() {
            for path in module.imports.iter().map(|import| &import.path).chain(&module.paths) {
                let Some(target) = self.resolve(module, path, DEPTH) else { continue };
                let shared = module.path.iter().zip(&target).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (module.path.get(shared), target.get(shared)) {
                    let folder = imports.entry(&module.path[..shared]).or_default();
                    folder.entry(from).or_default().insert(to.clone());
                }
            }
        }
        let found = imports.iter().flat_map(|(folder, imports)| {
            knots_of(imports).into_iter().map(|modules| Knot { folder: folder.join("::"), modules: modules.join(" ") })
        });
        found.collect()
    }

    /// The imports of a circle, one a line.
    pub fn imports(&self, knot: &Knot) -> Vec<String> {
        let is_part = |name: &&String| knot.modules.split(' ').any(|module| module == **name);
        let mut found = Vec::new();
        for module in self.modules.values() {
            for path in module.imports.iter().map(|import| &import.path).chain(&module.paths) {
                let Some(target) = self.resolve(module, path, DEPTH) else { continue };
                let shared = module.path.iter().zip(&target).take_while(|(a, b)| a == b).count();
                let ends = (module.path.get(shared).filter(is_part), target.get(shared).filter(is_part));
                if let (Some(from), Some(to)) = ends
                    && module.path[..shared].join("::") == knot.folder
                {
                    found.push(format!("{from} -> {to}: {}:{}", module.file, path.line));
                }
            }
        }
        found.sort();
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

/// The modules that a module imports, directly or through others.
fn reach<'a>(imports: &'a BTreeMap<&str, BTreeSet<String>>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        let next = imports.get(module).into_iter().flatten().map(String::as_str);
        open.extend(next.filter(|next| reached.insert(*next)));
    }
    reached
}

/// The groups of modules that reach each other.
fn knots_of(imports: &BTreeMap<&str, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|module| (*module, reach(imports, module))).collect();
    let mut knots: BTreeSet<Vec<String>> = BTreeSet::new();
    for (module, _) in reached.iter().filter(|(module, reached)| reached.contains(*module)) {
        let is_mutual = |other: &&str| reached[module].contains(*other) && reached[*other].contains(module);
        let knot: Vec<String> =
            reached.keys().filter(|other| is_mutual(other)).map(|other| (*other).to_owned()).collect();
        if knot.len() > 1 {
            knots.insert(knot);
        }
    }
    knots.into_iter().collect()
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

/// Returns true if `to` is above `from`: to the right in the first folder in which they differ.
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
