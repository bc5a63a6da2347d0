// The list of all runs: who waits for a person, what runs, what has ended. The server makes it; this page asks again every few seconds while it is visible.
import { useEffect, useRef, useState } from "preact/hooks";
import { fetchList, hasToken } from "./connection";
import { offerAsApp } from "./install";
import { isWanted, notifyOfList, want } from "./notify";
import { Choice, Help, Mark, NoToken } from "./parts";
import { Glyph, type Shape, icon, word } from "./shapes";
import { clock, cost, plural, seconds, usd } from "./words";

type Group = "waits" | "running" | "queued" | "ended";

export interface Row {
  record?: string;
  name: string;
  /** Purpose of the run in a sentence. */
  goal?: string;
  folder: string;
  task?: string;
  worker?: string;
  group: Group;
  state: Shape;
  word?: string;
  last: string;
  plan?: Shape[];
  completed: number;
  planned: number;
  spent?: number;
  atLeast?: boolean;
  limit?: number;
  since?: string;
}

interface List {
  at: string;
  root: string;
  rows: Row[];
  workers: string[];
  queued: number;
  isCut: boolean;
  registryError?: string | null;
}

/** How often the list is asked for, in milliseconds. */
const PAUSE = 3_000;

const SHOWN = ["All", "Runs", "Tasks"] as const;
type Shown = (typeof SHOWN)[number];

const KEYS: [string, string][] = [["j k", "next and previous run"], ["/", "find"], ["?", "this help"]];

interface Seen {
  list?: List;
  link: "connecting" | "live" | "lost" | "stranger";
}

