use hankweave_core::codon::{Codon, Complete, Running};
use hankweave_core::id::SessionId;
use hankweave_core::time::Timestamp;

fn main() {}

fn step(codon: Codon<Running>, end_time: Timestamp, session: SessionId) {
    let _ = codon.complete(Complete { end_time, completion_checkpoint: session, result_message_received: true });
}
