//! Picture of the run screen for the README. `docs/screens/draw` keeps it; every test run checks that it can be drawn.

use std::fmt::Write as _;

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::project;
use crate::terminal::Terminal;

/// Lines and columns of the picture.
const SIZE: (u16, u16) = (13, 92);

/// Width and height of a character, and margin around the text, in pixels.
const CELL: (f32, f32) = (8.4, 18.0);
const MARGIN: f32 = 16.0;

/// Colours on a dark background.
const BACKGROUND: &str = "#14161b";
const TEXT: &str = "#d7dae0";
const DIMMED: &str = "#868d9c";
const ANSI: [&str; 8] = [
    "#868d9c", "#f07178", "#8fc37a", "#e0b568", "#6fa8f5", "#c58af9", "#5cc3d0", "#d7dae0",
];

/// A migration: a survey and a plan that are done, and a loop whose agent is at work.
pub(crate) fn migration(project: &TestProject) {
    let script = |name: &str, turns: Value| project.write(name, json!({"turns": turns}).to_string());
    let turn = |text: &str, tools: Value, input: u64, output: u64| {
        json!({"text": text, "tools": tools,
            "usage": {"input": input, "output": output, "cacheRead": 20 * input}})
    };
    let write = |path: &str| json!([{"write": {"path": path, "content": "-\n"}}]);
    script(
        "survey.json",
        json!([turn("Every caller is listed.", write("SURVEY.md"), 3_100, 2_400)]),
    );
    script(
        "plan.json",
        json!([turn(
            "Three steps, smallest first.",
            write("PLAN.md"),
            4_200,
            5_100
        )]),
    );
    let run = json!([{"bash": {"command": "echo '145 passed; 3 failed'"}}]);
    let mut last = turn("I run the tests.", json!([]), 6_900, 1_700);
    last["hang"] = json!(true);
    script(
        "build.json",
        json!([
            turn(
                "SessionStore now writes to SQLite.",
                write("store.rs"),
                5_600,
                3_900
            ),
            turn("I run the tests.", run, 6_100, 900),
            last
        ]),
    );
    let codon = |id: &str, name: &str, script: &str| {
        json!({"id": id, "name": name, "agent": {"script": script}, "model": "claude-sonnet-4-5",
            "continuationMode": "fresh", "promptText": name, "checkpointedFiles": ["**"]})
    };
    let meta = json!({"name": "Move sessions to SQLite", "version": "3",
        "description": "Sessions live in SQLite, so that everyone stays signed in when the server restarts."});
    project.write_hank(&json!({"meta": meta, "hank": [
        codon("survey", "Find every caller", "survey.json"),
        codon("plan", "Plan the steps", "plan.json"),
        {"type": "loop", "id": "fix", "name": "Until the tests pass", "terminateOn": {"type": "iterationLimit", "limit": 5},
            "codons": [codon("build", "Build it", "build.json"), codon("review", "Review it", "plan.json")]},
        codon("notes", "Write the release notes", "plan.json")
    ]}));
}

#[test]
fn the_run_screen_can_be_drawn_from_a_real_run() {
    let project = project();
    migration(&project);
    let Some(mut terminal) = Terminal::sized(&project, SIZE.0, SIZE.1, "run --max-cost 5") else {
        return;
    };
    terminal.until_standing(|screen| {
        screen.contains("✓ Plan the steps")
            && screen.matches("I run the tests.").count() > 1
            && screen.contains("3 failed")
    });
    let picture = svg(terminal.screen());
    assert!(picture.contains("Build it (1 of at most 5)"), "{picture}");
    terminal.press("\u{3}");
    assert_eq!(terminal.close(), Some(130));
    if let Some(path) = std::env::var_os("HANKWEAVE_TEST_PICTURE") {
        std::fs::write(path, picture).unwrap();
    }
}

fn svg(screen: &vt100::Screen) -> String {
    let (lines, columns) = screen.size();
    let width = CELL.0.mul_add(f32::from(columns), 2.0 * MARGIN);
    let height = CELL.1.mul_add(f32::from(lines), 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\" style=\"white-space:pre\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n"
    );
    for line in 0..lines {
        let y = CELL.1.mul_add(f32::from(line) + 0.75, MARGIN);
        for (column, style, text) in spans(screen, line, columns) {
            let x = CELL.0.mul_add(f32::from(column), MARGIN);
            writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\"{style}>{}</text>",
                escaped(&text)
            )
            .unwrap();
        }
    }
    svg + "</svg>\n"
}

/// Returns the texts of a line that have one style, each with its first column.
fn spans(screen: &vt100::Screen, line: u16, columns: u16) -> Vec<(u16, String, String)> {
    let mut spans: Vec<(u16, String, String)> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(line, column) else {
            continue;
        };
        let (style, contents) = (style(cell), cell.contents());
        let contents = if contents.is_empty() { " " } else { contents };
        // Blanks at the beginning of a text are not drawn, whatever `white-space` says.
        let is_new = spans.last().is_none_or(|(_, last, _)| *last != style);
        if is_new && contents == " " {
            continue;
        }
        match spans.last_mut() {
            Some((_, last, text)) if *last == style => text.push_str(contents),
            _ => spans.push((column, style, contents.to_owned())),
        }
    }
    spans
}

fn style(cell: &vt100::Cell) -> String {
    let colour = match cell.fgcolor() {
        vt100::Color::Idx(index) => ANSI[usize::from(index % 8)],
        vt100::Color::Default | vt100::Color::Rgb(..) if cell.dim() => DIMMED,
        vt100::Color::Default | vt100::Color::Rgb(..) => TEXT,
    };
    let weight = if cell.bold() { " font-weight=\"600\"" } else { "" };
    format!(" fill=\"{colour}\"{weight}")
}

fn escaped(text: &str) -> String {
    text.trim_end()
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
