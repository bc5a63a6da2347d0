//! The page of a run in a real browser (WIRE-28): what it shows, what it commands, and what it does not let in.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hankweave_testing::{Running, TestProject, clients};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::differences::reviewed;
use crate::playwright::Page;
use crate::support::{port, project, shell_agent, writing_agent};

pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Returns the browser, or says why there is none that can be driven.
pub(crate) fn browser() -> Option<PathBuf> {
    let found = clients::playwright().and_then(|_| clients::chromium());
    found.map_err(|skip| println!("{skip}")).ok()
}

pub(crate) fn address(project: &TestProject, token: &str) -> String {
    let directory = project.directory();
    // The tokens are there before the port.
    let port = port(&directory);
    let token = std::fs::read_to_string(directory.join(".hankweave").join(token)).unwrap();
    format!("http://127.0.0.1:{port}/#token={}", token.trim_end())
}

pub(crate) fn codon(agent: &Value, id: &str, name: &str, prompt: &str) -> Value {
    json!({"id": id, "name": name, "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": prompt,
        "checkpointedFiles": ["*.txt"]})
}

/// A run with its page. The directory goes with `project`, so a test binds it as long as it needs the others.
pub(crate) struct Watched {
    pub(crate) project: TestProject,
    pub(crate) running: Running,
    pub(crate) page: Page,
    pub(crate) browser: PathBuf,
}

impl Watched {
    /// Starts a run that waits for commands, and opens its page with the token in this file.
    fn start(browser: PathBuf, project: TestProject, codons: &Value, token: &str) -> Self {
        project.write_hank(&json!({"hank": codons}));
        let running = project.start(["run", "--headless", "--no-autostart"]);
        let page = Page::open(&browser, &address(&project, token));
        Self {
            project,
            running,
            page,
            browser,
        }
    }

    /// Three codons, of which the second one waits.
    pub(crate) fn three(browser: PathBuf) -> Self {
        let project = project();
        let agent = shell_agent(&project);
        let codons = json!([
            codon(&agent, "a", "Build it", "one"),
            codon(&agent, "b", "Review it", "wait for go"),
            codon(&agent, "c", "Ship it", "three"),
        ]);
        Self::start(browser, project, &codons, "token")
    }

    /// Two codons, of which the second one asks first.
    pub(crate) fn asking(browser: PathBuf, token: &str) -> Self {
        let project = project();
        let agent = shell_agent(&project);
        let mut deploy = codon(&agent, "deploy", "Deploy it", "two");
        deploy["approval"] = json!("Deploy to production?");
        let codons = json!([codon(&agent, "one", "Build it", "one"), deploy]);
        Self::start(browser, project, &codons, token)
    }
}

fn done(project: &TestProject) -> String {
    std::fs::read_to_string(project.directory().join("done.txt")).unwrap_or_default()
}

/// Opens the question of a button, and says yes.
#[track_caller]
fn command(page: &mut Page, button: &str) {
    page.click(button);
    page.click("sure");
}

