// Replicate pipelines: their reports, and what they do a second, from the reports before.
import { call } from "./api";
import { sum } from "./log";
import { Resource } from "./resource";
import type { Pipeline, PipelineTable, Pipelines } from "./types";

const MOST_SAMPLES = 10;

interface Sample {
  updatedUs: number;
  messages: number;
  changes: number;
  bytes: number;
}

const samples = new Map<string, Sample[]>();

export const pipelines = new Resource<Pipelines>((signal) => call("GET", "/open/pipelines", { signal }), 2000, (value) => {
  for (const one of value.pipelines) keep(one);
});

export function forgetPipelines(): void {
  pipelines.clear();
  samples.clear();
}

function keep({ checkpoint, report }: Pipeline): void {
  if (!report?.run || report.updated_us === null) return;
  const known = samples.get(checkpoint) ?? [];
  const last = known.at(-1);
  if (last && last.updatedUs === report.updated_us) return;
  const isNewRun = last !== undefined && report.run.messages < last.messages;
  const kept = isNewRun ? [] : known.slice(1 - MOST_SAMPLES);
  samples.set(checkpoint, [...kept, { updatedUs: report.updated_us, messages: report.run.messages, changes: report.run.changes, bytes: report.run.bytes }]);
}

/** What a pipeline does a second, over its last few status updates; null before the second one. */
export function rateOf(checkpoint: string, what: "messages" | "changes" | "bytes"): number | null {
  const known = samples.get(checkpoint) ?? [];
  const [first, last] = [known[0], known.at(-1)];
  if (!first || !last || last.updatedUs <= first.updatedUs) return null;
  return Math.max(0, last[what] - first[what]) / ((last.updatedUs - first.updatedUs) / 1e6);
}

/** The last directories of a checkpoint's place, which tell pipelines apart. */
export const shortName = (checkpoint: string): string => checkpoint.split("/").filter(Boolean).slice(-2).join("/");

export const rowsOf = (table: PipelineTable): number => table.inserted + table.updated + table.deleted;

export const largestLag = (tables: PipelineTable[]): number | null =>
  tables.reduce<number | null>((most, one) => (one.lag_seconds === null ? most : Math.max(most ?? 0, one.lag_seconds)), null);

export const failingCount = (tables: PipelineTable[]): number => sum(tables, (one) => (one.failing ? 1 : 0));
