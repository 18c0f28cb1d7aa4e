// One message: where and when, typed headers, payload as text, JSON tree or bytes, and the story of its state.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, download, partitionPath } from "../data/api";
import { bytes, duration, fromBase64, hexLines, plural, readableText } from "../data/format";
import type { Cut, Header, Message, StateChange, Topic } from "../data/types";
import { Copy, Failure, Tabs, Text, Time } from "./basics";
import { ConfirmName, Dialog, Field } from "./dialog";
import { type Json, JsonTree, Pairs, readJson } from "./json";

const WHOLE_BYTES = 1 << 20; // more is saved as a file instead
const MARKED = "marked_for_deletion";
const STATES = ["available", "unavailable", "poisoned", MARKED];
const MAGIC = [...new TextEncoder().encode("atMSG")]; // an envelope of Replicate begins with it
const MOST_DECODED_BYTES = 8 << 20;

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
  topic: Topic;
  canManage: boolean;
  canDecode: boolean; // by the schemas of pipelines
  onChanged: () => void;
  onClose: () => void;
  children?: ComponentChildren; // shown first
}

export function MessageDetail({ at, message, topic, canManage, canDecode, onChanged, onClose, children }: DetailProps): JSX.Element {
  const [isSetting, setSetting] = useState(false);
  const { payload, key } = message;
  const path = `${partitionPath(at.stream, at.topic, at.partition)}/messages/${message.offset}`;
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
      {message.state !== "available" && <Story at={at} message={message} topic={topic} onRestored={canManage ? onChanged : null} />}
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
        <Payload cut={payload} path={path} canDecode={canDecode} key={message.offset} />
      )}
      {isSetting && <SetState at={at} message={message} topic={topic} onClose={() => setSetting(false)} onDone={onChanged} />}
    </aside>
  );
}

function Payload({ cut, path, canDecode }: { cut: Cut; path: string; canDecode: boolean }): JSX.Element {
  const [whole, setWhole] = useState<Uint8Array | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isLoading, setLoading] = useState(false);
  const [form, setForm] = useState<string | null>(null);
  const data = whole ?? fromBase64(cut.base64);
  const isCut = data.length < cut.size_bytes;
  const text = readableText(data, isCut);
  const json = text !== null && !isCut && /^\s*[[{"\d-tfn]/.test(text) ? readJson(text) : undefined;
  const isReplicate = canDecode && MAGIC.every((byte, index) => data[index] === byte);
  const forms = [...(isReplicate ? ["Decoded"] : []), ...(json !== undefined ? ["JSON"] : []), ...(text !== null ? ["Text"] : []), "Hex"];
  const shown = form !== null && forms.includes(form) ? form : forms[0]!;
  const load = async () => {
    setLoading(true);
    try {
      setWhole(await download(`${path}/payload`, WHOLE_BYTES));
      setError(null);
    } catch (refused) {
      setError(refused as Error);
    }
    setLoading(false);
  };
  const save = async () => {
    try {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([(await download(`${path}/payload`, Number.POSITIVE_INFINITY)).slice()]));
      link.download = path.split("/").slice(2).join("-").concat(".bin");
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
      {isCut && shown !== "Decoded" && (
        <p class="muted cut">
          The first {bytes(data.length)} of {bytes(cut.size_bytes)}.{" "}
          {cut.size_bytes <= WHOLE_BYTES && (
            <button type="button" class="small" disabled={isLoading} onClick={() => void load()}>
              {isLoading ? "Loading …" : "Load all"}
            </button>
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

/** A Replicate message as the server reads it, by the schemas that pipelines have received. */
function Decoded({ path }: { path: string }): JSX.Element {
  const [found, setFound] = useState<Json | null>(null);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => {
    const asking = new AbortController();
    setFound(null);
    setError(null);
    download(`${path}/explained`, MOST_DECODED_BYTES, asking.signal)
      .then((data) => setFound(readJson(new TextDecoder().decode(data)) ?? null))
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

interface StoryProps {
  at: Position;
  message: Message;
  topic: Topic;
  onRestored: (() => void) | null; // null: the user may not restore it
}

/** Who set a state, when and why; of a message that is marked for deletion, how long it stays. */
function Story({ at, message, topic, onRestored }: StoryProps): JSX.Element | null {
  const [story, setStory] = useState<StateChange | null>(null);
  const [error, setError] = useState<Error | null>(null);
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
      {message.state === MARKED && (
        <p class="fate">
          {describeFate(topic, story.changed_us)}{" "}
          {onRestored && (
            <button type="button" class="small" onClick={() => void setStateOf(at, message, "available", "restored").then(onRestored, setError)}>
              Restore
            </button>
          )}
        </p>
      )}
      {error && <Failure error={error} />}
    </div>
  );
}

/** When a marked message leaves the disk. */
function describeFate(topic: Topic, markedUs: number): string {
  if (topic.legal_hold) return "It stays on the disk as long as the topic is under legal hold.";
  if (topic.deletion_grace_us === null) return "It stays on the disk until a compaction.";
  const leftUs = markedUs + topic.deletion_grace_us - Date.now() * 1000;
  return leftUs > 0 ? `It leaves the disk within ${duration(leftUs)}; until then it can be restored.` : "It is about to leave the disk.";
}

async function setStateOf(at: Position, message: Message, state: string, reason: string): Promise<void> {
  const path = `${partitionPath(at.stream, at.topic, at.partition)}/states`;
  await call("PUT", path, { body: { offsets: [message.offset], state, reason, by: "" } });
}

interface SetStateProps {
  at: Position;
  message: Message;
  topic: Topic;
  onClose: () => void;
  onDone: () => void;
}

function SetState({ at, message, topic, onClose, onDone }: SetStateProps): JSX.Element {
  const [state, setState] = useState(STATES.find((one) => one !== message.state) ?? "available");
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const name = `${topic.stream}/${topic.name}`;
  const destroys = state === MARKED && !topic.legal_hold;
  const set = async () => {
    await setStateOf(at, message, state, reason);
    onDone();
  };
  return (
    <Dialog
      title={`State of the message at offset ${message.offset}`}
      action="Set state"
      isDangerous={destroys}
      isReady={!destroys || typed === name}
      onAct={set}
      onClose={onClose}
    >
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
      {state === MARKED && <p class="notice warn">Consumers skip it at once. {describeFate(topic, Date.now() * 1000)}</p>}
      {destroys && <ConfirmName name={name} typed={typed} onType={setTyped} />}
    </Dialog>
  );
}
