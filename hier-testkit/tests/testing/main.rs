//! What users test their graphs with.

mod replay;
mod session;
