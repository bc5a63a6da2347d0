// Shows messages, one a line of standard input, on the page in the file that is named, and prints its table.
"use strict";

const fs = require("node:fs");
const vm = require("node:vm");

class Element {
  constructor() {
    this.children = [];
    this.textContent = "";
    this.className = "";
  }

  append(child) {
    child.remove();
    child.parent = this;
    this.children.push(child);
  }

  remove() {
    if (this.parent) this.parent.children = this.parent.children.filter((child) => child !== this);
  }

  insertRow() {
    const child = new Element();
    this.append(child);
    return child;
  }

  insertCell() {
    return this.insertRow();
  }

  get cells() {
    return this.children;
  }

  get childElementCount() {
    return this.children.length;
  }

  get firstElementChild() {
    return this.children[0];
  }
}

const elements = new Map();
let socket;
const page = {
  document: {
    getElementById: (id) => elements.get(id) || elements.set(id, new Element()).get(id),
    createElement: () => new Element(),
  },
  location: { hash: "#token=any", host: "localhost" },
  URLSearchParams,
  WebSocket: class {
    constructor() {
      socket = this;
    }
  },
};
vm.runInNewContext(fs.readFileSync(process.argv[2], "utf8"), page);
for (const data of fs.readFileSync(0, "utf8").trim().split("\n")) socket.onmessage({ data });
const rows = elements.get("codons").children.map((row) => [row.className, ...row.cells.slice(0, 3).map((cell) => cell.textContent)]);
console.log(JSON.stringify({ status: elements.get("status").textContent, rows, total: elements.get("cost").textContent }));
