// What a person has to do or to know: the question, the failure, the wait, or how the run ended.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Actions, EFFECTS, answers, redo, start, stop, undo } from "./actions";
import { type Connection, type NextSteps as Next, hasReport, isFile } from "./connection";
import { FileList, SINCE_START, useDifferences } from "./changes";
import { withoutCause } from "./hero";
import { Markdown, inline } from "./markdown";
import { CommandLine, Meter, Path, useSecond, viewing } from "./parts";
import { Approved, Effects } from "./planned";
import { RollbackPreview } from "./preview";
import { writeRoute } from "./route";
import { Glyph } from "./shapes";
import type { Transcript } from "./transcript";
import { type Place, type View, coming, configured, current, find, hasEnded, nameOf, places } from "./view";
import { answerWords, bytes, capital, clock, closed, local, plural, quoted, seconds, usd, visible } from "./words";

export function Attention({ connection, view, transcript }: { connection: Connection; view: View; transcript: Transcript }) {
  const part = choose(connection, view, transcript);
  return (
    <>
      {!connection.mayCommand && !["connecting", "file"].includes(connection.link) && !hasEnded(view.state) && (
        <p class="once"><Glyph of="sentinel" size={14} /><span>This address only watches. <code>hankweave page --control</code> prints the one that may also act.</span></p>
      )}
      {part}
    </>
  );
}

function choose(connection: Connection, view: View, transcript: Transcript) {
  if (connection.link === "lost" && !hasEnded(view.state)) return connection.isStranger ? null : <Lost connection={connection} />;
  if (view.rollback && hasEnded(view.state)) return <Ended {...{ connection, view, transcript }} />;
  if (view.ask && !hasEnded(view.state)) return <Question connection={connection} view={view} ask={view.ask} />;
  if (view.state === "failed" || view.state === "crashed") return <Failure connection={connection} view={view} />;
  if (view.state === "idle") return <Idle connection={connection} view={view} />;
  if (hasEnded(view.state)) return <Ended {...{ connection, view, transcript }} />;
  if (view.activity?.to && ["retry", "wait", "background"].includes(view.activity.kind)) return <Countdown connection={connection} view={view} activity={view.activity} />;
  return null;
}

/** Files that changed last, by path; `address` is that of their differences. */
export function Files({ view, from = 0, until = Infinity, most = 12, address }: { view: View; from?: number; until?: number; most?: number; address?: (path: string, seq: number) => string | undefined }) {
  const all = Object.entries(view.files.newest ?? {}).filter(([, file]) => file.seq >= from && file.seq < until);
  const files = all.sort(([, a], [, b]) => b.seq - a.seq);
  const more = files.length - most;
  const shown = files.slice(0, most).sort(([a], [b]) => (a < b ? -1 : 1));
  return (
    <ul class="files">
      {shown.map(([path, file]) => (
        <li key={path}>
          <span class="mk" aria-hidden="true">{{ created: "+", modified: "~", deleted: "−" }[file.as]}</span>
          <span class="sr">{file.as}: </span>
          <Linked to={address?.(visible(path), file.seq)}><Path of={visible(path)} /></Linked>
          <span class="dim">{file.as === "deleted" ? "deleted" : file.size === undefined ? "" : bytes(file.size)}</span>
        </li>
      ))}
      {more > 0 && <li class="dim">and {more} more</li>}
    </ul>
  );
}

function Linked({ to, children }: { to: string | undefined; children: ComponentChildren }) {
  return to === undefined ? <>{children}</> : <a href={to}>{children}</a>;
}

/** Attempt whose checkpoint is the newest. */
const newestKept = (view: View): Place | undefined => places(view).findLast(({ attempt }) => attempt.checkpoint);

/** What the runs have changed: the files at the newest checkpoint, compared with the beginning; where that is not known, those that were written. */
function Changed({ connection, view }: { connection: Connection; view: View }) {
  const { base, newest = {}, more } = view.files;
  const kept = newestKept(view);
  // An exported page only compares each attempt with its own start.
  const from = isFile ? undefined : base;
  const found = useDifferences(connection, from && kept?.attempt.checkpoint, from);
  const address = (place: Place, path: string) => writeRoute({ item: place.item, key: place.key, changes: { path, from } });
  if (kept && typeof found === "object") return <FileList title={SINCE_START} of={found} route={{}} address={({ path }) => address(kept, path!)} most={8} />;
  if (kept && from && found === undefined && connection.canAsk) return <p class="by dim">Comparing files…</p>;
  const n = Object.keys(newest).length;
  if (!n) return null;
  const writer = (seq: number) => (isFile ? places(view).findLast(({ attempt }) => attempt.checkpoint && (attempt.seq ?? 0) <= seq) : kept);
  return (
    <>
      <h3 class="h3">Written since the run started <small>{more ? `${n} newest of at least ${n + more}` : plural(n, "file")}</small></h3>
      <Files view={view} most={8} address={(path, seq) => { const place = writer(seq); return place && address(place, path); }} />
    </>
  );
}

