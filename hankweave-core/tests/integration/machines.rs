//! The machine of the run; that of the codon has its own tests.

use hankweave_core::id::RunId;
use hankweave_core::run::{self, RUN, Run, RunLife, RunTransition};
use hankweave_core::time::Timestamp;
use serde_json::json;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn started_run() -> Run<run::Running> {
    Run::new(RunId::new("1736000000000-abc123-def456").unwrap(), at(0))
}

#[test]
fn a_run_that_has_ended_takes_no_second_end_from_an_event() {
    let ends = [
        RunTransition::Complete(run::Complete { end_time: at(1) }),
        RunTransition::Fail(run::Fail { end_time: at(1) }),
        RunTransition::Crash(run::Crash { end_time: at(1) }),
    ];
    for first in &ends {
        let ended = started_run().into_life().apply(first.clone()).unwrap();
        assert_eq!(ended.end_time(), Some(&at(1)));
        for second in &ends {
            let refused = ended.clone().apply(second.clone()).unwrap_err();
            assert_eq!((refused.from, refused.legal.len()), (ended.status(), 0));
            assert_eq!(*refused.value, ended);
        }
    }
}

#[test]
fn the_life_of_a_run_is_stored_under_the_names_of_the_state_file() {
    let life = started_run()
        .complete(run::Complete { end_time: at(60) })
        .into_life();
    let json = json!({
        "status": "completed", "runId": "1736000000000-abc123-def456",
        "startTime": "1970-01-01T00:00:00.000Z", "endTime": "1970-01-01T00:01:00.000Z",
    });
    assert_eq!(serde_json::to_value(&life).unwrap(), json);
    assert_eq!(serde_json::from_value::<RunLife>(json).unwrap(), life);
}

// covers: STATE-61
#[test]
fn a_run_has_the_graph_of_the_documents() {
    assert_eq!((RUN.states.len(), RUN.edges.len()), (4, 3));
}
