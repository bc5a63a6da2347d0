// The timeline is the plan: one row for each entry, and the iterations of a loop inside the rows of its codons. Left of "now" is to scale, but for long waits;
// right of it is only the order.
import { useState } from "preact/hooks";
import type { Connection } from "./connection";
import { Choice, useSecond } from "./parts";
import { writePlan } from "./route";
import { type Scale, longBreaks, makeScale, middleOf, ticksOf } from "./scale";
import { Glyph, type Shape, shapeOf as shapeOfAttempt, word } from "./shapes";
import { type Attempt, type Item, type Place, type View, attemptsOf, coming, hasEnded, isAsked, isDenied, isOver as isLoopOver, iterationOf, places, titleOf, undoneSum, worked } from "./view";
import { answerWords, changed, clock, cost, plural, seconds, took, usd } from "./words";

/** The first one draws long waits as long as they were. */
const ZOOMS = ["To scale", "All", "1h", "10m", "1m"] as const;
const SPANS: Record<(typeof ZOOMS)[number], number> = { "To scale": Infinity, All: Infinity, "1h": 3_600_000, "10m": 600_000, "1m": 60_000 };
/** Share of the width for what is to come. */
const COMING = 17;

const time = (iso: string | undefined, otherwise: number) => (iso ? Date.parse(iso) : otherwise);
const percent = (n: number) => `${Math.round(n * 100) / 100}%`;

export function Timeline({ connection, view, chosen, planned, address }: { connection: Connection; view: View; chosen: Place | undefined; planned: string | undefined; address: (place: { item: string; key: string }) => string }) {
  const [zoom, setZoom] = useState<(typeof ZOOMS)[number]>("All");
  const all = places(view);
  const isLost = connection.link === "lost" && !hasEnded(view.state);
  const isOver = hasEnded(view.state) || isLost;
  useSecond(!isOver && connection.link === "live");
  const last = isLost ? connection.lostAt : isOver ? time(view.since, connection.now()) : Math.max(connection.now(), time(view.at, 0));
  const first = Math.min(last - 1000, time(all[0]?.attempt.began ?? view.run?.began, last));
  const end = isOver ? 100 : 100 - COMING;
  const long = longBreaks(view, first, last);
  const scale = makeScale(zoom === "To scale" ? { ...long, breaks: [] } : long, first, last, SPANS[zoom], end);
  const { breaks } = scale;
  const drawn = makeScale(long, first, last, Infinity, end).span;
  const { ticks: known, step } = ticksOf(scale, isOver ? 2 : 8);
  const label = (ms: number) => clock(ms, step < 60_000).replace(/^.* /, "");
  const ticks = known.filter((at) => isOver || label(at) !== label(last));
  const grid = (
    <>
      {!isOver && <rect x={percent(end)} width={percent(COMING)} height="100%" class="future" />}
      {ticks.map((at) => <line x1={percent(scale.x(at))} x2={percent(scale.x(at))} y2="100%" class="tick" />)}
      {breaks.map((each) => <svg x={percent(middleOf(scale.x)(each))} class="break"><path d={ZIGZAG} /></svg>)}
      {!isOver && <line x1={percent(end)} x2={percent(end)} y2="100%" class="nowline" />}
    </>
  );
  const order = (view.order ?? []).flatMap((id) => [id, ...(view.items?.[id]?.order ?? [])]);
  const upcoming = isOver ? [] : coming(view);
  const zooms = ZOOMS.filter((each) => (each === "To scale" ? long.breaks.length > 0 : each === "All" || SPANS[each] < drawn));
  return (
    <section class="panel tl" aria-label="Timeline">
      <div class="head">
        <h2>Timeline</h2>
        {zooms.length > 1 && <Choice label="Zoom" of={zooms} chosen={zooms.includes(zoom) ? zoom : "All"} choose={setZoom} />}
        <Legend {...{ isOver, view }} />
      </div>
      {breaks.length > 0 && <p class="short dim" id="short">{inWords(breaks)}</p>}
      {/* A narrow window has no axis. */}
      <p class="times" id="times" style={isOver ? undefined : { paddingRight: `calc(16px + ${100 - end}%)` }}><span>{clock(scale.from)}</span><span>{isOver ? clock(last) : `now, ${clock(last)}`}</span></p>
      <div class="axis" aria-hidden="true">
        <span />
        <div class="trk">
          <svg width="100%" height="24">
            {ticks.map((at) => <text x={percent(scale.x(at))} y="16" text-anchor="middle">{label(at)}</text>)}
            {breaks.map((each) => <text x={percent(middleOf(scale.x)(each))} y="16" text-anchor="middle" class="long">{lengthOf(each)}</text>)}
            {!isOver && <text x={percent(end)} y="16" text-anchor="middle" class="nowtext">{label(last)}</text>}
          </svg>
        </div>
        <span class="num">time</span><span class="num">cost</span>
      </div>
      <div class="rows">
        {view.omitted?.before ? <p class="omitted dim">{view.omitted.before} earlier codons are not listed</p> : null}
        {order.map((id) => view.items?.[id] && <Row key={id} id={id} item={view.items[id]!} {...{ view, scale, grid, chosen, planned, address }} coming={upcoming} />)}
        <Rest view={view} scale={scale} grid={grid} />
        {view.omitted?.after ? <p class="omitted dim">{view.omitted.after} later codons are not listed</p> : null}
      </div>
      {view.money.spent > 0 && <Money view={view} scale={scale} grid={grid} all={all} />}
    </section>
  );
}

