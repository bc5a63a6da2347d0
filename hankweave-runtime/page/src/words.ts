// Spelling of times, money, counts and foreign text: the same as in the terminal.

import type { Instead } from "./view";

const ANSI = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
// Control characters except tab and line feed, and marks that reorder or hide text.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

/** Returns text with colours removed and hidden marks spelled out, so that nothing can pose as something else. */
export function visible(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(ANSI, "").replace(HIDDEN, (mark) => `⟨U+${mark.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

export function took(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (ms < 10_000 && ms > 0 && ms % 1000 !== 0) return `${(Math.floor(ms / 100) / 10).toFixed(1)}s`;
  return seconds(s);
}

/** Returns a duration that counts on, in whole seconds. */
export function seconds(s: number): string {
  const part = (n: number, unit: string) => (n ? `${n}${unit}` : "");
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${part(s % 60, "s")}`;
  if (s < 86_400) return `${Math.floor(s / 3600)}h${part(Math.floor(s / 60) % 60, "m")}`;
  return `${Math.floor(s / 86_400)}d${part(Math.floor(s / 3600) % 24, "h")}`;
}

const two = (n: number) => String(n).padStart(2, "0");

/** Returns the local time of day, with the day if it is another one. */
export function clock(ms: number, withSeconds = false): string {
  const at = new Date(ms);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}${withSeconds ? `:${two(at.getSeconds())}` : ""}`;
  const today = new Date();
  if (at.toDateString() === today.toDateString()) return time;
  const year = at.getFullYear() === today.getFullYear() ? "" : ` ${at.getFullYear()}`;
  return `${at.toLocaleString("en", { month: "short" })} ${at.getDate()}${year} ${time}`;
}

/** Returns a sentence of the server with its times in UTC as local ones. */
export function local(text: string): string {
  return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, (time) => clock(Date.parse(time)));
}

/** Returns what a fallback stands in for: `instead of claude with opus, whose usage limit ends at 19:00`. */
export function insteadOf({ agent, model, cause, until }: Instead): string {
  const named = [agent, model].filter(Boolean).join(" with ");
  if (cause === "outage") return `instead of ${named}, which has an outage`;
  if (cause === "unknown-model") return `instead of ${named}, whose model is unknown`;
  return `instead of ${named}, whose usage limit ${until ? `ends at ${local(until)}` : "is used up"}`;
}

export function usd(amount: number): string {
  const digits = Math.abs(amount) < 1 && amount !== 0 ? 4 : 2;
  // Rounded as the program does it, which counts in whole billionths.
  const rounded = Math.round(Math.round(amount * 1e9) / 10 ** (9 - digits)) / 10 ** digits;
  return `$${rounded.toFixed(digits)}`;
}

/** Returns an amount for a table. */
export function cost(amount: number, atLeast?: boolean): string {
  if (!amount) return atLeast ? "unknown" : "";
  return (atLeast ? "≥ " : "") + usd(amount);
}

export function count(n: number): string {
  if (n < 1000) return String(n);
  return n < 999_950 ? `${(n / 1000).toFixed(n < 99_950 ? 1 : 0)}k` : `${(n / 1e6).toFixed(1)}M`;
}

export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  return n < 1 << 20 ? `${(n / 1024).toFixed(n < 10_240 ? 1 : 0)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`;
}

export const plural = (n: number, word: string): string => `${n} ${word}${n === 1 ? "" : "s"}`;

/** Returns how many files a codon changed; empty where that is not known. */
export const changed = (files: number | undefined): string => (files === undefined ? "" : files === 0 ? "changed nothing" : `changed ${plural(files, "file")}`);

/** Returns a clause of the server as the start of a sentence; an id in front stays as it is. */
export const capital = (text: string): string => text.replace(/^[a-z](?=[a-z]*[ :])/, (letter) => letter.toUpperCase());

/** Returns the beginning of a prompt in one line, without its first heading and the marks of Markdown. */
export function excerpt(prompt: string): string {
  const text = prompt.slice(0, 2_000).trim();
  const body = text.replace(/^#.*\n+/, "").trim() || text;
  return body.replace(/[*`#]+/g, "").replace(/\s+/g, " ").slice(0, 400);
}

/** Returns a sentence with its full stop, unless it ends in another mark. */
export const closed = (text: string): string => (/[.?!…]$/.test(text) ? text : `${text}.`);

/** Quotes an argument for a shell, if it needs that. */
export function quoted(argument: string): string {
  return /^[\w@%+=:,./#-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`;
}

/** Returns the answer to an approval, as the terminal says it: `denied by ada at 14:02: not on a Friday`. */
export function answerWords(answer: { granted: boolean; client?: string; reason?: string; at: string }): string {
  const client = answer.client?.startsWith("client-") ? `client ${answer.client.slice(7, 13)}` : answer.client;
  return `${answer.granted ? "approved" : "denied"}${client ? ` by ${client}` : ""} at ${clock(Date.parse(answer.at))}${answer.reason ? `: ${answer.reason}` : ""}`;
}
