//! Visible part of a run on the screen, its scroll position and its overlay, and the effect of keys on these. Pure: a key's command for the run is
//! returned, not sent.

use hankweave_core::cost::Usd;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Command, ListedCheckpoint, ShaPrefix};

use super::model::{CodonRow, RunModel};
use crate::terminal::keys::Key;
use crate::terminal::report::duration;

/// The parts that fill the screen, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Pane {
    #[default]
    Transcript,
    Files,
    Costs,
    Sentinels,
}

pub(super) const PARTS: [(Pane, &str); 4] = [
    (Pane::Transcript, "transcript"),
    (Pane::Files, "files"),
    (Pane::Costs, "costs"),
    (Pane::Sentinels, "sentinels"),
];

pub(super) const HELP: [&str; 17] = [
    "1 2 3 4, Tab    transcript, files, costs, sentinels",
    "↑ ↓ PgUp PgDn   scroll; also j, k",
    "g  G            the beginning; the end, and what comes",
    "← →             long lines",
    "/  n  N         search; the next one; the one before",
    "Enter           the differences of a file since the codon began",
    "",
    "y  n            while a codon waits for an approval: approve; deny",
    "c               start the codon that is next",
    "s               skip the codon that runs",
    "r               run the newest codon again",
    "x               stop the codon that runs by force",
    "b               roll back to a checkpoint",
    "e               end the run",
    "",
    "q               leave; the run continues",
    "?               this",
];

/// Overlay in front of the part.
#[derive(Debug, Default)]
pub(super) enum Overlay {
    #[default]
    Nothing,
    Help,
    /// The search text is being typed.
    Search(String),
    /// Question whether a command that loses something is meant; `y` sends the command.
    Question(String, Command),
    /// The checkpoints to roll back to, newest first, and the position of the chosen one.
    Checkpoints(Vec<ListedCheckpoint>, usize),
    /// Name of a file, the lines of its differences, and the first line on the screen.
    Differences(String, Vec<String>, usize),
}

/// Action of the caller after a key.
#[derive(Debug, PartialEq)]
pub(super) enum ViewAction {
    Nothing,
    Send(Command),
    /// Ask the run for its checkpoints and [`View::offer`] them.
    List,
    /// Compare this file and [`View::show`] the differences.
    Compare(String),
    Leave,
}

#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) part: Pane,
    pub(super) front: Overlay,
    /// The first line of the transcript on the screen; `None` follows its end.
    pub(super) top: Option<usize>,
    /// Number of characters at the left of long lines that are skipped.
    pub(super) left: usize,
    /// The chosen row of the other parts.
    pub(super) chosen: usize,
    /// Search text; empty before the first search.
    pub(super) needle: String,
    /// Number of the line in which it was found.
    pub(super) found: Option<usize>,
    /// Outcome of the last command.
    pub(super) message: String,
    /// Lines of the part on the screen, as it was drawn last.
    pub(super) height: usize,
}

impl View {
    /// Takes a key.
    pub(super) fn press(&mut self, key: Key, model: &RunModel) -> ViewAction {
        match std::mem::take(&mut self.front) {
            Overlay::Nothing => self.press_on_part(key, model),
            Overlay::Help => ViewAction::Nothing,
            Overlay::Search(needle) => self.press_in_search(key, needle, model),
            Overlay::Question(_, command) => match key {
                Key::Char('y' | 'Y') => ViewAction::Send(command),
                _ => self.nothing_changed(),
            },
            Overlay::Checkpoints(checkpoints, at) => self.press_on_checkpoints(key, checkpoints, at, model),
            Overlay::Differences(name, lines, at) => {
                let step = self.step(key);
                if let (Some(step), false) = (step, key == Key::Char('q')) {
                    let last = lines.len().saturating_sub(self.height.max(1));
                    let at = at.saturating_add_signed(step).min(last);
                    self.front = Overlay::Differences(name, lines, at);
                }
                ViewAction::Nothing
            }
        }
    }

    /// Offers checkpoints to roll back to, newest first.
    pub(super) fn offer(&mut self, checkpoints: Vec<ListedCheckpoint>) {
        match checkpoints.is_empty() {
            true => "there is no checkpoint to roll back to".clone_into(&mut self.message),
            false => self.front = Overlay::Checkpoints(checkpoints, 0),
        }
    }

