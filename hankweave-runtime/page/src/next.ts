// What is next, as `hankweave status` says it: the last section of the report.

export interface Next {
  outlook: string;
  /** Commands with their effects. */
  commands: [string, string][];
}

const COMMAND = /^- (`+) ?(.+?) ?\1: (.+)$/;

/** Returns what the report says last; `undefined` where it was cut before. */
export function readNext(report: string): Next | undefined {
  const [, section] = report.split("\n## What is next\n");
  if (section === undefined) return undefined;
  const lines = section.split("\n").filter((line) => line.trim());
  const commands = lines.flatMap((line): [string, string][] => {
    const match = COMMAND.exec(line);
    return match ? [[match[2]!, match[3]!]] : [];
  });
  return { outlook: lines.find((line) => !line.startsWith("- ")) ?? "", commands };
}
