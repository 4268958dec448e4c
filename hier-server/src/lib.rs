//! Serves graphs.
