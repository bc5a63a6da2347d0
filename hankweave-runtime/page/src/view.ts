// The view of a run as the server sends it: docs/protocol.md, "The view of a run". Absent means "not so" or "not known".

export type RunState = "planned" | "running" | "asking" | "idle" | "completed" | "failed" | "stopped" | "paused" | "crashed";
/** `unknown`: it was running when the connection was lost; only the page has this state. */
export type AttemptState = "unknown" | "running" | "completed" | "failed" | "skipped" | "stopped" | "paused" | "replaced" | "restarted" | "crashed";

export interface Tokens {
  inputTokens: number;
  outputTokens: number;
  cacheCreationTokens: number;
  cacheReadTokens: number;
}

export interface Attempt {
  id?: string;
  seq?: number;
  state: AttemptState;
  began?: string;
  ended?: string;
  durationMs?: number;
  suspendedMs?: number;
  rigMs?: number;
  why?: { kind: string; message?: string; retriable?: boolean; until?: string };
  budget?: string;
  cost: number;
  sentinels?: number;
  atLeast?: boolean;
  tokens?: Partial<Tokens>;
  agent?: string;
  model?: string;
  instead?: Instead;
  replacedBy?: string;
  checkpoint?: string;
  filesChanged?: number;
  result?: string;
  undone?: boolean;
}

export interface Instead {
  agent: string;
  model?: string;
  cause: "usage-limit" | "outage" | "unknown-model";
  until?: string;
}

/** Attempts, summed. */
export interface Earlier {
  count: number;
  cost: number;
  atLeast?: boolean;
  durationMs?: number;
  lostTime?: boolean;
}

/** Answer to an approval. */
export interface Answer {
  codon: string;
  granted: boolean;
  reason?: string;
  client?: string;
  at: string;
}

export interface Item {
  kind: "codon" | "loop";
  in?: string;
  name: string;
  order?: string[];
  iteration?: number;
  most?: number;
  until?: string;
  model?: string;
  asks?: string;
  attempts?: Record<string, Attempt>;
  earlier?: Earlier;
  checks?: Record<string, { passed: boolean; says?: string }>;
}

export interface View {
  view: number;
  seq: number;
  at?: string;
  run?: { id: string; number: number; began: string };
  hank?: { name: string; version: string };
  /** Purpose of the run in a sentence. */
  goal?: string;
  state: RunState;
  since?: string;
  interruptedBy?: string;
  cause?: string;
  headline: string;
  next?: string;
  money: { spent: number; before: number; beforeRun?: number; atLeast?: boolean; beforeAtLeast?: boolean; limit?: number };
  codons?: { completed: number; planned: number };
  undone?: { newest?: Record<string, { item: string; key: string; by: number; attempt: Attempt }>; earlier?: Earlier };
  rollback?: { codon?: string; checkpoint: string; at?: string };
  undo?: { operation: string; to: string; from: string };
  answered?: Answer;
  approved?: boolean;
  timeLimitMs?: number;
  now?: {
    item: string;
    iteration: number;
    attempt: number;
    phase: string;
    context?: { tokens: number; window: number };
    lines?: Record<string, string>;
    tools?: Record<string, { title: string; by?: string; since: string; seq: number }>;
    agents?: Record<string, { title: string; by?: string; last: string; seq: number }>;
  };
  activity?: { kind: string; subject?: string; done?: number; total?: number; since: string; to?: string };
  ask?: { codon?: string; question: string; since: string };
  problem?: { item: string; attempt: string; tail?: Record<string, string> };
  order?: string[];
  omitted?: { before: number; after: number };
  items?: Record<string, Item>;
  waits?: Record<string, { item?: string; codon?: string; answer?: Answer; kind: "retry" | "background" | "limit" | "approval" | "suspended"; from: string; to?: string; why?: string; n?: number; of?: number }>;
  commands?: Record<string, { command: string; client: string; codon?: string; reason?: string; at: string }>;
  files: { base?: string; newest?: Record<string, { as: "created" | "modified" | "deleted"; size?: number; seq: number }>; more?: number };
  sentinels?: Record<string, { state: "watching" | "failed" | "ended"; says?: string; seq: number; answers: number; cost: number; atLeast?: boolean }>;
}

