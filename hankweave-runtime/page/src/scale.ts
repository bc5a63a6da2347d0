// The time axis: to scale, but for long times without work, which are drawn short.
import { type View, places } from "./view";

/** A time without work that is drawn shorter than it was. */
export interface Break {
  from: number;
  to: number;
}

export interface Scale {
  from: number;
  to: number;
  /** Where "now" is, in percent. */
  end: number;
  breaks: Break[];
  /** Time that is drawn, in milliseconds, without what breaks leave out. */
  span: number;
  /** Place of a time, in percent; times outside the scale are at its edges. */
  x: (ms: number) => number;
}

type Span = [number, number];

/** Shortest time without work that is drawn short, in milliseconds. */
const SHORTEST = 5_000;
/** Share of the work that all breaks take together. */
const SHARE = 0.3;

const time = (iso: string | undefined, otherwise: number) => (iso ? Date.parse(iso) : otherwise);

/** Returns times in order, those that overlap as one. */
function merged(spans: Span[]): Span[] {
  const all: Span[] = [];
  for (const [from, to] of spans.filter(([from, to]) => to > from).sort(([a], [b]) => a - b)) {
    const last = all.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else all.push([from, to]);
  }
  return all;
}

/** Returns the times between `first` and `last` in which no attempt works. */
function idle(view: View, first: number, last: number): Span[] {
  const attempts = [...places(view), ...Object.values(view.undone?.newest ?? {})].map(({ attempt }) => attempt);
  const work = merged(attempts.map((each) => [time(each.began, first), each.state === "crashed" ? time(each.began, first) + (each.durationMs ?? 0) + (each.suspendedMs ?? 0) : time(each.ended, last)]));
  const ends = [first, ...work.map(([, to]) => to)];
  const gaps = ends.map((from, i): Span => [from, work[i]?.[0] ?? last]);
  const waits = Object.values(view.waits ?? {}).map((wait): Span => [time(wait.from, first), Math.min(time(wait.to, last), last)]);
  return merged([...gaps, ...waits].map(([from, to]) => [Math.max(from, first), Math.min(to, last)]));
}

/** Returns the longest of the times without work, and how long each of them is drawn. */
export function longBreaks(view: View, first: number, last: number): { breaks: Break[]; drawn: number } {
  const long = idle(view, first, last).filter(([from, to]) => to - from > SHORTEST);
  const length = (spans: Span[]) => spans.reduce((sum, [from, to]) => sum + to - from, 0);
  const work = last - first - length(long);
  const drawn = Math.max(SHORTEST, (work * SHARE) / Math.max(2, long.length));
  // A little shorter would save nothing, and only puzzle.
  return { breaks: long.filter(([from, to]) => to - from > 2 * drawn).map(([from, to]) => ({ from, to })), drawn };
}

/** Returns the scale of the newest `most` milliseconds that are drawn, up to `last`. */
export function makeScale({ breaks: all, drawn }: { breaks: Break[]; drawn: number }, first: number, last: number, most: number, end: number): Scale {
  // Milliseconds that breaks leave out up to a time.
  const left = (ms: number) => all.reduce((sum, { from, to }) => sum + Math.min(1, Math.max(0, (ms - from) / (to - from))) * (to - from - drawn), 0);
  const place = (ms: number) => ms - left(ms);
  const start = Math.max(place(first), place(last) - most);
  let from = start;
  for (const each of all) {
    const saved = each.to - each.from - drawn;
    if (from >= each.from + drawn) from += saved;
    else if (from > each.from) from = each.from + ((from - each.from) / drawn) * (each.to - each.from);
  }
  const span = Math.max(1, place(last) - start);
  return { from, to: last, end, breaks: all.filter((each) => each.to > from), span, x: (ms) => ((place(Math.min(Math.max(ms, from), last)) - start) / span) * end };
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400].map((s) => s * 1000);

/** Returns the times that the axis names, each `apart` percent from the others and from the breaks, and how far they are from each other. */
export function ticksOf({ from, to, end, breaks, span, x }: Scale, apart: number): { ticks: number[]; step: number } {
  const step = STEPS.find((each) => span / each <= 7) ?? STEPS.at(-1)!;
  const offset = new Date(from).getTimezoneOffset() * 60_000;
  const ticks: number[] = [];
  const middles = breaks.map(middleOf(x));
  let at = from;
  for (const { from: stop, to: next } of [...breaks, { from: to, to }]) {
    for (let tick = Math.ceil((at - offset) / step) * step + offset; tick < stop; tick += step) {
      const place = x(tick);
      const isFree = place > 2 && end - place > apart && [...middles, ...ticks.map(x)].every((other) => Math.abs(other - place) > 7);
      if (isFree) ticks.push(tick);
    }
    at = next;
  }
  return { ticks, step };
}

export const middleOf = (x: Scale["x"]) => ({ from, to }: Break): number => (x(from) + x(to)) / 2;
