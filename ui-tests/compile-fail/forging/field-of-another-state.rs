use hankweave_core::codon::{Codon, Preparing};

fn main() {}

fn session(codon: &Codon<Preparing>) -> String {
    codon.agent_session_id.to_string()
}
