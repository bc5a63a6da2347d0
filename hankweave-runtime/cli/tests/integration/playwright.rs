//! A page in a real browser, driven as by a user, with Playwright.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use hankweave_testing::clients;
use serde_json::{Value, json};

/// Longest time that something of a page is waited for, milliseconds.
const PATIENCE: &str = "60000";

/// An open page; the browser ends with it.
pub(crate) struct Page {
    playwright: Child,
    /// None once the page is closed.
    requests: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Page {
    /// Opens the page at `address`.
    pub(crate) fn open(browser: &Path, address: &str) -> Self {
        let mut playwright = clients::playwright()
            .unwrap()
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/integration/playwright.js"
            ))
            .arg(browser)
            .arg(PATIENCE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(playwright.stdout.take().unwrap()).lines();
        let mut page = Self {
            requests: playwright.stdin.take(),
            answers,
            playwright,
        };
        page.ask("open", json!([address]));
        page
    }

    /// Loads the page again, as by F5.
    pub(crate) fn reload(&mut self) {
        self.ask("reload", json!([]));
    }

    /// Gives the page the width and height of a window, and light or dark colours.
    pub(crate) fn resize(&mut self, (width, height): (u32, u32), scheme: &str) {
        self.ask("resize", json!([width, height, scheme]));
    }

    /// A picture of what the window shows, as PNG in base64.
    pub(crate) fn picture(&mut self) -> String {
        self.ask("picture", json!([])).as_str().unwrap().to_owned()
    }

    /// Asks the browser what keeps the page from being installed as an app, and with which address it would start.
    pub(crate) fn as_app(&mut self) -> (Value, Value) {
        let errors = self.ask("devtools", json!(["Page.getInstallabilityErrors"]));
        let manifest = self.ask("devtools", json!(["Page.getAppManifest"]));
        (
            errors["installabilityErrors"].clone(),
            manifest["manifest"]["startUrl"].clone(),
        )
    }

    /// Writes into the field that has the focus.
    pub(crate) fn write(&mut self, text: &str) {
        self.ask("write", json!([text]));
    }

    /// Writes into the field that has the focus, which makes the page load again.
    pub(crate) fn write_and_load(&mut self, text: &str) {
        self.ask("writeAndLoad", json!([text]));
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        self.ask("press", json!([key]));
    }

    /// Turns the wheel of the mouse until the page shows its beginning.
    pub(crate) fn wheel_up(&mut self) {
        self.ask("wheelUp", json!([]));
    }

    /// Waits until the page shows a text.
    #[track_caller]
    pub(crate) fn until_shows(&mut self, text: &str) {
        self.until(&format!("document.body.innerText.includes({})", json!(text)));
    }

    /// Waits until an expression of the page is true; the text of the page is the message where it never is.
    #[track_caller]
    pub(crate) fn until(&mut self, expression: &str) {
        self.ask("until", json!([expression]));
    }

    /// Clicks with the mouse on the element with this id, once it exists and does not move.
    #[track_caller]
    pub(crate) fn click(&mut self, id: &str) {
        self.ask("click", json!([id]));
    }

    /// Value of an expression of the page; null where the browser leaves for another page meanwhile.
    #[track_caller]
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        self.ask("evaluate", json!([expression]))
    }

    #[track_caller]
    fn ask(&mut self, method: &str, given: Value) -> Value {
        let request = json!({"method": method, "given": given});
        writeln!(self.requests.as_ref().unwrap(), "{request}").unwrap();
        let line = self.answers.next().expect("Playwright ended").unwrap();
        let mut answer: Value = serde_json::from_str(&line).unwrap();
        if let Some(error) = answer["error"].as_str() {
            panic!("{method} {:.2000}: {error}", request["given"].to_string());
        }
        answer["value"].take()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // It closes the browser at the end of its requests.
        self.requests.take();
        let _ = self.playwright.wait();
    }
}
