// Commands of the page: each asks once in its place and shows the command line that does the same.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Connection } from "./connection";
import { CommandLine } from "./parts";
import { quoted } from "./words";

export interface Action {
  /** Id of its button, and the key that opens its question. */
  id: string;
  key?: string;
  label: string;
  /** What happens, and what does not. */
  effect: string;
  command: string;
  data?: (reason: string) => object;
  /** Command line that does the same; `reason` is empty where none was given. */
  line?: (folder: string, reason: string) => string;
  takesReason?: boolean;
  isPrimary?: boolean;
  /** Takes something away: its question begins at the button back. */
  isDangerous?: boolean;
  /** What it would change, read when the question is opened. */
  preview?: ComponentChildren;
}

const withReason = (reason: string) => (reason ? { reason } : {});
const option = (reason: string) => (reason ? ` --reason ${quoted(reason)}` : "");

/** What each answer to a question does. */
export const EFFECTS = {
  approve: "The codon starts at once.",
  approveLater: "The next run starts the codon, and does not ask again.",
  deny: "The run ends before the codon. Files, checkpoints and what was done stay. Later runs do not get past it until it is approved after all.",
  denied: "The run ended before it. What was done before is kept, and later runs do not get past it until it is approved after all.",
};

export function answers(codon: string | undefined): Action[] {
  const id = codon ? quoted(codon) : "";
  const data = (reason: string) => ({ ...(codon ? { codonId: codon } : {}), ...withReason(reason) });
  return [
    { id: "approve", key: "a", label: "Approve", effect: EFFECTS.approve, command: "codon.approve", data, isPrimary: true, takesReason: true,
      line: (folder, reason) => `hankweave approve ${id} -e ${folder}${option(reason)}`.replace(/ +/g, " ") },
    { id: "deny", key: "d", label: "Deny", effect: EFFECTS.deny, command: "codon.deny", data, takesReason: true, isDangerous: true,
      line: (folder, reason) => `hankweave approve ${id} -e ${folder} --deny${option(reason)}`.replace(/ +/g, " ") },
  ];
}

export const skip: Action = { id: "skip", key: "s", label: "Skip", effect: "The agent is stopped, the codon counts as skipped, and the next one starts. Its files stay.", command: "codon.skip", isDangerous: true, line: (folder) => `hankweave skip -e ${folder}` };
export const redo: Action = { id: "redo", key: "r", label: "Redo", effect: "The newest codon runs again with the files as they are. What was spent stays counted.", command: "codon.redo", line: (folder) => `hankweave redo -e ${folder}` };
export const start: Action = { id: "next", key: "c", label: "Start the next codon", effect: "The next codon of the plan starts.", command: "codon.next", isPrimary: true, line: (folder) => `hankweave next -e ${folder}` };
export const stop: Action = { id: "stop", key: "x", label: "Stop", effect: "The run stops in order; the next hankweave run continues it.", command: "server.shutdown", takesReason: true, isDangerous: true, data: withReason,
  line: (folder, reason) => `hankweave stop -e ${folder}${option(reason)}` };

export function rollback(sha: string, effect: string, preview: ComponentChildren): Action {
  return { id: "rollback", key: "b", label: "Roll back to here", effect, preview, isDangerous: true, command: "rollback.toCheckpoint", data: () => ({ checkpointSha: sha, autoRestart: false }),
    line: (folder) => `hankweave rollback --to ${sha.slice(0, 12)} -e ${folder}` };
}

export function undo(operation: string, preview: ComponentChildren): Action {
  return { id: "undo", key: "u", label: "Undo the rollback", effect: "The files and the position become those before the rollback; files in the way are kept in a checkpoint first.", preview, command: "rollback.undo",
    data: () => ({ operation, autoRestart: false }), line: (folder) => `hankweave undo -e ${folder}` };
}

type Status = { is: "asked" } | { is: "sent" } | { is: "refused"; message: string; hint?: string };

/** Buttons, and the question of the one that was pressed. */
export function Actions({ connection, of, isSmall, withField }: { connection: Connection; of: Action[]; isSmall?: boolean; withField?: boolean }) {
  const [chosen, choose] = useState<Action | undefined>();
  const [status, setStatus] = useState<Status>({ is: "asked" });
  const [reason, setReason] = useState("");
  const [sure, harmless] = [useRef<HTMLButtonElement>(null), useRef<HTMLButtonElement>(null)];
  const why = useRef<HTMLTextAreaElement>(null);
  const opener = useRef<HTMLElement | null>(null);
  const isByKey = useRef(false);
  const action = of.find((each) => each.id === chosen?.id);
  useEffect(() => {
    if (!action) return;
    // Who types a reason at once must not press a button with it; a phone would show its keyboard over the question.
    if (isByKey.current && action.takesReason) why.current?.focus();
    else (action.isDangerous ? harmless : sure).current?.focus();
  }, [action?.id]);
  // A question whose command is no longer possible does not come back with it.
  if (chosen && !action) choose(undefined);

  const open = (each: Action) => (event: Event) => {
    opener.current = event.currentTarget as HTMLElement;
    isByKey.current = (event as MouseEvent).detail === 0;
    setStatus({ is: "asked" });
    choose(each);
  };
  const back = () => {
    choose(undefined);
    setTimeout(() => document.getElementById(opener.current?.id ?? "")?.focus());
  };
  const send = async (each: Action) => {
    setStatus({ is: "sent" });
    const answer = await connection.command(each.command, each.data?.(reason) ?? {});
    if (answer.ok) choose(undefined);
    else setStatus({ is: "refused", message: answer.message, hint: answer.hint });
  };
  const folder = quoted(connection.folder || ".");
  const entered = (event: KeyboardEvent, each: Action) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (each.isDangerous) sure.current?.focus();
    else void send(each);
  };
  const field = (each: Action | undefined) => (
    <label>Reason, which is recorded
      <textarea name="reason" ref={why} onKeyDown={(event) => each && entered(event, each)} maxLength={900} placeholder="Optional" value={reason} disabled={each !== undefined && status.is === "sent"} onInput={(event) => setReason(event.currentTarget.value)} />
    </label>
  );
  if (!action) {
    return (
      <div class="do">
        {withField && field(undefined)}
        <div class="btns">
          {of.map((each) => (
            <button type="button" id={each.id} class={`btn${each.isPrimary ? " pri" : ""}${isSmall ? " small" : ""}`} onClick={open(each)} aria-keyshortcuts={each.key}>
              {each.label}{each.key && <kbd aria-hidden="true">{each.key}</kbd>}
            </button>
          ))}
        </div>
      </div>
    );
  }
  const line = action.line?.(folder, action.takesReason ? reason : "");
  return (
    <div class="do question" role="group" aria-label={`${action.label}?`} onKeyDown={(event) => event.key === "Escape" && back()}>
      {action.takesReason && field(action)}
      <p class="note">{action.effect}</p>
      {action.preview}
      {line && <CommandLine line={line} />}
      {status.is === "refused" && <p class="cause" role="alert">{status.message}{status.hint && `; ${status.hint}`}</p>}
      <div class="btns">
        <button type="button" id="sure" ref={sure} class={action.isDangerous ? "btn danger" : "btn pri"} disabled={status.is === "sent"} onClick={() => send(action)}>{status.is === "sent" ? "Sent…" : `Yes, ${action.label.toLowerCase()}`}</button>
        <button type="button" id="back" ref={harmless} class="btn" onClick={back}>Back</button>
      </div>
    </div>
  );
}
