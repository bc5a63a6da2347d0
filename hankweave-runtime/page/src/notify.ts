// Notifications of the browser, only where the user asked for them in this browser.
import type { View } from "./view";

const KEY = "notify";

export function isWanted(): boolean {
  return "Notification" in window && Notification.permission === "granted" && localStorage.getItem(KEY) === "yes";
}

export async function want(): Promise<"on" | "off" | "refused"> {
  if (!("Notification" in window)) return "refused";
  if (isWanted()) {
    localStorage.setItem(KEY, "no");
    return "off";
  }
  if ((await Notification.requestPermission()) !== "granted") return "refused";
  localStorage.setItem(KEY, "yes");
  return "on";
}

const TELLING = new Set(["asking", "idle", "completed", "failed", "stopped", "paused", "crashed"]);

/** Notifies of a state that needs a person or ends the run. */
export function notify(before: View | undefined, view: View, sentence: string, icon: string): void {
  // The state that the page begins with is no news.
  if (!before || (before.state === view.state && before.ask?.question === view.ask?.question)) return;
  if (!TELLING.has(view.state) || !isWanted() || document.visibilityState === "visible") return;
  const body = view.ask?.question ?? view.cause ?? view.hank?.name ?? "";
  const shown = new Notification(sentence, { body, icon, tag: view.run?.id });
  shown.onclick = () => {
    window.focus();
    shown.close();
  };
}
