//! Pictures of the page in the book. `docs/screens/draw-page` takes them again; every test run compares the page with them.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::page::{address, browser};
use crate::picture::migration;
use crate::playwright::Page;
use crate::support::project;

/// Compares two pictures in a grid of 48 by 30 cells: the mean difference, and the share of cells with a large one.
/// Letters differ with the fonts of a machine, and times with each run; places, sizes and colours do not.
const COMPARE: &str = r"(async (pictures) => {
    const [columns, rows] = [48, 30];
    const cells = await Promise.all(pictures.map(async (picture) => {
        const image = new Image();
        image.src = `data:image/png;base64,${picture}`;
        await image.decode();
        const canvas = Object.assign(document.createElement('canvas'), { width: columns, height: rows });
        const context = canvas.getContext('2d');
        context.imageSmoothingQuality = 'high';
        context.drawImage(image, 0, 0, columns, rows);
        return { size: [image.width, image.height], of: context.getImageData(0, 0, columns, rows).data };
    }));
    if (String(cells[0].size) !== String(cells[1].size)) return { mean: 255, much: 1 };
    const differences = [...cells[0].of].map((value, at) => Math.abs(value - cells[1].of[at]));
    const sum = differences.reduce((sum, each) => sum + each, 0);
    return { mean: sum / (columns * rows * 3), much: differences.filter((each) => each > 60).length / (columns * rows * 3) };
})";

/// Names the directory of the test as that of a person would be named.
const NAMED: &str = "document.querySelectorAll('#place, .cmd code span').forEach((each) => { if (each.textContent.endsWith('/project')) each.textContent = '~/sessions'; })";

/// Takes a picture where `HANKWEAVE_TEST_PAGE_PICTURES` says so, and compares the page with it elsewhere.
#[track_caller]
fn is_pictured(page: &mut Page, name: &str) {
    let book = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let file = PathBuf::from(book).join(name);
    let shown = page.picture();
    if std::env::var_os("HANKWEAVE_TEST_PAGE_PICTURES").is_some() {
        std::fs::write(&file, STANDARD.decode(&shown).unwrap()).unwrap();
    }
    let drawn = STANDARD.encode(std::fs::read(&file).unwrap());
    let found = page.evaluate(&format!("{COMPARE}({})", json!([shown, drawn])));
    let [mean, much] = ["mean", "much"].map(|name| found[name].as_f64().unwrap());
    assert!(mean < 4.0 && much < 0.01, "{name}: {found}");
}

#[test]
fn the_page_of_a_run_looks_as_in_the_book() {
    let Some(browser) = browser() else { return };
    let project = project();
    migration(&project);
    let running = project.start(["run", "--headless", "--max-cost", "5"]);
    let mut page = Page::open(&browser, &address(&project, "token"));
    page.resize((1_280, 800), "light");
    page.until_shows("Build it (1 of at most 5)");
    page.until_shows("145 passed; 3 failed");
    page.until_shows("145k of 200k tokens");
    // Nothing new is known of its money since the newest event.
    page.until("((points) => points.at(-1).split(',')[1] === points.at(-2).split(',')[1])(document.querySelector('.curve polyline').getAttribute('points').split(' '))");
    page.evaluate(NAMED);
    is_pictured(&mut page, "page-run.png");
    page.resize((390, 844), "dark");
    page.until("innerWidth === 390");
    is_pictured(&mut page, "page-phone.png");
    page.resize((1_280, 800), "light");
    page.until("innerWidth === 1280");
    running.kill();
    page.until_shows("Whether it still runs is not known");
    page.evaluate(NAMED);
    is_pictured(&mut page, "page-lost.png");
}
