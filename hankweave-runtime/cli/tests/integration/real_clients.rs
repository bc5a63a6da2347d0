//! Clients that others wrote drive the built program: Python, Node, and a browser. What is missing on this machine is skipped.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hankweave_testing::{Running, Skip, TestProject, clients};
use serde_json::json;

use crate::support::{port, project, shell_agent};

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
            // A foreign host name that leads here, as after a rebinding.
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
            // A client that hangs up gets no page.
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
fn a_browser_keeps_foreign_pages_and_rebound_names_out() {
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
    let own = format!("http://127.0.0.1:{port}/");
    shows(&browser, &own, &["The address lacks the token"]);

    running.signal(rustix::process::Signal::TERM);
    running.finish_within(Duration::from_secs(60)).expect_code(143);
}