// covers: WIRE-28
#[test]
fn the_page_follows_a_run_over_a_reload_and_a_server_that_is_killed() {
    let Some(browser) = browser() else { return };
    let Watched {
        project,
        running,
        mut page,
        ..
    } = Watched::three(browser);
    page.until("document.title.startsWith('… Waits for a command')");
    assert_eq!(
        page.evaluate("location.hash"),
        "",
        "the token is no longer in the address bar"
    );
    let (errors, start) = page.as_app();
    assert_eq!((errors, start), (json!([]), json!(address(&project, "token"))));
    command(&mut page, "next");
    page.until_shows("Waits for a command");
    page.until(
        "document.querySelector('.attempt')?.getAttribute('aria-label').includes('Build it: completed')",
    );
    page.until_shows("working");
    let status = project.run(["status"]);
    assert!(status.expect_code(0).stdout.contains("$0.2500"), "{status}");
    page.until("document.getElementById('cost').textContent.includes('$0.2500')");

    command(&mut page, "next");
    page.until("document.title.startsWith('▶ Runs Review it')");
    page.reload();
    page.until("document.title.startsWith('▶ Runs Review it')");
    page.until("document.getElementById('transcript')?.innerText.includes('working')");
    page.until("document.getElementById('status').textContent.includes(', for ')");

    // A moment has an address, which holds over a reload.
    let moment = page.evaluate(
        "[...document.querySelectorAll('li.m')].find((each) => each.innerText.includes('working')).querySelector('.t').getAttribute('href')",
    );
    page.evaluate(&format!("location.hash = {moment}"));
    page.until("document.querySelector('.m.here')?.innerText.includes('working')");
    page.reload();
    page.until("document.querySelector('.m.here')?.innerText.includes('working')");
    page.press("f");
    page.until("location.hash === ''");

    running.kill();
    page.until_shows("The run does not answer");
    page.until_shows("no connection");
    page.until_shows("hankweave status -e ");
    page.until("document.querySelector('.attempt[aria-current]').getAttribute('aria-label').includes('Review it: unknown')");
    page.until("!/running|trying/.test(document.getElementById('main').innerText)");
    assert_eq!(page.evaluate("document.title.startsWith('∅')"), true);
    let running = project.start(["run", "--headless"]);
    page.until("document.title.startsWith('▶ Runs Review it')");
    command(&mut page, "skip");
    page.until_shows("Every codon of the plan");
    page.until("document.title.startsWith('✓ Completed')");
    page.until_shows("hankweave history");
    running.finish_within(SOON).expect_code(0);
    // What it showed last stays.
    page.until("document.getElementById('link').textContent !== 'live'");
    page.until_shows("Every codon of the plan");
}

// covers: WIRE-42
#[test]
fn an_open_page_goes_on_with_the_next_run() {
    let Some(browser) = browser() else { return };
    let Watched {
        project,
        running,
        mut page,
        ..
    } = Watched::three(browser);
    command(&mut page, "next");
    page.until_shows("$0.2500");
    project.run(["stop"]).expect_code(0);
    running.finish_within(SOON).expect_code(3);
    page.until("document.title.startsWith('■ Stopped')");
    page.until("document.getElementById('link').textContent === 'ended'");

    let running = project.start(["run", "--headless"]);
    page.until("document.getElementById('link').textContent === 'live'");
    page.until("document.title.startsWith('▶ Runs Review it')");
    page.until("document.getElementById('transcript')?.innerText.includes('working')");
    command(&mut page, "stop");
    running.finish_within(SOON).expect_code(3);
    page.until("document.title.startsWith('■ Stopped')");

    // A port that is named wins, and the directory keeps its own.
    let noted = || std::fs::read_to_string(project.directory().join(".hankweave/port")).unwrap();
    let own = noted();
    let named = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let running = project.start(["run", "--headless", "--port", &named.to_string()]);
    assert_eq!(port(&project.directory()), named);
    project.run(["stop"]).expect_code(0);
    running.finish_within(SOON).expect_code(3);
    assert_eq!(noted(), own);

    // Another program has the port: the run says so and takes the next one.
    let _stranger = TcpListener::bind(format!("127.0.0.1:{}", own.trim_end())).unwrap();
    let running = project.start(["run", "--headless"]);
    let next = port(&project.directory());
    let address = project.run(["page"]).expect_code(0).stdout.clone();
    assert!(
        address.starts_with(&format!("http://127.0.0.1:{next}/#")),
        "{address}"
    );
    project.run(["stop"]).expect_code(0);
    let finished = running.finish_within(SOON);
    let said = format!("another program has port {}", own.trim_end());
    assert!(finished.expect_code(3).stderr.contains(&said), "{finished}");
    assert_eq!(noted(), own);
}

/// A program of another user at the port of a run that has ended: it keeps what it is sent, and answers as our server would.
struct Stranger {
    port: u16,
    is_over: Arc<AtomicBool>,
    heard: JoinHandle<String>,
}

impl Stranger {
    fn at(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let heard = std::thread::spawn(move || {
            let mut heard = String::new();
            while let Ok((stream, _)) = listener.accept() {
                if flag.load(Ordering::SeqCst) {
                    break;
                }
                answer(stream, &mut heard);
            }
            heard
        });
        Self { port, is_over, heard }
    }

