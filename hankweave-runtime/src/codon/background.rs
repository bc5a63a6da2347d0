//! Background work of an agent that has answered: commands and sub-agents that it still waits for, and processes that it left
//! running. Reports the wait, samples the processes, and describes background work that is cut off (HANK-75).

use std::time::Duration;

use hankweave_core::agent::{BackgroundWork, ExitOutcome, FailureReason};
use hankweave_core::hank::OnBackgroundCut;
use hankweave_core::time::short_duration;
use hankweave_core::wire::{Event, ProgressKind};
use tokio::time::Instant;

use super::context::CodonRun;
use super::silence::Silence;
use crate::world::process::FamilyUse;

/// Maximum number of titles in a sentence.
const MOST_TITLES: usize = 3;

/// The background work of one agent.
pub(super) struct BackgroundWait<'a> {
    codon: &'a CodonRun<'a>,
    /// The process of the agent; `None` for an agent without a process.
    pid: Option<u32>,
    /// The last reported wait, so that an equal one is not reported again: the titles of its work (`None` if only processes that the agent left running are
    /// waited for), and when the wait ends. `None` while nothing is waited for.
    reported: Option<(Option<String>, Instant)>,
    /// The last sample of the processes that the agent left running, and its time; `None` after new output.
    sampled: Option<(Instant, FamilyUse)>,
}

/// State of the processes that an agent left running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftRunning {
    /// They compute or write.
    Busy,
    /// They wait, or nothing is known of them.
    Idle,
    /// Everything that the agent waits for is a server that does nothing.
    Servers,
}

impl<'a> BackgroundWait<'a> {
    pub(super) fn new(codon: &'a CodonRun<'a>, pid: Option<u32>) -> Self {
        Self {
            codon,
            pid,
            reported: None,
            sampled: None,
        }
    }

    /// Notes that the agent has printed something: the earlier sample says nothing about the processes that run now, and a
    /// wait is reported again, because the last event about it may no longer be the newest event.
    pub(super) async fn take_output(&mut self, works: &[BackgroundWork], silence: &Silence) {
        self.sampled = None;
        // A wrong end makes `report_wait` publish the wait once more. With `None` it would also repeat its info message.
        if let Some((_, until)) = &mut self.reported {
            *until = Instant::now();
        }
        self.report_wait(works, silence).await;
    }

    /// Reports what the run waits for and until when, unless the last report was equal.
    pub(super) async fn report_wait(&mut self, works: &[BackgroundWork], silence: &Silence) {
        let until = silence.waits_until();
        let wait = until.map(|until| (titles(works), until));
        let before = std::mem::replace(&mut self.reported, wait.clone());
        let Some((work, until)) = wait.filter(|wait| before.as_ref() != Some(wait)) else {
            return;
        };
        // Rounded up to whole seconds, like the limit.
        let left = until.saturating_duration_since(Instant::now()).as_millis();
        let left = Duration::from_secs(u64::try_from(left.div_ceil(1_000)).unwrap_or(u64::MAX));
        if before.is_none() {
            let what = match &work {
                Some(work) => format!("the agent waits for background work: {work}"),
                None => "the agent has answered, and what it left running is busy".to_owned(),
            };
            let (id, most) = (&self.codon.entry.codon_id, short_duration(left));
            let message = format!("{id}: {what}; it is waited for, at most {most} (maxBackgroundSeconds)");
            self.codon.run.publish(Event::Info { message }).await;
        }
        let event = Event::Progress {
            codon_id: Some(self.codon.entry.codon_id.clone()),
            kind: ProgressKind::Background,
            subject: work,
            done: None,
            total: None,
            ends_at: Some(self.codon.run.world.clock.now().after(left)),
        };
        self.codon.run.publish(event).await;
    }

    /// Samples what the agent left running, and compares it with the sample before.
    pub(super) async fn sample(&mut self, works: &[BackgroundWork]) -> LeftRunning {
        let Some(pid) = self.pid else {
            return LeftRunning::Idle;
        };
        let (spawner, marker) = (self.codon.run.world.spawner.clone(), self.codon.marker());
        let sample = move || spawner.family_use(pid, &marker);
        let Some(now) = self.codon.run.world.blocking.run(sample).await else {
            return LeftRunning::Idle;
        };
        let at = Instant::now();
        let state = match &self.sampled {
            Some((sampled_at, before)) => compare(works, before, &now, at - *sampled_at),
            None => LeftRunning::Idle,
        };
        self.sampled = Some((at, now));
        state
    }
}

fn compare(works: &[BackgroundWork], before: &FamilyUse, now: &FamilyUse, elapsed: Duration) -> LeftRunning {
    let are_commands = !works.is_empty() && works.iter().all(|work| work.is_command);
    if are_commands && now.idle_servers(before, elapsed) >= works.len() {
        return LeftRunning::Servers;
    }
    match now.is_busy(before, elapsed) {
        true => LeftRunning::Busy,
        false => LeftRunning::Idle,
    }
}

/// The titles of works in a line; `None` without works.
pub(super) fn titles(works: &[BackgroundWork]) -> Option<String> {
    let titles: Vec<&str> = works.iter().map(|work| work.title.as_str()).collect();
    let more = titles.len().saturating_sub(MOST_TITLES);
    let shown = titles[..titles.len() - more].join(", ");
    match (titles.len(), more) {
        (0, _) => None,
        (_, 0) => Some(shown),
        (_, more) => Some(format!("{shown} and {more} more")),
    }
}

