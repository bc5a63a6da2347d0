// A codon before it starts: what it is to do, and what approving and denying do.
import { useEffect, useState } from "preact/hooks";
import { EFFECTS } from "./actions";
import type { Connection } from "./connection";
import { Markdown } from "./markdown";
import { Gone } from "./parts";
import { writePlan } from "./route";
import { Glyph } from "./shapes";
import { type View, coming, current, hasEnded, isAsked, isDenied, isOver, nameOf, titleOf } from "./view";
import { capital, count, excerpt, plural, usd } from "./words";

/** What the hank says of a codon: docs/protocol.md, "Codons before they start". */
interface Description {
  agent: string;
  prompt?: string;
  originalLength?: number;
  promptFiles?: string[];
  terms?: string[];
  changed?: boolean;
}

/** Returns the description of a codon, or why there is none; `undefined` until that is known. */
function useDescription(connection: Connection, run: string | undefined, codonId: string | undefined): Description | string | undefined {
  const [found, set] = useState<{ of: string; is: Description | string } | undefined>();
  const { canAsk } = connection;
  const of = `${run} ${codonId}`;
  useEffect(() => {
    if (!canAsk || codonId === undefined) return;
    let isShown = true;
    void connection.command("plan.codon", { codonId }).then((answer) => isShown && set({ of, is: answer.ok ? (answer.data as Description) : answer.message }));
    return () => void (isShown = false);
  }, [of, canAsk]);
  return found?.of === of ? found.is : undefined;
}

export function Planned({ connection, view, id }: { connection: Connection; view: View; id: string }) {
  const item = view.items![id]!;
  const described = useDescription(connection, view.run?.id, id);
  const known = typeof described === "object" ? described : undefined;
  const loop = item.in ? view.items?.[item.in] : undefined;
  const meta = ["planned, not started", known?.agent ?? item.model, `[${id}]`].filter(Boolean);
  return (
    <section aria-label="The codon" id="planned">
      <div class="chead" id="codon" tabIndex={-1}>
        <h2><Glyph of={isAsked(view, id) ? "asking" : "planned"} size={16} />{item.name}</h2>
        <p class="meta">{meta.join(" · ")}</p>
        {current(view) && <a class="follow" href="#/">Follow the newest codon</a>}
      </div>
      <p class="by why">{whenItStarts(view, id)}{loop && ` It is in the loop “${loop.name}”${loop.until ? `, which is repeated until ${loop.until} passes` : ""}${loop.most === undefined ? "" : `, at most ${loop.most === 1 ? "once" : `${loop.most} times`}`}.`}</p>
      {known?.changed && <p class="by">hank.json has changed since the run planned this codon; this is how it is written now.</p>}
      <div class="cod">
        <div class="rail">
          {item.asks && <Asks view={view} id={id} question={item.asks} />}
          {known?.terms?.length ? <section id="terms"><h3 class="h3">Terms</h3><ul class="plain">{known.terms.map((term) => <li key={term}>{capital(term)}</li>)}</ul></section> : null}
        </div>
        <div class="logbox prompt" id="prompt">
          <h3 class="h3">Prompt {known?.promptFiles?.length ? <small>{known.promptFiles.join(", ")}</small> : null}</h3>
          {known ? <PromptText of={known} /> : connection.isGone ? <Gone folder={connection.folder} /> : <p class="dim">{typeof described === "string" ? `What it is to do is not known here: ${described}` : connection.canAsk ? "Reading the hank…" : "There is no connection to the run."}</p>}
        </div>
      </div>
    </section>
  );
}

function PromptText({ of: { prompt, originalLength } }: { of: Description }) {
  if (prompt === undefined) return <p class="dim">Its files cannot be read now.</p>;
  return (
    <>
      <Markdown text={prompt} />
      {originalLength !== undefined && <p class="dim">Cut: {count(prompt.length)} of {count(originalLength)} characters.</p>}
    </>
  );
}

