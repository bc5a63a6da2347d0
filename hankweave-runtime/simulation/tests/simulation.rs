//! The runtime in a simulated world (P1 to P9).

use hankweave_simulation::disk::Crash;
use hankweave_simulation::{Failed, Passed, play, play_all, steered, sweep};

/// Number of seeds to play; `HANKWEAVE_TEST_SEEDS` overrides it.
const SEEDS: u64 = 100;

// covers: SENT-10, SENT-21, P1, P2, P4, P5, P6, P7, P8, P9, D1, D2, D5, D8, D9, L1, L4, G5, G7, S3, F1, F2, F3, F4, F6, F7, F20
#[test]
fn whatever_happens_no_promise_is_broken() {
    let seeds = std::env::var("HANKWEAVE_TEST_SEEDS");
    let seeds = seeds.ok().and_then(|number| number.parse().ok()).unwrap_or(SEEDS);
    let threads = std::thread::available_parallelism().map_or(2, |number| number.get() as u64);
    match play_all(0..seeds, threads, &|_| ()) {
        // Enough has gone wrong for the promises to mean something.
        Ok(Passed {
            crashes,
            refusals,
            answers,
            ..
        }) => assert!(
            crashes > seeds / 2 && refusals > seeds / 4 && answers > seeds / 4,
            "{answers}"
        ),
        Err(failed) => panic!("{failed}"),
    }
}

#[test]
fn one_seed_tells_one_story() {
    let twice = [3, 3, 4].map(|seed| play(seed).map_err(|failed: Failed| failed.to_string()).unwrap());
    assert_eq!(twice[0], twice[1]);
    assert_ne!(twice[0], twice[2]);
}

// covers: P1, P7, P8, G8, F1
#[test]
fn a_run_that_is_killed_at_any_operation_is_finished_by_the_next() {
    assert!(sweep(Crash::Kill).unwrap() > 100);
}

// covers: P1, P7, P8, G8, F2
#[test]
fn a_run_that_loses_power_at_any_operation_is_finished_by_the_next() {
    assert!(sweep(Crash::PowerLoss).unwrap() > 100);
}

/// Every fortieth operation, and all of them with `HANKWEAVE_TEST_SWEEP=all`.
fn operations(first: u64) -> impl Iterator<Item = u64> + Clone {
    let all = std::env::var("HANKWEAVE_TEST_SWEEP").is_ok_and(|which| which == "all");
    let (first, step) = if all { (0, 1) } else { (first, 40) };
    (first..).step_by(step)
}

// covers: P1, P7, P8, G7, G8, F1
#[test]
fn a_steered_story_that_is_killed_comes_to_its_end_whatever_operation_that_was() {
    assert!(steered(Crash::Kill, operations(0)).unwrap() > 20);
}

// covers: P1, P7, P8, G7, G8, F2
#[test]
fn a_steered_story_that_loses_power_comes_to_its_end_whatever_operation_that_was() {
    assert!(steered(Crash::PowerLoss, operations(20)).unwrap() > 20);
}
