// Requests to the server that served this page. The access token is in a cookie that scripts cannot read.

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly code = "",
  ) {
    super(message);
  }
}

type Query = Record<string, string | number | undefined>;

interface Options {
  body?: unknown;
  query?: Query;
  signal?: AbortSignal;
}

/** Called when the server no longer accepts the login. */
export const onSignedOut = new Set<() => void>();

/** The path of a partition, for requests about its messages. */
export function partitionPath(stream: string, topic: string, partition: number): string {
  return `${topicPath(stream, topic)}/partitions/${partition}`;
}

/** The path of a topic. A name of digits alone would be taken for an id, which no name of the console is. */
export function topicPath(stream: string, topic: string): string {
  return `/streams/${encodeURIComponent(stream)}/topics/${encodeURIComponent(topic)}`;
}

/** Ask the server; an ApiError says what it refused, in its words. */
export async function call<T>(method: string, path: string, options: Options = {}): Promise<T> {
  const response = await send(method, path, options);
  const text = await response.text();
  if (response.ok) return (text ? JSON.parse(text) : null) as T;
  const error = readError(response.status, text);
  if (response.status === 401 && !path.endsWith("/login")) for (const react of onSignedOut) react();
  throw error;
}

/** The bytes of a reply, in parts; refused beyond `most` bytes. `onPart` is told how many have come. */
export async function download(path: string, most: number, signal?: AbortSignal, onPart: (count: number) => void = () => {}): Promise<Blob> {
  const response = await send("GET", path, signal ? { signal } : {});
  if (!response.ok) throw readError(response.status, await response.text());
  if (Number(response.headers.get("content-length") ?? 0) > most) throw new ApiError(0, "too large to show: save the payload instead");
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let count = 0;
  for (const reader = response.body!.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return new Blob(parts);
    parts.push(value);
    count += value.length;
    onPart(count);
  }
}

async function send(method: string, path: string, options: Options): Promise<Response> {
  const query = Object.entries(options.query ?? {}).filter(([, value]) => value !== undefined);
  const text = query.length ? `?${new URLSearchParams(query.map(([name, value]) => [name, String(value)]))}` : "";
  const headers: Record<string, string> = { "x-headstream-console": "1" };
  const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store", redirect: "error" };
  if (options.body !== undefined) {
    headers["content-type"] = "application/json";
    init.body = JSON.stringify(options.body);
  }
  if (options.signal) init.signal = options.signal;
  try {
    return await fetch(path + text, init);
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer. Retrying.", "unreachable");
  }
}

function readError(status: number, text: string): ApiError {
  try {
    const found = JSON.parse(text) as { reason?: string; code?: string };
    if (found.reason) return new ApiError(status, found.reason, found.code ?? "");
  } catch {
    // a text
  }
  if (status === 401) return new ApiError(status, "Not logged in, or the login has expired.");
  return new ApiError(status, text || `The server answered ${status}.`);
}