    /// Shows the differences of a file.
    pub(super) fn show(&mut self, name: String, lines: Vec<String>) {
        self.front = Overlay::Differences(name, lines, 0);
    }

    /// Returns the number of lines that a key scrolls.
    fn step(&self, key: Key) -> Option<isize> {
        let page = isize::try_from(self.height.max(2) - 1).unwrap_or(1);
        Some(match key {
            Key::Up | Key::Char('k') => -1,
            Key::Down | Key::Char('j') => 1,
            Key::PageUp => -page,
            Key::PageDown | Key::Char(' ') => page,
            Key::Home | Key::Char('g') => isize::MIN,
            Key::End | Key::Char('G') => isize::MAX,
            _ => return None,
        })
    }

    fn press_on_part(&mut self, key: Key, model: &RunModel) -> ViewAction {
        self.message.clear();
        if let Some(step) = self.step(key) {
            self.scroll(step, model);
            return ViewAction::Nothing;
        }
        match key {
            Key::Char(digit @ '1'..='4') => self.turn_to(digit as usize - '1' as usize),
            Key::Tab => {
                let at = PARTS.iter().position(|(part, _)| *part == self.part);
                self.turn_to(at.map_or(0, |at| at + 1) % PARTS.len());
            }
            Key::Left => self.left = self.left.saturating_sub(8),
            Key::Right => self.left += 8,
            Key::Char('/') => self.front = Overlay::Search(String::new()),
            Key::Char('n') => self.search(model, true),
            Key::Char('N') => self.search(model, false),
            Key::Char('?') => self.front = Overlay::Help,
            Key::Enter if self.part == Pane::Files => {
                let file = model.files().nth(self.chosen);
                return file.map_or(ViewAction::Nothing, |(path, _)| ViewAction::Compare(path.clone()));
            }
            Key::Char('c') => return ViewAction::Send(Command::CodonNext),
            Key::Char('b') => return ViewAction::List,
            Key::Char('q') => return ViewAction::Leave,
            Key::Char(order @ ('s' | 'r' | 'x' | 'e')) => self.ask(order, model),
            _ => {}
        }
        ViewAction::Nothing
    }

    fn turn_to(&mut self, part: usize) {
        self.part = PARTS[part].0;
        self.chosen = 0;
    }

    fn scroll(&mut self, step: isize, model: &RunModel) {
        if self.part != Pane::Transcript {
            let rows = match self.part {
                Pane::Files => model.files().count(),
                Pane::Costs => model.cost_rows(),
                Pane::Transcript | Pane::Sentinels => model.view.sentinels.len(),
            };
            self.chosen = self
                .chosen
                .saturating_add_signed(step)
                .min(rows.saturating_sub(1));
            return;
        }
        let (first, last) = (model.transcript.first(), self.last_top(model));
        let top = self.top.unwrap_or(last).saturating_add_signed(step);
        // A view that is scrolled to the end follows new lines.
        self.top = (top < last).then_some(top.max(first));
    }

    /// Returns the first line of the last page.
    pub(super) fn last_top(&self, model: &RunModel) -> usize {
        let (first, end) = (model.transcript.first(), model.transcript.end());
        end.saturating_sub(self.height.max(1)).max(first)
    }

    fn press_in_search(&mut self, key: Key, mut needle: String, model: &RunModel) -> ViewAction {
        match key {
            Key::Enter => {
                (self.part, self.needle) = (Pane::Transcript, needle);
                self.found = None;
                // A new search starts at the newest line.
                self.search(model, false);
                return ViewAction::Nothing;
            }
            Key::Escape => return ViewAction::Nothing,
            Key::Back => drop(needle.pop()),
            Key::Char(c) => needle.push(c),
            _ => {}
        }
        self.front = Overlay::Search(needle);
        ViewAction::Nothing
    }

