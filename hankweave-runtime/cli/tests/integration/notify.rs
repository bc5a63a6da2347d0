//! Notifications for users who do not watch a run: that it waits, or has ended (CLI-27).

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use hankweave_testing::TestProject;
use hankweave_testing::processes::Watched;
use serde_json::{Value, json};

use crate::support::{port, project, shell_agent};
use crate::terminal::Terminal;

const TELL: &str = r#"news=$(cat); printf '%s\n%s\n' "$news" "$HANKWEAVE_EVENT: $HANKWEAVE_NEXT" >> told"#;

fn write_codons(project: &TestProject, prompts: &[&str]) {
    let agent = shell_agent(project);
    let codons = prompts.iter().enumerate().map(|(number, prompt)| {
        json!({"id": format!("c{number}"), "name": "C", "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh", "promptText": prompt})
    });
    project.write_hank(&json!({"hank": codons.collect::<Vec<_>>()}));
}

/// Returns the notifications so far: the JSON, and the event and the next command from the variables.
fn told(folder: &Path) -> Vec<(Value, String)> {
    let text = fs::read_to_string(folder.join("told")).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let news = lines.chunks_exact(2);
    news.map(|news| (serde_json::from_str(news[0]).unwrap(), news[1].to_owned()))
        .collect()
}

// covers: CLI-27
#[test]
fn the_end_of_a_run_is_told_with_its_reason_and_the_command_that_goes_on() {
    let project = project();
    for (prompts, arguments, code, event, reason) in [
        (
            &["one"][..],
            &[][..],
            0,
            "completed",
            "Finished: 1 of 1 codon completed.",
        ),
        (
            &["one", "two"],
            &["--new", "--max-cost", "0.2"],
            3,
            "paused",
            "Paused ",
        ),
    ] {
        write_codons(&project, prompts);
        let run = [&["run", "--headless", "--notify", TELL], arguments].concat();
        project.run(run).expect_code(code);
        let (news, variables) = told(&project.directory()).pop().unwrap();
        assert_eq!(news["event"], event);
        assert!(news["reason"].as_str().unwrap().starts_with(reason), "{news}");
        let next = news["next"].as_str().unwrap();
        assert_eq!(variables, format!("{event}: {next}"));
        assert_eq!(next.starts_with("hankweave run "), event == "paused", "{next}");
    }
    // A command that fails changes nothing about the run.
    let failing = json!({"hank": [{"id": "a", "name": "A", "agent": {"command": ["false"], "stream": "claude"}, "model": "shell",
        "continuationMode": "fresh", "promptText": "go"}]});
    project.write_hank(&failing);
    project.write(
        "hankweave.json",
        json!({"notify": format!("{TELL}; exit 7")}).to_string(),
    );
    project
        .run(["run", "--headless", "--new", "--forget"])
        .expect_code(1);
    assert_eq!(told(&project.directory()).pop().unwrap().0["event"], "failed");
    assert_eq!(project.left_behind(), []);
    project.run(["run", "--headless", "--notify", ""]).expect_code(2);
}

// covers: CLI-27
#[test]
fn a_run_that_waits_for_a_command_says_so_and_one_that_is_stopped_does_not() {
    let project = project();
    write_codons(&project, &["one", "two"]);
    let running = project.start(["run", "--headless", "--no-autostart", "--notify", TELL]);
    let folder = project.directory();
    port(&folder);
    project.run(["next"]).expect_code(0);
    let deadline = Instant::now() + Duration::from_secs(60);
    while told(&folder).is_empty() {
        assert!(Instant::now() < deadline, "nothing was told");
        std::thread::yield_now();
    }
    running.signal(rustix::process::Signal::TERM);
    running.finish_within(Duration::from_secs(60)).expect_code(143);
    let told = told(&folder);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0["event"], "waiting");
    assert_eq!(told[0].1, "waiting: hankweave next");
}

