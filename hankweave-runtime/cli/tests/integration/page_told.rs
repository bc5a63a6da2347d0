//! Words of a run's page in a real browser: what is next, what has changed, and what a key does (WIRE-28).

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::page::{SOON, Watched, address, browser, codon, viewed, viewing};
use crate::playwright::Page;
use crate::support::{project, shell_agent, writing_agent};

/// The commands that the page lists, in an expression of the page.
const LISTED: &str = "[...document.querySelectorAll('#next-steps code')].filter((each) => each.closest('.cmd')).map((each) => each.innerText)";

/// The commands that `hankweave report` lists.
fn reported(project: &TestProject) -> Vec<Value> {
    let report = project.run(["report", "--json"]).json_document();
    let commands = report["next"]["commands"].as_array().unwrap().iter();
    commands.map(|next| next["command"].clone()).collect()
}

// covers: WIRE-28, WIRE-46, WIRE-47
#[test]
fn a_page_whose_run_has_ended_lists_the_commands_of_status_and_what_serves_it_again() {
    let Some(browser) = browser() else { return };
    let Watched {
        project,
        running,
        mut page,
        ..
    } = Watched::three(browser.clone());
    page.until("document.getElementById('notify')");
    project.run(["next"]).expect_code(0);
    page.until("document.querySelector('.attempt')?.getAttribute('aria-label').includes('completed')");
    project.run(["next"]).expect_code(0);
    page.until("document.getElementById('transcript') && document.title.startsWith('▶ Runs Review it')");
    project.run(["stop"]).expect_code(0);
    running.finish_within(SOON).expect_code(3);
    page.until("document.getElementById('link').textContent === 'ended'");
    page.until("!document.getElementById('notify')");

    // The report came with the end, so the page has the whole list without a server.
    let commands = reported(&project);
    assert!(commands.len() > 2, "{commands:?}");
    let again = json!(format!("hankweave view {}", project.directory().display()));
    let listed: Vec<&Value> = commands.iter().chain([&again]).collect();
    page.until(&format!("{LISTED}.length === {}", listed.len()));
    assert_eq!(page.evaluate(LISTED), json!(listed));
    page.evaluate("location.hash = '#/report'");
    page.until("document.getElementById('report')?.innerText.includes('Review it')");

    page.evaluate("location.hash = '#/a.1.1'");
    page.until("document.querySelector('.gone')?.innerText.includes('hankweave view ')");
    let (viewing, _) = viewing(&project, &[]);
    page.until("document.getElementById('transcript')?.innerText.includes('working')");
    page.until("document.getElementById('link').textContent === 'connected'");
    page.until(&format!(
        "JSON.stringify({LISTED}) === JSON.stringify({})",
        json!(commands)
    ));
    viewing.kill();

    // So has a page without any server.
    let file = project.home().join("night.html");
    project
        .run(["view", "--export", file.to_str().unwrap()])
        .expect_code(0);
    let mut page = Page::open(&browser, &format!("file://{}", file.display()));
    page.until(&format!(
        "JSON.stringify({LISTED}) === JSON.stringify({})",
        json!(commands)
    ));
}

/// A prompt that is longer than what a record keeps of it.
fn long_prompt() -> String {
    format!(
        "# Task\n\nWrite the <guide> for people who are new.\n\n{}\nThe very last line.",
        "Be brief. ".repeat(60)
    )
}

