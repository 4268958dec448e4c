//! A pooler in transaction mode: each transaction of a client gets another connection to the server.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Starts a pooler in front of this server and returns its URL. With `shares_names`, each name that a client prepares on one
/// connection exists on the other, with a condition that does not hold.
pub(crate) async fn pooler(url: &str, shares_names: bool) -> String {
    let (_, address) = url.split_once('@').expect("a URL");
    let (address, _) = address.split_once('/').expect("a URL");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let here = listener.local_addr().expect("an address").to_string();
    let (pooled, address) = (url.replace(address, &here), address.to_owned());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let address = address.clone();
            tokio::spawn(async move { carry(client, &address, shares_names).await });
        }
    });
    pooled
}

/// `None` once an end is closed.
async fn carry(mut client: TcpStream, address: &str, shares_names: bool) -> Option<()> {
    let mut servers = [TcpStream::connect(address).await.ok()?, TcpStream::connect(address).await.ok()?];
    let mut length = [0; 4];
    client.read_exact(&mut length).await.ok()?;
    let hello = [&length[..], &body(&mut client, length).await?].concat();
    for (number, server) in servers.iter_mut().enumerate() {
        server.write_all(&hello).await.ok()?;
        let (answer, _) = answer(server).await?;
        if number == 0 {
            client.write_all(&answer).await.ok()?;
        }
    }
    let mut turn = 0;
    loop {
        let mut asks = Vec::new();
        let last = loop {
            let message = message(&mut client).await?;
            if message[0] == b'P' && message[5] != 0 && shares_names {
                let condition = b" = '{";
                let place = message.windows(condition.len()).position(|part| part == condition).expect("a condition");
                let mut other = message.clone();
                other[place + 1] = b'<';
                servers[1 - turn].write_all(&other).await.ok()?;
                servers[1 - turn].write_all(b"S\0\0\0\x04").await.ok()?;
                answer(&mut servers[1 - turn]).await?;
                asks.extend(message);
                continue;
            }
            let kind = message[0];
            asks.extend(message);
            if [b'S', b'Q', b'X'].contains(&kind) {
                break kind;
            }
        };
        servers[turn].write_all(&asks).await.ok()?;
        if last == b'X' {
            return None;
        }
        let (answer, state) = answer(&mut servers[turn]).await?;
        client.write_all(&answer).await.ok()?;
        if state == b'I' {
            turn = 1 - turn;
        }
    }
}

/// Reads the server's messages until it is ready, and returns whether it is in a transaction.
async fn answer(server: &mut TcpStream) -> Option<(Vec<u8>, u8)> {
    let mut said = Vec::new();
    loop {
        let message = message(server).await?;
        let state = (message[0] == b'Z').then(|| message[5]);
        said.extend(message);
        if let Some(state) = state {
            return Some((said, state));
        }
    }
}

async fn message(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = [0; 5];
    from.read_exact(&mut head).await.ok()?;
    let [_, length @ ..] = head;
    Some([&head[..], &body(from, length).await?].concat())
}

/// Reads the body after the length, which includes itself.
async fn body(from: &mut TcpStream, length: [u8; 4]) -> Option<Vec<u8>> {
    let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).ok()?.checked_sub(4)?];
    from.read_exact(&mut body).await.ok()?;
    Some(body)
}
