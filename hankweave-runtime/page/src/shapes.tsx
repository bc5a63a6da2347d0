// States as shape, word and, only then, colour.
import { type Attempt, type AttemptState, type RunState, type View, isUnpassed } from "./view";

export type Shape = RunState | AttemptState | "unpassed" | "loop" | "retry" | "sentinel" | "lost";

const shapes: Record<string, preact.JSX.Element> = {
  planned: <circle cx="8" cy="8" r="5" fill="none" stroke="var(--ink3)" stroke-width="1.4" stroke-dasharray="2.2 2" />,
  running: <><circle class="pulse" cx="8" cy="8" r="7" fill="var(--accent)" /><path d="M6.3 4.9v6.2L11.2 8z" fill="var(--on-accent)" /></>,
  asking: <><path d="M8 .8 15.2 8 8 15.2.8 8z" fill="var(--warn)" /><path d="M6.3 6.6a1.7 1.7 0 1 1 2.5 1.5c-.6.3-.8.6-.8 1.1M8 11.2v.1" stroke="var(--surface)" stroke-width="1.5" fill="none" stroke-linecap="round" /></>,
  paused: <><circle cx="8" cy="8" r="7" fill="var(--ink2)" /><path d="M6.2 5.2v5.6M9.8 5.2v5.6" stroke="var(--surface)" stroke-width="1.8" stroke-linecap="round" /></>,
  retry: <><circle cx="8" cy="8" r="6.2" fill="none" stroke="var(--ink2)" stroke-width="1.5" /><path d="M8 4.6V8l2.3 1.5" fill="none" stroke="var(--ink2)" stroke-width="1.5" stroke-linecap="round" /></>,
  completed: <path d="m3 8.6 3.2 3.2L13 4.6" fill="none" stroke="var(--ink)" stroke-width="1.9" stroke-linecap="round" stroke-linejoin="round" />,
  failed: <><path d="M5 1h6l4 4v6l-4 4H5l-4-4V5z" fill="var(--bad)" /><path d="m5.5 5.5 5 5m0-5-5 5" stroke="var(--surface)" stroke-width="1.7" stroke-linecap="round" /></>,
  unpassed: <><circle cx="8" cy="8" r="6.2" fill="none" stroke="var(--bad)" stroke-width="1.6" /><path d="m5.8 5.8 4.4 4.4m0-4.4-4.4 4.4" stroke="var(--bad)" stroke-width="1.6" stroke-linecap="round" /></>,
  stopped: <rect x="2.5" y="2.5" width="11" height="11" rx="2" fill="var(--ink2)" />,
  skipped: <path d="m3 4 4 4-4 4m6-8 4 4-4 4" fill="none" stroke="var(--ink2)" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" />,
  loop: <path d="M12.8 6A5.2 5.2 0 1 0 13 9.4M13.4 2.6v3.6H9.8" fill="none" stroke="var(--ink2)" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" />,
  sentinel: <path d="M8 2 14 8 8 14 2 8z" fill="none" stroke="var(--ink2)" stroke-width="1.5" />,
  lost: <path d="M2 2l12 12M8 12.6v.1M5.2 9.9a4 4 0 0 1 2-1M3 7.4a7.5 7.5 0 0 1 2-1.3M8 5c2 0 3.7.8 5 2.4" fill="none" stroke="var(--ink2)" stroke-width="1.6" stroke-linecap="round" />,
};
shapes.idle = shapes.retry!;
shapes.unknown = shapes.lost!;
shapes.crashed = shapes.failed!;
shapes.restarted = shapes.loop!;
shapes.replaced = shapes.loop!;

export function Glyph({ of, size = 16 }: { of: Shape; size?: number }) {
  return <svg class="g" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">{shapes[of]}</svg>;
}

const TITLES: Record<string, string> = { running: "▶", asking: "?", idle: "…", retry: "…", planned: "…", paused: "‖", completed: "✓", failed: "✗", crashed: "✗", stopped: "■", lost: "∅" };

export const titleMark = (of: Shape): string => TITLES[of] ?? "";

// The icon of a tab has no style sheet, so its paths carry their colours.
const ICONS: Record<string, string> = {
  running: '<circle cx="8" cy="8" r="7" fill="#0f8a86"/><path d="M6.3 4.9v6.2L11.2 8z" fill="#fff"/>',
  asking: '<path d="M8 .5 15.5 8 8 15.5.5 8z" fill="#c77700"/><path d="M6.3 6.6a1.7 1.7 0 1 1 2.5 1.5c-.6.3-.8.6-.8 1.1M8 11.2v.1" stroke="#fff" stroke-width="1.6" fill="none" stroke-linecap="round"/>',
  paused: '<circle cx="8" cy="8" r="7" fill="#808689"/><path d="M6.2 5.2v5.6M9.8 5.2v5.6" stroke="#fff" stroke-width="1.8" stroke-linecap="round"/>',
  completed: '<circle cx="8" cy="8" r="7" fill="#808689"/><path d="m4.6 8.4 2.4 2.3 4.4-5" fill="none" stroke="#fff" stroke-width="1.8" stroke-linecap="round"/>',
  failed: '<path d="M5 1h6l4 4v6l-4 4H5l-4-4V5z" fill="#d2362b"/><path d="m5.5 5.5 5 5m0-5-5 5" stroke="#fff" stroke-width="1.7" stroke-linecap="round"/>',
  stopped: '<rect x="2" y="2" width="12" height="12" rx="2" fill="#808689"/>',
  planned: '<circle cx="8" cy="8" r="6" fill="none" stroke="#808689" stroke-width="2" stroke-dasharray="2.6 2.2"/>',
  idle: '<circle cx="8" cy="8" r="6.2" fill="none" stroke="#808689" stroke-width="2"/><path d="M8 4.6V8l2.3 1.5" fill="none" stroke="#808689" stroke-width="1.8" stroke-linecap="round"/>',
};
ICONS.crashed = ICONS.failed!;
ICONS.retry = ICONS.idle!;
ICONS.lost = ICONS.planned!;

export const icon = (of: Shape): string =>
  `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">${ICONS[of] ?? ICONS.planned}</svg>`)}`;

/** Words of an item's state. */
export const WORDS: Record<string, string> = { unpassed: "completed, and the check after it failed", asking: "waits for an approval", retry: "waits to retry", loop: "loop" };
export const word = (of: Shape): string => WORDS[of] ?? of;

/** Returns the shape of an attempt: one that completed has another where the check after its iteration failed. */
export const shapeOf = (view: View, item: string, key: string, { state }: Attempt): Shape => (state === "completed" && isUnpassed(view, item, key) ? "unpassed" : state);
