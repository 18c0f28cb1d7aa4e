// Keys that work everywhere: Ctrl-K, /, j, k, ?. Within a field only Ctrl-K.
import { useEffect } from "preact/hooks";

interface Actions {
  openPalette: () => void;
  openHelp: () => void;
}

/** The rows of the page: what j and k move between. */
const rows = (): HTMLElement[] => [...document.querySelectorAll<HTMLElement>("main tbody tr a, main tbody tr [data-row]")].filter(isFirst);

function isFirst(element: HTMLElement): boolean {
  return element.closest("tr")?.querySelector("a, [data-row]") === element;
}

export function useKeys({ openPalette, openHelp }: Actions): void {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        openPalette();
        return;
      }
      const target = event.target as HTMLElement;
      const isInField = target.matches("input, textarea, select, [contenteditable]");
      if (isInField && event.key === "Escape") target.blur();
      if (isInField || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (event.key === "/") {
        const filter = document.querySelector<HTMLInputElement>("[data-filter]");
        if (filter) {
          event.preventDefault();
          filter.focus();
          filter.select();
        }
      } else if (event.key === "?") {
        openHelp();
      } else if ((event.key === "j" || event.key === "k") && !document.querySelector("[data-list]")) {
        const all = rows();
        const at = all.indexOf(document.activeElement as HTMLElement);
        const next = event.key === "j" ? at + 1 : at < 0 ? all.length - 1 : at - 1;
        all[Math.min(Math.max(next, 0), all.length - 1)]?.focus();
      }
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, [openPalette, openHelp]);
}
