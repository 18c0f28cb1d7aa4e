// All topics, and the dialog that creates one.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call } from "../data/api";
import { bytes, count, duration, rate } from "../data/format";
import { appendRate, fullName, groups, messagesCount, sizeBytes, sizeText, topics } from "../data/log";
import { useResource } from "../data/resource";
import type { Rights } from "../data/rights";
import { link, type Place } from "../data/router";
import type { Topic } from "../data/types";
import { Command, Empty, Head, Text, Waiting } from "../parts/basics";
import { Dialog, Field } from "../parts/dialog";
import { Table } from "../parts/table";

/** How long and how much a topic keeps, in words. */
export function retention(topic: Topic): string {
  const parts: string[] = [];
  if (topic.retention_us !== null) parts.push(duration(topic.retention_us));
  if (topic.retention_bytes !== null) parts.push(bytes(topic.retention_bytes));
  if (topic.compaction_delay_us !== null) parts.push("last of each key");
  return parts.join(", ") || "everything";
}

export function Topics({ rights, place }: { rights: Rights; place: Place }): JSX.Element {
  const known = useResource(topics);
  const behind = useResource(groups);
  const [isCreating, setCreating] = useState(place.query.has("create"));
  if (known.value === null) return <Waiting of={known} />;
  const lags = new Map<string, number>();
  for (const group of behind.value?.groups ?? []) {
    const name = `${group.stream}/${group.topic}`;
    lags.set(name, (lags.get(name) ?? 0) + group.lag);
  }
  return (
    <>
      <Head title="Topics" of={known}>
        {rights.createTopics && (
          <button type="button" class="primary" onClick={() => setCreating(true)}>
            Create topic …
          </button>
        )}
      </Head>
      <Table
        label="Topics"
        rows={known.value.topics}
        rowKey={fullName}
        filterBy={fullName}
        sortedBy={{ name: "Topic", isDown: false }}
        empty={
          <Empty title="There are no topics yet.">
            <Command>headstream topic create shop/orders</Command>
          </Empty>
        }
        columns={[
          {
            name: "Topic",
            sort: fullName,
            show: (topic) => (
              <a href={link(["topics", topic.stream, topic.name])}>
                <Text>{fullName(topic)}</Text>
              </a>
            ),
          },
          {
            name: "Hold",
            isUntitled: true,
            show: (topic) => (topic.legal_hold ? <span class="badge warn">legal hold</span> : ""),
          },
          { name: "Partitions", isNumber: true, isMinor: true, sort: (topic) => topic.partitions.length, show: (topic) => count(topic.partitions.length) },
          { name: "Messages", isNumber: true, sort: messagesCount, show: (topic) => count(messagesCount(topic)) },
          { name: "Size", isNumber: true, sort: sizeBytes, show: (topic) => sizeText([topic]) },
          { name: "Appended", isNumber: true, sort: (topic) => appendRate(topic) ?? 0, show: (topic) => rate(appendRate(topic)) },
          {
            name: "Lag",
            about: "Messages left to read, summed over all groups",
            isNumber: true,
            sort: (topic) => lags.get(fullName(topic)) ?? 0,
            show: (topic) => (lags.has(fullName(topic)) ? count(lags.get(fullName(topic)) ?? 0) : <span class="muted">no group</span>),
          },
          { name: "Retention", isMinor: true, sort: retention, show: retention },
          {
            name: "Look inside",
            isUntitled: true,
            show: (topic) =>
              rights.topic("poll", topic) ? (
                <a class="aside" href={link(["messages", topic.stream, topic.name])} aria-label={`Messages of ${fullName(topic)}`}>
                  Messages
                </a>
              ) : null,
          },
        ]}
      />
      <p class="muted">
        {sizeText(known.value.topics)} in all segments. Rates are of the last seconds.
      </p>
      {isCreating && <CreateTopic onClose={() => setCreating(false)} />}
    </>
  );
}

function CreateTopic({ onClose }: { onClose: () => void }): JSX.Element {
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState("1");
  const [limits, setLimits] = useState("iggy");
  const [fsync, setFsync] = useState("interval");
  const [hours, setHours] = useState("");
  const [stream = "", topic = "", ...rest] = name.split("/");
  const create = async () => {
    await call("POST", "/open/topics", {
      body: {
        stream,
        name: topic,
        partitions_count: Number(partitions),
        limits,
        fsync,
        retention_us: hours ? Math.round(Number(hours) * 3.6e9) : null,
      },
    });
    await topics.refresh();
    location.hash = link(["topics", stream, topic]);
  };
  const isReady = stream !== "" && topic !== "" && rest.length === 0 && Number(partitions) >= 1;
  return (
    <Dialog title="Create a topic" action="Create" isReady={isReady} onAct={create} onClose={onClose}>
      <Field label="Name" about="stream/topic; the stream is created if it is missing.">
        <input placeholder="shop/orders" autofocus spellcheck={false} value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </Field>
      <Field label="Partitions" about="1 to 1000; more can be added later.">
        <input type="number" min="1" max="1000" value={partitions} onInput={(event) => setPartitions(event.currentTarget.value)} />
      </Field>
      <Field label="Limits" about="wide: also empty and null payloads, and header values of 0 to 65,536 bytes; plain Iggy clients cannot read the topic.">
        <select value={limits} onChange={(event) => setLimits(event.currentTarget.value)}>
          <option value="iggy">iggy</option>
          <option value="wide">wide</option>
        </select>
      </Field>
      <Field label="Synced to disk" about="always: before a send is acknowledged; interval: within a second.">
        <select value={fsync} onChange={(event) => setFsync(event.currentTarget.value)}>
          <option value="interval">interval</option>
          <option value="always">always</option>
          <option value="never">never</option>
        </select>
      </Field>
      <Field label="Keep for (hours)" about="Empty: everything is kept.">
        <input type="number" min="0" step="any" value={hours} onInput={(event) => setHours(event.currentTarget.value)} />
      </Field>
    </Dialog>
  );
}
