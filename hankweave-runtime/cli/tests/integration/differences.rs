//! Differences between checkpoints by request (WIRE-45).

use hankweave_testing::{Running, TestProject};
use serde_json::{Value, json};

use crate::guest::Guest;
use crate::support::project;

/// A file of this many lines is long.
const MANY: usize = 30_000;

/// Starts a run of two codons that waits for commands, and lets both run: the second one edits, moves, and removes what the first one
/// wrote.
pub(crate) fn reviewed(project: &TestProject) -> Running {
    let script = |name: &str, tools: Value| {
        let turns = json!([{"text": "I work.", "tools": tools, "usage": {"input": 10, "output": 1}}]);
        project.write(name, json!({"turns": turns}).to_string());
    };
    let write = |path: &str, content: &str| json!({"write": {"path": path, "content": content}});
    let bash = |command: &str| json!({"bash": {"command": command}});
    script(
        "first.json",
        json!([
            write("src/main.rs", "fn main() {\n    one();\n    two();\n}\n"),
            bash(&format!(
                "seq 1 {MANY} > big.txt; mkdir old; seq 1 40 > old/name.txt; printf 'a\\0b' > picture"
            )),
        ]),
    );
    script(
        "second.json",
        json!([
            write("src/main.rs", "fn main() {\n    one();\n    three();\n    four();\n}\n"),
            bash(&format!(
                "seq 2 {MANY} > big.txt; echo end >> big.txt; mkdir new; (cat old/name.txt; echo 41) > new/name.txt; rm old/name.txt;
                 printf 'a\\0c' > picture; echo hello > '<img src=x onerror=\"document.title=1\">\u{202e}.txt'
                 echo '</div><script>document.title=2</script>' > hostile.html"
            )),
        ]),
    );
    let codon = |id: &str, name: &str, script: &str| {
        json!({"id": id, "name": name, "agent": {"script": script}, "model": "claude-sonnet-4-5",
            "continuationMode": "fresh", "promptText": "go", "checkpointedFiles": ["src/**", "*.txt", "**/*.txt", "picture", "*.html"]})
    };
    project.write_hank(
        &json!({"hank": [codon("a", "Build it", "first.json"), codon("b", "Review it", "second.json")]}),
    );
    let running = project.start(["run", "--headless", "--no-autostart"]);
    let mut guest = Guest::enter(&project.directory(), "readandwrite");
    guest.command("1", "codon.next");
    guest.idle("codon-completed");
    guest.command("2", "codon.next");
    guest.idle("all-codons-completed");
    running
}

fn ask(guest: &mut Guest, name: &str, data: Value) -> Value {
    let id = format!("ask-{}", guest.heard.len());
    guest.send(json!({"id": id, "type": name, "data": data}));
    guest.until(|message| message["commandId"] == id)
}

// covers: WIRE-45
#[test]
fn differences_come_by_request_and_in_parts() {
    let project = project();
    let running = reviewed(&project);
    let directory = project.directory();
    let token = std::fs::read_to_string(directory.join(".hankweave/token-readonly")).unwrap();
    let mut reader = Guest::enter_with(&directory, token.trim_end(), "readonly");

    let view = ask(&mut reader, "view.get", json!(null))["data"]["view"].clone();
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{view:#}")).to_owned();
    let checkpoint = |codon: &str| text(&view["items"][codon]["attempts"]["1.1"]["checkpoint"]);
    let [first, second, base] = [checkpoint("a"), checkpoint("b"), text(&view["files"]["base"])];

    let answer = ask(&mut reader, "diff.files", json!({"to": &second[..12]}));
    assert_eq!(answer["type"], "diff.files", "{answer}");
    let files = &answer["data"];
    assert_eq!((&files["from"], &files["to"]), (&json!(first), &json!(second)));
    let told = |file: &Value| {
        let text = |key: &str| file[key].as_str().unwrap_or_default().to_owned();
        let why = file["withoutLines"].as_str();
        let counts = format!("+{} -{}", file["added"], file["removed"]);
        format!(
            "{} {}{} {}",
            text("change"),
            text("path"),
            text("oldPath"),
            why.unwrap_or(&counts)
        )
    };
    let shown: Vec<String> = files["files"].as_array().unwrap().iter().map(told).collect();
    assert_eq!(
        shown,
        [
            "created <img src=x onerror=\"document.title=1\">\u{202e}.txt +1 -0",
            "modified big.txt +1 -1",
            "created hostile.html +1 -0",
            "renamed new/name.txtold/name.txt +1 -0",
            "modified picture binary",
            "modified src/main.rs +2 -1",
        ]
    );
    assert_eq!(
        (&files["count"], &files["added"], &files["removed"]),
        (&json!(6), &json!(6), &json!(2))
    );

    let lines = |reader: &mut Guest, data: Value| ask(reader, "diff.lines", data)["data"].clone();
    let main = lines(&mut reader, json!({"to": second, "path": "src/main.rs"}));
    let texts: Vec<&str> = main["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["text"].as_str().unwrap())
        .collect();
    assert_eq!(
        texts,
        [
            "@@ -1,4 +1,5 @@",
            "fn main() {",
            "    one();",
            "    two();",
            "    three();",
            "    four();",
            "}"
        ]
    );
    assert_eq!(
        main["lines"][3],
        json!({"kind": "-", "old": 3, "text": "    two();"})
    );
    assert_eq!(main["count"], 7);

    // Against another checkpoint, the whole of a long file comes in parts.
    let (mut all, mut requests) = (Vec::new(), 0);
    loop {
        let data =
            json!({"to": second, "from": base, "path": "big.txt", "offset": all.len(), "limit": 100_000});
        let part = lines(&mut reader, data);
        let part = (
            part["lines"].as_array().unwrap().clone(),
            part["count"].as_u64().unwrap(),
        );
        assert!(part.0.len() <= 2_000);
        requests += 1;
        all.extend(part.0);
        if all.len() as u64 == part.1 {
            break;
        }
    }
    assert_eq!((all.len(), requests), (MANY + 1, MANY / 2_000 + 1));
    assert_eq!(all[MANY], json!({"kind": "+", "new": MANY, "text": "end"}));
    assert_eq!(
        lines(&mut reader, json!({"to": second, "path": "picture"}))["count"],
        0
    );

    for (data, code) in [
        (json!({"to": "000000000000"}), "UNKNOWN_CHECKPOINT"),
        (
            json!({"to": second, "from": "0".repeat(40)}),
            "UNKNOWN_CHECKPOINT",
        ),
        (json!({"to": "HEAD"}), "INVALID_COMMAND"),
        (json!({"to": "main~1"}), "INVALID_COMMAND"),
    ] {
        let refused = ask(&mut reader, "diff.files", data.clone());
        assert_eq!(refused["data"]["code"], code, "{data}: {refused}");
    }
    running.kill();
}
