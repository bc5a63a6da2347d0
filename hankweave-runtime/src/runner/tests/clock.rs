//! A wall clock that people set while a run continues.

use std::sync::atomic::{AtomicI64, Ordering};

use hankweave_core::budget::Ceiling;
use hankweave_core::codon::CodonStatus;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::IdleReason;

use super::commands::live;
use super::*;
use crate::runner::{RunCommand, RunOutcome};
use crate::shutdown::Shutdown;
use tokio::time::Instant;

const MONTH: i64 = 30 * 24 * 3_600_000;

/// Clock that shows another month at each reading.
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

/// Clock that is set by a month, forward or back, ten seconds after its start. Its uptime includes the sleep of the machine.
#[derive(Debug)]
struct SetOnce {
    step: i64,
    begun: Instant,
    /// How long the machine sleeps in these ten seconds.
    sleep: Duration,
}

impl SetOnce {
    fn is_late(&self) -> bool {
        self.begun.elapsed() >= Duration::from_secs(10)
    }
}

impl Clock for SetOnce {
    fn now(&self) -> Timestamp {
        let now = Timestamp::from_millis(1_736_000_000_000).after(self.begun.elapsed());
        match self.is_late() {
            true => Timestamp::from_millis(now.as_millis() + self.step),
            false => now,
        }
    }

    fn uptime(&self) -> Option<Duration> {
        let slept = if self.is_late() {
            self.sleep
        } else {
            Duration::ZERO
        };
        Some(self.begun.elapsed() + slept)
    }
}

/// How long a run waits before it tries its only codon again.
async fn waited(prompt: &str, extra: &Value, clock: impl Clock + 'static) -> Duration {
    let mut stage = Stage::new(&[prompt]);
    stage.write(&[prompt], extra);
    stage.clock = Arc::new(clock);
    let begun = Instant::now();
    let outcome = run(&stage).await;
    assert_eq!(statuses(&outcome), [CodonStatus::Failed, CodonStatus::Completed]);
    begun.elapsed()
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

// covers: D9, F7
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
        // The record of the earlier run counts as it was measured.
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

// covers: HANK-35
#[tokio::test(start_paused = true)]
async fn waits_for_a_person_and_for_a_limit_use_up_no_time() {
    let hour = Duration::from_secs(3_600);
    let mut stage = Stage::new(&["slow", "fail once limit"]);
    stage.write(&["slow", "fail once limit"], &json!({"approval": true}));
    stage.clock = Arc::new(SetOnce {
        step: 0,
        begun: Instant::now(),
        sleep: Duration::ZERO,
    });
    stage.options.answers = true;
    stage.options.ceiling.max_time = Some(Duration::from_secs(5));
    let mut live = live(&stage).await;
    for _ in 0..2 {
        live.idle(IdleReason::ApprovalRequired).await;
        tokio::time::sleep(hour).await;
        let granted = RunCommand::Answer {
            codon_id: None,
            granted: true,
            reason: None,
            by: None,
        };
        live.send(granted).await.unwrap();
    }
    let state = live.manager();
    let outcome = live.end().await;
    let all = [
        CodonStatus::Completed,
        CodonStatus::Failed,
        CodonStatus::Completed,
    ];
    assert_eq!(statuses(&outcome), all, "{outcome:?}");
    let run = &state.snapshot().runs[0];
    assert!(run.end_time.unwrap().since(run.start_time) > hour);
}

// covers: D9
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_changes_no_wait_before_another_try() {
    let retry = json!({"onFailure": "retry", "retryConfig": {"delayMs": 60_000}});
    for step in [MONTH, -MONTH] {
        let clock = Jumping {
            step,
            looks: AtomicI64::new(0),
        };
        let waited = waited("fail once", &retry, clock).await;
        let expected = Duration::from_secs(60)..Duration::from_secs(61);
        assert!(expected.contains(&waited), "{step}: {waited:?}");
    }
}

// covers: D9
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_changes_no_wait_for_a_limit_but_sleep_counts() {
    for (step, sleep, expected) in [
        (MONTH, 0, 99..101),
        (-MONTH, 0, 99..101),
        // It is looked twice a minute whether the machine has slept.
        (0, 60, 38..62),
    ] {
        let clock = SetOnce {
            step,
            begun: Instant::now(),
            sleep: Duration::from_secs(sleep),
        };
        let waited = waited("fail once limit", &json!({}), clock).await;
        assert!(
            expected.contains(&waited.as_secs()),
            "{step}, {sleep}: {waited:?}"
        );
    }
}
