//! Opencode as an agent.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use hankweave_agents::opencode::OWN_MODEL;
use hankweave_agents::{Launch, OpencodeDecoder};
use hankweave_core::agent::{AccessMode, Capabilities, CostReporting, OptionSupport};
use serde_json::{Value, json};

use super::StartError;
use super::process::{ProcessHost, ProgramInvocation};
use super::program::{KEYS_OF_PROVIDERS, Program, chosen_model, command_line, prompt_with_system, session};
use super::program_driver::{Agent, USUAL};

pub(super) const NAME: &str = "opencode";

pub(super) static AGENT: Agent = Agent {
    name: NAME,
    program: Some(Program {
        name: NAME,
        hint: "npm install -g opencode-ai",
        variable: "HANKWEAVE_OPENCODE_PATH",
        tested_with: &["1.18.33"],
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

const SUPPORT: OptionSupport = OptionSupport {
    permissions: &[AccessMode::ReadOnly, AccessMode::Edit],
    isolate: true,
    mcp_servers: true,
    args: true,
    own_args: &[
        "--",
        "--format",
        "--auto",
        "--title",
        "--thinking",
        "-m",
        "--model",
        "-s",
        "--session",
        "-c",
        "--continue",
        "--fork",
        "--agent",
        "--attach",
        "--dir",
        "--command",
        "-i",
        "--interactive",
        "--port",
        "--share",
    ],
    ..OptionSupport::NONE
};

/// Name of the agent in opencode's configuration that has only the permissions of the codon.
const KEPT_AGENT: &str = "hankweave-kept";

fn invocation(
    host: &ProcessHost,
    program: PathBuf,
    launch: &mut Launch,
) -> Result<ProgramInvocation, StartError> {
    launch.prompt = prompt_with_system(launch);
    configure(host, launch);
    let (args, decoder) = (arguments(launch), OpencodeDecoder::of(launch));
    Ok(ProgramInvocation {
        env: environment(launch),
        ..ProgramInvocation::plain(program, args, decoder)
    })
}

/// Returns variables for the program. Opencode compacts its conversation before its context is full, unless one of them
/// turns that off (HANK-49).
fn environment(launch: &Launch) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    if !launch.auto_compact {
        env.insert("OPENCODE_DISABLE_AUTOCOMPACT".to_owned(), "1".to_owned());
    }
    env
}

/// Variable with a configuration as text, which overrides that of every file.
const CONFIG: &str = "OPENCODE_CONFIG_CONTENT";

/// Writes the options of a launch into the codon's variables, merged with a configuration that is there. Variables of an invocation would not do: the
/// codon's override those.
fn configure(host: &ProcessHost, launch: &mut Launch) {
    let options = launch.options.clone();
    let existing = launch.env.get(CONFIG).cloned();
    let existing = existing.or_else(|| Some(host.variable(CONFIG)?.to_string_lossy().into_owned()));
    let existing = existing.and_then(|text| serde_json::from_str(&text).ok());
    let mut config = existing.filter(Value::is_object).unwrap_or_else(|| json!({}));
    for (name, server) in options.servers() {
        let command: Vec<&String> = std::iter::once(&server.command).chain(&server.args).collect();
        object_in(&mut config, "mcp")[name] =
            json!({"type": "local", "command": command, "environment": server.env, "enabled": true});
    }
    if options.mode() != AccessMode::All {
        let permission = permission(launch);
        object_in(&mut config, "agent")[KEPT_AGENT] = json!({"mode": "primary", "permission": permission});
    }
    if config.as_object().is_some_and(|config| !config.is_empty()) {
        launch.env.insert(CONFIG.to_owned(), config.to_string());
    }
    if options.is_isolated() {
        isolate(launch);
    }
}

/// Returns the object of a key of the configuration. It replaces a value that opencode could not use.
fn object_in<'c>(config: &'c mut Value, key: &str) -> &'c mut Value {
    let value = &mut config[key];
    if !value.is_object() {
        *value = json!({});
    }
    value
}

/// Returns the permissions of `KEPT_AGENT`. It is an agent of our own, because rules in a file could allow more to the usual agent. It may start no sub-agents,
/// because these have rules of their own.
fn permission(launch: &Launch) -> Value {
    const READING: [&str; 9] = [
        "read",
        "glob",
        "grep",
        "list",
        "lsp",
        "skill",
        "todowrite",
        "webfetch",
        "websearch",
    ];
    // The last matching rule counts.
    let mut rules = json!({"*": "deny"});
    let edit = (launch.options.mode() == AccessMode::Edit).then_some("edit");
    for tool in READING.into_iter().chain(edit) {
        rules[tool] = json!("allow");
    }
    for (name, _) in launch.options.servers() {
        rules[format!("{name}_*")] = json!("allow");
    }
    rules["external_directory"] = json!("deny");
    rules
}