/** Asks for the list, again and again while somebody can see it. */
function useList(): Seen {
  const [seen, see] = useState<Seen>({ link: "connecting" });
  useEffect(() => {
    if (!hasToken) return;
    let timer: number | undefined;
    let isAsking = false;
    const ask = async () => {
      clearTimeout(timer);
      if (isAsking) return;
      isAsking = true;
      const answer = await fetchList();
      isAsking = false;
      see((before) => (typeof answer === "string" ? { ...before, link: answer } : { list: answer.list as List, link: "live" }));
      // A hidden page that notifies has to look as well.
      if (!document.hidden || isWanted()) timer = setTimeout(ask, PAUSE);
    };
    const shown = () => void (document.hidden || ask());
    document.addEventListener("visibilitychange", shown);
    void ask();
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, []);
  return seen;
}

export function ListPage() {
  const { list, link } = useList();
  useEffect(() => {
    if (list) offerAsApp(list.root);
  }, [list?.root]);
  const [shown, show] = useState<Shown>("All");
  const [text, find] = useState("");
  const [hasHelp, help] = useState(false);
  useKeys(() => help((is) => !is));
  const before = useRef<List | undefined>(undefined);
  useEffect(() => {
    const state: Shape = link === "lost" || link === "stranger" ? "lost" : !list ? "planned" : list.rows.some(({ group }) => group === "waits") ? "asking" : list.rows.some(({ group }) => group === "running") ? "running" : "completed";
    document.title = `${list ? sentence(list.rows) : "All runs"} · hankweave`;
    document.querySelector<HTMLLinkElement>("#icon")!.href = icon(state);
    if (before.current && list) notifyOfList(before.current.rows, list.rows, icon(state));
    before.current = list;
  }, [list, link]);
  const isRefused = link === "stranger" && !list;
  const wanted = text.trim().toLowerCase();
  const rows = (list?.rows ?? []).filter((row) => (shown === "All" || (shown === "Tasks") === (row.task !== undefined)) && [row.name, row.goal, row.folder, row.task, row.worker].some((each) => each?.toLowerCase().includes(wanted)));
  return (
    <>
      <ListBar link={link} help={() => help((is) => !is)} />
      <main id="main" tabIndex={-1}>
        {(!hasToken || isRefused) && <NoToken isRefused={isRefused} />}
        {hasHelp && <Help keys={KEYS} close={() => help(false)} />}
        {hasToken && !isRefused && (
          <div class="lhead">
            <Title list={list} link={link} />
            {list?.rows.some(({ task }) => task) && <Choice label="Show" of={SHOWN} chosen={shown} choose={show} />}
            <input class="find" id="find" type="search" placeholder="Find by name, folder, worker" aria-label="Find by name, folder or worker" onInput={(event) => find(event.currentTarget.value)} />
          </div>
        )}
        {list && <Groups list={list} rows={rows} isFiltered={rows.length < list.rows.length} />}
      </main>
      <p class="sr" role="status" aria-live="polite">{list && sentence(list.rows)}</p>
    </>
  );
}

const LINKS = { connecting: "connecting", live: "live", lost: "no connection", stranger: "another program" };

function ListBar({ link, help }: { link: Seen["link"]; help: () => void }) {
  const [wanted, setWanted] = useState<"on" | "off" | "refused">(isWanted() ? "on" : "off");
  return (
    <header>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the list</a>
      <div class="topbar">
        <Mark isLink={false} />
        <span class="crumb"><i class="hid" aria-hidden="true">/</i><b>All runs</b></span>
        <span class="fill" />
        <span class={link === "live" ? "conn" : "conn off"} id="link"><i aria-hidden="true" />{hasToken ? LINKS[link] : "no token"}</span>
        <button type="button" id="notify" class="ib" aria-pressed={wanted === "on"} onClick={async () => setWanted(await want())}>{wanted === "on" ? "Notifies you" : wanted === "refused" ? "Not allowed" : "Notify me"}</button>
        <button type="button" class="ib hid" aria-label="Keys" onClick={help}>?</button>
      </div>
    </header>
  );
}

/** Returns the counts of the list: how many wait, how many run, and how many have ended today. */
function counts(rows: Row[]): [string, string] {
  const of = (group: Group) => rows.filter((row) => row.group === group);
  const [waits, running, ended] = [of("waits").length, of("running").length, of("ended").filter(isOfToday).length];
  const others = [waits && running ? `${running} ${running === 1 ? "runs" : "run"}` : "", ended ? `${ended} ended today` : ""].filter(Boolean);
  const first = waits ? `${waits} ${waits === 1 ? "needs" : "need"} attention` : running ? `${running} ${running === 1 ? "runs" : "run"}` : "Nothing runs";
  return [first, others.map((each) => `, ${each}`).join("")];
}

const sentence = (rows: Row[]): string => counts(rows).join("");

function Title({ list, link }: { list: List | undefined; link: Seen["link"] }) {
  const [first, others] = list ? counts(list.rows) : ["", ""];
  return (
    <div class="ltitle">
      <h1 id="status">{list ? <>{first}<span>{others}</span></> : link === "connecting" ? "Connecting" : "The list does not answer"}</h1>
      {link === "lost" && <p class="dim">The list does not answer. This page asks again every few seconds.</p>}
      {link === "stranger" && <p class="dim">Another program answers at this address; it did not get the token.</p>}
    </div>
  );
}

function isOfToday(row: Row): boolean {
  return row.since !== undefined && new Date(row.since).toDateString() === new Date().toDateString();
}

/** Returns the sum of what rows have cost, in words; nothing where nothing is known. */
function sum(rows: Row[]): string {
  const spent = rows.reduce((all, row) => all + (row.spent ?? 0), 0);
  return spent ? `${rows.some(({ atLeast }) => atLeast) ? "at least " : ""}${usd(spent)}` : "";
}

function Groups({ list, rows, isFiltered }: { list: List; rows: Row[]; isFiltered: boolean }) {
  const now = Date.parse(list.at);
  const of = (group: Group) => rows.filter((row) => row.group === group);
  const [running, ended] = [of("running"), of("ended")];
  const [today, earlier] = [ended.filter(isOfToday), ended.filter((row) => !isOfToday(row))];
  const group = (title: string, note: string, rows: Row[], isYours = false) =>
    rows.length > 0 && (
      <section class={isYours ? "lg you" : "lg"}>
        <h2 class="h2">{title}<small>{note}</small></h2>
        <ul class="panel">{rows.map((row) => <ListRow key={`${row.record} ${row.task}`} row={row} now={now} />)}</ul>
      </section>
    );
  const spent = sum(running);
  return (
    <div class={list.rows.some(({ worker }) => worker) ? undefined : "alone"}>
      {group("Needs attention", "the longest first", of("waits"), true)}
      {group("Running", spent && `${spent} so far`, running)}
      {group("Queued", "", of("queued"))}
      {group("Ended today", sum(today), today)}
      {group("Ended earlier", sum(earlier), earlier)}
      {rows.length === 0 && <p class="lfoot">{isFiltered ? "No run has this in its name, folder or worker." : <>No run is recorded below <code>{list.root}</code>. <code>hankweave run</code> starts one.</>}</p>}
      <Foot list={list} />
    </div>
  );
}

function Foot({ list }: { list: List }) {
  const { workers, queued } = list;
  const names = workers.map((name, at) => <>{at === 0 ? "" : at === workers.length - 1 ? " and " : ", "}<b><bdi>{name}</bdi></b></>);
  return (
    <p class="lfoot">
      {workers.length > 0 && <>{plural(workers.length, "worker")} at work: {names}. </>}
      {queued > 0 && <>{plural(queued, "task")} {queued === 1 ? "is" : "are"} queued. </>}
      {list.registryError && <span class="badc">The tasks are not known: {list.registryError}. </span>}
      {list.isCut && <>There may be more: the list has at most 200 directories and 200 tasks, and searches 100,000 entries, 8 folders deep. </>}
      Below <bdi>{list.root}</bdi>; this list cannot change anything.
    </p>
  );
}

/** Classes of a plan's entries. */
const ENTRY: Record<string, string> = { completed: "d", skipped: "d", running: "r", asking: "q", failed: "x", stopped: "z", paused: "z", replaced: "z", restarted: "z" };

function ListRow({ row, now }: { row: Row; now: number }) {
  const state = row.word ?? word(row.state);
  const inner = (
    <>
      <span class="st"><Glyph of={row.state} />{state}</span>
      <span class="ti"><b><bdi>{row.name}</bdi></b>{row.goal && row.goal !== row.name && <span class="goal"><bdi>{row.goal.replaceAll("`", "")}</bdi></span>}<small>{row.task && <>task <bdi>{row.task}</bdi> · </>}<bdi>{row.folder}</bdi></small></span>
      <span class="lw"><bdi>{row.last}</bdi></span>
      <Progress row={row} />
      <span class="num"><b>{row.spent === undefined ? "" : cost(row.spent, row.atLeast) || usd(0)}{row.limit !== undefined && ` of ${usd(row.limit)}`}</b> {when(row, now)}</span>
      <span class="num wk">{row.worker ?? ""}</span>
    </>
  );
  return <li>{row.record ? <a class="li_" href={`/r/${row.record}/`}>{inner}</a> : <div class="li_">{inner}</div>}</li>;
}

function Progress({ row }: { row: Row }) {
  const { plan = [], completed, planned } = row;
  if (!planned) return <span class="prog" />;
  const label = `${completed} of ${planned} ${planned === 1 ? "codon" : "codons"} completed`;
  if (plan.length) return <span class="prog" role="img" aria-label={label}>{plan.map((each) => <i class={ENTRY[each] ?? ""} />)}</span>;
  // A long plan has no entries of its own: tenths of it.
  return <span class="prog" role="img" aria-label={label}>{Array.from({ length: 10 }, (_, at) => <i class={at < Math.floor((completed / planned) * 10) ? "d" : ""} />)}</span>;
}

/** Returns how long a row has been in its state, or when it ended. */
function when(row: Row, now: number): string {
  if (!row.since) return "";
  const at = Date.parse(row.since);
  const minutes = Math.floor(Math.max(0, now - at) / 60_000);
  // Minutes are enough for a list: one that counts seconds is never at rest.
  const time = minutes < 1 ? "under 1m" : seconds(minutes * 60);
  if (row.group === "running") return time;
  if (row.group === "ended") return clock(at);
  return row.state === "asking" || row.group === "queued" ? `for ${time}` : minutes < 60 ? `${time} ago` : `since ${clock(at)}`;
}

function useKeys(help: () => void): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const on = event.target as HTMLElement;
      if (/INPUT|TEXTAREA|SELECT/.test(on.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "?") help();
      else if (event.key === "/") document.getElementById("find")?.focus();
      else if (event.key === "j" || event.key === "k") {
        const rows = [...document.querySelectorAll<HTMLElement>("a.li_")];
        const at = rows.indexOf(document.activeElement as HTMLElement);
        rows[at + (event.key === "j" ? 1 : -1)]?.focus();
      } else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}
