//! The run screen on terminals that are small, large, without colours, or that show names of another time.

use hankweave_testing::TestProject;
use serde_json::json;

use crate::support::project;
use crate::terminal::Terminal;

/// A file name as Windows wrote it in Western Europe: no UTF-8.
const MAKE_FILES: &str = r#"touch "$(printf 'caf\351.txt')" plain.txt"#;

/// Two codons with long names, of which the first one is done and the second one has written files and waits; seven that come.
fn story() -> TestProject {
    let project = project();
    let first = json!({"turns": [{"text": "Done.", "usage": {"input": 1_000, "output": 10}}]});
    let second = json!({"turns": [{"text": "Files with names.", "tools": [{"bash": {"command": MAKE_FILES}}]},
        {"text": "I wait.", "tools": [{"bash": {"command": "until [ -e go ]; do sleep 1; done"}}]}]});
    project.write("first.json", first.to_string());
    project.write("second.json", second.to_string());
    let codon = |number: usize, script: &str| {
        json!({"id": format!("c{number}"), "name": format!("A long name of codon number {number}"), "continuationMode": "fresh",
            "promptText": "go", "agent": {"script": script}, "model": "claude-sonnet-4-5", "checkpointedFiles": ["*.txt"]})
    };
    let mut codons = vec![codon(1, "first.json"), codon(2, "second.json")];
    codons.extend((3..10).map(|number| codon(number, "first.json")));
    project.write_hank(&json!({"hank": codons}));
    project
}

fn open(project: &TestProject, (lines, columns): (u16, u16), before: &str) -> Option<Terminal> {
    let program = env!("CARGO_BIN_EXE_hankweave");
    let line = format!("stty rows {lines} columns {columns}; {before} exec '{program}' -v run --max-cost 5");
    Terminal::of_size(project, &line, (lines, columns))
}

// covers: CLI-24
#[test]
fn the_view_fits_small_and_large_terminals_and_names_of_another_encoding_tear_nothing() {
    for size in [(10, 40), (24, 80), (60, 200)] {
        let project = story();
        let Some(mut terminal) = open(&project, size, "") else {
            return;
        };
        let (lines, columns) = (usize::from(size.0), usize::from(size.1));
        terminal.until_standing(|screen| {
            screen.contains("1 of 9")
                && screen.contains("I wait.") | (lines < 12)
                && ["+ plain.txt", "+ caf"].iter().all(|file| screen.contains(file)) | (lines < 12)
        });
        let screen = terminal.standing();
        let shown: Vec<&str> = screen.lines().collect();
        let foot: Vec<usize> = (0..shown.len())
            .filter(|line| shown[*line].starts_with("1 of 9 · "))
            .collect();
        assert_eq!(foot.len(), 1, "{size:?}: {screen}");
        let below = shown[foot[0] + 1..].join("");
        assert_eq!(below.trim(), "", "{size:?}: {screen}");
        assert!(
            shown.iter().all(|line| line.chars().count() <= columns),
            "{size:?}: {screen}"
        );
        // The codon that has ended is one line.
        let history = terminal.history();
        let ended: Vec<&str> = history
            .lines()
            .filter(|line| line.starts_with("✓ A long"))
            .collect();
        assert_eq!(ended.len(), 1, "{size:?}: {history}");
        assert!(!history.contains("\n5e"), "{history}");
        if lines >= 24 {
            assert!(
                screen.contains("│ + caf?.txt") && screen.contains("│ + plain.txt"),
                "{size:?}: {screen}"
            );
        }
        terminal.press("\u{3}");
        terminal.until("continue  ");
        let history = terminal.history();
        assert!(
            !history.contains("1 of 9 · "),
            "the moving part is left: {history}"
        );
        assert_eq!(terminal.close(), Some(130));
    }
}

// covers: CLI-24
#[test]
fn who_wants_no_colours_gets_none() {
    let project = story();
    let Some(mut terminal) = open(&project, (24, 100), "NO_COLOR=1; export NO_COLOR;") else {
        return;
    };
    terminal.until_standing(|screen| screen.contains("1 of 9") && screen.contains("I wait."));
    terminal.press("\u{3}");
    terminal.until("continue  ");
    let sent = terminal.sent();
    let styles: Vec<&str> = sent.split("\u{1b}[").skip(1).collect();
    let styled = |style: &&&str| {
        style
            .split(|c: char| c.is_ascii_alphabetic())
            .next()
            .is_some_and(|numbers| style[numbers.len()..].starts_with('m') && !matches!(numbers, "" | "0"))
    };
    assert_eq!(styles.iter().find(styled), None);
    assert_eq!(terminal.close(), Some(130));
}

/// Says thirty thousand lines as fast as it can, and waits.
const TALKER: &str = r#"
cat > /dev/null
echo '{"type":"system","subtype":"init","session_id":"s-1","model":"shell","cwd":"/","tools":[]}'
seq 1 30000 | sed 's/.*/{"type":"assistant","session_id":"s-1","message":{"id":"m&","model":"shell","content":[{"type":"text","text":"word &"}]}}/'
until [ -e go ]; do sleep 0.05; done
echo '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done","num_turns":1}'
"#;

// covers: CLI-24
#[test]
fn an_agent_that_says_more_than_anybody_reads_tears_nothing() {
    let project = project();
    let agent = json!({"command": ["sh", project.write("talker.sh", TALKER)], "stream": "claude"});
    let codon = |id: &str| json!({"id": id, "name": format!("Name of {id}"), "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": "go"});
    project.write_hank(&json!({"hank": [codon("one"), codon("two")]}));
    let Some(mut terminal) = Terminal::sized(&project, 24, 80, "-v run") else {
        return;
    };
    // The terminal takes a frame in pieces, so the screen counts that has the last line of it as well.
    terminal.until_standing(|screen| screen.contains("word 30000") && screen.contains("\n0 of 2 · "));
    let screen = terminal.standing();
    let feet = screen
        .lines()
        .filter(|line| line.starts_with("0 of 2 · "))
        .count();
    assert_eq!(feet, 1, "{screen}");
    let words: Vec<&str> = screen.lines().filter(|line| line.contains("word ")).collect();
    let numbers = (0..words.len()).map(|place| format!("│ word {}", 30_001 - words.len() + place));
    let shown = words.iter().map(|line| line.trim().to_owned());
    assert!(words.len() > 2 && shown.eq(numbers), "{screen}");
    project.write("go", "");
    terminal.until("Finished: 2 of 2 codons completed.");
    let history = terminal.history();
    for id in ["one", "two"] {
        assert_eq!(
            history.matches(&format!("✓ Name of {id} ")).count(),
            1,
            "{history}"
        );
    }
    let torn = |line: &&str| line.contains("next: ") || line.contains("│ ");
    assert_eq!(history.lines().find(torn), None, "{history}");
    assert_eq!(terminal.close(), Some(0));
}
