# Runs one hierarchy with the same scripted model on both sides. LangGraph needs a minute or two.
install_reference
cargo bench --quiet --locked --package hier-tests --bench tax_filing
