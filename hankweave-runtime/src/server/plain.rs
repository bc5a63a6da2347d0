//! Answers to requests that do not become a WebSocket.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::http::StatusCode;

use super::page::Asset;
use crate::world::net::Connection;

/// The headers of every answer: it is not cached, its type is not guessed, no page of another origin may show or read it, and its address is
/// passed to nobody.
const HEADERS: &str = "Connection: close\r\n\
    Cache-Control: no-store\r\n\
    X-Content-Type-Options: nosniff\r\n\
    X-Frame-Options: DENY\r\n\
    Referrer-Policy: no-referrer\r\n\
    Cross-Origin-Opener-Policy: same-origin\r\n\
    Cross-Origin-Resource-Policy: same-origin\r\n";

/// How long a client may take to fetch an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Limit of bytes that are still read from a client after its answer.
const DRAINED_BYTES: u64 = 64 * 1_024;

/// Sends a file. `host` is the name under which the server was reached; the page may open a socket to it and
/// to nothing else. The icon of its tab and the manifest of its app are within the page.
pub(super) async fn send(connection: Box<dyn Connection>, asset: &Asset, host: &str) {
    let policy = format!(
        "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ws://{host}; \
         img-src data:; manifest-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    );
    write(connection, StatusCode::OK, asset.media_type, &policy, asset.body).await;
}

/// Sends JSON to a page.
pub(super) async fn send_json(connection: Box<dyn Connection>, body: &str) {
    write(connection, StatusCode::OK, "application/json", "", body).await;
}

/// Sends text.
pub(super) async fn send_text(connection: Box<dyn Connection>, text: &str) {
    write(connection, StatusCode::OK, "text/plain; charset=utf-8", "", text).await;
}

/// Refuses a request.
pub(super) async fn refuse(connection: Box<dyn Connection>, status: StatusCode, why: &str) {
    let body = format!("{why}\n");
    let extra = match status {
        StatusCode::UNAUTHORIZED => "WWW-Authenticate: Bearer\r\n",
        StatusCode::UPGRADE_REQUIRED => "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
        _ => "",
    };
    write(connection, status, "text/plain; charset=utf-8", extra, &body).await;
}

/// Writes an answer and ends the connection. `extra` has further headers, each with its line break.
async fn write(
    mut connection: Box<dyn Connection>,
    status: StatusCode,
    media_type: &str,
    extra: &str,
    body: &str,
) {
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n{HEADERS}{extra}\r\n{body}",
        body.len(),
    );
    let work = async {
        connection.write_all(answer.as_bytes()).await?;
        connection.shutdown().await?;
        // The system would discard the answer if input was left unread.
        let mut rest = AsyncReadExt::take(&mut connection, DRAINED_BYTES);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // A client that does not fetch the answer does without it.
    let _ = tokio::time::timeout(PATIENCE, work).await;
}
