// One attempt of a codon: facts, commands, transcript, changes and prompt.
import type { ComponentChildren } from "preact";
import { Actions, rollback, skip, stop } from "./actions";
import { Files } from "./attention";
import { ChangedFiles, Changes } from "./changes";
import type { Connection } from "./connection";
import { Log } from "./log";
import { Markdown } from "./markdown";
import { RollbackPreview } from "./preview";
import { Gone, useSecond } from "./parts";
import { type Route, writeRoute } from "./route";
import { Glyph, shapeOf, word } from "./shapes";
import type { Transcript } from "./transcript";
import { type Place, type View, attemptsOf, configured, current, hasEnded, places, positionOf } from "./view";
import { changed, clock, cost, count, excerpt, insteadOf, local, plural, seconds, took, usd } from "./words";

interface Props {
  connection: Connection;
  view: View;
  place: Place;
  transcript: Transcript;
  route: Route | undefined;
  address: (place: { item: string; key: string }, seq?: number) => string;
}

export function Codon({ connection, view, place, transcript, route, address }: Props) {
  const { attempt } = place;
  const item = view.items![place.item]!;
  const isLive = attempt.state === "running" && !hasEnded(view.state) && connection.link === "live";
  useSecond(isLive);
  const shape = shapeOf(view, place.item, place.key, attempt);
  const where = positionOf(view, place.item, place.key);
  const began = attempt.began ? Date.parse(attempt.began) : undefined;
  const ended = attempt.ended ? Date.parse(attempt.ended) : undefined;
  const lasted = began === undefined ? "" : attempt.state === "crashed" ? (attempt.durationMs ? `at least ${took(attempt.durationMs)}` : "time unknown") : isLive ? seconds(Math.floor((connection.now() - began - (attempt.suspendedMs ?? 0)) / 1000)) : took(attempt.durationMs ?? (ended ?? Date.parse(view.at ?? attempt.began!)) - began - (attempt.suspendedMs ?? 0));
  const state = isLive && view.now && view.now.phase !== "working" ? `${word(attempt.state)} (${view.now.phase})` : attempt.budget ? `${word(attempt.state)} (budget reached)` : word(shape);
  const meta = [state, [attempt.agent, attempt.model ?? item.model].filter(Boolean).join(" "), lasted, cost(attempt.cost + (attempt.sentinels ?? 0), attempt.atLeast), changed(attempt.filesChanged), attempt.id !== undefined && `[${configured(attempt.id)}]`].filter(Boolean);
  const others = attemptsOf(item);
  const newest = current(view);
  // The failure at the top says it.
  const isTold = view.problem?.item === place.item && view.problem.attempt === place.key && ["failed", "crashed", "idle"].includes(view.state);
  const undone = Object.entries(view.undone?.newest ?? {}).filter(([, each]) => each.item === place.item);
  const isElsewhere = newest && (newest.item !== place.item || newest.key !== place.key);
  return (
    <section aria-label="The codon">
      <div class="chead" id="codon" tabIndex={-1}>
        <h2><Glyph of={shape} size={16} />{item.name}{where && <span>({where})</span>}</h2>
        <p class="meta">{meta.join(" · ")}</p>
        {isElsewhere && <a class="follow" href="#/">Follow the newest codon</a>}
        {others.length > 1 && (
          <nav class="tries" aria-label={item.in ? "Iterations" : "Attempts"}>
            {others.slice(-12).map(([key, each]) => <Attempt key={key} {...{ view, item: place.item, attempt: each, of: key, address }} isChosen={key === place.key} />)}
          </nav>
        )}
        <Tabs place={place} chosen={tabOf(route)} />
      </div>
      {attempt.replacedBy && <p class="by why">{attempt.replacedBy} continued in its place</p>}
      {attempt.instead && <p class="by why">Fallback {insteadOf(attempt.instead)}</p>}
      {undone.length > 0 && (
        <p class="by undone">Undone or run again since: {undone.map(([seq, { key, attempt: each }], i) => <span key={seq}>{i > 0 && "; "}{item.in ? `${positionOf(view, place.item, key)}: ` : ""}{each.state}{each.why?.message ? ` (${each.why.message})` : ""}, {each.began ? clock(Date.parse(each.began)) : ""}, {cost(each.cost + (each.sentinels ?? 0), each.atLeast) || "$0.00"}</span>)}. What it cost stays counted.</p>
      )}
      {attempt.result && <p class="by">Result: <code>{attempt.result}</code></p>}
      {attempt.why && !isTold && <p class={["failed", "crashed"].includes(attempt.state) ? "cause why" : "by why"}>{attempt.why.message ?? attempt.why.kind}{attempt.why.until && ` (until ${local(attempt.why.until)})`}</p>}
      {transcript.prompt && !route?.isPrompt && <p class="by asked"><a href={writeRoute({ item: place.item, key: place.key, isPrompt: true })}>Prompt</a> <bdi>{excerpt(transcript.prompt.text)}</bdi></p>}
      <div class={route?.changes ? "cod changes" : "cod"}>
        <Commands {...{ connection, view, place }} isLive={isLive} />
        {route?.changes ? (
          <Changes {...{ connection, view, place }} route={route.changes} key={`${place.item}.${place.key}`} />
        ) : route?.isPrompt ? (
          <Asked transcript={transcript} gone={connection.isGone && <Gone folder={connection.folder} />} />
        ) : (
          <>
            <Facts {...{ connection, view, place }} isLive={isLive} />
            <Log transcript={transcript} address={(seq) => address(place, seq)} target={route?.seq} now={isLive ? connection.now() : undefined} gone={connection.isGone && <Gone folder={connection.folder} />} key={`${place.item}.${place.key}`} />
          </>
        )}
      </div>
    </section>
  );
}

