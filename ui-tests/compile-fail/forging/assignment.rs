#![allow(unused_mut, reason = "the mistake is another one")]

use hankweave_core::codon::{Codon, Running};
use hankweave_core::id::Pid;

fn main() {}

fn forge(mut codon: Codon<Running>) {
    codon.agent_pid = Pid(1);
}
