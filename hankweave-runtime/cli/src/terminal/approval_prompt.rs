//! Question of an approval to a person at a terminal, and the keys that answer (CLI-30), as the screen of a run, `attach` and the whole screen have it.

use hankweave_core::document::Approval;
use hankweave_core::id::CodonId;
use hankweave_core::view::{AnsweredApproval, AskedApproval, RunState, RunView};
use hankweave_core::wire::Command;
use hankweave_runtime::RunCommand;
use hankweave_runtime::world::environment::Environment;

use crate::terminal::keys::Key;
use crate::terminal::screen::local_time;

/// Longest reason that can be typed, in bytes.
const LONGEST_REASON: usize = 1_000;

/// Keys that answer.
pub(crate) const KEYS: &str = "y approves, n denies and ends the run";

/// Open question, and the keys typed since it was asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct ApprovalPrompt {
    asked: Option<AskedApproval>,
    /// The question in words.
    words: String,
    typed: TypedKeys,
}

/// Keys since the last answer or pause. A letter is an answer only by itself: pasted or mistyped text has letters of answers in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum TypedKeys {
    #[default]
    Nothing,
    /// A letter that approves, unless another one follows at once.
    Approval,
    /// Text that is no answer, until Enter or a pause.
    Text,
    /// Reason of a denial.
    Reason(String),
}

/// Effect of a key on the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PromptKey {
    /// The key is not for the prompt; the caller may use it.
    Ignored,
    /// The prompt has used the key.
    Taken,
    Answer(ApprovalAnswer),
}

/// Answer of the person.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ApprovalAnswer {
    codon_id: Option<CodonId>,
    granted: bool,
    reason: Option<String>,
}

impl ApprovalPrompt {
    /// Opens the question of a view, or closes it once it is answered; returns whether the question has changed.
    pub(crate) fn follow(&mut self, view: &RunView) -> bool {
        let asked = view.ask.as_ref().filter(|_| view.state == RunState::Asking);
        let has_changed = self.asked.as_ref() != asked;
        if has_changed {
            *self = Self {
                asked: asked.cloned(),
                words: asked.map_or_else(String::new, |asked| question(view, asked)),
                typed: TypedKeys::Nothing,
            };
        }
        has_changed
    }

    /// Withdraws the question, because it cannot be answered any more.
    pub(crate) fn withdraw(&mut self) {
        *self = Self::default();
    }

    /// Returns the question, while one is open.
    pub(crate) fn question(&self) -> Option<&str> {
        self.asked.as_ref().map(|_| self.words.as_str())
    }

    /// Returns the keys that answer, or the reason that is being typed.
    pub(crate) fn keys(&self) -> String {
        match &self.typed {
            TypedKeys::Reason(reason) => format!("Denied because: {reason}█ (Enter denies, Esc goes back)"),
            TypedKeys::Nothing | TypedKeys::Approval | TypedKeys::Text => KEYS.to_owned(),
        }
    }

    /// Whether the reason of a denial is being typed.
    pub(crate) fn is_denying(&self) -> bool {
        matches!(self.typed, TypedKeys::Reason(_))
    }

    /// Takes a key.
    pub(crate) fn press(&mut self, key: Key) -> PromptKey {
        let Some(asked) = &self.asked else {
            return PromptKey::Ignored;
        };
        let is_answer_letter = matches!(key, Key::Char('y' | 'Y' | 'n' | 'N'));
        let (typed, pressed) = match (std::mem::take(&mut self.typed), key) {
            (TypedKeys::Reason(reason), key) => match reason_after(reason, key) {
                ReasonKey::Typed(reason) => (TypedKeys::Reason(reason), PromptKey::Taken),
                ReasonKey::Back => (TypedKeys::Nothing, PromptKey::Taken),
                ReasonKey::Denies(reason) => (TypedKeys::Nothing, answer(asked, false, reason)),
            },
            (TypedKeys::Nothing, Key::Char('y' | 'Y')) => (TypedKeys::Approval, PromptKey::Taken),
            (TypedKeys::Nothing, Key::Char('n' | 'N')) => {
                (TypedKeys::Reason(String::new()), PromptKey::Taken)
            }
            (TypedKeys::Approval, Key::Enter) => (TypedKeys::Nothing, answer(asked, true, None)),
            (TypedKeys::Approval, Key::Char(_)) => (TypedKeys::Text, PromptKey::Taken),
            (TypedKeys::Approval, _) => (TypedKeys::Nothing, PromptKey::Taken),
            (TypedKeys::Text, Key::Enter) => (TypedKeys::Nothing, PromptKey::Taken),
            // A letter of an answer within other text is kept from the caller as well, for whom it may be a command.
            (TypedKeys::Text, _) if is_answer_letter => (TypedKeys::Text, PromptKey::Taken),
            (TypedKeys::Nothing | TypedKeys::Text, Key::Char(_)) => (TypedKeys::Text, PromptKey::Ignored),
            (typed, _) => (typed, PromptKey::Ignored),
        };
        self.typed = typed;
        pressed
    }

