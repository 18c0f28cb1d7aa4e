// A live plot over the last minutes (uPlot), with the newest value in words for those who do not see it.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { nowUs, type Sample, samples } from "../data/log";

const WINDOW_S = 600;
const LEAST_S = 60;
const HEIGHT = 150;
const BINARY_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);

export interface Line {
  label: string;
  color: string; // a variable of the style sheet
  value: (sample: Sample) => number | null;
  isRate?: boolean; // of a counter: shown by its growth a second
  scale?: number;
}

interface Props {
  title: string;
  lines: Line[];
  spell: (value: number) => string;
  isBytes?: boolean;
}

/** The times and values of lines; a counter that has gone back (a restart) leaves a gap. */
export function seriesOf(lines: Line[], from: number): (number | null)[][] {
  const shown = samples.filter((sample) => sample.seconds >= from);
  const columns = lines.map((line) => {
    let last: { seconds: number; value: number } | null = null;
    return shown.map((sample) => {
      const value = line.value(sample);
      if (value === null) return null;
      if (!line.isRate) return value;
      const before = last;
      last = { seconds: sample.seconds, value };
      return before === null || value < before.value ? null : (value - before.value) / (sample.seconds - before.seconds);
    });
  });
  return [shown.map((sample) => sample.seconds), ...columns];
}

export function Plot({ title, lines, spell, isBytes = false }: Props): JSX.Element {
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const now = samples.at(-1)?.seconds ?? nowUs() / 1e6;
  const data = seriesOf(lines, now - WINDOW_S);
  const newest = lines.map((line, number) => {
    const value = data[number + 1]?.findLast((one) => one !== null) ?? null;
    return { line, value };
  });

  useEffect(() => {
    const element = holder.current;
    if (!element) return undefined;
    const make = () => {
      plot.current?.destroy();
      const colors = getComputedStyle(document.documentElement);
      const color = (name: string) => colors.getPropertyValue(name).trim();
      const axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
      const font = `11px ${colors.getPropertyValue("--font")}`;
      plot.current = new uPlot(
        {
          width: element.clientWidth,
          height: HEIGHT,
          legend: { show: false },
          cursor: { y: false, points: { size: 5 } },
          scales: { x: { time: true, range: () => [beginning(), nowUs() / 1e6] }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
          axes: [
            { ...axis, font, size: 26, values: (_, ticks) => ticks.map((tick) => clock(tick, (ticks[1] ?? 0) - (ticks[0] ?? 0) < 60)), space: 70 },
            { ...axis, font, size: 76, values: (_, ticks) => ticks.map(spell), space: 30, ...(isBytes ? { incrs: BINARY_STEPS } : {}) },
          ],
          series: [
            {},
            ...lines.map((line) => ({
              label: line.label,
              stroke: color(line.color),
              fill: `${color(line.color)}22`,
              width: 1.5,
              spanGaps: true,
              points: { show: false },
            })),
          ],
        },
        data as uPlot.AlignedData,
        element,
      );
    };
    make();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    const themed = new MutationObserver(make);
    themed.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => {
      resized.disconnect();
      themed.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => plot.current?.setData(data as uPlot.AlignedData));

  const words = newest.map(({ line, value }) => `${line.label}: ${value === null ? "not known yet" : spell(value)}`);
  return (
    <figure class="plot">
      <figcaption>
        <span class="name">{title}</span>
        {newest.map(({ line, value }) => (
          <span key={line.label} class="legend">
            <i class={`swatch ${line.color.slice(2)}`} /> {line.label} <b>{value === null ? "–" : spell(value)}</b>
          </span>
        ))}
      </figcaption>
      <div ref={holder} role="img" aria-label={`${title}, the last ten minutes. Now ${words.join(", ")}.`} />
      {data[0]!.length < 3 && <p class="collecting">collecting …</p>}
    </figure>
  );
}

/** Where the plot begins: with the first sample, a minute to ten minutes ago. */
function beginning(): number {
  const now = nowUs() / 1e6;
  return Math.min(Math.max(samples[0]?.seconds ?? now, now - WINDOW_S), now - LEAST_S);
}

function clock(seconds: number, isExact: boolean): string {
  const at = new Date(seconds * 1000);
  const parts = [at.getHours(), at.getMinutes(), ...(isExact ? [at.getSeconds()] : [])];
  return parts.map((part) => String(part).padStart(2, "0")).join(":");
}