/// Background work that was cut off: at its limit, or by the end of its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BackgroundCut {
    /// The limit, if it was reached.
    limit: Option<Duration>,
    /// Work that the agent was waiting for, as it had reported.
    awaited: Option<String>,
}

impl BackgroundCut {
    /// Background work whose limit was reached.
    pub(super) fn at_limit(limit: Duration, works: &[BackgroundWork]) -> Self {
        Self {
            limit: Some(limit),
            awaited: titles(works),
        }
    }

    /// Background work of an agent that has ended by itself; `None` if the agent was not waiting for any.
    pub(super) fn by_end(works: &[BackgroundWork]) -> Option<Self> {
        Some(Self {
            limit: None,
            awaited: Some(titles(works)?),
        })
    }

    /// Returns the failure of the codon because of the cut. Where the codon does not fail for it, adds a remark instead: when the agent waited for no work, the
    /// hank lets the codon complete, or the agent has failed anyway.
    pub(super) fn failure(&self, codon: &CodonRun<'_>, exit: &ExitOutcome) -> Option<FailureReason> {
        let fails = codon.run.hank.on_background_cut(codon.config) == OnBackgroundCut::Fail;
        let failure = self
            .awaited
            .as_ref()
            .filter(|_| fails && exit.verdict.is_success());
        if failure.is_none() {
            codon.remarks.add(self.words());
            return None;
        }
        let raise = self
            .limit
            .map_or("Let", |_| "Raise `maxBackgroundSeconds`, or let");
        let message = format!(
            "{}. {raise} the codon complete with its answer so far: `\"onBackgroundCut\": \"complete\"`",
            self.words()
        );
        // The kind is not derived from the message: the title of the work may read like an error of a provider.
        Some(FailureReason::unknown(true, message))
    }

    fn words(&self) -> String {
        let limit = self.limit.map(short_duration);
        match (&self.awaited, limit) {
            (Some(work), Some(limit)) => format!(
                "background work that its agent was waiting for was ended after {limit} (maxBackgroundSeconds): {work}"
            ),
            (Some(work), None) => {
                format!("its agent ended before the background work that it was waiting for: {work}")
            }
            (None, limit) => format!(
                "what its agent left running was busy and was ended {} after the answer (maxBackgroundSeconds)",
                limit.unwrap_or_default()
            ),
        }
    }
}

/// Returns a remark about work that ended with its agent, when the agent was stopped for another reason.
pub(super) fn ended_with(works: &[BackgroundWork]) -> Option<String> {
    let work = titles(works)?;
    Some(format!(
        "background work that its agent was waiting for was ended with it: {work}"
    ))
}

/// Returns a remark about processes that an agent left behind when it ended by itself with success: the run has killed them instead of waiting for them.
pub(super) fn left_behind(exit: &ExitOutcome) -> Option<String> {
    let has_remark = exit.verdict.is_success() && exit.leftovers > 0;
    has_remark.then(|| match exit.leftovers {
        1 => "1 process that its agent left behind was ended".to_owned(),
        many => format!("{many} processes that its agent left behind were ended"),
    })
}

#[cfg(test)]
mod tests {
    use hankweave_core::agent::BackgroundWork;

    use super::*;
    use crate::world::process::ChildUse;

    fn works(titles: &[&str], is_command: bool) -> Vec<BackgroundWork> {
        let work = |title: &&str| BackgroundWork {
            id: (*title).to_owned(),
            title: (*title).to_owned(),
            is_command,
        };
        titles.iter().map(work).collect()
    }

    // covers: HANK-75
    #[test]
    fn a_sentence_names_three_works_at_most() {
        assert_eq!(titles(&[]), None);
        assert_eq!(titles(&works(&["a", "b"], true)).as_deref(), Some("a, b"));
        let many = works(&["a", "b", "c", "d", "e"], true);
        assert_eq!(titles(&many).as_deref(), Some("a, b, c and 2 more"));
    }

    // covers: HANK-75
    #[test]
    fn only_idle_servers_are_not_waited_for() {
        let second = Duration::from_secs(1);
        let child = |listens, written| ChildUse {
            listens,
            written,
            ..ChildUse::default()
        };
        let family = |children: &[ChildUse]| FamilyUse {
            children: (1..).zip(children.iter().copied()).collect(),
        };
        let before = family(&[child(true, 1), child(false, 1)]);
        let (one, two) = (works(&["serve"], true), works(&["serve", "sleep"], true));
        let compare = |works: &[BackgroundWork], now: &FamilyUse| compare(works, &before, now, second);
        assert_eq!(compare(&one, &before), LeftRunning::Servers);
        assert_eq!(
            compare(&two, &before),
            LeftRunning::Idle,
            "it sleeps, and will end"
        );
        assert_eq!(compare(&works(&["helper"], false), &before), LeftRunning::Idle);
        assert_eq!(compare(&[], &before), LeftRunning::Idle);
        let busy = family(&[child(true, 2), child(false, 1)]);
        assert_eq!(compare(&one, &busy), LeftRunning::Busy);
    }
}