/** Longest text of the agent that is shown as the outcome, in characters. */
const LONGEST_OUTCOME = 1_200;

/** What the last agent said last, as long as its transcript is the one that is read. */
function Outcome({ view, transcript }: { view: View; transcript: Transcript }) {
  const said = useRef<{ of: string; text: string } | undefined>(undefined);
  const newest = current(view);
  const of = `${view.run?.id} ${newest?.item}.${newest?.key}`;
  const isRead = newest && transcript.shows(view, newest);
  const last = isRead && transcript.moments.findLast((each) => each.kind === "text");
  if (last && last.kind === "text") said.current = { of, text: last.text };
  if (said.current?.of !== of || !newest) return null;
  const { text } = said.current;
  return (
    <div class="outcome">
      <h3 class="h3">What came out <small>as {nameOf(view, newest.item)} says</small></h3>
      <Markdown text={text.length > LONGEST_OUTCOME ? `${text.slice(0, LONGEST_OUTCOME)}…` : text} />
    </div>
  );
}

function Panel({ kind, label, main, children }: { kind: string; label: string; main: ComponentChildren; children?: ComponentChildren }) {
  return <section class={`ask ${kind}`} aria-label={label} id="attention"><div>{main}</div>{children && <div class="side">{children}</div>}</section>;
}

/** The newest result of the check that follows the newest attempt. */
function Checked({ view }: { view: View }) {
  const newest = current(view);
  const item = newest && view.items?.[newest.item];
  const loop = item?.in ? view.items?.[item.in] : undefined;
  const check = Object.values({ ...loop?.checks, ...item?.checks }).at(-1);
  if (!check) return null;
  return <p class="ck one"><Glyph of={check.passed ? "completed" : "unpassed"} size={13} /><span><b>check of {nameOf(view, newest!.item)} {check.passed ? "passed" : "failed"}</b> {check.says} {loop?.until && <code class="dim" title={loop.until}>{loop.until}</code>}</span></p>;
}

function Question({ connection, view, ask }: { connection: Connection; view: View; ask: NonNullable<View["ask"]> }) {
  const name = ask.codon && nameOf(view, ask.codon);
  const question = ask.codon && ask.question.startsWith(`${ask.codon} waits for an approval: `) ? ask.question.slice(ask.codon.length + 26) : ask.question;
  const main = (
    <>
      <h2>{question}</h2>
      <p class="by">{name ? <>The hank asks this before <b>{name}</b> starts. </> : null}Nothing runs and nothing is spent while it waits.</p>
      {ask.codon && <Approved connection={connection} view={view} id={configured(ask.codon)} />}
      <Checked view={view} />
      <Changed connection={connection} view={view} />
    </>
  );
  return (
    <Panel kind="wait" label="Approval" main={main}>
      <Effects view={view} id={ask.codon && configured(ask.codon)} isButton={connection.mayCommand} />
      {connection.mayCommand ? <Actions key={ask.codon} connection={connection} of={answers(ask.codon)} withField /> : <><CommandLine line={`hankweave approve ${ask.codon ? `${quoted(ask.codon)} ` : ""}-e ${quoted(connection.folder || ".")}`} /><p class="note">Approves; with <code>--deny</code>, denies. Whoever can type on the machine of the run may answer, and whoever has the address that may act.</p></>}
    </Panel>
  );
}

/** Returns what is next in the words of `hankweave status`; what was read stays when the run has gone. */
function useNext(connection: Connection, view: View): Next | undefined {
  const { canAsk, report } = connection;
  useEffect(() => {
    if (canAsk && hasReport) void connection.command("report.get");
  }, [view.run?.id, view.seq, canAsk]);
  return report?.next;
}

/** The command that lists those of `status`, where the page does not have them. */
const statusStep = (folder: string, effect: string): [string, string] => [`hankweave status -e ${quoted(folder || ".")}`, effect];

