//! Which file to trust at a start (P6).

use hankweave_core::document::{HankweaveState, ProblemKind, render};
use hankweave_core::event::{Recorded, StateEvent};
use hankweave_core::state::{Candidate, RecoveredState, StateSource, recover};
use hankweave_core::testing::{Ending, Story};

fn story() -> Story {
    Story::new()
        .fresh("r1")
        .codon("a", Ending::Completed)
        .run_completes()
}

fn bytes(state: &HankweaveState) -> Vec<u8> {
    render(state).into_bytes()
}

fn found(bytes: &[u8]) -> Option<Candidate<'_>> {
    Some(Candidate { bytes, tail: &[] })
}

#[track_caller]
fn assert_from(recovered: &RecoveredState, source: StateSource, state: &HankweaveState) {
    assert_eq!((recovered.source, &recovered.state), (source, state));
    assert!(!recovered.history_was_reset);
}

#[test]
fn a_good_primary_is_taken_and_nothing_else_is_looked_at() {
    let story = story();
    let primary = bytes(story.state());
    let recovered = recover(found(&primary), found(b"damaged"), || unreachable!(), true);
    assert_from(&recovered, StateSource::Primary, story.state());
    assert!(recovered.primary_problems.is_empty() && recovered.backup_problems.is_empty());
}

#[test]
fn what_the_log_has_beyond_a_file_is_folded_in() {
    let (short, whole) = (Story::new().fresh("r1"), story());
    let tail = &whole.events()[short.events().len()..];
    let old = bytes(short.state());
    let primary = Some(Candidate { bytes: &old, tail });
    assert_from(
        &recover(primary, None, Vec::new, true),
        StateSource::Primary,
        whole.state(),
    );
}

#[test]
fn a_log_that_does_not_continue_a_file_makes_it_unusable() {
    let whole = story();
    let (own, backup) = (bytes(whole.state()), bytes(whole.state()));
    let primary = Some(Candidate {
        bytes: &own,
        tail: whole.events(),
    });
    let recovered = recover(primary, found(&backup), Vec::new, true);
    assert_from(&recovered, StateSource::Backup, whole.state());
    assert_eq!(recovered.primary_problems[0].kind, ProblemKind::CorruptedData);
}

// An absent primary is damage as well.
// covers: P6, F4
#[test]
fn without_a_usable_primary_the_backup_is_taken() {
    let story = story();
    let backup = bytes(story.state());
    for primary in [None, found(b""), found(b"{\"runs\":")] {
        let recovered = recover(primary, found(&backup), || unreachable!(), true);
        assert_from(&recovered, StateSource::Backup, story.state());
        assert!(!recovered.primary_problems.is_empty());
    }
}

// A document whose current run is missing is not continued.
// covers: P6
#[test]
fn a_missing_current_run_falls_back_to_the_backup() {
    let story = story();
    let text = render(story.state()).replace("\"currentRunId\": null", "\"currentRunId\": \"gone\"");
    let backup = bytes(story.state());
    let recovered = recover(found(text.as_bytes()), found(&backup), Vec::new, true);
    assert_from(&recovered, StateSource::Backup, story.state());
    assert_eq!(recovered.primary_problems[0].kind, ProblemKind::MissingRun);
}

// covers: F4
#[test]
fn without_both_files_the_recorded_events_rebuild_the_document() {
    let story = story();
    let events = || -> Vec<Recorded<StateEvent>> { story.events().to_vec() };
    let recovered = recover(found(b"damaged"), found(b"damaged"), events, true);
    assert_from(&recovered, StateSource::Log, story.state());
    assert!(!recovered.primary_problems.is_empty() && !recovered.backup_problems.is_empty());
}

#[test]
fn history_that_nothing_can_tell_any_more_is_reset_and_said_so() {
    let recovered = recover(found(b"damaged"), None, Vec::new, true);
    assert_eq!(
        (recovered.source, recovered.history_was_reset),
        (StateSource::Fresh, true)
    );
    assert_eq!(recovered.state, HankweaveState::default());
}

#[test]
fn a_first_start_is_no_damage() {
    let recovered = recover(None, None, || unreachable!(), false);
    assert_from(&recovered, StateSource::Fresh, &HankweaveState::default());
    assert!(recovered.primary_problems.is_empty());
}