/** Line through a row where time is left out. */
const ZIGZAG = "M-2 0l4 6-4 6 4 6-4 6 4 6-4 6";

const lengthOf = ({ from, to }: { from: number; to: number }): string => seconds(Math.round((to - from) / 1000));

function inWords(breaks: Scale["breaks"]): string {
  const all = breaks.reduce((sum, { from, to }) => sum + to - from, 0);
  if (breaks.length > 2) return `Drawn short: ${breaks.length} times without work, ${lengthOf({ from: 0, to: all })} in all.`;
  const named = breaks.map(({ from, to }) => `${lengthOf({ from, to })} without work, from ${clock(from, to - from < 600_000)} to ${clock(to, to - from < 600_000)}`);
  return `Drawn short: ${named.join("; ")}.`;
}

function Legend({ isOver, view }: { isOver: boolean; view: View }) {
  const kinds = new Set(Object.values(view.waits ?? {}).map(({ kind }) => kind));
  return (
    <div class="legend" aria-hidden="true">
      <span>
        <svg width="18" height="8">
          <defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="2" height="5" class="bar" /></pattern></defs>
          <rect x=".5" y=".5" width="17" height="7" rx="2" class="hatch" />
        </svg>rig
      </span>
      <span><svg width="18" height="8"><rect width="18" height="8" rx="2" class="bar" /></svg>agent</span>
      <span><svg width="18" height="8"><line x1="0" x2="18" y1="4" y2="4" class="wait" /></svg>wait</span>
      {kinds.has("approval") && <span><svg width="18" height="8"><line x1="0" x2="18" y1="4" y2="4" class="wait approval" /></svg>wait for you</span>}
      {!isOver && <span class="order"><svg width="18" height="8"><rect x=".5" y=".5" width="17" height="7" rx="2" class="ghost" /></svg>planned, in order</span>}
    </div>
  );
}

function shapeOf(view: View, id: string, item: Item, newest: [string, Attempt] | undefined): Shape {
  if (isAsked(view, id)) return "asking";
  if (item.kind === "loop") return "loop";
  if (!newest) return "planned";
  const [key, attempt] = newest;
  const isWaiting = attempt.state !== "running" && attempt.state !== "completed" && view.activity?.to && view.problem?.item === id && view.state === "running";
  return isWaiting ? "retry" : shapeOfAttempt(view, id, key, attempt);
}

interface RowProps {
  id: string;
  item: Item;
  view: View;
  scale: Scale;
  grid: preact.JSX.Element;
  chosen: Place | undefined;
  planned: string | undefined;
  coming: string[];
  address: (place: { item: string; key: string }) => string;
}

