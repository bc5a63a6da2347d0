// Small parts that several sections draw.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { pasteToken } from "./connection";
import { Glyph } from "./shapes";
import { quoted } from "./words";

/** A command line with a button that copies it. */
export function CommandLine({ line }: { line: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(line);
    setCopied(true);
  };
  return (
    <div class="cmd">
      {/* A line breaks between its arguments. */}
      <code>{line.split(" ").map((part, i) => <>{i > 0 && " "}<span>{part}</span></>)}</code>
      {/* An address of `--listen` is no secure context and has no clipboard. */}
      {navigator.clipboard && <button type="button" onClick={copy}>{isCopied ? "Copied" : "Copy"}<span class="sr"> {line}</span></button>}
    </div>
  );
}

/** A time that counts on; it is not announced. */
export function useSecond(isTicking: boolean): void {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!isTicking) return;
    const timer = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, [isTicking]);
}

export function Choice<T extends string>({ label, of, chosen, choose }: { label: string; of: readonly T[]; chosen: T; choose: (to: T) => void }) {
  return (
    <div class="seg" role="group" aria-label={label}>
      {of.map((each) => <button type="button" aria-pressed={each === chosen} onClick={() => choose(each)}>{each}</button>)}
    </div>
  );
}

export function Path({ of }: { of: string }) {
  return <span class="pa" title={of}><bdi>{of}</bdi></span>;
}

export function Meter({ part, isHot }: { part: number; isHot?: boolean }) {
  return (
    <svg class={isHot ? "meter hot" : "meter"} aria-hidden="true">
      <rect class="all" width="100%" height="3" rx="1.5" />
      <rect class="part" width={`${Math.max(0, Math.min(100, part))}%`} height="3" rx="1.5" />
    </svg>
  );
}

export function Arrow() {
  return <svg class="ar" width="10" height="10" viewBox="0 0 10 10" aria-hidden="true"><path d="m3 1 4 4-4 4" fill="none" stroke="currentColor" stroke-width="1.4" /></svg>;
}

export function Fig({ title, children, note }: { title: string; children: ComponentChildren; note: ComponentChildren }) {
  return <div class="fig"><dt>{title}</dt><dd>{children}</dd><dd class="note">{note}</dd></div>;
}

/** The name of the program; on the page of a listed record it leads to the list. */
export function Mark({ isLink }: { isLink: boolean }) {
  const inner = (
    <>
      <svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true" fill="none" stroke="var(--accent)" stroke-width="2"><path d="M3 5c5 0 9 10 14 10M3 15c2.2 0 4-1.9 5.7-4.1M17 5c-2.2 0-4 1.9-5.7 4.1" /></svg>
      <span class="hid">hankweave</span>
    </>
  );
  return isLink ? <a class="mark" id="all" href="/" aria-label="hankweave: all runs">{inner}</a> : <span class="mark">{inner}</span>;
}

/** Says what serves the page again after the run has ended. */
export function Gone({ folder }: { folder: string }) {
  return (
    <div class="nothing gone">
      <p class="dim">The run has ended, and its page with it. This serves the page again, at this address.</p>
      <CommandLine line={viewing(folder)} />
    </div>
  );
}

export const viewing = (folder: string): string => `hankweave view ${quoted(folder || ".")}`;

/** Asks for the token that the address lacks, or for another one in place of a wrong one. */
export function NoToken({ isRefused }: { isRefused?: boolean }) {
  const [isWrong, setWrong] = useState(false);
  const paste = (event: InputEvent & { currentTarget: HTMLInputElement }) => {
    if (pasteToken(event.currentTarget.value)) location.reload();
    else setWrong(true);
  };
  return (
    <section class="hero">
      <div>
        <h1><Glyph of="lost" size={22} /><span id="status">{isRefused ? "The token is wrong or old" : "The address lacks the token"}</span></h1>
        {isRefused && <p class="sub">What answers at this address does not know the token of this page, and did not get it.</p>}
        <p class="sub"><code>hankweave page -e DIR</code> prints the whole address, for the directory of the run; <code>hankweave view DIR</code> serves runs that have ended.</p>
        <p class="sub"><label>Paste it here to stay at this place: <input type="password" id="paste" autocomplete="off" onInput={paste} /></label>{isWrong && <span role="alert"> There is no token in this.</span>}</p>
      </div>
    </section>
  );
}

/** The keys of a page, and what each does. */
export function Help({ keys, close }: { keys: [string, string][]; close: () => void }) {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => button.current?.focus(), []);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => event.key === "Escape" && close();
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  return (
    <section class="panel help" aria-label="Keys">
      <h2 class="h3">Keys</h2>
      <dl class="kv">{keys.map(([names, what]) => <><dt>{names.split(" ").map((key) => <kbd>{key}</kbd>)}</dt><dd>{what}</dd></>)}</dl>
      <button type="button" ref={button} class="btn small" onClick={close}>Close</button>
    </section>
  );
}
