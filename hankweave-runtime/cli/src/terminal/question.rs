//! The question after a failure or a crash: where to continue (CLI-17).

use std::convert::Infallible;
use std::io::{self, BufRead, IsTerminal};

use hankweave_core::codon::CheckpointType;
use hankweave_core::view::stopped_words;
use hankweave_runtime::checkpoint::RestorePlan;
use hankweave_runtime::{Recovery, SuccessTarget, UnfinishedCodon};
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

use crate::terminal::keyboard;
use crate::terminal::report::counted;
use crate::terminal::screen;
use crate::terminal::wrap::hanging;

/// Start of a line that continues an offer.
const INDENT: &str = "     ";

/// Most files that an offer names.
const MOST_NAMED: usize = 12;

/// User's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecoveryChoice {
    /// Continue with this recovery.
    Recover(Recovery),
    /// Do nothing.
    Nothing,
}

/// Whether a user at a terminal can be asked. Otherwise nothing is chosen, and the run continues by its defaults.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Question where the next run shall continue.
pub(crate) struct RecoveryQuestion {
    /// The codon that failed, crashed or was stopped.
    trouble: UnfinishedCodon,
    offers: Vec<RecoveryOption>,
}

impl RecoveryQuestion {
    /// Creates the question. `files` are those that the run would roll back if it continued at the last success, where known.
    pub(crate) fn new(trouble: UnfinishedCodon, files: Option<&RestorePlan>) -> Self {
        let offers = offers(&trouble, files);
        Self { trouble, offers }
    }

    /// Asks on the terminal.
    pub(crate) fn ask(&self) -> RecoveryChoice {
        keyboard::forget_typed();
        self.answer(&mut io::stdin().lock(), &mut put)
    }

    /// Prints the question again each time that the program continues after Ctrl+Z, below what the shell has printed meanwhile.
    pub(crate) async fn repeat(&self) -> Infallible {
        let continued = signal(SignalKind::from_raw(Signal::CONT.as_raw()));
        let Ok(mut continued) = continued else {
            return std::future::pending().await;
        };
        while continued.recv().await.is_some() {
            // A user who cannot read the question does not answer it.
            let _ = put(question(&self.trouble, &self.offers));
        }
        std::future::pending().await
    }

    /// Repeats the question until the answer is one of the offers; no answer at all means to do nothing.
    fn answer(
        &self,
        input: &mut dyn BufRead,
        put: &mut dyn FnMut(String) -> io::Result<()>,
    ) -> RecoveryChoice {
        let offers = &self.offers;
        let mut refused = String::new();
        loop {
            let mut line = String::new();
            let question = format!("{refused}{}", question(&self.trouble, offers));
            // A user who cannot read or answer the question has chosen nothing, so nothing happens.
            if put(question).is_err() || !matches!(input.read_line(&mut line), Ok(1..)) {
                return RecoveryChoice::Nothing;
            }
            let typed = line.trim();
            if matches!(typed, "q" | "quit") {
                return RecoveryChoice::Nothing;
            }
            let number = typed
                .parse::<usize>()
                .ok()
                .and_then(|number| number.checked_sub(1));
            let chosen = number.and_then(|index| offers.get(index));
            if let Some(offer) = chosen.or_else(|| offers.iter().find(|offer| offer.name == typed)) {
                return RecoveryChoice::Recover(offer.recovery);
            }
            refused = match typed.is_empty() {
                true => "nothing was chosen, and Enter alone chooses nothing\n".to_owned(),
                false => format!("`{typed}` is none of the answers\n"),
            };
        }
    }
}

/// Prints a question, wrapped to the terminal.
fn put(question: String) -> io::Result<()> {
    let lines = question
        .lines()
        .map(|line| hanging(line, screen::columns(), INDENT).join("\n"));
    // The cursor stays after the last line, where the answer is typed.
    screen::ask(lines.collect::<Vec<_>>().join("\n") + " ")
}

/// One way to continue.
struct RecoveryOption {
    recovery: Recovery,
    /// Name of the recovery in `--recover`.
    name: &'static str,
    /// Effect in words.
    what: String,
}