    /// Called when no key came for a moment: a letter by itself is an answer now, and text ends.
    pub(crate) fn pause(&mut self) -> PromptKey {
        match (&self.asked, &self.typed) {
            (Some(asked), TypedKeys::Approval) => {
                let answer = answer(asked, true, None);
                self.typed = TypedKeys::Nothing;
                answer
            }
            (_, TypedKeys::Text) => {
                self.typed = TypedKeys::Nothing;
                PromptKey::Ignored
            }
            _ => PromptKey::Ignored,
        }
    }
}

fn answer(asked: &AskedApproval, granted: bool, reason: Option<String>) -> PromptKey {
    PromptKey::Answer(ApprovalAnswer {
        codon_id: asked.codon.clone(),
        granted,
        reason,
    })
}

/// Effect of a key on the reason that is being typed.
enum ReasonKey {
    /// The reason typed until now.
    Typed(String),
    /// Return to the question without an answer.
    Back,
    /// Deny, with the reason if one was typed.
    Denies(Option<String>),
}

fn reason_after(mut reason: String, key: Key) -> ReasonKey {
    match key {
        Key::Enter => {
            let reason = reason.trim().to_owned();
            return ReasonKey::Denies(Some(reason).filter(|reason| !reason.is_empty()));
        }
        Key::Escape => return ReasonKey::Back,
        Key::Back => drop(reason.pop()),
        Key::Char(c) if reason.len() < LONGEST_REASON => reason.push(c),
        _ => {}
    }
    ReasonKey::Typed(reason)
}

/// Returns `Deploy it waits for an approval: Deploy to production? (since 14:02)`.
fn question(view: &RunView, asked: &AskedApproval) -> String {
    let since = local_time(asked.since);
    match &asked.codon {
        Some(codon) => {
            let title = title(view, codon);
            format!(
                "{title} waits for an approval: {} (since {since})",
                asked.question
            )
        }
        None => format!("{} (since {since})", asked.question),
    }
}

/// Returns `Deploy it: denied by you at 14:02: not on a Friday`. `own` is the name of this client.
pub(crate) fn answer_text(view: &RunView, answered: &AnsweredApproval, own: Option<&str>) -> String {
    let AnsweredApproval {
        codon, granted, at, ..
    } = answered;
    let answer = answer_words(*granted, answered.client.as_deref(), own);
    let because = because(answered.reason.as_deref());
    format!("{}: {answer} at {}{because}", title(view, codon), local_time(*at))
}

/// Returns `denied by client 5b26ab`, as every screen and report says it. `own` is the name of this client.
pub(crate) fn answer_words(granted: bool, client: Option<&str>, own: Option<&str>) -> String {
    let word = if granted { "approved" } else { "denied" };
    match client {
        None => word.to_owned(),
        Some(client) if Some(client) == own => format!("{word} by you"),
        Some(client) => format!("{word} by {}", client_name(client)),
    }
}

/// Returns an answer with its reason: `denied by ann: not on a Friday`. The reason of a task's answer already names its author, because a worker
/// passes it on.
pub(crate) fn whole_answer(answer: &Approval) -> String {
    let words = answer_words(answer.granted, answer.by.as_deref(), None);
    let of_task = if answer.granted {
        "approved by "
    } else {
        "denied by "
    };
    match answer.reason.as_deref() {
        Some(reason) if reason.starts_with(of_task) => reason.to_owned(),
        reason => format!("{words}{}", because(reason)),
    }
}

/// Returns `: not on a Friday`; empty without a reason.
pub(crate) fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(": {reason}")).unwrap_or_default()
}

/// Returns the short name of a client, `client 5b26ab`; the name of a user is unchanged.
pub(crate) fn client_name(client: &str) -> String {
    match client.strip_prefix("client-") {
        Some(name) => format!("client {}", name.chars().take(6).collect::<String>()),
        None => client.to_owned(),
    }
}

fn title(view: &RunView, codon: &CodonId) -> String {
    view.title(codon.configured(), codon.iteration())
}

impl From<ApprovalAnswer> for RunCommand {
    fn from(answer: ApprovalAnswer) -> Self {
        Self::Answer {
            codon_id: answer.codon_id,
            granted: answer.granted,
            reason: answer.reason,
            by: Environment::of_process().user(),
        }
    }
}

