//! Watching and commanding the built program over its socket (WIRE-1).

use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use hankweave_testing::{Running, TestProject};
use serde_json::{Value, json};

use crate::guest::{Guest, knock};
use crate::support::{project, shell_agent};

fn write_hank(project: &TestProject, prompts: &[&str]) {
    let agent = shell_agent(project);
    let codons = prompts.iter().zip('a'..).map(|(prompt, id)| {
        json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": prompt,
            "checkpointedFiles": ["*.txt"]})
    });
    project.write_hank(&json!({"hank": codons.collect::<Vec<_>>()}));
}

fn start(project: &TestProject, flags: &[&str]) -> Running {
    project.start(["run", "--headless"].iter().chain(flags))
}

#[test]
fn a_client_takes_a_run_through_its_codons() {
    let project = project();
    write_hank(&project, &["one", "two"]);
    let running = start(&project, &["--no-autostart"]);
    let directory = project.directory();
    let mut guest = Guest::enter(&directory, "readandwrite");
    guest.idle("startup");
    for id in ["1", "2"] {
        assert_eq!(guest.command(id, "codon.next")["type"], "command.ack");
        guest.until(|message| message["type"] == "codon.completed");
        guest.until(|message| message["type"] == "server.idle");
    }
    assert_eq!(guest.command("3", "codon.next")["data"]["code"], "NOTHING_NEXT");
    assert_eq!(
        guest.command("4", "server.shutdown")["data"]["outcome"],
        "shutting-down"
    );
    let finished = running.finish_within(Duration::from_secs(60));
    finished.expect_code(0);
    let done = std::fs::read_to_string(directory.join("done.txt")).unwrap();
    assert_eq!(done, "one\ntwo\n");
    assert!(!directory.join(".hankweave/server.lock").exists());

    let token = std::fs::read_to_string(directory.join(".hankweave/token")).unwrap();
    let address = "page: http://127.0.0.1:";
    let pages: Vec<&str> = finished
        .stderr
        .lines()
        .filter(|line| line.starts_with(address))
        .collect();
    assert_eq!(pages.len(), 1, "{finished}");
    let reading = std::fs::read_to_string(directory.join(".hankweave/token-readonly")).unwrap();
    let whole = "(`hankweave page` prints the whole address)";
    assert!(pages[0].ends_with(whole), "{}", pages[0]);
    // What is printed lands in logs of others.
    for token in [&token, &reading] {
        assert!(!finished.stderr.contains(token.trim_end()), "{finished}");
    }
    // The token is in no log, lock or journal, nor in what is printed for programs (WIRE-27).
    assert!(!finished.stdout.contains(token.trim_end()));
    for file in project.files() {
        let path = directory.parent().unwrap().join(&file);
        let is_token = file.ends_with(".hankweave/token");
        if path.is_file() && !is_token {
            let bytes = std::fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(
                !text.contains(token.trim_end()),
                "the token stands in {}",
                file.display()
            );
        }
    }
}

// A second stop forces: exit code 3 as after the first one, and nothing is left behind.
// covers: CLI-1, P9
#[test]
fn a_forced_end_is_unfinished_on_purpose_as_well() {
    for names in [
        &["server.force_shutdown"][..],
        &["server.shutdown", "server.shutdown"],
    ] {
        let project = project();
        write_hank(&project, &["wait for go"]);
        let script = project.directory().join("agent.sh");
        let stubborn = "trap '' TERM\nwhile true; do sleep 600; done";
        let text = std::fs::read_to_string(&script)
            .unwrap()
            .replace("exec sleep 600", stubborn);
        project.write("agent.sh", text);
        let running = start(&project, &[]);
        let mut guest = Guest::enter(&project.directory(), "readandwrite");
        guest.until(|message| message["type"] == "assistant.action");
        for (id, name) in names.iter().enumerate() {
            guest.command(&id.to_string(), name);
        }
        let finished = running.finish_within(Duration::from_secs(60));
        finished.expect_code(3);
        assert!(project.left_behind().is_empty(), "{names:?}");
    }
}

