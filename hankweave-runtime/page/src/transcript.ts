// The transcript of one attempt, made from events: bounded, in the order of the events, tool uses with their results and sub-agents inside.
import { type JournalEvent, readHistory } from "./connection";
import { type Instead, type Place, type View, places } from "./view";
import { insteadOf } from "./words";

/** Most moments in memory; the log on disk has all of them. */
const MOST_MOMENTS = 2000;
/** Most steps of one sub-agent, and lines of one rig. */
const MOST_PARTS = 300;
/** Most tool uses that wait for their result. */
const MOST_OPEN_TOOLS = 1000;
/** Longest text in memory, in characters. */
const LONGEST_TEXT = 64 * 1024;

export interface ToolUse {
  kind: "tool";
  seq: number;
  at: number;
  name: string;
  input: Record<string, unknown>;
  result?: string;
  isError: boolean;
  /** Length in characters, where the result was cut. */
  originalLength?: number;
  ms?: number;
  steps: Moment[];
}

export type Moment =
  | { kind: "text" | "thinking" | "notice" | "problem"; seq: number; at: number; text: string }
  | { kind: "note"; seq: number; at: number; who: string; text: string; cost?: number; tone: "sentinel" | "passed" | "failed" }
  | { kind: "lines"; seq: number; at: number; title: string; lines: string[] }
  | ToolUse;

export interface Prompt {
  text: string;
  /** Length in characters, where it was cut. */
  originalLength?: number;
}

/** Title of what commands after the agent print, until the check that they are has ended. */
const AFTER = "Command";

const SUBJECTS = ["file_path", "path", "command", "pattern", "url", "query", "description", "prompt"];

/** Returns the argument of a tool use that tells most. */
export function subject(input: Record<string, unknown>): string {
  for (const key of SUBJECTS) if (typeof input[key] === "string") return input[key];
  return "";
}

function cut(value: unknown): string {
  const text = typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
  return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text;
}

export class Transcript {
  moments: Moment[] = [];
  /** Prompt of the attempt, once it is read. */
  prompt: Prompt | undefined;
  /** Number of older moments that were let go. */
  dropped = 0;
  isLoading = false;
  isIncomplete = false;
  private place: Place | undefined;
  private key = "";
  private until = Infinity;
  private lastSeq = 0;
  /** Whether what commands print is of those after the set-up. */
  private isSetUp = false;
  private tools = new Map<string, ToolUse>();
  private waiting: JournalEvent[] = [];
  private stop: () => void = () => {};

  constructor(private readonly changed: () => void) {}

  /** Shows an attempt; reads its history if it is another one than before. */
  show(view: View, place: Place | undefined): void {
    const key = place ? keyOf(view, place) : "";
    if (place) this.until = nextSeq(view, place);
    this.place = place;
    if (key === this.key) return;
    this.clear();
    this.key = key;
    if (!place) return;
    this.isLoading = true;
    const after = (place.attempt.seq ?? 1) - 1;
    this.stop = readHistory(
      after,
      (events) => {
        events.forEach((event) => this.add(event));
        this.changed();
        return (events.at(-1)?.seq ?? 0) < this.until;
      },
      (isWhole) => {
        this.isLoading = false;
        this.isIncomplete = !isWhole;
        const waiting = this.waiting;
        this.waiting = [];
        waiting.forEach((event) => this.add(event));
        this.changed();
      },
    );
  }

  /** Whether it is the transcript of this attempt, as far as it is recorded. */
  shows(view: View, place: Place): boolean {
    return this.key === keyOf(view, place) && !this.isLoading;
  }

  /** Takes a live event. */
  take(event: JournalEvent): void {
    if (this.isLoading) this.waiting.push(event);
    else this.add(event);
  }

  clear(): void {
    this.stop();
    this.moments = [];
    this.prompt = undefined;
    this.tools.clear();
    this.waiting = [];
    [this.dropped, this.lastSeq, this.key] = [0, 0, ""];
    this.isLoading = this.isIncomplete = this.isSetUp = false;
  }