function whenItStarts(view: View, id: string): string {
  if (hasEnded(view.state)) return "It has not started, and nothing runs now.";
  if (isAsked(view, id)) return "It starts once it is approved.";
  const before = coming(view).indexOf(id);
  const newest = current(view);
  if (before < 0) return "It has not started.";
  const loop = newest && view.items?.[newest.item]?.in;
  const isAfterLoop = loop !== undefined && loop !== view.items?.[id]?.in && !isOver(view, view.items![loop]!);
  const after = before > 0 ? `after ${plural(before, "other codon")}` : isAfterLoop ? `once the loop “${nameOf(view, loop)}” has ended` : newest && view.now ? `after ${titleOf(view, newest.item, newest.key)}` : "next";
  return `It starts ${after}${view.items?.[id]?.asks ? ", if it is approved" : ""}.`;
}

/** The question before a codon, and what each answer does. */
function Asks({ view, id, question }: { view: View; id: string; question: string }) {
  return (
    <section id="asks">
      <h3 class="h3">{isDenied(view, id) ? "Denied" : "Asks first"}</h3>
      <p>{question}</p>
      <Effects view={view} id={id} />
    </section>
  );
}

/** What each answer to the question before a codon does. */
export function Effects({ view, id, isButton }: { view: View; id: string | undefined; isButton?: boolean }) {
  return (
    <dl class="effects">
      <dt>{isButton ? "Approve" : "If approved"}</dt><dd>{hasEnded(view.state) ? EFFECTS.approveLater : `${EFFECTS.approve} ${whatFollows(view, id)}`}</dd>
      <dt>{isButton ? "Deny" : "If denied"}</dt><dd>{EFFECTS.deny}</dd>
    </dl>
  );
}

/** Returns what a run does after a codon that was approved, as far as nobody is asked again, and what is left to spend. */
function whatFollows(view: View, id: string | undefined): string {
  const all = coming(view);
  const later = all.slice(all.indexOf(id ?? "") + 1);
  const asked = later.findIndex((each) => view.items?.[each]?.asks);
  const names = later.slice(0, asked < 0 ? MOST_NAMED : Math.min(asked, MOST_NAMED)).map((each) => `“${nameOf(view, each)}”`);
  const isCut = names.length < (asked < 0 ? later.length : asked);
  const { limit, spent, before } = view.money;
  const money = limit === undefined ? "" : ` The budget has ${usd(Math.max(0, limit - Math.max(0, spent - before)))} left.`;
  const next = asked >= 0 ? `the question before “${nameOf(view, later[asked]!)}”` : "the end of the run";
  return `${names.length ? `Then ${names.join(", ")}${isCut ? " and others follow" : ` ${names.length === 1 ? "follows" : "follow"}`}, until ${next}.` : `After it comes ${next}.`}${money}`;
}

/** Codons that a sentence about the effect of an answer names. */
const MOST_NAMED = 3;

/** Terms that are listed where a codon is to be approved. */
const MOST_TERMS = 8;

/** What starts when a question is approved. */
export function Approved({ connection, view, id }: { connection: Connection; view: View; id: string }) {
  const described = useDescription(connection, view.run?.id, id);
  if (!view.items?.[id]) return null;
  const known = typeof described === "object" ? described : undefined;
  return (
    <section class="approved" id="approved">
      <h3 class="h3">{isDenied(view, id) ? "What was denied" : "What is to be approved"} <small>{known?.agent}</small></h3>
      {known?.prompt && <p class="first">{excerpt(known.prompt)}</p>}
      {known?.terms?.length ? <ul class="plain">{known.terms.slice(0, MOST_TERMS).map((term) => <li key={term}>{capital(term).slice(0, 200)}</li>)}</ul> : null}
      <p><a id="in-full" href={writePlan(id)}>What {nameOf(view, id)} is to do, in full</a></p>
    </section>
  );
}
