//! Sentences of a view: its headline, its next step and its counts (WIRE-39). [`RunView::reword`] makes them anew after each event that may change them.

use std::time::Duration;

use super::attempt::AttemptState;
use super::item::{ItemKind, ItemView};
use super::now::CurrentActivity;
use super::run_view::{CodonCount, OmittedItems, RunState, RunView};
use super::text::excerpt;
use super::undone::RolledBack;
use super::words::stopped_words;
use crate::agent::InterruptedBy;
use crate::cost::overrun_words;
use crate::time::{Timestamp, short_duration};
use crate::wire::ProgressKind;

/// Longest headline, in bytes of JSON.
const HEADLINE: usize = 300;

impl RunView {
    /// Makes the sentences and counts anew.
    pub(super) fn reword(&mut self) {
        let headline = self.make_headline();
        let headline = match self.rehearsal {
            true => format!("Rehearsal: {headline}"),
            false => headline,
        };
        self.headline = excerpt(&headline, HEADLINE);
        self.next = self.make_next().map(|next| excerpt(&next, HEADLINE));
        self.codons = self.count_codons();
    }

    fn make_headline(&self) -> String {
        if let Some(back) = self.rollback.as_ref().filter(|_| self.state.has_ended()) {
            return self.rollback_headline(back);
        }
        match self.state {
            RunState::Planned => "Nothing has run yet".to_owned(),
            RunState::Running => self.running_headline(),
            RunState::Asking => match &self.ask {
                Some(ask) => format!("Waits for you: {}", ask.question),
                None => "Waits for you".to_owned(),
            },
            RunState::Idle => "Waits for a command".to_owned(),
            RunState::Completed => "Completed".to_owned(),
            RunState::Failed => self.failed_headline(),
            RunState::Stopped => match &self.cause {
                Some(cause) => stopped_words("Stopped", cause),
                None => "Stopped".to_owned(),
            },
            RunState::Paused => self.paused_headline(),
            RunState::Crashed => "Crashed".to_owned(),
        }
    }

    fn rollback_headline(&self, back: &RolledBack) -> String {
        let sha = back.checkpoint.short();
        match &back.codon {
            Some(codon) => {
                let title = self.title(codon.configured(), codon.iteration());
                format!("Rolled back to checkpoint {sha} of {title}")
            }
            None => format!("Rolled back to checkpoint {sha} of the beginning"),
        }
    }

    fn running_headline(&self) -> String {
        let is_background = |activity: &CurrentActivity| activity.kind == ProgressKind::Background;
        if let Some(now) = &self.now {
            let title = self.title(&now.item, now.iteration);
            return match self.activity.as_ref().filter(|activity| is_background(activity)) {
                Some(CurrentActivity {
                    subject: Some(work), ..
                }) => {
                    format!("Waits for background work of {title}: {work}")
                }
                Some(_) => format!("Waits for background work of {title}"),
                None => format!("Runs {title}"),
            };
        }
        match self.activity.as_ref().map(|activity| activity.kind) {
            Some(ProgressKind::Wait | ProgressKind::Retry) => match self.newest_title() {
                Some(title) => format!("Waits to retry {title}"),
                None => "Waits to retry".to_owned(),
            },
            Some(ProgressKind::Restore) => "Restores files".to_owned(),
            Some(ProgressKind::Checkpoint | ProgressKind::Rig | ProgressKind::Background) | None => {
                "Runs".to_owned()
            }
        }
    }

    /// Returns the title of the codon that started last.
    fn newest_title(&self) -> Option<String> {
        let attempts = |(id, item): (_, &ItemView)| {
            let attempts = item.attempts.iter();
            attempts
                .map(move |(key, attempt)| (attempt.began, id, key.iteration))
                .collect::<Vec<_>>()
        };
        let newest = self.items.iter().flat_map(attempts).max();
        newest.map(|(_, id, iteration)| self.title(id, iteration))
    }

    fn failed_headline(&self) -> String {
        let Some(problem) = &self.problem else {
            return "Failed".to_owned();
        };
        let title = self.title(&problem.item, problem.attempt.iteration);
        let attempt = self.attempt(&problem.item, problem.attempt);
        let why = attempt.and_then(|attempt| attempt.why.as_ref()?.message.as_deref());
        match why {
            Some(why) => format!("Failed at {title}: {why}"),
            None => format!("Failed at {title}"),
        }
    }

    fn paused_headline(&self) -> String {
        let paused = format!("Paused ({})", self.cause_of_pause());
        // An approval granted since then has settled the cause.
        match self.cause.as_ref().filter(|_| self.approved != Some(true)) {
            Some(cause) => format!("{paused}: {cause}"),
            None => paused,
        }
    }

