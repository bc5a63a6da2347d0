// Does with a page what a test asks for: one request a line on the standard input, one answer a line on the standard output.
const readline = require('node:readline');
const { setTimeout: sleep } = require('node:timers/promises');
const { chromium } = require('playwright-core');

// The browser leaves the page while it is asked about it.
const LEFT = /context was destroyed|because of a navigation|frame was detached/;

function methods(page, devtools, patience) {
    const evaluate = (expression) => page.evaluate(expression).catch((error) => {
        if (!LEFT.test(error.message)) throw error;
    });
    return {
        open: (address) => page.goto(address),
        reload: () => page.reload(),
        resize: async (width, height, colorScheme) => {
            await page.setViewportSize({ width, height });
            await page.emulateMedia({ colorScheme });
        },
        picture: async () => (await page.screenshot()).toString('base64'),
        write: (text) => page.keyboard.insertText(text),
        writeAndLoad: (text) => Promise.all([page.waitForEvent('load'), page.keyboard.insertText(text)]),
        press: (key) => page.keyboard.press(key),
        wheelUp: () => page.mouse.wheel(0, -20_000),
        click: (id) => page.click(`[id="${id}"]`),
        evaluate,
        // `waitForFunction` evaluates in the page, whose policy forbids that.
        until: async (expression) => {
            const end = Date.now() + patience;
            while (!(await evaluate(expression))) {
                if (Date.now() > end) throw new Error(`never\n${await evaluate('document.body.innerText')}`);
                await sleep(50);
            }
        },
        devtools: (method) => devtools.send(method),
    };
}

async function main([browser, patience]) {
    // A window without a record of its own, such as Playwright's usual one, refuses to install a page.
    const context = await chromium.launchPersistentContext('', { executablePath: browser, chromiumSandbox: false });
    context.setDefaultTimeout(Number(patience));
    const page = context.pages()[0];
    await page.mouse.move(500, 200);
    const can = methods(page, await context.newCDPSession(page), Number(patience));
    for await (const line of readline.createInterface({ input: process.stdin })) {
        const { method, given } = JSON.parse(line);
        const answer = await can[method](...given).then((value) => ({ value }), (error) => ({ error: error.message }));
        // What Playwright tells of a page that was loaded is an object of its own.
        const isPlain = answer.error || !['open', 'reload', 'writeAndLoad'].includes(method);
        console.log(JSON.stringify(isPlain ? answer : {}));
    }
    await context.close();
}

main(process.argv.slice(2));
