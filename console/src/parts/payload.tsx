// A payload as text, JSON tree or bytes; as the server decodes it where it knows the schema; whole, and as a file.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { download } from "../data/api";
import { bytes, fromBase64, hexLines, readableText } from "../data/format";
import type { Decodes } from "../data/rights";
import type { Cut } from "../data/types";
import { Copy, Failure, Tabs, Text } from "./basics";
import { type Json, JsonTree, Pairs, readJson } from "./json";

const WHOLE_BYTES = 1 << 20; // more is saved as a file instead
const MOST_DECODED_BYTES = 8 << 20;
const MOST_EXPLAINED_BYTES = 1 << 20; // the server decodes no larger payload
const ENVELOPE = [...new TextEncoder().encode("atMSG")]; // of Replicate
const SINGLE_OBJECT = [0xc3, 0x01]; // of Avro: the fingerprint of its schema follows
const REGISTRY = [0x00]; // the number of its schema follows

/** Whether the server can try to decode a payload, by its first bytes or by a header that names its schema. */
function isDecoded(data: Uint8Array, sizeBytes: number, { replicate, avro }: Decodes, namesSchema: boolean): boolean {
  if (sizeBytes > MOST_EXPLAINED_BYTES) return false;
  const begins = (mark: number[]) => mark.every((byte, index) => data[index] === byte);
  if (begins(ENVELOPE)) return replicate;
  return avro && (namesSchema || (begins(SINGLE_OBJECT) && data.length >= 10) || (begins(REGISTRY) && data.length >= 5));
}

/** Loads bytes with their progress, until it is stopped; what is loading is null or the bytes that have come. */
function useDownload(path: string): { loading: number | null; error: Error | null; load: (most: number) => Promise<Blob | null>; stop: () => void } {
  const [loading, setLoading] = useState<number | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const asking = useRef<AbortController | null>(null);
  const stop = () => asking.current?.abort();
  useEffect(() => stop, []);
  const load = async (most: number) => {
    stop();
    const own = new AbortController();
    asking.current = own;
    setError(null);
    setLoading(0);
    try {
      return await download(path, most, own.signal, setLoading);
    } catch (refused) {
      if (!own.signal.aborted) setError(refused as Error);
      return null;
    } finally {
      setLoading(null);
    }
  };
  return { loading, error, load, stop };
}

export function Payload({ cut, path, decodes, namesSchema }: { cut: Cut; path: string; decodes: Decodes; namesSchema: boolean }): JSX.Element {
  const [whole, setWhole] = useState<Uint8Array | null>(null);
  const [form, setForm] = useState<string | null>(null);
  const { loading, error, load, stop } = useDownload(`${path}/payload`);
  const data = whole ?? fromBase64(cut.base64);
  const isCut = data.length < cut.size_bytes;
  const text = readableText(data, isCut);
  const json = text !== null && !isCut && /^\s*[[{"\d-tfn]/.test(text) ? readJson(text) : undefined;
  const forms = [...(isDecoded(data, cut.size_bytes, decodes, namesSchema) ? ["Decoded"] : []), ...(json !== undefined ? ["JSON"] : []), ...(text !== null ? ["Text"] : []), "Hex"];
  const shown = form !== null && forms.includes(form) ? form : forms[0]!;
  const loadWhole = async () => {
    const found = await load(WHOLE_BYTES);
    if (found) setWhole(new Uint8Array(await found.arrayBuffer()));
  };
  const save = async () => {
    const found = await load(Number.POSITIVE_INFINITY);
    if (!found) return;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(found);
    link.download = path.split("/").slice(2).join("-").concat(".bin");
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <div class="payload">
      <div class="tools">
        <Tabs label="Show the payload as" names={forms} chosen={shown} onChoose={setForm} />
        <span class="muted">{bytes(cut.size_bytes)}</span>
        <span class="space" />
        {text !== null && !isCut && <Copy text={text} />}
        <button type="button" class="small" disabled={loading !== null} onClick={() => void save()}>
          Save
        </button>
      </div>
      {loading !== null && (
        <p class="inline loading" role="status">
          <progress max={cut.size_bytes} value={loading} aria-label="Loaded" />
          <span class="muted">
            {bytes(loading)} of {bytes(cut.size_bytes)}
          </span>
          <button type="button" class="small" onClick={stop}>
            Stop
          </button>
        </p>
      )}
      {error && <Failure error={error} />}
      {isCut && shown !== "Decoded" && (
        <p class="muted cut">
          The first {bytes(data.length)} of {bytes(cut.size_bytes)}.{" "}
          {cut.size_bytes <= WHOLE_BYTES ? (
            <button type="button" class="small" disabled={loading !== null} onClick={() => void loadWhole()}>
              Load all
            </button>
          ) : (
            "Save the payload to read all of it."
          )}
        </p>
      )}
      {shown === "Decoded" && <Decoded path={path} />}
      {shown === "JSON" && json !== undefined && (
        <div class="json">
          <JsonTree value={json} />
        </div>
      )}
      {shown === "Text" && text !== null && (
        <pre tabIndex={0} aria-label="Payload as text">
          <Text breaks>{text}</Text>
        </pre>
      )}
      {shown === "Hex" && (
        <pre tabIndex={0} class="hex" aria-label="Payload as hexadecimal bytes">
          {hexLines(data.subarray(0, 65_536)).join("\n")}
        </pre>
      )}
    </div>
  );
}

/** A message as the server reads it: by the schemas that pipelines have received, or by those of a registry. */
function Decoded({ path }: { path: string }): JSX.Element {
  const [found, setFound] = useState<Json | null>(null);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => {
    const asking = new AbortController();
    setFound(null);
    setError(null);
    download(`${path}/explained`, MOST_DECODED_BYTES, asking.signal)
      .then(async (data) => setFound(readJson(await data.text()) ?? null))
      .catch((refused: Error) => !asking.signal.aborted && setError(refused));
    return () => asking.abort();
  }, [path]);
  if (error) return <Failure error={error} />;
  if (!(found instanceof Pairs)) return <p class="muted none" role="status">Decoding …</p>;
  const told = found.items.filter(([name, value]) => value !== null && name !== "note" && name !== "fault");
  const reasons = found.items.filter(([name, value]) => (name === "note" || name === "fault") && typeof value === "string");
  return (
    <>
      {reasons.map(([name, value]) => (
        <p key={name} class={name === "fault" ? "notice bad" : "notice warn"}>
          <Text breaks>{value as string}</Text>
        </p>
      ))}
      <div class="json" aria-label="Decoded message" role="group">
        <JsonTree value={new Pairs(told)} />
      </div>
    </>
  );
}