/// Keeps opencode from the files and plugins of the user, by variables that lead it to a folder of this launch. Paths that the codon itself sets stay.
fn isolate(launch: &mut Launch) {
    let folder = launch.temp_dir.join("opencode-config");
    let folder = folder.to_string_lossy().into_owned();
    launch.env.entry("XDG_CONFIG_HOME".to_owned()).or_insert(folder);
    for name in ["OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR"] {
        launch.env.entry(name.to_owned()).or_default();
    }
    for name in ["OPENCODE_DISABLE_CLAUDE_CODE", "OPENCODE_DISABLE_EXTERNAL_SKILLS"] {
        launch.env.insert(name.to_owned(), "1".to_owned());
    }
}

/// Returns the arguments. The prompt is passed through standard input. A given title keeps opencode from asking a model
/// for one, whose cost no line would report (AGENT-28).
fn arguments(launch: &Launch) -> Vec<OsString> {
    let options = &launch.options;
    let agent = (options.mode() != AccessMode::All).then_some(OsStr::new(KEPT_AGENT));
    let mut args = command_line(
        &[
            "run",
            "--format",
            "json",
            "--auto",
            "--thinking",
            "--title",
            "hankweave",
        ],
        [
            ("--model", chosen_model(launch, OWN_MODEL, "")),
            ("--session", session(launch)),
            ("--agent", agent),
        ],
    );
    args.extend(launch.fork.then(|| OsString::from("--fork")));
    if options.is_isolated() {
        args.push("--pure".into());
    }
    args.extend(options.arguments().iter().map(OsString::from));
    args
}

#[cfg(test)]
mod tests {
    use hankweave_core::agent::{Access, AgentOptions, McpServer};
    use hankweave_core::id::SessionId;

    use super::*;
    use crate::driver::program::tests::launch;
    use crate::world::World;

    // covers: AGENT-28
    #[test]
    fn no_prompt_of_opencode_stands_on_the_command_line() {
        let line = |launch: &Launch| {
            let args = arguments(launch).join(OsStr::new(" "));
            args.into_string().unwrap()
        };
        let fixed = "run --format json --auto --thinking --title hankweave";
        let mut launch = launch("anthropic/claude-sonnet-4-5");
        assert_eq!(
            line(&launch),
            format!("{fixed} --model anthropic/claude-sonnet-4-5")
        );
        launch.resume = Some(SessionId::new("ses_1").unwrap());
        launch.model = OWN_MODEL.to_owned();
        assert_eq!(line(&launch), format!("{fixed} --session ses_1"));
        launch.fork = true;
        assert_eq!(line(&launch), format!("{fixed} --session ses_1 --fork"));
    }

    // covers: AGENT-62
    #[test]
    fn a_configuration_that_opencode_could_not_use_gets_the_options_of_the_codon() {
        let mut launch = launch("scripted/m");
        let server = McpServer {
            command: "serve".to_owned(),
            args: Vec::new(),
            env: BTreeMap::new(),
        };
        launch.options = AgentOptions {
            permissions: Some(Access::of(AccessMode::ReadOnly)),
            mcp_servers: Some(BTreeMap::from([("files".to_owned(), server)])),
            ..AgentOptions::default()
        };
        let unusable = json!({"mcp": [], "agent": "x", "theme": "dark"});
        launch.env.insert(CONFIG.to_owned(), unusable.to_string());
        configure(&ProcessHost::new(&World::real()), &mut launch);
        let config: Value = serde_json::from_str(&launch.env[CONFIG]).unwrap();
        assert_eq!(config["mcp"]["files"]["command"], json!(["serve"]));
        assert_eq!(config["agent"][KEPT_AGENT]["mode"], "primary");
        assert_eq!(config["theme"], "dark");
    }

    // covers: HANK-49
    #[test]
    fn opencode_is_told_not_to_shorten_its_conversation() {
        let mut launch = launch("scripted/m");
        assert_eq!(environment(&launch)["OPENCODE_DISABLE_AUTOCOMPACT"], "1");
        launch.auto_compact = true;
        assert!(environment(&launch).is_empty());
    }
}