    /// Frees the port, and returns everything that was sent to it.
    fn leave(self) -> String {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        self.heard.join().unwrap()
    }
}

fn answer(mut stream: TcpStream, heard: &mut String) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    // A browser that hangs up does without the answer.
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        heard.push_str(&line);
        line.clear();
    }
    let body = json!({"proofs": ["0".repeat(64), "1".repeat(64)]}).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}",
        body.len()
    );
    let _ = write!(stream, "{head}\r\nConnection: close\r\n\r\n{body}");
}

// covers: WIRE-44
#[test]
fn a_program_that_takes_the_port_of_an_ended_run_gets_no_token() {
    let Some(browser) = browser() else { return };
    let Watched {
        project,
        running,
        mut page,
        ..
    } = Watched::three(browser);
    page.until_shows("Waits for a command");
    let own = port(&project.directory());
    project.run(["stop"]).expect_code(0);
    running.finish_within(SOON).expect_code(3);
    let stranger = Stranger::at(own);
    page.until("document.getElementById('link').textContent === 'another program'");
    page.until_shows("it did not get the token");
    let heard = stranger.leave();
    assert!(heard.contains("GET /proof?nonce="), "{heard}");
    let token = std::fs::read_to_string(project.directory().join(".hankweave/token")).unwrap();
    for secret in [token.trim_end(), "bearer", "/ws"] {
        assert!(!heard.to_lowercase().contains(secret), "{secret} in {heard}");
    }
    let running = project.start(["run", "--headless", "--no-autostart"]);
    assert_eq!(port(&project.directory()), own);
    page.until("document.getElementById('link').textContent === 'live'");
    running.kill();
}

/// Serves what is recorded in the project, and opens its page.
pub(crate) fn viewed(browser: &Path, project: &TestProject, arguments: &[&str]) -> (Running, Page) {
    let (viewing, address) = viewing(project, arguments);
    (viewing, Page::open(browser, &address))
}

/// Starts `hankweave view` and returns the address of its page.
pub(crate) fn viewing(project: &TestProject, arguments: &[&str]) -> (Running, String) {
    let mut viewing = project.start(["view", "--json"].iter().chain(arguments));
    let line = viewing.wait_for_line(|line| line.starts_with('{'));
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(told["access"], "read-only");
    (viewing, told["address"].as_str().unwrap().to_owned())
}

