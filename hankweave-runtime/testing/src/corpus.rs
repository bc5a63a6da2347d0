//! Parsers against damaged input: committed files, and a fixed series of mutations of each.
//!
//! `HANKWEAVE_TEST_MUTATIONS` sets how many mutations each file gets, and `HANKWEAVE_TEST_SEED` where their series begins. A failure names
//! file and seed, so that it can be repeated.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

/// Gives `parser` every file, as it is and `mutations` times damaged by `damage`, which also gets the number of the mutation.
///
/// Files that end in `.hex` hold bytes as hexadecimal digits, so that people can read them.
///
/// # Panics
///
/// Panics when the parser does, or when there is no file.
pub fn feed(
    files: &[PathBuf],
    mutations: u64,
    damage: impl Fn(&mut Vec<u8>, &mut Random, u64),
    parser: impl Fn(&[u8]),
) {
    let mutations = number("HANKWEAVE_TEST_MUTATIONS", mutations);
    let seed = number("HANKWEAVE_TEST_SEED", 0);
    assert!(!files.is_empty(), "there is nothing to damage");
    for file in files {
        let whole = read(file);
        parser(&whole);
        for mutation in seed..seed + mutations {
            let mut damaged = whole.clone();
            damage(&mut damaged, &mut Random(mutation), mutation);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| parser(&damaged))) {
                eprintln!("{} with HANKWEAVE_TEST_SEED={mutation}", file.display());
                resume_unwind(panic);
            }
        }
    }
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("the variable is a number"))
}

/// The files of a folder, by name.
///
/// # Panics
///
/// Panics when the folder cannot be read.
#[must_use]
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the corpus is there");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the corpus is readable").path())
        .collect();
    files.sort();
    files
}

fn read(file: &Path) -> Vec<u8> {
    let content = std::fs::read(file).expect("the corpus is readable");
    if file.extension().is_none_or(|extension| extension != "hex") {
        return content;
    }
    let text = String::from_utf8(content).expect("digits are text");
    let bytes = text
        .split_whitespace()
        .map(|digits| u8::from_str_radix(digits, 16).expect("two digits are a byte"));
    bytes.collect()
}

/// Makes one to four changes: a bit, a cut, a part that is missing or doubled, or one of `stumbles`, which parsers stumble over.
///
/// # Panics
///
/// Panics when there are no `stumbles`.
pub fn damage(bytes: &mut Vec<u8>, random: &mut Random, stumbles: &[&[u8]]) {
    for _ in 0..=random.up_to(3) {
        let place = random.up_to(bytes.len());
        let end = place + random.up_to((bytes.len() - place).min(40));
        match random.up_to(5) {
            0 if place < bytes.len() => bytes[place] ^= 1 << random.up_to(7),
            1 => bytes.truncate(place),
            2 => drop(bytes.drain(place..end)),
            3 => {
                let part = bytes[place..end].to_vec();
                bytes.splice(place..place, part);
            }
            _ => {
                let stumble = stumbles[random.up_to(stumbles.len() - 1)];
                drop(bytes.splice(place..end, stumble.iter().copied()));
            }
        }
    }
}

/// The SplitMix64 generator, which returns equal numbers for equal seeds on every machine.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A number from 0 to `limit`, both included.
    pub fn up_to(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % (limit as u64 + 1)).expect("the limit is one")
    }
}
