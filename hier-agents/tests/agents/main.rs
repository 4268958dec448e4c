//! Agents and hierarchies of them, declared in `graph!`.

mod answers;
mod asking;
mod bounds;
mod conversation;
mod foreign;
mod hierarchy;
mod layers;
mod left_calls;
mod lists;
mod long;
mod nesting;
mod operator;
mod own_parts;
mod parallel;
mod speech;
mod steps;
mod stops;
mod stored_before;
mod support;
mod tool_errors;
mod tool_nodes;
mod tools;
mod toolsets;
mod trust;
mod turns;
mod typed;
