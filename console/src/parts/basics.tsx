// Small parts that every page uses: foreign text, ages, notices, tiles, tabs, buttons.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { ApiError } from "../data/api";
import { duration, time, utc } from "../data/format";
import { type Asked, useSeconds } from "../data/resource";

// Controls, and characters that change the order of others or are invisible: shown by their number instead.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

const spelled = (character: string): string => `U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** Whether somebody has typed a name, its invisible characters as they are or by the numbers that are shown. */
export const isTyped = (typed: string, name: string): boolean => typed === name || typed === name.replace(HIDDEN, spelled);

const LONG_NAME = 40; // tables cut it

/** Text of somebody else: isolated from its surroundings, with invisible characters made visible. */
export function Text({ children, breaks = false }: { children: string; breaks?: boolean }): JSX.Element {
  const parts: ComponentChildren[] = [];
  let from = 0;
  for (const found of children.matchAll(HIDDEN)) {
    // joiners within emoji and right-to-left marks are part of ordinary text
    if ((found[0] === "\u200d" || found[0] === "\u200c") && found.index > 0) continue;
    parts.push(children.slice(from, found.index));
    parts.push(<span class="control">{spelled(found[0])}</span>);
    from = found.index + 1;
  }
  parts.push(children.slice(from));
  const isLong = !breaks && children.length > LONG_NAME && parts.length === 1;
  return (
    <bdi class={breaks ? "text breaks" : "text"} title={isLong ? children : undefined}>
      {parts}
    </bdi>
  );
}

export function Time({ us }: { us: number }): JSX.Element {
  return (
    <time dateTime={utc(us)} title={utc(us)}>
      {time(us)}
    </time>
  );
}

/** How old what is shown is, and whether asking fails. */
export function Age({ of }: { of: Asked }): JSX.Element {
  useSeconds();
  if (of.error && of.value !== null) {
    return (
      <span class="age failing" role="status">
        <span class="dot" /> {of.error.message} Values are {age(of.fetchedMs)} old.
      </span>
    );
  }
  if (of.value === null) return <span class="age">loading …</span>;
  return (
    <span class="age">
      <span class="dot" /> {age(of.fetchedMs)} old
    </span>
  );
}

const age = (ms: number): string => duration(Math.max(1e6, (Date.now() - ms) * 1000));

export function Failure({ error, children }: { error: ApiError | Error; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="notice bad" role="alert">
      <p>{error.message}</p>
      {children}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <p class="title">{title}</p>
      {children}
    </div>
  );
}

/** A page of something that is not there, or that the user may not see. */
export function Missing({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <h1 class="title">{title}</h1>
      {children}
    </div>
  );
}

/** What is shown before the first value, and if there is none. */
export function Waiting({ of }: { of: Asked }): JSX.Element {
  if (of.error) {
    return (
      <Failure error={of.error}>
        <button type="button" onClick={() => void of.refresh()}>
          Try again
        </button>
      </Failure>
    );
  }
  return (
    <div class="skeletons" role="status" aria-label="loading">
      <div class="skeleton" />
      <div class="skeleton" />
      <div class="skeleton" />
    </div>
  );
}

interface TileProps {
  label: string;
  value: string;
  about?: ComponentChildren;
  tone?: "bad" | "good" | "warn";
}

export function Tile({ label, value, about, tone }: TileProps): JSX.Element {
  return (
    <div class={`tile ${tone ?? ""}`}>
      <dt>{label}</dt>
      <dd>
        <strong>{value}</strong>
        {about !== undefined && <small>{about}</small>}
      </dd>
    </div>
  );
}

interface HeadProps {
  title: ComponentChildren;
  trail?: [string, string][];
  of?: Asked | undefined;
  children?: ComponentChildren;
}

/** The head of a page: where it is, how old its values are, and what can be done. */
export function Head({ title, trail = [], of, children }: HeadProps): JSX.Element {
  return (
    <header class="head">
      <div>
        {trail.length > 0 && (
          <nav class="trail" aria-label="path">
            {trail.map(([text, to]) => (
              <>
                <a href={to}>
                  <Text>{text}</Text>
                </a>
                <span aria-hidden="true">/</span>
              </>
            ))}
          </nav>
        )}
        <h1>{title}</h1>
      </div>
      {of && <Age of={of} />}
      <div class="actions">{children}</div>
    </header>
  );
}

interface TabsProps {
  label: string;
  names: readonly string[];
  chosen: string;
  onChoose: (name: string) => void;
}

export function Tabs({ label, names, chosen, onChoose }: TabsProps): JSX.Element {
  return (
    <div class="tabs" role="group" aria-label={label}>
      {names.map((name) => (
        <button type="button" key={name} aria-pressed={name === chosen} onClick={() => onChoose(name)}>
          {name}
        </button>
      ))}
    </div>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }): JSX.Element {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button type="button" class="small" onClick={() => void copy().catch(() => setDone(false))}>
      {done ? "Copied" : label}
    </button>
  );
}

export function Command({ children }: { children: string }): JSX.Element {
  return (
    <div class="command">
      <code>{children}</code>
      <Copy text={children} />
    </div>
  );
}
