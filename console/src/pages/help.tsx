// The keys.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

const KEYS: [string, string][] = [
  ["Ctrl K", "go to a page, a topic or a group"],
  ["/", "filter or search on this page"],
  ["j  k", "next and previous row or message"],
  ["Enter", "open"],
  ["Home  End", "first and newest message"],
  ["Page Up  Page Down", "a screen of messages"],
  ["Esc", "close"],
  ["?", "these keys"],
];

export function Help({ onClose }: { onClose: () => void }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby="help-title" onClose={onClose}>
      <h2 id="help-title">Keys</h2>
      <dl class="keys">
        {KEYS.map(([keys, about]) => (
          <>
            <dt>
              {keys.split("  ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{about}</dd>
          </>
        ))}
      </dl>
      <div class="buttons">
        <button type="button" class="primary" onClick={onClose}>
          Close
        </button>
      </div>
    </dialog>
  );
}
