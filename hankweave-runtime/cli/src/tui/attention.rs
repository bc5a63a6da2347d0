//! Sentences at the top of the screen: the state of the run, and what a person has to do.

use hankweave_core::agent::InterruptedBy;
use hankweave_core::time::Timestamp;
use hankweave_core::view::{RunState, RunView};

use crate::terminal::approval_prompt::{ApprovalPrompt, answer_text};
use crate::terminal::report::duration;
use crate::terminal::screen::local_time;
use crate::terminal::suspended_run::SuspendedRun;

/// Facts about this client that are not in the view.
#[derive(Debug, Default)]
pub(super) struct Viewer {
    /// Name of this client at the server.
    pub(super) client: String,
    pub(super) may_command: bool,
    /// Suspension of the run, if it is suspended.
    pub(super) suspended: Option<SuspendedRun>,
    /// Why no event arrives any more; `None` while connected.
    pub(super) gone: Option<String>,
    /// Command that shows how an interrupted run continues.
    pub(super) status: Option<String>,
    pub(super) prompt: ApprovalPrompt,
}

impl Viewer {
    /// Returns the state of the run in a sentence.
    pub(super) fn state(&self, view: &RunView, now: Timestamp) -> String {
        if let (Some(why), false) = (&self.gone, view.state.has_ended()) {
            return why.clone();
        }
        if self.suspended.is_some() {
            return "Suspended: no client is answered".to_owned();
        }
        if let Some(question) = self.prompt.question() {
            return question.to_owned();
        }
        let headline = &view.headline;
        // Without an open attempt, an activity with an end is the wait before the next one: for a usage limit, which it names, or for a retry.
        let activity = view.activity.as_ref().filter(|_| view.now.is_none());
        match (
            view.state,
            activity.and_then(|activity| Some((activity, activity.to?))),
        ) {
            (RunState::Running, Some((activity, end))) => {
                let newest = view.waits.values().next_back();
                let item = newest.and_then(|wait| wait.item.as_ref());
                let item = item.and_then(|id| view.items.get(id));
                let name = item.map_or("the run", |item| &item.name);
                let what = match activity.subject {
                    Some(_) => "waits until its usage limit ends",
                    None => "is tried again",
                };
                format!(
                    "{name} {what} at {}, in {}",
                    local_time(end),
                    duration(end.since(now))
                )
            }
            (RunState::Running | RunState::Planned, _) => headline.clone(),
            (RunState::Paused, _) if view.interrupted_by == Some(InterruptedBy::UsageLimit) => {
                match view.limit_ends() {
                    Some(end) => format!("Paused until the usage limit ends: {}", local_time(end)),
                    None => headline.clone(),
                }
            }
            _ => match view.since {
                Some(ended) if view.state.has_ended() => format!("{headline} ({})", local_time(ended)),
                Some(since) => format!("{headline} (since {})", local_time(since)),
                None => headline.clone(),
            },
        }
    }

    /// Returns what the user has to do, or else the last answer, or what comes next.
    pub(super) fn task(&self, view: &RunView) -> Option<String> {
        if let Some(suspended) = self.suspended.filter(|_| self.gone.is_none()) {
            return Some(format!("{}; q leaves", suspended.how_to_continue()));
        }
        if self.prompt.question().is_some() {
            return self.may_command.then(|| self.prompt.keys());
        }
        if self.gone.is_some() || view.state.has_ended() {
            let status = self.status.as_ref().filter(|_| view.state != RunState::Completed);
            return status.map(|status| format!("`{status}` tells how to continue; q leaves"));
        }
        if view.state == RunState::Idle && self.may_command {
            return Some(match view.coming().next() {
                Some(next) => format!("c starts {next}, r runs the newest codon again, e ends the run"),
                None => "r runs the newest codon again, e ends the run".to_owned(),
            });
        }
        let answered = view.answered.as_ref();
        let answered = answered.map(|answered| answer_text(view, answered, Some(&self.client)));
        answered.or_else(|| view.next.clone())
    }
}

#[cfg(test)]
mod tests {
    use hankweave_core::view::CurrentActivity;

    use super::*;
    use crate::terminal::approval_prompt::tests::asking;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    // covers: CLI-35
    #[test]
    fn the_top_says_the_state_and_what_a_person_has_to_do() {
        let mut view = asking();
        let mut viewer = Viewer {
            may_command: true,
            status: Some("hankweave status".to_owned()),
            ..Viewer::default()
        };
        viewer.prompt.follow(&view);
        let state = viewer.state(&view, at(0));
        assert!(
            state.starts_with("deploy waits for an approval: Now? (since "),
            "{state}"
        );
        assert_eq!(viewer.task(&view).unwrap(), viewer.prompt.keys());
        viewer.may_command = false;
        assert_eq!(viewer.task(&view), None, "who may only read is asked for no key");

        (view.ask, view.state) = (None, RunState::Running);
        viewer.prompt.follow(&view);
        view.activity = Some(CurrentActivity::limit(at(0), at(72_000)));
        let state = viewer.state(&view, at(12_000));
        assert!(
            state.starts_with("the run waits until its usage limit ends at "),
            "{state}"
        );
        assert!(
            state.ends_with(&format!(", in {}", duration(at(72_000).since(at(12_000))))),
            "{state}"
        );

        viewer.gone = Some("the connection was lost".to_owned());
        assert_eq!(viewer.state(&view, at(0)), "the connection was lost");
        (view.state, view.headline) = (RunState::Stopped, "Stopped".to_owned());
        assert_eq!(viewer.state(&view, at(0)), "Stopped");
        let task = viewer.task(&view).unwrap();
        assert_eq!(task, "`hankweave status` tells how to continue; q leaves");
        view.state = RunState::Completed;
        assert_eq!(viewer.task(&view), None);
    }
}