// covers: WIRE-28, WIRE-39, WIRE-41, WIRE-43, WIRE-51
#[test]
fn the_page_says_what_a_run_is_for_and_what_each_codon_was_asked() {
    let Some(browser) = browser() else { return };
    let project = project();
    let agent = shell_agent(&project);
    project.write_hank(
        &json!({"hank": [codon(&agent, "a", "Build it", &long_prompt()), codon(&agent, "b", "Ship it", "two")]}),
    );
    let running = project.start(["run", "--headless", "--no-autostart"]);
    let mut page = Page::open(&browser, &address(&project, "token-readonly"));
    page.until("document.getElementById('goal')?.innerText === 'Write the <guide> for people who are new.'");
    page.until_shows("Then Build it, once it is started.");
    project.run(["next"]).expect_code(0);
    page.until("document.querySelector('.asked')?.innerText.includes('Write the <guide> for people')");
    page.evaluate("document.activeElement.blur()");
    page.press("3");
    page.until("location.hash === '#/a.1.1/prompt'");
    let whole = "document.getElementById('prompt')?.innerText.includes('The very last line.')";
    page.until(whole);
    page.reload();
    page.until(whole);
    assert_eq!(page.evaluate("document.querySelectorAll('main guide').length"), 0);
    page.press("1");
    page.until("document.getElementById('transcript')?.innerText.includes('working')");
    project.run(["next"]).expect_code(0);
    page.until("[...document.querySelectorAll('.attempt')].some((bar) => bar.getAttribute('aria-label').includes('Ship it: completed'))");
    project.run(["stop"]).expect_code(0);
    running.finish_within(SOON).expect_code(0);

    let file = project.home().join("night.html");
    project
        .run(["view", "--export", file.to_str().unwrap()])
        .expect_code(0);
    let mut exported = Page::open(&browser, &format!("file://{}#/a.1.1/prompt", file.display()));
    exported.until(whole);
    exported.until("document.getElementById('goal')?.innerText.startsWith('Write the <guide>')");
    let (viewing, mut list) = viewed(&browser, &project, &["--root", "."]);
    list.until("document.querySelector('.li_ .goal')?.innerText.startsWith('Write the <guide>')");
    viewing.kill();
}

// covers: WIRE-28
#[test]
fn what_failed_is_said_once_and_what_came_out_stands_at_the_top() {
    let Some(browser) = browser() else { return };
    let project = project();
    let agent = shell_agent(&project);
    project.write_hank(
        &json!({"meta": {"name": "Write the guide", "version": "1"}, "hank": [codon(&agent, "a", "Build it", "one\ntwo")]}),
    );
    project.run(["run", "--headless"]).expect_code(0);
    let (viewing, mut page) = viewed(&browser, &project, &[]);
    page.until("document.title.startsWith('✓ Completed')");
    page.until("document.getElementById('goal')?.innerText === 'Write the guide: one'");
    page.until("document.querySelector('#attention .outcome')?.innerText.includes('working')");
    page.until("document.querySelector('#attention .files')?.innerText.includes('+2')");
    page.until_shows("Nothing is left to do.");
    let report = project.run(["report"]);
    assert!(report.stdout.contains("\nNothing is left to do.\n"), "{report}");
    viewing.kill();

    let fails = json!({"command": ["sh", "-c", "cat > /dev/null; exit 7"], "stream": "claude"});
    project.write_hank(&json!({"hank": [codon(&fails, "a", "Break it", "one")]}));
    project.run(["run", "--headless", "-e", "failed"]).expect_code(1);
    let (viewing, mut page) = viewed(&browser, &project, &["failed"]);
    page.until("document.title.startsWith('✗ Failed at Break it: the agent exited with code 7 without ')");
    page.until("document.getElementById('codon')");
    page.until(
        "document.querySelector('#attention h2').innerText.startsWith('The agent exited with code 7 ')",
    );
    let said = "document.querySelector('main').innerText.split('agent exited with code 7').length - 1";
    page.until(&format!("{said} === 1"));
    viewing.kill();
}

