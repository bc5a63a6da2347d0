//! A page in a real browser that somebody looks at and clicks on, over the browser's own protocol for that.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::client::client;
use tokio_tungstenite::tungstenite::{Message, WebSocket};

/// How long the browser may take to answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// An open page; the browser ends with it.
pub(crate) struct Page {
    browser: Child,
    socket: WebSocket<TcpStream>,
    session: Value,
    sent: u64,
    is_loaded: bool,
    /// Where the browser keeps what is its own.
    _profile: TempDir,
}

/// Errors of a browser that leaves a page while it is asked about it.
const LEFT: [&str; 3] = [
    "navigated or closed",
    "context was destroyed",
    "Cannot find context",
];

impl Page {
    /// Opens the page at `address`.
    pub(crate) fn open(browser: &Path, address: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Command::new(browser)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--remote-debugging-port=0", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(browser.stderr.take().unwrap()).lines();
        let url = told.find_map(|line| Some(line.ok()?.strip_prefix("DevTools listening on ")?.to_owned()));
        // Whatever it complains about later is read by nobody and must not hold it up.
        std::thread::spawn(move || told.for_each(drop));
        let url = url.expect("it tells where it listens");
        let place = url.strip_prefix("ws://").unwrap().split('/').next().unwrap();
        let stream = TcpStream::connect(place).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (socket, _) = client(url.as_str(), stream).unwrap();
        let mut page = Self {
            browser,
            socket,
            session: Value::Null,
            sent: 0,
            is_loaded: false,
            _profile: profile,
        };
        let target = page.ask("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attach = json!({"targetId": target, "flatten": true});
        page.session = page.ask("Target.attachToTarget", attach)["sessionId"].clone();
        page.ask("Page.enable", json!({}));
        page.load("Page.navigate", json!({"url": address}));
        page
    }

    /// Loads the page again, as by F5.
    pub(crate) fn reload(&mut self) {
        self.load("Page.reload", json!({}));
    }

    fn load(&mut self, method: &str, parameters: Value) {
        self.is_loaded = false;
        self.ask(method, parameters);
        while !self.is_loaded {
            self.hear();
        }
    }

    /// Gives the page the width and height of a window, and light or dark colours.
    pub(crate) fn resize(&mut self, (width, height): (u32, u32), scheme: &str) {
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        self.ask("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.ask("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// A picture of what the window shows, as PNG in base64.
    pub(crate) fn picture(&mut self) -> String {
        let taken = self.ask("Page.captureScreenshot", json!({"format": "png"}));
        taken["data"].as_str().unwrap().to_owned()
    }

    /// Asks the browser what keeps the page from being installed as an app, and with which address it would start.
    pub(crate) fn as_app(&mut self) -> (Value, Value) {
        let errors = self.ask("Page.getInstallabilityErrors", json!({}));
        let manifest = self.ask("Page.getAppManifest", json!({}));
        (
            errors["installabilityErrors"].clone(),
            manifest["manifest"]["startUrl"].clone(),
        )
    }

    /// Writes into the field that has the focus.
    pub(crate) fn write(&mut self, text: &str) {
        self.ask("Input.insertText", json!({"text": text}));
    }

    /// Writes into the field that has the focus, which makes the page load again.
    pub(crate) fn write_and_load(&mut self, text: &str) {
        self.load("Input.insertText", json!({"text": text}));
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        // A named key, such as Escape, writes nothing; Enter presses a button by what it writes.
        let text = match key {
            "Enter" => "\r",
            key if key.len() == 1 => key,
            _ => "",
        };
        for kind in ["keyDown", "keyUp"] {
            self.ask(
                "Input.dispatchKeyEvent",
                json!({"type": kind, "key": key, "text": text}),
            );
        }
    }

    /// Turns the wheel of the mouse until the page shows its beginning.
    pub(crate) fn wheel_up(&mut self) {
        self.ask(
            "Input.dispatchMouseEvent",
            json!({"type": "mouseWheel", "x": 500, "y": 200, "deltaX": 0, "deltaY": -20_000}),
        );
    }

    /// Waits until the page shows a text.
    #[track_caller]
    pub(crate) fn until_shows(&mut self, text: &str) {
        self.until(&format!("document.body.innerText.includes({})", json!(text)));
    }

    /// Waits until an expression of the page is true; the text of the page is the message where it never is.
    #[track_caller]
    pub(crate) fn until(&mut self, expression: &str) {
        let look = format!(
            "new Promise((seen) => {{ const last = Date.now() + {};
                const look = () => ({expression}) ? seen(true) : Date.now() > last ? seen(document.body.innerText) : setTimeout(look, 50);
                look(); }})",
            PATIENCE.as_millis() / 2
        );
        // One that leaves for another page while it is asked is asked there.
        let mut seen = Value::Null;
        while seen.is_null() {
            seen = self.evaluate(&look);
        }
        assert_eq!(seen, true, "{expression}");
    }

    /// Clicks with the mouse on the element with this id, once it is there; again where it moved away meanwhile.
    #[track_caller]
    pub(crate) fn click(&mut self, id: &str) {
        self.evaluate("window.isClicked = false");
        for _ in 0..100 {
            self.until(&format!("document.getElementById('{id}')"));
            self.press_at_middle(id);
            if self.evaluate("window.isClicked") == true {
                return;
            }
        }
        panic!("{id} moves away from each click");
    }

    fn press_at_middle(&mut self, id: &str) {
        let middle = self.evaluate(&format!(
            "(() => {{ const element = document.getElementById('{id}'); if (!element) return [0, 0];
                element.addEventListener('click', () => window.isClicked = true);
                element.scrollIntoView({{block: 'center'}});
                const place = element.getBoundingClientRect();
                return [place.x + place.width / 2, place.y + place.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({"type": kind, "x": middle[0], "y": middle[1], "button": "left", "clickCount": 1});
            self.ask("Input.dispatchMouseEvent", event);
        }
    }

    /// Value of an expression of the page; null where the browser leaves for another page meanwhile.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let wanted = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = match self.try_to_ask("Runtime.evaluate", wanted) {
            Ok(answer) => answer,
            Err(error) if LEFT.iter().any(|words| error.contains(words)) => return Value::Null,
            Err(error) => panic!("{expression}: {error}"),
        };
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    fn ask(&mut self, method: &str, parameters: Value) -> Value {
        let answer = self.try_to_ask(method, parameters);
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_to_ask(&mut self, method: &str, parameters: Value) -> Result<Value, String> {
        self.sent += 1;
        let mut message = json!({"id": self.sent, "method": method, "params": parameters});
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        self.socket.send(Message::text(message.to_string())).unwrap();
        loop {
            let answer = self.hear();
            if answer["id"] == self.sent {
                return match &answer["error"] {
                    Value::Null => Ok(answer["result"].clone()),
                    error => Err(error.to_string()),
                };
            }
        }
    }

    /// The next message of the browser: an answer, or something that has happened.
    fn hear(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.socket.read().unwrap() {
                let message: Value = serde_json::from_str(&text).unwrap();
                self.is_loaded |= message["method"] == "Page.loadEventFired";
                return message;
            }
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // It has nothing to lose.
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}
