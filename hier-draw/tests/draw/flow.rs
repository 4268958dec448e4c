//! The channels that nodes read and write, as tooltips.

use hier_core::prelude::*;
use hier_draw::Draw;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    papers: Vec<String>,
    risk: f64,
    verdict: String,
}

#[derive(View)]
#[view(of = Filing)]
struct Papers<'a> {
    papers: &'a Vec<String>,
    risk: &'a f64,
}

#[derive(View)]
#[view(of = Filing)]
struct Verdict {
    verdict: String,
}

async fn decide(papers: Papers<'_>) -> Verdict {
    Verdict { verdict: format!("{} papers, risk {}", papers.papers.len(), papers.risk) }
}

/// It may read and write every channel.
async fn sign(filing: &Filing) -> FilingUpdate {
    Filing::update().verdict(filing.verdict.clone())
}

graph! { Review<Filing> = Graph { nodes: [decide, sign], edges: [START >> decide >> sign >> END] } }

#[test]
fn tooltips_name_the_channels_of_typed_nodes() {
    let svg = Review::SPEC.svg();
    let decide = "<g class=\"node\" data-path=\"[&quot;decide&quot;]\">\n<title>reads papers, risk\nwrites verdict</title>\n<rect";
    assert!(svg.contains(decide), "{svg}");
    assert_eq!(svg.matches("<title>").count(), 2, "that of the picture, and of the typed node: {svg}");
    let dot = Review::SPEC.dot();
    assert!(dot.contains(r#""decide" [label="decide", tooltip="reads papers, risk\nwrites verdict"];"#), "{dot}");
    assert!(dot.contains(r#""sign" [label="sign"];"#), "{dot}");
}