function Attempt({ view, item, of, attempt, isChosen, address }: { view: View; item: string; of: string; attempt: Place["attempt"]; isChosen: boolean; address: Props["address"] }) {
  const [iteration, number] = of.split(".");
  const shape = shapeOf(view, item, of, attempt);
  const name = positionOf(view, item, of) || `attempt ${number}`;
  const short = view.items?.[item]?.in ? `${iteration}${number === "1" ? "" : `, attempt ${number}`}` : name;
  return <a href={address({ item, key: of })} aria-current={isChosen ? "true" : undefined} aria-label={`${name}: ${word(shape)}`} title={`${name}: ${word(shape)}`}><Glyph of={shape} size={12} />{short}</a>;
}

type Tab = "transcript" | "changes" | "prompt";
export const tabOf = (route: Route | undefined): Tab => (route?.changes ? "changes" : route?.isPrompt ? "prompt" : "transcript");

function Tabs({ place: { item, key }, chosen }: { place: Place; chosen: Tab }) {
  const tab = (of: Tab, name: string, to: Partial<Route>) => <a href={writeRoute({ item, key, ...to })} aria-current={of === chosen ? "page" : undefined} id={`tab-${of}`}>{name}</a>;
  return (
    <nav class="tabs" aria-label="Parts of the attempt">
      {tab("transcript", "Transcript", {})}
      {tab("changes", "Changes", { changes: {} })}
      {tab("prompt", "Prompt", { isPrompt: true })}
    </nav>
  );
}

/** The prompt of the attempt, as its agent got it. */
function Asked({ transcript: { prompt, isLoading }, gone }: { transcript: Transcript; gone: ComponentChildren }) {
  if (!prompt) return <div class="logbox nothing">{isLoading ? <p class="dim">Reading the journal…</p> : gone || <p class="dim">The record has no prompt of this attempt: its agent has not started, or an earlier version recorded it.</p>}</div>;
  return (
    <div class="logbox prompt" id="prompt">
      <Markdown text={prompt.text} />
      {prompt.originalLength !== undefined && <p class="dim">Cut: {count(prompt.text.length)} of {count(prompt.originalLength)} characters.</p>}
    </div>
  );
}

interface PartProps {
  connection: Connection;
  view: View;
  place: Place;
  isLive: boolean;
}

