//! The head of an HTTP request, read with limits (WIRE-29).

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_tungstenite::tungstenite::http::{HeaderMap, HeaderName, HeaderValue};

/// Longest head, in bytes.
pub(super) const MAX_BYTES: usize = 8 * 1_024;

/// Most headers.
pub(super) const MAX_HEADERS: usize = 64;

/// A request without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) method: String,
    /// As it was sent: a path, with its query if it has one.
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    /// Bytes after the head.
    pub(super) rest: Vec<u8>,
}

/// Why there is no head.
#[derive(Debug, thiserror::Error)]
pub(super) enum HeadError {
    /// The client has disconnected, or the connection failed.
    #[error("the connection ended within the head of a request")]
    Gone,
    /// It is too long, or has too many headers.
    #[error("the head of the request is too large")]
    TooLarge,
    /// It is no HTTP/1.1.
    #[error("this is no HTTP/1.1 request")]
    Malformed,
}

impl Head {
    /// Reads a head and not much more. The caller sets the deadline.
    pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Self, HeadError> {
        let mut bytes = Vec::with_capacity(1_024);
        loop {
            let searched = bytes.len();
            let room = (MAX_BYTES - searched).min(2_048);
            let read: io::Result<usize> = (&mut *stream).take(room as u64).read_buf(&mut bytes).await;
            if read.unwrap_or(0) == 0 {
                return Err(HeadError::Gone);
            }
            if is_ended(&bytes, searched) {
                return Self::parse(&bytes);
            }
            if bytes.len() >= MAX_BYTES {
                return Err(HeadError::TooLarge);
            }
        }
    }

    /// Parses a complete head.
    fn parse(bytes: &[u8]) -> Result<Self, HeadError> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let length = match request.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLarge),
            Ok(httparse::Status::Partial) | Err(_) => return Err(HeadError::Malformed),
        };
        let (Some(method), Some(target), Some(1)) = (request.method, request.path, request.version) else {
            return Err(HeadError::Malformed);
        };
        let mut headers = HeaderMap::new();
        for header in &*request.headers {
            let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| HeadError::Malformed)?;
            let value = HeaderValue::from_bytes(header.value).map_err(|_| HeadError::Malformed)?;
            headers.append(name, value);
        }
        Ok(Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers,
            rest: bytes[length..].to_owned(),
        })
    }

    /// The target without its query.
    pub(super) fn path(&self) -> &str {
        self.target.split_once('?').map_or(&self.target, |(path, _)| path)
    }

    /// The query of the target; empty where it has none.
    pub(super) fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    /// All values of a header.
    pub(super) fn all<'h>(&'h self, name: &str) -> impl Iterator<Item = &'h [u8]> + use<'h> {
        self.headers.get_all(name).into_iter().map(HeaderValue::as_bytes)
    }

    /// The value of a header that may come once.
    pub(super) fn one(&self, name: &str) -> Result<Option<&[u8]>, DuplicateHeader> {
        let mut values = self.all(name);
        let first = values.next();
        match values.next() {
            Some(_) => Err(DuplicateHeader),
            None => Ok(first),
        }
    }
}

/// A header came twice that may come once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DuplicateHeader;

/// Whether the head has ended, with an empty line; the first `searched` bytes were checked before.
fn is_ended(bytes: &[u8], searched: usize) -> bool {
    let tail = &bytes[searched.saturating_sub(3)..];
    tail.windows(2).any(|pair| pair == b"\n\n") || tail.windows(3).any(|three| three == b"\n\r\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    async fn read(bytes: &[u8]) -> Result<Head, HeadError> {
        Head::read(&mut &bytes[..]).await
    }

    #[tokio::test]
    async fn a_head_is_a_method_a_target_and_headers() {
        let head = read(b"GET /ws?a=1 HTTP/1.1\r\nHost: a\r\nX: 1\r\nx: 2\r\n\r\nrest")
            .await
            .unwrap();
        assert_eq!((head.method.as_str(), head.target.as_str()), ("GET", "/ws?a=1"));
        assert_eq!(head.path(), "/ws");
        assert_eq!(head.one("host"), Ok(Some(&b"a"[..])));
        assert_eq!(head.one("x"), Err(DuplicateHeader));
        assert_eq!(head.one("y"), Ok(None));
        assert_eq!(head.all("x").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(head.rest, b"rest");
    }

    // covers: F13, WIRE-29
    #[tokio::test]
    async fn what_is_too_large_or_no_head_is_refused() {
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(MAX_BYTES));
        assert!(matches!(read(long.as_bytes()).await, Err(HeadError::TooLarge)));
        let fits = |headers: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "X: x\r\n".repeat(headers));
        assert!(read(fits(MAX_HEADERS).as_bytes()).await.is_ok());
        assert!(matches!(
            read(fits(MAX_HEADERS + 1).as_bytes()).await,
            Err(HeadError::TooLarge)
        ));
        for malformed in [
            &b"GET / HTTP/1.0\r\n\r\n"[..],
            b"GET / HTTP/2.0\r\n\r\n",
            b"\x16\x03\x01\x02\x00\n\n",
            b"GET\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            b"GET / HTTP/1.1\r\n folded\r\n\r\n",
            b"GET / HTTP/1.1\r\nX: \0\r\n\r\n",
        ] {
            let text = String::from_utf8_lossy(malformed).into_owned();
            assert!(
                matches!(read(malformed).await, Err(HeadError::Malformed)),
                "{text:?}"
            );
        }
        assert!(matches!(read(b"GET / HTTP/1.1\r\n").await, Err(HeadError::Gone)));
    }

    // covers: F13
    #[tokio::test]
    async fn a_head_may_come_byte_by_byte() {
        let (mut client, mut server) = tokio::io::duplex(1);
        let send = async move {
            tokio::io::AsyncWriteExt::write_all(&mut client, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                .await
                .unwrap();
        };
        let (head, ()) = tokio::join!(Head::read(&mut server), send);
        assert_eq!(head.unwrap().target, "/");
    }

    proptest! {
        // covers: F13, WIRE-29
        #[test]
        fn no_bytes_bring_the_reader_down(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let _ = runtime.block_on(read(&bytes));
            let bytes = [b"GET / HTTP/1.1\r\nHost: ", &bytes[..], b"\r\n\r\n"].concat();
            let _ = runtime.block_on(read(&bytes));
        }
    }
}
