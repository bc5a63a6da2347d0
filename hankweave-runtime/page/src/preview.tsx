// What a rollback would change, shown before it is confirmed.
import { useEffect, useState } from "preact/hooks";
import { Counts, MARKS } from "./changes";
import type { Connection } from "./connection";
import { type Differences, askFiles } from "./differences";
import { Path } from "./parts";
import { type Place, type View, places, titleOf } from "./view";
import { cost, count, plural } from "./words";

/** Rows of each list; more are counted. */
const MOST = 12;
const DOES = { created: "comes back", modified: "changes back", deleted: "is removed", renamed: "gets its old name" };

interface Props {
  connection: Connection;
  view: View;
  /** The checkpoint to which the files go back. */
  to: string;
  /** The checkpoint of the files as they are; the newest one when absent. */
  from?: string;
  /** Attempts that began after it. */
  undone: Place[];
}

export function RollbackPreview({ connection, view, to, from, undone }: Props) {
  const newest = from ?? places(view).findLast(({ attempt }) => attempt.checkpoint)?.attempt.checkpoint;
  const [files, set] = useState<Differences | string | undefined>();
  useEffect(() => {
    let isShown = true;
    // Read backwards: what was created since is what the rollback removes.
    if (newest && newest !== to) void askFiles(connection, to, newest).then((answer) => isShown && set(answer));
    return () => void (isShown = false);
  }, [to, newest]);
  return (
    <div class="preview" id="preview">
      {undone.length > 0 && (
        <ul class="plain" aria-label="Attempts that are undone">
          {undone.slice(0, MOST).map(({ item, key, attempt }) => <li key={`${item}.${key}`}><b>{titleOf(view, item, key)}</b> <span class="dim">{attempt.state}, {attempt.cost || attempt.atLeast ? cost(attempt.cost, attempt.atLeast) : "$0.00"}</span></li>)}
          {undone.length > MOST && <li class="dim">and {count(undone.length - MOST)} more</li>}
        </ul>
      )}
      {newest && newest !== to && (files === undefined ? <p class="dim">Comparing files…</p> : typeof files === "string" ? <p class="cause" role="alert">{files}</p> : <FilesBack of={files} />)}
    </div>
  );
}

function FilesBack({ of }: { of: Differences }) {
  if (!of.count) return <p class="dim">No file changes, compared with the newest checkpoint.</p>;
  return (
    <>
      <p class="dim">{plural(of.count, "file")}, compared with the newest checkpoint:</p>
      <ul class="files" aria-label="Files that change">
        {of.files.slice(0, MOST).map((file) => (
          <li key={file.path}>
            <span class="mk" aria-hidden="true">{MARKS[file.change]}</span>
            <span><Path of={file.path} /> <span class="dim">{DOES[file.change]}</span></span>
            <Counts of={file} />
          </li>
        ))}
        {of.count > MOST && <li class="dim">and {count(of.count - MOST)} more</li>}
      </ul>
    </>
  );
}
