//! Gemini as an agent.

mod chats;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use hankweave_agents::gemini::OWN_MODEL;
use hankweave_agents::{GeminiDecoder, Launch};
use hankweave_core::agent::{Capabilities, CostReporting, OptionSupport};

pub(super) use self::chats::CHATS;
use super::StartError;
use super::process::{ProcessHost, ProgramInvocation, RecordSource, SessionFiles};
use super::program::{Program, chosen_model, command_line, prompt_with_system, session};
use super::program_driver::{Agent, USUAL};

pub(super) const NAME: &str = "gemini";

pub(super) static AGENT: Agent = Agent {
    name: NAME,
    program: Some(Program {
        name: NAME,
        hint: "npm install -g @google/gemini-cli",
        variable: "HANKWEAVE_GEMINI_PATH",
        tested_with: &["0.61.0"],
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    }),
    capabilities: Capabilities {
        cost: CostReporting::TokensOnly,
        options: SUPPORT,
        ..USUAL
    },
    invocation,
};

/// Options that gemini supports. Permissions are not among them, because policies and gemini's own tools get around its modes; nor are options that would need
/// settings, because these would replace an administrator's settings.
const SUPPORT: OptionSupport = OptionSupport {
    args: true,
    own_args: &[
        "--",
        "-o",
        "--output-format",
        "--approval-mode",
        "-y",
        "--yolo",
        "-m",
        "--model",
        "-r",
        "--resume",
        "--session-id",
        "--session-file",
        "-p",
        "--prompt",
        "-i",
        "--prompt-interactive",
        "--acp",
        "--experimental-acp",
        "-w",
        "--worktree",
    ],
    ..OptionSupport::NONE
};

fn invocation(
    host: &ProcessHost,
    program: PathBuf,
    launch: &mut Launch,
) -> Result<ProgramInvocation, StartError> {
    let since = launch.resume.as_ref().map(|_| host.world().clock.now());
    let chats = SessionFiles::of(&CHATS, host, &launch.work_dir, &launch.env, since, &launch.prices);
    launch.prompt = prompt_with_system(launch);
    let decoder = match chats {
        Some(_) => GeminiDecoder::of(launch).recorded(),
        None => GeminiDecoder::of(launch),
    };
    Ok(ProgramInvocation {
        env: own_environment(),
        records: chats.map(|chats| Arc::new(chats) as Arc<dyn RecordSource>),
        ..ProgramInvocation::plain(program, arguments(launch), decoder)
    })
}

/// Returns variables for the program: one keeps it from restarting itself as its own child, the other marks the folder as
/// trusted (AGENT-29).
fn own_environment() -> BTreeMap<String, String> {
    ["GEMINI_CLI_NO_RELAUNCH", "GEMINI_CLI_TRUST_WORKSPACE"]
        .map(|name| (name.to_owned(), "true".to_owned()))
        .into()
}

/// Returns the arguments. The prompt is passed through standard input.
fn arguments(launch: &Launch) -> Vec<OsString> {
    let mut args = command_line(
        &["--output-format", "stream-json", "--approval-mode", "yolo"],
        [
            ("--model", chosen_model(launch, OWN_MODEL, "")),
            ("--resume", session(launch)),
        ],
    );
    args.extend(launch.options.arguments().iter().map(OsString::from));
    args
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::SessionId;

    use super::*;
    use crate::driver::program::tests::launch;

    // covers: AGENT-29
    #[test]
    fn no_prompt_of_gemini_stands_on_the_command_line() {
        let line = |launch: &Launch| {
            let args = arguments(launch).join(std::ffi::OsStr::new(" "));
            args.into_string().unwrap()
        };
        let fixed = "--output-format stream-json --approval-mode yolo";
        let mut launch = launch("gemini-2.5-pro");
        assert_eq!(line(&launch), format!("{fixed} --model gemini-2.5-pro"));
        launch.resume = Some(SessionId::new("s-1").unwrap());
        launch.model = OWN_MODEL.to_owned();
        assert_eq!(line(&launch), format!("{fixed} --resume s-1"));
    }
}
