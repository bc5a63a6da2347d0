//! Connections that only take time: a thousand that never finish their request, and forty clients that never read.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::millis;

pub(crate) const HALF_OPEN: usize = 1_000;
pub(crate) const DEAF: usize = 40;

/// As many of them as the server takes.
const SERVED: usize = 32;

/// Returns the milliseconds of a run of this number of codons, among strangers or without them. The arrival of the strangers is part of the time,
/// on the processors of the run. The files of the run stay in `folder`: files that were just deleted make the next ones slow.
pub(crate) fn run(folder: &Path, codons: usize, among: bool) -> f64 {
    let folder = tempfile::tempdir_in(folder).expect("the folder is ours").keep();
    std::fs::write(folder.join("hank.json"), hank(codons)).expect("the folder is ours");
    let begin = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_hankweave"))
        .args(["run", "--headless"])
        .arg(&folder)
        .arg("-e")
        .arg(&folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this benchmark");
    let door = Door::of(&mut child, &folder);
    let strangers = if among { intrude(&door) } else { Vec::new() };
    let status = child.wait().expect("it was started");
    let took = millis(begin.elapsed());
    assert!(status.success(), "{status}");
    if among {
        let served = strangers
            .into_iter()
            .map(first_words)
            .filter(|words| words.contains("handshake.response"));
        assert_eq!(served.count(), SERVED, "as many as there is room for are served");
    }
    took
}

/// What a client that has read nothing finds when it reads at last.
fn first_words(mut stream: TcpStream) -> String {
    let mut words = vec![0; 4_096];
    let length = stream.read(&mut words).unwrap_or(0);
    String::from_utf8_lossy(&words[..length]).into_owned()
}

fn hank(codons: usize) -> String {
    let mut hank = String::from(r#"{"hank":["#);
    for index in 0..codons {
        let comma = if index == 0 { "" } else { "," };
        let codon = format!(r#"{comma}{{"id":"c{index}","name":"c{index}","agent":"scripted","#);
        let _ = write!(
            hank,
            r#"{codon}"continuationMode":"fresh","promptText":"do nothing"}}"#
        );
    }
    hank + "]}"
}

/// Where the server of a run is reached, and with which token.
struct Door {
    address: String,
    token: String,
}

impl Door {
    /// Reads what the program says first, the address of its page, and the token that it keeps in `folder`.
    fn of(child: &mut Child, folder: &Path) -> Self {
        let said = BufReader::new(child.stderr.take().expect("standard error is piped"));
        let address = said.lines().map_while(Result::ok).find_map(|line| {
            let (_, page) = line.split_once("http://")?;
            let (address, _) = page.split_once('/')?;
            Some(address.to_owned())
        });
        let token = std::fs::read_to_string(folder.join(".hankweave/token"));
        Self {
            address: address.expect("the program tells its page"),
            token: token
                .expect("the token is there before the page")
                .trim_end()
                .to_owned(),
        }
    }

    fn knock(&self) -> TcpStream {
        TcpStream::connect(&self.address).expect("the server listens")
    }
}

fn intrude(door: &Door) -> Vec<TcpStream> {
    let half_open = (0..HALF_OPEN).map(|_| {
        let mut stream = door.knock();
        // Those that are driven out may be gone already.
        let _ = stream.write_all(b"GET /ws HTTP/1.1\r\nHost: 127");
        stream
    });
    let mut connections: Vec<_> = half_open.collect();
    connections.extend((0..DEAF).map(|_| deaf_client(door)));
    connections
}

/// A client that wants everything from the first event on, and reads nothing of it.
fn deaf_client(door: &Door) -> TcpStream {
    let Door { address, token } = door;
    let head = format!(
        "GET /ws HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    let handshake = br#"{"type":"handshake","data":{"mode":"readonly","afterSeq":0}}"#;
    // A whole text frame whose mask changes nothing (RFC 6455, 5.3).
    let mut request = head.into_bytes();
    request.extend([0x81, 0x80 | handshake.len() as u8, 0, 0, 0, 0]);
    request.extend(handshake);
    let mut stream = door.knock();
    // More than the server takes are turned away.
    let _ = stream.write_all(&request);
    stream
}