function Row({ id, item, view, scale, grid, chosen, planned, coming, address }: RowProps) {
  const inside = item.kind === "loop" ? (item.order ?? []).flatMap((each) => attemptsOf(view.items?.[each] ?? item)) : [];
  const own = attemptsOf(item);
  const attempts = item.kind === "loop" ? inside : own;
  const newest = own.at(-1);
  const spent = attempts.reduce((sum, [, each]) => sum + each.cost + (each.sentinels ?? 0), item.earlier?.cost ?? 0);
  const atLeast = attempts.some(([, each]) => each.atLeast) || item.earlier?.atLeast;
  const times = attempts.map(([, each]) => worked(each, scale.to));
  const lasted = times.reduce((sum: number, each) => sum + (each ?? 0), item.earlier?.durationMs ?? 0);
  const isLost = attempts.some(([, each]) => each.state === "crashed") || item.earlier?.lostTime === true;
  const shape = shapeOf(view, id, item, newest);
  const more = item.kind === "loop" ? position(view, item) : !newest && isDenied(view, id) ? "denied" : item.asks && !newest ? "asks first" : "";
  const isLast = item.in !== undefined && view.items?.[item.in]?.order?.at(-1) === id;
  const isChosen = (chosen?.item ?? planned) === id;
  const ghost = coming.indexOf(id);
  const name = <><Glyph of={shape} size={14} /><span class="sr">{word(shape)}: </span><b title={item.name}>{item.name}</b>{more && <em title={more}>{more}</em>}</>;
  const isWaiting = Object.values(view.waits ?? {}).some((wait) => wait.item === id);
  const classes = ["row", newest || isWaiting || item.kind === "loop" ? "" : "todo", item.in ? "in" : "", isLast ? "last" : "", isChosen ? "sel" : "", item.kind === "loop" ? "lpr" : ""];
  const to = newest ? address({ item: id, key: newest[0] }) : item.kind === "codon" ? writePlan(id) : undefined;
  const open = (event: MouseEvent) => {
    if (!to || (event.target as Element).closest("a")) return;
    location.hash = to;
  };
  return (
    <div class={classes.filter(Boolean).join(" ")} onClick={open}>
      {to ? <a class="nm" href={to} aria-current={isChosen ? "true" : undefined}>{name}</a> : <span class="nm">{name}</span>}
      <div class="trk">
        <svg width="100%" height="28">
          {grid}
          {item.kind === "loop" ? <Iterations view={view} item={item} attempts={inside} scale={scale} /> : own.map(([key, attempt]) => <Bar {...{ view, id, item, key, position: key, attempt, scale, address }} isChosen={isChosen && chosen?.key === key} />)}
          <Waits view={view} id={id} scale={scale} />
          {ghost >= 0 && ghost < 4 && <rect x={percent(scale.end + 1.2 + ghost * 4)} width="3.2%" y="8" height="12" rx="3" class="ghost" />}
        </svg>
      </div>
      <span class="num">{attempts.length ? timeInTable(lasted, isLost, attempts.some(([, each]) => each.state === "running")) : ""}</span>
      <span class="num">{attempts.length ? cost(spent, atLeast) : ""}</span>
    </div>
  );
}

function timeInTable(ms: number, isLost: boolean, isLive = false): string {
  if (isLost && !ms) return "unknown";
  return `${isLost ? "≥ " : ""}${isLive ? seconds(Math.floor(ms / 1000)) : took(ms)}`;
}

/** What the rows of the plan do not have, so that all rows add up to the money. */
function Rest({ view, scale, grid }: { view: View; scale: Scale; grid: preact.JSX.Element }) {
  const undone = undoneSum(view);
  const { before, beforeAtLeast } = view.money;
  const newest = Object.values(view.undone?.newest ?? {});
  return (
    <>
      {undone && (
        <div class="row undone" id="undone">
          <span class="nm dim"><Glyph of="restarted" size={14} /><b>Undone or run again</b><em>{plural(undone.count, "attempt")}</em></span>
          <div class="trk">
            <svg width="100%" height="28">
              {grid}
              {newest.map(({ item, key, attempt }) => {
                const [from, to] = extent(attempt, scale);
                if (to < scale.from) return null;
                const words = [`${titleOf(view, item, key)}: ${attempt.state}, undone or run again`, attempt.why?.message, costOf(attempt)].filter(Boolean).join(", ");
                return <rect x={percent(scale.x(from))} width={percent(Math.max(0.3, scale.x(to) - scale.x(from)))} y="7" height="14" rx="3" class="ghost"><title>{words}</title></rect>;
              })}
            </svg>
          </div>
          <span class="num">{timeInTable(undone.durationMs ?? 0, undone.lostTime ?? false)}</span>
          <span class="num">{cost(undone.cost, undone.atLeast)}</span>
        </div>
      )}
      {before > 0 && (
        <div class="row"><span class="nm dim"><b>Before it started over</b></span><div class="trk"><svg width="100%" height="28">{grid}</svg></div><span class="num" /><span class="num">{cost(before, beforeAtLeast)}</span></div>
      )}
    </>
  );
}