impl From<ApprovalAnswer> for Command {
    fn from(answer: ApprovalAnswer) -> Self {
        let ApprovalAnswer {
            codon_id,
            granted,
            reason,
        } = answer;
        // The run learns the name of the user when this client connects.
        let by = None;
        match granted {
            true => Self::CodonApprove { codon_id, reason, by },
            false => Self::CodonDeny { codon_id, reason, by },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hankweave_core::time::Timestamp;

    use super::*;

    /// Returns the view of a run in which `deploy` waits.
    pub(crate) fn asking() -> RunView {
        RunView {
            state: RunState::Asking,
            ask: Some(AskedApproval {
                codon: Some("deploy".parse().unwrap()),
                question: "Now?".to_owned(),
                since: Timestamp::from_millis(0),
            }),
            ..RunView::default()
        }
    }

    fn press(prompt: &mut ApprovalPrompt, keys: &str) -> PromptKey {
        let pressed = keys.chars().map(|key| match key {
            '\n' => prompt.press(Key::Enter),
            '<' => prompt.press(Key::Back),
            '\u{1b}' => prompt.press(Key::Escape),
            '…' => prompt.pause(),
            key => prompt.press(Key::Char(key)),
        });
        pressed.last().unwrap()
    }

    fn answer(granted: bool, reason: Option<&str>) -> PromptKey {
        PromptKey::Answer(ApprovalAnswer {
            codon_id: Some("deploy".parse().unwrap()),
            granted,
            reason: reason.map(str::to_owned),
        })
    }

    // covers: CLI-30
    #[test]
    fn a_denial_is_confirmed_and_may_have_a_reason() {
        let mut prompt = ApprovalPrompt::default();
        assert_eq!(press(&mut prompt, "y"), PromptKey::Ignored, "nothing is asked");
        assert!(prompt.follow(&asking()));
        assert!(!prompt.follow(&asking()), "it is the same question");
        assert!(
            prompt
                .question()
                .unwrap()
                .starts_with("deploy waits for an approval: Now? (since ")
        );
        assert_eq!(press(&mut prompt, "t"), PromptKey::Ignored);
        assert_eq!(press(&mut prompt, "…y…"), answer(true, None));
        assert_eq!(
            press(&mut prompt, "nyt"),
            PromptKey::Taken,
            "letters of the reason"
        );
        assert!(prompt.keys().starts_with("Denied because: yt█"));
        assert_eq!(press(&mut prompt, "\u{1b}y\n"), answer(true, None));
        assert_eq!(press(&mut prompt, "n\n"), answer(false, None));
        assert_eq!(press(&mut prompt, "nno!<\n"), answer(false, Some("no")));
        press(&mut prompt, "nhalf");
        assert!(prompt.follow(&RunView::default()), "another client has answered");
        assert_eq!(press(&mut prompt, "\n"), PromptKey::Ignored);
        assert_eq!(prompt.question(), None);
    }

    // covers: CLI-30
    #[test]
    fn a_letter_within_other_text_is_no_answer() {
        let mut prompt = ApprovalPrompt::default();
        prompt.follow(&asking());
        for text in ["yes\n", "maybe y\n", "maybe n\n", "yy…", "why…"] {
            assert!(
                !matches!(press(&mut prompt, text), PromptKey::Answer(_)),
                "{text}"
            );
            assert_eq!(prompt.keys(), KEYS, "{text}");
        }
        assert_eq!(
            press(&mut prompt, "y"),
            PromptKey::Taken,
            "another letter may follow"
        );
        assert_eq!(press(&mut prompt, "…"), answer(true, None));
        assert_eq!(press(&mut prompt, "…"), PromptKey::Ignored, "it is given once");
        assert_eq!(press(&mut prompt, "no…n…y\n"), answer(false, Some("ony")));
        prompt.withdraw();
        assert_eq!(press(&mut prompt, "y…"), PromptKey::Ignored);
    }

    #[test]
    fn an_answer_names_who_gave_it() {
        let view = RunView::default();
        let mut answered = AnsweredApproval {
            codon: "deploy".parse().unwrap(),
            granted: false,
            reason: Some("no".to_owned()),
            client: Some("client-5b26ab9acc".to_owned()),
            at: Timestamp::from_millis(0),
        };
        let says = |answered: &AnsweredApproval| answer_text(&view, answered, Some("client-1"));
        assert!(says(&answered).starts_with("deploy: denied by client 5b26ab at "));
        assert!(says(&answered).ends_with(": no"));
        answered.client = Some("client-1".to_owned());
        assert!(says(&answered).starts_with("deploy: denied by you at "));
        (answered.client, answered.granted) = (None, true);
        assert!(says(&answered).starts_with("deploy: approved at "));
    }

    // covers: TASK-123
    #[test]
    fn an_answer_that_a_worker_passes_on_is_that_of_the_user_who_gave_it() {
        let answer = |by: &str, reason: Option<&str>| Approval {
            codon_id: "ship".parse().unwrap(),
            granted: true,
            reason: reason.map(str::to_owned),
            by: Some(by.to_owned()),
            at: None,
            extra: hankweave_core::machine::Extra::default(),
        };
        assert_eq!(
            whole_answer(&answer("root", Some("approved by ann: fine"))),
            "approved by ann: fine"
        );
        assert_eq!(
            whole_answer(&answer("ann", Some("fine"))),
            "approved by ann: fine"
        );
        assert_eq!(whole_answer(&answer("ann", None)), "approved by ann");
    }
}
