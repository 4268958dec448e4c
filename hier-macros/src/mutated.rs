//! Input that is still being typed: calls with tokens dropped, duplicated, swapped, replaced and regrouped. No macro
//! may panic, generate code that does not parse, lose a type whose name could be read, or report many errors.
//!
//! `HIER_INPUTS` sets the number of inputs for each macro. Defaults to 1,500.

use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};

use crate::crate_path::Hier;
use crate::testing::messages;

const GRAPH: &str = "pub Review<Filing, Desk> = Graph {
    nodes: [fetch { retry: 3, timeout: 5s }, assess { writes: [title], goto: [other, END] }, other = storage::store],
    edges: [
        START >> for doc in documents { fetch(doc) },
        fetch >> assess >> match verdict { Verdict::Accept(n) if n > 3 => [END, other], Verdict::Redo => if done { other } else { END } },
        [fetch, other] >> last, other >> END,
    ],
    interrupt_before: [other], name: \"review\", asks: [Pay, Other = billing::Pay],
}";
const AGENT: &str = "Review<Filing> = TodoGraph { system: \"You file.\", tools: [look], max_iterations: 8,
    subagents: [Clerk { merge_fields: [findings], clear_messages: true }], on_entry: enter }";
const STATE: &str = "#[state(version = 2, migrate = from_v1)] pub struct Review<T> { #[state(flatten)] base: Base,
    #[state(rename = \"t\")] title: String, #[reducer(append)] #[channel(delta)] findings: Vec<T>, #[channel(topic(accumulate))] notes: Vec<u8>, left: RemainingSteps }";
const VIEW: &str = "#[view(of = Filing)] struct Review<'a> { title: &'a String, findings: &'a Vec<String> }";
const QUESTION: &str = "#[question(answer = Vec<String>, name = \"payment\")] struct Review { amount: u32, #[serde(rename = \"to\", skip)] r#type: u8 }";
const TOOL: &str = "/// Looks.
    async fn Review(run: &Run<Desk>, #[inject] part: &Filing, call: &ToolCall, year: u16, #[default = 3] limit: u32, region: Option<String>) -> Result<String> { todo!() }";

/// A pseudorandom generator (splitmix64).
struct TokenGenerator(u64);

impl TokenGenerator {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit.max(1) as u64).unwrap_or_default()
    }

    fn token(&mut self) -> TokenTree {
        const WORDS: [&str; 14] = [
            "a", "r#type", "match", "if", "for", "END", "START", "nodes", "crate", "self", "ünï", "_", "async", "goto",
        ];
        const SIGNS: [char; 12] = [',', '>', '=', ':', '#', '<', '&', '|', '!', '?', '-', '.'];
        match self.below(4) {
            0 => match WORDS[self.below(WORDS.len())] {
                "r#type" => Ident::new_raw("type", Span::call_site()).into(),
                word => Ident::new(word, Span::call_site()).into(),
            },
            1 => Punct::new(
                SIGNS[self.below(SIGNS.len())],
                if self.below(2) == 0 { Spacing::Joint } else { Spacing::Alone },
            )
            .into(),
            2 => match self.below(4) {
                0 => Literal::string("a\u{0}b").into(),
                1 => Literal::i64_unsuffixed(0).into(),
                2 => Literal::u64_suffixed(u64::MAX).into(),
                _ => Literal::byte_string(b"x").into(),
            },
            _ => {
                let delimiters = [Delimiter::Brace, Delimiter::Bracket, Delimiter::Parenthesis, Delimiter::None];
                Group::new(delimiters[self.below(4)], TokenStream::new()).into()
            }
        }
    }

    fn changed(&mut self, tokens: TokenStream) -> TokenStream {
        let mut tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let at = self.below(tokens.len());
        if let Some(TokenTree::Group(group)) = tokens.get(at)
            && self.below(5) > 0
        {
            let inner = self.changed(group.stream());
            tokens[at] = Group::new(group.delimiter(), inner).into();
            return tokens.into_iter().collect();
        }
        match self.below(5) {
            _ if tokens.is_empty() => tokens.push(self.token()),
            0 => drop(tokens.remove(at)),
            1 => tokens.insert(at, tokens[at].clone()),
            2 => {
                let other = self.below(tokens.len());
                tokens.swap(at, other);
            }
            3 => tokens[at] = self.token(),
            _ => tokens.insert(at, self.token()),
        }
        tokens.into_iter().collect()
    }
}

/// Returns true if the name `Review` can be read after attributes and visibility.
fn named(call: &TokenStream) -> bool {
    let head = |input: ParseStream<'_>| {
        input.call(syn::Attribute::parse_outer)?;
        input.parse::<syn::Visibility>()?;
        let name = input.call(Ident::parse_any)?;
        while input.parse::<TokenTree>().is_ok() {}
        Ok(name == "Review")
    };
    head.parse2(call.clone()).unwrap_or(false)
}

fn check(
    seed: u64,
    call: &str,
    most: usize,
    expand: impl Fn(TokenStream) -> TokenStream,
    has_type: impl Fn(&TokenStream) -> bool,
) {
    let count = std::env::var("HIER_INPUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_500);
    let mut random = TokenGenerator(seed);
    for _ in 0..count {
        let mut input: TokenStream = call.parse().expect("a call");
        let changes = 1 + random.below(3);
        for _ in 0..changes {
            input = random.changed(input);
        }
        let output = expand(input.clone());
        let errors = messages(output.clone());
        assert!(
            errors.len() <= most * changes,
            "{} errors for {changes} changes in `{input}`: {errors:#?}",
            errors.len()
        );
        if errors.is_empty() {
            let parsed = syn::parse2::<syn::File>(output.clone());
            assert!(parsed.is_ok(), "no error, and no code: `{input}`: {output}");
        }
        let text = output.to_string();
        assert!(!has_type(&input) || text.contains("Review"), "no type: `{input}`: {text}");
    }
    // Tokens in random order.
    for _ in 0..count {
        let input: TokenStream = (0..random.below(12)).map(|_| random.token()).collect();
        let _ = expand(input);
    }
}

fn hier() -> Hier {
    Hier::known("hier")
}

#[test]
fn mutated_graphs_never_panic() {
    check(1, GRAPH, 10, |call| crate::graph::expand(call, &hier()), named);
    check(2, AGENT, 10, |call| crate::graph::expand(call, &hier()), named);
}

#[test]
fn mutated_states_views_and_questions_never_panic() {
    let is_item =
        |call: &TokenStream| syn::parse2::<syn::DeriveInput>(call.clone()).is_ok_and(|item| item.ident == "Review");
    check(3, STATE, 8, |call| crate::state::derive(call, &hier()), is_item);
    check(7, QUESTION, 8, |call| crate::question::derive(call, &hier()), |_| false);
    check(4, VIEW, 8, |call| crate::view::derive(call, &hier()), |_| false);
}

#[test]
fn mutated_tools_never_panic() {
    let is_function =
        |call: &TokenStream| syn::parse2::<syn::ItemFn>(call.clone()).is_ok_and(|item| item.sig.ident == "Review");
    check(5, TOOL, 8, |call| crate::tool::expand(TokenStream::new(), &call, &hier()), is_function);
    check(
        6,
        "name = \"look\", private, approve = |args, desk| args.year > desk.year, timeout = 5s, retry = 3",
        8,
        |options| crate::tool::expand(options, &TOOL.parse().expect("a tool"), &hier()),
        |_| true,
    );
}