const costOf = (attempt: Attempt): string => cost(attempt.cost + (attempt.sentinels ?? 0), attempt.atLeast) || usd(0);

/** Returns the start and the end of an attempt. A crash is noticed at the next start; until when the agent worked at least is known. */
function extent(attempt: Attempt, scale: Scale): [number, number] {
  const from = time(attempt.began, scale.from);
  return [from, attempt.state === "crashed" ? from + (attempt.durationMs ?? 0) + (attempt.suspendedMs ?? 0) : time(attempt.ended, scale.to)];
}

function position(view: View, item: Item): string {
  if (item.iteration !== undefined && isLoopOver(view, item)) return plural(item.iteration, "iteration") + (item.checks?.[item.iteration]?.passed ? ", check passed" : "");
  if (item.iteration === undefined) return item.most === undefined ? "" : `at most ${item.most}`;
  return iterationOf(item.iteration, item.most);
}

function Bar({ view, id, item, position, attempt, scale, address, isChosen }: { view: View; id: string; item: Item; position: string; attempt: Attempt; scale: Scale; address: RowProps["address"]; isChosen: boolean }) {
  const [from, to] = extent(attempt, scale);
  if (to < scale.from) return null;
  const [iteration] = position.split(".");
  const rigEnd = Math.min(to, from + (attempt.rigMs ?? 0));
  const [x0, x1, x2] = [scale.x(from), scale.x(rigEnd), scale.x(to)];
  const lasted = worked(attempt, scale.to);
  const words = [`${titleOf(view, id, position)}: ${word(shapeOfAttempt(view, id, position, attempt))}`, attempt.why?.message, lasted === undefined ? "time unknown" : (attempt.state === "crashed" ? "at least " : "") + took(lasted), costOf(attempt), changed(attempt.filesChanged)].filter(Boolean).join(", ");
  const tone = attempt.state === "running" ? "run" : ["failed", "crashed"].includes(attempt.state) ? "bad" : "";
  return (
    <a href={address({ item: id, key: position })} aria-label={words} aria-current={isChosen ? "true" : undefined} class="attempt">
      <title>{words}</title>
      {x1 > x0 && <rect x={percent(x0)} width={percent(x1 - x0)} y="7" height="14" rx="3" class="hatch" />}
      <rect x={percent(x1)} width={percent(Math.max(0.3, x2 - x1))} y="7" height="14" rx="3" class={`bar ${tone}`} />
      {item.in && x2 - x1 > 2 && <text x={percent((x1 + x2) / 2)} y="17.5" text-anchor="middle" class={`n ${tone}`}>{iteration}</text>}
    </a>
  );
}

