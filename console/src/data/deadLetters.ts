// Dead letters: which topics have them, their reasons, and what is done with many of them, a bounded part in each request.
import { call, partitionPath } from "./api";
import type { Browsed, Header, DeadLetterReason, Message, Topic } from "./types";

const MOST_SHOWN = 200; // letters that are loaded at a time
const PREVIEW_BYTES = 512;

/** Whether a topic has dead letters, by its name; any other topic can be opened too. */
export const isDeadLetterTopic = (topic: Topic): boolean => /(^|[._-])(dead|dlq|dead[._-]?letters?)$/i.test(topic.name);

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** The filter of the dead letters that a reason counts. */
export function filterOf(reason: DeadLetterReason): string {
  const is = (name: string, value: string | null) => (value === null ? `${name} IS NULL` : `${name} = ${quoted(value)}`);
  const parts = [is("hs.origin.topic", reason.topic), is("hs.origin.group", reason.group), is("hs.reason_code", reason.reason_code)];
  return [...parts, ...(reason.is_rest ? [] : [is("hs.reason", reason.reason)])].join(" AND ");
}

export const keyOfReason = (one: DeadLetterReason): string => JSON.stringify([one.topic, one.group, one.reason_code, one.reason, one.is_rest]);

export interface Counted {
  reasons: DeadLetterReason[];
  deadLetters: number;
  scanned: number;
  isRunning: boolean;
}

interface CountedPart {
  next_offset: number;
  is_last: boolean;
  scanned_count: number;
  reasons: DeadLetterReason[];
}

/** Count the dead letters of a topic by reason, part after part; `signal` ends it. */
export async function countReasons(topic: Topic, signal: AbortSignal, onProgress: (found: Counted) => void): Promise<void> {
  const found = new Map<string, DeadLetterReason>();
  let scanned = 0;
  const tell = (isRunning: boolean) => {
    const reasons = [...found.values()].sort((a, b) => b.count - a.count);
    onProgress({ reasons, deadLetters: reasons.reduce((total, one) => total + one.count, 0), scanned, isRunning });
  };
  for (const { number, first_offset } of topic.partitions) {
    for (let from = first_offset, isLast = false; !isLast; ) {
      const path = `${partitionPath(topic.stream, topic.name, number)}/letters/reasons`;
      const part = await call<CountedPart>("GET", path, { query: { from_offset: from }, signal });
      for (const one of part.reasons) found.set(keyOfReason(one), merged(found.get(keyOfReason(one)), one));
      scanned += part.scanned_count;
      [from, isLast] = [part.next_offset, part.is_last];
      tell(true);
    }
  }
  tell(false);
}

const least = (a: number | null, b: number | null): number | null => (a === null || b === null ? (a ?? b) : Math.min(a, b));
const most = (a: number | null, b: number | null): number | null => (a === null || b === null ? (a ?? b) : Math.max(a, b));

function merged(a: DeadLetterReason | undefined, b: DeadLetterReason): DeadLetterReason {
  if (!a) return b;
  return {
    ...a,
    count: a.count + b.count,
    most_attempts: most(a.most_attempts, b.most_attempts),
    first_failed_us: least(a.first_failed_us, b.first_failed_us),
    last_failed_us: most(a.last_failed_us, b.last_failed_us),
  };
}

/** A dead letter and its partition. */
export interface DeadLetter {
  partition: number;
  message: Message;
}

export interface Found {
  deadLetters: DeadLetter[];
  next: { partition: number; offset: number } | null; // where to go on
  isRunning: boolean;
}