/// Names the files that a rollback changes, and those that may be the user's: `takes back 2 files: a, b (deleted); keeps c`.
fn taken_back(files: &RestorePlan) -> String {
    let keeps = files.kept_names(MOST_NAMED);
    let keeps = keeps.map_or_else(String::new, |kept| format!("; keeps {kept}"));
    match files.count() {
        0 => format!("changes no file{keeps}"),
        count => format!(
            "takes back {}: {}{keeps}",
            counted(count, "file"),
            files.names(MOST_NAMED)
        ),
    }
}

/// Returns the choices without the impossible ones; the crash point is the first if it is the default.
fn offers(trouble: &UnfinishedCodon, files: Option<&RestorePlan>) -> Vec<RecoveryOption> {
    let codon = &trouble.codon;
    let kept = match trouble.crashed {
        true => format!(
            "what it replaces, also what you have changed since {codon} began, is kept in a checkpoint"
        ),
        false => format!(
            "what it replaces, also what you have changed while {codon} ran, is kept in a checkpoint, and what you have changed since its end stays"
        ),
    };
    let back = match &trouble.last_success {
        SuccessTarget::Behind(success) => format!("roll back to the last success, {success}; {kept}"),
        SuccessTarget::Into(other, CheckpointType::RigSetup) if other == codon => {
            format!("roll back to where {codon} began, after its rig, which is not run again; {kept}")
        }
        SuccessTarget::Into(other, kind) => {
            format!("roll back to the checkpoint of {other} ({kind}); {kept}")
        }
        SuccessTarget::Beginning => {
            format!(
                "start again with the first codon and the files as they were before it, because no codon has completed; {kept}"
            )
        }
    };
    let back = match files {
        Some(files) => format!("{back}\n{INDENT}{}", taken_back(files)),
        None => back,
    };
    let session = trouble.session.then(|| RecoveryOption {
        recovery: Recovery::Session,
        name: "session",
        what: format!("keep the files as they are and let {codon} continue in its session"),
    });
    let others = [
        RecoveryOption {
            recovery: Recovery::LastSuccess,
            name: "last-success",
            what: back,
        },
        RecoveryOption {
            recovery: Recovery::CrashPoint,
            name: "crash-point",
            what: format!("keep the files as they are and run {codon} again from its beginning"),
        },
    ];
    let mut offers: Vec<RecoveryOption> = session.into_iter().chain(others).collect();
    if trouble.default == Recovery::CrashPoint {
        offers.sort_by_key(|offer| offer.recovery != Recovery::CrashPoint);
    }
    offers
}

fn question(trouble: &UnfinishedCodon, offers: &[RecoveryOption]) -> String {
    let reason = trouble.reason.as_deref();
    let what = match reason {
        _ if trouble.crashed => "crashed with its run".to_owned(),
        Some(reason) if trouble.stopped => stopped_words("was stopped", reason),
        None if trouble.stopped => "was stopped".to_owned(),
        Some(reason) => format!("failed: {reason}"),
        None => "failed".to_owned(),
    };
    let mut text = format!("{} {what}\n", trouble.codon);
    let mut keys = String::new();
    for (number, offer) in (1..).zip(offers) {
        text += &format!("  {number}  {}\n", offer.what);
        keys += &format!("{number}/");
    }
    format!("{text}  q  do nothing\nWhere shall it continue? [{keys}q]")
}

#[cfg(test)]
mod tests {
    use hankweave_runtime::checkpoint::TreePath;

    use super::*;

    fn path(path: &str) -> TreePath {
        TreePath::new(path.as_bytes()).unwrap()
    }