// covers: WIRE-46
#[test]
fn runs_that_have_ended_are_served_and_a_run_that_starts_is_followed() {
    let Some(browser) = browser() else { return };
    let Watched {
        project,
        running,
        mut page,
        browser,
    } = Watched::three(browser);
    command(&mut page, "next");
    page.until_shows("$0.2500");
    project.run(["stop"]).expect_code(0);
    running.finish_within(SOON).expect_code(3);
    page.until("document.getElementById('link').textContent === 'ended'");
    let state_dir = project.directory().join(".hankweave");
    let record = || ["state.json", "state.log"].map(|file| std::fs::read(state_dir.join(file)).unwrap());
    let before = record();

    // The page that was open continues with the server of `view`, and may no longer command although its token could.
    let (first, address) = viewing(&project, &[]);
    page.until("document.getElementById('link').textContent === 'connected'");
    page.until_shows("read-only");
    assert_eq!(page.evaluate("document.querySelectorAll('.btn').length"), 0);
    let mut viewer = Page::open(&browser, &address);
    viewer.until("document.title.startsWith('■ Stopped') && document.title.includes('$0.2500')");
    viewer.evaluate("location.hash = '#/a.1.1'");
    viewer.until("document.getElementById('transcript')?.innerText.includes('working')");
    viewer.evaluate("location.hash = '#/a.1.1/changes'");
    viewer.until("document.querySelector('.diff')?.innerText.includes('done.txt')");
    viewer.until_shows("one");
    assert!(record() == before, "the record is as it was");
    let state = project.state(&project.directory());
    let stopped = state["runs"][0]["runId"].as_str().unwrap().to_owned();

    // A run that starts has another port, and the page still follows it.
    viewer.press("f");
    let running = project.start(["run", "--headless"]);
    viewer.until("document.title.startsWith('▶ Runs Review it')");
    viewer.until("document.getElementById('transcript')?.innerText.includes('working')");
    let page_of_run = project.run(["page"]).expect_code(0).stdout.clone();
    assert!(
        !page_of_run.starts_with(address.split('#').next().unwrap()),
        "{page_of_run}"
    );
    let killed = running.kill();
    assert!(
        killed.stderr.contains("only if it is that of `hankweave view`"),
        "{killed}"
    );
    viewer.until("document.title.startsWith('✗ Crashed')");

    // An earlier run is shown as it ended.
    let (second, earlier) = viewing(&project, &["--run", &stopped[stopped.len() - 6..]]);
    assert_ne!(earlier, address);
    let mut earlier = Page::open(&browser, &earlier);
    earlier.until("document.title.startsWith('■ Stopped')");
    for viewing in [first, second] {
        viewing.signal(Signal::INT);
        viewing.finish_within(SOON).expect_code(130);
    }
    viewer.until("document.getElementById('link').textContent === 'ended'");

    let unknown = project.run(["view", "--run", "no-such-run"]);
    assert!(
        unknown.expect_code(65).stderr.contains("history --all"),
        "{unknown}"
    );
    let empty = project.home().join("empty");
    std::fs::create_dir_all(empty.join(".hankweave")).unwrap();
    project.run(["view", empty.to_str().unwrap()]).expect_code(65);
}

// covers: WIRE-45
#[test]
fn changes_are_shown_as_a_review_shows_them() {
    let Some(browser) = browser() else { return };
    let project = project();
    let running = reviewed(&project);
    let address = address(&project, "token-readonly");
    let mut page = Page::open(&browser, &address);
    page.until_shows("Review it");
    page.click("tab-changes");
    page.until("document.querySelectorAll('.diff').length === 6");
    let names = page.evaluate(
        "[...document.querySelectorAll('.changed .files a')].map((each) => each.getAttribute('aria-label'))",
    );
    assert_eq!(
        names,
        json!([
            "created: <img src=x onerror=\"document.title=1\">⟨U+202E⟩.txt",
            "modified: big.txt",
            "created: hostile.html",
            "renamed: new/name.txt",
            "modified: picture",
            "modified: src/main.rs"
        ])
    );
    // Lines of a file are found by its real name.
    page.until("document.querySelector('.diff').innerText.includes('hello')");
    page.until_shows("old/name.txt → new/name.txt");
    page.until_shows("binary, 3 B → 3 B");
    let last =
        "document.querySelectorAll('.diff').length === 6 && (scrollTo(0, document.body.scrollHeight), true)";
    page.until(last);
    page.until_shows("</div><script>document.title=2</script>");
    page.until_shows("three();");
    let planted = "document.querySelectorAll('main img, main script, main bdi b').length";
    assert_eq!(page.evaluate(planted), 0);

    // A line has an address, which holds over a reload, and for others once they have pasted a token.
    let line = page.evaluate("[...document.querySelectorAll('.ln')].find((each) => each.innerText.includes('three();')).querySelector('a').getAttribute('href')");
    assert_eq!(line, "#/b.1.1/changes/src/main.rs:R3");
    page.evaluate(&format!("location.hash = {line}"));
    let here = "document.querySelector('.ln.here')?.innerText.includes('three();')";
    page.until(here);
    page.reload();
    page.until(here);
    let sent = page.evaluate("location.href");
    let sent = sent.as_str().unwrap();
    assert!(!sent.contains("token"), "{sent}");
    let mut other = Page::open(&browser, sent);
    other.until_shows("The address lacks the token");
    other.evaluate("document.getElementById('paste').focus()");
    other.write_and_load(&address);
    other.until(here);

    // Against another checkpoint everything is new; a long file is folded, and few of its rows are in the document.
    page.evaluate("{ const base = document.getElementById('base'); base.value = base.options[1].value; base.dispatchEvent(new Event('change', { bubbles: true })); }");
    page.until("location.hash.includes('?from=')");
    page.until("document.querySelector('.changed .h3')?.innerText.includes('+30.0k')");
    page.until("document.querySelectorAll('.diff').length === 6");
    let from = page.evaluate("location.hash.split('?from=')[1]");
    let from = from.as_str().unwrap();
    let rows = "document.querySelectorAll('.ln').length";
    page.evaluate(&format!(
        "location.hash = '#/b.1.1/changes/big.txt:R30000?from={from}'"
    ));
    page.until("document.querySelector('.ln.here')?.innerText.includes('end')");
    page.until("document.querySelector('.ln.here').getBoundingClientRect().top > 0 && document.querySelector('.ln.here').getBoundingClientRect().top < innerHeight");
    assert!(
        page.evaluate(rows).as_u64().unwrap() <= 300,
        "{}",
        page.evaluate(rows)
    );
    page.evaluate(&format!(
        "location.hash = '#/b.1.1/changes/big.txt:R12345?from={from}'"
    ));
    page.until("document.querySelector('.ln.here')?.innerText.includes('12346')");
    assert!(
        page.evaluate(rows).as_u64().unwrap() <= 300,
        "{}",
        page.evaluate(rows)
    );
    page.press("1");
    page.until("document.getElementById('transcript')?.innerText.includes('I work.')");
    running.kill();
}