function Steps({ of, viewed }: { of: [string, string][]; viewed?: [string, string] }) {
  return (
    <ul class="steps" id="next-steps">
      {(viewed ? [...of, viewed] : of).map(([line, effect]) => <li key={line}><CommandLine line={line} /><span>{inline(effect)}</span></li>)}
    </ul>
  );
}

/** Returns a clause of `status` as a sentence; an id with which it begins stays as it is. */
const sentenceOf = (view: View, clause: string): string => (view.items?.[/^[^\s#:]+/.exec(clause)?.[0] ?? ""] ? clause : capital(clause));

function NextSteps({ connection, view }: { connection: Connection; view: View }) {
  const next = useNext(connection, view);
  const { folder, isGone } = connection;
  const commands = next?.commands.map(({ command, effect }): [string, string] => [command, effect]) ?? [statusStep(folder, "lists the commands that continue it or start over")];
  return (
    <>
      <h2 class="h2">{["failed", "crashed"].includes(view.state) ? "What helps" : "What is next"}</h2>
      {next?.outlook && <p class="by">{closed(sentenceOf(view, next.outlook))}</p>}
      <Steps of={commands} viewed={isGone ? [viewing(folder), "serves this page again, at the same address"] : undefined} />
      {next && <p class="note">Type these on the machine of the run.</p>}
    </>
  );
}

/** What helps while nothing answers: the run may have been killed, suspended or cut off from this page. */
function Lost({ connection: { folder } }: { connection: Connection }) {
  const main = <><h2>Whether it still runs is not known</h2><p class="by">The process may have been killed or suspended, or this page is cut off from it. What is recorded is kept.</p></>;
  return (
    <Panel kind="calm" label="No answer" main={main}>
      <h2 class="h2">What helps</h2>
      <Steps of={[statusStep(folder, "says whether it still runs, and lists the commands that continue it")]} viewed={[viewing(folder), "serves what is recorded, at the same address, where nothing runs any more"]} />
    </Panel>
  );
}

function FailureCause({ view }: { view: View }) {
  const { problem } = view;
  const attempt = problem && find(view, problem.item, problem.attempt)?.attempt;
  const name = problem && view.items?.[problem.item]?.name;
  const tail = Object.entries(problem?.tail ?? {});
  const cause = attempt?.why?.message ?? view.cause;
  return (
    <>
      <h2>{view.state === "crashed" ? "The process of the run crashed or was killed" : cause ? inline(closed(capital(local(cause)))) : `${name ?? "The run"} failed`}</h2>
      {cause && view.state === "crashed" && <p class="cause">{cause}</p>}
      <p class="by">{attempt?.why ? (attempt.why.retriable ? "Another attempt may help. " : "Another attempt will hardly help by itself. ") : ""}Files and everything before it are kept.</p>
      {tail.length > 0 && (
        <div class="tail">
          <h3>The end of its log</h3>
          <pre tabIndex={0} aria-label="The end of its log">{tail.map(([seq, line]) => <span key={seq} class={/^error|failed/.test(line) ? "badc" : undefined}>{line}{"\n"}</span>)}</pre>
        </div>
      )}
    </>
  );
}

function Failure({ connection, view }: { connection: Connection; view: View }) {
  return <Panel kind="bad" label="Failure" main={<FailureCause view={view} />}><NextSteps connection={connection} view={view} /></Panel>;
}

function Idle({ connection, view }: { connection: Connection; view: View }) {
  const isFailed = view.problem !== undefined;
  const [next] = coming(view);
  const main = isFailed ? <FailureCause view={view} /> : <><h2>Nothing runs until {connection.mayCommand ? "you start it" : "a command starts it"}</h2><p class="by">{next && <>Next is <b>{nameOf(view, next)}</b>. </>}Nothing is spent while it waits.</p></>;
  const hasRun = Object.values(view.items ?? {}).some((item) => Object.keys(item.attempts ?? {}).length);
  const back = view.undo;
  const preview = back && <RollbackPreview connection={connection} view={view} to={back.to} from={back.from} undone={[]} />;
  const undoing = back ? [undo(back.operation, preview)] : [];
  const actions = isFailed ? [{ ...redo, isPrimary: true }, ...undoing, stop] : [start, ...(hasRun ? [redo] : []), ...undoing, stop];
  return (
    <Panel kind={isFailed ? "bad" : "calm"} label={isFailed ? "Failure" : "Waits for a command"} main={main}>
      {connection.mayCommand ? <Actions connection={connection} of={actions} /> : <CommandLine line={`hankweave ${isFailed ? "status" : "next"} -e ${quoted(connection.folder || ".")}`} />}
    </Panel>
  );
}

function Countdown({ connection, view, activity }: { connection: Connection; view: View; activity: NonNullable<View["activity"]> }) {
  useSecond(true);
  const [from, to] = [Date.parse(activity.since), Date.parse(activity.to!)];
  const left = Math.max(0, Math.ceil((to - connection.now()) / 1000));
  const isBackground = activity.kind === "background";
  const main = (
    <>
      <p class="count" role="timer" aria-label="Time left">{left ? seconds(left) : "any moment"}</p>
      {isBackground ? <p class="by">at most, for background work: <b>{activity.subject ?? "what the agent left running"}</b>. The agent continues when it has ended; what still runs after that time is ended.</p> : <p class="by">until it continues by itself{activity.subject ? <>, after <b>{local(activity.subject)}</b></> : null}{activity.total ? ` (retry ${activity.done ?? 1} of ${activity.total})` : ""}. Nothing is spent meanwhile.</p>}
      <div class="span"><Meter part={((connection.now() - from) / Math.max(1, to - from)) * 100} /><p class="note"><span>{clock(from)}</span><span>{clock(to)}</span></p></div>
    </>
  );
  // The commands of the codon are in its own head while it is open.
  const act = view.now ? [] : [start, stop];
  return <Panel kind="calm" label="Waits" main={main}>{connection.mayCommand && act.length > 0 && <Actions connection={connection} of={act} />}</Panel>;
}

function Ended({ connection, view, transcript }: { connection: Connection; view: View; transcript: Transcript }) {
  const isWhole = !view.codons || view.codons.completed === view.codons.planned;
  const words: Record<string, string> = { completed: `Every codon of the plan ${isWhole ? "is completed" : "has ended"}`, stopped: "It was stopped", paused: "It is paused", failed: "It failed", crashed: "It crashed" };
  const last = Object.values(view.commands ?? {}).at(-1);
  const { answered, rollback, run, money } = view;
  const ofRun = money.spent - (money.beforeRun ?? 0);
  const attempts = Object.values(view.items ?? {}).flatMap((item) => Object.values(item.attempts ?? {}));
  const isAtLeast = attempts.some((attempt) => attempt.atLeast && run && (attempt.began ?? "") >= run.began);
  const isCut = view.state !== "completed" && !rollback;
  const question = isCut ? connection.report?.next?.question : undefined;
  const main = (
    <>
      <h2>{question ? question.question : rollback ? local(view.headline) : words[view.state] ?? view.state}</h2>
      {question && <p class="by">The hank asks this before <b>{nameOf(view, question.codonId ?? "the next codon")}</b> starts.</p>}
      {answered && !rollback && <p class="by" id="answered">{nameOf(view, answered.codon)}: {closed(answerWords(answered))}{!answered.granted && ` ${EFFECTS.denied}`}</p>}
      {question?.codonId && <Approved connection={connection} view={view} id={configured(question.codonId)} />}
      {question?.codonId && !answered && <Effects view={view} id={configured(question.codonId)} />}
      {rollback && <p class="by">{rollback.at && `At ${clock(Date.parse(rollback.at))}. `}The next run continues from there; what was undone stays paid.</p>}
      {view.cause && isCut && !question && !withoutCause(view).toLowerCase().endsWith(view.cause.toLowerCase()) && <p class="by">{closed(capital(local(view.cause)))}</p>}
      {view.ask && isCut && !question && <p class="by">It waits for an answer: {view.ask.question}</p>}
      {last?.reason && isCut && !answered && <p class="by">Reason: {last.reason}</p>}
      <p class="by">{run && <>{run.number > 1 ? "The newest run, from " : "From "}{clock(Date.parse(run.began))}{view.since && ` to ${clock(Date.parse(view.since))}`}, cost {isAtLeast ? "at least " : ""}{usd(ofRun)}{run.number > 1 && `; all runs ${money.atLeast || money.beforeAtLeast ? "at least " : ""}${usd(money.spent)}`}{money.limit !== undefined && `; of the budget of ${usd(money.limit)}, ${money.atLeast ? "at least " : ""}${usd(Math.max(0, money.spent - money.before))} is used`}. </>}Nothing runs any more.</p>
      {view.state === "completed" && <Outcome view={view} transcript={transcript} />}
      <Changed connection={connection} view={view} />
    </>
  );
  return <Panel kind="calm" label="How it ended" main={main}><NextSteps connection={connection} view={view} /></Panel>;
}
