//! Whoever does not look is told that a run waits or has ended (CLI-27).

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use hankweave_testing::TestProject;
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

/// What was told so far: the JSON, and the event and the next command from the variables.
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
    project.run(["run", "--headless", "--new"]).expect_code(1);
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
