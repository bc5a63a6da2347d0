//! Plan on the page of a run in a real browser: codons before they start (WIRE-52), and the timeline with its marks (WIRE-28).

use std::path::Path;

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::page::{SOON, address, browser, codon, viewed};
use crate::playwright::Page;
use crate::support::{project, shell_agent};

/// A codon, and one that asks first and has a prompt in a file, a check, a limit and a variable.
fn asking(project: &TestProject) -> Value {
    let agent = shell_agent(project);
    project.write(
        "deploy.md",
        "# Deploy\n\nPut the <new> server into production.\n\nNever drop the old table.\n",
    );
    let mut deploy = codon(&agent, "deploy", "Deploy it", "");
    let fields = deploy.as_object_mut().unwrap();
    fields.remove("promptText");
    fields.insert("promptFile".to_owned(), json!(["deploy.md"]));
    fields.insert("approval".to_owned(), json!("Deploy to production?"));
    fields.insert("budget".to_owned(), json!({"maxTimeSeconds": 600}));
    fields.insert(
        "check".to_owned(),
        json!({"run": "test -e done.txt", "retries": 0}),
    );
    fields.insert("env".to_owned(), json!({"DEPLOY_KEY": "sesame"}));
    json!([codon(&agent, "one", "Build it", "one"), deploy])
}

// covers: WIRE-28, WIRE-43, WIRE-52
#[test]
fn a_planned_codon_opens_and_says_what_it_is_to_do() {
    let Some(browser) = browser() else { return };
    let project = project();
    project.write_hank(&json!({"hank": asking(&project)}));
    let running = project.start(["run", "--headless", "--no-autostart"]);
    let mut page = Page::open(&browser, &address(&project, "token"));
    let reader = address(&project, "token-readonly");
    page.until("[...document.querySelectorAll('.row.todo a.nm')].length === 2");
    page.evaluate("document.querySelectorAll('.row.todo a.nm')[1].click()");
    page.until("location.hash === '#/plan/deploy'");
    let shown = "(document.getElementById('planned')?.innerText ?? '')";
    for part in [
        "planned, not started",
        "command with shell",
        "Put the <new> server into production.",
        "Never drop the old table.",
        "deploy.md",
        "May use 10m0s",
        "test -e done.txt",
        "Sets DEPLOY_KEY",
        "Deploy to production?",
        "The codon starts at once. After it comes the end of the run.",
        "Later runs do not get past it until it is approved after all.",
        "It starts after 1 other codon, if it is approved.",
    ] {
        page.until(&format!("{shown}.includes({})", json!(part)));
    }
    assert_eq!(
        page.evaluate("document.body.innerText.includes('sesame')"),
        false,
        "values of variables stay where they are"
    );

    // What is asked for is described where it is asked, and the key leads on from the codon before it.
    project.run(["next"]).expect_code(0);
    let mut reader = Page::open(&browser, &reader);
    for page in [&mut page, &mut reader] {
        page.until("document.getElementById('approved')?.innerText.includes('Never drop the old table.')");
        page.until("document.querySelector('#attention .effects')?.innerText.includes('The run ends before the codon.')");
    }
    for part in ["May use 10m0s", "test -e done.txt"] {
        reader.until(&format!(
            "document.getElementById('approved')?.innerText.includes({})",
            json!(part)
        ));
    }
    reader.until_shows("and whoever has the address that may act.");
    reader.until("document.getElementById('codon')?.innerText.includes('Build it')");
    what_is_opened_comes_into_view(&mut reader);
    the_box_of_a_question_has_whole_icons_and_the_keys_two_columns(&mut reader);
    reader.evaluate("location.hash = '#/'");
    reader.until("document.getElementById('codon')?.innerText.includes('Build it')");
    reader.press("j");
    reader.until("location.hash === '#/plan/deploy'");
    reader.until(&format!("{shown}.includes('It starts once it is approved.')"));

    // Once it has started, its address leads to its attempt.
    page.click("approve");
    page.click("sure");
    page.until("document.querySelector('#codon h2')?.innerText.includes('Deploy it') && document.getElementById('transcript')?.innerText.includes('working')");
    assert_eq!(page.evaluate("location.hash"), "#/plan/deploy");
    project.run(["stop"]).expect_code(0);
    running.finish_within(SOON);
}

