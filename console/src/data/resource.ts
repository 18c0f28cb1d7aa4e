// Values that are asked for again and again while something shows them, with their age and errors.
import { useEffect, useState } from "preact/hooks";
import type { ApiError } from "./api";

const SLOW_SHARE = 8; // an answer that takes long is asked for less often: a console must not be a server's load

/** What a page needs to know to tell how old its values are. */
export interface Asked {
  readonly value: unknown;
  readonly error: ApiError | null;
  readonly fetchedMs: number;
  readonly refresh: () => Promise<void>;
}

export class Resource<T> {
  value: T | null = null;
  previous: T | null = null;
  error: ApiError | null = null;
  fetchedMs = 0;
  private readonly listeners = new Set<() => void>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private asking: AbortController | undefined;

  constructor(
    private readonly ask: (signal: AbortSignal) => Promise<T>,
    private readonly everyMs: number,
    private readonly onValue: (value: T) => void = () => {},
  ) {}

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    if (this.listeners.size === 1) this.schedule(Math.max(0, this.everyMs - (Date.now() - this.fetchedMs)));
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size === 0) this.pause();
    };
  }

  /** Ask now; the value may have been changed by an action. */
  refresh = async (): Promise<void> => {
    this.pause();
    await this.run();
  };

  /** Forget everything: another user logs in. */
  clear(): void {
    this.pause();
    this.value = null;
    this.previous = null;
    this.error = null;
    this.fetchedMs = 0;
  }

  private pause(): void {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.asking = undefined;
  }

  private schedule(afterMs: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (document.visibilityState === "hidden") this.schedule(this.everyMs);
      else void this.run();
    }, afterMs);
  }

  private async run(): Promise<void> {
    const asking = new AbortController();
    this.asking = asking;
    const started = performance.now();
    try {
      const value = await this.ask(asking.signal);
      if (asking.signal.aborted) return;
      this.previous = this.value;
      this.value = value;
      this.error = null;
      this.fetchedMs = Date.now();
      this.onValue(value);
    } catch (error) {
      if (asking.signal.aborted) return;
      this.error = error as ApiError;
    }
    this.asking = undefined;
    for (const listener of this.listeners) listener();
    if (this.listeners.size > 0) this.schedule(Math.max(this.everyMs, SLOW_SHARE * (performance.now() - started)));
  }
}

/** Show a resource: the component is drawn again with each value. */
export function useResource<T>(resource: Resource<T>, isWanted = true): Resource<T> {
  const [, draw] = useState(0);
  useEffect(() => (isWanted ? resource.subscribe(() => draw((n) => n + 1)) : undefined), [resource, isWanted]);
  return resource;
}

const tickers = new Set<() => void>();
setInterval(() => {
  for (const tick of tickers) tick();
}, 1000);

/** Draw the component again each second, for ages. */
export function useSeconds(): void {
  const [, draw] = useState(0);
  useEffect(() => {
    const tick = () => draw((n) => n + 1);
    tickers.add(tick);
    return () => {
      tickers.delete(tick);
    };
  }, []);
}
