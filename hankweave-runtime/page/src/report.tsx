// The report of the run, as `hankweave report` prints it.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Connection } from "./connection";
import { Markdown } from "./markdown";
import { Gone } from "./parts";
import type { View } from "./view";

export const REPORT = "#/report";

export function Report({ connection, view }: { connection: Connection; view: View }) {
  const text = connection.report?.markdown;
  const [problem, fail] = useState("");
  const section = useRef<HTMLElement>(null);
  const { canAsk } = connection;
  useEffect(() => section.current?.focus({ preventScroll: true }), []);
  // It is made again when the state of the run changes, or that of its codons.
  const newest = `${view.run?.id} ${view.state} ${view.now?.item} ${view.now?.iteration} ${view.now?.attempt}`;
  useEffect(() => {
    if (!canAsk) return;
    let isOld = false;
    void connection.command("report.get").then((answer) => {
      if (isOld) return;
      fail(answer.ok ? "" : answer.message);
    });
    return () => {
      isOld = true;
    };
  }, [newest, canAsk]);
  return (
    <section class="panel report" id="report" ref={section} aria-label="Report" tabIndex={-1}>
      <p class="dim">What the run did until now, as <code>hankweave report</code> prints it, with the times of the machine it ran on. <a href="#/">Back to the codon</a></p>
      {problem && !connection.isGone && <p class="cause" role="alert">{problem}</p>}
      {text === undefined && connection.isGone ? <Gone folder={connection.folder} /> : text === undefined ? !problem && <p class="dim">{canAsk ? "Making the report…" : "There is no connection to the run."}</p> : <Markdown text={text} />}
    </section>
  );
}