    /// Returns the state in words within a sentence: `completed`, `paused (total budget of $5.0000 spent)`.
    #[must_use]
    pub fn state_words(&self) -> String {
        let state = match self.state {
            RunState::Paused => format!("paused ({})", self.cause_of_pause()),
            RunState::Asking => "waiting for an approval".to_owned(),
            other => other.as_str().to_owned(),
        };
        match self.rehearsal {
            true => format!("{state} (rehearsal)"),
            false => state,
        }
    }

    fn cause_of_pause(&self) -> String {
        match self.interrupted_by {
            Some(InterruptedBy::Ceiling) => self.spent_budget(),
            Some(InterruptedBy::Approval) => match self.approved {
                None => "approval needed".to_owned(),
                Some(true) => "approved since then".to_owned(),
                Some(false) => "approval denied".to_owned(),
            },
            Some(InterruptedBy::Sentinel) => "asked for by a sentinel".to_owned(),
            Some(InterruptedBy::Stuck) => "stuck".to_owned(),
            Some(InterruptedBy::Disk) => "no room left for the record".to_owned(),
            Some(InterruptedBy::UsageLimit) => self.limit_ends().map_or_else(
                || "usage limit".to_owned(),
                |ends| format!("usage limit until {ends}"),
            ),
            Some(InterruptedBy::Stop | InterruptedBy::LostSession) | None => "interrupted".to_owned(),
        }
    }

    /// Returns which budget paused the run: the money or the time of the total budget, where one is used up. Else `budget spent`: it was that of a codon, which
    /// the cause names.
    fn spent_budget(&self) -> String {
        let money = self.money.limit.filter(|limit| self.money.counted() >= *limit);
        let now = self.at.unwrap_or(Timestamp::UNIX_EPOCH);
        let time = self.time_limit_ms.map(Duration::from_millis);
        let time = time.filter(|limit| self.worked(now) >= *limit);
        match (money, time) {
            (Some(limit), _) => format!("total budget of {limit} spent"),
            (None, Some(limit)) => format!("total time of {} used up", short_duration(limit)),
            (None, None) => "budget spent".to_owned(),
        }
    }

    /// Returns by how much the total budget is exceeded, in words: `over its budget by $0.0010`.
    #[must_use]
    pub fn overrun(&self) -> Option<String> {
        let money = &self.money;
        overrun_words(money.counted(), money.at_least, money.limit)
    }

    /// Returns the end of the usage limit that the run met last.
    #[must_use]
    pub fn limit_ends(&self) -> Option<Timestamp> {
        let attempts = self.items.values().flat_map(|item| item.attempts.values());
        attempts.filter_map(|attempt| attempt.why.as_ref()?.until).max()
    }

    /// Returns the name of an item with its position: `Build it (2 of at most 5)`.
    #[must_use]
    pub fn title(&self, item: &str, iteration: u32) -> String {
        format!("{}{}", self.name(item), self.position_in_loop(item, iteration))
    }

    /// Returns the name of an item, or its id where it is not known.
    #[must_use]
    pub fn name<'v>(&'v self, item: &'v str) -> &'v str {
        self.items.get(item).map_or(item, |found| &found.name)
    }

    /// Returns the position of a codon in its loop, as it follows the name: ` (2 of at most 5)`, or ` (iteration 2)` where no limit is known; empty
    /// outside of a loop.
    #[must_use]
    pub fn position_in_loop(&self, item: &str, iteration: u32) -> String {
        let within = self.items.get(item).and_then(|item| item.within.as_ref());
        match within.and_then(|within| self.items.get(within)) {
            None => String::new(),
            Some(ItemView { most: Some(most), .. }) => format!(" ({iteration} of at most {most})"),
            Some(ItemView { most: None, .. }) => format!(" (iteration {iteration})"),
        }
    }

    /// Returns what follows the open attempt: the next codon; after the last codon of a loop its next iteration, the entry after the loop, or either.
    fn make_next(&self) -> Option<String> {
        if self.state.has_ended() {
            return None;
        }
        let now = self.now.as_ref()?;
        let item = self.items.get(&now.item)?;
        let name = |id: &String| Some(self.items.get(id)?.name.as_str());
        let id_after = |order: &[String], id: &str| {
            let at = order.iter().position(|known| known == id)?;
            order.get(at + 1).cloned()
        };
        // The entry of the plan that is the open codon, or its loop.
        let entry = item.within.as_deref().unwrap_or(&now.item);
        let following = id_after(&self.order, entry);
        let following = following
            .and_then(|id| self.first_codon_name(&id))
            .map(str::to_owned);
        let Some(loop_item) = item.within.as_ref().and_then(|id| self.items.get(id)) else {
            return Some(format!("Then {}", following?));
        };
        if let Some(next) = id_after(&loop_item.order, &now.item).as_ref().and_then(name) {
            return Some(format!("Then {next}"));
        }
        let may_repeat = loop_item.most.is_none_or(|most| now.iteration < most);
        let again = loop_item.order.first().and_then(name).filter(|_| may_repeat);
        match (again, following) {
            (Some(again), Some(following)) => Some(format!("Then {again} again, or {following}")),
            (Some(again), None) => Some(format!("Then {again} again, or the end")),
            (None, following) => Some(format!("Then {}", following?)),
        }
    }

