// Small parts that several sections draw.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

/** A command line with a button that copies it. */
export function CommandLine({ line }: { line: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(line);
    setCopied(true);
  };
  return (
    <div class="cmd">
      <code>{line}</code>
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
