//! The tools of a scripted agent, which really do what they say.

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::script::Tool;

/// The answer of a tool.
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) is_error: bool,
}

impl Tool {
    /// The same call with `fill` applied to its strings.
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
        }
    }

    /// Name and arguments as claude would print them.
    pub(super) fn call(&self) -> (&'static str, Value) {
        match self {
            Self::Write { path, content } => ("Write", json!({"file_path": path, "content": content})),
            Self::Append { path, content } => ("Append", json!({"file_path": path, "content": content})),
            Self::Read { path } => ("Read", json!({"file_path": path})),
            Self::Bash { command } => ("Bash", json!({"command": command})),
        }
    }

    /// Does it, relative to the working directory.
    pub(super) fn run(&self) -> Answer {
        let done = match self {
            Self::Write { path, content } => fs::write(path, content).map(|()| format!("wrote {path}")),
            Self::Append { path, content } => append(path, content).map(|()| format!("appended to {path}")),
            Self::Read { path } => fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            Self::Bash { command } => return bash(command),
        };
        match done {
            Ok(text) => Answer {
                text,
                is_error: false,
            },
            Err(error) => Answer {
                text: error.to_string(),
                is_error: true,
            },
        }
    }
}

fn append(path: &str, content: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(content.as_bytes())
}

/// In a process group of its own, as claude does it.
fn bash(command: &str) -> Answer {
    let output = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .process_group(0)
        .output();
    match output {
        Ok(output) => Answer {
            text: String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
            is_error: !output.status.success(),
        },
        Err(error) => Answer {
            text: error.to_string(),
            is_error: true,
        },
    }
}

/// Leaves a command behind that outlives the agent, outside its group.
pub(super) fn leave_behind(command: &str, stdout: Stdio) -> io::Result<()> {
    let mut command_line = Command::new("sh");
    command_line
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::null());
    command_line.process_group(0).spawn().map(drop)
}
