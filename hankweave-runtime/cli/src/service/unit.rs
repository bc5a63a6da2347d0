//! Text of a systemd unit, quoted so that every path and argument arrives as it was typed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// First line of each unit that is ours.
pub(super) const MARK: &str = "# Written by `hankweave service install`";

/// Longest name of a file, in bytes.
const LONGEST_NAME: usize = 255;

/// Service of one execution directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    /// Execution directory, absolute.
    pub(super) execution: PathBuf,
    /// Working directory: paths in the options are relative to it, and hankweave.json is read there.
    pub(super) folder: PathBuf,
    /// File with variables.
    pub(super) environment: PathBuf,
    pub(super) program: PathBuf,
    /// Arguments of the program.
    pub(super) arguments: Vec<String>,
}

/// Why there can be no unit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnitError {
    /// A path is no text.
    #[error("`{}` is not UTF-8, and a systemd unit is", .0.display())]
    NotText(PathBuf),
    /// A line break or another control character.
    #[error("{0:?} has a line break or another control character, which no systemd unit can hold")]
    Control(String),
    /// A path whose end systemd would not read.
    #[error("`{0}` ends with a space or a backslash, which systemd does not read")]
    End(String),
    /// The name of the unit is too long for a file.
    #[error("the path of `{0}` is too long for the name of a unit")]
    TooLong(String),
}

/// Returns the name of the unit of an execution directory: its path, escaped as systemd escapes paths.
pub(super) fn name(execution: &Path) -> Result<String, UnitError> {
    let path = text(execution)?;
    let mut name = "hankweave".to_owned();
    for byte in path.trim_end_matches('/').bytes() {
        match byte {
            b'/' => name.push('-'),
            byte if byte.is_ascii_alphanumeric() || b"_.".contains(&byte) => name.push(char::from(byte)),
            // Writing to a String cannot fail.
            byte => drop(write!(name, "\\x{byte:02x}")),
        }
    }
    name.push_str(".service");
    match name.len() > LONGEST_NAME {
        true => Err(UnitError::TooLong(path.to_owned())),
        false => Ok(name),
    }
}

impl Unit {
    /// Returns the text of the unit.
    pub(super) fn text(&self) -> Result<String, UnitError> {
        let execution = text(&self.execution)?;
        let name = self
            .execution
            .file_name()
            .map_or(execution, |name| name.to_str().unwrap_or(execution));
        let (folder, environment) = (line(&self.folder)?, line(&self.environment)?);
        let command = self.command()?;
        // `KillMode=mixed` sends SIGTERM to hankweave alone, which then stops its agents in order. A backslash at the end of `Description` would join the next
        // line to it.
        Ok(format!(
            "{MARK}; `hankweave service uninstall` removes it.\n\
             # Directory: {execution}\n\
             [Unit]\n\
             Description=hankweave: {}\n\
             \n\
             [Service]\n\
             Type=exec\n\
             WorkingDirectory={folder}\n\
             EnvironmentFile=-{environment}\n\
             ExecStart={command}\n\
             # A failure, a pause and a mistake need a person; a crash does not.\n\
             Restart=on-failure\n\
             RestartSec=60\n\
             RestartPreventExitStatus=1 2 3 65 70\n\
             SuccessExitStatus=3 143\n\
             KillMode=mixed\n\
             TimeoutStopSec=120\n\
             \n\
             [Install]\n\
             WantedBy=default.target\n",
            name.trim_end_matches('\\').replace('%', "%%"),
        ))
    }

