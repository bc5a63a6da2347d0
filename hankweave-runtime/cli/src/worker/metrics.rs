//! `/metrics` for Prometheus: one small page on an address that the user names, for every client that can reach it (TASK-59).

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::screen::print_stderr;

/// Longest time for a client's request and its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest request that is read, in bytes.
const LONGEST_REQUEST: usize = 8 << 10;

/// Listens on the user's address, if there is one, and prints the address of the page.
pub(super) async fn listen(address: Option<SocketAddr>) -> Result<Option<TcpListener>, CliError> {
    let Some(address) = address else {
        return Ok(None);
    };
    let failed = |error: io::Error| {
        let message = format!("failed to listen on {address}: {error}");
        CliError::new(CliErrorKind::Io, message)
            .hint("name another address with --metrics, such as 127.0.0.1:0")
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    print_stderr(format!("metrics: http://{bound}/metrics\n"));
    Ok(Some(listener))
}

/// Answers one request after the other with the text that `page` returns; without a listener it only waits.
pub(super) async fn serve(listener: Option<TcpListener>, page: impl AsyncFn() -> String) -> Infallible {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // A client that does not wait for the answer gets none.
                let _ = timeout(PATIENCE, answer(stream, &page)).await;
            }
            // The system has no more connections for this process now, as with too many open files.
            Err(_) => sleep(PATIENCE).await,
        }
    }
}

async fn answer(mut stream: TcpStream, page: &impl AsyncFn() -> String) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < LONGEST_REQUEST {
        if stream.read_buf(&mut request).await? == 0 {
            break;
        }
    }
    let (status, body) = match request.starts_with(b"GET /metrics ") {
        true => ("200 OK", page().await),
        false => ("404 Not Found", "only GET /metrics is served\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
