//! `hankweave run --open` (WIRE-27).

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::guest::Guest;
use crate::support::{project, shell_agent};

/// Records its arguments and what every user of the machine can see, and leaves a process running, as a browser would.
const OPENER: &str = r#"#!/bin/sh
cd "$HOME"
printf '%s\n' "$@" > arguments
stat -c %a "$1" > mode
cat "$1" > page
env > environment
umask > umask
for file in /proc/[0-9]*/cmdline; do tr '\0' ' ' < "$file"; echo; done > seen 2> /dev/null
(while [ ! -e enough ]; do sleep 0.05; done; touch ended) &
touch opened
"#;

/// Waits for a file and returns what is in it.
fn content(path: &Path) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} is not there", path.display());
        std::thread::yield_now();
    }
    std::fs::read_to_string(path).unwrap()
}

// covers: WIRE-27
#[test]
fn the_page_opens_and_the_token_is_in_no_argument() {
    let mut project = project();
    let agent = shell_agent(&project);
    project.write_hank(
        &json!({"hank": [{"id": "a", "name": "a", "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": "one"}]}),
    );
    let opener = project.write("bin/xdg-open", OPENER);
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&opener, executable).unwrap();
    let bin = opener.parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap();
    let folders = std::iter::once(bin).chain(std::env::split_paths(&path));
    project.set("PATH", std::env::join_paths(folders).unwrap());
    project.set("HANKWEAVE_READONLY_TOKEN", "another-secret");
    let running = project.start(["run", "--headless", "--no-autostart", "--open"]);
    let (home, directory) = (project.home(), project.directory());
    content(&home.join("opened"));

    let noted = |name: &str| content(&home.join(name));
    let page = directory.join(".hankweave/page.html");
    assert_eq!(noted("arguments"), format!("{}\n", page.display()));
    assert_eq!(noted("mode"), "600\n");
    let token = std::fs::read_to_string(directory.join(".hankweave/token")).unwrap();
    let token = token.trim_end();
    let address = format!(
        "url=http://127.0.0.1:{}/#token=another-secret\"",
        crate::support::port(&directory)
    );
    assert!(noted("page").contains(&address), "{}", noted("page"));
    let seen = noted("seen");
    assert!(seen.contains("page.html"), "{seen}");
    assert!(
        !seen.contains(token) && !seen.contains("another-secret"),
        "{seen}"
    );
    let environment = noted("environment");
    assert!(
        !environment.contains(token) && !environment.contains("another-secret"),
        "{environment}"
    );
    assert_ne!(noted("umask"), "0077\n", "a browser keeps the umask of its user");

    let mut guest = Guest::enter(&directory, "readandwrite");
    guest.command("n", "codon.next");
    guest.idle("all-codons-completed");
    guest.command("s", "server.shutdown");
    running.finish_within(Duration::from_secs(60)).expect_code(0);
    assert!(!page.exists(), "the file holds the token");
    // Neither the end of the codon nor that of the run is the end of the browser.
    assert!(!home.join("ended").exists());
    std::fs::write(home.join("enough"), "").unwrap();
    content(&home.join("ended"));
}

#[test]
fn a_page_that_does_not_open_keeps_no_run() {
    let mut project = project();
    project.set("PATH", "/nowhere");
    project.write_hank(
        &json!({"hank": [{"id": "a", "name": "a", "agent": "scripted", "continuationMode": "fresh", "promptText": "one"}]}),
    );
    let finished = project.run(["run", "--headless", "--open"]);
    finished.expect_code(0);
    let told = "the page was not opened: there is no xdg-open on PATH";
    assert!(finished.stderr.contains(told), "{finished}");
    assert!(!project.directory().join(".hankweave/page.html").exists());
}

#[test]
fn the_address_of_the_page_answers_wherever_the_run_listens() {
    for (listen, host) in [("127.0.0.2", "127.0.0.2"), ("0.0.0.0", "127.0.0.1")] {
        let project = project();
        project.write_hank(
            &json!({"hank": [{"id": "a", "name": "a", "agent": "scripted", "continuationMode": "fresh", "promptText": "one"}]}),
        );
        let running = project.start(["run", "--headless", "--no-autostart", "--listen", listen]);
        let expected = format!(
            "http://{host}:{}/#token=",
            crate::support::port(&project.directory())
        );
        // The command itself connects to the address before it prints it.
        let page = project.run(["page"]);
        assert!(page.expect_code(0).stdout.starts_with(&expected), "{page}");
        project.run(["stop"]).expect_code(0);
        running.finish_within(Duration::from_secs(60)).expect_code(3);
    }
}
