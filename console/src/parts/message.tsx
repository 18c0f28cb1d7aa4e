// One message: where and when, typed headers, payload as text, JSON tree or bytes, and the story of its state.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, download, partitionPath } from "../data/api";
import { bytes, fromBase64, hexLines, plural, readableText } from "../data/format";
import type { Cut, Header, Message, StateChange } from "../data/types";
import { Copy, Failure, Tabs, Text, Time } from "./basics";
import { Dialog, Field } from "./dialog";
import { JsonTree, readJson } from "./json";

const WHOLE_BYTES = 1 << 20; // more is saved as a file instead
const STATES = ["available", "unavailable", "poisoned", "marked_for_deletion"];

export interface Position {
  stream: string;
  topic: string;
  partition: number;
}

/** A payload or key in one line. */
export function preview(cut: Cut | null): { text: string; isText: boolean } {
  if (cut === null) return { text: "null", isText: false };
  if (cut.size_bytes === 0) return { text: "empty", isText: false };
  const data = fromBase64(cut.base64);
  const text = readableText(data, data.length < cut.size_bytes);
  if (text !== null) return { text: text.replace(/\s+/g, " "), isText: true };
  return { text: [...data.subarray(0, 48)].map((byte) => byte.toString(16).padStart(2, "0")).join(" "), isText: false };
}

export function StateName({ state }: { state: string }): JSX.Element {
  const tone = state === "available" ? "good" : state === "poisoned" ? "bad" : "warn";
  return <span class={`badge ${tone}`}>{state.replaceAll("_", " ")}</span>;
}

