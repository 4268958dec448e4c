//! The rules of trust, and their laws over random trees of agents.

use super::*;

const P: TrustLabels = TrustLabels::PRIVATE;
const U: TrustLabels = TrustLabels::UNTRUSTED;
const S: TrustLabels = TrustLabels::SENDS;

fn tool(name: &'static str, labels: TrustLabels) -> TrustSource<'static> {
    TrustSource::tool(name, ToolTrust::new(labels, false))
}

fn approved(name: &'static str, labels: TrustLabels) -> TrustSource<'static> {
    TrustSource::tool(name, ToolTrust::new(labels, true))
}

fn leaking(sources: &[TrustSource<'_>]) -> Vec<usize> {
    (0..sources.len()).filter(|place| leaks(sources, *place)).collect()
}

#[test]
fn labels_are_a_set_with_names() {
    assert_eq!(P.with(U).with(S).to_string(), "private, untrusted, sends");
    assert_eq!(P.with(U).without(U), P);
    assert_eq!(P.with(S).read(), P);
    assert!(!P.is_empty() && TrustLabels::NONE.is_empty() && P.with(U).contains(U) && !P.contains(U));
    assert!(P.is_private() && !U.is_private() && U.is_untrusted() && !P.is_untrusted() && S.sends() && !P.sends());
    for name in ["private", "untrusted", "sends"] {
        assert_eq!(TrustLabels::named(name).map(|label| label.to_string()).as_deref(), Some(name));
    }
    assert_eq!(TrustLabels::named("secret"), None);
}

#[test]
fn only_all_three_together_leak() {
    let (read, mail, send) = (tool("customers", P), tool("mail", U), tool("send", S));
    assert_eq!(leaking(&[read, mail, send]), [2]);
    assert_eq!(leaking(&[read, mail]), [0; 0]);
    assert_eq!(leaking(&[read, send]), [0; 0]);
    assert_eq!(leaking(&[mail, send]), [0; 0]);
    assert_eq!(leaking(&[read, TrustSource::input(), send]), [2]);
    assert_eq!(leaking(&[read, mail, approved("send", S)]), [0; 0]);
    assert_eq!(leaking(&[read, mail, approved("send", S), send]), [3]);
    assert_eq!(leaking(&[tool("browse", P.with(U).with(S))]), [0]);
    for (is_approved, also) in [(false, false), (false, true), (true, false), (true, true)] {
        let trust = ToolTrust::new(S, is_approved).approved(also);
        assert_eq!(trust, ToolTrust::new(S, is_approved || also));
    }
}

#[test]
fn a_report_carries_the_labels_of_its_agent() {
    let reader = GraphTrust::of(&[tool("mail", U)], false, false);
    let sealed = GraphTrust { is_text_free: true, ..reader };
    let own = [tool("customers", P), tool("send", S)];
    let with = |member| leaking(&[own[0], own[1], member]);
    assert_eq!(with(TrustSource::graph("Reader", reader, true)), [1]);
    assert_eq!(with(TrustSource::graph("Reader", sealed, true)), [0; 0]);
    assert_eq!(with(TrustSource::graph("Reader", sealed, false)), [1], "a channel with text crosses the border");
    let clerk = GraphTrust::of(&[tool("salary", P)], false, true);
    assert_eq!(
        leaking(&[tool("mail", U), own[1], TrustSource::graph("Clerk", clerk, true)]),
        [1],
        "a number is private"
    );
}

#[test]
fn a_task_carries_the_labels_of_its_supervisor() {
    let courier = GraphTrust::of(&[tool("send", S)], false, false);
    let reader = GraphTrust::of(&[tool("mail", U), tool("reply", S)], false, true);
    let (private, mail) = (tool("customers", P), tool("mail", U));
    assert_eq!(leaking(&[private, mail, TrustSource::graph("Courier", courier, true)]), [2]);
    // The text stays below, but the task brings the data to it.
    assert_eq!(leaking(&[private, TrustSource::graph("Reader", reader, true)]), [1]);
    assert_eq!(leaking(&[TrustSource::graph("Reader", reader, true)]), [0; 0]);
}

#[test]
fn allowed_leaks_of_subagents_are_not_reported_above() {
    let all = [tool("customers", P), tool("mail", U), tool("send", S)];
    let allowed = GraphTrust::of(&all, true, false);
    assert_eq!(leaking(&[TrustSource::graph("Desk", allowed, true)]), [0; 0]);
    assert_eq!(leaking(&[TrustSource::graph("Desk", GraphTrust::of(&all, false, false), true)]), [0]);
    // A reason covers the agent's own leaks, and not those that an agent above makes.
    let harmless = GraphTrust::of(&[tool("mail", U), tool("send", S)], true, false);
    assert_eq!(leaking(&[tool("customers", P), TrustSource::graph("Desk", harmless, true)]), [1]);
    assert_eq!(allowed.labels(), P.with(U));
    assert_eq!(harmless.labels(), U.with(S));
}

#[test]
fn a_message_names_the_giver_of_each_label() {
    let sources = [tool("customers", P), tool("mail", U), tool("send", S)];
    let message = leak_message(&sources, 2);
    let start = "`send` can be talked into leaking: `customers` reads private data, `mail` reads untrusted text, and `send` sends \
                 without approval; ";
    assert!(message.as_str().starts_with(start), "{}", message.as_str());
    assert!(message.as_str().ends_with("`allow: trifecta(\"…\")`"), "{}", message.as_str());
    let long = "é".repeat(100);
    let sources = [tool("customers", P), TrustSource { name: &long, ..tool("mail", U) }, tool("send", S)];
    assert!(leak_message(&sources, 2).as_str().contains("`send` sends without approval"));
}

/// An agent with the labels and approvals of its tools, and its subagents. The flag of a subagent is true if it passes
/// only its report.
#[derive(Debug)]
struct Tree {
    tools: Vec<(TrustLabels, bool)>,
    below: Vec<(Tree, bool)>,
    is_text_free: bool,
}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn tree(&mut self, depth: u64) -> Tree {
        let labels = [TrustLabels::NONE, P, U, S, U.with(S), P.with(S)];
        let tools = (0..self.below(3)).map(|_| (labels[usize::try_from(self.below(6)).unwrap()], self.below(4) == 0));
        let tools = tools.collect();
        let members = if depth == 0 { 0 } else { self.below(3) };
        let below = (0..members).map(|_| (self.tree(depth - 1), self.below(2) == 0)).collect();
        Tree { tools, below, is_text_free: self.below(2) == 0 }
    }
}

impl Tree {
    fn sources(&self) -> Vec<TrustSource<'static>> {
        let tools =
            self.tools.iter().map(|(labels, approved)| TrustSource::tool("tool", ToolTrust::new(*labels, *approved)));
        let members =
            self.below.iter().map(|(tree, only_report)| TrustSource::graph("member", tree.trust(), *only_report));
        tools.chain(members).collect()
    }

    fn trust(&self) -> GraphTrust {
        GraphTrust::of(&self.sources(), false, self.is_text_free)
    }

    /// The labels that reach the conversation of the agent from below, followed step by step.
    fn read(&self) -> TrustLabels {
        let mut read = TrustLabels::NONE;
        for (labels, _) in &self.tools {
            read = read.with(labels.read());
        }
        for (tree, only_report) in &self.below {
            let more = tree.read();
            read = read.with(if *only_report && tree.is_text_free { more.without(U) } else { more });
        }
        read
    }

    /// Simulates the flow: true if a call that sends without approval sees private data and untrusted text.
    fn leaks(&self, above: TrustLabels) -> bool {
        let seen = self.read().with(above);
        let sends = self.tools.iter().any(|(labels, approved)| labels.sends() && !approved);
        (sends && seen.contains(P.with(U))) || self.below.iter().any(|(tree, _)| tree.leaks(seen))
    }
}

#[test]
fn the_rule_agrees_with_a_simulation_of_the_flow() {
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    let (mut leaked, mut safe) = (0, 0);
    for _ in 0..20_000 {
        let tree = numbers.tree(3);
        let expected = tree.leaks(TrustLabels::NONE);
        assert_eq!(!leaking(&tree.sources()).is_empty(), expected, "{tree:?}");
        if expected { leaked += 1 } else { safe += 1 }
    }
    assert!(leaked > 1_000 && safe > 1_000, "{leaked} {safe}");
}

#[test]
fn fewer_labels_never_leak_more() {
    let mut numbers = Numbers(0xD1B5_4A32_D192_ED03);
    for _ in 0..5_000 {
        let mut tree = numbers.tree(2);
        let before = tree.leaks(TrustLabels::NONE);
        if let Some((labels, _)) = tree.tools.first_mut() {
            *labels = TrustLabels::NONE;
        }
        assert!(before || leaking(&tree.sources()).is_empty(), "{tree:?}");
    }
}

#[test]
fn a_subagent_that_leaks_what_only_supervisors_bring_is_named_itself() {
    let sources =
        [tool("look_up", S), TrustSource { name: "sub", read: TrustLabels::NONE, senders: Senders::within(P.with(U)) }];
    assert_eq!(leaking(&sources), [1]);
    let message = leak_message(&sources, 1);
    let words =
        "`sub` can be talked into leaking: `sub` reads private data, `sub` reads untrusted text, and `sub` sends";
    assert!(message.as_str().starts_with(words), "{}", message.as_str());
}