    /// Scrolls to the next line that has the search text, or with `ahead` unset to the previous one.
    fn search(&mut self, model: &RunModel, ahead: bool) {
        let ring = &model.transcript;
        let found = match ahead {
            true => ring.find(&self.needle, self.found.unwrap_or_default()),
            false => ring.find_back(&self.needle, self.found.unwrap_or(ring.end())),
        };
        match found {
            Some(line) => {
                self.found = Some(line);
                let top = line.saturating_sub(self.height / 2);
                self.top = Some(top.clamp(ring.first(), self.last_top(model)));
            }
            None => self.message = format!("`{}` is nowhere in the transcript", self.needle),
        }
    }

    /// Opens the question whether the command of a key is meant, which names what would be lost.
    fn ask(&mut self, order: char, model: &RunModel) {
        let running = model.running();
        let newest = model.newest();
        let asked = match (order, &running, &newest) {
            ('s', Some(row), _) => Some((
                format!(
                    "Skip {}? Its agent is ended. What it has written stays and is in a checkpoint, but the work counts as left out; {} is spent.",
                    row.title,
                    row.cost()
                ),
                Command::CodonSkip,
            )),
            ('x', Some(row), _) => Some((
                format!(
                    "Stop {} by force? It counts as failed; {} is spent, and its agent says nothing more. What it has written stays.",
                    row.title,
                    row.cost()
                ),
                Command::CodonForceStop { reason: None },
            )),
            ('r', None, Some(row)) => Some((
                format!(
                    "Run {} again, on the files as they are? It costs money again: the last time {}.",
                    row.title,
                    row.cost()
                ),
                Command::CodonRedo,
            )),
            ('e', running, _) => Some((
                match running {
                    Some(row) => format!(
                        "End the run? {} is interrupted; the next run continues with it, in its session where there is one.",
                        row.title
                    ),
                    None => "End the run? Nothing is lost; the next one continues here.".to_owned(),
                },
                Command::ServerShutdown { reason: None },
            )),
            _ => None,
        };
        match (asked, order) {
            (Some((question, command)), _) => self.front = Overlay::Question(question, command),
            (None, 'r') if running.is_some() => {
                "a codon runs; skip or stop it first".clone_into(&mut self.message)
            }
            (None, _) => "nothing runs".clone_into(&mut self.message),
        }
    }

    fn press_on_checkpoints(
        &mut self,
        key: Key,
        checkpoints: Vec<ListedCheckpoint>,
        at: usize,
        model: &RunModel,
    ) -> ViewAction {
        if key == Key::Enter
            && let Some(checkpoint) = checkpoints.get(at)
        {
            self.ask_rollback(checkpoint, model);
            return ViewAction::Nothing;
        }
        match self.step(key) {
            Some(step) => {
                let at = at
                    .saturating_add_signed(step)
                    .min(checkpoints.len().saturating_sub(1));
                self.front = Overlay::Checkpoints(checkpoints, at);
                ViewAction::Nothing
            }
            None => self.nothing_changed(),
        }
    }

    /// Opens the question whether to roll back to a checkpoint, which names the attempts that would be undone.
    fn ask_rollback(&mut self, checkpoint: &ListedCheckpoint, model: &RunModel) {
        let now = model.view.at.unwrap_or(Timestamp::from_millis(0));
        let Some(checkpoint_sha) = ShaPrefix::new(checkpoint.sha.as_str()) else {
            "this checkpoint has no name to roll back to".clone_into(&mut self.message);
            return;
        };
        let kept = model.view.newest_attempt(&checkpoint.codon_id);
        let kept_start = kept.map(|(_, attempt)| (attempt.seq, attempt.began));
        let mut lost: Vec<CodonRow<'_>> = model.attempts().collect();
        lost.retain(|row| kept_start.is_some_and(|start| row.started() > start));
        lost.sort_by_key(CodonRow::started);
        let names: Vec<&str> = lost.iter().take(5).map(|row| row.title.as_str()).collect();
        let more = lost.len().saturating_sub(names.len());
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let attempts = lost.iter().filter_map(|row| Some(row.attempt?.1));
        let cost = attempts.fold(Usd::ZERO, |sum, attempt| sum + attempt.spent());
        let time = lost
            .iter()
            .filter_map(|row| row.attempt)
            .map(|(_, attempt)| attempt.worked(now))
            .sum();
        let what = match lost.is_empty() {
            true => "What has changed since is taken back".to_owned(),
            false => format!(
                "{}{more} ({cost}, {}) and what has changed since are taken back",
                names.join(", "),
                duration(time)
            ),
        };
        let question = format!(
            "Roll back to {} ({})? {what}. The files as they are now are kept in a checkpoint.",
            checkpoint.codon_name, checkpoint.checkpoint_type
        );
        let auto_restart = false;
        let command = Command::RollbackToCheckpoint {
            checkpoint_sha,
            auto_restart,
        };
        self.front = Overlay::Question(question, command);
    }

