//! A page in one file, opened from disk in a real browser (WIRE-43).

use serde_json::{Value, json};

use crate::page::{HOSTILE, address, browser, codon};
use crate::playwright::Page;
use crate::support::{project, shell_agent};

// covers: WIRE-43
#[test]
fn an_exported_page_opens_from_disk_and_runs_nothing_of_its_record() {
    let Some(browser) = browser() else { return };
    let project = project();
    let agent = json!({"command": ["sh", project.write("hostile.sh", HOSTILE)], "stream": "claude"});
    let name = "</script><script>document.title=1</script>";
    let codons = json!([
        codon(&shell_agent(&project), "one", "Build it", "one"),
        codon(&agent, "a", name, "go"),
    ]);
    project.write_hank(&json!({"hank": codons}));
    let running = project.start(["run", "--headless"]);
    let mut live = Page::open(&browser, &address(&project, "token-readonly"));
    live.until("document.getElementById('transcript')?.innerText.includes('the end of it')");
    running.kill();
    let state_dir = project.directory().join(".hankweave");
    let record = || ["state.json", "state.log"].map(|file| std::fs::read(state_dir.join(file)).ok());
    let before = record();
    let file = project.home().join("night.html");
    let file = file.to_str().unwrap();
    let told = project.run(["view", "--export", file, "--json"]).json_document();
    assert_eq!(told["isWhole"], true, "{told}");
    let inside = state_dir.join("state.json");
    project
        .run(["view", "--export", inside.to_str().unwrap()])
        .expect_code(2);
    assert!(record() == before, "the record is as it was");
    let html = std::fs::read_to_string(file).unwrap();
    for token in ["token", "token-readonly"] {
        let token = std::fs::read_to_string(state_dir.join(token)).unwrap();
        assert!(!html.contains(token.trim_end()));
    }

    let mut page = Page::open(&browser, &format!("file://{file}"));
    page.until("document.title.startsWith('✗ Crashed') && document.title.includes('$0.2500')");
    page.until("document.getElementById('transcript')?.innerText.includes('the end of it')");
    page.until("document.getElementById('link').textContent.startsWith('as of ')");
    page.until_shows("</script><script>document.title=1</script>");
    page.evaluate("document.getElementById('transcript').scrollTop = 0");
    page.until_shows("<img src=x onerror=");
    let planted =
        "document.querySelectorAll('main img, main script, h2 b, a[href^=javascript], .btn, #notify').length";
    assert_eq!(page.evaluate(planted), 0);
    page.evaluate("location.hash = '#/one.1.1'");
    page.until("document.getElementById('transcript')?.innerText.includes('working')");
    page.reload();
    page.until("document.getElementById('transcript')?.innerText.includes('working')");
    page.press("f");
    page.until("document.getElementById('transcript')?.innerText.includes('the end of it')");
    let foreign = "(() => { const script = document.createElement('script'); script.textContent = 'window.isForeign = true';
        document.head.append(script); return window.isForeign ?? false; })()";
    assert_eq!(page.evaluate(foreign), false, "only the page itself runs");
}

/// Writes a file whose name and content would be markup, and one with more lines than an exported page holds.
const WRITES: &str = r#"cat > /dev/null
printf '%s\n' '</script><script>document.title = 1</script>' > '<img src=x>.txt'
seq 1 6000 > long.txt
printf '%s\n' '{"type":"system","subtype":"init","session_id":"s-1","model":"shell","cwd":"/","tools":[]}' \
  '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done","num_turns":1,"total_cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":5}}'
"#;