/// Returns the condition that the top of an element is in the window.
fn in_window(selector: &str) -> String {
    format!(
        "(() => {{ const place = document.querySelector('{selector}')?.getBoundingClientRect();
            return place && place.top >= 0 && place.top < innerHeight && place.height > 0 && scrollY > 0; }})()"
    )
}

/// Opens parts below the ask box in a low window: by a link, by addresses of a new page, and by a key.
fn what_is_opened_comes_into_view(reader: &mut Page) {
    reader.resize((1000, 400), "light");
    reader.evaluate("scrollTo(0, 0)");
    assert_eq!(
        reader.evaluate("scrollY"),
        0,
        "what the page follows moves nothing"
    );
    for _ in 0..2 {
        reader.evaluate("scrollTo(0, 0); document.getElementById('in-full').click()");
        reader.until(&in_window("#planned h2"));
    }
    for (place, selector) in [
        ("#/plan/deploy", "#planned h2"),
        ("#/one.1.1", "#codon h2"),
        ("#/one.1.1/changes", "#codon h2"),
        ("#/report", "#report"),
    ] {
        reader.evaluate(&format!("history.replaceState(null, '', '{place}')"));
        reader.evaluate("history.scrollRestoration = 'manual'");
        reader.reload();
        reader.until(&in_window(selector));
    }
    what_is_opened_stays_in_view(reader);
    reader.evaluate("location.hash = '#/one.1.1'");
    reader.until("document.querySelector('.log [data-seq]')");
    reader.evaluate("scrollTo(0, 0)");
    reader.press("n");
    reader.until("location.hash.includes('@')");
    reader.until(&in_window(".log .here"));
    reader.reload();
    reader.until(&in_window(".log .here"));
    reader.evaluate("location.hash = '#/one.1.1/changes/NOPE.md'");
    reader.until("document.getElementById('unknown-file')?.innerText.includes('NOPE.md')");
}

/// No dash of the timeline is inherited by an icon.
fn the_box_of_a_question_has_whole_icons_and_the_keys_two_columns(reader: &mut Page) {
    let dashes = "getComputedStyle(document.getElementById('attention')).strokeDasharray";
    assert_eq!(reader.evaluate(dashes), "none");
    reader.press("?");
    reader.until("document.activeElement.closest('.help')");
    let columns = "new Set([...document.querySelectorAll('.help dd')].map((each) => each.getBoundingClientRect().left)).size";
    assert_eq!(reader.evaluate(columns), 1);
    let far = "Math.max(...[...document.querySelectorAll('.help dt')].map((each) => each.nextElementSibling.getBoundingClientRect().left - each.lastElementChild.getBoundingClientRect().right)) < 120";
    assert_eq!(reader.evaluate(far), true);
    reader.press("Escape");
    reader.until("!document.querySelector('.help')");
}

/// Fills the space above the open report in a browser that does not keep its scroll position by itself: the report stays until the user scrolls away.
fn what_is_opened_stays_in_view(reader: &mut Page) {
    let fill = |height: u32| format!("document.getElementById('attention').style.paddingTop = '{height}px'");
    reader.evaluate("document.documentElement.style.overflowAnchor = 'none'");
    reader.evaluate(&fill(900));
    reader.until(&in_window("#report"));
    let drawn = "new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => seen(scrollY)))))";
    reader.wheel_up();
    reader.until("scrollY === 0");
    reader.evaluate(&fill(1200));
    assert_eq!(reader.evaluate(drawn), 0, "who scrolled away is left there");
}

// covers: WIRE-28
#[test]
fn an_address_that_leads_nowhere_says_so() {
    let Some(browser) = browser() else { return };
    let project = project();
    project.write_hank(&json!({"hank": [codon(&shell_agent(&project), "one", "Build it", "one")]}));
    project.run(["run", "--headless"]).expect_code(0);
    let (viewing, mut page) = viewed(&browser, &project, &[]);
    page.until("document.getElementById('transcript')?.innerText.includes('working')");
    for (hash, words) in [
        ("#/codon/nothing", "This address names nothing in this run."),
        ("#/nothing.1.1", "This run has no codon “nothing”."),
        ("#/plan/nothing", "This run has no codon “nothing”."),
        ("#/one.7.1", "“Build it” has no attempt 7.1 in this run"),
    ] {
        page.evaluate(&format!("location.hash = '{hash}'"));
        page.until(&format!(
            "document.querySelector('.missing')?.innerText.includes('{words}')"
        ));
        assert_eq!(page.evaluate("!!document.getElementById('transcript')"), false);
    }
    page.evaluate("document.querySelector('.missing a').click()");
    page.until("document.getElementById('transcript')?.innerText.includes('working')");
    viewing.kill();
}

