// The sentence, what comes next, and the figures.
import type { Connection } from "./connection";
import { inline } from "./markdown";
import { Fig, Meter, useSecond } from "./parts";
import { Glyph, type Shape } from "./shapes";
import { type View, coming, current, hasEnded, nameOf, places, workedInAll } from "./view";
import { clock, closed, count, local, seconds, took, usd } from "./words";

/** Returns the state that is shown: that of the run, unless nothing is known any more. */
export function shownState(connection: Connection): Shape {
  const { view, link } = connection;
  if (!view) return link === "lost" ? "lost" : "planned";
  if (link === "lost" && !hasEnded(view.state)) return "lost";
  // What it came to is taken back.
  if (view.rollback && hasEnded(view.state)) return "stopped";
  const isWaiting = view.state === "running" && !view.now && ["retry", "wait"].includes(view.activity?.kind ?? "");
  if (view.state === "idle" && view.problem) return "failed";
  return isWaiting ? "retry" : view.state;
}

/** Returns the sentence without a clock, for the title and for screen readers; `isShort` leaves out the cause, which stands below the heading. */
export function sentence(connection: Connection, isShort = false): string {
  const { view, link } = connection;
  if (!view) return link === "lost" ? "The run does not answer" : "Connecting";
  if (shownState(connection) === "lost") return "The run does not answer";
  if (view.state === "asking") {
    const codon = view.ask?.codon;
    const name = codon && nameOf(view, codon);
    const waitsFor = `Waits for ${connection.mayCommand ? "you" : "an approval"}`;
    return name ? `${waitsFor} before “${name}”` : waitsFor;
  }
  const failed = view.state === "idle" && view.problem && view.items?.[view.problem.item]?.name;
  return failed ? `Waits for ${connection.mayCommand ? "you" : "a command"}: “${failed}” failed` : local(isShort ? withoutCause(view) : view.headline);
}

/** Returns the headline without the cause. */
export function withoutCause({ headline, problem, items, cause }: View): string {
  const why = (problem && items?.[problem.item]?.attempts?.[problem.attempt]?.why?.message) ?? cause;
  // Either may be cut.
  const at = why ? headline.indexOf(`: ${why.slice(0, 24).replace(/…$/, "")}`) : -1;
  return at > 0 ? headline.slice(0, at) : headline;
}

/** Returns the name within the sentence that is set in bold. */
function emphasis(view: View, text: string): [string, string, string] {
  const item = view.now?.item ?? view.problem?.item;
  const name = item && view.items?.[item]?.name;
  const found = view.state === "running" && name ? name : (/^[A-Z][a-z]+(?: for (?:you|an approval|a command))?/.exec(text)?.[0] ?? "");
  const at = found ? text.indexOf(found) : -1;
  return at < 0 ? ["", "", text] : [text.slice(0, at), found, text.slice(at + found.length)];
}

function since(view: View): string | undefined {
  if (view.state === "running") return current(view)?.attempt.began ?? view.since;
  return view.state === "asking" || view.state === "idle" ? view.since : undefined;
}

function subline(connection: Connection): string {
  const { view, link } = connection;
  if (connection.isStranger && link !== "live") return "Another program answers at this address; it did not get the token. This page asks again every few seconds.";
  if (!view) return link === "lost" ? "It may have ended. This page asks again every few seconds." : "";
  if (link === "lost" && !hasEnded(view.state)) return `No answer since ${clock(connection.lostAt, true)}. Last known: ${local(view.headline)}. This page asks again every few seconds.`;
  const asked = view.state === "asking" && view.ask?.codon && nameOf(view, view.ask.codon);
  if (asked) return `Then ${asked}, once it is approved.`;
  if (view.state === "idle" && !view.problem) return coming(view).length ? `Then ${nameOf(view, coming(view)[0]!)}, once it is started.` : "";
  if (view.next) return closed(view.next);
  if (!hasEnded(view.state)) return "";
  const { completed, planned } = view.codons ?? { completed: 0, planned: 0 };
  return `${completed} of ${planned} ${planned === 1 ? "codon" : "codons"} completed. Files and checkpoints are kept.`;
}

