// Every keyword that can be a raw identifier, in each position of a name.

use hier_agents::prelude::*;
use hier_draw::Draw;

macro_rules! named {
    ($($word:ident)+) => {
        #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
        struct Words {
            $($word: u32,)+
        }

        #[derive(View)]
        #[view(of = Words)]
        struct Seen<'a> {
            $($word: &'a u32,)+
        }

        #[derive(View, Clone)]
        #[view(of = Words)]
        struct Owned {
            $($word: u32,)+
        }

        mod nodes {
            use super::{Seen, Words, WordsUpdate};
            use hier_agents::prelude::*;

            $(
                pub async fn $word(seen: Seen<'_>) -> WordsUpdate {
                    Words::update().$word(*seen.$word + 1)
                }
            )+
        }

        mod tools {
            use hier_agents::prelude::*;

            $(
                /// Counts.
                #[tool]
                pub async fn $word($word: u32) -> String {
                    $word.to_string()
                }
            )+
        }

        graph! {
            Functions<Words> = Graph {
                nodes: [$(nodes::$word),+],
                edges: [START $(>> $word)+ >> END],
                input: Owned,
            }
        }

        mod renamed {
            use super::Words;
            use hier_agents::prelude::*;

            async fn count() {}

            graph! {
                pub(super) Names<Words> = Graph {
                    nodes: [$($word = count { goto: [$word, END] }),+],
                    edges: [START $(>> $word)+ >> END],
                    interrupt_before: [$($word),+],
                }
            }
        }

        graph! {
            Asks<Words> = Graph {
                nodes: [count = nodes::r#match, first = nodes::r#match],
                edges: [START >> first >> match (|state: &Words| state.r#type) { 0 => END, _ => count }, count >> END],
            }
        }

        const TOOLS: &[&str] = &[$(<tools::$word as hier_agents::NamedTool>::NAME),+];
    };
}

named! {
    r#as r#break r#const r#continue r#else r#enum r#extern r#false r#fn r#for r#if r#impl r#in r#let r#loop r#match r#mod r#move
    r#mut r#pub r#ref r#return r#static r#struct r#trait r#true r#type r#unsafe r#use r#where r#while
    r#async r#await r#dyn
    r#abstract r#become r#box r#do r#final r#gen r#macro r#override r#priv r#try r#typeof r#unsized r#virtual r#yield
    auto default macro_rules raw safe union
}

fn main() {
    assert!(Functions::compile().spec().mermaid().contains("match"));
    assert!(renamed::Names::compile().spec().mermaid().contains("gen"));
    assert!(Asks::compile().spec().mermaid().contains("count"));
    assert!(TOOLS.contains(&"type"));
}
