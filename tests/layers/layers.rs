//! The layers of the workspace: no module imports what stands above it, not even through what re-exports it.

use std::path::Path;

use hier_layers::{File, KNOTS, Knot, Order, TABLE, Upward, Workspace};

/// The folder of the workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the folder of the workspace")
}

/// The files of a crate: each is the module that its place says.
fn files(name: &str) -> Vec<File> {
    let source = root().join(name).join("src");
    let mut folders = vec![source.clone()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let within = path.strip_prefix(&source).expect("a file of the crate").with_extension("");
                let parts = within.iter().map(|part| part.to_string_lossy().into_owned());
                let module = [name.replace('-', "_")].into_iter().chain(parts);
                let module = module.filter(|part| !["mod", "lib"].contains(&part.as_str())).collect();
                let text = std::fs::read_to_string(&path).expect("a text");
                let name = path.strip_prefix(root()).expect("a file of the workspace").display().to_string();
                files.push(File { name, module, text });
            }
        }
    }
    files
}

/// The crates of the workspace that are shipped: those with a `src/lib.rs`.
fn crates() -> Vec<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = [")).expect("the members in one line");
    let members = members.split('"').skip(1).step_by(2).map(str::to_owned);
    members.filter(|member| member.starts_with("hier")).collect()
}

#[test]
fn modules_import_only_lower_modules() {
    let files: Vec<File> = crates().iter().flat_map(|name| files(name)).collect();
    let upward = Workspace::new(&files).check(TABLE);
    let lines: Vec<String> =
        upward.iter().map(|Upward { file, line, from, to }| format!("{file}:{line}: {from} imports {to}")).collect();
    assert!(
        lines.is_empty(),
        "{} imports lead upward; move what is imported down, or the importer up (the order is in \
         tests/layers/table.rs):\n{}",
        lines.len(),
        lines.join("\n")
    );
}

#[test]
fn files_of_a_folder_do_not_import_each_other_cyclically() {
    let files: Vec<File> = crates().iter().flat_map(|name| files(name)).collect();
    let workspace = Workspace::new(&files);
    let found = workspace.knots();
    let is_new = |knot: &&Knot| !KNOTS.iter().any(|known| known.allows(&knot.folder, &knot.modules));
    let new: Vec<&Knot> = found.iter().filter(is_new).collect();
    let imports: Vec<_> = new.iter().flat_map(|knot| workspace.imports(knot)).collect();
    assert!(new.is_empty(), "new circles; move what both need into a file below:\n{new:#?}\n{}", imports.join("\n"));
    let gone = KNOTS.iter().filter(|known| !found.iter().any(|knot| known.allows(&knot.folder, &knot.modules)));
    let gone: Vec<_> = gone.collect();
    assert!(gone.is_empty(), "circles that are gone; delete them from tests/layers/table.rs:\n{gone:#?}");
}

#[test]
fn planted_cycle_is_found() {
    let file = |name: &str, text: &str| File {
        name: name.to_owned(),
        module: name.split("::").map(str::to_owned).collect(),
        text: text.to_owned(),
    };
    let files = [
        file("hier_top", "pub use a::A; pub mod a; pub mod b; pub mod c; pub mod d;"),
        file("hier_top::a", "pub struct A; use super::b::B;"),
        file("hier_top::b", "pub struct B; fn f() { crate::c::c() }"),
        file("hier_top::c", "pub fn c() {} use crate::A;"),
        file("hier_top::d", "use super::a::A; use super::c::c;"),
    ];
    let knot = Knot { folder: "hier_top".to_owned(), modules: "a b c".to_owned() };
    let workspace = Workspace::new(&files);
    assert_eq!(workspace.imports(&knot), ["a -> b: hier_top::a:1", "b -> c: hier_top::b:1", "c -> a: hier_top::c:1"]);
    assert_eq!(workspace.knots(), [knot]);
    assert_eq!(Workspace::new(&files[..3]).knots(), []);
}

/// Two layers: `low` under `high`, which has `inner` and `outer`.
const SMALL: &[Order] = &[
    Order { folder: "", modules: "hier_base hier_top" },
    Order { folder: "hier_top", modules: "low high" },
    Order { folder: "hier_top::high", modules: "inner outer" },
];