    fn nothing_changed(&mut self) -> ViewAction {
        "nothing was changed".clone_into(&mut self.message);
        ViewAction::Nothing
    }
}

#[cfg(test)]
mod tests {
    use anstyle::Style;
    use hankweave_core::view::{
        AttemptState, AttemptView, ChangedFile, CurrentAttempt, EarlierAttempts, ItemView, RunView,
    };
    use hankweave_core::wire::FileAction;
    use serde_json::json;

    use super::*;

    /// Codons `c1`, `c2`, … of which some have had an attempt in this state.
    fn model(states: &[Option<AttemptState>]) -> RunModel {
        let mut view = RunView::default();
        let key = "1.1".parse().unwrap();
        for (number, state) in (1..).zip(states) {
            let id = format!("c{number}");
            let mut item = ItemView {
                name: format!("Codon {number}"),
                ..ItemView::default()
            };
            if let Some(state) = *state {
                let attempt = AttemptView {
                    seq: Some(number),
                    state,
                    cost: Usd::from_micros(250_000),
                    ..AttemptView::default()
                };
                item.attempts.insert(key, attempt);
                view.now = (state == AttemptState::Running).then(|| CurrentAttempt {
                    item: id.clone(),
                    iteration: 1,
                    attempt: 1,
                    ..CurrentAttempt::default()
                });
            }
            view.order.push(id.clone());
            view.items.insert(id, item);
        }
        RunModel::new(view)
    }

    fn press(view: &mut View, model: &RunModel, keys: &str) -> ViewAction {
        let wishes = keys.chars().map(|key| match key {
            '\n' => view.press(Key::Enter, model),
            key => view.press(Key::Char(key), model),
        });
        wishes.last().unwrap()
    }

    fn question(view: &View) -> String {
        match &view.front {
            Overlay::Question(question, _) => question.clone(),
            _ => format!("no question: {}", view.message),
        }
    }

    // covers: CLI-35
    #[test]
    fn what_costs_something_is_asked_once_more_and_the_question_names_it() {
        let running = model(&[Some(AttemptState::Completed), Some(AttemptState::Running)]);
        let mut view = View::default();
        assert_eq!(press(&mut view, &running, "s"), ViewAction::Nothing);
        assert!(question(&view).starts_with("Skip Codon 2?") && question(&view).contains("$0.2500 is spent"));
        assert_eq!(
            press(&mut view, &running, "y"),
            ViewAction::Send(Command::CodonSkip)
        );
        press(&mut view, &running, "x");
        assert!(
            question(&view).contains("counts as failed"),
            "{}",
            question(&view)
        );
        assert_eq!(press(&mut view, &running, "n"), ViewAction::Nothing);
        assert_eq!(view.message, "nothing was changed");
        assert_eq!(press(&mut view, &running, "r"), ViewAction::Nothing);
        assert_eq!(
            question(&view),
            "no question: a codon runs; skip or stop it first"
        );
        assert_eq!(
            press(&mut view, &running, "ey"),
            ViewAction::Send(Command::ServerShutdown { reason: None })
        );
        let idle = model(&[Some(AttemptState::Completed), None]);
        assert_eq!(press(&mut view, &idle, "s"), ViewAction::Nothing);
        assert_eq!(question(&view), "no question: nothing runs");
        assert_eq!(
            press(&mut view, &idle, "ry"),
            ViewAction::Send(Command::CodonRedo)
        );
        assert_eq!(press(&mut view, &idle, "c"), ViewAction::Send(Command::CodonNext));
        assert_eq!(press(&mut view, &idle, "q"), ViewAction::Leave);
    }

