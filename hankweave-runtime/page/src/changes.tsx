// Changes of an attempt as a code review shows them: the files, and their lines as one virtual list each, which scroll with the page.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Connection, isFile } from "./connection";
import { type Differences, type FileDifference, Lines, type Line, askFiles, knownFiles } from "./differences";
import { bringIntoView, letGo } from "./opened";
import { Arrow, CommandLine, Gone, Path } from "./parts";
import { type ChangesRoute, writeRoute } from "./route";
import { type Attempt, type Place, type View, places, titleOf } from "./view";
import { bytes, count, plural, quoted } from "./words";

const ROW = 20;
/** Files with more changed lines are folded. */
const FOLDED = 5_000;
/** Files that are shown at once; more come by a button. */
const FILES = 200;
export const SINCE_START = "Changed since the run started:";
export const MARKS = { created: "+", modified: "~", deleted: "−", renamed: "→" };

interface Props {
  connection: Connection;
  view: View;
  place: Place;
  route: ChangesRoute;
}

/** Returns the difference between two checkpoints, or why there is none; `undefined` until that is known. */
export function useDifferences(connection: Connection, to: string | undefined, from: string | undefined): Differences | string | undefined {
  const [found, set] = useState<{ pair: string; is: Differences | string } | undefined>();
  const { canAsk } = connection;
  const pair = `${from}..${to}`;
  useEffect(() => {
    if (!to || !canAsk || knownFiles(to, from)) return;
    let isShown = true;
    void askFiles(connection, to, from).then((is) => isShown && set({ pair, is }));
    return () => void (isShown = false);
  }, [to, from, canAsk]);
  return (to && knownFiles(to, from)) || (found?.pair === pair ? found.is : undefined);
}

/** Files of an attempt that are listed next to its transcript. */
const LISTED = 10;

/** Files that an attempt changed, compared with its start as in the tab of its changes. */
export function ChangedFiles({ connection, place }: { connection: Connection; place: Place }) {
  const found = useDifferences(connection, place.attempt.checkpoint, undefined);
  if (typeof found !== "object") return null;
  const address = (changes: ChangesRoute): string => writeRoute({ item: place.item, key: place.key, changes });
  return <FileList of={found} route={{}} address={address} most={LISTED} />;
}

export function Changes({ connection, view, place, route }: Props) {
  const to = place.attempt.checkpoint;
  const { from } = route;
  const { canAsk } = connection;
  const found = useDifferences(connection, to, from);
  if (!to) {
    return (
      <div class="logbox nothing">
        <p class="dim">{place.attempt.state === "running" ? "The changes can be read once the attempt has a checkpoint." : "This attempt has no checkpoint."}</p>
      </div>
    );
  }
  const address = (changes: ChangesRoute): string => writeRoute({ item: place.item, key: place.key, changes: { from, ...changes } });
  return (
    <>
      <nav class="rail changed" aria-label="Changed files">{typeof found === "object" && <FileList title={titleFrom(view, from)} of={found} route={route} address={address} />}</nav>
      <div class="logbox review">
        <Bases {...{ view, place, from }} choose={(base) => (location.hash = writeRoute({ item: place.item, key: place.key, changes: { from: base } }))} />
        {typeof found !== "object" && connection.isGone ? <Gone folder={connection.folder} /> : found === undefined ? <p class="dim">{canAsk ? "Comparing…" : "There is no connection to the run."}</p> : typeof found === "string" ? <NotFound why={found} codon={place.attempt.id} /> : <Review key={`${found.from}..${found.to}`} connection={connection} of={found} route={route} address={address} />}
      </div>
    </>
  );
}

/** Title of the files that changed, which says what they are compared with. */
function titleFrom(view: View, from: string | undefined): string | undefined {
  if (from === undefined) return undefined;
  return from === view.files.base ? SINCE_START : `Changed since ${from.slice(0, 12)}:`;
}

function NotFound({ why, codon }: { why: string; codon: string | undefined }) {
  if (!isFile) return <p class="cause" role="alert">{why}</p>;
  return (
    <div class="nothing">
      <p class="dim">{why} This command shows them, in the directory of the run.</p>
      <CommandLine line={`hankweave diff ${codon ? quoted(codon) : ""}`.trim()} />
    </div>
  );
}

/** Says that differences run backwards, where the checkpoint that is compared with is that of a later attempt. */
function Backwards({ view, from, to }: { view: View; from: string | undefined; to: Attempt }) {
  const all = [...places(view), ...Object.values(view.undone?.newest ?? {})];
  const base = from && all.find(({ attempt }) => attempt.checkpoint?.startsWith(from));
  const end = ({ ended, began }: Attempt) => ended ?? began ?? "";
  if (!base || end(base.attempt) <= end(to)) return null;
  return <p class="by" id="backwards">These differences run backwards: the files after {titleOf(view, base.item, base.key)} are the later ones. Lines with − have come since, and lines with + have gone since.</p>;
}

