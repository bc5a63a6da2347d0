//! A wall clock that people set while a run goes on.

use std::sync::atomic::{AtomicI64, Ordering};

use hankweave_core::budget::Ceiling;
use hankweave_core::codon::CodonStatus;
use hankweave_core::time::Timestamp;

use super::*;
use crate::runner::RunOutcome;
use crate::shutdown::Shutdown;

const MONTH: i64 = 30 * 24 * 3_600_000;

/// Shows another month each time that somebody looks.
#[derive(Debug)]
struct Jumping {
    step: i64,
    looks: AtomicI64,
}

impl Clock for Jumping {
    fn now(&self) -> Timestamp {
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        Timestamp::from_millis(1_736_000_000_000 + self.step * looks)
    }
}

/// A stage with a clock that jumps forward or back, and what everything together may take.
fn stage(prompts: &[&str], step: i64, max_time: u64) -> Stage {
    let mut stage = Stage::new(prompts);
    stage.clock = Arc::new(Jumping {
        step,
        looks: AtomicI64::new(0),
    });
    stage.options.ceiling = Ceiling {
        max_time: Some(Duration::from_secs(max_time)),
        ..Ceiling::default()
    };
    stage
}

async fn run(stage: &Stage) -> RunOutcome {
    stage.open().await.run(Shutdown::new()).await.unwrap()
}

fn statuses(outcome: &RunOutcome) -> Vec<CodonStatus> {
    outcome.codons.iter().map(|codon| codon.status).collect()
}

// covers: D9
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_makes_no_codon_longer_and_uses_up_no_time() {
    for step in [MONTH, -MONTH] {
        let stage = stage(&["slow", "fail"], step, 60);
        let outcome = run(&stage).await;
        assert_eq!(statuses(&outcome), [CodonStatus::Completed, CodonStatus::Failed]);
        let longest = Duration::from_secs(3);
        assert!(
            outcome.codons.iter().all(|codon| codon.duration < longest),
            "{outcome:?}"
        );
        assert!(
            outcome.codons[0].duration >= Duration::from_secs(2),
            "{outcome:?}"
        );
        // What the earlier run has recorded counts as it was measured.
        stage.write(&["slow", "two"], &json!({}));
        let outcome = run(&stage).await;
        assert_eq!(statuses(&outcome), [CodonStatus::Completed], "{outcome:?}");
    }
}

// covers: D9, F7
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_gives_no_time_back() {
    for step in [MONTH, -MONTH] {
        let outcome = run(&stage(&["slow", "wait"], step, 3)).await;
        let waited = outcome.codons[1].duration;
        let left = Duration::from_millis(900)..Duration::from_millis(1_100);
        assert!(
            left.contains(&waited),
            "{waited:?} of the one second that was left"
        );
    }
}