// covers: F20, WIRE-1
#[test]
fn clients_that_come_and_go_change_nothing() {
    let project = project();
    write_hank(&project, &["one", "wait for go", "three"]);
    let running = start(&project, &[]);
    for _ in 0..5 {
        drop(Guest::enter(&project.directory(), "readandwrite"));
    }
    let mut reader = Guest::enter(&project.directory(), "readonly");
    assert_eq!(
        reader.command("n", "codon.skip")["data"]["code"],
        "INSUFFICIENT_PERMISSIONS"
    );
    let mut guest = Guest::enter(&project.directory(), "readandwrite");
    guest.until(|message| message["type"] == "codon.started" && message["data"]["codonId"] == "b");
    guest.command("s", "codon.skip");
    guest.idle("all-codons-completed");
    let last = Instant::now();
    running.finish_within(Duration::from_secs(60)).expect_code(0);
    assert!(
        last.elapsed() > Duration::from_millis(800),
        "clients see the end: {:?}",
        last.elapsed()
    );
    let state = project.state(&project.directory());
    let statuses: Vec<&Value> = state["runs"][0]["codons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|codon| &codon["status"])
        .collect();
    assert_eq!(statuses, ["completed", "skipped", "completed"]);
}

const WRITER: &str = r#"cat > /dev/null
echo '{"type":"system","subtype":"init","session_id":"s-1","model":"m","cwd":"/","tools":[]}'
printf 'hello\n' > hello.txt
: > empty.txt
printf '\377\376' > bytes.txt
head -c 65536 /dev/zero | tr '\0' x > most.txt
head -c 65537 /dev/zero | tr '\0' x > more.txt
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do cp most.txt "n$n.txt"; done
echo '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done"}'
"#;

// With limits for each file and for all files that are sent together.
// covers: WIRE-18
#[test]
fn clients_get_the_content_of_files_where_the_run_was_told_so() {
    for flag in [None, Some("--file-contents")] {
        let project = project();
        let script = project.write("writer.sh", WRITER);
        let agent = json!({"command": ["sh", script], "stream": "claude"});
        project.write_hank(&json!({"hank": [{"id": "a", "name": "a", "agent": agent, "model": "m", "continuationMode": "fresh",
            "promptText": "x", "checkpointedFiles": ["*.txt"]}]}));
        let running = start(
            &project,
            &["--no-autostart"].into_iter().chain(flag).collect::<Vec<_>>(),
        );
        let mut guest = Guest::enter(&project.directory(), "readandwrite");
        guest.command("n", "codon.next");
        guest.idle("all-codons-completed");
        guest.command("s", "server.shutdown");
        running.finish_within(Duration::from_secs(60)).expect_code(0);
        let files = guest
            .heard
            .iter()
            .filter(|message| message["type"] == "file.updated");
        let files: Vec<&Value> = files.map(|message| &message["data"]).collect();
        let told: Vec<(&str, &str)> = files
            .iter()
            .filter_map(|file| Some((file["path"].as_str()?, file["content"].as_str()?)))
            .collect();
        assert_eq!(files.len(), 22, "{files:?}");
        assert!(
            files.iter().all(|file| file["fingerprint"].is_string()),
            "{files:?}"
        );
        if flag.is_none() {
            assert!(told.is_empty(), "{told:?}");
            continue;
        }
        let content = |name: &str| {
            told.iter()
                .find(|(path, _)| *path == name)
                .map(|(_, content)| *content)
        };
        assert_eq!(
            (content("hello.txt"), content("empty.txt")),
            (Some("hello\n"), Some(""))
        );
        assert_eq!((content("bytes.txt"), content("more.txt")), (None, None));
        assert_eq!(content("most.txt"), Some("x".repeat(65_536).as_str()));
        let bytes: usize = told.iter().map(|(_, content)| content.len()).sum();
        assert!(bytes <= 1 << 20 && bytes > (1 << 20) - 65_536, "{bytes}");
    }
}

// covers: WIRE-27
#[test]
fn the_token_of_the_environment_counts_and_reaches_no_agent() {
    let mut project = project();
    write_hank(&project, &["one"]);
    let script = project.directory().join("agent.sh");
    let text = std::fs::read_to_string(&script).unwrap();
    project.write("agent.sh", format!("env > environment.txt\n{text}"));
    project.set("HANKWEAVE_TOKEN", "a-token-of-my-own-that-is-long-enough");
    project.set("HANKWEAVE_READONLY_TOKEN", "another-token-of-my-own-for-readers");
    let running = start(&project, &["--no-autostart"]);
    let directory = project.directory();
    let mut guest = Guest::enter_with(
        &directory,
        "a-token-of-my-own-that-is-long-enough",
        "readandwrite",
    );
    guest.command("n", "codon.next");
    guest.idle("all-codons-completed");
    guest.command("s", "server.shutdown");
    running.finish_within(Duration::from_secs(60)).expect_code(0);
    let environment = std::fs::read_to_string(directory.join("environment.txt")).unwrap();
    assert!(
        environment.contains("PATH=") && !environment.contains("token-of-my-own"),
        "{environment}"
    );
    assert!(!directory.join(".hankweave/token").exists());
}

// covers: WIRE-22
#[test]
fn a_port_that_is_taken_is_an_error_with_a_hint_and_changes_nothing() {
    let mut project = project();
    write_hank(&project, &["one"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let refused = project.run(["run", "--headless", "--port", &port]);
    refused.expect_code(74);
    assert!(
        refused
            .stderr
            .contains(&format!("failed to listen on 127.0.0.1:{port}")),
        "{refused}"
    );
    assert!(refused.stderr.contains("hint: "), "{refused}");
    assert!(!project.directory().join(".hankweave/server.lock").exists());
    drop(taken);
    project.set("HANKWEAVE_PORT", &port);
    let running = start(&project, &["--no-autostart"]);
    assert_eq!(crate::support::port(&project.directory()).to_string(), port);
    running.signal(rustix::process::Signal::TERM);
    running.finish_within(Duration::from_secs(60)).expect_code(143);
    project
        .run(["run", "--headless", "--listen", "nowhere"])
        .expect_code(2);
}

/// KiB of the process as the kernel counts them.
fn memory(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

// covers: F13 (what it costs in time is measured by the bench `server`)
#[test]
fn a_thousand_half_open_connections_and_forty_deaf_clients_take_little_memory() {
    let project = project();
    let wait = |file: &str| json!({"tools": [{"bash": {"command": format!("while [ ! -e {file} ]; do sleep 0.01; done")}}]});
    let mut turns = vec![wait("go")];
    turns.extend((0..700).map(|_| json!({"text": "x".repeat(4_000)})));
    turns.extend((0..4).map(|_| json!({"raw": "x\n".repeat(10_000).trim_end()})));
    turns.extend([json!({"text": "that was all"}), wait("end")]);
    project.write("script.json", json!({"turns": turns}).to_string());
    let codon = json!({"id": "a", "name": "a", "model": "claude-sonnet-4-5", "continuationMode": "fresh", "promptText": "x",
        "agent": {"script": "script.json"}});
    project.write_hank(&json!({"hank": [codon]}));
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("\"codon.started\""));
    let directory = project.directory();
    let token = std::fs::read_to_string(directory.join(".hankweave/token")).unwrap();
    let idle = memory(running.pid(), "VmRSS:");

    let deaf: Vec<Guest> = (0..40)
        .filter_map(|_| Guest::connect(&directory, token.trim_end()))
        .map(|mut guest| {
            guest.send(json!({"type": "handshake", "data": {"mode": "readonly"}}));
            guest
        })
        .collect();
    let half_open: Vec<_> = (0..1_000)
        .map(|_| {
            let mut stream = knock(&directory);
            // Those that are driven out may be gone already.
            let _ = stream.write_all(b"GET /ws HTTP/1.1\r\nHost: 127");
            stream
        })
        .collect();
    project.write("go", "");
    running.wait_for_line(|line| line.contains("that was all"));
    let most = memory(running.pid(), "VmHWM:");
    project.write("end", "");
    running.finish_within(Duration::from_secs(60)).expect_code(0);
    assert_eq!((deaf.len(), half_open.len()), (32, 1_000));
    assert!(most < idle + (256 << 10), "{idle} KiB idle, {most} KiB at most");
}

/// The lock goes while the client waits for an answer, as where a run ends at that moment.
// covers: WIRE-1
#[test]
fn a_client_that_meets_the_end_of_a_run_says_that_none_is_live() {
    for command in ["attach", "next"] {
        let mut project = project();
        project.set("HANKWEAVE_TOKEN", "token-of-the-run");
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let record = json!({"pid": std::process::id(), "lockId": "x", "port": server.local_addr().unwrap().port(),
            "startTime": "2026-01-01T00:00:00.000Z", "lastHeartbeat": "2026-01-01T00:00:00.000Z"});
        let lock = project.write(".hankweave/server.lock", record.to_string());
        let ending = std::thread::spawn(move || {
            let client = server.accept().unwrap();
            std::fs::remove_file(lock).unwrap();
            drop(client);
        });
        let refused = project.run([command]);
        ending.join().unwrap();
        refused.expect_code(65);
        assert!(
            refused.stderr.contains("no run is live in"),
            "{command}: {refused}"
        );
    }
}
