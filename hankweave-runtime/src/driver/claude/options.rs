//! Options of a hank for claude (AGENT-61), as arguments of its command line: effort, permissions, tools, MCP servers, isolation from the user's settings,
//! and a schema for the result.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hankweave_agents::Launch;
use hankweave_core::agent::{Access, AccessMode, OptionSupport};
use serde_json::{Value, json};

use crate::driver::StartError;
use crate::driver::process::ProcessHost;
use crate::driver::program::private_temp_file;

pub(super) const SUPPORT: OptionSupport = OptionSupport {
    effort: &["low", "medium", "high", "xhigh", "max"],
    permissions: &[AccessMode::ReadOnly, AccessMode::Edit],
    tool_lists: true,
    isolate: true,
    mcp_servers: true,
    args: true,
    own_args: &[
        "--",
        "-p",
        "--print",
        "--output-format",
        "--json-schema",
        "--input-format",
        "--verbose",
        "--include-partial-messages",
        "--forward-subagent-text",
        "--model",
        "--max-budget-usd",
        "-c",
        "--continue",
        "-r",
        "--resume",
        "--session-id",
        "--fork-session",
        "--from-pr",
        "--no-session-persistence",
        "--system-prompt-snapshot",
        "--append-system-prompt-file",
        "--effort",
        "--permission-mode",
        "--permission-prompts",
        "--permission-prompt-tool",
        "--dangerously-skip-permissions",
        "--allow-dangerously-skip-permissions",
        "--allowedTools",
        "--allowed-tools",
        "--disallowedTools",
        "--disallowed-tools",
        "--tools",
        "--restricted",
        "--add-dir",
        "--settings",
        "--setting-sources",
        "--mcp-config",
        "--strict-mcp-config",
        "--bg",
        "--background",
        "--cloud",
        "--teleport",
        "-w",
        "--worktree",
        "--tmux",
        "--desktop",
        "--remote-control",
    ],
    ..OptionSupport::NONE
};

/// Tools of a read-only agent.
const READING: [&str; 8] = [
    "Read",
    "Glob",
    "Grep",
    "Task",
    "TodoWrite",
    "WebFetch",
    "WebSearch",
    "Skill",
];

/// Tools that change files.
const WRITING: [&str; 4] = ["Write", "Edit", "NotebookEdit", "Bash"];

/// Returns the arguments for the options of a launch. The hank's own arguments come first: after a list of tools they would count as tools.
pub(super) fn arguments(launch: &Launch, servers: Option<&Path>) -> Vec<OsString> {
    let options = &launch.options;
    let mut args: Vec<OsString> = options.arguments().iter().map(OsString::from).collect();
    if let Some(effort) = &options.effort {
        args.extend(["--effort".into(), effort.into()]);
    }
    if options.is_isolated() {
        let settings = isolated_settings(&launch.work_dir).to_string();
        args.extend(
            [
                "--setting-sources",
                "project,local",
                "--strict-mcp-config",
                "--settings",
            ]
            .map(OsString::from),
        );
        args.push(settings.into());
    }
    if let Some(file) = servers {
        args.extend(["--mcp-config".into(), file.into()]);
    }
    if let Some(asked) = &launch.result {
        let schema = Value::from(asked.schema.clone()).to_string();
        args.extend(["--json-schema".into(), schema.into()]);
    }
    args.extend(permissions(launch).into_iter().map(OsString::from));
    args
}

/// Returns the settings of an isolated agent. Without them claude has a memory across projects, and reads the memory files in all folders above its own.
fn isolated_settings(work_dir: &Path) -> Value {
    const FILES: [&str; 3] = ["CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md"];
    let above = work_dir.ancestors().skip(1);
    let files = above.flat_map(|folder| FILES.map(|file| folder.join(file)));
    let files: Vec<_> = files.map(|file| file.to_string_lossy().into_owned()).collect();
    json!({"claudeMdExcludes": files, "autoMemoryEnabled": false})
}