/** Applies a JSON merge patch, RFC 7396; unchanged parts stay the same objects. */
export function merge(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const merged: Record<string, unknown> = isObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    // A plain assignment to `__proto__` would set the prototype.
    else Object.defineProperty(merged, key, { value: merge(own(merged, key), value), writable: true, enumerable: true, configurable: true });
  }
  return merged;
}

function own(object: Record<string, unknown>, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a loop has ended: its check passed, or the run completed. */
export function isOver(view: View, loop: Item): boolean {
  return view.state === "completed" || (loop.iteration !== undefined && loop.checks?.[loop.iteration]?.passed === true);
}

/** Returns the name of an entry of the plan, or its id where it is not known; that of a codon also by the id of an iteration. */
export const nameOf = (view: View, id: string): string => view.items?.[configured(id)]?.name ?? id;

/** Returns the id of hank.json. */
export const configured = (id: string): string => id.replace(/#\d+$/, "");

/** Returns the position in a loop: `2 of at most 5`, or `iteration 2` where no limit is known. */
export const iterationOf = (iteration: number | string, most: number | undefined): string => (most === undefined ? `iteration ${iteration}` : `${iteration} of at most ${most}`);

/** Returns the position of an attempt: `2 of at most 5, attempt 2`; empty for the only one. */
export function positionOf(view: View, item: string, key: string): string {
  const [iteration, attempt] = key.split(".");
  const within = view.items?.[item]?.in;
  const place = within && iterationOf(iteration!, view.items?.[within]?.most);
  return [place, attempt !== "1" && `attempt ${attempt}`].filter(Boolean).join(", ");
}

/** Returns the name of an attempt with its position: `Build it (2 of at most 5)`. */
export function titleOf(view: View, item: string, key: string): string {
  const position = positionOf(view, item, key);
  return nameOf(view, item) + (position && ` (${position})`);
}

/** Whether the check after the iteration of this attempt failed. */
export function isUnpassed(view: View, item: string, key: string): boolean {
  const [iteration, attempt] = key.split(".");
  const { in: within, attempts } = view.items?.[item] ?? {};
  const isLast = attempts?.[`${iteration}.${Number(attempt) + 1}`] === undefined;
  return isLast && within !== undefined && view.items?.[within]?.checks?.[Number(iteration)]?.passed === false;
}

/** Returns the codons of the plan that have not started, in its order. */
export function planned(view: View): string[] {
  const order = (view.order ?? []).flatMap((id) => [id, ...(view.items?.[id]?.order ?? [])]);
  return order.filter((id) => view.items?.[id]?.kind === "codon" && !attemptsOf(view.items[id]!).length);
}

/** Returns the codons after the newest attempt, in the order of the plan; the one that asks comes first. */
export function coming(view: View): string[] {
  if (hasEnded(view.state)) return [];
  const order = (view.order ?? []).flatMap((id) => [id, ...(view.items?.[id]?.order ?? [])]);
  const newest = current(view);
  const at = newest ? order.indexOf(newest.item) : -1;
  return order.filter((id, i) => view.items?.[id]?.kind === "codon" && (i > at || isAsked(view, id)));
}

export const isAsked = (view: View, id: string): boolean => view.ask?.codon !== undefined && configured(view.ask.codon) === id;

/** Whether the newest answer was to deny this codon. */
export const isDenied = ({ answered }: View, id: string): boolean => answered?.granted === false && configured(answered.codon) === id;

/** An attempt and its position. */
export interface Place {
  item: string;
  key: string;
  attempt: Attempt;
}

/** Returns the view with the cost of an agent that works as a lower bound: it may be in the middle of an answer. */
export function withOpenCost(view: View): View {
  const open = current(view);
  if (view.now?.phase !== "working" || !open) return view;
  const item = view.items![open.item]!;
  const attempts = { ...item.attempts, [open.key]: { ...open.attempt, atLeast: true } };
  return { ...view, money: { ...view.money, atLeast: true }, items: { ...view.items, [open.item]: { ...item, attempts } } };
}

/** Returns the view of a run that does not answer since `at`: whether its open attempt still runs is unknown. */
export function lost(view: View, at: number): View {
  const open = current(view);
  if (hasEnded(view.state) || open?.attempt.state !== "running") return view;
  const item = view.items![open.item]!;
  const attempt: Attempt = { ...open.attempt, state: "unknown", ended: new Date(at).toISOString() };
  const items = { ...view.items, [open.item]: { ...item, attempts: { ...item.attempts, [open.key]: attempt } } };
  return { ...view, now: undefined, activity: undefined, problem: undefined, items };
}

export const hasEnded = (state: RunState): boolean => ["completed", "failed", "stopped", "paused", "crashed"].includes(state);

export function find(view: View, item: string, key: string): Place | undefined {
  const attempt = view.items?.[item]?.attempts?.[key];
  return attempt && { item, key, attempt };
}

/** Returns the attempts of an item in order: `1.10` follows `1.9`. */
export function attemptsOf(item: Item): [string, Attempt][] {
  const number = (key: string) => key.split(".").map(Number);
  return Object.entries(item.attempts ?? {}).sort(([a], [b]) => {
    const [[i, n], [j, m]] = [number(a), number(b)];
    return i - j || n - m;
  });
}

/** Returns all attempts, the oldest first. */
export function places(view: View): Place[] {
  const all = Object.entries(view.items ?? {}).flatMap(([item, entry]) => attemptsOf(entry).map(([key, attempt]) => ({ item, key, attempt })));
  return all.sort((a, b) => (a.attempt.began ?? "").localeCompare(b.attempt.began ?? "") || (a.attempt.seq ?? 0) - (b.attempt.seq ?? 0));
}

/** Returns the time at work of an attempt until `now`, as the terminal counts it; where a crash ended it, the part that is known. */
export function worked(attempt: Attempt, now: number): number | undefined {
  if (attempt.state === "crashed") return attempt.durationMs || undefined;
  if (attempt.durationMs !== undefined) return attempt.durationMs;
  const began = attempt.began === undefined ? now : Date.parse(attempt.began);
  const ended = attempt.ended === undefined ? now : Date.parse(attempt.ended);
  return Math.max(0, ended - began - (attempt.suspendedMs ?? 0));
}

/** Returns the sum of the attempts that count no longer. */
export function undoneSum(view: View): Earlier | undefined {
  const newest = Object.values(view.undone?.newest ?? {});
  const earlier = view.undone?.earlier;
  if (!newest.length && !earlier) return undefined;
  const sum: Required<Earlier> = { count: earlier?.count ?? 0, cost: earlier?.cost ?? 0, atLeast: earlier?.atLeast ?? false, durationMs: earlier?.durationMs ?? 0, lostTime: earlier?.lostTime ?? false };
  for (const { attempt } of newest) {
    const time = worked(attempt, attempt.ended ? Date.parse(attempt.ended) : 0);
    sum.count += 1;
    sum.cost += attempt.cost + (attempt.sentinels ?? 0);
    sum.atLeast ||= attempt.atLeast ?? false;
    sum.durationMs += time ?? 0;
    sum.lostTime ||= attempt.state === "crashed";
  }
  return sum;
}

/** Returns the time at work of everything that counts against the limit, and whether a crash took part of it. */
export function workedInAll(view: View, now: number): { ms: number; isAtLeast: boolean } {
  const items = Object.values(view.items ?? {});
  const times = items.flatMap((item) => Object.values(item.attempts ?? {}).map((attempt) => worked(attempt, now)));
  const sums = [...items.map((item) => item.earlier), undoneSum(view)];
  const ms = times.reduce((sum: number, time) => sum + (time ?? 0), 0) + sums.reduce((sum, each) => sum + (each?.durationMs ?? 0), 0);
  return { ms, isAtLeast: items.some((item) => Object.values(item.attempts ?? {}).some(({ state }) => state === "crashed")) || sums.some((each) => each?.lostTime) };
}

/** Returns the attempt that the page shows unless the user chose another: the open one, the one that failed, or the newest. */
export function current(view: View): Place | undefined {
  if (view.now) return find(view, view.now.item, `${view.now.iteration}.${view.now.attempt}`);
  return (view.problem && find(view, view.problem.item, view.problem.attempt)) ?? places(view).at(-1);
}
