//! Clients that others wrote drive the built program: Python, Node, and a browser. What is missing on this machine is skipped.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hankweave_testing::{Running, Skip, TestProject, clients};
use serde_json::json;

use crate::guest::Guest;
use crate::support::{port, project, shell_agent, writing_agent};

/// A run that waits for commands: one codon that ends by itself and one that does not.
fn waiting_run() -> (TestProject, Running) {
    let project = project();
    let agent = shell_agent(&project);
    let codon = |id: &str, prompt: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": prompt,
            "checkpointedFiles": ["*.txt"]})
    };
    project.write_hank(&json!({"hank": [codon("a", "one"), codon("b", "wait for go")]}));
    let running = project.start(["run", "--headless", "--no-autostart"]);
    (project, running)
}

fn token(execution: &Path, file: &str) -> String {
    let text = std::fs::read_to_string(execution.join(".hankweave").join(file)).unwrap();
    text.trim_end().to_owned()
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/integration/clients")
        .join(name)
}

/// Lets a client drive a run to its end.
fn drive(client: Result<Command, Skip>) {
    let mut client = match client {
        Ok(client) => client,
        Err(skip) => return println!("{skip}"),
    };
    let (project, running) = waiting_run();
    let directory = project.directory();
    client.arg(port(&directory).to_string());
    client.args([token(&directory, "token"), token(&directory, "token-readonly")]);
    let output = client.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        said.trim_end(),
        "done",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // The client ended the run before its plan was done.
    running.finish_within(Duration::from_secs(60)).expect_code(3);
}

#[test]
fn a_client_in_python_drives_a_run_with_two_watchers() {
    drive(clients::python().map(|mut python| {
        python.arg(script("drive.py"));
        python
    }));
}

#[test]
fn a_client_in_node_drives_a_run_with_two_watchers() {
    drive(clients::node().map(|mut node| {
        node.arg(script("drive.js"));
        node
    }));
}

/// What a browser makes of a page. Its time runs ahead of ours while it waits for a socket, so it may have to look again.
#[track_caller]
fn shows(browser: &Path, address: &str, wanted: &[&str]) {
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        let seen = rendered(browser, address);
        if wanted.iter().all(|wanted| seen.contains(wanted)) {
            return;
        }
        assert!(Instant::now() < deadline, "no {wanted:?} in {seen}");
    }
}

fn rendered(browser: &Path, address: &str) -> String {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--dump-dom",
            "--virtual-time-budget=20000",
            // A name of somebody else's that leads here, as after a rebinding.
            "--host-resolver-rules=MAP rebound.example 127.0.0.1",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(address)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Serves one page from an origin of its own, as often as it is asked for.
fn elsewhere(page: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut head = [0; 4_096];
            // Whoever hangs up does without the page.
            let _ = stream.read(&mut head);
            let length = page.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n");
            let _ = write!(stream, "{head}Connection: close\r\n\r\n{page}");
        }
    });
    port
}

// covers: F12
#[test]
fn a_browser_keeps_foreign_pages_out_and_follows_the_run_on_our_own() {
    let browser = match clients::chromium() {
        Ok(browser) => browser,
        Err(skip) => return println!("{skip}"),
    };
    let (project, running) = waiting_run();
    let directory = project.directory();
    let (port, token) = (port(&directory), token(&directory, "token"));
    let foreign = elsewhere(std::fs::read_to_string(script("foreign.html")).unwrap());

    let foreign = format!("http://127.0.0.1:{foreign}/#{port},{token}");
    shows(&browser, &foreign, &["result: refused refused"]);
    let rebound = format!("http://rebound.example:{port}/#token={token}");
    shows(&browser, &rebound, &["the Host header does not name this server"]);
    let own = format!("http://127.0.0.1:{port}/#token={token}");
    shows(&browser, &own, &["idle: a is next", "RunStarted"]);
    let mut guest = Guest::enter(&directory, "readandwrite");
    guest.command("n", "codon.next");
    shows(
        &browser,
        &own,
        &["<td>a</td><td>completed</td>", "idle: b is next"],
    );
    let initial = project.state(&directory)["initialCheckpoint"].clone();
    project
        .run(["rollback", "--to", &initial.as_str().unwrap()[..7]])
        .expect_code(0);
    shows(&browser, &own, &["<td>a</td><td>planned</td><td></td><td></td>"]);
    let without = format!("http://127.0.0.1:{port}/");
    shows(&browser, &without, &["the address lacks the token"]);

    running.signal(rustix::process::Signal::TERM);
    running.finish_within(Duration::from_secs(60)).expect_code(143);
}

#[test]
fn a_browser_says_what_is_not_known_of_a_cost() {
    let browser = match clients::chromium() {
        Ok(browser) => browser,
        Err(skip) => return println!("{skip}"),
    };
    let project = project();
    let agent = writing_agent(&project, "kill -KILL $$");
    project.write_hank(
        &json!({"hank": [{"id": "a", "name": "a", "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh", "promptText": "go"}]}),
    );
    let mut running = project.start(["run", "--headless", "--no-autostart"]);
    let directory = project.directory();
    let address = format!(
        "http://127.0.0.1:{}/#token={}",
        port(&directory),
        token(&directory, "token-readonly")
    );
    project.run(["next"]).expect_code(0);
    running.wait_for_line(|line| line.contains("failed"));
    let cost = "<td>failed</td><td>at least $0.3000</td>";
    shows(&browser, &address, &[cost, ">at least $0.3000</"]);
    running.kill();
}

#[test]
fn a_browser_shows_what_sentinels_said_last_and_what_they_cost() {
    let browser = match clients::chromium() {
        Ok(browser) => browser,
        Err(skip) => return println!("{skip}"),
    };
    let project = project();
    let agent = shell_agent(&project);
    let watching = |id: &str, script: &str| {
        json!({"sentinelConfig": {"id": id, "name": id, "answer": "json", "command": ["sh", "-c", script],
            "trigger": {"type": "event", "on": ["assistant.action"]}, "execution": {"strategy": "immediate"}}})
    };
    let dear = r#"cat > /dev/null; echo '{"text": "it <works>", "costDollars": 0.125}'"#;
    let sentinels = json!([
        watching("dear", dear),
        watching("broken", "cat > /dev/null; exit 3")
    ]);
    let codon = |id: &str| json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": "go", "sentinels": sentinels});
    project.write_hank(&json!({"hank": [codon("a"), codon("b")]}));
    let mut running = project.start(["run", "--headless", "--no-autostart"]);
    let directory = project.directory();
    let address = format!(
        "http://127.0.0.1:{}/#token={}",
        port(&directory),
        token(&directory, "token-readonly")
    );
    for codon in ["a", "b"] {
        project.run(["next"]).expect_code(0);
        running.wait_for_line(|line| line.contains(&format!("{codon}: completed")));
    }
    let said = "<td>dear</td><td>b</td><td>it &lt;works&gt;</td><td>$0.2500</td>";
    let failed = "<td>broken</td><td>b</td><td>failed: the command exited with code 3</td><td>$0.0000</td>";
    shows(&browser, &address, &[said, failed]);
    running.kill();
}
