//! Readers of what is sent, common to all senders.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

/// Reads frames of a server and does as little with them as can be.
pub(crate) struct Reader {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Start of the unread part of the buffer.
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
        let request = format!("ws://{authority}/ws").into_client_request();
        let mut request = request.expect("it is an address");
        let bearer = format!("Bearer {token}").parse().expect("a token fits");
        request.headers_mut().insert("Authorization", bearer);
        let (socket, _) = client_async(request, stream).await.expect("the server agrees");
        // No side has sent anything yet, so nothing is lost with the socket around the stream.
        Self::new(socket.into_inner())
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
            self.buffer.reserve(256 << 10);
            let length = self.stream.read_buf(&mut self.buffer).await;
            assert!(length.is_ok_and(|length| length > 0), "the server has closed");
        }
    }

    /// All frames up to the one with such a content.
    pub(crate) async fn read_until(&mut self, is_wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let (frame, content) = self.frame().await;
            bytes.extend_from_slice(frame);
            if is_wanted(content) {
                return bytes;
            }
        }
    }
}

/// Returns the start and end of the content of the first frame, if the buffer has all of it.
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
