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
    order(
        "",
        "hier_spec hier_macros hier_checkpoint hier_runs hier_state hier_core hier_draw hier_agents hier_worker hier_sqlite hier_postgres hier_models hier_mcp hier_server hier_restate hier_testkit hier hier_cli",
    ),
    order("hier_spec", "words const_text suggest self names reach together positions flow declare check agent trust"),
    order(
        "hier_macros",
        "words diag docs symbol fragment crate_path testing approval state view text_free graph question tool mutated grammar snapshots",
    ),
    order("hier_checkpoint", "sync panics channel reducer message checkpoint store backend"),
    order(
        "hier_checkpoint::backend",
        "key storage_key cipher compression value_codec latest rows settle items retention lease unreadable",
    ),
    order("hier_state", "command question error state"),
    order("hier_core", "policy config engine graph internals drive prelude plumbing"),
    order("hier_core::engine", "log stream program attempt step pool durable run thread"),
    order("hier_draw", "model rank plane mermaid dot svg self request"),
    order(
        "hier_agents",
        "prompts schema bounds coercion options model price compact text_free state redaction tool operator layer call ask agent_error tool_node react hierarchy builder prelude plumbing",
    ),
    order("hier_worker", "prepare context metrics detached ending watch due drive handle"),
    order("hier_sqlite", "saver store"),
    order("hier_postgres", "saver store"),
    order("hier_testkit", "contract layered checkpoint store runs model session replay lock"),
    order("hier_testkit::session", "clock operator trace check record self"),
    order("hier_testkit::replay", "report turn compare self"),
    order(
        "hier_models",
        "secret error delay transport aws key address server retry media conversation provider_tools draft wire refused_files endpoint streaming model embed",
    ),
    order(
        "hier_server",
        "error failure options time reserved schedule metrics answer auth body query context wire graphs drawing webhook stream fault default_assistants admission app event_tail sse routes v3 agui \
         openapi router background studio upgrade middleware cross_origin database running serving server",
    ),
    order("hier_mcp", "error seal oauth client server"),
    order(
        "hier_mcp::server",
        "elicitation graph_tool uri_template resource prompt sessions calls progress tasks handler serving",
    ),
    order(
        "hier_mcp::client",
        "schema repair tool_schema question options answer handler child http connection mcp_client builder content catalogue resources round task call",
    ),
    order("hier_server::wire", "connector message message_paths question checkpoint run object row state"),
    order("hier_server::stream", "assembler chunk runnables translate"),
    order("hier_server::v3", "messages translate filter events commands socket"),
    order(
        "hier_restate",
        "error context slice wire message work cache log event_sender host database stored thread service endpoint client admin incoming stream runner",
    ),
    order("hier_cli", "progress project threads lock studio new graph schema main"),
];

/// Modules of one folder that may import each other in a circle.
#[derive(Debug)]
pub struct KnownKnot {
    /// The path of the folder.
    pub folder: &'static str,
    /// The names of the modules, sorted.
    pub modules: &'static str,
}

impl KnownKnot {
    /// Returns true if this circle is known.
    pub fn allows(&self, folder: &str, modules: &str) -> bool {
        self.folder == folder && self.modules == modules
    }
}

const fn knot(folder: &'static str, modules: &'static str) -> KnownKnot {
    KnownKnot { folder, modules }
}

/// The existing cycles. The list may only shrink: a new cycle fails the test, and so does an entry that is no longer one.
pub const KNOTS: &[KnownKnot] = &[
    // A task has its graph, the graph its nodes, and the code of a node takes the task.
    knot("hier_core::engine::program", "child graph hooks node task"),
];
