// A JSON document as a tree that opens and closes; numbers keep all their digits.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Text } from "./basics";

const OPEN_DEPTH = 2;
const MOST_ITEMS = 200;
const MOST_DEPTH = 200;

/** A number as it was written: a double would lose digits. */
export class Digits {
  constructor(readonly text: string) {}
}

export type Json = null | boolean | string | Digits | Json[] | Pairs;

/** The members of an object in their order; names can repeat. */
export class Pairs {
  constructor(readonly items: [string, Json][]) {}
}

/** Read JSON, or return undefined if the text is not JSON. */
export function readJson(text: string): Json | undefined {
  try {
    JSON.parse(text); // strict about everything; what follows only has to be right for valid texts
  } catch {
    return undefined;
  }
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[[\]{},:]/g) ?? [];
  let at = 0;
  let isTooDeep = false;
  const read = (depth: number): Json => {
    const token = tokens[at++] ?? "null";
    if (depth > MOST_DEPTH) isTooDeep = true;
    if (isTooDeep) return null;
    if (token === "[") {
      const items: Json[] = [];
      while (tokens[at] !== "]") {
        items.push(read(depth + 1));
        if (isTooDeep) return null;
        if (tokens[at] === ",") at += 1;
      }
      at += 1;
      return items;
    }
    if (token === "{") {
      const items: [string, Json][] = [];
      while (tokens[at] !== "}") {
        const name = JSON.parse(tokens[at++] ?? '""') as string;
        at += 1; // the colon
        items.push([name, read(depth + 1)]);
        if (isTooDeep) return null;
        if (tokens[at] === ",") at += 1;
      }
      at += 1;
      return new Pairs(items);
    }
    if (token.startsWith('"')) return JSON.parse(token) as string;
    if (token === "true" || token === "false") return token === "true";
    return token === "null" ? null : new Digits(token);
  };
  const found = read(0);
  return isTooDeep ? undefined : found;
}

export function JsonTree({ value, name, depth = 0 }: { value: Json; name?: string; depth?: number }): JSX.Element {
  const [isOpen, setOpen] = useState(depth < OPEN_DEPTH);
  const [most, setMost] = useState(MOST_ITEMS);
  const label = name === undefined ? null : (
    <>
      <span class="json-name">
        <Text>{name}</Text>
      </span>
      {": "}
    </>
  );
  const isList = Array.isArray(value);
  if (!isList && !(value instanceof Pairs)) {
    return (
      <div class="json-leaf">
        {label}
        {typeof value === "string" ? (
          <span class="json-string">
            "<Text breaks>{value}</Text>"
          </span>
        ) : value instanceof Digits ? (
          <span class="json-number">{value.text}</span>
        ) : (
          <span class="json-word">{String(value)}</span>
        )}
      </div>
    );
  }
  const items: [string, Json][] = isList ? value.map((item, number) => [String(number), item]) : value.items;
  const [open, close] = isList ? "[]" : "{}";
  return (
    <div class="json-branch">
      <button type="button" class="json-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span> {label}
        <span class="muted">
          {open}
          {isOpen ? "" : `…${close}`} {items.length}
        </span>
      </button>
      {isOpen && (
        <div class="json-items">
          {items.slice(0, most).map(([key, item], number) => (
            <JsonTree key={number} name={key} value={item} depth={depth + 1} />
          ))}
          {items.length > most && (
            <button type="button" class="small" onClick={() => setMost(items.length)}>
              Show all {items.length}
            </button>
          )}
        </div>
      )}
    </div>
  );
}
