use hankweave_core::codon::{Codon, Initialize, Starting};

fn main() {}

fn step(codon: Codon<Starting>) {
    let _ = codon.initialize(Initialize {
        agent_pid: "12",
        agent_log_path: "runs/r/c-claude.log".into(),
        previous_session_id: None,
    });
}
