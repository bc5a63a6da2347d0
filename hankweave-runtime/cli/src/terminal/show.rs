//! Shows the events of a run on a thread of its own, so that a slow reader of our output delays neither the run nor its end (CLI-6).

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::poll;
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CodonId, RunId};
use hankweave_core::wire::{Event, JournalEntry};
use hankweave_runtime::error::chain;
use hankweave_runtime::journal::BatchLine;
use hankweave_runtime::state_manager::{Delivery, Subscription};
use hankweave_runtime::world::blocking::Blocking;
use hankweave_runtime::world::disk::IoError;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use crate::terminal::report::Reporter;

/// Time that a run that was asked to stop waits for the reader of its last output.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Events on their way to standard output.
pub(crate) struct EventPrinter(AbortOnDropHandle<Reporter>);

impl EventPrinter {
    /// Begins to show everything that is published.
    pub(crate) fn start(events: Subscription, report: Reporter) -> Self {
        let here = Handle::current();
        let showing = Blocking::Threads.run(move || here.block_on(show(events, report)));
        Self(AbortOnDropHandle::new(tokio::spawn(showing)))
    }

    /// Waits until everything is shown, or until a little after `stopped`; then returns `None`, because the output is not read.
    pub(crate) async fn end(self, stopped: impl Future<Output = ()>) -> Option<Reporter> {
        tokio::select! {
            biased;
            shown = self.0 => match shown {
                Ok(report) => Some(report),
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => None,
            },
            () = async { stopped.await; tokio::time::sleep(LAST_WORDS).await } => None,
        }
    }
}

/// Shows everything. A reader that has gone away ends the showing, not the run.
async fn show(mut events: Subscription, mut report: Reporter) -> Reporter {
    show_all(&mut events, &mut report).await;
    // The end may have come before there was a pause to write out what was said last.
    let _ = report.flush();
    report
}

async fn show_all(events: &mut Subscription, report: &mut Reporter) {
    loop {
        match next(events, report).await {
            Ok(Some(Delivery::Events(events))) => {
                let transitions = events
                    .lines()
                    .filter(|line| line.kind() == Event::STATE_TRANSITION);
                transitions.map(BatchLine::value).for_each(log_transition);
                if report.events(&events).is_err() {
                    *report = Reporter::Quiet;
                }
            }
            Ok(Some(Delivery::Lagged)) => tracing::debug!("the report is behind and reads the journal"),
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "events are missing from the report");
                return;
            }
        }
    }
}

/// Returns the next delivery. If it has to wait, it first writes out what was shown before.
async fn next(events: &mut Subscription, report: &mut Reporter) -> Result<Option<Delivery>, IoError> {
    let mut next = pin!(events.next());
    match poll!(&mut next) {
        Poll::Ready(delivery) => delivery,
        Poll::Pending => {
            if report.flush().is_err() {
                *report = Reporter::Quiet;
            }
            next.await
        }
    }
}

/// Names of events that come with each message of an agent.
const FREQUENT: [&str; 3] = ["CostsUpdated", "CostsIncremented", "AssistantMessageCountUpdated"];

/// Writes the position of the run into our own log; output of agents is only in the journal.
fn log_transition(entry: &JournalEntry) {
    let Event::StateTransition {
        transition_type,
        run_id,
        codon_id,
        transition,
        ..
    } = &entry.event
    else {
        return;
    };
    let to = match &**transition {
        StateEvent::CodonTransitioned { to, .. } => Some(tracing::field::display(to)),
        _ => None,
    };
    if !FREQUENT.contains(&&**transition_type) {
        let (run, codon) = (
            run_id.as_ref().map(RunId::as_str),
            codon_id.as_ref().map(CodonId::as_str),
        );
        tracing::info!(seq = entry.seq, run, codon, to, "{transition_type}");
    }
}
