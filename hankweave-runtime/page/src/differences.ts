// Differences between two checkpoints, which the server sends by request: docs/protocol.md, "Differences".
import { type Connection, isFile } from "./connection";

export interface FileDifference {
  path: string;
  oldPath?: string;
  change: "created" | "modified" | "deleted" | "renamed";
  added?: number;
  removed?: number;
  withoutLines?: "binary" | "too-large" | "not-counted";
  oldSize?: number;
  size?: number;
}

export interface Differences {
  from: string;
  to: string;
  files: FileDifference[];
  count: number;
  added: number;
  removed: number;
  /** Paths as the server knows them, by those that are shown. */
  names: Map<string, string>;
}

export interface Line {
  kind: " " | "+" | "-" | "@" | "\\";
  old?: number;
  new?: number;
  text: string;
}

export const PAGE = 500;
/** Most pages of one file in memory. */
const MOST_PAGES = 12;

/** Most comparisons in memory; checkpoints never change. */
const MOST_COMPARISONS = 50;
const compared = new Map<string, Differences>();

/** Returns the difference between two checkpoints if it was asked for before. */
export const knownFiles = (to: string, from: string | undefined): Differences | undefined => compared.get(`${from}..${to}`);

export async function askFiles(connection: Connection, to: string, from: string | undefined): Promise<Differences | string> {
  const answer = await connection.command("diff.files", from ? { to, from } : { to });
  if (!answer.ok) return answer.message;
  const raw = JSON.parse(answer.text!).data as Differences;
  const shown = answer.data as Differences;
  const found = { ...shown, names: new Map(shown.files.map((file, at) => [file.path, raw.files[at]!.path])) };
  const [oldest] = compared.keys();
  if (compared.size >= MOST_COMPARISONS && oldest !== undefined) compared.delete(oldest);
  compared.set(`${from}..${to}`, found);
  return found;
}

/** The lines of one file, read in pages and let go far from the visible ones. */
export class Lines {
  count: number | undefined;
  isFailed = false;
  /** Why the lines cannot be had. */
  problem = "";
  private pages = new Map<number, Line[]>();
  private asked = new Map<number, Promise<void>>();

  constructor(
    private readonly connection: Connection,
    private readonly of: Differences,
    private readonly path: string,
    private readonly changed: () => void,
  ) {}

  line(at: number): Line | undefined {
    return this.pages.get(Math.floor(at / PAGE))?.[at % PAGE];
  }

  /** Reads the pages with these lines. */
  want(first: number, last: number): void {
    for (let page = Math.floor(first / PAGE); page * PAGE < last; page++) void this.page(page);
  }

  /** Returns the position of a line of the file, or of the nearest one that is shown. */
  async find(side: "L" | "R", number: number): Promise<number> {
    await this.page(0);
    let [low, high] = [0, Math.max(0, Math.ceil((this.count ?? 0) / PAGE) - 1)];
    const numberOf = (line: Line) => (side === "L" ? line.old : line.new);
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      await this.page(middle);
      const first = this.pages.get(middle)?.find((line) => numberOf(line) !== undefined);
      if (first === undefined || numberOf(first)! > number) high = middle - 1;
      else low = middle;
    }
    await this.page(low);
    const lines = this.pages.get(low) ?? [];
    const at = lines.findIndex((line) => (numberOf(line) ?? 0) >= number);
    return low * PAGE + (at < 0 ? Math.max(0, lines.length - 1) : at);
  }

  private page(page: number): Promise<void> {
    const known = this.asked.get(page);
    if (known) return known;
    const asking = this.ask(page).then(() => this.changed());
    this.asked.set(page, asking);
    if (this.asked.size > MOST_PAGES) {
      const farthest = [...this.asked.keys()].reduce((far, each) => (Math.abs(each - page) > Math.abs(far - page) ? each : far));
      this.asked.delete(farthest);
      this.pages.delete(farthest);
    }
    return asking;
  }

  private async ask(page: number): Promise<void> {
    const lines: Line[] = [];
    // An answer holds fewer lines where they are long.
    while (lines.length < PAGE && (this.count === undefined || page * PAGE + lines.length < this.count)) {
      const data = { to: this.of.to, from: this.of.from, path: this.of.names.get(this.path) ?? this.path, offset: page * PAGE + lines.length, limit: PAGE - lines.length };
      const answer = await this.connection.command("diff.lines", data);
      if (!answer.ok || !answer.data.lines.length) {
        this.isFailed = !answer.ok;
        if (answer.ok) this.count = answer.data.count;
        if (!answer.ok) {
          this.problem = answer.message;
          if (isFile) this.count = 0;
          this.asked.delete(page);
        }
        break;
      }
      this.count = answer.data.count as number;
      lines.push(...answer.data.lines);
    }
    this.pages.set(page, lines);
  }
}