/// Returns the findings in a workspace of `hier_top` with this text in the file of this module.
fn found_in(module: &str, text: &str) -> Vec<String> {
    let files = [
        ("hier_base", "pub struct Base;"),
        ("hier_top", "pub use high::outer::Outer; pub use low::Low; pub mod low; pub mod high;"),
        ("hier_top::low", "pub struct Low;"),
        ("hier_top::high", "pub mod inner; pub mod outer; pub use outer::*; pub struct High;"),
        ("hier_top::high::inner", "pub fn inner() {}"),
        ("hier_top::high::outer", "pub enum Outer { One }"),
    ];
    let files: Vec<File> = files
        .into_iter()
        .map(|(name, own)| {
            let text = if name == module { format!("{own}\n{text}") } else { own.to_owned() };
            File { name: name.to_owned(), module: name.split("::").map(str::to_owned).collect(), text }
        })
        .collect();
    Workspace::new(&files).check(SMALL).iter().map(|found| format!("{} -> {}", found.line, found.to)).collect()
}

#[test]
fn planted_import_is_found_however_it_is_written() {
    let planted = [
        ("use crate::high::High;", "2 -> hier_top::high"),
        ("\nuse crate::{low::Low,\n    high::outer::Outer as Hidden};", "4 -> hier_top::high::outer"),
        ("pub use super::high;", "2 -> hier_top::high"),
        ("pub(crate) use crate::high::*;", "2 -> hier_top::high"),
        // Through what re-exports it: by name at the root, by everything in a folder.
        ("use crate::Outer;", "2 -> hier_top::high::outer"),
        ("use crate::high::Outer;", "2 -> hier_top::high::outer"),
        // In code: an expression, a type, a macro, a function's own import.
        ("fn f() { let _ = crate::high::outer::Outer::One; }", "2 -> hier_top::high::outer"),
        ("struct S(super::high::High);", "2 -> hier_top::high"),
        ("macro_rules! m { () => { $crate::high::High }; }", "2 -> hier_top::high"),
        ("fn f() { use crate::high::High; }", "2 -> hier_top::high"),
        ("mod tests { use super::super::high::High; }", "2 -> hier_top::high"),
    ];
    for (text, expected) in planted {
        assert_eq!(found_in("hier_top::low", text), [expected], "{text}");
    }
    assert_eq!(found_in("hier_top::high::inner", "use super::Outer;"), ["2 -> hier_top::high::outer"]);
    assert_eq!(found_in("hier_top::high::inner", "use super::High;"), ["2 -> hier_top::high"]);
    assert_eq!(found_in("hier_base", "use hier_top::Low;"), ["2 -> hier_top::low"]);
    assert_eq!(found_in("hier_top::low", "mod deeper {} use crate::low::Low;"), Vec::<String>::new());
}

#[test]
fn downward_and_unresolved_imports_are_accepted() {
    let allowed = [
        ("hier_top::high::outer", "use super::inner::inner; use crate::low::Low; use hier_base::Base;"),
        ("hier_top::high", "pub use inner::inner; use crate::Low;"),
        ("hier_top", "fn f() { crate::high::inner::inner() }"),
        // Comments, texts, generated code and captured names are not imports.
        ("hier_top::low", "//! See [`High`](crate::high::High).\nconst T: &str = \"crate::high\";"),
        ("hier_top::low", "fn f() { quote!(crate::high::High); }"),
        ("hier_top::low", "fn f<'a, T>() -> impl Fn() + use<'a, T> {}"),
        ("hier_top::low", "pub(in crate::high) fn f() {}"),
    ];
    for (module, text) in allowed {
        assert_eq!(found_in(module, text), Vec::<String>::new(), "{module}: {text}");
    }
}

#[test]
fn module_missing_from_the_table_is_found() {
    let files = [File {
        name: "new.rs".to_owned(),
        module: vec!["hier_top".to_owned(), "new".to_owned()],
        text: String::new(),
    }];
    let found = Workspace::new(&files).check(SMALL);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].from.as_str(), found[0].to.as_str()), ("hier_top::new", "no place in `hier_top`"));
}
