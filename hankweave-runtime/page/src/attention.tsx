// What a person has to do or to know: the question, the failure, the wait, or how the run ended.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Actions, answers, redo, start, stop, undo } from "./actions";
import { type Connection, hasReport, isFile } from "./connection";
import { inline } from "./markdown";
import { type Next, readNext } from "./next";
import { CommandLine, Meter, Path, useSecond, viewing } from "./parts";
import { RollbackPreview } from "./preview";
import { writeRoute } from "./route";
import { Glyph } from "./shapes";
import { type View, find, hasEnded, places } from "./view";
import { answerWords, bytes, clock, local, quoted, seconds, usd, visible } from "./words";

export function Attention({ connection, view }: { connection: Connection; view: View }) {
  const part = choose(connection, view);
  return (
    <>
      {part}
      {!connection.mayCommand && !["connecting", "file"].includes(connection.link) && !hasEnded(view.state) && (
        <p class="once"><Glyph of="sentinel" size={14} /><span>This address only watches. <code>hankweave page --control</code> prints the one that may also act.</span></p>
      )}
    </>
  );
}

function choose(connection: Connection, view: View) {
  if (view.rollback && hasEnded(view.state)) return <Ended connection={connection} view={view} />;
  if (view.ask && !hasEnded(view.state)) return <Question connection={connection} view={view} ask={view.ask} />;
  if (view.state === "failed" || view.state === "crashed") return <Failure connection={connection} view={view} />;
  if (view.state === "idle") return <Idle connection={connection} view={view} />;
  if (hasEnded(view.state)) return <Ended connection={connection} view={view} />;
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

/** Returns the address of what became of a file since the run started; an exported page only compares each attempt with its own start. */
function differenceOf(view: View, path: string, seq: number): string | undefined {
  const all = places(view).filter(({ attempt }) => attempt.checkpoint);
  const place = isFile ? all.findLast(({ attempt }) => (attempt.seq ?? 0) <= seq) : all.at(-1);
  return place && writeRoute({ item: place.item, key: place.key, changes: { path, from: isFile ? undefined : view.files.base } });
}

function Changed({ view }: { view: View }) {
  const n = Object.keys(view.files.newest ?? {}).length;
  if (!n) return null;
  return (
    <>
      <h3 class="h3">Changed since the run started <small>{view.files.more ? `${n} newest of at least ${n + view.files.more}` : n === 1 ? "1 file" : `${n} files`}</small></h3>
      <Files view={view} most={8} address={(path, seq) => differenceOf(view, path, seq)} />
    </>
  );
}

function Panel({ kind, label, main, children }: { kind: string; label: string; main: ComponentChildren; children?: ComponentChildren }) {
  return <section class={`ask ${kind}`} aria-label={label} id="attention"><div>{main}</div>{children && <div class="side">{children}</div>}</section>;
}

function Question({ connection, view, ask }: { connection: Connection; view: View; ask: NonNullable<View["ask"]> }) {
  const name = ask.codon && (view.items?.[ask.codon.replace(/#\d+$/, "")]?.name ?? ask.codon);
  const question = ask.codon && ask.question.startsWith(`${ask.codon} waits for an approval: `) ? ask.question.slice(ask.codon.length + 26) : ask.question;
  const main = (
    <>
      <h2>{question}</h2>
      <p class="by">{name ? <>The hank asks this before <b>{name}</b> starts. </> : null}Nothing runs and nothing is spent while it waits.</p>
      <Changed view={view} />
    </>
  );
  return (
    <Panel kind="wait" label="Approval" main={main}>
      {connection.mayCommand ? <Actions key={ask.codon} connection={connection} of={answers(ask.codon)} withField /> : <CommandLine line={`hankweave approve ${ask.codon ? `${quoted(ask.codon)} ` : ""}-e ${quoted(connection.folder || ".")}`} />}
    </Panel>
  );
}

/** Returns what is next in the words of `hankweave status`; what was read stays when the run has gone. */
function useNext(connection: Connection, view: View): Next | undefined {
  const [next, set] = useState<Next | undefined>();
  const { canAsk } = connection;
  useEffect(() => {
    if (!canAsk || !hasReport) return;
    let isShown = true;
    void connection.command("report.get").then((answer) => isShown && answer.ok && set(readNext(answer.data.markdown)));
    return () => void (isShown = false);
  }, [view.run?.id, view.seq, canAsk]);
  return next;
}

/** Returns those of the commands of `status` that are known without the command line of the run. */
function knownSteps(view: View, folder: string): [string, string][] {
  const asked = view.ask?.codon ?? (view.answered?.granted === false ? view.answered.codon : undefined);
  const approve: [string, string][] = asked && view.approved !== true && !view.rollback ? [[`hankweave approve ${quoted(asked)} -e ${folder}`, `lets ${asked} begin`]] : [];
  return [[`hankweave status -e ${folder}`, "lists the commands that continue it or start over"], ...approve, [`hankweave history -e ${folder}`, "lists the checkpoints to which a rollback goes back"]];
}

function NextSteps({ connection, view }: { connection: Connection; view: View }) {
  const next = useNext(connection, view);
  const { folder, isGone } = connection;
  const commands = next?.commands ?? knownSteps(view, quoted(folder || "."));
  return (
    <>
      <h2 class="h2">{["failed", "crashed"].includes(view.state) ? "What helps" : "What is next"}</h2>
      {next && <p class="by">{inline(next.outlook)}</p>}
      <ul class="steps" id="next-steps">
        {commands.map(([line, effect]) => <li><CommandLine line={line} /><span>{inline(effect)}</span></li>)}
        {isGone && <li><CommandLine line={viewing(folder)} /><span>serves this page again, at the same address</span></li>}
      </ul>
      {next && <p class="note">Type these where the run, or this page, was started.</p>}
    </>
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
      <h2>{view.state === "crashed" ? "The process of the run ended without a word" : name ? <>{name} failed</> : "The run failed"}</h2>
      {cause && <p class="cause">{cause}</p>}
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
  const main = isFailed ? <FailureCause view={view} /> : <><h2>Nothing runs until you start it</h2><p class="by">Nothing is spent while it waits.</p></>;
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

function Ended({ connection, view }: { connection: Connection; view: View }) {
  const words: Record<string, string> = { completed: "Every codon of the plan is completed", stopped: "It was stopped", paused: "It is paused", failed: "It failed", crashed: "It crashed" };
  const last = Object.values(view.commands ?? {}).at(-1);
  const { answered, rollback, run, money } = view;
  const ofRun = money.spent - (money.beforeRun ?? 0);
  const isCut = view.state !== "completed" && !rollback;
  const main = (
    <>
      <h2>{rollback ? local(view.headline) : words[view.state] ?? view.state}</h2>
      {rollback && <p class="by">{rollback.at && `At ${clock(Date.parse(rollback.at))}. `}The next run continues from there; what was undone stays paid.</p>}
      {view.cause && isCut && <p class="by">{local(view.cause)}</p>}
      {view.ask && isCut && <p class="by">It waits for an answer: {view.ask.question}</p>}
      {answered && !rollback && <p class="by">{view.items?.[answered.codon.replace(/#\d+$/, "")]?.name ?? answered.codon}: {answerWords(answered)}</p>}
      {last?.reason && isCut && !answered && <p class="by">Reason: {last.reason}</p>}
      <p class="by">{run && <>{run.number > 1 ? "The newest run, from " : "From "}{clock(Date.parse(run.began))}{view.since && ` to ${clock(Date.parse(view.since))}`}, cost {usd(ofRun)}{run.number > 1 && `; all runs ${money.atLeast || money.beforeAtLeast ? "at least " : ""}${usd(money.spent)}`}{money.limit !== undefined && `; of the budget of ${usd(money.limit)}, ${usd(Math.max(0, money.spent - money.before))} is used`}. </>}Nothing runs any more.</p>
      <Changed view={view} />
    </>
  );
  return <Panel kind="calm" label="How it ended" main={main}><NextSteps connection={connection} view={view} /></Panel>;
}
