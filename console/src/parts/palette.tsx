// The palette (Ctrl-K): everything that has a page, found by a few letters.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Text } from "./basics";

export interface Entry {
  name: string;
  about: string;
  act: () => void;
}

/** How well letters match a name; null if they do not. Matching in one piece and early is better. */
export function match(name: string, letters: string): number | null {
  const [text, wanted] = [name.toLowerCase(), letters.toLowerCase().replace(/\s+/g, "")];
  if (!wanted) return 0;
  const whole = text.indexOf(letters.toLowerCase().trim());
  if (whole >= 0) return 1000 - whole;
  let at = 0;
  let gaps = 0;
  for (const letter of wanted) {
    const found = text.indexOf(letter, at);
    if (found < 0) return null;
    gaps += found - at;
    at = found + 1;
  }
  return -gaps;
}

export function Palette({ entries, onClose }: { entries: Entry[]; onClose: () => void }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [wanted, setWanted] = useState("");
  const [chosen, setChosen] = useState(0);
  useEffect(() => dialog.current?.showModal(), []);
  const found = useMemo(() => {
    const scored = entries.map((entry) => ({ entry, score: match(`${entry.name} ${entry.about}`, wanted) }));
    const kept = scored.filter((one): one is { entry: Entry; score: number } => one.score !== null);
    return (wanted ? kept.sort((a, b) => b.score - a.score) : kept).slice(0, 50).map((one) => one.entry);
  }, [entries, wanted]);
  const act = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    entry.act();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step) {
      event.preventDefault();
      const next = Math.min(Math.max(chosen + step, 0), found.length - 1);
      setChosen(next);
      document.getElementById(`palette-${next}`)?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") {
      event.preventDefault();
      act(found[chosen]);
    }
  };
  return (
    <dialog
      ref={dialog}
      class="palette"
      aria-label="Go to"
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <input
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found.length ? `palette-${chosen}` : undefined}
        aria-label="Go to a page, a topic or a group"
        placeholder="Go to a page, a topic or a group …"
        value={wanted}
        onInput={(event) => {
          setWanted(event.currentTarget.value);
          setChosen(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul id="palette-list" role="listbox" aria-label="Found">
        {found.map((entry, number) => (
          <li
            key={`${entry.about} ${entry.name}`}
            id={`palette-${number}`}
            role="option"
            aria-selected={number === chosen}
            onClick={() => act(entry)}
            onMouseMove={() => setChosen(number)}
          >
            <Text>{entry.name}</Text>
            <span class="muted">{entry.about}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="muted none">Nothing matches.</p>}
    </dialog>
  );
}
