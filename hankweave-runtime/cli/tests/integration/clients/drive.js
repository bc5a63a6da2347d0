// Drives a run with the `ws` package: next, skip, rollback and history, with two watchers beside it.
//
// Arguments: port, token, token for watching. Prints "done" when everything was as it should be.
"use strict";

const assert = require("node:assert");
const WebSocket = require("ws");

const [port, token, watching] = process.argv.slice(2);
const url = `ws://127.0.0.1:${port}/ws`;
let commands = 0;

// Applies a merge patch (RFC 7396).
function merge(target, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const merged = target !== null && typeof target === "object" && !Array.isArray(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else merged[key] = merge(merged[key], value);
  }
  return merged;
}

class Client {
  constructor(socket) {
    this.socket = socket;
    this.heard = [];
    this.next = 0;
    this.wake = () => {};
    socket.on("message", (text) => {
      this.heard.push(JSON.parse(text));
      this.wake();
    });
    this.closed = new Promise((resolve) => socket.on("close", resolve));
  }

  async until(wanted) {
    for (;;) {
      while (this.next < this.heard.length) {
        const message = this.heard[this.next++];
        if (wanted(message)) return message;
      }
      await new Promise((resolve, reject) => {
        const late = setTimeout(() => reject(new Error("it takes too long")), 30000);
        this.wake = () => { clearTimeout(late); resolve(); };
      });
    }
  }

  say(message) {
    this.socket.send(JSON.stringify(message));
  }

  command(type, data) {
    const id = `js-${++commands}`;
    this.say({ id, type, data });
    return this.until((message) => message.commandId === id);
  }

  idle(reason) {
    return this.until((message) => message.type === "server.idle" && message.data.reason === reason);
  }

  // Follows the view of the run by its patches until it is the wanted one.
  async view(wanted) {
    let view = null;
    while (view === null || !wanted(view)) {
      const { type, data } = await this.until((message) => ["view", "view.patch"].includes(message.type));
      if (type === "view.patch") assert.strictEqual(data.from, view.seq);
      view = type === "view" ? data.view : merge(view, data.patch);
    }
    return view;
  }

  numbers() {
    return this.heard.filter((message) => message.seq !== undefined).map((message) => message.seq);
  }
}

function open(protocols, options) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, protocols, options);
    const client = new Client(socket);
    socket.on("open", () => resolve(client));
    socket.on("error", () => {});
    socket.on("unexpected-response", (_, response) => reject(response.statusCode));
  });
}

async function enter(key, mode, byProtocol) {
  const client = byProtocol
    ? await open(["hankweave", `bearer.${key}`])
    : await open([], { headers: { Authorization: `Bearer ${key}` } });
  if (byProtocol) assert.strictEqual(client.socket.protocol, "hankweave");
  client.say({ type: "handshake", data: { mode, afterSeq: 0 } });
  await client.until((message) => message.type === "handshake.response");
  return client;
}

async function watchView() {
  const client = await open([], { headers: { Authorization: `Bearer ${watching}` } });
  client.say({ type: "handshake", data: { mode: "readonly", view: true, events: false } });
  await client.until((message) => message.type === "handshake.response");
  return client;
}

// Whether the rollback is in the view, and only the first codon is done.
function undone({ items, commands = {} }) {
  const state = (items.a.attempts || {})["1.1"]?.state;
  const isAsked = Object.values(commands).some(({ command }) => command === "rollback.toCodon");
  return state === "completed" && isAsked && items.b.attempts === undefined;
}

async function main() {
  await assert.rejects(open([]), (status) => status === 401);
  const headers = { Authorization: `Bearer ${token}` };
  await assert.rejects(open([], { headers, origin: "http://evil.example" }), (status) => status === 403);
  const driver = await enter(token, "readandwrite");
  const watchers = [await enter(watching, "readandwrite", true), await enter(token, "readonly")];
  for (const watcher of watchers) {
    assert.strictEqual((await watcher.command("codon.next")).data.code, "INSUFFICIENT_PERMISSIONS");
  }

  await driver.idle("startup");
  const viewer = await watchView();
  const followed = viewer.view(undone);
  assert.strictEqual((await driver.command("codon.next")).data.outcome, "starting");
  await driver.idle("codon-completed");
  const { view } = (await driver.command("view.get")).data;
  const to = view.items.a.attempts["1.1"].checkpoint;
  const { files } = (await watchers[0].command("diff.files", { to })).data;
  assert.deepStrictEqual(files.map(({ path }) => path), ["done.txt"]);
  const { lines, count } = (await watchers[0].command("diff.lines", { to, path: "done.txt", offset: 1, limit: 1 })).data;
  assert.deepStrictEqual([lines, count], [[{ kind: "+", new: 1, text: "one" }], 2]);
  await driver.command("codon.next");
  await driver.until((message) => message.type === "codon.started");
  assert.strictEqual((await driver.command("codon.skip")).data.outcome, "stopping");
  await driver.idle("all-codons-completed");
  const back = await driver.command("rollback.toCodon", { codonId: "a", checkpointType: "end" });
  assert.strictEqual(back.data.outcome, "rolled-back");
  await driver.idle("rollback-completed");
  await followed;
  assert.deepStrictEqual(viewer.numbers(), [], "it wanted no events");

  driver.say({ id: "js-history", type: "history.sync" });
  const history = [];
  for (;;) {
    const batch = await driver.until((message) => message.type === "history.batch");
    history.push(...batch.data.events.map((event) => event.seq));
    if (!batch.data.hasMore) break;
  }
  assert.deepStrictEqual(history, driver.numbers());
  for (const watcher of watchers) {
    await watcher.idle("rollback-completed");
    assert.deepStrictEqual(watcher.numbers(), driver.numbers());
  }
  await driver.command("server.shutdown");
  assert.strictEqual(await driver.closed, 1001);
  console.log("done");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
