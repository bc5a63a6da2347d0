// Follows a run: reads the token from the fragment of the address, connects read-only and shows what happens. After a lost connection it
// continues after the last event that it saw.
"use strict";

const SHOWN_EVENTS = 500;
const element = (id) => document.getElementById(id);
const token = new URLSearchParams(location.hash.slice(1)).get("token");
const codons = new Map();
const sentinels = new Map();
// Codons that cost more than is known, and those of which more will be known when their answer has ended.
const uncertain = new Set();
const writing = new Set();
let spent = 0;
// The codons that a rollback is about to go back over.
let leaving = [];
let lastSeq = null;
let delay = 500;

function say(text) {
  element("status").textContent = text;
}

// To a hundredth of a cent, as everywhere else, from the billionths of a dollar that are stored.
function dollars(amount) {
  const billionths = Math.round(Number(amount || 0) * 1e9);
  return "$" + (Math.floor((billionths + 50000) / 100000) / 10000).toFixed(4);
}

function told(amount, isLowerBound) {
  return (isLowerBound ? "at least " : "") + dollars(amount);
}

function row(id) {
  if (!codons.has(id)) {
    const line = element("codons").insertRow();
    for (const text of [id, "", "", ""]) line.insertCell().textContent = text;
    codons.set(id, line);
    standing(id, "planned");
  }
  return codons.get(id).cells;
}

function standing(id, text) {
  row(id)[1].textContent = text;
  codons.get(id).className = text === "planned" ? "planned" : "";
}

// The ids of the plan in order.
let plan = [];

// The rows stand in the order of the plan. What was only planned, and is no more, goes.
function replacePlan(ids) {
  const kept = new Set(ids);
  plan = ids;
  for (const id of [...codons.keys()]) if (!kept.has(id)) drop(id);
  for (const id of ids) {
    row(id);
    element("codons").append(codons.get(id));
  }
}

function total() {
  element("cost").textContent = told(spent, uncertain.size + writing.size > 0);
}

function transition(data) {
  asks(false);
  spent = data.resultingState.totalSpend;
  const change = data.transition;
  if (data.transitionType === "PlanReplaced") replacePlan(change.data.executionPlan.map((entry) => entry.codonId));
  if (data.transitionType === "PlanExtended") extendPlan(change.data.extension);
  if (data.transitionType === "CodonStarted") standing(data.codonId, "preparing");
  if (data.transitionType === "CodonTransitioned") {
    standing(data.codonId, change.data.to);
    if ((change.data.metadata || {}).costIsLowerBound) uncertain.add(data.codonId);
  }
  total();
}

function drop(id) {
  const line = codons.get(id);
  if (!line || line.className !== "planned") return;
  line.remove();
  codons.delete(id);
}

// What a loop adds after one of its codons, or takes from there.
function extendPlan({ after, dropped = 0, entries = [] }) {
  const begin = plan.lastIndexOf(after) + 1;
  if (begin === 0) return;
  const ids = entries.map((entry) => entry.codonId);
  plan.splice(begin, dropped, ...ids).forEach(drop);
  const next = codons.get(plan[begin + ids.length]) || null;
  for (const id of ids) {
    row(id);
    element("codons").insertBefore(codons.get(id), next);
  }
}

// What was gone back over runs again.
function wentBack() {
  for (const id of leaving) {
    const [, , cost, time] = row(id);
    [cost.textContent, time.textContent] = ["", ""];
    standing(id, "planned");
  }
  leaving = [];
}

// One row a sentinel, whatever codon it watches; its cost is that of all of them.
function sentinel(data) {
  const id = data.sentinelId;
  if (!sentinels.has(id)) {
    const line = element("sentinels").insertRow();
    for (const text of [id, "", "", dollars(0)]) line.insertCell().textContent = text;
    sentinels.set(id, { line, before: 0, now: 0 });
    element("watch").hidden = false;
  }
  return sentinels.get(id);
}

function saidBy(data, words) {
  const { line, before, now } = sentinel(data);
  const [, codon, said, cost] = line.cells;
  codon.textContent = data.codonId;
  if (words) said.textContent = String(words).slice(0, 300);
  cost.textContent = dollars(before + now);
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

function asks(isAsked) {
  element("ask").hidden = !isAsked;
}

const SHOW = {
  "sentinel.loaded": (data) => {
    const watching = sentinel(data);
    watching.before += watching.now;
    watching.now = 0;
    saidBy(data, "watches");
  },
  "sentinel.output": (data) => {
    sentinel(data).now += data.cost;
    saidBy(data, typeof data.content === "string" ? data.content : JSON.stringify(data.content));
  },
  "sentinel.error": (data) => saidBy(data, "failed: " + data.message),
  "sentinel.unloaded": (data) => {
    sentinel(data).now = data.finalCost;
    saidBy(data);
  },
  "state.transition": transition,
  "rollback.started": (data) => { leaving = data.codonsToProcess; },
  "rollback.completed": wentBack,
  "codon.completed": (data) => {
    writing.delete(data.codonId);
    total();
    const [, , cost, time] = row(data.codonId);
    cost.textContent = told(data.cost + (data.sentinelCost || 0), data.costIsLowerBound);
    time.textContent = (data.duration / 1000).toFixed(1) + " s";
  },
  "token.usage": (data) => {
    row(data.codonId)[2].textContent = told(data.totalCost, data.costIsLowerBound);
    if (data.costIsLowerBound) writing.add(data.codonId);
    else writing.delete(data.codonId);
    total();
  },
  "server.ready": (data) => { element("place").textContent = data.executionPath; },
  "server.idle": (data) => {
    asks(data.reason === "approval-required");
    say("idle: " + data.message);
  },
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

function happened(message) {
  if (message.seq !== undefined) {
    if (lastSeq !== null && message.seq <= lastSeq) return;
    lastSeq = message.seq;
  }
  const show = SHOW[message.type];
  if (show) show(message.data);
  list(message);
}

function hear(text) {
  const message = JSON.parse(text);
  if (message.type === "handshake.response") {
    delay = 500;
    say("connected");
    message.data.eventHistory.forEach(happened);
    if (lastSeq === null) lastSeq = message.data.lastSeq;
  } else {
    happened(message);
  }
}

function connection() {
  return new WebSocket("ws://" + location.host + "/ws", ["hankweave", "bearer." + token]);
}

function connect() {
  const socket = connection();
  socket.onopen = () => {
    // The first time everything is fetched, later only what is new.
    const data = { mode: "readonly", afterSeq: lastSeq === null ? 0 : lastSeq };
    socket.send(JSON.stringify({ type: "handshake", data }));
  };
  socket.onmessage = (event) => hear(event.data);
  socket.onclose = (event) => {
    if (event.code === 1001) return say("the run has ended");
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