export function Hero({ connection, view }: { connection: Connection; view: View | undefined }) {
  const state = shownState(connection);
  const isOpen = view !== undefined && !hasEnded(view.state) && state !== "lost";
  useSecond(isOpen);
  const text = sentence(connection, true);
  const [before, strong, after] = view && state !== "lost" ? emphasis(view, text) : ["", text, ""];
  const start = isOpen ? since(view) : undefined;
  const endedAt = view?.rollback?.at ?? view?.since;
  const ended = view && hasEnded(view.state) && endedAt ? `${/[.?!…]$/.test(text) ? " At" : ", at"} ${clock(Date.parse(endedAt))}` : "";
  return (
    <section class="hero" aria-label="At a glance">
      <div>
        {view && <Goal view={view} />}
        <h1>
          <Glyph of={state} size={22} />
          <span id="status">{before}<b>{strong}</b>{after}{start ? <span class="since">, for {seconds(Math.max(0, Math.floor((connection.now() - Date.parse(start)) / 1000)))}</span> : ended}</span>
        </h1>
        <p class="sub">{subline(connection)}</p>
      </div>
      {view && <Figures connection={connection} view={view} />}
    </section>
  );
}

/** What the run is for: the name of its hank, and its purpose. */
function Goal({ view: { hank, goal } }: { view: View }) {
  if (!hank && !goal) return null;
  const isSaid = goal && goal !== hank?.name;
  return <p class="goal" id="goal">{hank && <b>{hank.name}{isSaid && ":"}</b>} {isSaid && inline(goal)}</p>;
}

function Figures({ connection, view }: { connection: Connection; view: View }) {
  const { spent, before, limit, atLeast } = view.money;
  const counted = Math.max(0, spent - before);
  const part = limit ? (counted / limit) * 100 : 0;
  const first = places(view)[0]?.attempt.began ?? view.run?.began;
  const ended = hasEnded(view.state) && view.since ? Date.parse(view.since) : undefined;
  const until = ended ?? (connection.link === "lost" ? connection.lostAt : connection.now());
  const time = workedInAll(view, until);
  const context = view.now?.context;
  return (
    <dl class="figs">
      <Fig title="Spent" note={atLeast ? (view.now ? "an answer is open" : "a part is unknown") : before > 0 ? `${usd(spent)} with earlier runs` : limit !== undefined ? `${usd(Math.max(0, limit - counted))} left` : Object.keys(view.sentinels ?? {}).length ? "with sentinels" : "no limit"}>
        <span id="cost">{atLeast && !(limit ? counted : spent) ? "unknown" : <>{atLeast && <small>at least </small>}{usd(limit ? counted : spent)}</>}</span>
        {limit !== undefined && <small> of {usd(limit)}</small>}
        {limit !== undefined && <Meter part={part} isHot={part > 80} />}
      </Fig>
      {first && (
        <Fig title="Time at work" note={`${clock(Date.parse(first))} to ${ended === undefined && connection.link === "live" ? "now, " : ""}${clock(until)}`}>
          {time.isAtLeast && <small>at least </small>}{view.now ? seconds(Math.floor(time.ms / 1000)) : took(time.ms)}
          {view.timeLimitMs !== undefined && <small> of {seconds(view.timeLimitMs / 1000)}</small>}
        </Fig>
      )}
      {context && (
        <Fig title="Context" note={`${count(context.tokens)} of ${count(context.window)} tokens`}>
          {Math.round((context.tokens / context.window) * 100)} %
          <Meter part={(context.tokens / context.window) * 100} isHot={context.tokens / context.window > 0.8} />
        </Fig>
      )}
    </dl>
  );
}

