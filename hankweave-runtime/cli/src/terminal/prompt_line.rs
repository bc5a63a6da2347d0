//! Question of an approval next to the lines of a run (CLI-30): drawn at the foot of a terminal that can be redrawn, otherwise printed as lines.

use std::sync::{Mutex, PoisonError};

use hankweave_core::view::RunView;
use hankweave_core::wire::JournalEntry;
use tokio::sync::watch;

use crate::terminal::approval_prompt::{ApprovalPrompt, PromptKey};
use crate::terminal::keyboard;
use crate::terminal::keys::KeyDecoder;
use crate::terminal::screen::{Footer, SafeText, is_in_background, print_stderr};
use crate::terminal::wrap::wrap;

/// Form of the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptForm {
    /// Drawn at the foot of the terminal.
    Foot,
    /// Printed as lines. The prompt prints only a question that is open at its start; the report prints later ones, after the events before them.
    Lines,
    /// Not shown; keys still answer.
    Silent,
}

/// Question on a terminal. At the foot it follows the view that is drawn above ([`follow`](Self::follow)); otherwise it keeps its own view from the
/// events ([`take`](Self::take)).
#[derive(Debug)]
pub(crate) struct PromptLine {
    form: PromptForm,
    /// Words on how to answer elsewhere, if the keys of this terminal do not answer; `None` if they do.
    how_to_answer: Option<String>,
    asked: watch::Sender<AskedView>,
    /// The drawn question, which is erased when dropped.
    foot: Mutex<Option<Footer>>,
}

/// The open question with the keys typed for it.
#[derive(Debug, Default)]
struct AskedView {
    /// The prompt's own view; `None` at the foot.
    view: Option<RunView>,
    prompt: ApprovalPrompt,
    keys: KeyDecoder,
}

impl PromptLine {
    /// Shows the question that is open in `view`, if there is one.
    pub(crate) fn new(form: PromptForm, view: RunView, how_to_answer: Option<String>) -> Self {
        let mut prompt = ApprovalPrompt::default();
        let is_open = follow(&mut prompt, &view);
        if let (true, PromptForm::Lines, Some(question)) = (is_open, form, prompt.question()) {
            let keys = how_to_answer.clone().unwrap_or_else(|| prompt.keys());
            print_stderr(format!("{question}\n  {keys}\n"));
        }
        let asked = AskedView {
            view: (form != PromptForm::Foot).then_some(view),
            prompt,
            keys: KeyDecoder::default(),
        };
        let line = Self {
            form,
            how_to_answer,
            asked: watch::Sender::new(asked),
            foot: Mutex::default(),
        };
        line.show();
        line
    }

    /// Takes an event into the prompt's own view; without one it does nothing.
    pub(crate) fn take(&self, entry: &JournalEntry) {
        let has_changed = self.asked.send_if_modified(|asked| match &mut asked.view {
            Some(view) => {
                view.take(entry);
                follow(&mut asked.prompt, view)
            }
            None => false,
        });
        if has_changed {
            self.show();
        }
    }

    /// Takes the question from a view; returns whether it has changed. If so, the caller calls [`show`](Self::show) after it has released the lock of
    /// the view.
    pub(crate) fn follow(&self, view: &RunView) -> bool {
        self.asked
            .send_if_modified(|asked| follow(&mut asked.prompt, view))
    }

    /// Shows the open question, or takes it off the terminal. The lock of the view must not be held.
    pub(crate) fn show(&self) {
        let is_open = self.is_open();
        if is_open && self.form == PromptForm::Foot && is_in_background() {
            self.tell_in_background();
        }
        let foot = match self.form {
            PromptForm::Foot if is_open => {
                let (asked, how_to_answer) = (self.asked.subscribe(), self.how_to_answer.clone());
                Some(Footer::show(move |room| {
                    let asked = asked.borrow();
                    let keys = how_to_answer.clone().unwrap_or_else(|| asked.prompt.keys());
                    let lines = [asked.prompt.question().unwrap_or_default(), &keys];
                    let lines: Vec<String> = lines.iter().flat_map(|line| wrap(line, room.columns)).collect();
                    SafeText::from(lines.join("\n"))
                }))
            }
            _ => None,
        };
        *self.foot.lock().unwrap_or_else(PoisonError::into_inner) = foot;
    }