    /// Iterates over the codons of the plan in order, each once, however often a loop repeats it.
    pub fn codons(&self) -> impl Iterator<Item = &str> {
        self.order.iter().flat_map(|id| {
            let inner = self.items.get(id).map_or(&[][..], |item| &item.order);
            // An entry without codons inside is no loop, but a codon itself.
            let own = inner.is_empty().then_some(id.as_str());
            own.into_iter().chain(inner.iter().map(String::as_str))
        })
    }

    /// Returns the number of codons before the current one, and the number of all codons. Where no codon is open, the first number is that of the codons that
    /// are done. A codon of a loop counts once.
    #[must_use]
    pub fn position(&self) -> (usize, usize) {
        let OmittedItems { before, after } = self.omitted;
        (before + self.count_done(), before + self.codons().count() + after)
    }

    /// Returns the number of listed codons before the current one. Where none is open, the codon of the newest attempt takes its place and counts if done.
    fn count_done(&self) -> usize {
        let place = |item: &str| self.codons().position(|id| id == item);
        if let Some(now) = &self.now {
            return place(&now.item).unwrap_or_default();
        }
        let attempts = self.items.iter().flat_map(|(id, item)| {
            let attempts = item.attempts.values();
            attempts.map(move |attempt| (attempt.seq, attempt.began, id, attempt.state))
        });
        let newest = attempts.max_by_key(|(seq, began, ..)| (*seq, *began));
        let Some((.., id, state)) = newest else { return 0 };
        let is_done = matches!(state, AttemptState::Completed | AttemptState::Skipped);
        place(id).map_or(0, |place| place + usize::from(is_done))
    }

    /// Returns the number of completed codons of the plan, over all runs, and the number of all its codons. A codon counts once; in a loop it is completed when
    /// the loop has ended.
    #[must_use]
    pub fn completed(&self) -> (usize, usize) {
        (self.codons.completed, self.codons.planned)
    }

    /// Counts the codons of the plan for [`completed`](Self::completed).
    fn count_codons(&self) -> CodonCount {
        let OmittedItems { before, after } = self.omitted;
        let is_completed = |id: &&str| {
            let Some(item) = self.items.get(*id) else {
                return false;
            };
            let newest = item.attempts.values().rfind(|attempt| !attempt.undone);
            let is_completed = newest.is_some_and(|newest| newest.state == AttemptState::Completed);
            is_completed && item.within.as_ref().is_none_or(|of| self.has_ended_loop(of))
        };
        CodonCount {
            completed: before + self.codons().filter(is_completed).count(),
            planned: before + self.codons().count() + after,
        }
    }

    /// Whether no iteration of a loop follows: the run is complete, a later entry has started, the check has passed, or the last iteration is complete.
    fn has_ended_loop(&self, id: &str) -> bool {
        let Some(item) = self.items.get(id) else {
            return true;
        };
        let later = self.order.iter().skip_while(|known| *known != id).skip(1);
        let has_started = |id: &String| {
            let Some(item) = self.items.get(id) else {
                return false;
            };
            let inner = item.order.iter().filter_map(|id| self.items.get(id));
            let mut attempts = inner.chain([item]).flat_map(|item| item.attempts.values());
            attempts.any(|attempt| !attempt.undone)
        };
        // After a rollback the state is still that of the run before it.
        let is_run_complete = self.state == RunState::Completed && self.rollback.is_none();
        if is_run_complete || later.into_iter().any(has_started) {
            return true;
        }
        let has_passed = item.iteration.and_then(|iteration| item.checks.get(&iteration));
        let has_passed = has_passed.is_some_and(|check| check.passed);
        let is_last_iteration = item.most.is_some() && item.iteration >= item.most;
        let last_codon = item.order.last().and_then(|id| self.items.get(id));
        let newest = last_codon.and_then(|codon| codon.attempts.iter().next_back());
        let is_iteration_complete = newest.is_some_and(|(key, attempt)| {
            Some(key.iteration) == item.iteration && attempt.state == AttemptState::Completed
        });
        has_passed || (is_last_iteration && is_iteration_complete)
    }

    /// Iterates over the names of the codons after the current one, in order.
    pub fn coming(&self) -> impl Iterator<Item = &str> {
        let first = self.count_done() + usize::from(self.now.is_some());
        let name = |id| {
            self.items
                .get(id)
                .map_or(id, |item: &ItemView| item.name.as_str())
        };
        self.codons().skip(first).map(name)
    }

    /// Name of the first codon of an entry.
    fn first_codon_name(&self, id: &str) -> Option<&str> {
        let item = self.items.get(id)?;
        match item.kind {
            ItemKind::Codon => Some(&item.name),
            ItemKind::Loop => Some(&self.items.get(item.order.first()?)?.name),
        }
    }
}
