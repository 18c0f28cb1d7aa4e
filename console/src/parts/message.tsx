// One message: where and when, typed headers, payload as text, JSON tree or bytes, and the story of its state.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, partitionPath } from "../data/api";
import { bytes, duration, fromBase64, hexLines, plural, readableText } from "../data/format";
import type { Decodes } from "../data/rights";
import type { Browsed, Cut, Header, Message, StateChange, Topic } from "../data/types";
import { Failure, isTyped, Text, Time } from "./basics";
import { ConfirmName, Dialog, Field } from "./dialog";
import { Payload } from "./payload";

const MOST_HEADER_BYTES = 65_536; // of a value; the server cuts there
const SCHEMA_HEADER = "__value_schema_id"; // of Confluent: the id of the payload's schema
const MARKED = "marked_for_deletion";
const STATES = ["available", "unavailable", "poisoned", MARKED];

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

/** A key as it is: its text with all white space, or its bytes if it is no text. */
function Key({ cut }: { cut: Cut | null }): JSX.Element {
  if (cut === null) return <span class="muted">none</span>;
  if (cut.size_bytes === 0) return <span class="muted">empty</span>;
  const data = fromBase64(cut.base64);
  const text = readableText(data, data.length < cut.size_bytes);
  return (
    <>
      {text !== null ? <Text breaks>{text}</Text> : <span class="hex">{hexLines(data).join("\n")}</span>}
      {data.length < cut.size_bytes && <span class="muted"> … ({bytes(cut.size_bytes)})</span>}
    </>
  );
}

/** A message with a key and headers that are longer than those of a list. */
async function loadWhole(at: Position, message: Message): Promise<Message> {
  const query = { kind: "offset", value: message.offset, count: 1, payload_bytes: MOST_HEADER_BYTES };
  const found = await call<Browsed>("GET", `${partitionPath(at.stream, at.topic, at.partition)}/messages/browse`, { query });
  return found.messages.find((one) => one.offset === message.offset) ?? message;
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
  decodes: Decodes;
  onChanged: () => void;
  onClose: () => void;
  children?: ComponentChildren; // shown first
}

export function MessageDetail({ at, message, topic, canManage, decodes, onChanged, onClose, children }: DetailProps): JSX.Element {
  const [isSetting, setSetting] = useState(false);
  const [loaded, setLoaded] = useState<Message | null>(null);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => setError(null), [message]);
  const whole = loaded?.offset === message.offset ? loaded : null;
  const { key, headers } = whole ?? message;
  const { payload } = message;
  const isCut = headers.some((header) => header.is_cut) || (key !== null && fromBase64(key.base64).length < key.size_bytes);
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
          <Key cut={key} />
        </dd>
      </dl>
      <h3>
        {plural(message.headers.length, "header")}
      </h3>
      <Headers headers={headers} />
      {error && <Failure error={error} />}
      {isCut && whole === null && (
        <button type="button" class="small longer" onClick={() => void loadWhole(at, message).then(setLoaded, setError)}>
          Load whole values
        </button>
      )}
      <h3>Payload</h3>
      {payload === null ? (
        <p class="muted none">Null: a message that deletes its key.</p>
      ) : (
        <Payload cut={payload} path={path} decodes={decodes} namesSchema={message.headers.some((header) => header.key === SCHEMA_HEADER)} key={message.offset} />
      )}
      {isSetting && <SetState at={at} message={message} topic={topic} onClose={() => setSetting(false)} onDone={onChanged} />}
    </aside>
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
        <Text>{story.by || "unknown user"}</Text> set the state to {story.state.replaceAll("_", " ")} at <Time us={story.changed_us} />
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
  if (topic.legal_hold) return "The message stays on the disk while the topic is under legal hold.";
  if (topic.deletion_grace_us === null) return "The message stays on the disk until a compaction.";
  const leftUs = markedUs + topic.deletion_grace_us - Date.now() * 1000;
  return leftUs > 0 ? `The message is removed from the disk within ${duration(leftUs)}; until then, it can be restored.` : "The message is about to be removed from the disk.";
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
      isReady={!destroys || isTyped(typed, name)}
      onAct={set}
      onClose={onClose}
    >
      <Field label="State" about="Consumers receive only available messages, unless they request other states.">
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
      {state === MARKED && <p class="notice warn">Consumers skip the message immediately. {describeFate(topic, Date.now() * 1000)}</p>}
      {destroys && <ConfirmName name={name} typed={typed} onType={setTyped} />}
    </Dialog>
  );
}
