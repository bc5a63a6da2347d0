//! Pi as an agent.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use hankweave_agents::pi::OWN_MODEL;
use hankweave_agents::{Launch, PiDecoder};
use hankweave_core::agent::{AccessMode, Capabilities, CostReporting, OptionSupport};

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
        tested_with: &["0.73.1", "0.87.0", "1.6.0"],
        keys: KEYS_OF_PROVIDERS,
    }),
    capabilities: Capabilities {
        fork: true,
        cost: CostReporting::Exact,
        options: SUPPORT,
        ..USUAL
    },
    invocation,
};

/// Options that pi supports. Pi has no MCP servers, and no sandbox that could limit edits to the workspace.
const SUPPORT: OptionSupport = OptionSupport {
    effort: &["off", "minimal", "low", "medium", "high", "xhigh"],
    permissions: &[AccessMode::ReadOnly],
    isolate: true,
    args: true,
    own_args: &[
        "--",
        "-p",
        "--print",
        "--mode",
        "--model",
        "-c",
        "--continue",
        "-r",
        "--resume",
        "--session",
        "--session-id",
        "--session-dir",
        "--no-session",
        "--fork",
        "-t",
        "--tools",
        "--thinking",
        "--api-key",
        "--export",
        "@",
    ],
    ..OptionSupport::NONE
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

/// Extension that keeps pi from shortening its conversation, which pi does before and after its context is full (HANK-49). A setting could do that as well,
/// but the settings are the user's.
const KEEPS_CONVERSATION: &str = r#"export default function (pi) {
  pi.on("session_before_compact", () => ({ cancel: true }));
}
"#;

/// Writes the extension into a file, unless pi may shorten its conversation.
fn extension_file(host: &ProcessHost, launch: &Launch) -> Result<Option<PathBuf>, StartError> {
    match launch.auto_compact {
        true => Ok(None),
        false => private_file(host, launch, "pi-extension.ts", KEEPS_CONVERSATION).map(Some),
    }
}

/// Returns the arguments. The prompt is passed through standard input.
fn arguments(launch: &Launch, system_prompt: Option<&Path>, extension: Option<&Path>) -> Vec<OsString> {
    let options = &launch.options;
    let effort = options.effort.as_deref().map(OsStr::new);
    let reading = (options.mode() == AccessMode::ReadOnly).then_some(OsStr::new("read,grep,find,ls"));
    let how = if launch.fork { "--fork" } else { "--session" };
    let mut args = command_line(
        &["-p", "--mode", "json"],
        [
            ("--model", chosen_model(launch, OWN_MODEL, "pi/")),
            (how, session(launch)),
            ("--append-system-prompt", system_prompt.map(Path::as_os_str)),
            ("--extension", extension.map(Path::as_os_str)),
            ("--thinking", effort),
            ("--tools", reading),
        ],
    );
    if options.is_isolated() {
        args.extend(ISOLATED.map(OsString::from));
    }
    args.extend(options.arguments().iter().map(OsString::from));
    args
}

/// Arguments of an isolated agent: pi then reads no such files, not even those of the workspace.
const ISOLATED: [&str; 5] = [
    "--no-extensions",
    "--no-skills",
    "--no-prompt-templates",
    "--no-themes",
    "--no-context-files",
];

#[cfg(test)]
mod tests {
    use hankweave_core::id::SessionId;

    use super::*;
    use crate::driver::program::tests::launch;

    // covers: AGENT-20
    #[test]
    fn no_prompt_of_pi_stands_on_the_command_line() {
        let line = |launch: &Launch, system: Option<&Path>| {
            let args = arguments(launch, system, system).join(OsStr::new(" "));
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
