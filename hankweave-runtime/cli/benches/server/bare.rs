//! Loops that do nothing but send.

use futures_util::SinkExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

use crate::reader::Reader;
use crate::{SERVERS, Source};

/// Sockets to which everything is sent, one after the other.
#[derive(Default)]
pub(crate) struct Bare {
    sockets: Vec<WebSocketStream<TcpStream>>,
    seq: u64,
}

impl Source for Bare {
    async fn reader(&mut self) -> Reader {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
        let address = listener.local_addr().expect("it listens").to_string();
        let accepting = SERVERS.spawn(async move {
            let (stream, _) = listener.accept().await.expect("somebody comes");
            accept_async(stream).await.expect("it is a client")
        });
        let reader = Reader::open(&address, "none").await;
        self.sockets.push(accepting.await.expect("it does not panic"));
        reader
    }

    async fn publish(&mut self, text: String) {
        self.seq += 1;
        let line = format!(
            r#"{{"seq":{},"id":"event-5b26ab9acc1e46b8947b9df990f261cd","timestamp":"2026-01-04T12:00:00.000Z","type":"assistant.action","data":{{"codonId":"a","action":"message","content":"{text}"}}}}"#,
            self.seq
        );
        let message = Message::text(line);
        for socket in &mut self.sockets {
            socket.send(message.clone()).await.expect("the reader reads");
        }
    }
}

/// Connects a client to a socket that sends only these bytes.
pub(crate) async fn replay(bytes: Vec<u8>) -> Reader {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
    let address = listener.local_addr().expect("it listens");
    SERVERS.spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("somebody comes");
        let mut go = [0; 1];
        stream.read_exact(&mut go).await.expect("the reader says when");
        stream.write_all(&bytes).await.expect("the reader reads");
    });
    let mut stream = TcpStream::connect(address).await.expect("somebody listens");
    stream.write_all(b"!").await.expect("the writer waits");
    Reader::new(stream)
}