    #[track_caller]
    fn answers(typed: &str, expected: RecoveryChoice, questions: usize) {
        let trouble = UnfinishedCodon {
            codon: "b".parse().unwrap(),
            reason: Some("oh no".to_owned()),
            crashed: false,
            stopped: false,
            session: false,
            last_success: SuccessTarget::Behind("a".parse().unwrap()),
            default: Recovery::LastSuccess,
        };
        let mut text = String::new();
        let mut put = |question: String| {
            text.push_str(&question);
            Ok(())
        };
        let files = RestorePlan {
            write: vec![path("TODO.md")],
            delete: (10..24)
                .map(|number| path(&format!("src/{number}.txt")))
                .collect(),
            spared: vec![path("mine.txt")],
            absent: Vec::new(),
        };
        let question = RecoveryQuestion::new(trouble, Some(&files));
        assert_eq!(question.answer(&mut typed.as_bytes(), &mut put), expected);
        assert!(
            text.contains("\n     takes back 15 files: TODO.md, src/10.txt (deleted), ")
                && text.contains(", src/20.txt (deleted) and 3 more; keeps mine.txt\n"),
            "{text}"
        );
        assert_eq!(text.matches("b failed: oh no").count(), questions, "{text}");
        assert!(text.contains("the last success, a"));
        assert_eq!(
            text.contains("`what?` is none of the answers\nb failed"),
            typed.contains("what?"),
            "{text}"
        );
        assert!(text.contains("also what you have changed while b ran,"), "{text}");
    }

    // covers: CLI-17, RUN-2
    #[test]
    fn the_question_is_asked_until_it_is_answered() {
        answers("1\n", RecoveryChoice::Recover(Recovery::LastSuccess), 1);
        answers("what?\n\n2\n", RecoveryChoice::Recover(Recovery::CrashPoint), 3);
        answers("q\n", RecoveryChoice::Nothing, 1);
        answers("", RecoveryChoice::Nothing, 1);
    }

    // Nothing is offered that does not exist, and the session comes first where there is one.
    // covers: CLI-17
    #[test]
    fn what_is_offered_is_what_there_is() {
        let stopped = |session, last_success| UnfinishedCodon {
            codon: "survey".parse().unwrap(),
            reason: Some("interrupted by SIGINT".to_owned()),
            crashed: false,
            stopped: true,
            session,
            last_success,
            default: Recovery::LastSuccess,
        };
        let ask = |trouble: &UnfinishedCodon, typed: &str| {
            let mut text = String::new();
            let mut put = |question: String| {
                text.push_str(&question);
                Ok(())
            };
            let question = RecoveryQuestion::new(trouble.clone(), None);
            (question.answer(&mut typed.as_bytes(), &mut put), text)
        };
        let (chosen, text) = ask(&stopped(true, SuccessTarget::Beginning), "1\n");
        assert_eq!(chosen, RecoveryChoice::Recover(Recovery::Session));
        assert!(
            text.starts_with("survey was stopped: interrupted by SIGINT\n  1  keep the files"),
            "{text}"
        );
        assert!(
            text.contains("start again") && !text.contains("success"),
            "{text}"
        );
        assert!(text.ends_with("[1/2/3/q]"), "{text}");

        let without = stopped(
            false,
            SuccessTarget::Into("survey".parse().unwrap(), CheckpointType::RigSetup),
        );
        let (chosen, text) = ask(&without, "session\ncrash-point\n");
        assert_eq!(chosen, RecoveryChoice::Recover(Recovery::CrashPoint));
        let offered = text.replace("`session` is none of the answers", "");
        assert!(
            offered.contains("where survey began") && !offered.contains("session"),
            "{text}"
        );
        let (_, text) = ask(
            &UnfinishedCodon {
                reason: Some("stopped on request: the fan is loud".to_owned()),
                ..stopped(true, SuccessTarget::Beginning)
            },
            "q\n",
        );
        assert!(
            text.starts_with("survey was stopped on request: the fan is loud\n"),
            "{text}"
        );
        // After a failed set-up the files are kept unless the user chooses otherwise.
        let set_up = UnfinishedCodon {
            default: Recovery::CrashPoint,
            ..stopped(false, SuccessTarget::Beginning)
        };
        let (chosen, _) = ask(&set_up, "1\n");
        assert_eq!(chosen, RecoveryChoice::Recover(Recovery::CrashPoint));
    }
}
