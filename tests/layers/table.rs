//! The layers: what stands left may not import what stands right of it. `ARCHITECTURE.md` says what each is for.

/// The order of the modules in a folder, the lowest first.
#[derive(Debug)]
pub struct Order {
    /// The path of the module whose children these are; empty for the crates of the workspace.
    pub folder: &'static str,
    /// Their names. `self` stands for what the folder's own file defines, if they may import that.
    pub modules: &'static str,
}

impl Order {
    /// The place of a module in the order.
    pub(crate) fn place(&self, module: &str) -> Option<usize> {
        self.modules.split_whitespace().position(|placed| placed == module)
    }
}

const fn order(folder: &'static str, modules: &'static str) -> Order {
    Order { folder, modules }
}

/// The orders of the workspace.
pub const TABLE: &[Order] = &[
    order("", "hier_spec hier_macros hier_core hier_checkpoint hier_models hier_server hier_testkit hier hier_cli"),
    order("hier_spec", "suggest self names reach together declare check agent"),
    order("hier_macros", "diag symbol crate_path testing state view graph tool mutated snapshots"),
    order(
        "hier_core",
        "sync panics channel reducer message checkpoint question error state store runs config engine graph worker agent prelude plumbing",
    ),
    order(
        "hier_core::agent",
        "nesting schema words options model state call ask stuck failed tool operator calls tool_node react hierarchy builder",
    ),
    order("hier_core::engine", "log stream program attempt step pool durable run thread"),
    order("hier_checkpoint", "key place cipher compression vault rows run_rows retention lease sqlite postgres store"),
    order("hier_testkit", "contract checkpoint store runs model conformance main"),
    order(
        "hier_models",
        "secret error address transport server attempt media draft conversation wire endpoint pieces model embed",
    ),
    order(
        "hier_server",
        "error failure options time metrics auth body context graphs drawing webhook wire stream fault app follow routes v3 openapi \
         router layers cross_origin database server",
    ),
    order("hier_server::wire", "message mode question run row state"),
    order("hier_server::stream", "sse speech translate"),
    order("hier_server::v3", "spoken translate filter events commands socket"),
    order("hier_cli", "threads main"),
];
