//! The commands that need no database: projects, drawings, completions, colors.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

fn hier(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hier"));
    command.current_dir(folder).args(arguments).env_remove("NO_COLOR").output().expect("the command starts")
}

/// The address of hier for projects that are not built.
const URL: &str = "https://example.org/hier";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The folder of the workspace.
fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

#[test]
fn new_project_has_the_files_of_its_kind() {
    let folder = TempDir::new().expect("a folder");
    for (kind, features, files) in [
        ("graph", "[]", &["tests/graph.rs"][..]),
        ("agent", r#"["models", "sqlite"]"#, &["tests/agent.rs", "src/fake_model.rs"]),
        ("server", r#"["models", "server", "sqlite"]"#, &["tests/agent.rs", "src/fake_model.rs"]),
    ] {
        let name = format!("my-{kind}");
        let made = hier(folder.path(), &["new", &name, "--kind", kind, "--git", URL]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        assert!(text(&made.stdout).starts_with(&format!("created `{name}`")), "{}", text(&made.stdout));
        let read = |file: &str| fs::read_to_string(folder.path().join(&name).join(file)).expect(file);
        let manifest = read("Cargo.toml");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{manifest}");
        let needs = format!("hier-graph = {{ git = \"{URL}\", default-features = false, features = {features} }}");
        assert!(manifest.contains(&needs), "{manifest}");
        assert!(read("src/main.rs").contains(&format!("use my_{kind}::")));
        assert!(read("README.md").starts_with(&format!("# {name}\n")));
        assert!(read(".gitignore").contains("/target"));
        for file in files {
            assert!(!read(file).contains("{{"), "{file}");
        }
        assert_eq!(read("src/main.rs").contains("Server::new()"), kind == "server");
        for file in ["Dockerfile", ".dockerignore"] {
            assert_eq!(folder.path().join(&name).join(file).exists(), kind == "server", "{file}");
        }
    }
}

#[test]
fn image_of_a_new_server_is_that_of_the_docs() {
    let folder = TempDir::new().expect("a folder");
    assert!(hier(folder.path(), &["new", "desk", "--kind", "server", "--git", URL]).status.success());
    let read = |file: &str| fs::read_to_string(folder.path().join("desk").join(file)).expect(file);
    let book = fs::read_to_string(checkout().join("docs/deploying.md")).expect("the page");
    assert!(book.contains(&format!("```dockerfile\n{}```\n", read("Dockerfile"))), "{}", read("Dockerfile"));
    let ignored = read(".dockerignore");
    assert!(["/target", "/.git", "*.db"].iter().all(|it| ignored.lines().any(|line| line == *it)), "{ignored}");
}

#[test]
fn new_project_can_depend_on_a_checkout_or_a_repository() {
    let folder = TempDir::new().expect("a folder");
    let path = checkout().to_str().expect("a text");
    let place = fs::canonicalize(checkout().join("hier")).expect("the crate").display().to_string();
    // Defaults to the checkout that built the command.
    for (name, received) in [("a", &["--path", path][..]), ("c", &[])] {
        assert!(hier(folder.path(), &[&["new", name], received].concat()).status.success());
        let manifest = fs::read_to_string(folder.path().join(name).join("Cargo.toml")).expect("the manifest");
        assert_eq!(manifest.matches(&format!("hier-graph = {{ path = {place:?}, ")).count(), 2, "{manifest}");
    }
    assert!(hier(folder.path(), &["new", "b", "--git", URL]).status.success());
    let manifest = fs::read_to_string(folder.path().join("b/Cargo.toml")).expect("the manifest");
    assert_eq!(manifest.matches("hier-graph = { git = \"https://example.org/hier\", ").count(), 2, "{manifest}");
}

#[test]
fn invalid_project_is_refused_and_nothing_is_written() {
    let folder = TempDir::new().expect("a folder");
    fs::create_dir(folder.path().join("taken")).expect("a folder");
    fs::write(folder.path().join("taken/notes"), "mine").expect("a file");
    for (arguments, message) in [
        (&["new", "9lives"][..], "error: `9lives` is not a valid package name"),
        (&["new", "sub/two words"], "error: `two words` is not a valid package name"),
        (&["new", "hier"], "error: a project cannot be named `hier`"),
        (&["new", "hier-graph"], "error: a project cannot be named `hier-graph`"),
        (&["new", "serde_json"], "error: a project cannot be named `serde_json`"),
        (&["new", "fn"], "error: a project cannot be named `fn`"),
        (&["new", "try"], "error: a project cannot be named `try`, which is a crate, a keyword or a folder of Cargo"),
        (&["new", "Self"], "error: a project cannot be named `Self`"),
        (&["new", "build"], "error: a project cannot be named `build`"),
        (&["new", "taken/notes", "--git", URL], "error: `taken/notes` is a file: choose an empty or new folder"),
        (&["new", "taken/notes/x", "--git", URL], "error: cannot write `taken/notes/x/Cargo.toml`: "),
        (&["new", "taken", "--git", URL], "error: `taken` exists and is not empty"),
        (
            &["new", "x", "--path", "taken"],
            "error: `taken` is not a checkout of hier: it has no `hier/Cargo.toml`; give the folder of a clone",
        ),
    ] {
        let output = hier(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).starts_with(message), "{}", text(&output.stderr));
    }
    let left: Vec<_> = folder.path().read_dir().expect("the folder").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["taken"]);
    assert_eq!(fs::read_dir(folder.path().join("taken")).expect("the folder").count(), 1);
}

/// Processes of this shell cannot write files of more than a KB, as if the disk were full.
#[cfg(target_os = "linux")]
#[test]
fn project_that_cannot_be_written_completely_is_removed() {
    let folder = TempDir::new().expect("a folder");
    fs::create_dir(folder.path().join("empty")).expect("a folder");
    for place in ["deep/desk", "empty"] {
        let script = format!("trap '' XFSZ; ulimit -f 2; exec {} new {place} --git {URL}", env!("CARGO_BIN_EXE_hier"));
        let output = Command::new("sh").args(["-c", &script]).current_dir(folder.path()).output().expect("a shell");
        assert_eq!(output.status.code(), Some(2));
        let says = text(&output.stderr);
        assert!(
            says.contains(&format!("cannot write `{place}/")) && says.contains("on a disk with free space"),
            "{says}"
        );
    }
    let left: Vec<_> = folder.path().read_dir().expect("the folder").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["empty"]);
    assert_eq!(folder.path().join("empty").read_dir().expect("the folder").count(), 0);
}

