#![deny(unused_must_use)]

use hankweave_core::codon::{Codon, Initialize, Starting};

fn main() {}

fn step(codon: Codon<Starting>, metadata: Initialize) {
    codon.initialize(metadata);
}
