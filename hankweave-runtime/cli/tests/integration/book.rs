//! The screens in the book are those that the program draws.

use std::path::Path;

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::project;
use crate::terminal::Terminal;

/// A hank of four codons of which the second goes round; `second` and `last` are what the agents of the second and the last one do.
fn story(second: &Value, last: &Value) -> TestProject {
    let project = project();
    let first = json!({"turns": [{"thinking": "What is wanted?", "text": "I write down what is to be done.",
        "tools": [{"write": {"path": "plan.md", "content": "# Plan\n"}}], "usage": {"input": 40_000, "output": 800}}]});
    let review = json!({"turns": [{"text": "It is good.", "usage": {"input": 3_000, "output": 20}}]});
    for (name, script) in [
        ("plan", &first),
        ("write", second),
        ("review", &review),
        ("ship", last),
    ] {
        project.write(&format!("{name}.json"), script.to_string());
    }
    let codon = |id: &str, name: &str| {
        json!({"id": id, "name": name, "model": "claude-sonnet-4-5", "continuationMode": "fresh", "promptText": "go",
            "agent": {"script": format!("{id}.json")}, "checkpointedFiles": ["*.md"]})
    };
    let writing = json!({"type": "loop", "id": "drafts", "name": "Drafts", "codons": [codon("write", "Write it")],
        "terminateOn": {"type": "iterationLimit", "limit": 2}});
    let items = [
        codon("plan", "Make a plan"),
        writing,
        codon("review", "Review"),
        codon("ship", "Ship"),
    ];
    project.write_hank(&json!({"hank": items}));
    project
}

fn writing() -> Value {
    json!({"turns": [
        {"thinking": "First I look around.", "text": "I will look at what is here.", "tools": [{"bash": {"command": "ls *.md"}}],
            "usage": {"input": 41_000, "output": 100}},
        {"text": "Now the text.", "tools": [{"write": {"path": "text.md", "content": "Once upon a time\n"}}],
            "usage": {"input": 42_000, "output": 2_000}},
        // That a file has changed is seen before the last turn.
        {"text": "I read it once more.", "delayMs": 2_000, "tools": [{"bash": {"command": "until [ -e go ]; do sleep 1; done"}}],
            "usage": {"input": 46_000, "output": 30}}]})
}

/// The block of the book after the comment `<!-- screen: NAME -->`.
fn in_the_book(name: &str) -> String {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/watching.md");
    let book = std::fs::read_to_string(book).unwrap();
    let (_, behind) = book
        .split_once(&format!("<!-- screen: {name} -->\n\n```text\n"))
        .unwrap();
    behind.split_once("\n```").unwrap().0.to_owned()
}

/// Replaces with `…` what changes from run to run: times, and the names of checkpoints, runs and folders. Words are one blank apart, because the
/// width of columns depends on what changes.
fn lasting(line: &str) -> String {
    let changes = |word: &str| {
        let digits = word.trim_end_matches(',').bytes();
        let mut of_time = digits.clone();
        let is_time = of_time.all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'm' | b's'))
            && word.starts_with(|first: char| first.is_ascii_digit())
            && digits.clone().last() == Some(b's');
        let is_name = word.len() == 12 && digits.clone().all(|byte| byte.is_ascii_hexdigit());
        let is_moment = word.len() == 5 && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
        let is_spinner = word.chars().all(|c| ('\u{2800}'..'\u{28ff}').contains(&c));
        is_time || is_name || is_moment || is_spinner || word.contains("/runs/")
    };
    let shown = line.split_whitespace();
    let shown = shown.map(|word| if changes(word) { "…" } else { word });
    shown.collect::<Vec<_>>().join(" ")
}

/// Asserts that the book shows this screen, in the folder of a user called Ada.
#[track_caller]
fn assert_in_the_book(name: &str, project: &TestProject, screen: &str) {
    let folder = project.directory().display().to_string();
    let screen = screen.trim_end().replace(&folder, "/home/ada/site");
    let lasting = |text: &str| text.lines().map(lasting).collect::<Vec<_>>().join("\n");
    assert_eq!(
        lasting(&screen),
        lasting(&in_the_book(name)),
        "docs/watching.md differs; what is drawn now:\n{screen}\n"
    );
}

/// The screen from the line on that begins with these words.
fn from<'s>(screen: &'s str, beginning: &str) -> &'s str {
    &screen[screen.find(beginning).unwrap()..]
}

// covers: CLI-43
#[test]
fn the_run_screen_is_as_in_the_book() {
    let project = story(&writing(), &json!({"turns": [{"text": "Done."}]}));
    let Some(mut terminal) = Terminal::sized(&project, 16, 90, "run --max-cost 5") else {
        return;
    };
    terminal.until_standing(|screen| {
        let wanted = [
            "│ I read it once more.",
            "+ text.md",
            "│ › Bash until",
            "or Review",
            " ctx 23 % ",
        ];
        wanted.iter().all(|wanted| screen.contains(wanted))
    });
    assert_in_the_book("run", &project, from(&terminal.standing(), "✓ Make a plan"));
    terminal.press("\u{3}");
    terminal.until("continue  ");
    assert_eq!(terminal.close(), Some(130));
}

// covers: CLI-43
#[test]
fn the_end_of_a_failure_is_as_in_the_book() {
    let publish = json!({"bash": {"command": "sh publish.sh"}});
    let last = json!({"turns": [{"text": "I publish it.", "tools": [publish], "usage": {"input": 1_000, "output": 9}}],
        "result": {"message": "publishing failed: no token found"}});
    let project = story(&json!({"turns": [{"text": "Written."}]}), &last);
    project.write("publish.sh", "echo 'no token found'; exit 3");
    let Some(mut terminal) = Terminal::sized(&project, 40, 140, "run") else {
        return;
    };
    terminal.until_standing(|screen| screen.contains("keeps the files and runs ship again"));
    assert_in_the_book("failure", &project, from(&terminal.standing(), "✗ Ship"));
    assert_eq!(terminal.close(), Some(1));
}

// covers: CLI-43
#[test]
fn the_whole_screen_is_as_in_the_book() {
    let project = story(&writing(), &json!({"turns": [{"text": "Done."}]}));
    let running = project.start(["run", "--headless"]);
    crate::support::port(&project.directory());
    let Some(mut terminal) = Terminal::sized(&project, 16, 80, "attach --tui") else {
        running.kill();
        return;
    };
    terminal.until_standing(|screen| screen.contains("› Bash until") && screen.contains("ctx 23 %"));
    assert_in_the_book("whole", &project, &terminal.standing());
    terminal.press("q");
    assert_eq!(terminal.close(), Some(0));
    running.kill();
}
