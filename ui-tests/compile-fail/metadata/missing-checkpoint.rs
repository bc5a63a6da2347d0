use hankweave_core::codon::{Codon, Complete, Running};
use hankweave_core::time::Timestamp;

fn main() {}

fn step(codon: Codon<Running>, end_time: Timestamp) {
    let _ = codon.complete(Complete { end_time, result_message_received: true });
}
