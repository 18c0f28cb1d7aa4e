// A list of any length of which only the visible rows exist. Browsers limit how high an element can be, so beyond that
// the scroll bar stands for more than its pixels, and the wheel and keys still move by rows.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

export const ROW_PX = 30;
const MOST_PX = 6_000_000;
const SPARE_ROWS = 4;

interface Props {
  label: string;
  length: number;
  chosen: number | null;
  onChoose: (index: number | null) => void;
  onShow: (from: number, until: number) => void;
  row: (index: number) => ComponentChildren;
  rowClass: (index: number) => string;
  isAtEnd: boolean; // stay at the end while rows are added
  onScrolled: (isAtEnd: boolean) => void;
  goTo: { index: number } | null; // a new object scrolls there
}

export function List(props: Props): JSX.Element {
  const { length, chosen, isAtEnd, goTo } = props;
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0); // of all rows, in their own pixels
  const [height, setHeight] = useState(400);
  const full = length * ROW_PX;
  const shown = Math.min(full, MOST_PX);
  const most = Math.max(0, full - height);
  const ratio = shown > height ? most / (shown - height) : 1;
  const own = useRef(-1); // the scroll position that was set here, not by the user

  const moveTo = (wanted: number) => {
    const next = Math.min(Math.max(wanted, 0), most);
    setTop(next);
    if (box.current) {
      own.current = Math.round(next / ratio);
      box.current.scrollTop = own.current;
    }
    return next;
  };

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const resized = new ResizeObserver(() => setHeight(element.clientHeight));
    resized.observe(element);
    setHeight(element.clientHeight);
    return () => resized.disconnect();
  }, []);
  useEffect(() => {
    if (goTo) moveTo(goTo.index * ROW_PX - height / 3);
  }, [goTo]);
  useEffect(() => {
    if (isAtEnd) moveTo(most);
    else if (top > most) moveTo(most);
  }, [isAtEnd, most]);

  const first = Math.max(0, Math.floor(top / ROW_PX) - SPARE_ROWS);
  const end = Math.min(length, Math.ceil((top + height) / ROW_PX) + SPARE_ROWS);
  useEffect(() => props.onShow(first, end), [first, end, props.onShow]);

  const onScroll = () => {
    const element = box.current;
    if (!element || Math.abs(element.scrollTop - own.current) <= 1) return;
    own.current = -1;
    const next = Math.min(element.scrollTop * ratio, most);
    setTop(next);
    props.onScrolled(next >= most - 2);
  };
  const onWheel = (event: WheelEvent) => {
    if (ratio <= 1 || event.ctrlKey) return;
    event.preventDefault();
    const step = event.deltaMode === 1 ? event.deltaY * ROW_PX : event.deltaY;
    props.onScrolled(moveTo(top + step) >= most - 2);
  };
  const choose = (index: number) => {
    if (length === 0) return;
    const next = Math.min(Math.max(index, 0), length - 1);
    props.onChoose(next);
    const y = next * ROW_PX;
    if (y < top) moveTo(y);
    else if (y + ROW_PX > top + height) moveTo(y + ROW_PX - height);
    props.onScrolled(false);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(height / ROW_PX) - 1);
    const at = chosen ?? Math.floor(top / ROW_PX) - 1;
    const moves: Record<string, number> = {
      j: at + 1,
      k: at - 1,
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: length - 1,
    };
    const next = moves[event.key];
    if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) {
      if (event.key === "Escape") props.onChoose(null);
      return;
    }
    event.preventDefault();
    choose(next);
  };
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const isElsewhere = target === document.body || target.tagName === "A" || target.tagName === "BUTTON";
      if (isElsewhere && (event.key === "j" || event.key === "k") && !event.ctrlKey && !event.metaKey && !document.querySelector("dialog[open]")) {
        box.current?.focus();
        onKeyDown(event);
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });

  const indexes = Array.from({ length: Math.max(0, end - first) }, (_, number) => first + number);
  const shift = top - top / ratio; // between a row's own pixels and those of the element
  return (
    <div
      ref={box}
      class="list"
      data-list
      role="listbox"
      tabIndex={0}
      aria-label={props.label}
      aria-activedescendant={chosen !== null && chosen >= first && chosen < end ? `row-${chosen}` : undefined}
      onScroll={onScroll}
      onWheel={onWheel}
      onKeyDown={onKeyDown}
    >
      <div class="rows" style={{ height: `${shown}px` }}>
        {indexes.map((index) => (
          <div
            key={index}
            id={`row-${index}`}
            role="option"
            aria-selected={index === chosen}
            aria-posinset={index + 1}
            aria-setsize={length}
            class={`row ${props.rowClass(index)}`}
            style={{ transform: `translateY(${index * ROW_PX - shift}px)` }}
            onClick={() => choose(index)}
          >
            {props.row(index)}
          </div>
        ))}
      </div>
    </div>
  );
}