    /// Writes the question as a line that stays, because nothing is drawn while a shell has the terminal.
    fn tell_in_background(&self) {
        let keys = match &self.how_to_answer {
            Some(how_to_answer) => how_to_answer.clone(),
            None => "`fg` shows the run, whose keys answer".to_owned(),
        };
        let question = self
            .asked
            .borrow()
            .prompt
            .question()
            .unwrap_or_default()
            .to_owned();
        print_stderr(format!("{question}\n  {keys}\n"));
    }

    /// Whether no report shows the questions.
    pub(crate) fn is_silent(&self) -> bool {
        self.form == PromptForm::Silent
    }

    fn is_open(&self) -> bool {
        self.asked.borrow().prompt.question().is_some()
    }

    /// Waits until a question is open.
    pub(crate) async fn opened(&self) {
        // The sender lives as long as `self`, so this does not fail.
        let _ = self
            .asked
            .subscribe()
            .wait_for(|asked| asked.prompt.question().is_some())
            .await;
    }

    /// Takes a byte of the keyboard; `None` means that none came for a moment.
    pub(crate) fn press(&self, byte: Option<u8>) -> PromptKey {
        if self.how_to_answer.is_some() || !self.is_open() {
            return PromptKey::Ignored;
        }
        let (mut pressed, mut denies) = (PromptKey::Ignored, false);
        self.asked.send_modify(|asked| {
            let before = asked.prompt.is_denying();
            pressed = match (asked.keys.press(byte), byte) {
                (Some(key), _) => asked.prompt.press(key),
                (None, None) => asked.prompt.pause(),
                // The first bytes of a key that takes several bytes belong to the prompt, too.
                (None, Some(_)) => PromptKey::Taken,
            };
            denies = asked.prompt.is_denying() && !before;
        });
        if denies && self.form == PromptForm::Lines {
            print_stderr("  type a reason or none; Enter denies, Esc goes back\n");
        }
        pressed
    }
}

/// Takes the question from the view. Keys typed before a question cannot answer it, so they are dropped before it is shown.
fn follow(prompt: &mut ApprovalPrompt, view: &RunView) -> bool {
    let has_changed = prompt.follow(view);
    if has_changed && prompt.question().is_some() {
        keyboard::forget_typed();
    }
    has_changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::approval_prompt::tests::asking;

    // covers: CLI-30, CLI-41
    #[test]
    fn keys_are_taken_only_while_a_question_is_open_that_they_answer() {
        let silent = |view, how_to_answer| PromptLine::new(PromptForm::Silent, view, how_to_answer);
        assert_eq!(
            silent(RunView::default(), None).press(Some(b'y')),
            PromptKey::Ignored
        );
        let how_to_answer = Some("`hankweave approve` answers".to_owned());
        assert_eq!(
            silent(asking(), how_to_answer).press(Some(b'y')),
            PromptKey::Ignored
        );
        let open = silent(asking(), None);
        assert_eq!(open.press(Some(b't')), PromptKey::Ignored);
        assert_eq!(open.press(None), PromptKey::Ignored);
        assert_eq!(open.press(Some(b'n')), PromptKey::Taken);
        assert_eq!(open.press(Some(b't')), PromptKey::Taken, "a letter of the reason");
        assert_eq!(open.press(Some(0x1b)), PromptKey::Taken);
        assert_eq!(open.press(None), PromptKey::Taken, "a lone Escape");
        assert_eq!(open.press(Some(b'y')), PromptKey::Taken);
        assert!(
            matches!(open.press(None), PromptKey::Answer(_)),
            "no other key followed"
        );
    }
}
