//! The list of all runs below a folder in a real browser (WIRE-51).

use std::path::Path;

use hankweave_testing::{Running, TestProject, clients};
use rustix::process::Signal;
use serde_json::json;

use crate::page::{SOON, axe_finds_nothing, browser, codon, viewed, viewing};
use crate::playwright::Page;
use crate::support::{port, project, shell_agent};

/// Runs of three execution directories below `work`, and a task that no worker has taken. The hank of `two` asks before it starts.
struct Listed {
    project: TestProject,
    asking: Running,
    viewing: Running,
    /// Page of the list, and its address.
    page: Page,
    address: String,
}

/// Name of a folder that would be markup, if it were not text.
const MARKUP: &str = "<img src=x onerror=alert(1)>";

impl Listed {
    fn start(browser: &Path) -> Self {
        let project = project();
        let agent = shell_agent(&project);
        let fails = json!({"command": ["sh", "-c", "cat > /dev/null; exit 7"], "stream": "claude"});
        let hanks = [
            (
                "one",
                json!({"meta": {"name": "Draft the changelog", "version": "1"}, "hank": [codon(&agent, "a", "Build it", "one")]}),
            ),
            (
                MARKUP,
                json!({"hank": [codon(&fails, "a", "Break it", "one"), codon(&agent, "b", "Ship it", "two")]}),
            ),
        ];
        for (folder, hank) in hanks {
            project.write_hank(&hank);
            let folder = format!("work/{folder}");
            let code = if folder == "work/one" { 0 } else { 1 };
            project
                .run(["run", "--headless", "-e", &folder])
                .expect_code(code);
        }
        let mut deploy = codon(&agent, "deploy", "Deploy it", "two");
        deploy["approval"] = json!("Deploy to production?");
        project.write_hank(&json!({"meta": {"name": "Move the sessions", "version": "1"}, "hank": [codon(&agent, "a", "Build it", "one"), deploy]}));
        project
            .run([
                "task",
                "create",
                "Write the guide",
                "--hank",
                ".",
                "--id",
                "guide",
            ])
            .expect_code(0);
        let asking = project.start(["run", "--headless", "--no-autostart", "-e", "work/two"]);
        port(&project.directory().join("work/two"));
        project.run(["next", "-e", "work/two"]).expect_code(0);
        let (viewing, address) = viewing(&project, &["--root", "work"]);
        Self {
            project,
            asking,
            viewing,
            page: Page::open(browser, &address),
            address,
        }
    }
}

/// The records of the runs that have ended.
fn ended_records(project: &TestProject) -> Vec<Vec<u8>> {
    let files = ["one", MARKUP].map(|folder| project.directory().join("work").join(folder));
    let names = ["state.json", "state.log"];
    let files = files
        .iter()
        .flat_map(|folder| names.map(|name| folder.join(".hankweave").join(name)));
    files.map(|file| std::fs::read(file).unwrap()).collect()
}

/// The row with this text, in an expression of the page.
fn row(text: &str) -> String {
    format!(
        "[...document.querySelectorAll('.li_')].find((each) => each.innerText.includes({}))",
        json!(text)
    )
}

/// The text of a group of the list, in an expression of the page.
fn group(title: &str) -> String {
    format!(
        "([...document.querySelectorAll('.lg')].find((each) => each.querySelector('h2').innerText.startsWith('{title}'))?.innerText ?? '')"
    )
}

// covers: WIRE-51
#[test]
fn all_runs_below_a_folder_are_listed_and_each_row_opens_its_page() {
    let Some(browser) = browser() else { return };
    let Listed {
        project,
        asking,
        viewing,
        mut page,
        address,
    } = Listed::start(&browser);
    let before = ended_records(&project);
    page.until("document.title.startsWith('2 need attention, 1 ended today')");
    assert_eq!(
        page.evaluate("location.hash"),
        "",
        "the token is no longer in the address bar"
    );
    page.until(&format!(
        "{}.includes('Deploy to production?')",
        group("Needs attention")
    ));
    assert_eq!(page.as_app(), (json!([]), json!(address)));
    page.until(&format!(
        "{}.includes('the agent exited with code 7')",
        group("Needs attention")
    ));
    page.until(&format!("{}.includes('working')", group("Ended today")));
    page.until(&format!("{}.includes('$0.2500')", group("Ended today")));
    page.until(&format!("{}.includes('task guide')", group("Queued")));
    page.until(&format!(
        "{}.querySelector('.st').innerText === 'waits for an approval'",
        row("Move the sessions")
    ));
    page.until_shows("1 task is queued");
    let planted = "document.querySelectorAll('main img, main script').length";
    assert_eq!(page.evaluate(planted), 0, "a folder's name is text");
    page.until(&format!(
        "{}.querySelectorAll('.prog .d').length === 1",
        row("Move the sessions")
    ));
    page.until(&format!(
        "{}.querySelectorAll('.prog .q').length === 1",
        row("Move the sessions")
    ));

    // Found by its folder, and opened; the page of the run leads back.
    page.evaluate("document.getElementById('find').focus()");
    page.write("work/two");
    page.until("document.querySelectorAll('.li_').length === 1");
    page.evaluate("document.querySelector('a.li_').click()");
    page.until("location.pathname.startsWith('/r/two-')");
    page.until("document.title.startsWith('? Waits for an approval')");
    page.until_shows("read-only");
    assert_eq!(page.evaluate("document.querySelectorAll('.btn').length"), 0);
    page.until("document.getElementById('transcript')?.innerText.includes('working')");
    page.evaluate("location.hash = '#/a.1.1/changes'");
    page.until("document.querySelector('.diff')?.innerText.includes('done.txt')");
    page.reload();
    page.until("document.querySelector('.diff')?.innerText.includes('done.txt')");
    page.evaluate("document.activeElement.blur()");
    page.press("g");
    page.until("location.pathname === '/' && document.title.startsWith('2 need attention')");

    // The list follows what runs.
    project.run(["approve", "-e", "work/two"]).expect_code(0);
    page.until(&format!(
        "{}.includes('waits for a command')",
        group("Needs attention")
    ));
    project.run(["stop", "-e", "work/two"]).expect_code(0);
    asking.finish_within(SOON).expect_code(0);
    page.until(&format!("{}.includes('Move the sessions')", group("Ended today")));
    page.until("document.title.startsWith('1 needs attention, 2 ended today')");
    assert!(ended_records(&project) == before, "the records are as they were");
    viewing.signal(Signal::INT);
    viewing.finish_within(SOON).expect_code(130);
    page.until("document.getElementById('link').textContent === 'no connection'");
}