// covers: WIRE-28, WIRE-43
#[test]
fn a_denial_says_what_follows_from_it() {
    let Some(browser) = browser() else { return };
    let project = project();
    project.write_hank(&json!({"hank": asking(&project)}));
    project.run(["run", "--headless"]).expect_code(3);
    let mut page = exported(&browser, &project, "asked.html", |_| {});
    page.until("document.getElementById('approved')?.innerText.includes('Never drop the old table.')");
    page.until(
        "document.querySelector('#attention .effects')?.innerText.includes('The next run starts the codon')",
    );
    project
        .run(["approve", "--deny", "--reason", "not on a Friday"])
        .expect_code(0);
    let mut page = exported(&browser, &project, "denied.html", |_| {});
    let answer = "document.getElementById('answered')?.innerText";
    page.until(&format!("{answer}.includes('Deploy it: denied by ')"));
    page.until(&format!(
        "{answer}.includes('not on a Friday. The run ended before it.')"
    ));
    page.until(&format!("{answer}.includes('until it is approved after all.')"));
    page.evaluate("location.hash = '#/plan/deploy'");
    page.until("document.getElementById('prompt')?.innerText.includes('Never drop the old table.')");
}

/// Opens the exported page of a project after `change` has changed its view.
fn exported(browser: &Path, project: &TestProject, name: &str, change: impl FnOnce(&mut Value)) -> Page {
    let file = project.home().join(name);
    project
        .run(["view", "--export", file.to_str().unwrap()])
        .expect_code(0);
    let html = std::fs::read_to_string(&file).unwrap();
    let begin = html.find("id=\"record\">").unwrap() + "id=\"record\">".len();
    let end = begin + html[begin..].find("</script>").unwrap();
    let mut record: Value = serde_json::from_str(&html[begin..end]).unwrap();
    change(&mut record["view"]);
    let record = record.to_string().replace('<', "\\u003c");
    std::fs::write(&file, format!("{}{record}{}", &html[..begin], &html[end..])).unwrap();
    Page::open(browser, &format!("file://{}", file.display()))
}

/// A time of the day of the pictures.
fn at(time: &str) -> Value {
    json!(format!("2026-01-04T{time}.000Z"))
}

/// Gives the three iterations of a loop these times.
fn set_times(view: &mut Value, times: [(&str, &str); 3]) {
    for (iteration, (began, ended)) in times.into_iter().enumerate() {
        let attempt = &mut view["items"]["b"]["attempts"][format!("{}.1", iteration + 1)];
        (attempt["began"], attempt["ended"]) = (at(began), at(ended));
    }
    view["run"]["began"] = at(times[0].0);
    view["since"] = at(times[2].1);
}

