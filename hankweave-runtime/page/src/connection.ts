// The connection to the run: the newest view, the events, and commands. After a lost connection it continues after the last event that it got.
import { isAnswering, isProvable, prove } from "./proof";
import { type View, hasEnded, merge } from "./view";
import { visible } from "./words";

export interface JournalEvent {
  seq: number;
  timestamp: string;
  type: string;
  data: Record<string, unknown>;
}

/** Connecting, live, lost (it will come back or was killed), ended in order, or a file that was exported. */
export type Link = "connecting" | "live" | "lost" | "ended" | "file";

interface Message {
  type: string;
  data?: any;
  seq?: number;
  timestamp: string;
  commandId?: string;
}

/** `data` and `text` are of answers that hold what was asked for; `text` is the message as it came, which is never shown. */
type Answer = { ok: true; outcome: string; data?: any; text?: string } | { ok: false; message: string; hint?: string };

/** Report of a run, as the server makes it. */
export interface ReportData {
  markdown: string;
  /** Absent where there is no report. */
  next?: NextSteps;
}

/** What is next, as `hankweave status` says it. */
export interface NextSteps {
  outlook?: string;
  question?: { codonId: string; question: string; since: string };
  /** The first one is the most likely. */
  commands: { command: string; effect: string }[];
}

/** Messages that answer a request with what was asked for. */
const ANSWERS = new Set(["diff.files", "diff.lines", "plan.codon", "report"]);

/** How long the server may take to make a list. */
const LIST_PATIENCE = 60_000;

const SHORTEST_DELAY = 500;
const LONGEST_DELAY = 10_000;
/** The next run in the directory has the same address. */
const NEXT_RUN_DELAY = 3_000;

/** An exported record: the view, and events of the transcripts, which are whole after the event `cutAt`. */
interface ExportedRecord {
  view: View;
  at: string;
  folder: string;
  cutAt: number;
  events: JournalEvent[];
  /** Absent in files of earlier versions. */
  differences?: ExportedDifferences;
  report?: string | null;
  next?: NextSteps | null;
  /** Codons that have not started. */
  described?: { codonId: string }[];
}

/** Differences of attempts, by their checkpoints; `lines` has those of each file, where they are not left out. */
interface ExportedDifferences {
  attempts: { from: string; to: string; files: { path: string }[]; lines: (object[] | null)[] }[];
  leftOut: { attempts: number; files: number; lines: number };
}

const record = exportedRecord();

/** Reads the record of a page that was exported as a file. */
function exportedRecord(): ExportedRecord | undefined {
  const text = document.getElementById("record")?.textContent;
  return text ? (parse(text) as unknown as ExportedRecord) : undefined;
}

export const isFile = record !== undefined;

/** Whether there is a report to ask for. */
export const hasReport = record === undefined || typeof record.report === "string";

/** Answers a request from an exported record. */
function answerFromRecord({ differences, report, described }: ExportedRecord, type: string, data: { to?: string; from?: string; path?: string; offset?: number; limit?: number; codonId?: string }): Answer {
  const found = (data: object): Answer => ({ ok: true, outcome: "done", data, text: JSON.stringify({ data }) });
  if (type === "report.get" && typeof report === "string") return found({ markdown: report });
  const codon = described?.find(({ codonId }) => codonId === data.codonId);
  if (type === "plan.codon") return codon ? found(codon) : { ok: false, message: "It is not in the page." };
  const attempt = differences?.attempts.find(({ to, from }) => to === data.to && (data.from === undefined || from === data.from));
  if (type === "diff.files" && attempt) return found({ ...attempt, lines: undefined });
  const lines = attempt?.lines[attempt.files.findIndex(({ path }) => path === data.path)];
  if (type === "diff.lines" && lines) return found({ lines: lines.slice(data.offset, (data.offset ?? 0) + (data.limit ?? lines.length)), count: lines.length });
  return { ok: false, message: type === "diff.lines" ? "The lines of this file are left out of the page." : "These changes are not in the page." };
}

const token = isFile ? null : takeToken();

/** Takes the token out of the address bar, and keeps it for a reload of this tab only. */
function takeToken(): string | null {
  const given = new URLSearchParams(location.hash.slice(1));
  const [found, at] = [given.get("token"), given.get("at")];
  if (found) {
    sessionStorage.setItem("token", found);
    history.replaceState(null, "", location.pathname + (at ? `#${at}` : ""));
  }
  return found ?? sessionStorage.getItem("token");
}

export const hasToken = token !== null;

/** Address of this server with the token of this page. */
export const bookmark = (): string | undefined => (token ? `${location.origin}/#token=${token}` : undefined);