// covers: WIRE-47
#[test]
fn the_report_is_on_the_page_of_a_run_and_of_its_record() {
    let Some(browser) = browser() else { return };
    let Watched {
        project,
        running,
        mut page,
        browser,
    } = Watched::three(browser);
    command(&mut page, "next");
    page.until_shows("$0.2500");
    page.click("to-report");
    page.until("document.activeElement.id === 'report'");
    page.until("document.querySelector('#report .h')?.innerText.length > 5");
    page.until(
        "[...document.querySelectorAll('#report td')].some((cell) => cell.innerText.includes('Build it'))",
    );
    page.until("document.getElementById('report').innerText.includes('done.txt')");
    project.run(["stop"]).expect_code(0);
    running.finish_within(SOON).expect_code(3);
    let (viewing, mut viewer) = viewed(&browser, &project, &[]);
    viewer.until("document.title.startsWith('■ Stopped')");
    viewer.click("to-report");
    viewer.until("document.querySelector('#report .h')?.innerText.includes('stopped')");
    let printed = project.run(["report"]).expect_code(0).stdout.clone();
    assert!(printed.contains("Build it"), "{printed}");
    viewing.signal(Signal::INT);
    viewing.finish_within(SOON).expect_code(130);
}

// covers: CLI-30, WIRE-28
#[test]
fn questions_are_answered_on_the_page_and_every_tab_sees_it() {
    let Some(browser) = browser() else { return };
    for (button, code, files) in [("approve", 0, "one\ntwo\n"), ("deny", 3, "one\n")] {
        let Watched {
            project,
            running,
            mut page,
            browser,
        } = Watched::asking(browser.clone(), "token");
        let mut other = Page::open(&browser, &address(&project, "token"));
        command(&mut page, "next");
        for tab in [&mut page, &mut other] {
            tab.until_shows("Deploy to production?");
            tab.until("document.title.startsWith('? Waits for you before “Deploy it”')");
            tab.until("document.querySelector('#approve')");
        }
        // A key opens the question at its reason and answers nothing; what is typed then is no key.
        page.press(&button[..1]);
        page.until("document.activeElement?.name === 'reason'");
        page.click("back");
        page.press(&button[..1]);
        page.until("document.activeElement?.name === 'reason'");
        page.write("looked at it");
        page.until_shows("--reason 'looked at it'");
        page.press("Enter");
        if button == "deny" {
            page.until("document.activeElement?.id === 'sure'");
            page.press("Enter");
        }
        if code == 0 {
            for tab in [&mut page, &mut other] {
                tab.until("!document.getElementById('approve')");
                tab.until("document.title.startsWith('… Waits for a command')");
                // The title changes at once, and the page with its next drawing.
                tab.until_shows("Nothing runs until you start it");
                tab.until("!document.body.innerText.includes('starting')");
            }
            project.run(["stop"]).expect_code(0);
        }
        running.finish_within(SOON).expect_code(code);
        assert_eq!(done(&project), files, "{button}");
        let journal = project.run(["journal"]).expect_code(0).stdout.clone();
        assert!(journal.contains("looked at it"), "the reason is kept: {journal}");
    }
}

