//! Snapshots of the generated code: one small call of each macro, formatted. `UPDATE_EXPECT=1 cargo test -p
//! hier-macros` rewrites them.

use expect_test::{ExpectFile, expect_file};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use crate::crate_path::Hier;

fn formatted(output: TokenStream) -> String {
    let file = syn::parse2(output).expect("the output parses");
    prettyplease::unparse(&file)
}

fn compare(output: TokenStream, expected: &ExpectFile) {
    expected.assert_eq(&formatted(output));
}

fn tokens(call: &str) -> TokenStream {
    call.parse().expect("a call")
}

fn hier() -> Hier {
    Hier::known("hier")
}

#[test]
fn state_expansion() {
    let call = "pub struct Filing {
        #[state(flatten)] base: Base,
        title: String,
        #[reducer(append)] findings: Vec<String>,
        left: RemainingSteps,
    }";
    compare(crate::state::derive(tokens(call), &hier()), &expect_file!["state.rs.txt"]);
}

#[test]
fn view_expansion() {
    let borrowed = "#[view(of = Filing)] struct Seen<'a> { title: &'a String }";
    compare(crate::view::derive(tokens(borrowed), &hier()), &expect_file!["view_borrowed.rs.txt"]);
    let owned = "#[view(of = Filing)] struct Asked { title: String }";
    compare(crate::view::derive(tokens(owned), &hier()), &expect_file!["view_owned.rs.txt"]);
}

#[test]
fn question_expansion() {
    let call = "#[question(answer = Decision)] struct PickAccount { accounts: Vec<String> }";
    compare(crate::question::derive(tokens(call), &hier()), &expect_file!["question.rs.txt"]);
}

#[test]
fn asking_graph_expansion() {
    let call = "pub Approval<Invoice> = Graph { nodes: [pay], edges: [START >> pay >> END], asks: [Pay, Other = billing::Pay] }";
    compare(crate::graph::expand(tokens(call), &hier()), &expect_file!["graph_asks.rs.txt"]);
}

#[test]
fn graph_expansion() {
    let call = "
        /// Reviews a filing.
        pub Review<Filing, Desk> = Graph {
            nodes: [fetch { retry: 3, timeout: 5s }, assess { writes: [title] }, other = storage::store],
            edges: [
                START >> for doc in documents { fetch(doc) },
                fetch >> assess >> match verdict { Verdict::Accept => END, Verdict::Redo => other },
                other >> END,
            ],
            interrupt_before: [other],
        }";
    compare(crate::graph::expand(tokens(call), &hier()), &expect_file!["graph.rs.txt"]);
}

#[test]
fn agent_expansion() {
    let call = "
        /// Files returns.
        Desk<Filing> = ReactGraph {
            system: \"You file returns.\",
            tools: [look],
            subagents: [Clerk { merge_fields: [findings] }],
        }";
    compare(crate::graph::expand(tokens(call), &hier()), &expect_file!["agent.rs.txt"]);
}

#[test]
fn answering_agent_expansion() {
    let call = "
        /// Answers customers.
        Support<Chat, Desk> = Agent {
            system: \"You answer.\",
            model: |desk| &desk.smart,
            options: ModelOptions { temperature: 0.2, reasoning: Effort::Low },
            tools: [look],
            layers: [Fallback(|desk| &desk.cheap), Inherited(Limit { model_calls: 50 }), audit()],
            answer: verdict,
            max_iterations: 20,
        }";
    compare(crate::graph::expand(tokens(call), &hier()), &expect_file!["answering.rs.txt"]);
}

#[test]
fn tool_expansion() {
    let call = "/// Looks.
        async fn look(state: &Filing, /** The year. */ year: u16, #[default = 3] limit: u32) -> Result<String> { todo!() }";
    let options = tokens("needs_approval, timeout = 5s");
    let output = crate::tool::expand(options, &tokens(call), &hier());
    let mut file: syn::File = syn::parse2(output).expect("the output parses");
    let Some(syn::Item::Struct(tool)) = file.items.last_mut() else { panic!("no type") };
    let items = crate::tool::items(tool.to_token_stream());
    tool.attrs.retain(|attribute| !attribute.path().is_ident("tool_items"));
    compare(quote!(#file #items), &expect_file!["tool.rs.txt"]);
}