function Commands({ connection, view, place: { attempt }, isLive }: PartProps) {
  if (!connection.mayCommand || connection.link !== "live") return null;
  // With a key: a question about one codon is never answered for the next.
  if (isLive) return <div class="acts" key={attempt.began}><Actions connection={connection} of={[skip, stop]} isSmall /></div>;
  // Another attempt than the open one: the run can still be stopped, and is only rolled back while nothing runs.
  if (view.now) return <div class="acts"><Actions connection={connection} of={[stop]} isSmall /></div>;
  if (!attempt.checkpoint || hasEnded(view.state) || attempt.state !== "completed") return null;
  const later = places(view).filter(({ attempt: each }) => (each.began ?? "") > (attempt.ended ?? attempt.began ?? ""));
  const effect = `${later.length ? `Undoes ${plural(later.length, "later attempt")}. ` : ""}The files become those after this codon; those in the way are kept in a checkpoint first. What was spent stays counted.`;
  const preview = <RollbackPreview connection={connection} view={view} to={attempt.checkpoint} undone={later} />;
  return <div class="acts"><Actions connection={connection} of={[rollback(attempt.checkpoint, effect, preview)]} isSmall /></div>;
}

function Facts({ connection, view, place, isLive }: PartProps) {
  const { attempt } = place;
  const item = view.items![place.item]!;
  const from = attempt.seq ?? 0;
  const until = Math.min(Infinity, ...places(view).flatMap(({ attempt: { seq } }) => (seq !== undefined && seq > from ? [seq] : [])));
  const hasFiles = Object.values(view.files.newest ?? {}).some((file) => file.seq >= from && file.seq < until);
  const tokens = attempt.tokens ?? {};
  const loop = item.in ? view.items?.[item.in] : undefined;
  // A check follows the last attempt of an iteration.
  const [iteration, number] = place.key.split(".");
  const isFollowed = item.attempts?.[`${iteration}.${Number(number) + 1}`] !== undefined;
  const checks = isFollowed ? [] : [loop?.checks, item.checks].flatMap((all) => all?.[iteration!] ?? []);
  const rows = [["read", tokens.inputTokens], ["from cache", tokens.cacheReadTokens], ["to cache", tokens.cacheCreationTokens], ["written", tokens.outputTokens]] as const;
  const used = rows.filter(([, n]) => n);
  const agents = Object.entries((isLive && view.now?.agents) || {});
  // One that watched several codons stands with the one where it said something last.
  const sentinels = Object.entries(view.sentinels ?? {}).filter(([, each]) => each.seq >= from && each.seq < until);
  const sha = attempt.checkpoint;
  return (
    <div class="rail">
      {agents.length > 0 && <section><h3 class="h3">Sub-agents</h3><ul class="plain">{agents.map(([id, agent]) => <li key={id}><b>{agent.title}</b><br /><span class="dim">{agent.last}</span></li>)}</ul></section>}
      {attempt.checkpoint ? <ChangedFiles connection={connection} place={place} /> : hasFiles && <section><h3 class="h3">Written so far</h3><Files view={view} from={from} until={until} most={10} /></section>}
      {checks.length > 0 && (
        <section>
          <h3 class="h3">Checks {loop?.until && <small title={loop.until}>{loop.until}</small>}</h3>
          {checks.map((check) => <div class="ck"><Glyph of={check.passed ? "completed" : "unpassed"} size={13} /><span><b>{check.passed ? "passed" : "failed"}</b>{check.says && `: ${check.says}`}</span></div>)}
        </section>
      )}
      {sentinels.length > 0 && (
        <section id="sentinels">
          <h3 class="h3">Sentinels</h3>
          {sentinels.map(([id, each]) => <div class="ck" key={id}><Glyph of={each.state === "failed" ? "failed" : "sentinel"} size={13} /><span><b>{id}</b> <span class="dim">{each.state}{each.cost ? `, ${usd(each.cost)}` : ""}</span>{each.says && <><br />{each.says}</>}</span></div>)}
        </section>
      )}
      <section>
        <h3 class="h3">Used <small>{attempt.model ?? item.model ?? ""}</small></h3>
        <dl class="kv">
          {used.map(([name, n]) => <><dt>{name}</dt><dd>{count(n!)}</dd></>)}
          <dt>cost</dt><dd>{attempt.cost || attempt.atLeast ? cost(attempt.cost, attempt.atLeast) : "$0.00"}</dd>
          {attempt.sentinels ? <><dt>sentinels</dt><dd>{usd(attempt.sentinels)}</dd></> : null}
          {attempt.rigMs ? <><dt>rig</dt><dd>{took(attempt.rigMs)}</dd></> : null}
          {sha && <><dt>checkpoint</dt><dd class="mono">{sha.slice(0, 12)}</dd></>}
        </dl>
      </section>
    </div>
  );
}