/// Returns the arguments for the permissions. Rules in settings files can allow more than the mode does, even in plan mode. So a read-only agent gets no tool
/// that writes, and an agent that edits, or has tools beyond its mode, is `--restricted`: it reads no settings and stays in the workspace.
fn permissions(launch: &Launch) -> Vec<String> {
    let all = Access::of(AccessMode::All);
    let access = launch.options.permissions.as_ref().unwrap_or(&all);
    let mut args = Vec::new();
    let mut denied = access.deny.clone();
    match access.mode {
        AccessMode::All => args.push("--dangerously-skip-permissions".to_owned()),
        AccessMode::Edit => {
            args.extend(["--restricted", "--permission-mode", "acceptEdits"].map(str::to_owned))
        }
        AccessMode::ReadOnly => {
            let more: Vec<&str> = access.allow.iter().map(|tool| tool_name(tool)).collect();
            args.extend(["--permission-mode", "dontAsk", "--tools"].map(str::to_owned));
            args.push([&READING[..], &more].concat().join(","));
            denied.extend(
                WRITING
                    .into_iter()
                    .filter(|tool| !more.contains(tool))
                    .map(str::to_owned),
            );
        }
    }
    if access.mode == AccessMode::ReadOnly && !access.allow.is_empty() {
        args.push("--restricted".to_owned());
    }
    if access.mode != AccessMode::All {
        let servers = launch.options.servers().map(|(name, _)| format!("mcp__{name}"));
        let allowed: Vec<String> = servers.chain(access.allow.iter().cloned()).collect();
        add_list(&mut args, "--allowedTools", allowed);
    }
    add_list(&mut args, "--disallowedTools", denied);
    args
}

/// Adds an option with a list of tools, unless the list is empty.
fn add_list(args: &mut Vec<String>, option: &str, tools: Vec<String>) {
    if !tools.is_empty() {
        args.push(option.to_owned());
        args.extend(tools);
    }
}

/// Returns the name of the tool in a rule: `Bash` of `Bash(git log *)`.
fn tool_name(tool: &str) -> &str {
    tool.split('(').next().unwrap_or(tool)
}

/// Writes the MCP servers of a launch into a private file, since their variables may be secrets. `None` without servers.
pub(super) fn server_file(host: &ProcessHost, launch: &Launch) -> Result<Option<PathBuf>, StartError> {
    if launch.options.servers().next().is_none() {
        return Ok(None);
    }
    let servers = json!({"mcpServers": launch.options.mcp_servers});
    private_temp_file(host, launch, "mcp.json", &servers.to_string()).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::program::tests::launch;

    fn line(access: Access) -> String {
        let mut launch = launch("haiku");
        launch.options.permissions = Some(access);
        permissions(&launch).join(" ")
    }

    // covers: AGENT-61
    #[test]
    fn claude_has_only_the_tools_of_its_permissions() {
        let reading =
            "--permission-mode dontAsk --tools Read,Glob,Grep,Task,TodoWrite,WebFetch,WebSearch,Skill";
        assert_eq!(
            line(Access::of(AccessMode::ReadOnly)),
            format!("{reading} --disallowedTools Write Edit NotebookEdit Bash")
        );
        let more = Access {
            allow: vec!["Bash(git log *)".to_owned()],
            deny: vec!["WebFetch".to_owned()],
            ..Access::of(AccessMode::ReadOnly)
        };
        assert_eq!(
            line(more),
            format!(
                "{reading},Bash --restricted --allowedTools Bash(git log *) --disallowedTools WebFetch Write Edit NotebookEdit"
            )
        );
        assert_eq!(
            line(Access::of(AccessMode::Edit)),
            "--restricted --permission-mode acceptEdits"
        );
        assert_eq!(
            line(Access::of(AccessMode::All)),
            "--dangerously-skip-permissions"
        );
    }

    // covers: AGENT-61
    #[test]
    fn isolated_claude_reads_no_memory_above_its_folder() {
        let settings = isolated_settings(Path::new("/a/b"));
        let files = settings["claudeMdExcludes"].as_array().unwrap();
        assert!(files.contains(&json!("/a/CLAUDE.md")) && files.contains(&json!("/.claude/CLAUDE.md")));
        assert!(!files.contains(&json!("/a/b/CLAUDE.md")));
    }
}
