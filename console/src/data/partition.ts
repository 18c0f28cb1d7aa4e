// The messages of one partition as pages that are loaded when their rows are shown, and forgotten when there are many.
import { call, partitionPath } from "./api";
import type { Browsed, Message, SegmentCounts } from "./types";

export const PAGE = 100;
const MOST_PAGES = 100;
const PREVIEW_BYTES = 512;

interface Page {
  messages: Map<number, Message>;
  until: number; // the offsets below it have been asked for
}

export class PartitionMessages {
  readonly path: string;
  private readonly pages = new Map<number, Page>();
  private readonly asking = new Map<number, AbortController>();
  error: Error | null = null;

  constructor(
    stream: string,
    topic: string,
    readonly number: number,
    readonly base: number, // the oldest offset when it was opened
    private readonly onChange: () => void,
  ) {
    this.path = `${partitionPath(stream, topic, number)}/messages/browse`;
  }

  /** The message at an offset; null if there is none (compacted or removed), undefined if it is not loaded. */
  at(offset: number): Message | null | undefined {
    const page = this.pages.get(Math.floor(offset / PAGE));
    if (!page || offset >= page.until) return undefined;
    return page.messages.get(offset) ?? null;
  }

  /** Load the pages of offsets that are shown; stop loading others. */
  show(from: number, until: number): void {
    const [first, last] = [Math.floor(from / PAGE), Math.floor((until - 1) / PAGE)];
    for (const [number, asking] of this.asking) if (number < first || number > last) asking.abort();
    for (let number = first; number <= last; number += 1) {
      const page = this.pages.get(number);
      const wanted = Math.min((number + 1) * PAGE, until);
      if ((!page || page.until < wanted) && !this.asking.has(number)) void this.load(number);
    }
  }

  /** Load a page again: one of its messages has changed. The old one is shown until then. */
  reload(offset: number): Promise<void> {
    const number = Math.floor(offset / PAGE);
    this.asking.get(number)?.abort();
    return this.load(number, true);
  }

  close(): void {
    for (const asking of this.asking.values()) asking.abort();
  }

  private async load(number: number, isAgain = false): Promise<void> {
    const asking = new AbortController();
    this.asking.set(number, asking);
    const messages = new Map<number, Message>(isAgain ? [] : this.pages.get(number)?.messages);
    let from = Math.max(number * PAGE, this.base, ...[...messages.keys()].map((offset) => offset + 1));
    const end = (number + 1) * PAGE;
    try {
      for (;;) {
        const query = { kind: "offset", value: from, count: Math.min(PAGE, end - from), payload_bytes: PREVIEW_BYTES };
        const found = await call<Browsed>("GET", this.path, { query, signal: asking.signal });
        for (const message of found.messages) if (message.offset < end) messages.set(message.offset, message);
        from = Math.max(found.next_offset, ...found.messages.map((message) => message.offset + 1));
        if (from >= end || from >= found.end_offset || found.messages.length === 0) {
          this.keep(number, { messages, until: Math.min(end, found.end_offset) });
          break;
        }
      }
      this.error = null;
    } catch (error) {
      if (!asking.signal.aborted) this.error = error as Error;
    }
    if (this.asking.get(number) === asking) this.asking.delete(number);
    if (!asking.signal.aborted) this.onChange();
  }

  private keep(number: number, page: Page): void {
    this.pages.delete(number);
    this.pages.set(number, page);
    for (const oldest of this.pages.keys()) {
      if (this.pages.size <= MOST_PAGES) break;
      this.pages.delete(oldest);
    }
  }
}

export type SearchKind = "contains" | "where";

export interface Search {
  text: string;
  kind: SearchKind;
  found: Message[];
  at: number;
  from: number;
  until: number;
  scanned: number;
  segments: SegmentCounts | null; // of the whole topic; of a filter only
  isRunning: boolean;
  error: Error | null;
}

const MOST_FOUND = 5000;
const none = (): null => null; // a log that cannot count them, or a filter that the search refuses with a reason

/** Look for a text, or for what matches a filter, in a partition, request after request; `signal` ends it. */
export async function search(
  path: string,
  topic: string, // its path
  kind: SearchKind,
  text: string,
  from: number,
  until: number,
  signal: AbortSignal,
  onProgress: (search: Search) => void,
): Promise<void> {
  let state: Search = { text, kind, found: [], at: from, from, until, scanned: 0, segments: null, isRunning: true, error: null };
  onProgress(state);
  try {
    if (kind === "where") {
      state = { ...state, segments: await call<SegmentCounts>("GET", `${topic}/segments`, { query: { where: text }, signal }).catch(none) };
      onProgress(state);
    }
    while (state.at < until && state.found.length < MOST_FOUND) {
      const query = { kind: "offset", value: state.at, count: 200, payload_bytes: PREVIEW_BYTES, [kind]: text };
      const found = await call<Browsed>("GET", path, { query, signal });
      const isStuck = found.next_offset <= state.at;
      state = {
        ...state,
        found: [...state.found, ...found.messages.filter((message) => message.offset < until)],
        at: isStuck ? until : Math.min(found.next_offset, until),
        scanned: state.scanned + found.scanned_count,
      };
      onProgress(state);
    }
    onProgress({ ...state, isRunning: false });
  } catch (error) {
    onProgress({ ...state, isRunning: false, error: signal.aborted ? null : (error as Error) });
  }
}