/// Takes one request, answers with this status and returns what was posted.
fn posted(listener: &TcpListener, status: &str) -> Value {
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    loop {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).unwrap();
        request.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&request);
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        if let Some(news) = body.and_then(|body| serde_json::from_str(&body).ok()) {
            assert!(text.starts_with("POST /hook?secret=1 HTTP/1.1\r\n"), "{text}");
            write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
            .unwrap();
            return news;
        }
        assert_ne!(read, 0, "{text}");
    }
}

// covers: CLI-27
#[test]
fn a_webhook_gets_the_news_and_may_refuse_them() {
    let project = project();
    write_codons(&project, &["one"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/hook?secret=1", listener.local_addr().unwrap());
    for status in ["200 OK", "500 No"] {
        let running = project.start(["run", "--headless", "--new", "--notify", &address]);
        let news = posted(&listener, status);
        assert_eq!(news["event"], "completed");
        assert_eq!(news["reason"], "Finished: 1 of 1 codon completed.");
        let finished = running.finish_within(Duration::from_secs(60));
        assert!(!finished.expect_code(0).stderr.contains("secret=1"), "{finished}");
    }
    drop(listener);
    project
        .run(["run", "--headless", "--new", "--notify", &address])
        .expect_code(0);
}

#[test]
fn a_message_is_shown_on_the_desktop_and_the_bell_is_rung_on_a_terminal() {
    let mut project = project();
    write_codons(&project, &["one"]);
    let program = project.write(
        "bin/notify-send",
        "#!/bin/sh\nprintf '%s\\n' \"$@\" > \"$HOME/shown\"\n",
    );
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let folders = std::iter::once(program.parent().unwrap().to_owned()).chain(std::env::split_paths(&path));
    project.set("PATH", std::env::join_paths(folders).unwrap());
    project
        .run(["run", "--headless", "--notify", "desktop"])
        .expect_code(0);
    assert_eq!(
        fs::read_to_string(project.home().join("shown")).unwrap(),
        "--app-name=hankweave\n--\nhankweave: completed\nFinished: 1 of 1 codon completed.\n"
    );
    let Some(mut terminal) = Terminal::sized(&project, 14, 100, "run --new --notify bell") else {
        return;
    };
    terminal.until("Finished: 1 of 1 codon completed.");
    terminal.until("\u{7}");
    assert_eq!(terminal.close(), Some(0));
}

/// Takes one message as an ntfy server does; returns its headers by name, and its body.
fn message(listener: &TcpListener) -> (BTreeMap<String, String>, String) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    loop {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).unwrap();
        request.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert_ne!(read, 0, "{text}");
            continue;
        };
        let mut lines = head.lines();
        assert_eq!(lines.next(), Some("POST /night?auth=x HTTP/1.1"), "{text}");
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        if body.len() < headers["content-length"].parse().unwrap() {
            assert_ne!(read, 0, "{text}");
            continue;
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .unwrap();
        return (headers, body.to_owned());
    }
}

/// Sends a request to the run as a proxy does that is reached as `box.example`; returns the status and what was said.
fn through_proxy(port: u16, method: &str, path: &str, more: &str) -> (u16, String) {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: box.example\r\nContent-Length: 0\r\n{more}\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

fn path_of<'a>(action: &'a Value, label: &str) -> &'a str {
    assert_eq!(action["label"], label);
    assert_eq!(
        (&action["action"], &action["method"]),
        (&json!("http"), &json!("POST"))
    );
    action["url"]
        .as_str()
        .unwrap()
        .strip_prefix("https://box.example")
        .unwrap()
}