    /// Returns the value of `ExecStart`; `:` keeps systemd from replacing variables.
    fn command(&self) -> Result<String, UnitError> {
        let program = text(&self.program)?;
        let arguments = self.arguments.iter().map(|argument| {
            check(argument)?;
            Ok(quoted(argument))
        });
        let arguments = arguments.collect::<Result<Vec<_>, UnitError>>()?.join(" ");
        Ok(match is_plain(program) {
            true => format!(":{program} {arguments}"),
            // systemd takes any quoted argument, but a program only by a plain path: a shell starts others.
            false => format!(
                ":/bin/sh -c {} {} {arguments}",
                quoted(r#"exec "$0" "$@""#),
                quoted(program)
            ),
        })
    }
}

fn is_plain(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@,=".contains(&byte);
    !text.is_empty() && text.bytes().all(plain)
}

/// Quotes one argument of a command line.
fn quoted(argument: &str) -> String {
    if is_plain(argument) {
        return argument.to_owned();
    }
    let mut quoted = String::from("\"");
    for character in argument.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '%' => quoted.push_str("%%"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Escapes a path that is the whole value of a setting, where quotes have no meaning.
fn line(path: &Path) -> Result<String, UnitError> {
    let path = text(path)?;
    match path.ends_with([' ', '\\']) {
        true => Err(UnitError::End(path.to_owned())),
        false => Ok(path.replace('%', "%%")),
    }
}

fn text(path: &Path) -> Result<&str, UnitError> {
    let text = path.to_str().ok_or_else(|| UnitError::NotText(path.to_owned()))?;
    check(text).map(|()| text)
}

pub(super) fn check(text: &str) -> Result<(), UnitError> {
    match text.chars().any(char::is_control) {
        true => Err(UnitError::Control(text.to_owned())),
        false => Ok(()),
    }
}

/// Returns one line of a file with variables, whose value arrives unchanged.
pub(super) fn variable(name: &str, value: &str) -> Result<String, UnitError> {
    check(value)?;
    let escaped: String = value
        .chars()
        .flat_map(|character| match character {
            '"' | '\\' | '$' | '`' => vec!['\\', character],
            other => vec![other],
        })
        .collect();
    Ok(format!("{name}=\"{escaped}\"\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(program: &str, folder: &str, arguments: &[&str]) -> Unit {
        Unit {
            execution: "/home/ada/night".into(),
            folder: folder.into(),
            environment: "/home/ada/.config/hankweave/services/x.env".into(),
            program: program.into(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        }
    }

    // covers: CLI-81
    #[test]
    fn the_name_is_the_path_as_systemd_escapes_it() {
        let name = |path: &str| name(Path::new(path));
        assert_eq!(
            name("/home/ada/night").as_deref(),
            Ok("hankweave-home-ada-night.service")
        );
        assert_ne!(name("/a-b"), name("/a/b"));
        assert_eq!(
            name("/a b/ä").as_deref(),
            Ok(r"hankweave-a\x20b-\xc3\xa4.service")
        );
        assert!(matches!(
            name(&format!("/{}", "x".repeat(300))),
            Err(UnitError::TooLong(_))
        ));
    }

    // covers: CLI-81
    #[test]
    fn arguments_and_paths_are_quoted_and_what_cannot_be_is_refused() {
        let arguments = ["run", "/a b", "$HOME", "50%", "say \"x\"", r"a\b", ";", "", "'"];
        let text = unit("/usr/bin/hankweave", "/a b%c$d\"e'f", &arguments)
            .text()
            .unwrap();
        let command =
            r#"ExecStart=:/usr/bin/hankweave run "/a b" "$HOME" "50%%" "say \"x\"" "a\\b" ";" "" "'""#;
        assert!(text.contains(&format!("{command}\n")), "{text}");
        assert!(text.contains("WorkingDirectory=/a b%%c$d\"e'f\n"), "{text}");
        let odd = unit("/opt/a b/hankweave", "/", &["run"]).text().unwrap();
        let command = r#"ExecStart=:/bin/sh -c "exec \"$0\" \"$@\"" "/opt/a b/hankweave" run"#;
        assert!(odd.contains(&format!("{command}\n")), "{odd}");
        let refused = |folder: &str, argument: &str| unit("/h", folder, &[argument]).text().unwrap_err();
        assert!(matches!(refused("/a\nb", "x"), UnitError::Control(_)));
        assert!(matches!(refused("/", "x\ny"), UnitError::Control(_)));
        assert!(matches!(refused("/a ", "x"), UnitError::End(_)));
        assert!(matches!(refused("/a\\", "x"), UnitError::End(_)));
    }

    #[test]
    fn a_value_arrives_as_it_is() {
        assert_eq!(
            variable("KEY", "a\"$b`\\c").as_deref(),
            Ok("KEY=\"a\\\"\\$b\\`\\\\c\"\n")
        );
        assert!(variable("KEY", "a\nb").is_err());
    }
}