/** Find more dead letters that match a filter, after those found. */
export async function findDeadLetters(topic: Topic, where: string, before: Found, signal: AbortSignal, onProgress: (found: Found) => void): Promise<void> {
  const deadLetters = [...before.deadLetters];
  const most = deadLetters.length + MOST_SHOWN;
  const numbers = topic.partitions.map((one) => one.number);
  let index = before.next ? numbers.indexOf(before.next.partition) : 0;
  let offset = before.next?.offset ?? topic.partitions[0]?.first_offset ?? 0;
  while (index >= 0 && index < topic.partitions.length && deadLetters.length < most) {
    const partition = topic.partitions[index]!;
    const path = `${partitionPath(topic.stream, topic.name, partition.number)}/messages/browse`;
    const filter = where ? `_state = 'available' AND (${where})` : "_state = 'available'";
    const query = { kind: "offset", value: offset, count: Math.min(100, most - deadLetters.length), payload_bytes: PREVIEW_BYTES, where: filter };
    const found = await call<Browsed>("GET", path, { query, signal });
    deadLetters.push(...found.messages.map((message) => ({ partition: partition.number, message })));
    if (found.next_offset >= found.end_offset || found.next_offset <= offset) {
      index += 1;
      offset = topic.partitions[index]?.first_offset ?? 0;
    } else {
      offset = found.next_offset;
    }
    const next = topic.partitions[index];
    onProgress({ deadLetters: [...deadLetters], next: next ? { partition: next.number, offset } : null, isRunning: deadLetters.length < most && next !== undefined });
  }
}

/** What a dead letter tells of its message: its headers by name, without those that the message had. */
export function historyOf(message: Message): Record<string, string> {
  const story = message.headers.filter((header: Header) => header.key.startsWith("hs."));
  return Object.fromEntries(story.map((header) => [header.key.slice(3), header.value]));
}

export type Action = "redrive" | "discard";

/** Which dead letters: those of a filter, or a single one. */
export interface Chosen {
  where: string;
  single: { partition: number; offset: number } | null;
}

export interface Progress {
  matched: number;
  done: number; // sent back, or discarded
  resumed: number;
  foreign: number; // left: no letters, or their topic is gone
  part: number; // 0 to 1
}

interface Done {
  next_offset: number;
  is_last: boolean;
  matched: number;
  redriven?: number;
  discarded?: number;
  resumed?: number;
  foreign?: number;
}

interface Bulk {
  action: Action;
  topic: Topic;
  chosen: Chosen;
  isDry: boolean;
  perSecond: number | null;
}

/** Send back or discard dead letters, part after part, until `isStopped`; letters that come meanwhile are not concerned. */
export async function actOnDeadLetters(bulk: Bulk, isStopped: () => boolean, onProgress: (progress: Progress) => void): Promise<void> {
  const { action, topic, chosen, isDry, perSecond } = bulk;
  const parts = topic.partitions
    .filter((one) => chosen.single === null || one.number === chosen.single.partition)
    .map((one) => ({
      number: one.number,
      from: chosen.single?.offset ?? one.first_offset,
      until: chosen.single ? chosen.single.offset + 1 : one.end_offset,
    }));
  const total = Math.max(1, parts.reduce((sum, one) => sum + one.until - one.from, 0));
  const progress: Progress = { matched: 0, done: 0, resumed: 0, foreign: 0, part: 0 };
  let passed = 0;
  for (const { number, from, until } of parts) {
    const path = `${partitionPath(topic.stream, topic.name, number)}/letters/${action}`;
    for (let at = from, isLast = from >= until, isFirst = true; !isLast && !isStopped(); isFirst = false) {
      const started = performance.now();
      const body: Record<string, unknown> = { from_offset: at, until_offset: until, where: chosen.where, dry_run: isDry };
      if (action === "redrive" && !isDry) Object.assign(body, { resumes: isFirst, count: Math.min(perSecond ?? 200, 1000) });
      const done = await call<Done>("POST", path, { body });
      progress.matched += done.matched;
      progress.done += done.redriven ?? done.discarded ?? 0;
      progress.resumed += done.resumed ?? 0;
      progress.foreign += done.foreign ?? 0;
      passed += Math.max(0, Math.min(done.next_offset, until) - at);
      [at, isLast] = [done.next_offset, done.is_last];
      onProgress({ ...progress, part: Math.min(1, passed / total) });
      const rest = 1000 - (performance.now() - started);
      if (perSecond !== null && !isDry && !isLast && rest > 0) await new Promise((resolve) => setTimeout(resolve, rest));
    }
  }
}