    // covers: CLI-35
    #[test]
    fn going_back_names_the_codons_that_are_lost_with_what_they_cost() {
        let ended = Some(AttemptState::Completed);
        let model = model(&[ended, ended, ended, None]);
        let checkpoint = |codon: &str| -> ListedCheckpoint {
            serde_json::from_value(json!({"codonId": codon, "codonName": format!("Name of {codon}"), "checkpointType": "completed",
                "sha": format!("{:040x}", 7), "status": "completed", "timestamp": "2026-01-04T12:00:00.000Z"}))
            .unwrap()
        };
        let mut view = View::default();
        assert_eq!(press(&mut view, &model, "b"), ViewAction::List);
        view.offer(vec![checkpoint("c3"), checkpoint("c1")]);
        press(&mut view, &model, "j\n");
        let asked = question(&view);
        assert!(
            asked.starts_with("Roll back to Name of c1 (completed)? Codon 2, Codon 3 ($0.5000, "),
            "{asked}"
        );
        let sent = press(&mut view, &model, "y");
        assert!(
            matches!(
                sent,
                ViewAction::Send(Command::RollbackToCheckpoint {
                    auto_restart: false,
                    ..
                })
            ),
            "{sent:?}"
        );
        view.offer(Vec::new());
        assert_eq!(view.message, "there is no checkpoint to roll back to");
    }

    // covers: CLI-35
    #[test]
    fn the_transcript_follows_its_end_until_somebody_scrolls_and_is_searched() {
        let mut model = RunModel::default();
        for number in 0..100 {
            let text = if number == 40 {
                "the NEEDLE".to_owned()
            } else {
                format!("line {number}")
            };
            model.transcript.push(text, Style::new());
        }
        let mut view = View {
            height: 10,
            ..View::default()
        };
        assert_eq!((view.top, view.last_top(&model)), (None, 90));
        press(&mut view, &model, "k");
        assert_eq!(view.top, Some(89));
        press(&mut view, &model, "j");
        assert_eq!(view.top, None, "it follows again");
        press(&mut view, &model, "g");
        assert_eq!(view.top, Some(0));
        press(&mut view, &model, "/needle\n");
        assert_eq!((view.found, view.top), (Some(40), Some(35)));
        press(&mut view, &model, "n");
        assert_eq!(view.found, Some(40), "there is no other one");
        press(&mut view, &model, "/nowhere\n");
        assert_eq!(view.message, "`nowhere` is nowhere in the transcript");
        press(&mut view, &model, "G");
        assert_eq!(view.top, None);
    }

    // covers: CLI-35
    #[test]
    fn the_last_attempt_can_be_chosen_below_all_sums_of_the_costs() {
        let ended = Some(AttemptState::Completed);
        let mut model = model(&[ended, ended]);
        let mut view = View::default();
        press(&mut view, &model, "3G");
        assert_eq!(view.chosen, 2, "below the sum of all runs");
        model.view.undone.earlier = Some(EarlierAttempts::default());
        model.view.money.before = Usd::from_micros(250_000);
        press(&mut view, &model, "G");
        assert_eq!(view.chosen, 4);
    }

    #[test]
    fn every_part_is_reached_and_a_chosen_file_is_compared() {
        let mut model = RunModel::default();
        for (path, action) in [("a", FileAction::Created), ("b", FileAction::Modified)] {
            let (size, seq) = (None, 1);
            let file = ChangedFile {
                action,
                size,
                seq,
                first: None,
            };
            model.view.files.newest.insert(path.to_owned(), file);
        }
        let mut view = View::default();
        for (key, (part, _)) in ('1'..).zip(PARTS) {
            view.press(Key::Char(key), &model);
            assert_eq!(view.part, part);
        }
        view.press(Key::Tab, &model);
        assert_eq!(view.part, Pane::Transcript);
        assert_eq!(
            press(&mut view, &model, "2jj\n"),
            ViewAction::Compare("b".to_owned())
        );
        view.show("b".to_owned(), vec!["+x".to_owned(); 50]);
        assert_eq!(press(&mut view, &model, "jG"), ViewAction::Nothing);
        assert!(matches!(&view.front, Overlay::Differences(_, _, at) if *at > 40));
        view.press(Key::Escape, &model);
        assert!(matches!(view.front, Overlay::Nothing));
        view.press(Key::Char('?'), &model);
        assert!(matches!(view.front, Overlay::Help));
    }
}
