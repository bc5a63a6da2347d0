//! Pi as an agent.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hankweave_core::agent::pi::OWN_MODEL;
use hankweave_core::agent::{Capabilities, CostReporting, Launch, PiDecoder};

use super::StartError;
use super::process::{ProcessHost, ProgramInvocation};
use super::program::{
    KEYS_OF_PROVIDERS, Program, chosen_model, command_line, private_file, session, system_prompt_file,
};
use super::program_driver::{Agent, USUAL};

pub(super) const NAME: &str = "pi";

pub(super) static AGENT: Agent = Agent {
    name: NAME,
    program: Some(Program {
        name: NAME,
        hint: "npm install -g @earendil-works/pi-coding-agent",
        variable: "HANKWEAVE_PI_PATH",
        tested_with: &["0.73.1", "0.87.0"],
        keys: KEYS_OF_PROVIDERS,
    }),
    capabilities: Capabilities {
        cost: CostReporting::Exact,
        ..USUAL
    },
    invocation,
};

fn invocation(
    host: &ProcessHost,
    program: PathBuf,
    launch: &mut Launch,
) -> Result<ProgramInvocation, StartError> {
    let system_prompt = system_prompt_file(host, launch)?;
    let extension = extension_file(host, launch)?;
    let args = arguments(launch, system_prompt.as_deref(), extension.as_deref());
    Ok(ProgramInvocation::plain(program, args, PiDecoder::of(launch)))
}

/// Pi shortens its conversation before its context is full and after, unless its settings or an extension forbid it (HANK-49). The settings are the user's.
const KEEPS_CONVERSATION: &str = r#"export default function (pi) {
  pi.on("session_before_compact", () => ({ cancel: true }));
}
"#;

fn extension_file(host: &ProcessHost, launch: &Launch) -> Result<Option<PathBuf>, StartError> {
    match launch.auto_compact {
        true => Ok(None),
        false => private_file(host, launch, "pi-extension.ts", KEEPS_CONVERSATION).map(Some),
    }
}

/// The command line. The prompt comes through standard input.
fn arguments(launch: &Launch, system_prompt: Option<&Path>, extension: Option<&Path>) -> Vec<OsString> {
    command_line(
        &["-p", "--mode", "json"],
        [
            ("--model", chosen_model(launch, OWN_MODEL, "pi/")),
            ("--session", session(launch)),
            ("--append-system-prompt", system_prompt.map(Path::as_os_str)),
            ("--extension", extension.map(Path::as_os_str)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::SessionId;

    use super::*;
    use crate::driver::program::tests::launch;

    // covers: AGENT-20
    #[test]
    fn no_prompt_of_pi_stands_on_the_command_line() {
        let line = |launch: &Launch, system: Option<&Path>| {
            let args = arguments(launch, system, system).join(std::ffi::OsStr::new(" "));
            args.into_string().unwrap()
        };
        let mut launch = launch("pi/google/gemini-3");
        assert_eq!(line(&launch, None), "-p --mode json --model google/gemini-3");
        launch.resume = Some(SessionId::new("s-1").unwrap());
        launch.model = OWN_MODEL.to_owned();
        assert_eq!(
            line(&launch, Some(Path::new("/p"))),
            "-p --mode json --session s-1 --append-system-prompt /p --extension /p"
        );
    }
}
