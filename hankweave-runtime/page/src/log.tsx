// The transcript as a virtual list: only the moments near the visible ones are in the document.
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { isFile } from "./connection";
import { Markdown } from "./markdown";
import { bringIntoView } from "./opened";
import { Arrow } from "./parts";
import { Glyph } from "./shapes";
import { type Moment, type ToolUse, type Transcript, subject } from "./transcript";
import { clock, count, plural, seconds, took, usd } from "./words";

const FOLDED_LINES = 12;
const LONGEST_SHOWN = 6000;
/** Height of a moment that was never shown, by kind. */
const ESTIMATES: Record<Moment["kind"], number> = { text: 80, thinking: 32, tool: 44, notice: 32, problem: 32, note: 64, lines: 44 };

interface Opened {
  isOpen: (id: string, otherwise: boolean) => boolean;
  toggle: (id: string, to: boolean) => void;
}

/** `now` is the time where the attempt is live, in milliseconds. */
export function Log({ transcript, address, target, now, gone }: { transcript: Transcript; address: (seq: number) => string; target: number | undefined; now: number | undefined; gone: preact.ComponentChildren }) {
  const isLive = now !== undefined;
  const box = useRef<HTMLDivElement>(null);
  const heights = useRef(new Map<number, number>());
  const folds = useRef(new Map<string, boolean>());
  const [range, setRange] = useState<[number, number]>([0, 40]);
  const [isFollowing, follow] = useState(true);
  const [, redraw] = useState(0);
  const sought = useRef<number | undefined>(undefined);
  const { moments } = transcript;

  const opened: Opened = {
    isOpen: (id, otherwise) => folds.current.get(id) ?? otherwise,
    toggle: (id, to) => {
      folds.current.set(id, to);
      redraw((n) => n + 1);
    },
  };
  const height = (moment: Moment) => heights.current.get(moment.seq) ?? ESTIMATES[moment.kind];
  const sum = (from: number, to: number) => moments.slice(from, to).reduce((all, each) => all + height(each), 0);

  const look = () => {
    const view = box.current;
    if (!view) return;
    let [top, first] = [0, 0];
    while (first < moments.length && top + height(moments[first]!) < view.scrollTop - view.clientHeight) top += height(moments[first++]!);
    let last = first;
    while (last < moments.length && top < view.scrollTop + 2 * view.clientHeight) top += height(moments[last++]!);
    last = Math.min(last, first + 300);
    setRange((known) => (known[0] === first && known[1] === last ? known : [first, last]));
  };

  // Measured heights replace the estimates.
  useLayoutEffect(() => {
    const view = box.current;
    if (!view) return;
    let isChanged = false;
    for (const row of view.querySelectorAll<HTMLElement>("[data-seq]")) {
      const [seq, is] = [Number(row.dataset.seq), row.offsetHeight];
      isChanged ||= heights.current.get(seq) !== is;
      heights.current.set(seq, is);
    }
    if (heights.current.size > 3 * moments.length + 100) heights.current = new Map(moments.map((each) => [each.seq, height(each)]));
    if (isFollowing && target === undefined) view.scrollTop = view.scrollHeight;
    const row = sought.current !== undefined && !isChanged && view.querySelector(`[data-seq="${sought.current}"]`);
    if (row) {
      sought.current = undefined;
      bringIntoView(row);
    }
    look();
    if (isChanged) redraw((n) => n + 1);
  });

  useEffect(() => {
    const at = target === undefined ? -1 : moments.findIndex((each) => each.seq >= target);
    if (at < 0 || !box.current) return;
    follow(false);
    box.current.scrollTop = sum(0, at) - 80;
    sought.current = moments[at]!.seq;
    look();
    redraw((n) => n + 1);
  }, [target, transcript.isLoading]);

  const scrolled = () => {
    const view = box.current!;
    const isAtEnd = view.scrollTop + view.clientHeight >= view.scrollHeight - 24;
    follow(isAtEnd);
    look();
  };
  const [first, last] = [Math.min(range[0], moments.length), Math.min(range[1], moments.length)];
  if (!moments.length && transcript.isIncomplete && gone) return <div class="empty">{gone}</div>;
  if (!moments.length) {
    return <p class="empty dim">{transcript.isLoading ? "Reading the journal…" : transcript.isIncomplete ? isFile ? "This file holds newer events only." : "The journal could not be read." : isLive ? "The agent has not said anything yet." : "The journal has nothing of this attempt."}</p>;
  }
  const jump = (seq: number) => {
    // What was found may be folded.
    for (const kind of "tlu") folds.current.set(`${kind}${seq}`, true);
    location.hash = address(seq);
  };
  return (
    <div class="logbox">
      <Find box={box} moments={moments} at={target} jump={jump} />
      <div class="log" ref={box} onScroll={scrolled} tabIndex={0} role="region" aria-label="Transcript" id="transcript">
        {transcript.dropped > 0 && <p class="dim dropped">{count(transcript.dropped)} earlier moments are left out here; <code>hankweave logs</code> has them.</p>}
        <div style={{ height: `${sum(0, first)}px` }} />
        <ol>
          {moments.slice(first, last).map((moment) => (
            <li class={moment.seq === target ? "m here" : "m"} data-seq={moment.seq} key={moment.seq}>
              <a class="t" href={address(moment.seq)} aria-label={`Address of this moment, ${clock(moment.at, true)}`}>{clock(moment.at, true)}</a>
              <div class="body"><Body moment={moment} opened={opened} now={now} /></div>
            </li>
          ))}
        </ol>
        <div style={{ height: `${sum(last, moments.length)}px` }} />
        {isLive && <p class="m"><span /><i class="live" aria-hidden="true" /></p>}
      </div>
      {!isFollowing && isLive && <button type="button" id="follow" class="btn small newest" onClick={() => { follow(true); box.current!.scrollTop = box.current!.scrollHeight; }}>Newest</button>}
    </div>
  );
}

