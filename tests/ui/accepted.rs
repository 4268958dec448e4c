//! What must compile: beside each program that must not, the nearest that must. Each is run, too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A module and a test for each program.
macro_rules! programs {
    ($($name:ident: $path:literal),+ $(,)?) => {
        $(
            #[allow(dead_code, unreachable_pub, clippy::all, clippy::pedantic)]
            mod $name {
                include!($path);

                #[test]
                fn compiles_and_runs() {
                    main();
                }
            }
        )+

        const PROGRAMS: &[&str] = &[$($path),+];
    };
}

programs! {
    after_route_own_line: "after_route/ok_own_line.rs",
    agents_answer_no_channel: "agents/answer/ok_no_channel.rs",
    agents_answer_no_schema: "agents/answer/ok_no_schema.rs",
    agents_answer_reducer: "agents/answer/ok_reducer.rs",
    agents_answer_reserved: "agents/answer/ok_reserved.rs",
    agents_context_base_context: "agents/context/ok_base_context.rs",
    agents_fields_foreign: "agents/fields/ok_foreign.rs",
    agents_fields_model: "agents/fields/ok_model.rs",
    agents_fields_name: "agents/fields/ok_name.rs",
    agents_fields_options: "agents/fields/ok_options.rs",
    agents_fields_other_kind: "agents/fields/ok_other_kind.rs",
    agents_invoked_saver: "agents/invoked/ok_saver.rs",
    agents_invoked_text: "agents/invoked/ok_text.rs",
    agents_layers_compact: "agents/layers/ok_compact.rs",
    agents_layers_forms: "agents/layers/ok_forms.rs",
    agents_layers_other_context: "agents/layers/ok_other_context.rs",
    agents_layers_wrong_type: "agents/layers/ok_wrong_type.rs",
    agents_members_agent_as_stage: "agents/members/ok_agent_as_stage.rs",
    agents_members_agent_within_a_stage: "agents/members/ok_agent_within_a_stage.rs",
    agents_members_contains_each_other: "agents/members/ok_contains_each_other.rs",
    agents_members_contains_itself: "agents/members/ok_contains_itself.rs",
    agents_members_no_tool: "agents/members/ok_no_tool.rs",
    agents_members_parallel_plain: "agents/members/ok_parallel_plain.rs",
    agents_members_parallel_shared: "agents/members/ok_parallel_shared.rs",
    agents_members_report_into: "agents/members/ok_report_into.rs",
    agents_members_reserved_name: "agents/members/ok_reserved_name.rs",
    agents_members_tool_and_subagent: "agents/members/ok_tool_and_subagent.rs",
    agents_members_twice: "agents/members/ok_twice.rs",
    agents_members_two_of_one_name: "agents/members/ok_two_of_one_name.rs",
    agents_members_unknown_field: "agents/members/ok_unknown_field.rs",
    agents_policy_fields_child_lacks: "agents/policy_fields/ok_child_lacks.rs",
    agents_policy_fields_in_own_policy: "agents/policy_fields/ok_in_own_policy.rs",
    agents_policy_fields_internal: "agents/policy_fields/ok_internal.rs",
    agents_policy_fields_managed: "agents/policy_fields/ok_managed.rs",
    agents_policy_fields_merged_and_discarded: "agents/policy_fields/ok_merged_and_discarded.rs",
    agents_policy_fields_merged_there_and_discarded_here: "agents/policy_fields/ok_merged_there_and_discarded_here.rs",
    agents_policy_fields_supervisor_lacks: "agents/policy_fields/ok_supervisor_lacks.rs",
    agents_policy_fields_twice: "agents/policy_fields/ok_twice.rs",
    agents_policy_fields_unknown: "agents/policy_fields/ok_unknown.rs",
    agents_policy_fields_unknown_through_flatten: "agents/policy_fields/ok_unknown_through_flatten.rs",
    agents_policy_options_no_iterations: "agents/policy_options/ok_no_iterations.rs",
    agents_policy_options_not_a_policy: "agents/policy_options/ok_not_a_policy.rs",
    agents_policy_options_unknown: "agents/policy_options/ok_unknown.rs",
    agents_subagent_state_no_base_state: "agents/subagent_state/ok_no_base_state.rs",
    agents_subagent_state_no_policy: "agents/subagent_state/ok_no_policy.rs",
    agents_subagent_state_other_context: "agents/subagent_state/ok_other_context.rs",
    agents_subagent_state_other_type: "agents/subagent_state/ok_other_type.rs",
    commands_goto: "commands/ok_goto.rs",
    dead_join_both_come: "dead_join/ok_both_come.rs",
    doubled_edge_edges_once: "doubled_edge/ok_edges_once.rs",
    doubled_edge_joins_apart: "doubled_edge/ok_joins_apart.rs",
    doubled_node_other_name: "doubled_node/ok_other_name.rs",
    doubled_route_once: "doubled_route/ok_once.rs",
    edge_ends_edges: "edge_ends/ok_edges.rs",
    graph_in_itself_another: "graph_in_itself/ok_another.rs",
    inbox_reduced: "inbox/ok_reduced.rs",
    macro_rules_derives_within: "macro_rules/ok_derives_within.rs",
    no_end_way_to_end: "no_end/ok_way_to_end.rs",
    no_entry_entry: "no_entry/ok_entry.rs",
    no_rest_routes_end_it: "no_rest/ok_routes_end_it.rs",
    node_checkpoints_graphs: "node_checkpoints/ok_graphs.rs",
    node_checkpoints_sent_per_call: "node_checkpoints/ok_sent_per_call.rs",
    node_error_errors: "node_error/ok_errors.rs",
    node_function_node_functions: "node_function/ok_node_functions.rs",
    odd_names_around_the_macros: "odd_names/ok_around_the_macros.rs",
    reserved_names_own_names: "reserved_names/ok_own_names.rs",
    route_every_arm: "route/ok_every_arm.rs",
    route_expression_expressions: "route_expression/ok_expressions.rs",
    route_same_arms_arms_differ: "route_same_arms/ok_arms_differ.rs",
    route_target_targets: "route_target/ok_targets.rs",
    sends_payload: "sends/ok_payload.rs",
    state_conflict_one_each: "state_conflict/ok_one_each.rs",
    state_derives_both: "state_derives/ok_both.rs",
    state_flatten_chain: "state_flatten/ok_chain.rs",
    state_keys_setters: "state_keys/ok_setters.rs",
    state_keys_spelt: "state_keys/ok_spelt.rs",
    state_managed_read: "state_managed/ok_read.rs",
    state_names_names: "state_names/ok_names.rs",
    state_persist_untracked: "state_persist/ok_untracked.rs",
    state_reducer_type_bears: "state_reducer_type/ok_bears.rs",
    state_shape_struct: "state_shape/ok_struct.rs",
    state_version_versions: "state_version/ok_versions.rs",
    state_words_words: "state_words/ok_words.rs",
    subgraph_state_channels_agree: "subgraph_state/ok_channels_agree.rs",
    syntax_both_spellings: "syntax/ok_both_spellings.rs",
    tool_nodes_tool_nodes: "tool_nodes/ok_tool_nodes.rs",
    tools_given: "tools/ok_given.rs",
    tools_json_schema: "tools/ok_json_schema.rs",
    tools_tools: "tools/ok_tools.rs",
    two_writers_reduced_or_apart: "two_writers/ok_reduced_or_apart.rs",
    unknown_node_known_node: "unknown_node/ok_known_node.rs",
    unreachable_reached_by_goto: "unreachable/ok_reached_by_goto.rs",
    view_fields_fields: "view_fields/ok_fields.rs",
    view_kinds_places: "view_kinds/ok_places.rs",
}

#[test]
fn each_program_in_the_folders_is_listed_here() {
    let listed: BTreeSet<PathBuf> = PROGRAMS.iter().map(PathBuf::from).collect();
    let mut found = BTreeSet::new();
    look_in(Path::new(""), &mut found);
    assert_eq!(found, listed);
}

fn look_in(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in root.join(folder).read_dir().expect("a folder") {
        let entry = entry.expect("an entry");
        let (path, name) = (folder.join(entry.file_name()), entry.file_name().into_string().expect("a name"));
        if entry.file_type().expect("a type").is_dir() {
            look_in(&path, found);
        } else if name.starts_with("ok_") && path.extension().is_some_and(|extension| extension == "rs") {
            found.insert(path);
        }
    }
}
