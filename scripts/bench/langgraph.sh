install_reference
cargo bench --quiet --locked --package hier-tests --bench side_by_side