/** Whether a moment has text that matches. */
function matches(moment: Moment, pattern: RegExp): boolean {
  switch (moment.kind) {
    case "tool":
      return [moment.name, moment.result ?? "", JSON.stringify(moment.input)].some((text) => pattern.test(text)) || moment.steps.some((step) => matches(step, pattern));
    case "lines":
      return moment.lines.some((line) => pattern.test(line));
    default:
      return pattern.test(moment.text);
  }
}

/** Most places that are marked at once. */
const MOST_MARKED = 1_000;

/** Marks what matches in the rows that are drawn, and nothing without a pattern. */
function mark(box: HTMLElement | null, pattern: RegExp | undefined): void {
  if (!("highlights" in CSS)) return;
  const places = new Highlight();
  const texts = document.createTreeWalker(box ?? document.createElement("p"), NodeFilter.SHOW_TEXT);
  while (pattern && texts.nextNode() && places.size < MOST_MARKED) {
    const node = texts.currentNode as Text;
    if (!node.parentElement?.closest(".body")) continue;
    for (const { index, 0: word } of node.data.matchAll(new RegExp(pattern, "gi"))) places.add(new StaticRange({ startContainer: node, startOffset: index, endContainer: node, endOffset: index + word.length }));
  }
  CSS.highlights.set("found", places);
}