  private add(event: JournalEvent): void {
    if (event.seq <= this.lastSeq || event.seq >= this.until) return;
    this.lastSeq = event.seq;
    if (!this.belongs(event)) return;
    const { data, seq } = event;
    const at = Date.parse(event.timestamp);
    const push = (moment: Moment) => this.push(moment, data.parentToolUseId as string | undefined);
    switch (event.type) {
      case "assistant.action":
        this.isSetUp = true;
        if (data.action !== "tool_use") {
          push({ kind: data.action === "thinking" ? "thinking" : "text", seq, at, text: cut(data.content) });
          return;
        }
        push(this.open(data, seq, at));
        return;
      case "tool.result": {
        const tool = this.tools.get(String(data.toolUseId));
        if (!tool) return;
        this.tools.delete(String(data.toolUseId));
        tool.result = cut(data.result);
        tool.isError = data.isError === true;
        tool.ms = at - tool.at;
        if (data.truncated) tool.originalLength = Number(data.originalLength);
        return;
      }
      case "rig.output":
        this.line(this.isSetUp ? AFTER : "Rig", String(data.line), seq, at);
        return;
      case "file.updated": {
        // Each time it is written; what the attempt changed is found by comparison.
        this.line("Written", `${data.path}${data.action === "deleted" ? " (deleted)" : ""}`, seq, at);
        return;
      }
      case "rig.setup.completed":
        this.isSetUp = true;
        return;
      case "rig.setup.failed":
        push({ kind: "problem", seq, at, text: `rig set-up failed${data.ignored ? " (ignored)" : ""}` });
        return;
      case "sentinel.output":
        push({ kind: "note", seq, at, who: String(data.sentinelId), text: cut(data.content), cost: Number(data.cost), tone: "sentinel" });
        return;
      case "sentinel.error":
        push({ kind: "note", seq, at, who: `${data.sentinelId} failed`, text: cut(data.message), tone: "failed" });
        return;
      case "check.completed": {
        for (const moment of this.moments) if (moment.kind === "lines" && moment.title === AFTER) moment.title = "Check";
        const [passed, says] = [data.passed === true, cut(data.says ?? data.why)];
        const tone = passed ? "passed" : "failed";
        push({ kind: "note", seq, at, who: `check ${tone}: ${data.run}`, text: says, tone });
        return;
      }
      case "rehearsal.step": {
        const begin = { ask: "would ask:", run: "would run:", require: "would require:", fallback: "would fall back to:", repeat: "one pass of", extend: "would continue", watch: "would watch:", copy: "would copy:", set: "would set:" };
        push({ kind: "notice", seq, at, text: `${begin[String(data.kind) as keyof typeof begin] ?? "left out:"} ${cut(data.text)}` });
        return;
      }
      case "codon.fallback": {
        const named = [data.agent, data.model].filter(Boolean).join(" with ");
        push({ kind: "notice", seq, at, text: `falls back to ${named}${data.instead ? ` ${insteadOf(data.instead as Instead)}` : ""}${data.sameSession === true ? ", in the same session" : ""}` });
        return;
      }
      case "codon.prompted":
        this.prompt = { text: String(data.prompt), originalLength: data.originalLength as number | undefined };
        return;
      case "codon.extended":
        push({ kind: "notice", seq, at, text: `the agent continues (extension ${data.extensionNumber}): ${cut(data.exhaustWithPrompt)}` });
        return;
      case "output.truncated":
        push({ kind: "notice", seq, at, text: `a line of ${data.length} bytes is too long to be read; the log has it` });
        return;
      case "output.unparsed":
        this.line("Output that is no JSON", cut(data.start), seq, at);
        return;
      case "info":
        push({ kind: "notice", seq, at, text: cut(data.message) });
        return;
      case "error":
        push({ kind: "problem", seq, at, text: cut(data.message) });
    }
  }

  private belongs({ type, timestamp, data }: JournalEvent): boolean {
    const attempt = this.place?.attempt;
    if (!attempt) return false;
    const codon = data.codonId ?? data.codon;
    if (codon === undefined ? !["info", "error", "file.updated"].includes(type) : codon !== attempt.id) return false;
    if (attempt.seq !== undefined) return true;
    // Attempts of earlier histories are only known by their time.
    const at = Date.parse(timestamp);
    return at >= Date.parse(attempt.began ?? timestamp) - 1000 && at <= Date.parse(attempt.ended ?? timestamp) + 1000;
  }

  private open(data: Record<string, unknown>, seq: number, at: number): ToolUse {
    const input = typeof data.toolInput === "object" && data.toolInput ? (data.toolInput as Record<string, unknown>) : {};
    const tool: ToolUse = { kind: "tool", seq, at, name: String(data.toolName ?? "tool"), input: bounded(input), isError: false, steps: [] };
    if (typeof data.toolUseId === "string") this.tools.set(data.toolUseId, tool);
    const [oldest] = this.tools.keys();
    if (this.tools.size > MOST_OPEN_TOOLS && oldest !== undefined) this.tools.delete(oldest);
    return tool;
  }

  private line(title: string, line: string, seq: number, at: number): void {
    const last = this.moments.at(-1);
    if (last?.kind === "lines" && last.title === title) {
      last.lines.push(line);
      if (last.lines.length > MOST_PARTS) last.lines.shift();
    } else {
      this.push({ kind: "lines", seq, at, title, lines: [line] });
    }
  }

  private push(moment: Moment, by?: string): void {
    const parent = by === undefined ? undefined : this.tools.get(by);
    const list = parent ? parent.steps : this.moments;
    list.push(moment);
    if (list.length > (parent ? MOST_PARTS : MOST_MOMENTS)) {
      list.shift();
      if (!parent) this.dropped++;
    }
  }
}

const keyOf = (view: View, { item, key, attempt }: Place): string => `${view.run?.id}/${item}.${key}@${attempt.seq ?? attempt.began}`;

/** Returns an input whose texts are cut. */
function bounded(input: Record<string, unknown>): Record<string, unknown> {
  const isLong = JSON.stringify(input).length > LONGEST_TEXT;
  if (!isLong) return input;
  return Object.fromEntries(Object.entries(input).map(([key, value]) => [key, cut(value)]));
}

/** Returns the number of the event that starts the next attempt. */
function nextSeq(view: View, place: Place): number {
  if (place.attempt.seq === undefined) return Infinity;
  const later = places(view).flatMap(({ attempt }) => (attempt.seq !== undefined && attempt.seq > place.attempt.seq! ? [attempt.seq] : []));
  return Math.min(Infinity, ...later);
}
