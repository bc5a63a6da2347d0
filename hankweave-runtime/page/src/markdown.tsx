// Markdown without HTML: everything that is no mark is text.
import type { ComponentChild } from "preact";

const INLINE = /\\([!-/:-@[-`{-~])|(?<!`)(`+)(?!`)(.+?)(?<!`)\2(?!`)|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>()"'`]+)/g;

/** Returns the marks within a line as elements. */
export function inline(text: string): ComponentChild[] {
  const parts: ComponentChild[] = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    const [all, mark, , code, strong, em, label, target, bare] = match;
    parts.push(text.slice(end, match.index));
    end = match.index + all.length;
    const url = target ?? bare;
    if (mark !== undefined) parts.push(mark);
    else if (code !== undefined) parts.push(<code>{/^ .*[^ ].* $/.test(code) ? code.slice(1, -1) : code}</code>);
    else if (strong !== undefined) parts.push(<strong>{strong}</strong>);
    else if (em !== undefined) parts.push(<em>{em}</em>);
    // Both the words and the place are shown where they differ.
    else if (url !== undefined) parts.push(<a href={url} target="_blank" rel="noreferrer noopener" title={url}>{label ?? url}</a>);
  }
  parts.push(text.slice(end));
  return parts;
}

function table(lines: string[]) {
  const rows = lines.filter((_, i) => i !== 1).map((line) => line.replace(/^\s*\||(?<!\\)\|\s*$/g, "").split(/(?<!\\)\|/));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table">
      <table><tbody>{rows.map((row, i) => <tr>{row.map((cell, at) => (i ? <td data-of={rows[0]![at]?.trim()}>{inline(cell.trim())}</td> : <th>{inline(cell.trim())}</th>))}</tr>)}</tbody></table>
    </div>
  );
}

export function Markdown({ text }: { text: string }) {
  const lines = text.split("\n");
  const blocks: ComponentChild[] = [];
  const take = (belongs: (line: string) => boolean): string[] => {
    const from = at;
    while (at < lines.length && belongs(lines[at]!)) at++;
    return lines.slice(from, at);
  };
  const item = /^\s*(?:[-*+]|\d+[.)])\s+/;
  let at = 0;
  while (at < lines.length) {
    const line = lines[at]!;
    if (!line.trim()) at++;
    else if (line.startsWith("```")) {
      at++;
      const code = take((inside) => !inside.startsWith("```"));
      at++;
      blocks.push(<pre class="out" tabIndex={0}>{code.join("\n")}</pre>);
    } else if (/^#{1,6} /.test(line)) {
      at++;
      blocks.push(<p class="h">{inline(line.replace(/^#+ /, ""))}</p>);
    } else if (line.startsWith("> ")) {
      blocks.push(<blockquote>{inline(take((inside) => inside.startsWith(">")).map((inside) => inside.replace(/^> ?/, "")).join("\n"))}</blockquote>);
    } else if (item.test(line)) {
      const isOrdered = /^\s*\d/.test(line);
      const items: string[] = [];
      for (const each of take((inside) => item.test(inside) || (/^\s+\S/.test(inside) && !inside.startsWith("```")))) {
        if (item.test(each)) items.push(each.replace(item, ""));
        else items[items.length - 1] += ` ${each.trim()}`;
      }
      const list = items.map((each) => <li>{inline(each)}</li>);
      blocks.push(isOrdered ? <ol>{list}</ol> : <ul>{list}</ul>);
    } else if (line.includes("|") && /^\s*\|?[\s:|-]+\|?\s*$/.test(lines[at + 1] ?? "") && (lines[at + 1] ?? "").includes("-")) {
      blocks.push(table(take((inside) => inside.includes("|"))));
    } else {
      const isText = (inside: string) => inside.trim() !== "" && !inside.startsWith("```") && !/^#{1,6} /.test(inside) && !item.test(inside);
      blocks.push(<p>{inline(take(isText).join("\n"))}</p>);
    }
  }
  return <div class="md">{blocks}</div>;
}
