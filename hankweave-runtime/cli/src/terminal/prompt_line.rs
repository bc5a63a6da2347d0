//! Question of an approval on a terminal on which lines stay: drawn at its foot while it is open, where lines can be drawn again (CLI-30).

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
    /// Drawn again at the foot of the terminal.
    Foot,
    /// In lines. Those of a question that comes later are the report's, so that they come after everything that happened before.
    Lines,
    /// Not at all.
    Silent,
}

/// Question on a terminal. It follows the view that is drawn next to it, or keeps a view of its own where nothing is drawn.
#[derive(Debug)]
pub(crate) struct PromptLine {
    form: PromptForm,
    /// Way to answer for a person whose keys do not.
    elsewhere: Option<String>,
    asked: watch::Sender<AskedView>,
    foot: Mutex<Option<Footer>>,
}

#[derive(Debug, Default)]
struct AskedView {
    /// View of its own, where no other one is followed.
    view: Option<RunView>,
    prompt: ApprovalPrompt,
    keys: KeyDecoder,
}

impl PromptLine {
    /// Puts the question that is open in `view`, if there is one. At the foot of a live view that one is [followed](Self::follow).
    pub(crate) fn new(form: PromptForm, view: RunView, elsewhere: Option<String>) -> Self {
        let mut prompt = ApprovalPrompt::default();
        let is_open = follow(&mut prompt, &view);
        if let (true, PromptForm::Lines, Some(question)) = (is_open, form, prompt.question()) {
            let keys = elsewhere.clone().unwrap_or_else(|| prompt.keys());
            print_stderr(format!("{question}\n  {keys}\n"));
        }
        let asked = AskedView {
            view: (form != PromptForm::Foot).then_some(view),
            prompt,
            keys: KeyDecoder::default(),
        };
        let line = Self {
            form,
            elsewhere,
            asked: watch::Sender::new(asked),
            foot: Mutex::default(),
        };
        line.show();
        line
    }

    /// Takes an event in, where no view is followed.
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

    /// Follows a view; returns whether the question has changed, which [`show`](Self::show) shows. The caller may hold the view meanwhile.
    pub(crate) fn follow(&self, view: &RunView) -> bool {
        self.asked
            .send_if_modified(|asked| follow(&mut asked.prompt, view))
    }

    /// Shows the open question, or takes it off the terminal. The view must not be held.
    pub(crate) fn show(&self) {
        let is_open = self.is_open();
        if is_open && self.form == PromptForm::Foot && is_in_background() {
            self.tell_in_background();
        }
        let foot = match self.form {
            PromptForm::Foot if is_open => {
                let (asked, elsewhere) = (self.asked.subscribe(), self.elsewhere.clone());
                Some(Footer::show(move |room| {
                    let asked = asked.borrow();
                    let keys = elsewhere.clone().unwrap_or_else(|| asked.prompt.keys());
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
        let keys = match &self.elsewhere {
            Some(elsewhere) => elsewhere.clone(),
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
        // Its sender lives as long as this.
        let _ = self
            .asked
            .subscribe()
            .wait_for(|asked| asked.prompt.question().is_some())
            .await;
    }

    /// Takes a byte of the keyboard, or that none came for a moment.
    pub(crate) fn press(&self, byte: Option<u8>) -> PromptKey {
        if self.elsewhere.is_some() || !self.is_open() {
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

/// Lets the question follow the view. What was typed before a question answers none, so it is forgotten before one is shown.
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
        let silent = |view, elsewhere| PromptLine::new(PromptForm::Silent, view, elsewhere);
        assert_eq!(
            silent(RunView::default(), None).press(Some(b'y')),
            PromptKey::Ignored
        );
        let elsewhere = Some("`hankweave approve` answers".to_owned());
        assert_eq!(silent(asking(), elsewhere).press(Some(b'y')), PromptKey::Ignored);
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