// covers: WIRE-28
#[test]
fn keys_lead_from_moment_to_moment_and_find_a_text() {
    let Some(browser) = browser() else { return };
    let Watched {
        project,
        running,
        mut page,
        ..
    } = Watched::three(browser);
    project.run(["next"]).expect_code(0);
    for text in ["working", "done.txt"] {
        page.until(&format!(
            "document.getElementById('transcript')?.innerText.includes('{text}')"
        ));
    }
    page.press("p");
    page.until("/@\\d+$/.test(location.hash) && document.querySelector('.m.here')");
    let last = page.evaluate("location.hash");
    page.press("p");
    page.until(&format!(
        "location.hash !== {last} && document.querySelector('.m.here')"
    ));
    page.press("n");
    page.until(&format!("location.hash === {last}"));
    page.press("/");
    page.until("document.activeElement.id === 'find'");
    page.write("WORK");
    let marked = |words: &str| {
        format!(
            "String([...(CSS.highlights.get('found') ?? [])].map((each) => each.startContainer.data.slice(each.startOffset, each.endOffset))) === '{words}'"
        )
    };
    page.until(&marked("work"));
    page.until_shows("1 moment");
    page.press("Enter");
    page.until("document.querySelector('.m.here')?.innerText.includes('working')");
    // From top to bottom, and round again.
    page.evaluate("location.hash = ''; document.getElementById('find').select()");
    page.until("!document.querySelector('.m.here')");
    page.write("o");
    page.until_shows("2 moments");
    page.until(&marked("o,o"));
    let all = "[...document.querySelectorAll('li.m')].map((each) => each.dataset.seq)";
    let all = page.evaluate(all);
    let found = |page: &mut Page, key: &str, at: usize| {
        page.press(key);
        page.until(&format!(
            "document.querySelector('.m.here')?.dataset.seq === {}",
            all[at]
        ));
    };
    for at in [0, 1, 0] {
        found(&mut page, "Enter", at);
    }
    page.press("Escape");
    for (key, at) in [("n", 1), ("p", 0), ("N", 1)] {
        found(&mut page, key, at);
    }
    running.kill();
}

// covers: WIRE-28
#[test]
fn a_question_that_takes_something_away_begins_at_the_harmless_button() {
    let Some(browser) = browser() else { return };
    let Watched {
        project,
        running,
        mut page,
        browser,
    } = Watched::asking(browser, "token");
    project.run(["next"]).expect_code(0);
    page.until("document.getElementById('deny')");
    page.press("d");
    page.until("document.activeElement.name === 'reason'");
    page.until("document.getElementById('sure').classList.contains('danger')");
    page.until_shows("hankweave approve deploy -e ");
    page.click("back");

    page.evaluate("scrollTo(0, document.body.scrollHeight)");
    page.press("?");
    let in_view = "(() => { const place = document.querySelector('.help')?.getBoundingClientRect(); return place && place.top >= 0 && place.bottom <= innerHeight; })()";
    page.until(in_view);
    page.until_shows("approve, deny");
    page.press("Escape");
    page.until("!document.querySelector('.help')");

    let mut reader = Page::open(&browser, &address(&project, "token-readonly"));
    reader.until("document.title.startsWith('? Waits for an approval before')");
    // The title is set before the page handles keys; the files, which it requests later, appear after that.
    reader.until("document.querySelector('.ask .files a')");
    reader.press("?");
    reader.until_shows("copy this address");
    assert_eq!(
        reader.evaluate("document.querySelector('.help').innerText.includes('approve')"),
        false
    );
    reader.press("Escape");
    // The files of the question link to their changes.
    reader.evaluate("document.querySelector('.ask .files a').click()");
    reader.until("location.hash.includes('/changes/done.txt?from=')");
    reader.until("document.querySelector('.diff')?.innerText.includes('done.txt')");
    // On a phone the codon that waits has its bar, too.
    reader.resize((390, 844), "light");
    reader
        .until("document.querySelector('.trk .wait.approval')?.closest('.trk').getClientRects().length > 0");
    running.kill();
}

/// Takes the place of the clipboard, which a browser without a screen keeps to itself.
const CLIPBOARD: &str = "Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => { window.copied = text; } } }); 0";

// covers: WIRE-28, WIRE-44
#[test]
fn an_address_that_is_copied_opens_for_readers_and_a_wrong_token_is_called_so() {
    let Some(browser) = browser() else { return };
    let Watched {
        project,
        running,
        mut page,
        browser,
    } = Watched::three(browser);
    project.run(["next"]).expect_code(0);
    let mut reader = Page::open(&browser, &address(&project, "token-readonly"));
    for each in [&mut page, &mut reader] {
        each.evaluate(CLIPBOARD);
        each.until("document.getElementById('codon')");
        each.evaluate("location.hash = '#/a.1.1/changes'");
        each.until("document.querySelector('.diff')");
        each.press("y");
        each.until("document.getElementById('told').innerText.startsWith('Copied')");
    }
    let copied = page.evaluate("window.copied");
    assert!(!copied.as_str().unwrap().contains("token"), "{copied}");
    let copied = reader.evaluate("window.copied");
    let mut other = Page::open(&browser, copied.as_str().unwrap());
    other.until("location.hash === '#/a.1.1/changes' && document.querySelector('.diff')");

    let own = std::fs::read_to_string(project.directory().join(".hankweave/token")).unwrap();
    let right = address(&project, "token");
    for wrong in ["0".repeat(own.trim_end().len()), "old".to_owned()] {
        let mut other = Page::open(&browser, &right.replace(own.trim_end(), &wrong));
        other.until_shows("The token is wrong or old");
        other.until("document.getElementById('link').textContent === 'wrong token'");
        other.until_shows("hankweave page -e DIR");
    }
    running.kill();
}

