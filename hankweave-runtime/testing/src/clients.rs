//! Clients of the WebSocket and of schemas that others wrote, kept under the target folder, or a reason why they are missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::agents::{self, Skip};

/// The versions that the tests were written against.
const WEBSOCKETS: &str = "websockets==15.0.1";
const WS: (&str, &str) = ("ws", "8.18.0");
const PLAYWRIGHT: (&str, &str) = ("playwright-core", "1.65.1");
const AXE: (&str, &str) = ("axe-core", "4.14.1");
const JSON_LANGUAGE: (&str, &str) = ("vscode-json-languageservice", "5.7.2");

/// A call of Python that can import `websockets`.
///
/// # Errors
///
/// Returns [`Skip`] when Python or pip is missing, or the package cannot be had.
pub fn python() -> Result<Command, Skip> {
    static FOLDER: OnceLock<Result<PathBuf, Skip>> = OnceLock::new();
    let folder = FOLDER.get_or_init(install_websockets).clone()?;
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", folder);
    Ok(python)
}

/// A call of Node that can require `ws`.
///
/// # Errors
///
/// Returns [`Skip`] when Node or npm is missing, or the package cannot be had.
pub fn node() -> Result<Command, Skip> {
    static FOLDER: OnceLock<Result<PathBuf, Skip>> = OnceLock::new();
    node_with(&FOLDER, WS)
}

/// A call of Node that can require the part of VS Code that completes and checks JSON by a schema.
///
/// # Errors
///
/// Returns [`Skip`] when Node or npm is missing, or the package cannot be had.
pub fn json_language() -> Result<Command, Skip> {
    static FOLDER: OnceLock<Result<PathBuf, Skip>> = OnceLock::new();
    node_with(&FOLDER, JSON_LANGUAGE)
}

/// Returns a call of Node that can require Playwright, which comes without a browser.
///
/// # Errors
///
/// Returns [`Skip`] when Node or npm is missing, or the package cannot be had.
pub fn playwright() -> Result<Command, Skip> {
    static FOLDER: OnceLock<Result<PathBuf, Skip>> = OnceLock::new();
    node_with(&FOLDER, PLAYWRIGHT)
}

fn node_with(
    folder: &OnceLock<Result<PathBuf, Skip>>,
    (package, version): (&str, &str),
) -> Result<Command, Skip> {
    let folder = folder
        .get_or_init(|| agents::install_package(package, version))
        .clone()?;
    starts("node")?;
    let mut node = Command::new("node");
    node.env("NODE_PATH", folder.join("node_modules"));
    Ok(node)
}

/// A browser that needs no screen.
///
/// # Errors
///
/// Returns [`Skip`] when none is installed.
pub fn chromium() -> Result<PathBuf, Skip> {
    let names = ["chromium", "chromium-headless-shell", "google-chrome"];
    let found = names.iter().find_map(|name| agents::in_path(name));
    found.ok_or_else(|| Skip("no Chromium is installed".to_owned()))
}

/// Returns the script of axe, which finds what keeps people from using a page.
///
/// # Errors
///
/// Returns [`Skip`] when npm is missing, or the package cannot be had.
pub fn axe() -> Result<String, Skip> {
    let folder = agents::install_package(AXE.0, AXE.1)?;
    let script = folder.join("node_modules/axe-core/axe.min.js");
    std::fs::read_to_string(&script).map_err(|error| Skip(format!("{}: {error}", script.display())))
}

fn install_websockets() -> Result<PathBuf, Skip> {
    let folder = agents::folder().join("websockets");
    let _lock = agents::lock(&folder)?;
    if has_websockets(&folder) {
        return Ok(folder);
    }
    let output = Command::new("python3")
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--target",
        ])
        .arg(&folder)
        .arg(WEBSOCKETS)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Skip(format!("python3 did not start: {error}")))?;
    if output.status.success() {
        return Ok(folder);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr.lines().last().unwrap_or("no message");
    Err(Skip(format!("pip could not install {WEBSOCKETS}: {last}")))
}

fn has_websockets(folder: &Path) -> bool {
    let found = Command::new("python3")
        .args(["-c", "import websockets"])
        .env("PYTHONPATH", folder)
        .stdin(Stdio::null())
        .output();
    found.is_ok_and(|output| output.status.success())
}

fn starts(program: &str) -> Result<(), Skip> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(Skip(format!("{program} --version: {}", output.status))),
        Err(error) => Err(Skip(format!("{program} did not start: {error}"))),
    }
}
