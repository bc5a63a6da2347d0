// Addresses within the page, all in the fragment: they can be sent, and hold no token.
//   #/plan/CODON                         a codon, also before it starts
//   #/CODON.ITERATION.ATTEMPT            an attempt
//   #/CODON.ITERATION.ATTEMPT@SEQ        a moment in it
//   #/CODON.ITERATION.ATTEMPT/prompt     its prompt
//   #/CODON.ITERATION.ATTEMPT/changes/PATH:R12?from=SHA
//                                        its changes, a file, and a line before (L) or after (R) them, compared with a checkpoint

export interface Route {
  item: string;
  key: string;
  seq?: number;
  changes?: ChangesRoute;
  isPrompt?: boolean;
}

export interface ChangesRoute {
  path?: string;
  side?: "L" | "R";
  line?: number;
  /** Checkpoint that is compared with; the one before the codon when absent. */
  from?: string;
}

const FORM = /^#\/([^/]+)\.(\d+\.\d+)(?:@(\d+)|(\/prompt)|(\/changes)(?:\/([^?:]+)(?::([LR])(\d+))?)?(?:\?from=([0-9a-f]{12,64}))?)?$/;

export function readRoute(hash: string): Route | undefined {
  const match = FORM.exec(hash);
  if (!match) return undefined;
  const [, item, key, seq, isPrompt, hasChanges, path, side, line, from] = match;
  const route: Route = { item: decode(item!), key: key! };
  if (seq !== undefined) route.seq = Number(seq);
  if (isPrompt) route.isPrompt = true;
  if (hasChanges) route.changes = { path: path && decode(path), side: side as "L" | "R" | undefined, line: line === undefined ? undefined : Number(line), from };
  return route;
}

const PLAN = /^#\/plan\/([^/]+)$/;

/** Returns the codon of an address that names no attempt. */
export function readPlan(hash: string): string | undefined {
  const match = PLAN.exec(hash);
  return match ? decode(match[1]!) : undefined;
}

export const writePlan = (codon: string): string => `#/plan/${encodeURIComponent(codon)}`;

export function writeRoute({ item, key, seq, changes, isPrompt }: Route): string {
  const place = `#/${encodeURIComponent(item)}.${key}`;
  if (isPrompt) return `${place}/prompt`;
  if (!changes) return place + (seq === undefined ? "" : `@${seq}`);
  const { path, side, line, from } = changes;
  const file = path === undefined ? "" : `/${path.split("/").map(encodeURIComponent).join("/")}`;
  const at = file && side && line !== undefined ? `:${side}${line}` : "";
  return `${place}/changes${file}${at}${from ? `?from=${from}` : ""}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