/** The checkpoint that is compared with. */
function Bases({ view, place, from, choose }: { view: View; place: Place; from: string | undefined; choose: (base: string | undefined) => void }) {
  // An exported page has one comparison of each attempt.
  const others = isFile ? [] : places(view).filter(({ item, key, attempt }) => attempt.checkpoint && attempt.checkpoint !== place.attempt.checkpoint && (item !== place.item || key !== place.key));
  const options = others.slice(-200).map(({ item, key, attempt }) => [attempt.checkpoint!, `${titleOf(view, item, key)}, ${attempt.checkpoint!.slice(0, 12)}`] as const);
  const base = isFile ? undefined : view.files.base;
  const isOther = from !== undefined && from !== base && !options.some(([sha]) => sha === from);
  return (
    <>
      <p class="dhead">
        <label>From{" "}
          <select name="from" id="base" value={from ?? ""} onChange={(event) => choose(event.currentTarget.value || undefined)}>
            <option value="">before it began</option>
            {base && base !== place.attempt.checkpoint && <option value={base}>the beginning of the run</option>}
            {options.map(([sha, name]) => <option value={sha}>after {name}</option>)}
            {isOther && <option value={from}>{from.slice(0, 12)}</option>}
          </select>
        </label>{" "}
        to <b>its checkpoint</b> <span class="mono dim">{place.attempt.checkpoint!.slice(0, 12)}</span>
      </p>
      <Backwards view={view} from={from} to={place.attempt} />
    </>
  );
}

export function Counts({ of }: { of: { added?: number; removed?: number } }) {
  return <span class="num">{of.added ? <span class="p">+{count(of.added)}</span> : null} {of.removed ? <span class="m_">−{count(of.removed)}</span> : null}</span>;
}

export function FileList({ of, route, address, most = of.files.length, title = "Changed" }: { of: Differences; route: ChangesRoute; address: (to: ChangesRoute) => string; most?: number; title?: string }) {
  const shown = of.files.slice(0, most);
  return (
    <section>
      <h3 class="h3">{title} {of.count ? plural(of.count, "file") : "nothing"} <Counts of={of} /></h3>
      <ul class="files">
        {shown.map((file) => (
          <li key={file.path}>
            <span class="mk" aria-hidden="true">{MARKS[file.change]}</span>
            <a href={address({ path: file.path })} aria-current={file.path === route.path ? "true" : undefined} aria-label={`${file.change}: ${file.path}`}><Path of={file.path} /></a>
            <Counts of={file} />
          </li>
        ))}
        {of.count > shown.length && <li class="dim">and {count(of.count - shown.length)} more</li>}
      </ul>
    </section>
  );
}

interface ReviewProps {
  connection: Connection;
  of: Differences;
  route: ChangesRoute;
  address: (to: ChangesRoute) => string;
}

function Review({ connection, of, route, address }: ReviewProps) {
  const [most, show] = useState(FILES);
  const wanted = of.files.findIndex((file) => file.path === route.path);
  const shown = of.files.slice(0, Math.max(most, wanted + 1));
  if (!of.files.length && route.path === undefined) return <p class="dim">The files are the same in both checkpoints.</p>;
  return (
    <>
      {route.path !== undefined && wanted < 0 && <p class="cause" role="alert" id="unknown-file">“{route.path}” is not among the files that changed between these checkpoints.</p>}
      {shown.map((file) => <FileSection key={file.path} {...{ connection, of, file, address }} route={file.path === route.path ? route : undefined} />)}
      {of.files.length > shown.length && <button type="button" class="more" onClick={() => show(most + FILES)}>{plural(of.files.length - shown.length, "more file")}</button>}
    </>
  );
}

function whyFolded(file: FileDifference): string {
  const size = [file.oldSize, file.size].filter((each) => each !== undefined).map(bytes).join(" → ");
  if (file.withoutLines === "binary") return `binary, ${size}`;
  if (file.withoutLines === "too-large") return `too large to show, ${size}`;
  return "";
}

