//! Agents and hierarchies of them, declared in `graph!`.

mod hierarchy;
mod nesting;
mod operator;
mod parallel;
mod support;