// covers: WIRE-28
#[test]
fn the_timeline_draws_long_waits_short_and_no_marks_from_outside_its_window() {
    let Some(browser) = browser() else { return };
    let project = project();
    let until = json!({"type": "untilCheckPasses", "run": "[ $HANKWEAVE_ITERATION = 2 ]", "limit": 5});
    let build = codon(&shell_agent(&project), "b", "Build it", "go");
    project.write_hank(&json!({"hank": [
        {"type": "loop", "id": "l", "name": "Until it passes", "terminateOn": until, "codons": [build]},
    ]}));
    project.run(["run", "--headless"]).expect_code(0);
    let zoom = |name: &str| {
        format!(
            "[...document.querySelectorAll('.tl .seg button')].find((each) => each.innerText === '{name}').click()"
        )
    };
    let width = "document.querySelector('.attempt .bar').getBoundingClientRect().width";
    let breaks = "document.querySelectorAll('.axis .long').length";

    // Ten minutes of work, and three hours of nothing.
    let mut page = exported(&browser, &project, "waited.html", |view| {
        set_times(
            view,
            [
                ("10:00:00", "10:05:00"),
                ("13:05:00", "13:08:00"),
                ("13:08:00", "13:10:00"),
            ],
        );
    });
    page.until(
        "document.getElementById('short')?.innerText.startsWith('Drawn short: 3h without work, from ')",
    );
    assert_eq!(page.evaluate(breaks), 1);
    assert_eq!(
        page.evaluate("document.querySelector('.axis .long').textContent"),
        "3h"
    );
    let short = page.evaluate(width);
    page.evaluate(&zoom("To scale"));
    page.until("!document.getElementById('short')");
    assert_eq!(page.evaluate(breaks), 0);
    let to_scale = page.evaluate(width);
    assert!(
        short.as_f64().unwrap() > 5.0 * to_scale.as_f64().unwrap(),
        "{short} {to_scale}"
    );

    // The last minute has one iteration, and the rings of the others are outside of it.
    let mut page = exported(&browser, &project, "zoomed.html", |view| {
        set_times(
            view,
            [
                ("10:00:00", "10:05:00"),
                ("10:05:00", "10:08:00"),
                ("10:08:00", "10:10:00"),
            ],
        );
    });
    let marks = "[...document.querySelectorAll('circle.check, rect.loop')].length";
    page.until(&format!("{marks} === 6"));
    assert_eq!(page.evaluate("!!document.getElementById('short')"), false);
    page.press("+");
    page.until(&format!("{marks} === 2"));
    page.until("document.querySelectorAll('.attempt').length === 1");
    page.press("=");
    page.until("document.getElementById('told').innerText === 'The timeline is as close as it gets.'");
    page.press("-");
    page.until(&format!("{marks} === 6"));
    page.press("-");
    page.until("document.getElementById('told').innerText === 'The timeline shows everything.'");
    has_times_and_a_legend_on_a_phone(&mut page);
}

/// A narrow window has no axis: the ends of the timeline have one line, and so has the legend.
fn has_times_and_a_legend_on_a_phone(page: &mut Page) {
    page.resize((390, 844), "light");
    page.until("innerWidth === 390");
    page.until("document.querySelector('.axis').getBoundingClientRect().height === 0");
    page.until("/\\d\\d:\\d\\d\\s.*\\d\\d:\\d\\d$/s.test(document.getElementById('times').innerText)");
    for part in ["#times", ".legend"] {
        page.until(&format!(
            "(({{ left, right, height }}) => left >= 0 && right <= 390 && height > 10 && height < 30)(document.querySelector('{part}').getBoundingClientRect())"
        ));
    }
}

// covers: WIRE-28, WIRE-45
#[test]
fn differences_that_run_backwards_say_so() {
    let Some(browser) = browser() else { return };
    let project = project();
    let agent = shell_agent(&project);
    project.write_hank(
        &json!({"hank": [codon(&agent, "a", "Build it", "one"), codon(&agent, "b", "Ship it", "two")]}),
    );
    project.run(["run", "--headless"]).expect_code(0);
    let (viewing, mut page) = viewed(&browser, &project, &[]);
    page.until("document.getElementById('codon')");
    let choose = "{ const base = document.getElementById('base'); base.value = [...base.options].find((each) => each.innerText.startsWith('after ')).value; base.dispatchEvent(new Event('change', { bubbles: true })); }";
    for (hash, name, is_backwards) in [
        ("#/a.1.1/changes", "Build it", true),
        ("#/b.1.1/changes", "Ship it", false),
    ] {
        page.evaluate(&format!("location.hash = '{hash}'"));
        page.until(&format!(
            "document.querySelector('#codon h2').innerText === '{name}' && document.querySelectorAll('#base option').length === 3"
        ));
        page.evaluate(choose);
        page.until("location.hash.includes('?from=') && document.querySelector('.diff')");
        page.until("document.querySelector('.review .dhead')");
        let says = "(document.getElementById('backwards')?.innerText.includes('the files after Ship it are the later ones') ?? false)";
        page.until(&format!("{says} === {is_backwards}"));
    }
    viewing.kill();
}