// covers: WIRE-28
#[test]
fn a_loop_has_one_count_of_files_and_its_check_is_a_check() {
    let Some(browser) = browser() else { return };
    let project = project();
    // The first iteration writes the file, and the second one writes identical bytes.
    let writes = r#"cat > /dev/null
printf '%s\n' '{"type":"system","subtype":"init","session_id":"s-1","model":"shell","cwd":"/","tools":[]}'
printf 'same\n' > same.txt
printf '%s\n' '{"type":"assistant","session_id":"s-1","message":{"id":"m-1","role":"assistant","model":"shell","content":[{"type":"text","text":"I wrote."}],"usage":{"input_tokens":1,"output_tokens":1}}}' \
  '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done","num_turns":1,"total_cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":5}}'
"#;
    let agent = json!({"command": ["sh", project.write("writes.sh", writes)], "stream": "claude"});
    let long = format!(
        "echo cart::keeps_items; [ $HANKWEAVE_ITERATION = 1 ] # {}",
        "and so on ".repeat(20)
    );
    let until = json!({"type": "untilCheckPasses", "run": long, "limit": 5});
    project.write_hank(&json!({"hank": [
        codon(&shell_agent(&project), "begin", "Begin it", "one"),
        {"type": "loop", "id": "l", "name": "Until it passes", "terminateOn": until, "codons": [codon(&agent, "b", "Build it", "go")]},
    ]}));
    project.run(["run", "--headless"]).expect_code(0);
    let (viewing, mut page) = viewed(&browser, &project, &[]);
    page.resize((1_440, 900), "light");
    page.until("document.title.startsWith('✓ Completed')");
    page.until_shows("2 iterations, check passed");
    page.until("document.querySelector('#codon h2').innerText.includes('(2 of at most 5)')");
    let iterations =
        "[...document.querySelectorAll('.tries a')].map((each) => each.getAttribute('aria-label'))";
    let labels = json!([
        "1 of at most 5: completed, and the check after it failed",
        "2 of at most 5: completed"
    ]);
    assert_eq!(page.evaluate(iterations), labels);
    page.until("[...document.querySelectorAll('.attempt')].some((bar) => bar.getAttribute('aria-label').startsWith('Build it (1 of at most 5): completed, and the check after it failed'))");
    // Written again, and not changed.
    page.until("document.querySelector('#codon .meta').innerText.includes('changed nothing')");
    page.until("document.querySelector('.rail .h3')?.innerText.trim() === 'Changed nothing'");
    page.until("document.getElementById('transcript')?.innerText.includes('Check cart::keeps_items')");
    page.until(
        "document.querySelector('[role=note].passed b').innerText.includes('check passed: echo cart')",
    );
    assert_eq!(
        page.evaluate("document.body.innerText.includes('Rig cart')"),
        false
    );
    page.evaluate("location.hash = '#/b.1.1'");
    // An iteration has its own check next to it, and one count: ids count from zero.
    page.until("document.querySelector('#codon h2').innerText.includes('(1 of at most 5)')");
    let beside = "[...document.querySelectorAll('.rail .ck b')].map((each) => each.innerText)";
    assert_eq!(page.evaluate(beside), json!(["failed"]));
    page.until("document.querySelector('#codon .meta').innerText.endsWith('[b]')");
    page.until(
        "document.querySelector('.rail .files a')?.getAttribute('aria-label') === 'created: same.txt'",
    );
    let beside = "document.querySelector('.rail').getBoundingClientRect().right <= document.querySelector('.logbox').getBoundingClientRect().left";
    page.until("document.querySelector('.logbox')");
    assert_eq!(page.evaluate(beside), true, "the column is as wide as drawn");
    let inside = "[...document.querySelectorAll('.rail dd, .rail small')].every((each) => each.getBoundingClientRect().right <= document.querySelector('.logbox').getBoundingClientRect().left)";
    assert_eq!(
        page.evaluate(inside),
        true,
        "nothing of it is under the transcript"
    );
    // The report uses these words, too.
    page.evaluate("location.hash = '#/report'");
    page.until("[...document.querySelectorAll('#report td')].some((cell) => cell.innerText === 'completed, and the check after it failed')");
    page.evaluate("location.hash = '#/b.1.1'");
    // Each check has its ring.
    let rings =
        "new Set([...document.querySelectorAll('circle.check')].map((each) => each.getAttribute('cx'))).size";
    assert_eq!(page.evaluate(rings), 2);
    // The time is that of `status`.
    let time = "[...document.querySelectorAll('.fig')].find((each) => each.innerText.startsWith('Time at work')).querySelector('dd').innerText";
    let time = page.evaluate(time);
    let said = format!(" in {}", time.as_str().unwrap());
    let status = project.run(["status"]);
    assert!(status.expect_code(0).stdout.contains(&said), "{said}: {status}");
    // A phone shows all of it.
    page.resize((390, 844), "light");
    page.click("to-report");
    page.until("document.querySelector('#report td')");
    let is_whole = "[...document.querySelectorAll('.row em, .row b, #report td')].every((each) => each.scrollWidth <= each.clientWidth + 1 && each.getBoundingClientRect().right <= innerWidth)";
    page.until(is_whole);
    viewing.kill();
}

