//! `t` in the run screen: the same run on the whole screen (CLI-35).

use std::convert::Infallible;
use std::io;
use std::path::Path;

use hankweave_client::Target;
use hankweave_runtime::world::blocking::Blocking;

use crate::keyboard::{self, Keyboard};
use crate::remote::on_whole_screen;
use crate::screen::tell;

/// Shows the whole screen each time that somebody presses `t`, for as long as the run lives.
pub(crate) async fn answer(keyboard: Option<&Keyboard>, execution: &Path) -> Infallible {
    let pending = std::future::pending::<Infallible>();
    let Some(keyboard) = keyboard else {
        return pending.await;
    };
    loop {
        if let Err(error) = until_pressed(b't').await {
            tracing::warn!(%error, "the keyboard cannot be read any more");
            return pending.await;
        }
        let target = Target::Execution(execution.to_owned());
        let shown = on_whole_screen(target, Some(execution)).await;
        keyboard.again();
        if let Err(failure) = shown {
            tell(failure.text());
        }
    }
}

/// Waits for a key.
async fn until_pressed(wanted: u8) -> io::Result<()> {
    loop {
        if !Blocking::Threads.run(keyboard::is_pressed).await? {
            continue;
        }
        while let Some(key) = Blocking::Threads.run(keyboard::key).await? {
            if key == wanted {
                return Ok(());
            }
        }
    }
}