/// The run is detached, so that nothing else can answer by chance.
// covers: CLI-27, CLI-80, WIRE-50, STATE-65
#[test]
fn a_button_on_the_phone_approves_or_denies_once_and_can_do_nothing_else() {
    for granted in [true, false] {
        let project = project();
        let agent = shell_agent(&project);
        project.write_hank(
            &json!({"hank": [{"id": "deploy", "name": "Deploy", "agent": agent, "model": "shell",
            "continuationMode": "fresh", "promptText": "go", "approval": "May it go out?"}]}),
        );
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let topic = format!("ntfy:http://{}/night?auth=x", listener.local_addr().unwrap());
        let page = "https://box.example/";
        let started = project.run([
            "run",
            "--detach",
            "--json",
            "--notify",
            &topic,
            "--page-url",
            page,
        ]);
        let started = started.expect_code(0).json_document();
        let (headers, body) = message(&listener);
        assert_eq!(headers["title"], "hankweave: waiting");
        assert_eq!((&*headers["priority"], &*headers["tags"]), ("4", "question"));
        assert_eq!(
            body,
            "deploy waits for an approval: May it go out?\nhankweave approve"
        );
        let actions: Value = serde_json::from_str(&headers["actions"]).unwrap();
        let (approve, deny) = (path_of(&actions[0], "Approve"), path_of(&actions[1], "Deny"));
        assert_eq!(
            actions[2]["url"], "https://box.example",
            "the page gets no token: {actions}"
        );

        let folder = project.directory();
        let port = port(&folder);
        let token = approve.strip_prefix("/answer/").unwrap();
        let full = fs::read_to_string(folder.join(".hankweave/token")).unwrap();
        assert_ne!(token, full.trim());
        let upgrade = format!(
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer {token}\r\n"
        );
        assert_eq!(through_proxy(port, "GET", "/ws", &upgrade).0, 403);
        assert_eq!(through_proxy(port, "GET", approve, "").0, 405);
        let (used, other, said) = match granted {
            true => (approve, deny, "approved\n"),
            false => (deny, approve, "denied\n"),
        };
        assert_eq!(through_proxy(port, "POST", used, ""), (200, said.to_owned()));
        let (headers, body) = message(&listener);
        if granted {
            assert_eq!(headers["title"], "hankweave: completed");
            assert_eq!(body, "Finished: 1 of 1 codon completed.");
        } else {
            assert_eq!(headers["title"], "hankweave: paused");
            assert!(body.contains("it was denied"), "{body}");
        }
        assert!(!headers["actions"].contains("/answer/"), "{headers:?}");
        if let Some(run) = Watched::new(u32::try_from(started["pid"].as_u64().unwrap()).unwrap()) {
            assert!(run.ends_within(Duration::from_secs(120)));
        }
        let answers = project.run(["journal", "--json", "--type", "state.transition"]);
        let answers = answers.expect_code(0).json_lines();
        let mut answers = answers
            .iter()
            .map(|entry| &entry["data"]["transition"]["data"]["approval"]);
        let answer = answers.find(|answer| answer.is_object()).unwrap();
        assert_eq!(
            (&answer["by"], &answer["granted"]),
            (&json!("notification"), &json!(granted))
        );
        // What was sent to the phone is nowhere in the record.
        for path in project.files() {
            let bytes = fs::read(project.home().parent().unwrap().join(path)).unwrap_or_default();
            for secret in [used, other].map(|path| path.strip_prefix("/answer/").unwrap()) {
                assert!(!String::from_utf8_lossy(&bytes).contains(secret));
            }
        }
    }
}

// covers: CLI-27, WIRE-50
#[test]
fn without_an_address_of_the_page_a_message_has_no_buttons() {
    let project = project();
    write_codons(&project, &["one"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let topic = format!("ntfy:http://{}/night?auth=x", listener.local_addr().unwrap());
    let running = project.start(["run", "--headless", "--notify", &topic]);
    let (headers, body) = message(&listener);
    assert_eq!(headers["title"], "hankweave: completed");
    assert_eq!(
        (headers.get("actions"), &*body),
        (None, "Finished: 1 of 1 codon completed.")
    );
    running.finish_within(Duration::from_secs(60)).expect_code(0);
    for wrong in [
        "box.example",
        "ftp://box.example",
        "https://",
        "https://u:p@box",
        "https://box/?token=1",
    ] {
        project.run(["run", "--page-url", wrong]).expect_code(2);
    }
}
