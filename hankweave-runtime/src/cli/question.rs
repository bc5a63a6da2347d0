//! The question after a failure or a crash: where to go on.

use std::io::{self, BufRead, IsTerminal};

use crate::embed::Recovery;
use crate::runner::Trouble;
use crate::screen;

/// What a person wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Go on there.
    Recover(Recovery),
    /// Do nothing.
    Nothing,
}

/// Asks on a terminal. Where nobody can be asked, the answer is the last success, which loses nothing.
pub(super) fn ask(trouble: &Trouble) -> Answer {
    let input = io::stdin();
    if !input.is_terminal() || !io::stderr().is_terminal() {
        return Answer::Recover(Recovery::LastSuccess);
    }
    answer(trouble, &mut input.lock(), &mut |question| screen::ask(question))
}

/// Repeats the question until the answer is one of the three; no answer at all means to do nothing.
fn answer(
    trouble: &Trouble,
    input: &mut dyn BufRead,
    put: &mut dyn FnMut(String) -> io::Result<()>,
) -> Answer {
    loop {
        let mut line = String::new();
        // Who cannot read the question or answer it does not want anything to happen.
        if put(question(trouble)).is_err() || !matches!(input.read_line(&mut line), Ok(1..)) {
            return Answer::Nothing;
        }
        match line.trim() {
            "1" | "last-success" => return Answer::Recover(Recovery::LastSuccess),
            "2" | "crash-point" => return Answer::Recover(Recovery::CrashPoint),
            "q" | "quit" => return Answer::Nothing,
            _ => {}
        }
    }
}

fn question(trouble: &Trouble) -> String {
    let codon = &trouble.codon;
    let what = match (trouble.crashed, &trouble.reason) {
        (true, _) => "was cut off when its run crashed".to_owned(),
        (false, Some(reason)) => format!("failed: {reason}"),
        (false, None) => "failed".to_owned(),
    };
    let last = match &trouble.last_success {
        Some(success) => format!("the last success, {success}"),
        None => "the beginning, for there was no success yet".to_owned(),
    };
    format!(
        "{codon} {what}\n  1  go back to {last}; what is there now is kept in a checkpoint\n  \
         2  keep the files as they are and run {codon} again\n  q  do nothing\nWhere shall it go on? [1/2/q] "
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn answers(typed: &str, expected: Answer, questions: usize) {
        let trouble = Trouble {
            codon: "b".parse().unwrap(),
            reason: Some("oh no".to_owned()),
            crashed: false,
            last_success: Some("a".parse().unwrap()),
        };
        let mut text = String::new();
        let mut put = |question: String| {
            text.push_str(&question);
            Ok(())
        };
        assert_eq!(answer(&trouble, &mut typed.as_bytes(), &mut put), expected);
        assert_eq!(text.matches("b failed: oh no").count(), questions, "{text}");
        assert!(text.contains("the last success, a"));
    }

    // "Crash recovery": both offers of the founding document.
    #[test]
    fn the_question_is_asked_until_it_is_answered() {
        answers("1\n", Answer::Recover(Recovery::LastSuccess), 1);
        answers("what?\n\n2\n", Answer::Recover(Recovery::CrashPoint), 3);
        answers("q\n", Answer::Nothing, 1);
        answers("", Answer::Nothing, 1);
    }
}