/// Returns what of the layout is wrong: sections come one below the other in this order, nothing is wider than the window, and on a phone a finger
/// meets each button.
const LAYOUT: &str = r#"((wanted) => {
    const wrong = [];
    const box = (name) => document.querySelector(name)?.getBoundingClientRect();
    let bottom = 0;
    for (const name of wanted) {
        const found = box(name);
        if (!found) wrong.push(`${name} is not there`);
        else if (found.top < bottom - 1) wrong.push(`${name} begins at ${found.top}, above ${bottom}`);
        if (found) bottom = found.bottom;
    }
    if (document.documentElement.scrollWidth > innerWidth) wrong.push(`the page is ${document.documentElement.scrollWidth} wide`);
    const isShown = (each) => each.getClientRects().length > 0;
    const ink = getComputedStyle(document.body).color.match(/[\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
    const isDark = matchMedia('(prefers-color-scheme: dark)').matches;
    if (isDark !== ink > 380) wrong.push(`the ink is ${ink}`);
    if (innerWidth < 500) {
        const small = [...document.querySelectorAll('.btn, .ib, .seg button, .find, a.li_')].filter((each) => isShown(each) && each.getBoundingClientRect().height < 40);
        wrong.push(...small.map((each) => `${each.outerHTML.slice(0, 80)} is too small for a finger`));
    }
    return wrong;
})"#;

/// Looks at the layout in two sizes, light and dark.
#[track_caller]
fn stands_as_drawn(page: &mut Page, sections: &[&str]) {
    for size in [(1_440, 900), (390, 844)] {
        for scheme in ["light", "dark"] {
            page.resize(size, scheme);
            page.until(&format!("innerWidth === {}", size.0));
            let wrong = page.evaluate(&format!("{LAYOUT}({})", json!(sections)));
            assert_eq!(wrong, json!([]), "{size:?} {scheme}");
        }
    }
    page.resize((1_440, 900), "light");
}

// covers: WIRE-28, WIRE-51
#[test]
fn the_list_and_each_state_of_a_run_stand_as_they_are_drawn() {
    let Some(browser) = browser() else { return };
    let Listed {
        project: _project,
        asking,
        viewing,
        mut page,
        ..
    } = Listed::start(&browser);
    page.until("document.querySelectorAll('.lg').length === 3");
    page.until(&format!(
        "{}.includes('Deploy to production?')",
        group("Needs attention")
    ));
    stands_as_drawn(
        &mut page,
        &[".topbar", ".lhead", ".lg.you", ".lg:not(.you)", ".lfoot"],
    );
    if let Ok(axe) = clients::axe() {
        page.evaluate(&format!("{axe}; 0"));
        axe_finds_nothing(&mut page);
        page.resize((1_440, 900), "light");
    }
    let sections = [".topbar", ".hero", "#attention", ".tl", "#codon"];
    for (name, title) in [
        ("Draft the changelog", "✓ Completed"),
        ("<img src=x", "✗ Failed"),
        ("Move the sessions", "? Waits for an approval"),
    ] {
        page.evaluate(&format!("{}.click()", row(name)));
        page.until(&format!(
            "location.pathname !== '/' && document.title.startsWith('{title}')"
        ));
        page.until("document.getElementById('codon')");
        stands_as_drawn(&mut page, &sections);
        page.evaluate("document.getElementById('all').click()");
        page.until("location.pathname === '/' && document.querySelectorAll('.lg').length === 3");
    }
    asking.kill();
    viewing.kill();
}

// covers: WIRE-51
#[test]
fn a_list_of_nothing_says_so_and_what_is_no_folder_is_refused() {
    let Some(browser) = browser() else { return };
    let project = project();
    let empty = project.home().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let (listing, mut page) = viewed(&browser, &project, &["--root", empty.to_str().unwrap()]);
    page.until_shows("No run is recorded below ~/empty");
    assert!(
        !project.home().join(".local/share/hankweave").exists(),
        "no registry is made"
    );
    // A run that starts meanwhile appears.
    project.write_hank(&json!({"hank": [codon(&shell_agent(&project), "one", "Build it", "one")]}));
    project
        .run(["run", "--headless", "-e", empty.join("late").to_str().unwrap()])
        .expect_code(0);
    page.until_shows("~/empty/late");
    listing.kill();
    let refused = project.run(["view", "--root", "hank.json"]);
    assert!(
        refused.expect_code(65).stderr.contains("is no folder"),
        "{refused}"
    );
    project
        .run(["view", "--root", ".", "--export", "x.html"])
        .expect_code(2);
    project.run(["view", "--root", ".", "work"]).expect_code(2);
}
