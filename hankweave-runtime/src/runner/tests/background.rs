//! Agents that have answered and wait for work in the background, on a clock of the test (HANK-75).

use hankweave_core::codon::CodonStatus;
use hankweave_core::wire::{Event, ProgressKind};
use tokio::time::Instant;

use super::commands::{Live, live};
use super::*;
use crate::options::Recovery;
use crate::runner::{RunCommand, RunOutcome};
use crate::shutdown::Shutdown;

const MINUTE: Duration = Duration::from_secs(60);

/// Returns a prompt with which the agent waits for this number of minutes.
fn waits(minutes: usize) -> String {
    format!("background{}", " x".repeat(minutes - 1))
}

/// Runs one codon whose agent waits for this number of minutes, and returns how long it took.
async fn run(minutes: usize, extra: &Value) -> (Stage, RunOutcome, Duration) {
    let prompt = waits(minutes);
    let stage = Stage::new(&[&prompt]);
    stage.write(&[&prompt], extra);
    let begun = Instant::now();
    let outcome = stage.open().await.run(Shutdown::new()).await.unwrap();
    (stage, outcome, begun.elapsed())
}

fn about(minutes: u32) -> std::ops::Range<Duration> {
    MINUTE * minutes..MINUTE * minutes + Duration::from_secs(2)
}

const CUT: &str = "background work that its agent was waiting for was ended after 30m0s (maxBackgroundSeconds): Run the tests";

// covers: HANK-75
#[tokio::test(start_paused = true)]
async fn an_agent_that_waits_is_waited_for_and_goes_on() {
    // Longer than what it left running may take otherwise, and than it may be silent while it works.
    let (stage, outcome, took) = run(25, &json!({"shimIdleTimeout": 60, "settleSeconds": 5})).await;
    assert_eq!(outcome.codons[0].status, CodonStatus::Completed, "{outcome:?}");
    assert!(stage.done().ends_with("went on\n") && outcome.codons[0].remarks.is_empty());
    assert!(about(25).contains(&took), "{took:?}");
}

// covers: HANK-75
#[tokio::test(start_paused = true)]
async fn work_that_takes_too_long_is_ended_and_the_codon_fails_with_a_hint() {
    let (stage, outcome, took) = run(40, &json!({})).await;
    assert!(
        stage.done().ends_with("was ended\n") && about(30).contains(&took),
        "{took:?}"
    );
    let codon = &outcome.codons[0];
    assert_eq!(codon.status, CodonStatus::Failed);
    let why = codon.failure.as_ref().unwrap();
    let message = why.message.as_ref().unwrap();
    assert!(why.retriable && message.starts_with(CUT), "{message}");
    assert!(
        message.ends_with("Raise `maxBackgroundSeconds`, or let the codon complete with its answer so far: `\"onBackgroundCut\": \"complete\"`")
    );
}

// covers: HANK-75
#[tokio::test(start_paused = true)]
async fn the_hank_says_how_long_and_whether_the_codon_completes_over_it() {
    let (_, outcome, took) = run(40, &json!({"maxBackgroundSeconds": 3000})).await;
    assert_eq!(outcome.codons[0].status, CodonStatus::Completed);
    assert!(about(40).contains(&took));
    let (_, outcome, _) = run(40, &json!({"onBackgroundCut": "complete"})).await;
    assert_eq!(outcome.codons[0].status, CodonStatus::Completed);
    assert_eq!(outcome.codons[0].remarks, [CUT]);
    // The codon runs once more, since the next attempt may be faster.
    let retry = json!({"onFailure": "retry", "retryConfig": {"maxAttempts": 1, "delayMs": 1000}, "maxBackgroundSeconds": 60});
    let (_, outcome, took) = run(40, &retry).await;
    assert_eq!(outcome.codons.len(), 2, "{outcome:?}");
    assert!(MINUTE * 2 <= took && took < MINUTE * 3, "{took:?}");
}

/// Waits until a run reports that it waits for background work, and returns until when.
async fn waiting(live: &mut Live) -> Option<Timestamp> {
    let mut until = None;
    let is_wait = |event: &Event| {
        matches!(
            event,
            Event::Progress {
                kind: ProgressKind::Background,
                ..
            }
        )
    };
    let event = live.event(is_wait).await;
    if let Event::Progress { subject, ends_at, .. } = event {
        assert_eq!(subject.as_deref(), Some("Run the tests"));
        until = ends_at;
    }
    until
}

const ENDED: &str = "background work that its agent was waiting for was ended with it: Run the tests";

// covers: HANK-75
#[tokio::test(start_paused = true)]
async fn a_limit_of_time_ends_a_wait_as_it_ends_work() {
    let budget = json!({"budget": {"maxTimeSeconds": 300}});
    let (_, outcome, took) = run(20, &budget).await;
    assert!(about(5).contains(&took), "{took:?}");
    assert_eq!(outcome.codons[0].remarks, [ENDED], "{outcome:?}");
    assert!(outcome.codons[0].budget_exceeded.is_some());
}

// covers: HANK-75
#[tokio::test(start_paused = true)]
async fn a_codon_that_waits_is_skipped_and_stopped_and_continues() {
    let prompt = waits(20);
    let mut stage = Stage::new(&[&prompt, "two"]);
    let mut first = live(&stage).await;
    let now = stage.clock.now();
    let until = waiting(&mut first).await.unwrap();
    let left = until.since(now);
    assert!(MINUTE * 29 < left && left <= MINUTE * 31, "{left:?}");
    let outcome = first.stop().await;
    assert_eq!(outcome.codons[0].status, CodonStatus::Failed);
    assert!(outcome.codons[0].interrupted_by.is_some());
    assert_eq!(outcome.codons[0].remarks, [ENDED]);

    // An agent that continues in its session gets a message that its work was ended.
    stage.options.recovery = Some(Recovery::Session);
    let outcome = stage.open().await.run(Shutdown::new()).await.unwrap();
    assert_eq!(outcome.codons[0].status, CodonStatus::Completed, "{outcome:?}");
    assert!(
        stage
            .done()
            .contains("what you had running in the background was ended")
    );

    let stage = Stage::new(&[&prompt, "two"]);
    let mut live = live(&stage).await;
    waiting(&mut live).await;
    live.send(RunCommand::Skip).await.unwrap();
    let outcome = live.end().await;
    let statuses: Vec<_> = outcome.codons.iter().map(|codon| codon.status).collect();
    assert_eq!(statuses, [CodonStatus::Skipped, CodonStatus::Completed]);
}