// covers: WIRE-28
#[test]
fn a_tool_that_says_nothing_has_a_clock_of_its_own() {
    let Some(browser) = browser() else { return };
    let project = project();
    let tool = r#"{"type":"assistant","session_id":"s-1","message":{"id":"m-2","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"tool_use","id":"t-1","name":"Bash","input":{"command":"make all"}}]}}"#;
    let agent = writing_agent(&project, &format!("printf '%s\\n' '{tool}'\nexec sleep 600"));
    project.write_hank(&json!({"hank": [codon(&agent, "one", "Build it", "go")]}));
    let running = project.start(["run", "--headless"]);
    let mut page = Page::open(&browser, &address(&project, "token-readonly"));
    let shown = "document.getElementById('transcript')?.innerText";
    page.until(&format!(r"/make all\s+[1-9]\d*s/.test({shown} ?? '')"));
    project.run(["stop"]).expect_code(0);
    running.finish_within(SOON).expect_code(3);
    page.until(&format!(r"/make all\s*$/m.test({shown} ?? '')"));
}

/// The sum lacks the time that a crash took, also when another attempt has the place of that one.
// covers: WIRE-28
#[test]
fn the_time_of_a_run_with_a_crash_in_it_is_a_lower_bound_on_the_page() {
    let Some(browser) = browser() else { return };
    let project = project();
    let text = r#"{"type":"assistant","session_id":"s-1","message":{"id":"m-2","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"begun"}]}}"#;
    let agent = writing_agent(
        &project,
        &format!("sleep 0.2\nprintf '%s\\n' '{text}'\nexec sleep 600"),
    );
    project.write_hank(&json!({"hank": [codon(&agent, "one", "Build it", "go")]}));
    let crashed = project.start(["run", "--headless"]);
    while !project.run(["logs", "one"]).stdout.contains("begun") {
        std::thread::yield_now();
    }
    crashed.kill();
    let running = project.start(["run", "--headless", "--recover", "crash-point"]);
    let mut page = Page::open(&browser, &address(&project, "token-readonly"));
    page.until("document.body.innerText.includes('Undone or run again')");
    let time = "[...document.querySelectorAll('.fig')].find((each) => each.innerText.startsWith('Time at work')).querySelector('dd').innerText";
    page.until(&format!("{time}.startsWith('at least ')"));
    project.run(["stop"]).expect_code(0);
    running.finish_within(SOON).expect_code(3);
}