export function Headers({ headers }: { headers: Header[] }): JSX.Element {
  if (headers.length === 0) return <p class="muted none">No headers.</p>;
  return (
    <table class="headers">
      <thead>
        <tr>
          <th>Header</th>
          <th>Kind</th>
          <th>Value</th>
        </tr>
      </thead>
      <tbody>
        {headers.map((header, number) => (
          <tr key={number}>
            <td class="mono">
              <Text>{header.key}</Text>
            </td>
            <td>
              <span class={`kind ${family(header.kind)}`}>{header.kind}</span>
            </td>
            <td class="mono wrap">
              <Text breaks>{header.value}</Text>
              {header.is_cut && <span class="muted"> … ({bytes(header.size_bytes)})</span>}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function family(kind: string): string {
  if (/^u?int|^float/.test(kind)) return "numeric";
  if (kind === "string" || kind === "char") return "textual";
  return kind === "bool" ? "boolean" : "other";
}

interface DetailProps {
  at: Position;
  message: Message;
  canManage: boolean;
  onChanged: () => void;
  onClose: () => void;
  children?: ComponentChildren; // shown first
}

export function MessageDetail({ at, message, canManage, onChanged, onClose, children }: DetailProps): JSX.Element {
  const [isSetting, setSetting] = useState(false);
  const { payload, key } = message;
  const path = `${partitionPath(at.stream, at.topic, at.partition)}/messages/${message.offset}/payload`;
  return (
    <aside class="detail" aria-label={`Message at offset ${message.offset}`}>
      <header>
        <h2>Offset {message.offset}</h2>
        <StateName state={message.state} />
        {!message.is_intact && <span class="badge bad">checksum wrong</span>}
        <span class="space" />
        {canManage && (
          <button type="button" onClick={() => setSetting(true)}>
            Set state …
          </button>
        )}
        <button type="button" class="quiet" aria-label="Close the message" onClick={onClose}>
          ✕
        </button>
      </header>
      {message.state !== "available" && <Story at={at} message={message} />}
      {children}
      <dl class="facts">
        <dt>Appended</dt>
        <dd>
          <Time us={message.timestamp_us} />
        </dd>
        <dt>Id</dt>
        <dd class="mono">{message.id}</dd>
        <dt>Checksum</dt>
        <dd class="mono">{message.checksum}</dd>
        <dt>Key</dt>
        <dd class="mono wrap">
          {key === null ? <span class="muted">none</span> : <Text>{preview(key).text}</Text>}
        </dd>
      </dl>
      <h3>
        {plural(message.headers.length, "header")}
      </h3>
      <Headers headers={message.headers} />
      <h3>Payload</h3>
      {payload === null ? (
        <p class="muted none">Null: a message that deletes its key.</p>
      ) : (
        <Payload cut={payload} path={path} key={message.offset} />
      )}
      {isSetting && <SetState at={at} message={message} onClose={() => setSetting(false)} onDone={onChanged} />}
    </aside>
  );
}

function Payload({ cut, path }: { cut: Cut; path: string }): JSX.Element {
  const [whole, setWhole] = useState<Uint8Array | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isLoading, setLoading] = useState(false);
  const [form, setForm] = useState<string | null>(null);
  const data = whole ?? fromBase64(cut.base64);
  const isCut = data.length < cut.size_bytes;
  const text = readableText(data, isCut);
  const json = text !== null && !isCut && /^\s*[[{"\d-tfn]/.test(text) ? readJson(text) : undefined;
  const forms = [...(json !== undefined ? ["JSON"] : []), ...(text !== null ? ["Text"] : []), "Hex"];
  const shown = form !== null && forms.includes(form) ? form : forms[0]!;
  const load = async () => {
    setLoading(true);
    try {
      setWhole(await download(path, WHOLE_BYTES));
      setError(null);
    } catch (refused) {
      setError(refused as Error);
    }
    setLoading(false);
  };
  const save = async () => {
    try {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([(await download(path, Number.POSITIVE_INFINITY)).slice()]));
      link.download = path.split("/").slice(2, -1).join("-").concat(".bin");
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (refused) {
      setError(refused as Error);
    }
  };
  return (
    <div class="payload">
      <div class="tools">
        <Tabs label="Show the payload as" names={forms} chosen={shown} onChoose={setForm} />
        <span class="muted">{bytes(cut.size_bytes)}</span>
        <span class="space" />
        {text !== null && !isCut && <Copy text={text} />}
        <button type="button" class="small" onClick={() => void save()}>
          Save
        </button>
      </div>
      {error && <Failure error={error} />}
      {isCut && (
        <p class="muted cut">
          The first {bytes(data.length)} of {bytes(cut.size_bytes)}.{" "}
          {cut.size_bytes <= WHOLE_BYTES && (
            <button type="button" class="small" disabled={isLoading} onClick={() => void load()}>
              {isLoading ? "Loading …" : "Load all"}
            </button>
          )}
        </p>
      )}
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

/** Who set a state, when and why. */
function Story({ at, message }: { at: Position; message: Message }): JSX.Element | null {
  const [story, setStory] = useState<StateChange | null>(null);
  useEffect(() => {
    const asking = new AbortController();
    const path = `${partitionPath(at.stream, at.topic, at.partition)}/states`;
    call<StateChange[]>("GET", path, { query: { from_offset: message.offset, count: 1 }, signal: asking.signal })
      .then((found) => setStory(found.find((one) => one.offset === message.offset) ?? null))
      .catch(() => setStory(null));
    return () => asking.abort();
  }, [at.stream, at.topic, at.partition, message.offset, message.state]);
  if (story === null) return null;
  return (
    <div class="notice story">
      <p>
        <Text>{story.by || "somebody"}</Text> set it to {story.state.replaceAll("_", " ")} at <Time us={story.changed_us} />
        {story.reason ? ":" : ", without a reason."}
      </p>
      {story.reason && (
        <blockquote>
          <Text breaks>{story.reason}</Text>
        </blockquote>
      )}
    </div>
  );
}

interface SetStateProps {
  at: Position;
  message: Message;
  onClose: () => void;
  onDone: () => void;
}

function SetState({ at, message, onClose, onDone }: SetStateProps): JSX.Element {
  const [state, setState] = useState(STATES.find((one) => one !== message.state) ?? "available");
  const [reason, setReason] = useState("");
  const set = async () => {
    const path = `${partitionPath(at.stream, at.topic, at.partition)}/states`;
    await call("PUT", path, { body: { offsets: [message.offset], state, reason, by: "" } });
    onDone();
  };
  return (
    <Dialog title={`State of the message at offset ${message.offset}`} action="Set state" onAct={set} onClose={onClose}>
      <Field label="State" about="Consumers are sent available messages only, unless they ask for others.">
        <select value={state} onChange={(event) => setState(event.currentTarget.value)}>
          {STATES.map((one) => (
            <option key={one} value={one}>
              {one.replaceAll("_", " ")}
            </option>
          ))}
        </select>
      </Field>
      <Field label="Reason" about="Stored with your user name and the time.">
        <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
      </Field>
    </Dialog>
  );
}
