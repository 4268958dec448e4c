//! The differences that stay, with their reasons. `docs/server.md` lists the main ones.

/// The exchanges by the beginnings of their names (all: none), the ends of paths (all: none), and why.
const KEPT: &[(&[&str], &[&str], &str)] = &[
    (&["001", "002"], &["/services"], "there are no other services"),
    (&["004"], &["/content-type", "body"], "a preflight has no body"),
    (&["007", "301"], &["_id", "/name"], "graphs are listed as they were registered, not as their ids sort"),
    (
        &["011", "021", "024", "105", "106", "107", "217", "373"],
        &["/detail", "/message", "body"],
        "texts name the field and the mistake",
    ),
    (&["336", "340"], &["/detail"], "texts name the field"),
    (&["123", "501", "503"], &["/message"], "texts have the fix"),
    (&["019"], &["/id", "/data", "/type"], "END is drawn last"),
    (&["026"], &["/updated_at"], "versions have the time of their creation"),
    (&["045"], &["/checkpoint_ns"], "a checkpoint reference is always complete"),
    (&["046", "048"], &[], "`before` is accepted in each form that clients send"),
    (&[], &["/run_attempt", "/config/metadata"], "internal fields of LangGraph's server"),
    (&["171"], &[], "a run that is rolled back is deleted, started or not"),
    (&["112", "113", "486"], &["/metadata/graph_id"], "set from the beginning"),
    (&[], &["/tasks/0/result"], "writes of a task are stored once, in the next checkpoint"),
    (
        &["042", "064", "068", "080", "082", "098", "102", "125", "128"],
        &["/tasks"],
        "tasks are created when their step begins",
    ),
    (&[], &["/values/n"], "channels have the defaults of their types from the beginning"),
    (&[], &["data/interrupts", "/payload/interrupts"], "a starting task has no questions, as in the JavaScript server"),
    (&["086"], &[], "LangChain reports a subgraph as another runnable"),
    (
        &["100"],
        &[
            "/name",
            "/data/input",
            "/role",
            "/type",
            "/additional_kwargs",
            "/response_metadata",
            "/chunk/id",
            "/output/id",
            "/messages/0/id",
            "/messages/1/id",
            "/chunk_position",
        ],
        "a model has its node's name and no input, and its message has the engine's id from its first chunk on",
    ),
    (
        &["074", "076", "078", "080", "082", "381", "382"],
        &["/log", "/log/0", "/log/1"],
        "a subgraph returns its own updates, not its whole state",
    ),
    (&["080", "082"], &["/checkpoint_map", "/parents/"], "a subgraph's checkpoint is found by its namespace"),
    (&["111"], &["/location"], "the path of the thread, where the stream is"),
    (
        &["115", "116", "117", "120", "121", "501"],
        &["/error", "/place"],
        "the type of the error is hier's, and it has a place",
    ),
    (
        &["144", "498", "499"],
        &["/log", "/n"],
        "`goto` leaves open questions behind: the node runs, and its writes count",
    ),
    (&["201"], &["/configurable", "/error", "/interrupts", "/values"], "a copy is returned whole"),
    (
        &["205"],
        &["/bytes", "/count", "/versions", "/total_bytes", "/__start__", "/branch:to:a", "/branch:to:b"],
        "sizes are those of hier's records, and no channels stand for edges",
    ),
    (&["302", "304", "305"], &[], "schemas come from Rust types"),
    (&["320"], &[], "the run is named in all modes"),
    (&["360"], &[], "`select` counts"),
    (&["365", "367"], &[], "the question is also in `value`; values come before it, none after it"),
    (&["374", "375", "377", "379"], &[], "commands that LangGraph does not have"),
    (&["381"], &[], "a subgraph starts with its first event"),
    (&["385"], &[], "a message has the same form everywhere"),
    (&["533"], &["/assistant_id"], "the state has its assistant, as everywhere else"),
    (&["486"], &[], "the run has its requested options"),
    (&["092", "094"], &[], "ids of chunks, and the end of a message"),
];

/// The differences that occurred.
#[derive(Debug, Default)]
pub(crate) struct Kept(std::collections::HashSet<usize>);

impl Kept {
    /// Returns true if the difference is listed.
    pub(crate) fn knows(&mut self, exchange: &str, path: &str) -> bool {
        let begins = |names: &[&str]| names.is_empty() || names.iter().any(|name| exchange.starts_with(name));
        let ends = |paths: &[&str]| paths.is_empty() || paths.iter().any(|end| path.ends_with(end));
        let found = KEPT.iter().position(|(names, paths, _)| begins(names) && ends(paths));
        self.0.extend(found);
        found.is_some()
    }

    /// The reasons that no difference had.
    pub(crate) fn unused(&self) -> Vec<&'static str> {
        KEPT.iter().enumerate().filter(|(at, _)| !self.0.contains(at)).map(|(_, (.., why))| *why).collect()
    }
}
