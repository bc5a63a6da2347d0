//! A codon from its first state to its last; the stored form takes equal steps.

use hankweave_core::codon::{Codon, CodonExecution, Complete, Initialize, Run, Start};
use hankweave_core::id::{CheckpointSha, CodonId, Pid, SessionId};
use hankweave_core::time::Timestamp;

fn main() {
    let codon = Codon::new(CodonId::new("draft").unwrap(), Timestamp::UNIX_EPOCH, None);
    let (starting, started) = codon.step(Start { rig_setup_checkpoint: None }).into_parts();
    let initialize = Initialize {
        agent_pid: Pid(7),
        agent_log_path: "runs/r/draft-claude.log".into(),
        previous_session_id: None,
    };
    let (initializing, initialized) = starting.step(initialize).into_parts();
    let session = SessionId::new("s").unwrap();
    let (running, ran) = initializing.step(Run { agent_session_id: session }).into_parts();
    let complete = Complete {
        end_time: Timestamp::UNIX_EPOCH,
        completion_checkpoint: CheckpointSha::new("abc"),
        result_message_received: true,
    };
    let (done, completed) = running.step(complete).into_parts();

    let mut stored: CodonExecution =
        Codon::new(CodonId::new("draft").unwrap(), Timestamp::UNIX_EPOCH, None).into_execution();
    for event in [started, initialized, ran, completed] {
        stored = stored.apply(event).unwrap();
    }
    assert_eq!(stored, done.into_execution());
}
