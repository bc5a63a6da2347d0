//! Codex as an agent.
//!
//! The `codex` that npm installs is a script. It starts the native program as its child, which keeps running when the script
//! is killed. So the native program is started instead of the script (AGENT-16).

mod options;
mod rollouts;
mod sandbox;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_agents::codex::OWN_MODEL;
use hankweave_agents::{CodexDecoder, Launch};
use hankweave_core::agent::{Capabilities, CostReporting, ResultSupport};

pub(super) use self::rollouts::ROLLOUTS;
pub(crate) use self::sandbox::{overridden as overridden_sandboxes, overridden_words as overridden_sandbox};
use super::StartError;
use super::process::{ProcessHost, ProgramInvocation, RecordSource, SessionFiles};
use super::program::{Program, chosen_model, command_line, prompt_with_system, session};
use super::program_driver::{Agent, USUAL};

pub(super) const NAME: &str = "codex";

pub(super) static AGENT: Agent = Agent {
    name: NAME,
    program: Some(Program {
        name: NAME,
        hint: "npm install -g @openai/codex",
        variable: "HANKWEAVE_CODEX_PATH",
        tested_with: &["0.169.0", "0.171.0"],
        keys: &["OPENAI_API_KEY", "CODEX_API_KEY"],
    }),
    capabilities: Capabilities {
        fork: true,
        cost: CostReporting::TokensOnly,
        result: ResultSupport::StrictSchema,
        options: options::SUPPORT,
        ..USUAL
    },
    invocation,
};

fn invocation(
    host: &ProcessHost,
    program: PathBuf,
    launch: &mut Launch,
) -> Result<ProgramInvocation, StartError> {
    let since = launch.resume.as_ref().map(|_| host.world().clock.now());
    let rollouts = SessionFiles::of(
        &ROLLOUTS,
        host,
        &launch.work_dir,
        &launch.env,
        since,
        &launch.prices,
    );
    launch.prompt = prompt_with_system(launch);
    let env = options::server_variables(launch);
    let schema = options::schema_file(host, launch)?;
    let decoder = match rollouts {
        Some(_) => CodexDecoder::of(launch),
        None => CodexDecoder::of(launch).unrecorded(),
    };
    Ok(ProgramInvocation {
        env,
        records: rollouts.map(|rollouts| Arc::new(rollouts) as Arc<dyn RecordSource>),
        ..ProgramInvocation::plain(
            native(host, program),
            arguments(launch, schema.as_deref()),
            decoder,
        )
    })
}

/// Returns the native program to which the script of the package leads, or else the script itself.
fn native(host: &ProcessHost, program: PathBuf) -> PathBuf {
    let real = host.world().disk.real_path(&program);
    let script = real
        .ok()
        .filter(|path| path.extension().is_some_and(|end| end == "js"));
    let package = script.as_deref().and_then(Path::parent).and_then(Path::parent);
    let native = package.and_then(|package| {
        native_places(package)
            .into_iter()
            .find(|place| host.is_file(place))
    });
    native.unwrap_or(program)
}

/// Returns the possible paths of the native program: in its own package next to or inside the script's package, or in the
/// script's package.
fn native_places(package: &Path) -> Vec<PathBuf> {
    let (system, target) = match std::env::consts::OS {
        "macos" => ("darwin", "apple-darwin"),
        _ => ("linux", "unknown-linux-musl"),
    };
    let machine = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "x64",
    };
    let own = format!("codex-{system}-{machine}");
    let file = format!("vendor/{}-{target}/bin/codex", std::env::consts::ARCH);
    let inside = package.join("node_modules/@openai").join(&own);
    [package.with_file_name(&own), inside, package.to_owned()]
        .map(|place| place.join(&file))
        .into()
}

/// Returns the arguments. The prompt is passed through standard input.
fn arguments(launch: &Launch, schema: Option<&Path>) -> Vec<OsString> {
    let how = if launch.fork { "fork" } else { "resume" };
    let mut args = command_line(&["exec"], [(how, session(launch))]);
    args.extend(["--json", "--skip-git-repo-check"].map(OsString::from));
    args.extend(options::arguments(launch).into_iter().map(OsString::from));
    if let Some(schema) = schema {
        args.extend(["--output-schema".into(), schema.into()]);
    }
    let model = chosen_model(launch, OWN_MODEL, "openai/");
    args.extend(command_line(&[], [("--model", model)]));
    args.push("-".into());
    args
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::SessionId;

    use super::*;
    use crate::driver::program::tests::launch;
    use crate::world::World;

    fn line(launch: &Launch) -> String {
        arguments(launch, None)
            .join(std::ffi::OsStr::new(" "))
            .into_string()
            .unwrap()
    }

    // covers: AGENT-16
    #[test]
    fn no_prompt_stands_on_the_command_line() {
        let mut launch = launch("openai/gpt-5.2");
        launch.appended_system_prompt = Some("a secret rule".to_owned());
        let rest = "--json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox";
        assert_eq!(line(&launch), format!("exec {rest} --model gpt-5.2 -"));
        assert_eq!(prompt_with_system(&launch), "a secret rule\n\na secret prompt");
        launch.resume = Some(SessionId::new("t-1").unwrap());
        launch.model = OWN_MODEL.to_owned();
        assert_eq!(line(&launch), format!("exec resume t-1 {rest} -"));
        launch.fork = true;
        assert_eq!(line(&launch), format!("exec fork t-1 {rest} -"));
    }

    // covers: AGENT-16
    #[test]
    fn the_script_of_the_package_leads_to_the_native_program() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let package = root.join("node_modules/@openai/codex");
        let bin = root.join("node_modules/.bin");
        for folder in [&package.join("bin"), &bin] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(package.join("bin/codex.js"), "").unwrap();
        std::os::unix::fs::symlink("../@openai/codex/bin/codex.js", bin.join("codex")).unwrap();
        let host = ProcessHost::new(&World::real());
        assert_eq!(
            native(&host, bin.join("codex")),
            bin.join("codex"),
            "there is none"
        );
        for place in native_places(&package).into_iter().rev() {
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(&place, "").unwrap();
            assert_eq!(native(&host, bin.join("codex")), place);
        }
    }
}
