// Follows a run: reads the token from the fragment of the address, connects read-only and draws the view of the run. After a lost connection
// it lists events from the last one that it saw.
"use strict";

const SHOWN_EVENTS = 500;
const element = (id) => document.getElementById(id);
const token = new URLSearchParams(location.hash.slice(1)).get("token");
// The view of the run, as the server keeps it.
let view = { seq: -1 };
let lastSeq = null;
let delay = 500;

function say(text) {
  element("status").textContent = text;
}

// To a hundredth of a cent, as everywhere else, from the billionths of a dollar that are stored.
function dollars(amount, isLowerBound) {
  const billionths = Math.round(Number(amount || 0) * 1e9);
  return (isLowerBound ? "at least " : "") + "$" + (Math.floor((billionths + 50000) / 100000) / 10000).toFixed(4);
}

// JSON merge patch (RFC 7396).
function merge(target, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const merged = { ...target };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else merged[key] = merge(merged[key], value);
  }
  return merged;
}

// Keys of attempts are ITERATION.ATTEMPT.
function byNumbers(a, b) {
  const [left, right] = [a, b].map((key) => key.split(".").map(Number));
  return left[0] - right[0] || left[1] - right[1];
}

function seconds(attempt) {
  const measured = attempt.durationMs ?? (attempt.ended ? Date.parse(attempt.ended) - Date.parse(attempt.began) : undefined);
  return measured === undefined ? "" : (measured / 1000).toFixed(1) + " s";
}

// A codon with the state and time of its newest attempt, and the cost of all of them.
function codon(id) {
  const item = view.items[id];
  const attempts = item.attempts || {};
  const newest = Object.keys(attempts).sort(byNumbers).pop();
  if (newest === undefined) return { className: "planned", texts: [item.name, "planned", "", ""] };
  const loop = view.items[item.in];
  const most = loop && loop.most ? " of at most " + loop.most : "";
  const name = loop ? item.name + ", " + newest.split(".")[0] + most : item.name;
  const all = [...Object.values(attempts), item.earlier || {}];
  const cost = all.reduce((sum, { cost = 0, sentinels = 0 }) => sum + cost + sentinels, 0);
  const { state } = attempts[newest];
  return { className: "", texts: [name, state, dollars(cost, all.some(({ atLeast }) => atLeast)), seconds(attempts[newest])] };
}

function fill(id, rows) {
  const body = element(id);
  while (body.firstElementChild) body.firstElementChild.remove();
  for (const { className, texts } of rows) {
    const line = body.insertRow();
    line.className = className;
    for (const text of texts) line.insertCell().textContent = text;
  }
}

function draw(now) {
  view = now;
  say(view.headline);
  element("ask").hidden = view.state !== "asking";
  const { order = [], items = {}, money, sentinels = {} } = view;
  fill("codons", order.flatMap((id) => items[id].order || [id]).map(codon));
  element("cost").textContent = dollars(money.spent, money.atLeast);
  element("watch").hidden = Object.keys(sentinels).length === 0;
  fill("sentinels", Object.entries(sentinels).map(([id, { state, says = "", cost, atLeast }]) => (
    { className: "", texts: [id, state, says, dollars(cost, atLeast)] })));
}

// Answers whether a codon may begin, over a connection of its own: this one only watches.
function answer(type) {
  const socket = connection();
  const mode = "readandwrite";
  socket.onopen = () => socket.send(JSON.stringify({ type: "handshake", data: { mode } }));
  socket.onmessage = (event) => {
    const { type: kind, data } = JSON.parse(event.data);
    if (kind === "handshake.response" && data.mode !== mode) {
      say("this address is for reading: `hankweave page --control` prints the one that may answer");
      socket.close();
    } else if (kind === "handshake.response") {
      socket.send(JSON.stringify({ id: "page-" + Date.now() + Math.random(), type, data: {} }));
    } else if (kind === "command.ack" || kind === "error") {
      say(data.message || data.outcome);
      socket.close();
    }
  };
}

const SHOW = {
  "view": (data) => draw(data.view),
  "view.patch": (data, socket) => {
    if (data.from === view.seq) draw(merge(view, data.patch));
    else socket.send(JSON.stringify({ id: "view-" + Date.now(), type: "view.get" }));
  },
  "server.ready": (data) => { element("place").textContent = data.executionPath; },
};

function words(message) {
  const data = message.data || {};
  return data.transitionType || data.content || data.message || data.line || data.codonId || "";
}

function list(message) {
  if (message.seq === undefined) return;
  const item = document.createElement("li");
  item.textContent = message.type + " " + String(words(message)).slice(0, 300);
  const events = element("events");
  events.append(item);
  while (events.childElementCount > SHOWN_EVENTS) events.firstElementChild.remove();
  events.scrollTop = events.scrollHeight;
}

function happened(message, socket) {
  if (message.seq !== undefined) {
    if (lastSeq !== null && message.seq <= lastSeq) return;
    lastSeq = message.seq;
  }
  const show = SHOW[message.type];
  if (show) show(message.data, socket);
  list(message);
}

function hear(text, socket) {
  const message = JSON.parse(text);
  if (message.type === "handshake.response") {
    delay = 500;
    message.data.eventHistory.forEach((event) => happened(event, socket));
    if (lastSeq === null) lastSeq = message.data.lastSeq;
  } else {
    happened(message, socket);
  }
}

function connection() {
  return new WebSocket("ws://" + location.host + "/ws", ["hankweave", "bearer." + token]);
}

function connect() {
  const socket = connection();
  socket.onopen = () => {
    // The first time everything is fetched, later only what is new.
    const data = { mode: "readonly", view: true, afterSeq: lastSeq === null ? 0 : lastSeq };
    socket.send(JSON.stringify({ type: "handshake", data }));
  };
  socket.onmessage = (event) => hear(event.data, socket);
  socket.onclose = (event) => {
    // The view says how it has ended.
    if (event.code === 1001) return;
    if (event.code === 4001) return say("the run has ended, and not everything of it is shown here");
    say("not connected; trying again");
    setTimeout(connect, delay);
    delay = Math.min(delay * 2, 10000);
  };
}

element("approve").onclick = () => answer("codon.approve");
element("deny").onclick = () => answer("codon.deny");
if (token) connect();
else say("the address lacks the token: `hankweave page -e DIR` prints the whole one, for the directory of the run");