/// Takes the place of the browser's notifications, which a browser without a screen does not show, and hides the tab.
const NOTIFICATIONS: &str = "window.told = []; window.played = []; window.Notification = class {
    static permission = 'default';
    static async requestPermission() { return (Notification.permission = 'granted'); }
    constructor(title, options) { window.told.push([title, options.body]); }
}; window.AudioContext = class {
    currentTime = 0;
    createGain() { return { gain: {}, connect() {} }; }
    createOscillator() { return { frequency: {}, connect() {}, start() { window.played.push(this.frequency.value); }, stop() {} }; }
}; Object.defineProperty(document, 'visibilityState', { get: () => 'hidden' }); 0";

#[test]
fn a_hidden_tab_notifies_of_a_question_once_the_user_asked_for_that() {
    let Some(browser) = browser() else { return };
    let Watched {
        project,
        running,
        mut page,
        ..
    } = Watched::asking(browser, "token-readonly");
    page.until_shows("Waits for a command");
    page.evaluate(NOTIFICATIONS);
    page.click("notify");
    page.until_shows("Notifies you");
    project.run(["next"]).expect_code(0);
    page.until_shows("Deploy to production?");
    let question = json!([
        "Waits for an approval before “Deploy it”",
        "Deploy to production?"
    ]);
    page.until(&format!(
        "JSON.stringify(window.told).includes(JSON.stringify({question}))"
    ));
    // The run waited for a command before that.
    page.until("window.played.slice(-2).join() === '880,660'");
    running.kill();
}

// covers: WIRE-7
#[test]
fn an_address_that_only_watches_has_no_buttons_and_says_so_once() {
    let Some(browser) = browser() else { return };
    let Watched {
        project,
        running,
        mut page,
        ..
    } = Watched::asking(browser, "token-readonly");
    page.until_shows("Waits for a command");
    page.until_shows("This address only watches.");
    let above = "document.querySelector('.once').compareDocumentPosition(document.querySelector('#attention')) & Node.DOCUMENT_POSITION_FOLLOWING";
    assert_ne!(page.evaluate(above), 0, "who may not answer reads that first");
    project.run(["next"]).expect_code(0);
    page.until_shows("Deploy to production?");
    let offers = "document.querySelector('#attention .effects').innerText";
    let offers = page.evaluate(offers).as_str().unwrap().to_owned();
    assert!(
        offers.contains("If approved") && offers.contains("If denied"),
        "{offers}"
    );
    let buttons = "[...document.querySelectorAll('.btn')].map((button) => button.id)";
    assert_eq!(page.evaluate(buttons), json!([]));
    let told = page.evaluate("document.body.innerText.split('This address only watches.').length");
    assert_eq!(told, 2);
    running.kill();
}

