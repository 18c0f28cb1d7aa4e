// A table that sorts and filters; j and k move between its rows (see keys.ts), whose first cells are links or buttons.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { count, plural } from "../data/format";

const FIRST_ROWS = 200;
const MORE_ROWS = 500; // a step: many thousand rows at once would make each drawing slow

export interface Column<T> {
  name: string;
  about?: string;
  show: (row: T) => ComponentChildren;
  sort?: (row: T) => number | string;
  isNumber?: boolean;
  isMinor?: boolean; // left out on narrow screens
  isTick?: boolean; // narrow, in the middle
  isUntitled?: boolean; // its name is for screen readers only
  isPinned?: boolean; // stays in sight while the table is scrolled sideways
}

interface Props<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
  filterBy?: (row: T) => string;
  empty?: ComponentChildren;
  sortedBy?: { name: string; isDown: boolean };
  tools?: ComponentChildren;
}

export function Table<T>({ label, columns, rows, rowKey, filterBy, empty, sortedBy, tools }: Props<T>): JSX.Element {
  const [wanted, setWanted] = useState("");
  const [order, setOrder] = useState(sortedBy ?? null);
  const [most, setMost] = useState(FIRST_ROWS);
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = filterBy && words.length ? rows.filter((row) => words.every((word) => filterBy(row).toLowerCase().includes(word))) : rows;
  const sort = columns.find((column) => column.name === order?.name)?.sort;
  if (sort && order) {
    const sign = order.isDown ? -1 : 1;
    shown = [...shown].sort((a, b) => {
      const [left, right] = [sort(a), sort(b)];
      return left < right ? -sign : left > right ? sign : 0;
    });
  }
  return (
    <section class="table" aria-label={label}>
      {(filterBy || tools) && (
        <div class="tools">
          {filterBy && (
            <input
              type="search"
              data-filter
              placeholder={`Filter ${label.toLowerCase()}  ( / )`}
              aria-label={`Filter ${label.toLowerCase()}`}
              value={wanted}
              onInput={(event) => setWanted(event.currentTarget.value)}
            />
          )}
          {filterBy && (
            <span class="muted">
              {words.length ? `${count(shown.length)} of ` : ""}
              {plural(rows.length, label.toLowerCase().replace(/s$/, ""))}
            </span>
          )}
          {tools}
        </div>
      )}
      {rows.length === 0 ? (
        (empty ?? <p class="muted none">None.</p>)
      ) : (
        <div class="scroller" tabIndex={-1}>
          <table>
            <thead>
              <tr>
                {columns.map((column) => (
                  <th
                    key={column.name}
                    class={classes(column)}
                    aria-sort={order?.name === column.name ? (order.isDown ? "descending" : "ascending") : undefined}
                    title={column.about}
                  >
                    {column.sort ? (
                      <button
                        type="button"
                        onClick={() =>
                          setOrder({
                            name: column.name,
                            isDown: order?.name === column.name ? !order.isDown : Boolean(column.isNumber),
                          })
                        }
                      >
                        {column.name}
                      </button>
                    ) : column.isUntitled ? (
                      <span class="hidden">{column.name}</span>
                    ) : (
                      column.name
                    )}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {shown.slice(0, most).map((row) => (
                <tr key={rowKey(row)}>
                  {columns.map((column) => (
                    <td key={column.name} class={classes(column)}>
                      {column.show(row)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
          {shown.length === 0 && <p class="muted none">Nothing matches “{wanted}”.</p>}
          {shown.length > most && (
            <p class="more">
              <button type="button" onClick={() => setMost(most + MORE_ROWS)}>
                Show {count(Math.min(MORE_ROWS, shown.length - most))} more
              </button>{" "}
              <span class="muted">
                {count(most)} of {count(shown.length)}
              </span>
            </p>
          )}
        </div>
      )}
    </section>
  );
}

const classes = <T,>(column: Column<T>): string => `${column.isNumber ? "number" : ""} ${column.isMinor ? "minor" : ""} ${column.isTick ? "tick" : ""} ${column.isPinned ? "pinned" : ""}`;