function Iterations({ view, item, attempts, scale }: { view: View; item: Item; attempts: [string, Attempt][]; scale: Scale }) {
  const spans = new Map<string, [number, number]>();
  for (const [key, attempt] of attempts) {
    const iteration = key.split(".")[0]!;
    const [from, to] = extent(attempt, scale);
    const known = spans.get(iteration);
    spans.set(iteration, known ? [Math.min(known[0], from), Math.max(known[1], to)] : [from, to]);
  }
  for (const [iteration, [, to]] of spans) if (to < scale.from) spans.delete(iteration);
  const checks = Object.entries(item.checks ?? {}).filter(([iteration]) => spans.has(iteration));
  const name = (iteration: string) => iterationOf(iteration, item.most);
  const rings = apart(checks.map(([iteration]) => scale.x(spans.get(iteration)![1]) - 0.3));
  return (
    <>
      {[...spans].map(([iteration, [from, to]]) => {
        const isLive = Number(iteration) === item.iteration && view.state === "running";
        const [x, end] = [scale.x(from), scale.x(to)];
        return <rect x={percent(x)} width={percent(Math.max(0.4, end - x - 0.3))} y="11" height="3" rx="1.5" class={isLive ? "loop open" : "loop"}><title>{name(iteration)}</title></rect>;
      })}
      {checks.map(([iteration, check], at) => <circle cx={percent(rings[at]!)} cy="12.5" r="4.5" class={check.passed ? "check" : "check bad"}><title>{`${item.until ?? "check"}, ${name(iteration)}: ${check.passed ? "passed" : "failed"}${check.says ? `, ${check.says}` : ""}`}</title></circle>)}
    </>
  );
}

/** Least distance between two rings, in percent of the width. */
const RING = 1.6;

/** Moves places apart, so that no ring covers another. */
function apart(places: number[]): number[] {
  const moved: number[] = [];
  for (const at of places) moved.push(Math.max(0.8, at, (moved.at(-1) ?? -RING) + RING));
  for (let i = moved.length - 1, most = 99.2; i >= 0; i--, most = moved[i + 1]! - RING) moved[i] = Math.min(moved[i]!, most);
  return moved;
}

function Waits({ view, id, scale }: { view: View; id: string; scale: Scale }) {
  return (
    <>
      {Object.values(view.waits ?? {}).filter((wait) => wait.item === id).map((wait) => {
        const [from, to] = [time(wait.from, scale.from), Math.min(time(wait.to, scale.to), scale.to)];
        if (to <= Math.max(from, scale.from)) return null;
        return <line x1={percent(scale.x(from))} x2={percent(scale.x(to))} y1="14" y2="14" class={`wait ${wait.kind}`}><title>{`${wait.kind === "approval" ? `waited for you${wait.answer ? `, ${answerWords(wait.answer)}` : ""}` : wait.kind === "limit" ? "waited for the usage limit" : wait.kind === "suspended" ? "suspended" : wait.kind === "background" ? "waited for background work" : "waited to retry"}${wait.why ? `: ${wait.why}` : ""}, ${seconds(Math.round((to - from) / 1000))}`}</title></line>;
      })}
    </>
  );
}

function Money({ view, scale, grid, all }: { view: View; scale: Scale; grid: preact.JSX.Element; all: Place[] }) {
  // Money is known at the ends of attempts, and of the open one at the newest event; a straight line joins them.
  const newest = Math.min(scale.to, time(view.at, scale.to));
  const total = all.reduce((sum, { attempt }) => sum + attempt.cost + (attempt.sentinels ?? 0), 0);
  let sum = 0;
  const points: string[] = [];
  const point = (ms: number) => points.push(`${scale.x(ms).toFixed(2)},${(36 - (sum / Math.max(total, 1e-9)) * 28).toFixed(2)}`);
  for (const { attempt } of all) {
    point(time(attempt.began, scale.from));
    sum += attempt.cost + (attempt.sentinels ?? 0);
    point(Math.max(time(attempt.began, scale.from), time(attempt.ended, newest)));
    // What was before the scale is one point at its edge.
    if (time(attempt.ended, scale.to) < scale.from) points.splice(0, points.length - 1);
  }
  point(scale.to);
  return (
    <div class="row money" aria-hidden="true">
      <span class="nm dim">Money</span>
      <div class="trk">
        <svg width="100%" height="36">{grid}</svg>
        <svg width="100%" height="36" viewBox="0 0 100 36" preserveAspectRatio="none" class="curve">
          <polygon points={`0,36 ${points.join(" ")} ${scale.end},36`} />
          <polyline points={points.join(" ")} vector-effect="non-scaling-stroke" />
        </svg>
      </div>
      <span class="num" /><span class="num"><b>{cost(view.money.spent, view.money.atLeast || view.money.beforeAtLeast)}</b></span>
    </div>
  );
}
