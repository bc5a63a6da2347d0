// What a person has to do or to know: the question, the failure, the wait, or how the run ended.
import type { ComponentChildren } from "preact";
import { Actions, answers, redo, start, stop } from "./actions";
import type { Connection } from "./connection";
import { CommandLine, Meter, Path, useSecond } from "./parts";
import { Glyph } from "./shapes";
import { type View, find, hasEnded } from "./view";
import { bytes, clock, local, quoted, seconds, usd, visible } from "./words";

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
  if (view.ask) return <Question connection={connection} view={view} ask={view.ask} />;
  if (view.state === "failed" || view.state === "crashed") return <Failure connection={connection} view={view} />;
  if (view.state === "idle") return <Idle connection={connection} view={view} />;
  if (hasEnded(view.state)) return <Ended connection={connection} view={view} />;
  if (view.activity?.to && ["retry", "wait", "background"].includes(view.activity.kind)) return <Countdown connection={connection} view={view} activity={view.activity} />;
  return null;
}

/** Files that changed last, the newest first. */
export function Files({ view, from = 0, until = Infinity, most = 12 }: { view: View; from?: number; until?: number; most?: number }) {
  const all = Object.entries(view.files.newest ?? {}).filter(([, file]) => file.seq >= from && file.seq < until);
  const files = all.sort(([, a], [, b]) => b.seq - a.seq);
  const more = files.length - most;
  return (
    <ul class="files">
      {files.slice(0, most).map(([path, file]) => (
        <li key={path}>
          <span class="mk" aria-hidden="true">{{ created: "+", modified: "~", deleted: "−" }[file.as]}</span>
          <span class="sr">{file.as}: </span>
          <Path of={visible(path)} />
          <span class="dim">{file.as === "deleted" ? "deleted" : file.size === undefined ? "" : bytes(file.size)}</span>
        </li>
      ))}
      {more > 0 && <li class="dim">and {more} more</li>}
    </ul>
  );
}

function Changed({ view }: { view: View }) {
  const n = Object.keys(view.files.newest ?? {}).length;
  if (!n) return null;
  return (
    <>
      <h3 class="h3">Changed since the run started <small>{view.files.more ? `${n} newest of at least ${n + view.files.more}` : n === 1 ? "1 file" : `${n} files`}</small></h3>
      <Files view={view} most={8} />
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
      {connection.mayCommand ? <Actions key={ask.codon} connection={connection} of={answers(ask.codon)} withField /> : <CommandLine line={`hankweave approve ${ask.codon ? `${quoted(ask.codon)} ` : ""}${quoted(connection.folder || ".")}`} />}
    </Panel>
  );
}

/** Commands that continue the run, with what they do. */
function nextSteps(connection: Connection, view: View): [string, string][] {
  const folder = quoted(connection.folder || ".");
  const all: [string, string] = ["Prints these commands with the options of this run.", `hankweave status ${folder}`];
  const asked = view.interruptedBy === "approval" ? Object.values(view.waits ?? {}).filter((wait) => wait.kind === "approval").at(-1)?.item : undefined;
  if (view.state === "completed") return [["Shows what the run changed.", `hankweave diff ${folder}`], ["Undoes the run; the files as they are now are kept in a checkpoint.", `hankweave undo ${folder}`]];
  if (view.interruptedBy === "approval") return [["Lets the codon start, and continues.", `hankweave approve ${asked ? `${quoted(asked)} ` : ""}${folder} && hankweave run`], all];
  if (view.interruptedBy === "ceiling") return [["Continues with a higher limit.", `hankweave run --max-cost ${Math.ceil((view.money.limit ?? 1) * 2)}`], all];
  if (view.interruptedBy === "stuck") return [["Continues the loop with one more iteration, once you have changed what it is stuck on.", "hankweave run"], ["Shows what the run changed.", `hankweave diff ${folder}`], all];
  if (view.interruptedBy === "disk") return [["Removes the logs and checkpoints of old runs.", `hankweave cleanup --keep 1 ${folder}`], ["Continues, once there is room or maxDiskGb is higher.", "hankweave run"], all];
  if (view.state === "crashed") return [["Continues after what the crash left.", "hankweave run"], all];
  if (view.state === "failed") return [["Runs the failed codon again; everything before it stays.", "hankweave run"], ["Shows the whole log.", `hankweave logs ${folder}`], all];
  return [["Continues where it stopped.", "hankweave run"], all];
}

function NextSteps({ connection, view }: { connection: Connection; view: View }) {
  return (
    <>
      <h2 class="h2">{["failed", "crashed"].includes(view.state) ? "What helps" : "Continue from here"}</h2>
      <ol class="steps">{nextSteps(connection, view).map(([what, line]) => <li><span>{what}</span><CommandLine line={line} /></li>)}</ol>
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
  const actions = isFailed ? [{ ...redo, isPrimary: true }, stop] : [start, ...(hasRun ? [redo] : []), stop];
  return (
    <Panel kind={isFailed ? "bad" : "calm"} label={isFailed ? "Failure" : "Waits for a command"} main={main}>
      {connection.mayCommand ? <Actions connection={connection} of={actions} /> : <CommandLine line={`hankweave ${isFailed ? "status" : "next"} ${quoted(connection.folder || ".")}`} />}
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
  const words: Record<string, string> = { completed: "Every codon of the plan is completed", stopped: "It was stopped", paused: "It is paused" };
  const last = Object.values(view.commands ?? {}).at(-1);
  const main = (
    <>
      <h2>{words[view.state] ?? view.state}</h2>
      {view.cause && view.state !== "completed" && <p class="by">{local(view.cause)}</p>}
      {last?.reason && view.state !== "completed" && <p class="by">Reason: {last.reason}</p>}
      <p class="by">{view.run && <>From {clock(Date.parse(view.run.began))}{view.since && ` to ${clock(Date.parse(view.since))}`}, {view.money.atLeast ? "at least " : ""}{usd(view.money.spent)}{view.money.limit !== undefined && ` of ${usd(view.money.limit)}`}. </>}Nothing runs any more.</p>
      <Changed view={view} />
    </>
  );
  return <Panel kind="calm" label="How it ended" main={main}><NextSteps connection={connection} view={view} /></Panel>;
}