#[test]
fn wrong_package_or_folder_names_the_fix() {
    let folder = package("fn main() {}\n");
    for command in ["graph", "lock", "check"] {
        let output = hier(folder.path(), &[command, "--package", "smal"]);
        let says = text(&output.stderr);
        assert!(
            output.status.code() == Some(2) && says.contains("no package named `smal`; did you mean `small`?"),
            "{says}"
        );
    }
    let nothing = TempDir::new().expect("a folder");
    let output = hier(nothing.path(), &["graph"]);
    let says = text(&output.stderr);
    assert!(output.status.code() == Some(2) && says.contains("go to its folder or add `--manifest-path`"), "{says}");
}

#[test]
fn project_is_created_in_an_empty_or_the_current_folder() {
    let folder = TempDir::new().expect("a folder");
    let own = folder.path().join("my-desk");
    fs::create_dir(&own).expect("a folder");
    let made = hier(&own, &["new", ".", "--git", URL]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let manifest = fs::read_to_string(own.join("Cargo.toml")).expect("the manifest");
    assert!(manifest.contains("name = \"my-desk\""), "{manifest}");
    let again = hier(&own, &["new", ".", "--git", URL]);
    assert!(again.status.code() == Some(2) && text(&again.stderr).contains("is not empty"), "{}", text(&again.stderr));
    fs::create_dir(folder.path().join("empty")).expect("a folder");
    assert!(hier(folder.path(), &["new", "empty", "--git", URL]).status.success());
}

#[test]
fn project_within_a_workspace_is_not_a_member() {
    let folder = TempDir::new().expect("a folder");
    let manifest = |name: &str| {
        assert!(hier(folder.path(), &["new", name, "--git", URL]).status.success(), "{name}");
        fs::read_to_string(folder.path().join(name).join("Cargo.toml")).expect("the manifest")
    };
    assert!(!manifest("alone").contains("[workspace]"));
    fs::write(folder.path().join("Cargo.toml"), "[workspace]\nmembers = []\n").expect("the workspace");
    assert!(manifest("within").ends_with("\n[workspace]\n"));
    assert!(manifest("deep/within").ends_with("\n[workspace]\n"));
}

/// A package without dependencies, whose program is this.
fn package(main: &str) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    fs::write(
        folder.path().join("Cargo.toml"),
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n",
    )
    .expect("the manifest");
    fs::create_dir(folder.path().join("src")).expect("a folder");
    fs::write(folder.path().join("src/main.rs"), main).expect("the program");
    folder
}

/// A program that answers as `on_request` does, without the library.
const ANSWERS: &str = r##"fn main() {
    if std::env::args().nth(1).as_deref() == Some("--hier-graphs") { // as hier::graph::draw::on_request(…)
        println!("{}", r#"[{"name":"one","mermaid":"m1","dot":"d1","svg":"s1"},{"name":"two","mermaid":"m2","dot":"d2","svg":"s2"}]"#);
    }
}
"##;

#[test]
fn graph_is_drawn_in_the_requested_format() {
    let folder = package(ANSWERS);
    for (arguments, drawn) in [
        (&["graph", "--list"][..], "one\ntwo\n"),
        (&["graph", "two"], "m2\n"),
        (&["graph", "one", "--format", "dot"], "d1\n"),
        (&["graph", "one", "--format", "svg", "--bin", "small"], "s1\n"),
    ] {
        let output = hier(folder.path(), arguments);
        assert_eq!(
            (output.status.code(), text(&output.stdout)),
            (Some(0), drawn.to_owned()),
            "{}",
            text(&output.stderr)
        );
    }
    for (arguments, message) in [
        (&["graph"][..], "error: the program has several graphs: choose one of `one`, `two`"),
        (&["graph", "tow"], "error: no graph named `tow`; did you mean `two`?"),
        (&["graph", "one", "--bin", "other"], "error: no program that prints its graphs was found"),
    ] {
        let output = hier(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
}

#[test]
fn program_that_does_not_show_its_graphs_is_not_started() {
    let folder = package("fn main() { std::fs::write(\"started\", \"\").unwrap(); }\n");
    let output = hier(folder.path(), &["graph"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr)
            .contains("begin the function `main` with `hier::graph::draw::on_request(&[MyGraph::SPEC]);`")
    );
    assert!(!folder.path().join("started").exists());
}

#[test]
fn each_shell_has_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = hier(checkout(), &["completions", shell]);
        assert!(output.status.success());
        let script = text(&output.stdout);
        for word in ["threads", "prune", "inbox", "completions", "new", "graph"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn colors_are_used_on_request() {
    let said = |color: &str| text(&hier(checkout(), &["--color", color, "new", "9"]).stderr);
    assert!(said("always").contains("\u{1b}[1m"), "{:?}", said("always"));
    assert!(said("never").starts_with("error: "), "{:?}", said("never"));
    assert_eq!(said("auto"), said("never"), "this is no terminal");
}
