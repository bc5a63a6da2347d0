//! The tools of a scripted agent. They really write files and run commands.

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::script::ScriptedTool;

/// The result of a tool.
pub(super) struct ScriptedToolResult {
    pub(super) text: String,
    pub(super) is_error: bool,
}

impl ScriptedTool {
    /// Returns the tool with `fill` applied to its strings.
    pub(super) fn filled(&self, fill: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Write { path, content } => Self::Write {
                path: fill(path),
                content: fill(content),
            },
            Self::Append { path, content } => Self::Append {
                path: fill(path),
                content: fill(content),
            },
            Self::Read { path } => Self::Read { path: fill(path) },
            Self::Bash { command } => Self::Bash {
                command: fill(command),
            },
            Self::Background { command } => Self::Background {
                command: fill(command),
            },
        }
    }

    /// Returns the name and the arguments as claude would print them.
    pub(super) fn call(&self) -> (&'static str, Value) {
        match self {
            Self::Write { path, content } => ("Write", json!({"file_path": path, "content": content})),
            Self::Append { path, content } => ("Append", json!({"file_path": path, "content": content})),
            Self::Read { path } => ("Read", json!({"file_path": path})),
            Self::Bash { command } => ("Bash", json!({"command": command})),
            Self::Background { command } => ("Bash", json!({"command": command, "run_in_background": true})),
        }
    }

    /// Carries out the tool. Paths are relative to the working directory.
    pub(super) fn run(&self) -> ScriptedToolResult {
        let done = match self {
            Self::Write { path, content } => write(path, content).map(|()| format!("wrote {path}")),
            Self::Append { path, content } => append(path, content).map(|()| format!("appended to {path}")),
            Self::Read { path } => fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            Self::Bash { command } | Self::Background { command } => return bash(command),
        };
        match done {
            Ok(text) => ScriptedToolResult {
                text,
                is_error: false,
            },
            Err(error) => ScriptedToolResult {
                text: error.to_string(),
                is_error: true,
            },
        }
    }
}

/// Writes a file. Missing folders are made, as claude does.
fn write(path: &str, content: &str) -> io::Result<()> {
    make_folder_of(path)?;
    fs::write(path, content)
}

fn append(path: &str, content: &str) -> io::Result<()> {
    make_folder_of(path)?;
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(content.as_bytes())
}

fn make_folder_of(path: &str) -> io::Result<()> {
    Path::new(path).parent().map_or(Ok(()), fs::create_dir_all)
}

/// Runs a command in a process group of its own, as claude does, and returns its output.
fn bash(command: &str) -> ScriptedToolResult {
    let output = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .process_group(0)
        .output();
    match output {
        Ok(output) => ScriptedToolResult {
            text: String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
            is_error: !output.status.success(),
        },
        Err(error) => ScriptedToolResult {
            text: error.to_string(),
            is_error: true,
        },
    }
}

/// A command in the background, which the agent waits for.
pub(super) struct BackgroundCommand {
    pub(super) id: String,
    pub(super) command: String,
    child: Child,
}

impl BackgroundCommand {
    /// Starts a command in a process group of its own, as claude does. Its output is discarded.
    pub(super) fn start(id: String, command: String) -> io::Result<Self> {
        let child = Command::new("sh")
            .args(["-c", &command])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { id, command, child })
    }

    /// Waits for the end of the command, and returns whether it succeeded.
    pub(super) fn wait(mut self) -> io::Result<bool> {
        Ok(self.child.wait()?.success())
    }
}

/// Starts a command that outlives the agent, in a process group of its own.
pub(super) fn leave_behind(command: &str, stdout: Stdio) -> io::Result<()> {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::null());
    shell.process_group(0).spawn().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_gets_the_folders_that_it_needs() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let write = ScriptedTool::Write {
            path: path("a/b/c.md"),
            content: "one".to_owned(),
        };
        let append = ScriptedTool::Append {
            path: path("d/e.md"),
            content: "two".to_owned(),
        };
        for (tool, name, content) in [(write, "a/b/c.md", "one"), (append, "d/e.md", "two")] {
            assert!(!tool.run().is_error);
            assert_eq!(fs::read_to_string(path(name)).unwrap(), content);
        }
        let beneath_a_file = ScriptedTool::Read {
            path: path("d/e.md/f"),
        };
        assert!(beneath_a_file.run().is_error);
    }
}