/** Marks a token with which this tab could command: a server of recorded runs does not say so. */
const COMMANDS = "commands";

/** Returns the address of what is shown, and whether it has the token; one that may command is never in it. */
export function addressToSend(): { address: string; hasToken: boolean } {
  if (!token || sessionStorage.getItem(COMMANDS) === token) return { address: location.href, hasToken: false };
  const at = location.hash.slice(1);
  return { address: `${location.origin}${location.pathname}#token=${token}${at && `&at=${encodeURIComponent(at)}`}`, hasToken: true };
}

/** Takes the token out of an address that a user pastes; returns whether it has one. */
export function pasteToken(text: string): boolean {
  const found = /#token=([\w.~-]+)/.exec(text)?.[1] ?? /^[\w.~-]{32,256}$/.exec(text.trim())?.[0];
  if (found) sessionStorage.setItem("token", found);
  return found !== undefined;
}

/** Path of a record on a server of many, `/r/NAME/`; empty on a server of one directory and on the list itself. */
export const recordPath = isFile ? "" : (/^\/r\/[^/]+\//.exec(location.pathname)?.[0] ?? "");

function open(): WebSocket {
  return new WebSocket(`ws://${location.host}${recordPath || "/"}ws`, ["hankweave", `bearer.${token}`]);
}

/** `stranger`: something answers that does not know our token, which it did not get. */
type ListAnswer = { list: unknown } | "lost" | "stranger";

/** Asks a server of many records for its list. */
export async function fetchList(): Promise<ListAnswer> {
  const proof = await prove(token!);
  if (proof !== "good") return proof === "wrong" ? "stranger" : "lost";
  try {
    const answer = await fetch("/list", { cache: "no-store", credentials: "omit", headers: { Authorization: `Bearer ${token}` }, signal: AbortSignal.timeout(LIST_PATIENCE) });
    return answer.ok ? { list: parse(await answer.text()) } : "lost";
  } catch {
    return "lost";
  }
}

/** Parses a message; its texts are made visible at this one door. */
function parse(text: string): Message {
  return JSON.parse(text, (_, value) => (typeof value === "string" ? visible(value) : value));
}

export class Connection {
  view: View | undefined;
  link: Link = "connecting";
  /** When the connection was lost. */
  lostAt = 0;
  mayCommand = false;
  folder = "";
  /** Something answers at our address that does not know our token, which it did not get. */
  isStranger = false;
  /** When the file was exported. */
  readonly exportedAt = record && Date.parse(record.at);
  /** Clock of the server less our own. */
  private skew = 0;
  private lastSeq: number | undefined;
  private socket: WebSocket | undefined;
  private delay = SHORTEST_DELAY;
  /** The newest report, and the run that it is of. */
  private reported: { run: string | undefined; is: ReportData } | undefined;
  private answers = new Map<string, (answer: Answer) => void>();

  constructor(
    private readonly changed: () => void,
    private readonly happened: (event: JournalEvent) => void,
    private readonly restarted: () => void,
  ) {
    if (record) {
      [this.view, this.folder, this.link] = [record.view, record.folder, "file"];
      if (typeof record.report === "string") this.reported = { run: record.view.run?.id, is: { markdown: record.report, next: record.next ?? undefined } };
    } else if (hasToken) void this.connect();
  }

  now(): number {
    return this.exportedAt ?? Date.now() + this.skew;
  }

  /** Whether requests are answered. */
  get canAsk(): boolean {
    return this.link === "live" || this.link === "file";
  }

  /** Whether the run has ended and nothing serves its page any more. */
  get isGone(): boolean {
    return this.view !== undefined && hasEnded(this.view.state) && !this.canAsk;
  }

  /** The newest report of the run; one comes unasked when the run ends. */
  get report(): ReportData | undefined {
    return this.reported?.run === this.view?.run?.id ? this.reported?.is : undefined;
  }

  /** Sends a command; resolves with the answer of the server. */
  command(type: string, data: object = {}): Promise<Answer> {
    if (record) return Promise.resolve(answerFromRecord(record, type, data));
    // Not `randomUUID`: an address of `--listen` is no secure context.
    const id = `page-${Date.now()}-${Math.random()}`;
    if (this.link !== "live" || !this.socket) return Promise.resolve({ ok: false, message: "there is no connection to the run" });
    this.socket.send(JSON.stringify({ id, type, data }));
    return new Promise((resolve) => this.answers.set(id, resolve));
  }

  private async connect(): Promise<void> {
    const proof = await prove(token!);
    this.isStranger = proof === "wrong";
    if (proof !== "good") return this.lose();
    const socket = open();
    this.socket = socket;
    let isOpened = false;
    socket.onopen = () => {
      isOpened = true;
      const data = { mode: "readandwrite", view: true, afterSeq: this.lastSeq };
      socket.send(JSON.stringify({ type: "handshake", data }));
    };
    socket.onmessage = (message) => {
      this.take(parse(message.data), message.data);
      this.changed();
    };
    socket.onclose = async (event) => {
      // A short token has no proof, and is only refused.
      if (!isOpened && !isProvable(token!)) this.isStranger = await isAnswering();
      for (const answer of this.answers.values()) answer({ ok: false, message: "the connection was lost before the answer came" });
      this.answers.clear();
      // 1001: the run has ended. 4001: it has, and this client did not get everything.
      if (event.code === 1001 || event.code === 4001) this.link = "ended";
      this.lose();
    };
  }

  /** Asks again later. */
  private lose(): void {
    if (this.link !== "ended") {
      if (this.link === "live") this.lostAt = this.now();
      this.link = "lost";
    }
    setTimeout(() => void this.connect(), this.link === "ended" ? NEXT_RUN_DELAY : this.delay);
    this.delay = Math.min(this.delay * 2, LONGEST_DELAY);
    this.changed();
  }

  private take(message: Message, text: string): void {
    const { data } = message;
    if (message.type === "report") this.reported = { run: this.view?.run?.id, is: data };
    if (ANSWERS.has(message.type)) return this.answer(message.commandId, { ok: true, outcome: "done", data, text });
    switch (message.type) {
      case "handshake.response":
        this.mayCommand = data.mode === "readandwrite";
        if (this.mayCommand) sessionStorage.setItem(COMMANDS, token!);
        this.lastSeq ??= data.lastSeq ?? 0;
        this.link = "live";
        this.delay = SHORTEST_DELAY;
        return;
      case "server.ready":
        this.folder = data.executionPath;
        this.skew = Date.parse(message.timestamp) - Date.now();
        return;
      case "view":
        this.view = data.view;
        return;
      case "view.patch":
        if (this.view?.seq === data.from) this.view = merge(this.view, data.patch) as View;
        else void this.command("view.get");
        return;
      case "command.ack":
        this.answer(message.commandId, { ok: true, outcome: data.outcome });
        return;
      case "error":
        if (message.seq !== undefined) break;
        // The history of another directory: start over.
        if (data.code === "UNKNOWN_SEQ") {
          this.lastSeq = undefined;
          this.restarted();
          this.socket?.close();
        }
        this.answer(message.commandId, { ok: false, message: data.message, hint: data.hint });
        return;
    }
    if (message.seq === undefined || message.seq <= (this.lastSeq ?? 0)) return;
    this.lastSeq = message.seq;
    this.happened(message as JournalEvent);
  }

  private answer(id: string | undefined, answer: Answer): void {
    const resolve = id && this.answers.get(id);
    if (!resolve) return;
    this.answers.delete(id);
    resolve(answer);
  }
}

/**
 * Reads the history after an event over a connection of its own, which ends it when the reader has enough.
 * Returns a function that stops it.
 */
export function readHistory(afterSeq: number, take: (events: JournalEvent[]) => boolean, done: (isWhole: boolean) => void): () => void {
  if (record) return readRecord(record, afterSeq, take, done);
  let socket: WebSocket | undefined;
  let isDone = false;
  const end = (isWhole: boolean) => {
    if (isDone) return;
    isDone = true;
    socket?.close();
    done(isWhole);
  };
  void prove(token!).then((proof) => {
    if (isDone) return;
    if (proof !== "good") return end(false);
    const opened = open();
    socket = opened;
    opened.onopen = () => {
      opened.send(JSON.stringify({ type: "handshake", data: { mode: "readonly", events: false } }));
      opened.send(JSON.stringify({ id: "history", type: "history.sync", data: { afterSeq } }));
    };
    opened.onmessage = (text) => {
      if (isDone) return;
      const { type, data } = parse(text.data);
      if (type === "error") end(false);
      if (type === "history.batch" && (!take(data.events) || !data.hasMore)) end(true);
    };
    opened.onclose = () => end(false);
  });
  return () => {
    isDone = true;
    socket?.close();
  };
}

/** Gives the events of an exported record, once the caller has returned. */
function readRecord({ events, cutAt }: ExportedRecord, afterSeq: number, take: (events: JournalEvent[]) => boolean, done: (isWhole: boolean) => void): () => void {
  const timer = setTimeout(() => {
    take(events.filter(({ seq }) => seq > afterSeq));
    done(afterSeq >= cutAt);
  });
  return () => clearTimeout(timer);
}
