// The page is in the fragment of the address, so that it can be linked and the server serves one file.
import { useEffect, useState } from "preact/hooks";

export interface Place {
  parts: string[];
  query: URLSearchParams;
}

export function readPlace(): Place {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean);
  return { parts: parts.map(decode), query: new URLSearchParams(query) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The address of a page. */
export function link(parts: (string | number)[], query: Record<string, string | number | undefined> = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : "";
  return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}${text}`;
}

export function usePlace(): Place {
  const [place, setPlace] = useState(readPlace);
  useEffect(() => {
    const read = () => setPlace(readPlace());
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, []);
  return place;
}
