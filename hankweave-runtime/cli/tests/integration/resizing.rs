//! The run screen in a window whose size changes all the time, on a terminal that breaks its lines again (tmux).

use std::process::Output;
use std::time::{Duration, Instant};

use hankweave_testing::TestProject;
use serde_json::json;

use crate::support::{project, shell_agent};

const DEADLINE: Duration = Duration::from_secs(180);

/// Window of tmux with a run in it.
struct Window<'p>(&'p TestProject);

impl<'p> Window<'p> {
    /// `None` where there is no tmux.
    fn open(project: &'p TestProject, (columns, lines): (u32, u32)) -> Option<Self> {
        let window = Self(project);
        let (x, y) = (columns.to_string(), lines.to_string());
        let line = format!("'{}' run --max-cost 5; cat", env!("CARGO_BIN_EXE_hankweave"));
        if project.command("tmux".as_ref()).arg("-V").output().is_err() {
            println!("skipped: there is no tmux");
            return None;
        }
        let made = window.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &x, "-y", &y, &line]);
        assert!(made.status.success(), "{made:?}");
        Some(window)
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut command = self.0.command("tmux".as_ref());
        command.args(["-S", "tmux.socket"]).args(arguments);
        command.env("LC_ALL", "C.UTF-8").output().unwrap()
    }

    fn resize(&self, (columns, lines): (u32, u32)) {
        let (x, y) = (columns.to_string(), lines.to_string());
        let done = self.tmux(&["resize-window", "-x", &x, "-y", &y]);
        assert!(done.status.success(), "{done:?}");
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// Also what has left the screen at its top, with broken lines joined.
    fn history(&self) -> String {
        let captured = self.tmux(&["capture-pane", "-p", "-J", "-S", "-"]);
        String::from_utf8_lossy(&captured.stdout).into_owned()
    }

    #[track_caller]
    fn until(&self, wanted: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + DEADLINE;
        loop {
            let shown = self.shown();
            if wanted(&shown) {
                return shown;
            }
            assert!(Instant::now() < end, "never as wanted:\n{shown}");
        }
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// A fixed row of numbers that looks random.
struct Seed(u64);

impl Seed {
    fn between(&mut self, least: u32, most: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        least + (self.0 >> 33) as u32 % (most - least + 1)
    }
}

/// Lines of the moving part, each of which is on the screen once.
const MOVING: [&str; 4] = ["│ working", "· Name of three", "1 of 3 · ", "│ the agent works"];

/// A line that stays is there once, in whatever order sizes come; what is drawn again is where the terminal has left it.
// covers: CLI-24
#[test]
fn a_line_that_stays_is_there_once_after_any_order_of_sizes() {
    let project = project();
    let agent = shell_agent(&project);
    let codon = |id: &str, prompt: &str| {
        json!({"id": id, "name": format!("Name of {id}, 漢字 🚀"), "agent": agent, "model": "claude-sonnet-4-5",
            "continuationMode": "fresh", "promptText": prompt})
    };
    project.write_hank(
        &json!({"hank": [codon("one", "one"), codon("two", "two, wait for go"), codon("three", "three")]}),
    );
    let Some(window) = Window::open(&project, (100, 30)) else {
        return;
    };
    let is_drawn = |screen: &str| MOVING.iter().all(|line| screen.matches(line).count() == 1);
    window.until(|screen| is_drawn(screen) && screen.matches("✓ Name of one").count() == 1);
    for size in [(60, 30), (140, 30), (50, 24), (100, 30)] {
        window.resize(size);
        window.until(is_drawn);
    }
    for seed in 1..=4 {
        let mut seed = Seed(seed);
        for _ in 0..12 {
            window.resize((seed.between(40, 160), seed.between(24, 60)));
            // Several changes may come between two times that the lines are drawn.
            if seed.between(0, 2) == 0 {
                window.until(|screen| screen.contains("1 of 3 · "));
                let history = window.history();
                assert_eq!(history.matches("✓ Name of one").count(), 1, "{history}");
            }
        }
        window.resize((100, 30));
        window.until(is_drawn);
        // A terminal that has room at its bottom may push it into its scrollback; it is never lost.
        let history = window.history();
        assert_eq!(history.matches("✓ Name of one").count(), 1, "{history}");
    }
}

/// A terminal that has to move lines out at its top takes the first of those that are drawn again with them, and no program gets them back; what is
/// left of them is drawn in their place, and not kept below them.
// covers: CLI-24
#[test]
fn what_a_terminal_moves_out_at_its_top_is_no_more_than_it_has_to() {
    let project = project();
    let long = |number| json!({"text": format!("{number}: {}", "a word and another one ".repeat(8))});
    let mut turns: Vec<_> = (1..=6).map(long).collect();
    turns.push(json!({"hang": true}));
    project.write("play.json", json!({"turns": turns}).to_string());
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": {"script": "play.json"}, "model": "claude-sonnet-4-5",
            "continuationMode": "fresh", "promptText": id})
    };
    project.write_hank(&json!({"hank": [codon("one"), codon("two")]}));
    let Some(window) = Window::open(&project, (200, 60)) else {
        return;
    };
    window.until(|screen| screen.contains("│ 1: ") && screen.contains("│ 6: "));
    window.resize((40, 60));
    // Before they are drawn again the lines are broken, and none is cut.
    window.until(|screen| screen.matches('…').count() >= 6);
    let history = window.history();
    assert_eq!(history.matches("0 of 2 · ").count(), 1, "{history}");
}
