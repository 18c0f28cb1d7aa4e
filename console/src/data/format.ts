// Numbers, sizes, times and bytes as text. Every number has its unit.

const NUMBER = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** A count with separators. */
export const count = (value: number): string => NUMBER.format(value);

/** A count in few characters, as in 1.2M. */
export const short = (value: number): string => (Math.abs(value) < 10_000 ? NUMBER.format(round(value)) : SHORT.format(value));

/** `1 message`, `2 messages`. */
export const plural = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

/** A size in binary units, as in 1.5 MiB. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  let size = value;
  while (Math.abs(size) >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? count(round(size)) : size >= 100 ? size.toFixed(0) : size.toFixed(1)} ${units[unit]}`;
}

/** A rate of a count, as in 12.5 /s. */
export const rate = (value: number | null): string => (value === null ? "–" : `${short(value)} /s`);

/** A rate of bytes. */
export const byteRate = (value: number | null): string => (value === null ? "–" : `${bytes(value)}/s`);

/** A duration in microseconds in its two largest units, as in 3 d 4 h. */
export function duration(us: number): string {
  const seconds = us / 1e6;
  if (seconds < 1) return `${round(us / 1000)} ms`;
  const units: [string, number][] = [
    ["d", 86_400],
    ["h", 3600],
    ["min", 60],
    ["s", 1],
  ];
  const parts: string[] = [];
  let rest = Math.floor(seconds);
  for (const [name, length] of units) {
    const whole = Math.floor(rest / length);
    rest -= whole * length;
    if (whole > 0) parts.push(`${name === "d" ? count(whole) : whole} ${name}`);
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

/** A time as local text with milliseconds. */
export function time(us: number): string {
  const at = new Date(us / 1000);
  const two = (part: number, width = 2) => String(part).padStart(width, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${two(at.getMilliseconds(), 3)}`;
}

/** A time as UTC text with microseconds. */
export function utc(us: number): string {
  const whole = new Date(Math.floor(us / 1000)).toISOString();
  return `${whole.slice(0, -1)}${String(Math.floor(us % 1000)).padStart(3, "0")}Z`;
}

function round(value: number): number {
  return Math.abs(value) >= 100 || Number.isInteger(value) ? Math.round(value) : Math.round(value * 10) / 10;
}

/** The bytes of a base64 text. */
export function fromBase64(text: string): Uint8Array {
  const binary = atob(text);
  const found = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) found[at] = binary.charCodeAt(at);
  return found;
}

/** The text of bytes, or null if they are not UTF-8 or not readable. A character cut at the end is dropped. */
export function readableText(data: Uint8Array, isCut: boolean): string | null {
  for (let dropped = 0; dropped < (isCut ? 4 : 1) && dropped <= data.length; dropped += 1) {
    try {
      const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data.subarray(0, data.length - dropped));
      // biome-ignore lint: control characters are what is looked for
      return /[\u0000-\u0008\u000e-\u001a\u001c-\u001f]/.test(text) ? null : text;
    } catch {
      // cut within a character, or no text
    }
  }
  return null;
}

/** Lines of hexadecimal digits with offsets and the printable characters, 16 bytes each. */
export function hexLines(data: Uint8Array): string[] {
  const lines: string[] = [];
  for (let at = 0; at < data.length; at += 16) {
    const row = [...data.subarray(at, at + 16)];
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0"));
    const characters = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "."));
    const left = digits.slice(0, 8).join(" ").padEnd(23);
    lines.push(`${at.toString(16).padStart(6, "0")}  ${left}  ${digits.slice(8).join(" ").padEnd(23)}  ${characters.join("")}`);
  }
  return lines;
}
