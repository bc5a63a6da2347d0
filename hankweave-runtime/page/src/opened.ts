// The one owner of scrolling: what a person has opened comes into view, and stays there while what is above it is still filled.
import { useEffect, useRef, useState } from "preact/hooks";

/** What was brought into view last, with its place in the window and the height of the page at that time. */
let held: { element: Element; top: number; height: number } | undefined;

const topOf = (element: Element): number => element.getBoundingClientRect().top;

/** Whether an element begins in the upper part of the window. */
function isAbove(element: Element): boolean {
  const bar = document.querySelector(".topbar")?.getBoundingClientRect().bottom ?? 0;
  return topOf(element) >= bar && topOf(element) <= innerHeight * 0.6;
}

/** Scrolls to an element unless it begins in the upper part of the window, and holds it there. */
export function bringIntoView(element: Element): void {
  if (!isAbove(element)) element.scrollIntoView({ behavior: "instant" });
  held = { element, top: topOf(element), height: document.body.offsetHeight };
}

/** Lets the page stand where it stands, whatever is filled later. */
export function letGo(): void {
  held = undefined;
}

// A page that is still short ends above the place of what was opened, and what comes later moves it.
const grown = new ResizeObserver(() => {
  if (held?.element.isConnected) bringIntoView(held.element);
});

/** Lets go of what somebody has scrolled away; a page that grows scrolls too. */
function scrolled(): void {
  if (held && held.height === document.body.offsetHeight && Math.abs(topOf(held.element) - held.top) > 1 && !isAbove(held.element)) letGo();
}

/** Events of a person who looks elsewhere or acts; a scroll bar has none of them. */
const ACTS = ["pointerdown", "keydown", "wheel", "touchmove"];

/** Brings what a person has opened into view once it is drawn: by an address, a click or a key. What the page follows by itself never moves it, nor does a new `state` of the run. */
export function useOpened(find: () => Element | null, state: string | undefined): void {
  const isAsked = useRef(location.hash.length > 2);
  const [, redraw] = useState(0);
  useEffect(() => letGo, [state]);
  useEffect(() => {
    const opened = () => {
      isAsked.current = true;
      redraw((n) => n + 1);
    };
    // A link to what is open already changes no address.
    const clicked = ({ target }: MouseEvent) => (target as Element).closest('a[href^="#/"]') && opened();
    grown.observe(document.body);
    addEventListener("hashchange", opened);
    addEventListener("click", clicked);
    addEventListener("scroll", scrolled, { capture: true, passive: true });
    for (const act of ACTS) addEventListener(act, letGo, { capture: true, passive: true });
    return () => {
      grown.disconnect();
      removeEventListener("hashchange", opened);
      removeEventListener("click", clicked);
      removeEventListener("scroll", scrolled, { capture: true });
      for (const act of ACTS) removeEventListener(act, letGo, { capture: true });
    };
  }, []);
  useEffect(() => {
    const target = isAsked.current && find();
    if (!target) return;
    isAsked.current = false;
    bringIntoView(target);
  });
}
