//! The errors of a tool. Its function and its type exist after every mistake.

use proc_macro2::TokenStream;

use crate::crate_path::Hier;
use crate::testing::{expect, messages};

/// Returns the messages of a tool's errors, in order.
fn errors(options: &str, function: &str) -> Vec<String> {
    undocumented(options, &format!("/// Looks.\n{function}"))
}

/// Like [`errors`], for a function without a doc comment.
fn undocumented(options: &str, function: &str) -> Vec<String> {
    let output = super::expand(options.parse().unwrap(), &function.parse().unwrap(), &Hier::known("hier"));
    let text = output.to_string();
    assert!(text.contains("struct look") && text.contains("fn look"), "no type or no function in {text}");
    messages(output)
}

fn params(params: &str) -> Vec<String> {
    errors("", &format!("async fn look({params}) -> String {{ todo!() }}"))
}

#[test]
fn full_syntax_is_accepted() {
    let function = "
        /// Looks.
        pub async fn look(
            /// The year.
            year: u16,
            mut region: Option<Region>,
            #[default = 10] limit: usize,
            #[default] list: Vec<String>,
            #[allow(unused)] more: bool,
            run: &Run<Desk>,
            state: &desk::Filing,
            #[inject] Heading { title }: Heading<'_>,
            call: &ToolCall,
            id: agent::ToolCallId,
        ) -> Result<Command<Filing>> { todo!() }";
    expect(
        &errors("name = \"look-up\", description = \"x\", needs_approval, timeout = 1.5s, retry = 3", function),
        &[],
    );
    expect(&params("#[args] args: Args, run: &Run"), &[]);
    expect(&errors("", "async fn look() {}"), &[]);
}

#[test]
fn method_is_refused_without_a_type_next_to_it() {
    for end in ["{ todo!() }", ";"] {
        let method = format!("/// Looks.\nasync fn look(&self, #[default] key: String) -> String {end}");
        let output = super::expand(TokenStream::new(), &method.parse().unwrap(), &Hier::known("hier"));
        let text = output.to_string();
        assert!(!text.contains("struct look") && !text.contains("# [default]"), "{text}");
        expect(&messages(output), &["a tool is a free function without `self`"]);
    }
}

#[test]
fn unsupported_parameter_is_refused() {
    expect(&params("(a, b): (u8, u8)"), &["the model passes an argument by name"]);
    expect(&params("_: u8"), &["the model passes an argument by name"]);
    expect(&params("text: &str"), &["write `String`"]);
    expect(&params("list: &[u8]"), &["a tool borrows its state"]);
    expect(&params("state: &mut Filing"), &["cannot change the state in place"]);
    expect(&params("any: impl Into<String>"), &["write a concrete type"]);
    expect(&params("call: ToolCall"), &["a tool borrows its call: write `&ToolCall`"]);
}

#[test]
fn parameter_attributes_are_checked() {
    expect(&params("#[cfg(unix)] year: u16"), &["a tool always has the same arguments"]);
    expect(&params("#[injekt] view: V<'_>"), &["unknown attribute of an argument `injekt`; did you mean `inject`?"]);
    expect(&params("#[inject(x)] view: V<'_>"), &["unexpected token in attribute"]);
    expect(
        &params("#[inject] #[default] view: V"),
        &["an argument has at most one of `#[inject]`, `#[args]` and `#[default]`"; 2],
    );
    expect(&params("#[default = 1] run: &Run"), &["only an argument from the model has a default"]);
    expect(&params("#[default = None] x: Option<u8>"), &["already defaults to `None`: remove this, or the `Option`"]);
    expect(&params("#[default(1)] x: u8"), &["write `#[default = …]`"]);
    expect(&params("#[args] a: A, #[args] b: B"), &["a tool takes one `#[args]` struct"]);
    expect(&params("#[args] a: desk::A, b: u8"), &["make `b` a field of `desk::A`"]);
}

#[test]
fn function_is_checked() {
    expect(&errors("", "fn look() {}"), &["write `async fn look`"]);
    expect(&errors("", "async fn look() -> &str {}"), &["the result of a tool owns its data: write `String`"]);
    expect(&errors("", "async fn look() -> &'static str {}"), &[]);
    expect(&errors("", "async fn look<T>(x: T) {}"), &["a tool cannot be generic, except over the context of its run"]);
    expect(&errors("", "async fn look<C: AsRef<Crm>>(run: &Run<C>) {}"), &[]);
    expect(&errors("", "async fn look<C, T>(run: &Run<C>) {}"), &["a tool cannot be generic"]);
    let output = super::expand(TokenStream::new(), &"struct look;".parse().unwrap(), &Hier::known("hier")).to_string();
    assert!(output.contains("`#[tool]` needs an `async fn` with a body"), "{output}");
}

#[test]
fn tool_has_a_description() {
    let missing = ["the tool `look` has no description, which models need to choose it: write a doc comment above it"];
    for (options, function) in [
        ("", "async fn look() {}"),
        ("", "/// \nasync fn look() {}"),
        ("", "#[doc(hidden)] async fn look() {}"),
        ("description = \" \"", "/// Looks.\nasync fn look() {}"),
    ] {
        expect(&undocumented(options, function), &missing);
    }
    for (options, function) in [
        ("description = \"Looks.\"", "async fn look() {}"),
        ("", "#[doc = \"Looks.\"] async fn look() {}"),
        ("", "#[doc = include_str!(\"look.md\")] async fn look() {}"),
    ] {
        expect(&undocumented(options, function), &[]);
    }
}