function FileSection({ connection, of, file, route, address }: Omit<ReviewProps, "route"> & { file: FileDifference; route: ChangesRoute | undefined }) {
  const hasLines = file.withoutLines === undefined || file.withoutLines === "not-counted";
  const changes = (file.added ?? 0) + (file.removed ?? 0);
  const isEmpty = hasLines && file.withoutLines === undefined && changes === 0;
  const [isOpen, open] = useState(hasLines && !isEmpty && file.withoutLines === undefined && changes <= FOLDED);
  const section = useRef<HTMLElement>(null);
  useEffect(() => {
    if (!route) return;
    if (hasLines && !isEmpty) open(true);
    if (route.line === undefined && section.current) bringIntoView(section.current);
  }, [route?.path, route?.line === undefined]);
  const note = whyFolded(file) || (isEmpty ? (file.change === "renamed" ? "the same content" : "no lines") : "");
  return (
    <section class="panel diff" ref={section} aria-label={file.path} data-file>
      <div class="fh">
        <button type="button" class="ib unfold" aria-expanded={isOpen} aria-label={`${isOpen ? "Fold" : "Show"} ${file.path}`} disabled={!hasLines || isEmpty} onClick={() => open(!isOpen)}><Arrow /></button>
        <span class="sr">{file.change}: </span>
        <h3>{file.oldPath !== undefined && <><bdi class="dim">{file.oldPath}</bdi> → </>}<a href={address({ path: file.path })}><bdi>{file.path}</bdi></a></h3>
        <span class="dim">{note || (file.change === "modified" ? "" : file.change)}</span>
        <Counts of={file} />
      </div>
      {isOpen && <Body {...{ connection, of, file, route, address }} />}
    </section>
  );
}

function Body({ connection, of, file, route, address }: Omit<ReviewProps, "route"> & { file: FileDifference; route: ChangesRoute | undefined }) {
  const box = useRef<HTMLDivElement>(null);
  const [, redraw] = useState(0);
  const [range, setRange] = useState<[number, number]>([0, 0]);
  const lines = useMemo(() => new Lines(connection, of, file.path, () => redraw((n) => n + 1)), []);
  const total = lines.count ?? Math.min(FOLDED, (file.added ?? 20) + (file.removed ?? 0) + 4);

  const look = () => {
    const place = box.current?.getBoundingClientRect();
    if (!place) return;
    const row = (y: number) => Math.min(total, Math.max(0, Math.floor((y - place.top) / ROW)));
    const [first, last] = [row(-innerHeight / 2), row(innerHeight * 1.5)];
    setRange((known) => (known[0] === first && known[1] === last ? known : [first, last]));
    if (last > first) lines.want(first, last);
  };
  useLayoutEffect(look);
  useEffect(() => {
    let frame = 0;
    const scrolled = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(look);
    };
    addEventListener("scroll", scrolled, { passive: true });
    addEventListener("resize", scrolled);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("scroll", scrolled);
      removeEventListener("resize", scrolled);
    };
  });
  useEffect(() => {
    if (route?.line === undefined || !route.side) return;
    void lines.find(route.side, route.line).then((at) => {
      const top = box.current?.getBoundingClientRect().top;
      // The list has its true height with the next drawing.
      letGo();
      if (top !== undefined) setTimeout(() => scrollTo(0, scrollY + (box.current?.getBoundingClientRect().top ?? top) + at * ROW - innerHeight / 3), 80);
    });
  }, [route?.side, route?.line]);

  const rows = [];
  for (let at = range[0]; at < range[1]; at++) rows.push(<Row key={at} line={lines.line(at)} path={file.path} {...{ route, address }} />);
  return (
    <div class="lines" tabIndex={0} role="region" aria-label={`Lines of ${file.path}`}>
      {lines.isFailed && <p class="cause">{isFile ? lines.problem : "The lines could not be read. Fold the file and show it again."}</p>}
      <div ref={box} class="all" style={{ height: `${total * ROW}px` }}>
        <div class="part" style={{ transform: `translateY(${range[0] * ROW}px)` }}>{rows}</div>
      </div>
    </div>
  );
}

const KINDS = { " ": "", "+": "a", "-": "d", "@": "h", "\\": "h" };

function Row({ line, path, route, address }: { line: Line | undefined; path: string; route: ChangesRoute | undefined; address: (to: ChangesRoute) => string }) {
  if (!line) return <div class="ln" />;
  const isHere = route?.line !== undefined && route.line === (route.side === "L" ? line.old : line.new);
  const number = (side: "L" | "R", of: number | undefined) => (of === undefined ? <span class="l" /> : <a class="l" href={address({ path, side, line: of })} aria-label={`Line ${of} ${side === "L" ? "before" : "after"}`}>{of}</a>);
  if (line.kind === "@" || line.kind === "\\") return <div class="ln h"><span class="c">{line.text}</span></div>;
  return (
    <div class={`ln ${KINDS[line.kind]}${isHere ? " here" : ""}`}>
      {number("L", line.old)}
      {number("R", line.new)}
      <span class="s" aria-hidden="true">{line.kind === "-" ? "−" : line.kind}</span>
      <span class="c">{line.text.replace(/⟨U\+000D⟩$/, "␍")}</span>
    </div>
  );
}