/** Finds a text in the moments: the browser sees only those near the visible ones. */
function Find({ box, moments, at, jump }: { box: RefObject<HTMLElement | null>; moments: Moment[]; at: number | undefined; jump: (seq: number) => void }) {
  const [text, find] = useState("");
  const pattern = new RegExp(text.trim().replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
  const found = useMemo(() => (text.trim() ? moments.filter((each) => matches(each, pattern)) : []), [text, moments.length]);
  useEffect(() => mark(box.current, found.length ? pattern : undefined));
  useEffect(() => () => mark(null, undefined), []);
  const place = found.findIndex((each) => each.seq === at);
  const go = (isBack: boolean) => {
    // From another moment, the next one below or above it.
    const next = found.findIndex((each) => each.seq > (at ?? 0));
    const after = next < 0 ? 0 : next;
    const to = isBack ? (place < 0 ? after : place) - 1 : place < 0 ? after : place + 1;
    jump(found[(to + found.length) % found.length]!.seq);
  };
  const pressed = (event: KeyboardEvent & { currentTarget: HTMLInputElement }) => {
    if (event.key === "Escape") event.currentTarget.blur();
    if (event.key !== "Enter" || !found.length) return;
    event.preventDefault();
    go(event.shiftKey);
  };
  return (
    <div class="findbar">
      <input class="find" id="find" type="search" placeholder="Find in the transcript" aria-label="Find in the transcript; Enter goes to the next place, Shift and Enter to the one before" onInput={(event) => find(event.currentTarget.value)} onKeyDown={pressed} />
      {found.length > 0 && (
        <span class="finds">
          <button type="button" class="ib" id="find-previous" aria-label="Previous place" aria-keyshortcuts="p" onClick={() => go(true)}>↑</button>
          <button type="button" class="ib" id="find-next" aria-label="Next place" aria-keyshortcuts="n" onClick={() => go(false)}>↓</button>
        </span>
      )}
      <span class="dim" role="status">{text.trim() && (found.length ? `${place < 0 ? "" : `${place + 1} of `}${plural(found.length, "moment")}` : "not found")}</span>
    </div>
  );
}

function Body({ moment, opened, now }: { moment: Moment; opened: Opened; now: number | undefined }) {
  switch (moment.kind) {
    case "text":
      return <Long id={`x${moment.seq}`} text={moment.text} opened={opened} draw={(text) => <Markdown text={text} />} />;
    case "thinking":
      return (
        <Fold id={`t${moment.seq}`} opened={opened} kind="th" title={<>Thought<span class="dim first">{moment.text.split("\n")[0]!.slice(0, 120)}</span></>}>
          <p>{moment.text.slice(0, LONGEST_SHOWN)}</p>
        </Fold>
      );
    case "notice":
      return <p class="notice">{moment.text}</p>;
    case "problem":
      return <p class="notice badc"><Glyph of="failed" size={13} /> {moment.text}</p>;
    case "note":
      return (
        <div role="note" class={`n ${moment.tone}`}>
          <b><Glyph of={moment.tone === "passed" ? "completed" : moment.tone === "failed" ? "failed" : "sentinel"} size={12} />{moment.who}<small>{moment.cost ? usd(moment.cost) : ""}</small></b>
          {moment.text.slice(0, LONGEST_SHOWN)}
        </div>
      );
    case "lines":
      if (moment.lines.length === 1) return <p class="notice"><span class="dim">{moment.title}</span> <bdi class="mono">{moment.lines[0]!.slice(0, 2000)}</bdi></p>;
      return (
        <Fold id={`l${moment.seq}`} opened={opened} kind="tool" isOpen={moment.lines.length <= FOLDED_LINES} title={<><span class="nm">{moment.title}</span><span class="sb">{moment.lines.at(-1)}</span><span class="rt">{moment.lines.length === 1 ? "1 line" : `${moment.lines.length} lines`}</span></>}>
          <Output id={`o${moment.seq}`} text={moment.lines.join("\n")} opened={opened} />
        </Fold>
      );
    case "tool":
      return <Tool of={moment} opened={opened} now={now} />;
  }
}

function Fold({ id, opened, kind, title, isOpen = false, children }: { id: string; opened: Opened; kind: string; title: preact.ComponentChildren; isOpen?: boolean; children: preact.ComponentChildren }) {
  const is = opened.isOpen(id, isOpen);
  return (
    <div class={kind}>
      <button type="button" class="fold" aria-expanded={is} onClick={() => opened.toggle(id, !is)}><Arrow />{title}</button>
      {is && children}
    </div>
  );
}

/** A text that is cut until it is opened. */
function Long({ id, text, opened, draw }: { id: string; text: string; opened: Opened; draw: (text: string) => preact.JSX.Element }) {
  const isCut = text.length > LONGEST_SHOWN && !opened.isOpen(id, false);
  return (
    <>
      {draw(isCut ? `${text.slice(0, LONGEST_SHOWN)}…` : text)}
      {isCut && <button type="button" class="more" onClick={() => opened.toggle(id, true)}>Show all {count(text.length)} characters</button>}
    </>
  );
}

function Output({ id, text, opened, originalLength }: { id: string; text: string; opened: Opened; originalLength?: number }) {
  const lines = text.replace(/\n+$/, "").split("\n");
  const isCut = lines.length > FOLDED_LINES && !opened.isOpen(id, false);
  const shown = (isCut ? lines.slice(-FOLDED_LINES) : lines).map((line) => (line.length > 2000 ? `${line.slice(0, 2000)}…` : line));
  return (
    <div class="output">
      {isCut && <button type="button" class="more" onClick={() => opened.toggle(id, true)}>{lines.length - FOLDED_LINES} lines before</button>}
      <pre class="out" tabIndex={0} aria-label="Output">{shown.join("\n")}</pre>
      {originalLength !== undefined && <p class="dim cutnote">Cut: {count(text.length)} of {count(originalLength)} characters; <code>hankweave logs</code> has all.</p>}
    </div>
  );
}

const PLAIN = new Set(["file_path", "path", "command", "pattern", "url", "query", "description"]);

function Tool({ of, opened, now }: { of: ToolUse; opened: Opened; now: number | undefined }) {
  const { input, steps } = of;
  const isSubAgent = steps.length > 0;
  const about = subject(input);
  const edits = changes(input);
  const rest = edits ? [] : Object.entries(input).filter(([key]) => !PLAIN.has(key));
  const since = of.result === undefined ? now : undefined;
  const state = since !== undefined ? <><span class="o">{seconds(Math.max(0, Math.floor((since - of.at) / 1000)))}</span><i class="live" aria-label="running" role="img" /></> : of.isError ? <span class="badc">failed</span> : null;
  const title = (
    <>
      <span class="nm">{of.name}</span>
      {isSubAgent || (typeof input.description === "string" && input.command === undefined) ? <span class="sb prose">{String(input.description ?? about)}</span> : <span class="sb">{about.split("\n")[0]}</span>}
      {isSubAgent && <span class="dim o">sub-agent, {steps.length === 1 ? "1 step" : `${steps.length} steps`}</span>}
      {edits && <span class="rt"><span class="p">+{edits.added.length}</span><span class="m_">−{edits.removed.length}</span></span>}
      <span class="rt">{of.ms !== undefined && <span class="o">{took(of.ms)}</span>}{state}</span>
    </>
  );
  return (
    <Fold id={`u${of.seq}`} opened={opened} kind={of.isError ? "tool bad" : "tool"} isOpen={isSubAgent || of.isError || (edits !== undefined && edits.added.length + edits.removed.length <= FOLDED_LINES)} title={title}>
      {typeof input.command === "string" && (input.command.includes("\n") || input.command.length > 80) && <pre class="out cmdin" tabIndex={0} aria-label="Command">{input.command}</pre>}
      {edits && <Edits {...edits} id={`e${of.seq}`} opened={opened} />}
      {rest.length > 0 && !isSubAgent && <Output id={`i${of.seq}`} text={rest.map(([key, value]) => `${key}: ${typeof value === "string" ? value : JSON.stringify(value, null, 1)}`).join("\n")} opened={opened} />}
      {isSubAgent && <ol class="nested">{steps.map((step) => <li key={step.seq}><Body moment={step} opened={opened} now={since} /></li>)}</ol>}
      {of.result !== undefined && <Output id={`r${of.seq}`} text={of.result || "(no output)"} opened={opened} originalLength={of.originalLength} />}
    </Fold>
  );
}

/** Returns the lines that an edit removes and adds, where its input has both. */
function changes(input: Record<string, unknown>): { removed: string[]; added: string[] } | undefined {
  const lines = (text: string) => text.replace(/\n$/, "").split("\n");
  const [before, after, content] = [input.old_string, input.new_string, input.content];
  if (typeof before === "string" && typeof after === "string") {
    const [removed, added] = [before ? lines(before) : [], after ? lines(after) : []];
    return { removed, added };
  }
  return typeof content === "string" && (input.file_path ?? input.path) !== undefined ? { removed: [], added: lines(content) } : undefined;
}

function Edits({ removed, added, id, opened }: { removed: string[]; added: string[]; id: string; opened: Opened }) {
  const all = [...removed.map((line) => ["d", "−", line] as const), ...added.map((line) => ["a", "+", line] as const)];
  const isCut = all.length > 40 && !opened.isOpen(id, false);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Change">
      <table class="dl"><tbody>{(isCut ? all.slice(0, 40) : all).map(([kind, mark, line]) => <tr class={kind}><td class="s">{mark}</td><td>{line.slice(0, 2000)}</td></tr>)}</tbody></table>
      {isCut && <button type="button" class="more" onClick={() => opened.toggle(id, true)}>{all.length - 40} more lines</button>}
    </div>
  );
}
