//! Nothing: this package is its tests (`tests/`), benches (`benches/`) and their data (`ui/`, `conformance/`).
