//! Heads and frames that are damaged: the committed corpus in `tests/corpus`, and a fixed series of mutations
//! of it.
//!
//! `hankweave_testing::corpus` describes how to repeat a failure.

use std::path::Path;

use hankweave_core::discovery::{READ_ONLY_TOKEN_VARIABLE, TOKEN_VARIABLE};
use hankweave_testing::corpus::{self, Random};
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;

use super::super::gate::{Admission, Upgrade};
use super::super::head::{Head, MAX_BYTES, MAX_HEADERS};
use super::super::outbox::Outbox;
use super::super::socket::{ClientSocket, Interests, SocketEvent};
use super::*;
use crate::world::environment::Environment;

const MUTATIONS: u64 = 500;
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const TOKENS: [&str; 2] = ["token-for-everything", "token-for-reading"];
const HOSTS: [&str; 3] = ["127.0.0.1:4000", "localhost:4000", "[::1]:4000"];

// covers: F12, F13
#[test]
fn no_damage_to_a_head_lets_somebody_in_without_a_token_or_panics() {
    let runtime = runtime();
    let folder = tempfile::tempdir().unwrap();
    let variables = [(TOKEN_VARIABLE, TOKENS[0]), (READ_ONLY_TOKEN_VARIABLE, TOKENS[1])];
    let world = World::with_environment(Environment::from_iter(variables));
    let gates = [false, true].map(|is_list| Gate {
        tokens: AccessTokens::load(&world, folder.path()).unwrap(),
        answers: AnswerTokens::default(),
        reached_as: None,
        port: 4_000,
        origins: Vec::new(),
        is_list,
    });
    // A question waits, and no damage answers it.
    let codon = CodonId::new("deploy").unwrap();
    for gate in &gates {
        let _ = gate.answers.issue(&World::real(), &codon);
    }
    feed("heads", |bytes| {
        let Ok(head) = runtime.block_on(Head::read(&mut &bytes[..])) else {
            return;
        };
        assert!(head.rest.len() < bytes.len() && bytes.len() - head.rest.len() <= MAX_BYTES);
        assert!(head.headers.len() <= MAX_HEADERS);
        let text = String::from_utf8_lossy(bytes);
        let names_one_of = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let admit = |gate: &Gate| match gate.admit(&head, LOOPBACK) {
            Admission::List => assert!(names_one_of(&TOKENS) && names_one_of(&HOSTS), "{text}"),
            Admission::Upgrade(Upgrade { response, .. }) => {
                assert!(names_one_of(&TOKENS) && names_one_of(&HOSTS), "{text}");
                let answer = String::from_utf8(response).unwrap();
                assert!(!answer.contains("token-for"), "{answer}");
            }
            Admission::Asset(_, host) => assert!(HOSTS.contains(&host.as_str()), "{text}"),
            Admission::Answer(answer) => panic!("{answer:?}: {text}"),
            Admission::Refused(..) | Admission::Proof(_) => {}
        };
        gates.iter().for_each(admit);
    });
}

// covers: F13
#[test]
fn no_damage_to_frames_makes_a_message_of_nothing_or_panics() {
    let runtime = runtime();
    feed("frames", |bytes| {
        runtime.block_on(async {
            let (mut client, server) = tokio::io::duplex(bytes.len() + 64 * 1_024);
            client.write_all(bytes).await.unwrap();
            client.shutdown().await.unwrap();
            let limits = ServerLimits {
                inbound_bytes: 100,
                ..ServerLimits::default()
            };
            let mut socket = ClientSocket::new(Box::new(server), Vec::new(), limits.socket()).await;
            let outbox = Outbox::new(1, 1);
            let mut received = 0;
            loop {
                match socket.next(&outbox, &Interests::default()).await {
                    SocketEvent::Message(Message::Text(text)) => {
                        assert!(text.len() <= limits.inbound_bytes);
                        received += 1;
                    }
                    SocketEvent::Message(_) => received += 1,
                    SocketEvent::Violation(_) | SocketEvent::Closed => break,
                    SocketEvent::Idle | SocketEvent::Unproven | SocketEvent::Overflowed => {
                        panic!("nothing waits, and nobody asked")
                    }
                }
                // A frame with its mask has six bytes at least.
                assert!(received * 6 <= bytes.len(), "{received} messages");
            }
        });
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// Inputs that readers of heads and frames stumble over.
const STUMBLES: [&[u8]; 6] = [
    b"\r\n",
    b"\r\n\r\n",
    b"\0",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b",",
    b"Host: evil.example\r\n",
];

/// Gives every file of a corpus to `parser`, as it is and damaged.
fn feed(corpus: &str, parser: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(corpus);
    let damage = |bytes: &mut Vec<u8>, random: &mut Random, _| corpus::damage(bytes, random, &STUMBLES);
    corpus::feed(&corpus::files(&folder), MUTATIONS, damage, parser);
}
