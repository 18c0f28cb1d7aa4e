// The search of a partition: its field, and what it has found so far.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { bytes, count, plural } from "../data/format";
import type { Search, SearchKind } from "../data/partition";

/** What a search has found, how far it came, and what it did not have to read. */
export function describeSearch({ found, at, from, until, scanned, segments, isRunning }: Search): string {
  const parts = [`${plural(found.length, "match").replace(/matchs$/, "matches")} in ${plural(scanned, "message")} read`];
  if (!isRunning && at >= until) parts.push("the whole partition");
  else parts.push(`${isRunning ? "at" : "stopped at"} offset ${count(at)} of ${count(from)} to ${count(Math.max(from, until - 1))}`);
  if (segments && segments.skipped_count > 0) {
    parts.push(`${count(segments.skipped_count)} of the topic's ${plural(segments.segments_count, "segment")} skipped because of their summaries (${bytes(segments.skipped_bytes)} of ${bytes(segments.size_bytes)})`);
  }
  return parts.join(" · ");
}

interface SearchFieldProps {
  search: Search | null;
  given: { kind: SearchKind; text: string }; // by the address of the page
  onSearch: (kind: SearchKind, text: string) => void;
  onStop: () => void;
}

export function SearchField({ search: state, given, onSearch, onStop }: SearchFieldProps): JSX.Element {
  const [text, setText] = useState(given.text);
  const [kind, setKind] = useState<SearchKind>(given.kind);
  const part = state && state.until > state.from ? (state.at - state.from) / (state.until - state.from) : 1;
  return (
    <form
      class="inline search"
      onSubmit={(event) => {
        event.preventDefault();
        onSearch(kind, text);
      }}
    >
      <select
        aria-label="Search for"
        value={kind}
        onChange={(event) => setKind(event.currentTarget.value as SearchKind)}
      >
        <option value="contains">Text</option>
        <option value="where">Filter</option>
      </select>
      <input
        type="search"
        data-filter
        aria-label="Search payloads, keys and headers"
        placeholder={kind === "where" ? "attempt >= 3 AND source = 'web'" : "Payloads, keys, headers ( / )"}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          if (!event.currentTarget.value) onSearch(kind, "");
        }}
      />
      {state?.isRunning ? (
        <>
          <progress max={1} value={part} aria-label="Searched" />
          <span class="muted">{count(state.scanned)} read</span>
          <button type="button" onClick={onStop}>
            Stop
          </button>
        </>
      ) : (
        <>
          <button type="submit">Search</button>
          {state && (
            <span class="muted">
              {state.error ? state.error.message : part < 1 ? `stopped at ${Math.floor(part * 100)} %` : `${count(state.scanned)} read`}
            </span>
          )}
        </>
      )}
    </form>
  );
}

