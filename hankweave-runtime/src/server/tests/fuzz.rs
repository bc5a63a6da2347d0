//! Heads and frames that are damaged: the committed corpus in `tests/corpus`, and a fixed series of mutations of it.
//!
//! `HANKWEAVE_TEST_MUTATIONS` sets how many mutations each file gets, and `HANKWEAVE_TEST_SEED` where their series begins. A failure names file,
//! seed and number of the mutation, so that it can be repeated.

use std::path::{Path, PathBuf};

use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;

use super::super::gate::Admission;
use super::super::head::{Head, MAX_BYTES, MAX_HEADERS};
use super::super::outbox::Outbox;
use super::super::wire::{Happened, Wire};
use super::silence::Visitor;
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
    let gate = Gate {
        tokens: Tokens::load(&world, folder.path()).unwrap(),
        port: 4_000,
        origins: Vec::new(),
    };
    feed("heads", |bytes| {
        let Ok(head) = runtime.block_on(Head::read(&mut &bytes[..])) else {
            return;
        };
        assert!(head.rest.len() < bytes.len() && bytes.len() - head.rest.len() <= MAX_BYTES);
        assert!(head.headers().count() <= MAX_HEADERS);
        let text = String::from_utf8_lossy(bytes);
        let names_one_of = |words: &[&str]| words.iter().any(|word| text.contains(word));
        match gate.admit(&head, LOOPBACK) {
            Admission::Upgrade(_, answer) => {
                assert!(names_one_of(&TOKENS) && names_one_of(&HOSTS), "{text}");
                let answer = String::from_utf8(answer).unwrap();
                assert!(!answer.contains("token-for"), "{answer}");
            }
            Admission::Asset(_, host) => assert!(HOSTS.contains(&host.as_str()), "{text}"),
            Admission::Refused(..) => {}
        }
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
            let limits = Limits {
                inbound_bytes: 100,
                ..Limits::default()
            };
            let mut wire = Wire::new(Box::new(Visitor(server)), Vec::new(), limits.socket()).await;
            let outbox = Outbox::new(1, 1);
            let mut heard = 0;
            loop {
                match wire.happens(&outbox, false).await {
                    Happened::Heard(Message::Text(text)) => {
                        assert!(text.len() <= limits.inbound_bytes);
                        heard += 1;
                    }
                    Happened::Heard(_) => heard += 1,
                    Happened::Broken(_) | Happened::Gone => break,
                    Happened::Idle | Happened::Overflowed => panic!("nothing waits, and nobody asked"),
                }
                // A frame with its mask has six bytes at least.
                assert!(heard * 6 <= bytes.len(), "{heard} messages");
            }
        });
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// Gives every file of a corpus to `parser`, as it is and damaged.
fn feed(corpus: &str, parser: impl Fn(&[u8])) {
    let (mutations, seed) = (
        number("HANKWEAVE_TEST_MUTATIONS", MUTATIONS),
        number("HANKWEAVE_TEST_SEED", 0),
    );
    for file in files(corpus) {
        let original = read(&file);
        parser(&original);
        for mutation in seed..seed + mutations {
            let mut bytes = original.clone();
            damage(&mut bytes, &mut Random(mutation));
            let case = std::panic::AssertUnwindSafe(|| parser(&bytes));
            if let Err(panic) = std::panic::catch_unwind(case) {
                eprintln!("{} with HANKWEAVE_TEST_SEED={mutation}", file.display());
                std::panic::resume_unwind(panic);
            }
        }
    }
}

fn files(corpus: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(corpus);
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// The bytes of a file; frames are written as hexadecimal digits, so that they can be read.
fn read(file: &Path) -> Vec<u8> {
    if file.extension().is_none_or(|extension| extension != "hex") {
        return std::fs::read(file).unwrap();
    }
    let text = std::fs::read_to_string(file).unwrap();
    let bytes = text
        .split_whitespace()
        .map(|digits| u8::from_str_radix(digits, 16));
    bytes.collect::<Result<_, _>>().unwrap()
}

/// One to four changes: a bit, a cut, a part that is gone or stands twice, or bytes that readers stumble over.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    const STUMBLES: [&[u8]; 6] = [
        b"\r\n",
        b"\r\n\r\n",
        b"\0",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b",",
        b"Host: evil.example\r\n",
    ];
    for _ in 0..=random.below(3) {
        let place = random.below(bytes.len());
        let end = place + random.below((bytes.len() - place).min(40));
        match random.below(5) {
            0 if place < bytes.len() => bytes[place] ^= 1 << random.below(7),
            1 => bytes.truncate(place),
            2 => drop(bytes.drain(place..end)),
            3 => {
                let part = bytes[place..end].to_vec();
                bytes.splice(place..place, part);
            }
            _ => drop(bytes.splice(place..end, STUMBLES[random.below(5)].iter().copied())),
        }
    }
}

/// The SplitMix64 generator: the same seed, the same numbers, on every machine.
struct Random(u64);

impl Random {
    /// A number from 0 to `limit`, both included.
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % (limit as u64 + 1)).unwrap()
    }
}