// covers: WIRE-43
#[test]
fn an_exported_page_has_the_changes_and_the_report_and_says_what_it_leaves_out() {
    let Some(browser) = browser() else { return };
    let project = project();
    let agent = json!({"command": ["sh", project.write("writes.sh", WRITES)], "stream": "claude"});
    project.write_hank(&json!({"hank": [codon(&agent, "a", "Write it", "go"), codon(&shell_agent(&project), "b", "Build it", "two")]}));
    project.run(["run", "--headless"]).expect_code(0);
    let file = project.home().join("night.html");
    let exported = project.run(["view", "--export", file.to_str().unwrap(), "--json"]);
    let left_out = exported.expect_code(0).stderr.clone();
    assert!(
        left_out.contains("changes of 1 file are left out, and `hankweave diff` shows them"),
        "{exported}"
    );
    let told = exported.json_document();
    assert_eq!(told["isWhole"], false, "{told}");
    assert_eq!(
        told["differencesLeftOut"],
        json!({"attempts": 0, "files": 0, "lines": 1})
    );

    let mut page = Page::open(&browser, &format!("file://{}", file.display()));
    page.until("document.title.startsWith('✓ Completed')");
    page.evaluate("location.hash = '#/a.1.1/changes'");
    page.until("document.querySelectorAll('.diff').length === 2");
    page.until("document.querySelector('.review').innerText.includes('<img src=x>.txt')");
    page.evaluate("location.hash = '#/a.1.1/changes/%3Cimg%20src%3Dx%3E.txt:R1'");
    page.until(
        "document.querySelector('.ln.here')?.innerText.includes('</script><script>document.title = 1')",
    );
    page.until_shows("before it began");
    page.evaluate("location.hash = '#/a.1.1/changes/long.txt'");
    page.until_shows("The lines of this file are left out of the page.");
    page.evaluate("location.hash = '#/b.1.1/changes/done.txt:R1'");
    page.until("document.querySelector('.ln.here')?.innerText.includes('two')");
    page.click("to-report");
    page.until("document.getElementById('report')?.innerText.includes('Write it')");
    let planted = "document.querySelectorAll('main img, main script').length";
    assert_eq!(page.evaluate(planted), 0);
    let of_attempt = format!("{}?from=0123456789ab", "#/b.1.1/changes");
    page.evaluate(&format!("location.hash = '{of_attempt}'"));
    page.until_shows("These changes are not in the page.");
    page.until_shows("hankweave diff b");
}

// covers: WIRE-43
#[test]
fn a_hundred_thousand_events_are_in_a_page_of_few_rows() {
    let Some(browser) = browser() else { return };
    let project = project();
    project.write_hank(&json!({"hank": [codon(&shell_agent(&project), "one", "Build it", "one")]}));
    project.run(["run", "--headless"]).expect_code(0);
    let file = project.home().join("night.html");
    project
        .run(["view", "--export", file.to_str().unwrap()])
        .expect_code(0);
    let html = std::fs::read_to_string(&file).unwrap();
    let (head, rest) = html.split_once("\"events\":[").unwrap();
    let (events, rest) = rest.split_once("]}</script>").unwrap();
    let event: Value = serde_json::from_str::<Vec<Value>>(&format!("[{events}]"))
        .unwrap()
        .into_iter()
        .find(|event| event["type"] == "assistant.action")
        .unwrap();
    let first = event["seq"].as_u64().unwrap();
    let many = (0..100_000).map(|n| {
        let mut event = event.clone();
        event["seq"] = json!(first + n);
        event["data"]["content"] = json!(format!("step {n} of the night"));
        event.to_string()
    });
    let many = many.collect::<Vec<_>>().join(",");
    std::fs::write(&file, format!("{head}\"events\":[{many}]}}</script>{rest}")).unwrap();

    let mut page = Page::open(&browser, &format!("file://{}", file.display()));
    page.until_shows("step 99999 of the night");
    page.until_shows("98.0k earlier moments");
    let rows = "document.querySelectorAll('li.m').length <= 300";
    assert_eq!(page.evaluate(rows), true);
    page.evaluate("document.getElementById('transcript').scrollTop = 0");
    page.until_shows("step 98000 of the night");
    assert_eq!(page.evaluate(rows), true);
    let moment = first + 99_000;
    page.evaluate(&format!("location.hash = '#/one.1.1@{moment}'"));
    page.until("document.querySelector('.m.here')?.innerText.includes('step 99000 of')");
    page.reload();
    page.until("document.querySelector('.m.here')?.innerText.includes('step 99000 of')");
}
