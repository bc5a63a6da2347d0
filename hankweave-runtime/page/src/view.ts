// The view of a run as the server sends it: docs/protocol.md, "The view of a run". Absent means "not so" or "not known".

export type RunState = "planned" | "running" | "asking" | "idle" | "completed" | "failed" | "stopped" | "paused" | "crashed";
/** `unknown`: it was running when the connection was lost; only the page has this state. */
export type AttemptState = "unknown" | "running" | "completed" | "failed" | "skipped" | "stopped" | "paused" | "restarted" | "crashed";

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
  checkpoint?: string;
  filesChanged?: number;
  undone?: boolean;
}

export interface Instead {
  agent: string;
  model?: string;
  cause: "usage-limit" | "outage" | "unknown-model";
  until?: string;
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
  earlier?: { count: number; cost: number; atLeast?: boolean };
  checks?: Record<string, { passed: boolean; says?: string }>;
}

export interface View {
  view: number;
  seq: number;
  at?: string;
  run?: { id: string; number: number; began: string };
  hank?: { name: string; version: string };
  state: RunState;
  since?: string;
  interruptedBy?: string;
  cause?: string;
  headline: string;
  next?: string;
  money: { spent: number; before: number; atLeast?: boolean; limit?: number };
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
  waits?: Record<string, { item?: string; kind: "retry" | "background" | "limit" | "approval" | "suspended"; from: string; to?: string; why?: string; n?: number; of?: number }>;
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

/** An attempt and its position. */
export interface Place {
  item: string;
  key: string;
  attempt: Attempt;
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

/** Returns the attempt that the page shows unless the user chose another: the open one, the one that failed, or the newest. */
export function current(view: View): Place | undefined {
  if (view.now) return find(view, view.now.item, `${view.now.iteration}.${view.now.attempt}`);
  return (view.problem && find(view, view.problem.item, view.problem.attempt)) ?? places(view).at(-1);
}