#[test]
fn the_page_lists_the_plan_skips_stops_and_rolls_back() {
    let Some(browser) = browser() else { return };
    let Watched {
        project,
        running,
        mut page,
        ..
    } = Watched::three(browser);
    page.until("document.querySelectorAll('.row.todo').length === 3");
    command(&mut page, "next");
    page.until("document.querySelectorAll('.row.todo').length === 2");
    command(&mut page, "next");
    page.until_shows("Runs Review it");
    // An agent that has said nothing has cost nothing.
    page.until("document.querySelector('#codon h2')?.innerText.includes('Review it') && document.getElementById('transcript')?.innerText.includes('working')");
    project.write("notes.txt", "one\n");
    page.click("skip");
    page.until_shows("hankweave skip ");
    page.click("sure");
    page.until("[...document.querySelectorAll('.attempt')].some((bar) => bar.getAttribute('aria-label').includes('Review it: skipped'))");
    // The checkpoint of the first codon.
    page.evaluate("location.hash = '#/a.1.1'");
    page.click("rollback");
    page.until_shows("Undoes 1 later attempt.");
    // The user reads what would change before a confirmation.
    let preview = "document.getElementById('preview')?.innerText ?? ''";
    for part in [
        "Review it",
        "skipped, unknown",
        "notes.txt",
        "is removed",
        "1 file, compared with the newest checkpoint:",
    ] {
        page.until(&format!("({preview}).includes('{part}')"));
    }
    page.until_shows("hankweave rollback --to ");
    page.click("sure");
    page.until("document.querySelectorAll('.row.todo').length === 2");
    // It is undone, and made again.
    page.click("undo");
    page.until_shows("hankweave undo ");
    page.until(&format!("({preview}).includes('comes back')"));
    page.click("sure");
    page.until("document.querySelectorAll('.row.todo').length === 1");
    let notes = project.directory().join("notes.txt");
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "one\n");
    page.until("!document.getElementById('undo')");
    page.evaluate("location.hash = '#/a.1.1'");
    command(&mut page, "rollback");
    page.until("document.querySelectorAll('.row.todo').length === 2");
    assert!(!notes.exists());
    command(&mut page, "next");
    page.until_shows("Runs Review it");
    command(&mut page, "stop");
    page.until("document.title.startsWith('■ Stopped')");
    page.until_shows("starts from the first codon with the files as they are");
    running.finish_within(SOON).expect_code(3);
}

#[test]
fn the_page_says_what_is_not_known_of_a_cost() {
    let Some(browser) = browser() else { return };
    let project = project();
    let agent = writing_agent(&project, "kill -KILL $$");
    let codons = json!([{"id": "a", "name": "a", "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh", "promptText": "go"}]);
    let Watched {
        project,
        mut running,
        mut page,
        ..
    } = Watched::start(browser, project, &codons, "token-readonly");
    project.run(["next"]).expect_code(0);
    running.wait_for_line(|line| line.contains("failed"));
    page.until("document.getElementById('cost')?.textContent === 'at least $0.3000'");
    page.until_shows("≥ $0.3000");
    running.kill();
}

#[test]
fn the_page_shows_what_sentinels_said_last_and_what_they_cost() {
    let Some(browser) = browser() else { return };
    let project = project();
    let agent = shell_agent(&project);
    let watching = |id: &str, script: &str| {
        json!({"sentinelConfig": {"id": id, "name": id, "answer": "json", "command": ["sh", "-c", script],
            "trigger": {"type": "event", "on": ["assistant.action"]}, "execution": {"strategy": "immediate"}}})
    };
    let dear = r#"cat > /dev/null; echo '{"text": "it <works>", "costDollars": 0.125}'"#;
    let broken = watching("broken", "cat > /dev/null; exit 3");
    let mut watched = codon(&agent, "a", "a", "go");
    watched["sentinels"] = json!([watching("dear", dear), broken]);
    let Watched {
        project,
        mut running,
        mut page,
        ..
    } = Watched::start(browser, project, &json!([watched]), "token-readonly");
    project.run(["next"]).expect_code(0);
    running.wait_for_line(|line| line.contains("a: completed"));
    page.until("document.getElementById('sentinels')?.innerText.includes('it <works>')");
    page.until("document.getElementById('sentinels').innerText.includes('$0.1250')");
    page.until("document.getElementById('sentinels').innerText.includes('the command exited with code 3')");
    running.kill();
}

