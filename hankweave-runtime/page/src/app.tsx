import { useEffect, useState } from "preact/hooks";
import { Attention } from "./attention";
import { Codon } from "./codon";
import { type Connection, addressToSend, hasReport, hasToken, isFile, recordPath } from "./connection";
import { Hero, sentence } from "./hero";
import { isWanted, want } from "./notify";
import { useOpened } from "./opened";
import { Help, Mark, NoToken } from "./parts";
import { Planned } from "./planned";
import { REPORT, Report } from "./report";
import { type Route, readPlan, readRoute, writePlan, writeRoute } from "./route";
import type { Transcript } from "./transcript";
import { type Place, type View, attemptsOf, current, find, hasEnded, lost, nameOf, places, planned, withOpenCost } from "./view";
import { Timeline } from "./timeline";
import { clock } from "./words";

/** The address of an attempt, or of a moment in it. */
export const address = (place: { item: string; key: string }, seq?: number): string => writeRoute({ item: place.item, key: place.key, seq });

/** Choice of the user: an attempt, a codon that has not started, or an address that leads to nothing, with the reason. */
export interface Chosen {
  place?: Place;
  route?: Route;
  planned?: string;
  missing?: string;
}

export function chosen(view: View): Chosen {
  const { hash } = location;
  const [codon, route] = [readPlan(hash), readRoute(hash)];
  const item = codon === undefined ? undefined : view.items?.[codon];
  const newest = item && attemptsOf(item).at(-1)?.[0];
  if (codon !== undefined && item?.kind === "codon" && !newest) return { planned: codon };
  const place = newest ? find(view, codon!, newest) : route && find(view, route.item, route.key);
  if (place) return { place, route };
  if (route && view.items?.[route.item]) return { missing: `“${nameOf(view, route.item)}” has no attempt ${route.key} in this run, or has it no more: it was undone, or is one of those that are only summed.` };
  if (codon ?? route) return { missing: `This run has no codon “${codon ?? route!.item}”.` };
  return /^#\/(?!report$)./.test(hash) ? { missing: "This address names nothing in this run." } : { place: current(view) };
}

const KEYS: [string, string][] = [["j k", "next and previous codon"], ["1 2 3", "transcript, changes, prompt"], ["n p", "next and previous moment, or place that was found"], ["/", "find in the transcript"], ["[ ]", "previous and next file"], ["+ -", "zoom the timeline"], ["f", "follow the newest codon"], ["y", "copy this address"], ["?", "this help"]];
const COMMAND_KEYS: [string, string][] = [["a d", "approve, deny"], ["s x", "skip, stop"], ["c r", "start the next codon, redo"], ["b u", "roll back, undo it"]];
if (recordPath) KEYS.splice(-1, 0, ["g", "all runs"]);

export function App({ connection, transcript }: { connection: Connection; transcript: Transcript }) {
  const [hasHelp, help] = useState(false);
  const [told, tell] = useState("");
  useEffect(() => {
    const timer = told ? setTimeout(() => tell(""), TOLD_FOR) : undefined;
    return () => clearTimeout(timer);
  }, [told]);
  const newest = connection.view && withOpenCost(connection.view);
  const view = connection.link === "lost" && newest ? lost(newest, connection.lostAt) : newest;
  useKeys(connection, transcript, () => help((is) => !is), tell);
  const { place, route, planned, missing }: Chosen = view ? chosen(view) : {};
  useOpened(() => opened(route), view?.state);
  return (
    <>
      <Bar connection={connection} help={() => help((is) => !is)} />
      <main id="main" tabIndex={-1}>
        {(hasToken || isFile) && !isRefused(connection) ? <Hero connection={connection} view={view} /> : <NoToken isRefused={hasToken} />}
        {hasHelp && <Help keys={connection.mayCommand ? [...COMMAND_KEYS, ...KEYS] : KEYS} close={() => help(false)} />}
        {view && <Attention {...{ connection, view, transcript }} />}
        {view && <Timeline connection={connection} view={view} chosen={place} planned={planned} address={address} />}
        {view && hasReport && location.hash === REPORT && <Report connection={connection} view={view} />}
        {view && planned && <Planned connection={connection} view={view} id={planned} key={planned} />}
        {missing && <Missing why={missing} />}
        {view && place && location.hash !== REPORT && <Codon {...{ connection, view, place, transcript, route, address }} />}
      </main>
      <p class="sr" role="status" aria-live="polite">{sentence(connection)}</p>
      <p class="told" role="status" id="told">{told}</p>
    </>
  );
}

/** Heading of what the address names, once it is drawn; moments and lines are scrolled to where they are drawn. */
function opened(route: Route | undefined): Element | null {
  const path = route?.changes?.path;
  const file = [...document.querySelectorAll("[data-file]")].find((each) => each.ariaLabel === path);
  return file ?? document.getElementById(location.hash === REPORT ? "report" : "codon");
}

function Missing({ why }: { why: string }) {
  return (
    <section aria-label="The codon" class="missing">
      <div class="chead" id="codon" tabIndex={-1}><h2>{why}</h2></div>
      <p class="by">The address may be of another run. <a href="#/">Show the newest codon</a></p>
    </section>
  );
}

/** How long the page says what a key did, in milliseconds. */
const TOLD_FOR = 5_000;

/** Whether what answers has never known the token of this page. */
const isRefused = ({ isStranger, view, link }: Connection): boolean => isStranger && !view && link !== "live";

const LINKS: Record<string, string> = { connecting: "connecting", live: "live", lost: "no connection", ended: "ended", file: "a file" };

