//! Those who read what is sent, the same for all who send.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Reads frames of a server and does as little with them as can be.
pub(crate) struct Reader {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
    /// What stands in front of this in the buffer was given out.
    next: usize,
}

impl Reader {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
            next: 0,
        }
    }

    /// Comes in as a client.
    pub(crate) async fn open(authority: &str, token: &str) -> Self {
        let stream = TcpStream::connect(authority).await.expect("somebody listens");
        stream.set_nodelay(true).expect("it is a socket");
        let mut reader = Self::new(stream);
        let head = format!(
            "GET /ws HTTP/1.1\r\nHost: {authority}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        reader
            .stream
            .write_all(head.as_bytes())
            .await
            .expect("the server reads");
        while !reader.buffer.ends_with(b"\r\n\r\n") {
            reader.read().await;
        }
        assert!(reader.buffer.starts_with(b"HTTP/1.1 101 "), "the server refuses");
        reader.buffer.clear();
        reader
    }

    /// Sends a short text in a frame whose mask is zero.
    pub(crate) async fn say(&mut self, text: &str) {
        let mut frame = vec![0x81, 0x80 | text.len() as u8, 0, 0, 0, 0];
        frame.extend_from_slice(text.as_bytes());
        self.stream.write_all(&frame).await.expect("the server reads");
    }

    /// The next frame, and its content.
    pub(crate) async fn frame(&mut self) -> (&[u8], &[u8]) {
        loop {
            if let Some((begin, end)) = limits(&self.buffer[self.next..]) {
                let (start, begin, end) = (self.next, self.next + begin, self.next + end);
                self.next = end;
                return (&self.buffer[start..end], &self.buffer[begin..end]);
            }
            self.buffer.drain(..self.next);
            self.next = 0;
            self.read().await;
        }
    }

    async fn read(&mut self) {
        self.buffer.reserve(256 << 10);
        let length = self
            .stream
            .read_buf(&mut self.buffer)
            .await
            .expect("the socket works");
        assert!(length > 0, "the server has closed");
    }
}

/// Where the content of the first frame begins and ends, when all of it is there.
fn limits(bytes: &[u8]) -> Option<(usize, usize)> {
    let (begin, length) = match bytes.get(1)? {
        126 => (
            4,
            u64::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)),
        ),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)),
        length => (2, u64::from(*length)),
    };
    let end = begin + length as usize;
    (bytes.len() >= end).then_some((begin, end))
}

pub(crate) fn frames(mut bytes: &[u8]) -> usize {
    let mut frames = 0;
    while let Some((_, end)) = limits(bytes) {
        bytes = &bytes[end..];
        frames += 1;
    }
    frames
}
