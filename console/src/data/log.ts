// What the console knows of the log: topics, groups, the server, and samples of them for the plots.
import { call } from "./api";
import { bytes } from "./format";
import { Resource } from "./resource";
import type { Group, Groups, Overview, Topic, Topics } from "./types";

const MOST_SAMPLES = 1800; // an hour at one each 2 seconds

export interface Sample {
  seconds: number;
  appended: number | null;
  committed: number | null;
  lag: number | null;
  storedBytes: number | null;
  receivedBytes: number | null;
  sentBytes: number | null;
  memoryBytes: number | null;
  cpuPercent: number | null;
}

export const samples: Sample[] = [];

export const topics = new Resource<Topics>((signal) => call("GET", "/open/topics/visible", { signal }), 2000, (value) =>
  sample(value.time_us, {
    appended: sum(value.topics, appendedCount),
    storedBytes: sum(value.topics, sizeBytes),
  }),
);
export const groups = new Resource<Groups>((signal) => call("GET", "/open/group-lags", { signal }), 2000, (value) =>
  sample(value.time_us, {
    lag: sum(value.groups, (group) => group.lag),
    committed: sum(value.groups, (group) => sum(group.partitions, (one) => one.committed ?? 0)),
  }),
);
export const overview = new Resource<Overview>((signal) => call("GET", "/open/overview", { signal }), 2000, (value) =>
  sample(value.time_us, {
    receivedBytes: sum(value.transports, (one) => one.received_bytes),
    sentBytes: sum(value.transports, (one) => one.sent_bytes),
    memoryBytes: value.memory_bytes,
    cpuPercent: value.cpu_usage,
  }),
);

export function forgetAll(): void {
  for (const resource of [topics, groups, overview]) resource.clear();
  samples.length = 0;
}

export const sum = <T>(items: T[], of: (item: T) => number): number => items.reduce((total, item) => total + of(item), 0);
export const appendedCount = (topic: Topic): number => sum(topic.partitions, (one) => one.end_offset);
export const sizeBytes = (topic: Topic): number => sum(topic.partitions, (one) => one.size_bytes);
/** The size of topics in words; a Kafka cluster does not tell it. */
export const sizeText = (all: Topic[]): string => {
  const size = sum(all, sizeBytes);
  return size === 0 && sum(all, messagesCount) > 0 ? "–" : bytes(size);
};
export const messagesCount = (topic: Topic): number =>
  sum(topic.partitions, (one) => one.end_offset - one.first_offset - one.compacted_count);
export const fullName = (topic: Topic): string => `${topic.stream}/${topic.name}`;
export const lagOf = (one: { committed: number | null; first_offset: number; end_offset: number }): number =>
  Math.max(0, one.end_offset - Math.max(one.committed ?? 0, one.first_offset));

/** The present time by the server's clock, which may differ from the browser's. */
export const nowUs = (): number => Date.now() * 1000 + skewUs;
let skewUs = 0;

/** Return a function that finds an item of an answer by its name; each answer is indexed once. */
function finder<A extends object, T>(itemsOf: (answer: A) => T[], nameOf: (item: T) => string): (answer: A, item: T) => T | undefined {
  const known = new WeakMap<A, Map<string, T>>();
  return (answer, item) => {
    let byName = known.get(answer);
    if (!byName) {
      byName = new Map(itemsOf(answer).map((one) => [nameOf(one), one]));
      known.set(answer, byName);
    }
    return byName.get(nameOf(item));
  };
}

export const groupName = (group: Group): string => `${group.stream}/${group.topic}/${group.name}`;
const findTopic = finder((answer: Topics) => answer.topics, fullName);
const findGroup = finder((answer: Groups) => answer.groups, groupName);

/** Messages appended to a topic each second, between the last two answers. */
export function appendRate(topic: Topic): number | null {
  const { value, previous } = topics;
  if (!value || !previous || value.time_us <= previous.time_us) return null;
  const before = findTopic(previous, topic);
  if (!before) return null;
  return Math.max(0, appendedCount(topic) - appendedCount(before)) / ((value.time_us - previous.time_us) / 1e6);
}

/** Messages that a group commits each second, between the last two answers. */
export function commitRate(group: Group): number | null {
  const { value, previous } = groups;
  if (!value || !previous || value.time_us <= previous.time_us) return null;
  const before = findGroup(previous, group);
  if (!before) return null;
  const total = (one: Group) => sum(one.partitions, (part) => part.committed ?? 0);
  return Math.max(0, total(group) - total(before)) / ((value.time_us - previous.time_us) / 1e6);
}

function sample(timeUs: number, values: Partial<Sample>): void {
  skewUs = timeUs - Date.now() * 1000;
  const seconds = Math.round(timeUs / 1e6 / 2) * 2; // answers to one round of questions share a sample
  const last = samples.at(-1);
  if (last && last.seconds >= seconds) {
    Object.assign(last, values);
    return;
  }
  const none: Sample = {
    seconds,
    appended: null,
    committed: null,
    lag: null,
    storedBytes: null,
    receivedBytes: null,
    sentBytes: null,
    memoryBytes: null,
    cpuPercent: null,
  };
  samples.push({ ...none, ...values });
  if (samples.length > MOST_SAMPLES) samples.splice(0, samples.length - MOST_SAMPLES);
}
