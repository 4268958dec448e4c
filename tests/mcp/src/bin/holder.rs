//! Starts a server program, connects a client to it, and waits until it is killed: `holder PROGRAM ARGUMENTS…`.

use std::error::Error;

use hier_mcp::McpClient;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().ok_or("name a program")?;
    let client = McpClient::stdio("held", program).args(arguments).build()?;
    client.connect().await?;
    println!("connected");
    std::future::pending::<()>().await;
    Ok(())
}
