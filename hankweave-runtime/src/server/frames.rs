//! Text frames as they go over the socket: a part of the history is put into them where it is read, and copied no more.

use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

/// Room for the longest header of a server, whose frames have no mask (RFC 6455, section 5.2).
const HEADER: usize = 10;

/// Whole messages, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Frames(Vec<u8>);

/// Where a message begins that is being written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun(usize);

impl Frames {
    /// The same memory without what is in it.
    pub(super) fn cleared(mut self) -> Self {
        self.0.clear();
        self
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Adds a message.
    pub(super) fn push(&mut self, text: &[u8]) {
        write_header(text.len(), &mut self.0);
        self.0.extend_from_slice(text);
    }

    /// Begins a message whose length is not known yet.
    pub(super) fn begin(&mut self) -> Begun {
        let begun = Begun(self.0.len());
        self.0.extend_from_slice(&[0; HEADER]);
        begun
    }

    /// Adds text to the message that was begun.
    pub(super) fn add(&mut self, text: &[u8]) {
        self.0.extend_from_slice(text);
    }

    /// How long the message is that was begun.
    pub(super) fn length_since(&self, begun: Begun) -> usize {
        self.0.len() - begun.0 - HEADER
    }

    /// Ends the message that was begun.
    pub(super) fn end(&mut self, Begun(begin): Begun) {
        let length = self.length_since(Begun(begin));
        let mut header = Vec::with_capacity(HEADER);
        write_header(length, &mut header);
        let (place, content) = (begin + HEADER - header.len(), begin + HEADER);
        self.0[place..content].copy_from_slice(&header);
        // Only a short message has a short header.
        self.0.drain(begin..place);
    }
}

fn write_header(length: usize, to: &mut Vec<u8>) {
    let header = FrameHeader {
        opcode: OpCode::Data(Data::Text),
        ..FrameHeader::default()
    };
    let written = header.format(length as u64, to);
    written.expect("memory takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client hears.
    async fn heard(frames: &Frames) -> Vec<String> {
        use futures_util::{StreamExt, TryStreamExt};
        use tokio_tungstenite::WebSocketStream;
        use tokio_tungstenite::tungstenite::protocol::Role;
        let stream = tokio::io::join(frames.bytes(), tokio::io::sink());
        let socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
        let messages = socket.take_while(|message| std::future::ready(message.is_ok()));
        let texts = messages.map_ok(|message| message.into_text().unwrap().as_str().to_owned());
        texts.try_collect().await.unwrap()
    }

    #[tokio::test]
    async fn messages_of_every_length_are_heard_as_they_were_said() {
        let lengths = [0, 1, 125, 126, 65_535, 65_536, 200_000];
        let expected: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
        let (mut whole, mut pieces) = (Frames::default(), Frames::default());
        for text in &expected {
            whole.push(text.as_bytes());
            let begun = pieces.begin();
            let (first, second) = text.split_at(text.len() / 2);
            pieces.add(first.as_bytes());
            pieces.add(second.as_bytes());
            assert_eq!(pieces.length_since(begun), text.len());
            pieces.end(begun);
        }
        assert_eq!(heard(&whole).await, expected);
        assert_eq!(pieces.bytes(), whole.bytes());
        assert!(whole.cleared().bytes().is_empty());
    }
}
