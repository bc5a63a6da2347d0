//! Options of a hank for codex (AGENT-62), as arguments of its command line: effort, sandbox, MCP servers, and a schema for the result.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hankweave_agents::Launch;
use hankweave_core::agent::{AccessMode, McpServer, OptionSupport};
use serde_json::Value;

use crate::driver::StartError;
use crate::driver::process::ProcessHost;
use crate::driver::program::private_temp_file;

pub(super) const SUPPORT: OptionSupport = OptionSupport {
    effort: &["minimal", "low", "medium", "high", "xhigh"],
    permissions: &[AccessMode::ReadOnly, AccessMode::Edit],
    mcp_servers: true,
    args: true,
    own_args: &[
        "--",
        "--json",
        "--output-schema",
        "-m",
        "--model",
        "-s",
        "--sandbox",
        "sandbox_",
        "approval",
        "permissions",
        "model_reasoning_effort",
        "mcp_servers",
        "projects.",
        "--approve-for-me",
        "--dangerously-bypass-approvals-and-sandbox",
        "--dangerously-bypass-hook-trust",
        "--trust",
        "-p",
        "--profile",
        "-C",
        "--cd",
        "--add-dir",
        "--worktree",
        "--ephemeral",
        "--last",
    ],
    shared_server_env: true,
    ..OptionSupport::NONE
};

/// Returns the arguments for the options of a launch. The sandbox is always passed as configuration (`-c`), because a resumed session
/// accepts it in no other form.
pub(super) fn arguments(launch: &Launch) -> Vec<String> {
    let options = &launch.options;
    let sandbox = match options.mode() {
        AccessMode::All => None,
        AccessMode::Edit => Some("workspace-write"),
        AccessMode::ReadOnly => Some("read-only"),
    };
    let mut args = options.arguments().to_vec();
    let Some(sandbox) = sandbox else {
        args.push("--dangerously-bypass-approvals-and-sandbox".to_owned());
        args.extend(settings(launch));
        return args;
    };
    // The folders are set as well, because the user's settings may have opened more of them.
    let restrictions = [
        format!("sandbox_mode={sandbox:?}"),
        "approval_policy=\"never\"".to_owned(),
        "sandbox_workspace_write.writable_roots=[]".to_owned(),
        "sandbox_workspace_write.exclude_slash_tmp=true".to_owned(),
    ];
    args.extend(
        restrictions
            .into_iter()
            .flat_map(|setting| ["-c".to_owned(), setting]),
    );
    args.extend(settings(launch));
    args
}

/// Returns the arguments for the effort and the MCP servers.
fn settings(launch: &Launch) -> impl Iterator<Item = String> {
    let effort = launch.options.effort.as_ref();
    let effort = effort.map(|effort| format!("model_reasoning_effort={effort:?}"));
    let servers = launch.options.servers();
    let servers = servers.map(|(name, server)| format!("mcp_servers.{name}={}", table(server)));
    effort
        .into_iter()
        .chain(servers)
        .flat_map(|setting| ["-c".to_owned(), setting])
}

/// Returns a server as a TOML table, whose strings are those of JSON. The table only names its variables: they may be
/// secrets, and every user can read a command line. Their values are in the environment.
fn table(server: &McpServer) -> String {
    let names: Vec<&String> = server.env.keys().collect();
    let [command, args, names] = [
        serde_json::to_string(&server.command),
        serde_json::to_string(&server.args),
        serde_json::to_string(&names),
    ]
    .map(Result::unwrap_or_default);
    format!("{{command={command},args={args},env_vars={names}}}")
}

/// Writes the schema of the result into a private file. `None` without a schema in the strict form that codex accepts.
pub(super) fn schema_file(host: &ProcessHost, launch: &Launch) -> Result<Option<PathBuf>, StartError> {
    let Some(asked) = launch.result.as_ref().filter(|asked| asked.is_strict()) else {
        return Ok(None);
    };
    let schema = Value::from(asked.schema.clone()).to_string();
    private_temp_file(host, launch, "schema.json", &schema).map(Some)
}

/// Returns the variables of all servers, which codex passes on to each by name.
pub(super) fn server_variables(launch: &Launch) -> BTreeMap<String, String> {
    let variables = launch
        .options
        .servers()
        .flat_map(|(_, server)| server.env.clone());
    variables.collect()
}

#[cfg(test)]
mod tests {
    use hankweave_core::agent::Access;

    use super::*;
    use crate::driver::program::tests::launch;

    // covers: AGENT-62
    #[test]
    fn codex_is_kept_by_its_sandbox_and_no_secret_stands_on_the_command_line() {
        let mut launch = launch("gpt-5.2");
        assert_eq!(arguments(&launch), ["--dangerously-bypass-approvals-and-sandbox"]);
        launch.options.permissions = Some(Access::of(AccessMode::ReadOnly));
        launch.options.effort = Some("low".to_owned());
        let server = McpServer {
            command: "a \"b\"".to_owned(),
            args: vec!["--x".to_owned()],
            env: BTreeMap::from([("TOKEN".to_owned(), "secret".to_owned())]),
        };
        launch.options.mcp_servers = Some(BTreeMap::from([("docs".to_owned(), server)]));
        let line = arguments(&launch).join(" ");
        for expected in [
            "-c sandbox_mode=\"read-only\" -c approval_policy=\"never\" -c sandbox_workspace_write.writable_roots=[]",
            "-c model_reasoning_effort=\"low\"",
            r#"-c mcp_servers.docs={command="a \"b\"",args=["--x"],env_vars=["TOKEN"]}"#,
        ] {
            assert!(line.contains(expected), "{expected}: {line}");
        }
        assert!(
            !line.contains("secret") && !line.contains("dangerously"),
            "{line}"
        );
        assert_eq!(server_variables(&launch)["TOKEN"], "secret");
    }
}
