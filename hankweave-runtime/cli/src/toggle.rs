//! Keys on the screen of a run: `t` shows the run on the whole terminal (CLI-35); while a question is open, its keys answer it.
//!
//! Only this task reads keys, so that no other reader takes a key that is not meant for it.

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use hankweave_client::RunAddress;
use tokio::sync::watch;

use crate::approve::Answers;
use crate::remote::on_whole_screen;
use crate::terminal::keyboard::Keyboard;
use crate::terminal::screen::print_stderr;

/// Time after the end of the run until the whole screen closes by itself, for a user who is away.
const CLOSES_AFTER: Duration = Duration::from_secs(60);

/// Whole screen of a run, which the key `t` opens.
#[derive(Debug, Default)]
pub(crate) struct Toggle {
    is_shown: watch::Sender<bool>,
}

impl Toggle {
    /// Acts on keys for as long as the run lives. Without a keyboard, keys are read only while a question is open.
    pub(crate) async fn answer(
        &self,
        keyboard: Option<&Keyboard>,
        execution: &Path,
        answers: Option<&Answers>,
    ) -> Infallible {
        let Some(keyboard) = keyboard else {
            return answer_only(answers).await;
        };
        loop {
            match keyboard.key().await {
                Ok(key) => {
                    let is_answer = match answers {
                        Some(answers) => answers.press(key).await,
                        None => false,
                    };
                    if key == Some(b't') && !is_answer {
                        self.is_shown.send_replace(true);
                        show_whole(keyboard, execution).await;
                        self.is_shown.send_replace(false);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "the keyboard cannot be read any more");
                    return std::future::pending().await;
                }
            }
        }
    }

    /// Waits until the whole screen is closed: the user may still read it after the end of the run.
    pub(crate) async fn left(&self) {
        // Fails only without a sender, which `self` has.
        let _ = self.is_shown.subscribe().wait_for(|is_shown| !is_shown).await;
    }
}

/// Acts on the keys of questions, without a keyboard for the whole screen.
async fn answer_only(answers: Option<&Answers>) -> Infallible {
    let Some(answers) = answers else {
        return std::future::pending().await;
    };
    loop {
        let key = answers.key().await;
        answers.press(key).await;
    }
}

/// Shows the whole screen until the user leaves it.
async fn show_whole(keyboard: &Keyboard, execution: &Path) {
    let target = RunAddress::Execution(execution.to_owned());
    let shown = on_whole_screen(target, Some(execution), Some(CLOSES_AFTER)).await;
    keyboard.again();
    if let Err(failure) = shown {
        print_stderr(failure.text());
    }
}
