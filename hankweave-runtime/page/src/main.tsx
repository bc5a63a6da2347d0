import { render } from "preact";
import { App, chosen } from "./app";
import { Connection, recordPath } from "./connection";
import { sentence, shownState } from "./hero";
import { offerAsApp } from "./install";
import { ListPage } from "./list";
import { notify } from "./notify";
import { icon, titleMark } from "./shapes";
import { Transcript } from "./transcript";
import type { View } from "./view";
import { cost, usd } from "./words";

/** At most so often the page is drawn, in milliseconds. */
const PAUSE = 50;

const root = document.getElementById("page")!;
let timer: number | undefined;
let before: View | undefined;
let mark = "";
let link = "";

function draw(): void {
  timer = undefined;
  const { view } = connection;
  if (view) transcript.show(view, chosen(view).place);
  render(<App connection={connection} transcript={transcript} />, root);
}

function soon(): void {
  timer ??= setTimeout(draw, PAUSE);
}

/** The tab shows the state as well, also while it is hidden. */
function changed(): void {
  const { view } = connection;
  const [state, text] = [shownState(connection), sentence(connection)];
  const parts = [`${titleMark(state)} ${text}`, view && (cost(view.money.spent, view.money.atLeast) || usd(0)), view?.hank?.name ?? "hankweave"];
  document.title = parts.filter(Boolean).join(" · ");
  if (view && connection.link === "live" && !recordPath) offerAsApp(view.hank?.name ?? connection.folder);
  if (mark !== state) {
    document.querySelector<HTMLLinkElement>("#icon")!.href = icon(state);
    mark = state;
  }
  if (view && view !== before) notify(before, view, text, icon(state));
  before = view;
  // A history that could not be read is read again over the new connection.
  if (link !== connection.link && connection.link === "live" && transcript.isIncomplete) transcript.clear();
  link = connection.link;
  soon();
}

function start(): [Transcript, Connection] {
  const transcript = new Transcript(soon);
  const connection = new Connection(
    changed,
    (event) => transcript.take(event),
    () => transcript.clear(),
  );
  return [transcript, connection];
}

const isList = root.dataset.list !== undefined;
let transcript: Transcript;
let connection: Connection;
if (isList) render(<ListPage />, root);
else {
  [transcript, connection] = start();
  addEventListener("hashchange", soon);
  changed();
}