/// Says everything that a page may trip over, and writes a file whose name is markup.
pub(crate) const HOSTILE: &str = r#"cat > /dev/null
printf '%s\n' '{"type":"system","subtype":"init","session_id":"s-1","model":"shell","cwd":"/","tools":[]}'
say() { printf '{"type":"assistant","session_id":"s-1","message":{"id":"%s","role":"assistant","model":"shell","content":[%s],"usage":{"input_tokens":1,"output_tokens":1}}}\n' "$1" "$2"; }
say m-1 '{"type":"text","text":"<img src=x onerror=\"document.title=7\"><script>document.title=8</script> [go](javascript:alert(1))"}'
say m-2 '{"type":"text","text":"\u001b[31mred\u001b[0m \u202egnp.exe \u0007 **bold** `x<y`"}'
say m-3 '{"type":"tool_use","id":"t-1","name":"Bash<b>","input":{"command":"echo \"</pre><script>document.title=9</script>\""}}'
touch '<img src=x onerror=alert(1)>.txt'
long=$(head -c 3000000 /dev/zero | tr '\0' x)
say m-4 "{\"type\":\"text\",\"text\":\"$long\"}"
say m-5 '{"type":"text","text":"the end of it"}'
exec sleep 600
"#;

#[test]
fn agents_cannot_write_into_the_page() {
    let Some(browser) = browser() else { return };
    let project = project();
    let agent = json!({"command": ["sh", project.write("hostile.sh", HOSTILE)], "stream": "claude"});
    let mut hostile = codon(&agent, "a", "<b>Build</b> it", "go");
    hostile["approval"] = json!("<i>Really</i>?");
    let Watched {
        project: _project,
        running,
        mut page,
        ..
    } = Watched::start(browser, project, &json!([hostile]), "token");
    page.until_shows("<i>Really</i>?");
    command(&mut page, "approve");
    page.until("document.title.startsWith('▶ Runs <b>Build</b> it')");
    page.until("document.getElementById('transcript')?.innerText.includes('the end of it')");
    let all = "document.getElementById('transcript').scrollTop = 0";
    page.evaluate(all);
    page.until_shows("<img src=x onerror=");
    page.until_shows("red ⟨U+202E⟩gnp.exe ⟨U+0007⟩");
    page.until_shows("Bash<b>");
    let planted = "document.querySelectorAll('main img, main script, main i i, h1 b b, h2 b, a[href^=javascript]').length";
    assert_eq!(page.evaluate(planted), 0);
    let length = page.evaluate("document.getElementById('transcript').innerText.length");
    assert!(length.as_u64().unwrap() < 100_000, "{length}");
    running.kill();
}

#[test]
fn nothing_on_the_page_keeps_people_out() {
    let Some(browser) = browser() else { return };
    let axe = match clients::axe() {
        Ok(axe) => axe,
        Err(skip) => return println!("{skip}"),
    };
    let Watched {
        project: _project,
        running,
        mut page,
        ..
    } = Watched::asking(browser, "token");
    page.evaluate(&format!("{axe}; 0"));
    page.until_shows("Waits for a command");
    command(&mut page, "next");
    page.until_shows("Deploy to production?");
    page.until_shows("working");
    axe_finds_nothing(&mut page);
    page.evaluate("location.hash = '#/one.1.1/changes'");
    // Only rows near the part that is seen are drawn.
    page.until("scrollTo(0, document.body.scrollHeight), document.querySelector('.ln')");
    axe_finds_nothing(&mut page);
    page.evaluate("location.hash = '#/one.1.1/prompt'");
    page.until("document.getElementById('prompt')");
    axe_finds_nothing(&mut page);
    page.evaluate("location.hash = '#/plan/deploy'");
    page.until("document.getElementById('terms')");
    axe_finds_nothing(&mut page);
    running.kill();
}

/// Looks at the page with axe in two sizes, light and dark.
pub(crate) fn axe_finds_nothing(page: &mut Page) {
    for size in [(1_440, 900), (390, 844)] {
        for scheme in ["light", "dark"] {
            page.resize(size, scheme);
            let violations = page.evaluate(
                "axe.run().then((found) => found.violations.map((each) => each.id + ': ' + each.nodes.map((node) => node.html).join(' ')))",
            );
            assert_eq!(violations, json!([]), "{size:?} {scheme}");
            let width = page.evaluate("document.documentElement.scrollWidth <= innerWidth");
            assert_eq!(width, true, "{size:?}: the page is too wide");
        }
    }
}