#[test]
fn options_are_checked() {
    let options = |options| errors(options, "async fn look() {}");
    expect(&options("needs_aproval"), &["unknown option of `#[tool]` `needs_aproval`; did you mean `needs_approval`?"]);
    expect(&options("name = \"a\", name = \"b\""), &["`name` is given twice"]);
    expect(&options("name = \"look up\""), &["models cannot call the tool `look up`"]);
    expect(&options("name = look"), &["expected string literal"]);
    expect(&options("timeout = 5"), &["a duration needs its unit: `5s`"]);
    expect(&options("timeout = 0ms"), &["without time, every attempt fails: write a longer time"]);
    expect(&options("retry = 0"), &["a tool has at least one attempt"]);
    expect(&errors("", "async fn lookü() {}"), &["set another with `#[tool(name = \"…\")]`"]);
}

#[test]
fn labels_and_conditions_are_checked() {
    let options = |options| errors(options, "async fn look(eur: f64) {}");
    for fine in [
        "private, untrusted, sends, step",
        "approve = always",
        "approve = tainted, sends",
        "approve = desk::is_large, timeout = 5s",
        "approve = |args| args.eur > 1.0",
        "approve = async |args, shop, labels| labels.is_private() && shop.asks(args.eur).await",
    ] {
        expect(&options(fine), &[]);
    }
    expect(&options("\"look_up\""), &["write `name = \"look_up\"`"]);
    expect(&options("privat"), &["unknown option of `#[tool]` `privat`; did you mean `private`?"]);
    expect(&options("private = true"), &["`private` takes no value: write it alone"]);
    expect(&options("approve"), &["expected `=`"]);
    expect(&options("approve = true"), &["write `always`, `tainted` or a condition"]);
    expect(&options("approve = is_large()"), &["a condition is named, not called"]);
    expect(&options("approve = || true"), &["a condition takes the arguments"]);
    expect(&options("approve = |a, b, c, d| true"), &["a condition takes the arguments"]);
    expect(&options("needs_approval, approve = tainted"), &["`needs_approval` already asks about every call"]);
}

/// Returns the messages of a tool that runs in the client. Its type exists after every mistake.
fn client(options: &str, function: &str) -> Vec<String> {
    let item = format!("/// Looks.\n{function}").parse().unwrap();
    let output = super::expand(options.parse().unwrap(), &item, &Hier::known("hier"));
    let text = output.to_string();
    assert!(text.contains("struct look") && !text.contains("async fn look"), "no type or a function in {text}");
    messages(output)
}

#[test]
fn client_tool_has_no_body_and_needs_nothing_of_the_server() {
    for fine in
        ["async fn look() -> Seen;", "async fn look(#[args] a: A);", "async fn look(a: u8, #[default] b: u8) -> u8;"]
    {
        expect(&client("client", fine), &[]);
        expect(&client("client, name = \"see\", needs_approval, sends, timeout = 5m", fine), &[]);
    }
    expect(
        &client("client", "async fn look() {}"),
        &["the tool `look` runs in the client: write `;` instead of the body"],
    );
    expect(&client("", "async fn look();"), &["the tool `look` has no body: write one, or `#[tool(client)]`"]);
    for server in
        ["run: &Run", "state: &Filing", "#[inject] view: V<'_>", "ask: Ask<Pay>", "call: &ToolCall", "id: ToolCallId"]
    {
        let message = "a client tool runs in the client, so the model passes all of its arguments";
        expect(&client("client", &format!("async fn look({server});")), &[message]);
    }
    expect(&client("client", "async fn look() -> hier::Result<u8>;"), &["write the type of the result"]);
    expect(&client("client, step", "async fn look();"), &["the answer of a client is stored"]);
    expect(&client("client, retry = 3", "async fn look();"), &["the server cannot repeat a call"]);
    expect(&client("client = true", "async fn look();"), &["`client` takes no value: write it alone"]);
    let output = super::expand("client".parse().unwrap(), &"struct look;".parse().unwrap(), &Hier::known("hier"));
    expect(&messages(output), &["`#[tool(client)]` needs an `async fn` that ends with `;`"]);
}

#[test]
fn several_mistakes_are_reported_at_once() {
    let messages = errors("retry = 0, nme = \"x\"", "fn look(a: &str, (b, c): (u8, u8)) {}");
    let pieces = [
        "unknown option",
        "write `String`",
        "the model passes an argument by name",
        "write `async fn look`",
        "a tool has at least one attempt",
    ];
    expect(&messages, &pieces);
}

#[test]
fn tool_needs_more_than_the_core() {
    let item = "/// Looks.\nasync fn look() {}".parse().unwrap();
    let found = messages(super::expand(TokenStream::new(), &item, &Hier::core()));
    let text = "tools are for agents, but this crate depends only on `hier-core`: add `hier-graph` or `hier-agents` to its dependencies";
    assert_eq!(found, [text]);
}