function Bar({ connection, help }: { connection: Connection; help: () => void }) {
  const [wanted, setWanted] = useState<"on" | "off" | "refused">(isWanted() ? "on" : "off");
  const { view, link, folder } = connection;
  return (
    <header>
      <a class="skip" href={document.getElementById("codon") ? "#codon" : "#main"} onClick={(event) => { event.preventDefault(); (document.getElementById("codon") ?? document.getElementById("main"))?.focus(); }}>Skip to the codon</a>
      <div class="topbar">
        <Mark isLink={recordPath !== ""} />
        <span class="crumb">{folder && <><i class="hid" aria-hidden="true">/</i><bdi class="hid" id="place">{folder}</bdi></>}{view?.hank && <><i class="hid" aria-hidden="true">/</i><b>{view.hank.name}</b></>}</span>
        <span class="fill" />
        {view && !connection.mayCommand && link === "live" && <span class="tag">read-only</span>}
        {view && hasReport && (hasToken || isFile) && <a class="ib" id="to-report" href={REPORT} aria-current={location.hash === REPORT ? "page" : undefined}>Report</a>}
        <span class={link === "live" ? "conn" : "conn off"} id="link"><i aria-hidden="true" />{connection.exportedAt !== undefined ? `as of ${clock(connection.exportedAt)}` : !hasToken ? "no token" : isRefused(connection) ? "wrong token" : connection.isStranger && link !== "live" ? "another program" : link === "live" && view && hasEnded(view.state) ? "connected" : LINKS[link]}</span>
        {!isFile && !(view && hasEnded(view.state)) && <button type="button" id="notify" class="ib" aria-pressed={wanted === "on"} onClick={async () => setWanted(await want())}>{wanted === "on" ? "Notifies you" : wanted === "refused" ? "Not allowed" : "Notify me"}</button>}
        <button type="button" class="ib hid" aria-label="Keys" onClick={help}>?</button>
      </div>
    </header>
  );
}

/** Copies the address of what is shown, and returns what the user has to know of it. */
async function copyAddress(): Promise<string> {
  const { address, hasToken } = addressToSend();
  try {
    await navigator.clipboard.writeText(address);
  } catch {
    return "This browser does not let the page copy; the address bar has the address, without the token.";
  }
  if (isFile) return "Copied.";
  return hasToken ? "Copied with its token, which only watches." : "Copied without the token, which may command: its reader pastes the address that `hankweave page` prints.";
}

const TABS: Record<string, Partial<Route>> = { 1: {}, 2: { changes: {} }, 3: { isPrompt: true } };
/** Buttons that lead from one found place to another. */
const FINDS: Record<string, string> = { n: "find-next", p: "find-previous", N: "find-previous" };
const BUTTONS: Record<string, string> = { a: "approve", d: "deny", s: "skip", r: "redo", x: "stop", b: "rollback", u: "undo", c: "next" };

/** Keys open questions, and never answer them. */
function useKeys(connection: Connection, transcript: Transcript, help: () => void, tell: (text: string) => void): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const { view } = connection;
      const on = event.target as HTMLElement;
      if (/INPUT|TEXTAREA|SELECT/.test(on.tagName) || on.closest(".question") || event.ctrlKey || event.metaKey || event.altKey || !view) return;
      const button = BUTTONS[event.key];
      if (button) document.getElementById(button)?.click();
      else if (event.key === "?") help();
      else if (event.key === "g" && recordPath) location.assign("/");
      else if (event.key === "y") void copyAddress().then(tell);
      else if (event.key === "f") {
        history.replaceState(null, "", location.pathname);
        dispatchEvent(new HashChangeEvent("hashchange"));
      } else if (TABS[event.key]) {
        const { place } = chosen(view);
        if (place) location.hash = writeRoute({ item: place.item, key: place.key, ...TABS[event.key] });
      } else if (FINDS[event.key] && document.getElementById(FINDS[event.key]!)) document.getElementById(FINDS[event.key]!)!.click();
      else if (event.key === "n" || event.key === "p") {
        const { place, route } = chosen(view);
        const seqs = transcript.moments.map(({ seq }) => seq);
        const [isNext, last] = [event.key === "n", seqs.length - 1];
        // Without a moment in the address the transcript stands at its end.
        const at = route?.seq === undefined ? last + (isNext ? 0 : 1) : seqs.indexOf(route.seq);
        const isAround = isNext ? at >= last : at <= 0;
        const to = seqs[isAround ? (isNext ? 0 : last) : at + (isNext ? 1 : -1)];
        if (!place || to === undefined) return;
        if (isAround) tell(isNext ? "After the last moment comes the first." : "Before the first moment comes the last.");
        location.hash = address(place, to);
      } else if (event.key === "/") document.getElementById("find")?.focus();
      else if (["+", "=", "-"].includes(event.key)) {
        const isCloser = event.key !== "-";
        const zooms = [...document.querySelectorAll<HTMLElement>(".tl .seg button")];
        const at = zooms.findIndex((each) => each.ariaPressed === "true");
        const to = zooms[at + (isCloser ? 1 : -1)];
        if (to) to.click();
        else tell(isCloser ? "The timeline is as close as it gets." : "The timeline shows everything.");
      } else if (event.key === "[" || event.key === "]") {
        const files = [...document.querySelectorAll<HTMLAnchorElement>(".changed .files a")];
        const at = files.findIndex((each) => each.ariaCurrent === "true");
        files[at + (event.key === "]" ? 1 : -1)]?.click();
      } else if (event.key === "j" || event.key === "k") {
        const all = [...places(view).map((each) => address(each)), ...planned(view).map(writePlan)];
        const { place, planned: shown } = chosen(view);
        const at = all.indexOf(shown ? writePlan(shown) : place ? address(place) : "");
        const to = all[at + (event.key === "j" ? 1 : -1)];
        if (to) location.hash = to;
      } else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}
