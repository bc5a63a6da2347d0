// Notifications of the browser with a sound, only where the user asked for them in this browser.
import type { Row } from "./list";
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

/** Length and pitch of each of the two notes, in seconds and hertz: falling where a person is needed, rising where the run has ended. */
const NOTE = 0.18;
const PITCHES = { needed: [880, 660], ended: [660, 880] };

/** Plays two short notes, made here: nothing is loaded. */
function play(pitches: number[]): void {
  if (!("AudioContext" in window)) return;
  const context = new AudioContext();
  const volume = context.createGain();
  volume.gain.value = 0.08;
  volume.connect(context.destination);
  pitches.forEach((pitch, at) => {
    const note = context.createOscillator();
    note.frequency.value = pitch;
    note.connect(volume);
    note.start(context.currentTime + at * NOTE);
    note.stop(context.currentTime + (at + 1) * NOTE);
    if (at === pitches.length - 1) note.onended = () => void context.close();
  });
}

const TELLING = new Set(["asking", "idle", "completed", "failed", "stopped", "paused", "crashed"]);

/** Notifies of a state that needs a person or ends the run. */
export function notify(before: View | undefined, view: View, sentence: string, icon: string): void {
  // The state that the page begins with is no news.
  if (!before || (before.state === view.state && before.ask?.question === view.ask?.question)) return;
  if (!TELLING.has(view.state) || !isWanted() || document.visibilityState === "visible") return;
  play(["asking", "idle"].includes(view.state) ? PITCHES.needed : PITCHES.ended);
  const body = view.ask?.question ?? view.cause ?? view.hank?.name ?? "";
  const shown = new Notification(sentence, { body, icon, tag: view.run?.id });
  shown.onclick = () => {
    window.focus();
    shown.close();
  };
}

const nameOf = (row: Row): string => `${row.task ?? ""} ${row.folder}`;

/** Notifies of runs of the list that have begun to wait for a person. */
export function notifyOfList(before: Row[], rows: Row[], icon: string): void {
  if (!isWanted() || document.visibilityState === "visible") return;
  const waited = new Set(before.filter(({ group }) => group === "waits").map(nameOf));
  const news = rows.filter((row) => row.group === "waits" && !waited.has(nameOf(row)));
  if (!news.length) return;
  play(PITCHES.needed);
  const [first] = news;
  const body = news.length === 1 ? first!.last : news.map(({ name }) => name).join(", ");
  const shown = new Notification(news.length === 1 ? `${first!.name} needs attention` : `${news.length} runs need attention`, { body, icon, tag: "list" });
  shown.onclick = () => {
    window.focus();
    shown.close();
  };
}
