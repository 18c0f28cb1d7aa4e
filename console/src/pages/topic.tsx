// One topic: its options, partitions and groups, and what changes or destroys it.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call, topicPath } from "../data/api";
import { bytes, count, duration, plural, rate } from "../data/format";
import { isDeadLetterTopic } from "../data/deadLetters";
import { appendRate, fullName, groups, messagesCount, sizeText, topics } from "../data/log";
import { useResource } from "../data/resource";
import type { Rights } from "../data/rights";
import { link, type Place } from "../data/router";
import type { Topic } from "../data/types";
import { Head, isTyped, Missing, Text, Tile, Time, Waiting } from "../parts/basics";
import { ConfirmByName, ConfirmName, Dialog, Field } from "../parts/dialog";
import { Table } from "../parts/table";
import { GroupTable } from "./groups";

type Asked = "options" | "partitions" | "purge" | "delete" | null;

export function TopicPage({ place, rights }: { place: Place; rights: Rights }): JSX.Element {
  const known = useResource(topics);
  const behind = useResource(groups);
  const [asked, setAsked] = useState<Asked>(null);
  const [, stream, name] = place.parts;
  if (known.value === null) return <Waiting of={known} />;
  const topic = known.value.topics.find((one) => one.stream === stream && one.name === name);
  if (!topic) return <Missing title="There is no such topic, or you may not see it." />;
  const canManage = rights.topic("manage", topic);
  const path = topicPath(topic.stream, topic.name);
  const close = () => setAsked(null);
  const destroy = (route: string, after: () => void) => async () => {
    await call("DELETE", route);
    await topics.refresh();
    after();
  };
  const largest = Math.max(1, ...topic.partitions.map((one) => one.size_bytes));
  return (
    <>
      <Head title={<Text>{fullName(topic)}</Text>} trail={[["Topics", link(["topics"])]]} of={known}>
        {rights.topic("poll", topic) && (
          <a class="button primary" href={link(["messages", topic.stream, topic.name])}>
            Messages
          </a>
        )}
        {rights.topic("poll", topic) && isDeadLetterTopic(topic) && (
          <a class="button" href={link(["letters", topic.stream, topic.name])}>
            Dead letters
          </a>
        )}
        {canManage && (
          <>
            <button type="button" onClick={() => setAsked("options")}>
              Options …
            </button>
            <button type="button" onClick={() => setAsked("partitions")}>
              Add partitions …
            </button>
            {!topic.legal_hold && (
              <>
                <button type="button" class="danger-quiet" onClick={() => setAsked("purge")}>
                  Purge …
                </button>
                <button type="button" class="danger-quiet" onClick={() => setAsked("delete")}>
                  Delete …
                </button>
              </>
            )}
          </>
        )}
      </Head>
      {topic.legal_hold && (
        <p class="notice warn" role="status">
          <strong>Under legal hold.</strong> Retention, compaction, deletion marks, erasure, purge and deletion remove nothing from this topic.
        </p>
      )}
      <dl class="tiles">
        <Tile label="Messages" value={count(messagesCount(topic))} about={`appended ${rate(appendRate(topic))}`} />
        <Tile label="Size" value={sizeText([topic])} about={plural(topic.partitions.length, "partition")} />
        <Tile
          label="Retention"
          value={topic.retention_us === null ? "unlimited" : duration(topic.retention_us)}
          about={topic.retention_bytes === null ? "no size limit" : `up to ${bytes(topic.retention_bytes)}`}
        />
        <Tile
          label="Compaction"
          value={topic.compaction_delay_us === null ? "off" : "on"}
          about={topic.compaction_delay_us === null ? "all messages of a key are kept" : `deletions are kept for ${duration(topic.compaction_delay_us)}`}
        />
        {!rights.isKafka && (
          <>
            <Tile
              label="Deduplication"
              value={topic.deduplication_count === null ? "off" : count(topic.deduplication_count)}
              about={topic.deduplication_count === null ? "repeated ids are stored" : "ids remembered per partition"}
            />
            <Tile
              label="Marked messages"
              value={topic.legal_hold ? "held" : topic.deletion_grace_us === null ? "kept" : duration(topic.deletion_grace_us)}
              about={topic.legal_hold ? "while the legal hold lasts" : topic.deletion_grace_us === null ? "until a compaction" : "until they are removed from the disk"}
            />
            <Tile
              label="Summaries"
              value={topic.summary_headers === null ? "off" : plural(topic.summary_headers.split(",").length, "header")}
              about={topic.summary_headers === null ? "filters read all messages" : <Text>{topic.summary_headers.replaceAll(",", ", ")}</Text>}
            />
            <Tile label="Synced" value={topic.fsync} about={`limits: ${topic.limits}`} />
          </>
        )}
        {topic.created_us > 0 && <Tile label="Created" value={`${duration(Math.max(1e6, known.value.time_us - topic.created_us))} ago`} about={<Time us={topic.created_us} />} />}
      </dl>
      <h2>Partitions</h2>
      <Table
        label="Partitions"
        rows={topic.partitions}
        rowKey={(one) => String(one.number)}
        columns={[
          {
            name: "Partition",
            sort: (one) => one.number,
            show: (one) =>
              rights.topic("poll", topic) ? (
                <a href={link(["messages", topic.stream, topic.name], { partition: one.number })}>{one.number}</a>
              ) : (
                one.number
              ),
          },
          { name: "Messages", isNumber: true, sort: (one) => one.end_offset - one.first_offset - one.compacted_count, show: (one) => count(one.end_offset - one.first_offset - one.compacted_count) },
          { name: "First offset", isNumber: true, isMinor: true, sort: (one) => one.first_offset, show: (one) => count(one.first_offset) },
          { name: "Next offset", about: "Offset of the next message", isNumber: true, sort: (one) => one.end_offset, show: (one) => count(one.end_offset) },
          { name: "Compacted", isNumber: true, isMinor: true, show: (one) => count(one.compacted_count) },
          {
            name: "Size",
            isNumber: true,
            sort: (one) => one.size_bytes,
            show: (one) => (
              <span class="bar">
                <meter min={0} max={largest} value={one.size_bytes} aria-label={`Share of the largest partition`} />
                {one.size_bytes === 0 && one.end_offset > one.first_offset ? "–" : bytes(one.size_bytes)}
              </span>
            ),
          },
        ]}
      />
      <h2>Consumer groups</h2>
      <GroupTable rows={(behind.value?.groups ?? []).filter((one) => one.stream === topic.stream && one.topic === topic.name)} hasTopic={false} />
      {asked === "options" && <Options topic={topic} onClose={close} />}
      {asked === "partitions" && <AddPartitions topic={topic} onClose={close} />}
      {asked === "purge" && (
        <ConfirmByName
          title="Purge the topic"
          name={fullName(topic)}
          action="Purge"
          onAct={destroy(`${path}/purge`, () => {})}
          onClose={close}
        >
          <p>
            All {plural(messagesCount(topic), "message")} ({sizeText([topic])}) and all committed offsets are removed. This cannot be undone.
          </p>
        </ConfirmByName>
      )}
      {asked === "delete" && (
        <ConfirmByName
          title="Delete the topic"
          name={fullName(topic)}
          action="Delete"
          onAct={destroy(path, () => {
            location.hash = link(["topics"]);
          })}
          onClose={close}
        >
          <p>
            The topic, its {plural(messagesCount(topic), "message")} and its groups are removed. This cannot be undone.
          </p>
        </ConfirmByName>
      )}
    </>
  );
}

function AddPartitions({ topic, onClose }: { topic: Topic; onClose: () => void }): JSX.Element {
  const [added, setAdded] = useState("1");
  const add = async () => {
    await call("POST", `${topicPath(topic.stream, topic.name)}/partitions`, { body: { partitions_count: Number(added) } });
    await topics.refresh();
  };
  return (
    <Dialog title="Add partitions" action="Add" isReady={Number(added) >= 1} onAct={add} onClose={onClose}>
      <Field label="Number of partitions to add" about="Afterwards, new messages of a key can be stored in another partition than its earlier messages.">
        <input type="number" min="1" max="999" value={added} onInput={(event) => setAdded(event.currentTarget.value)} />
      </Field>
    </Dialog>
  );
}

function Options({ topic, onClose }: { topic: Topic; onClose: () => void }): JSX.Element {
  const inUnits = (value: number | null, unit: number) => (value === null ? "" : String(value / unit));
  const [hours, setHours] = useState(inUnits(topic.retention_us, 3.6e9));
  const [mebibytes, setMebibytes] = useState(inUnits(topic.retention_bytes, 1 << 20));
  const [compaction, setCompaction] = useState(inUnits(topic.compaction_delay_us, 3.6e9));
  const [remembered, setRemembered] = useState(inUnits(topic.deduplication_count, 1));
  const [grace, setGrace] = useState(inUnits(topic.deletion_grace_us, 3.6e9));
  const [summarized, setSummarized] = useState(topic.summary_headers ?? "");
  const [isHeld, setHeld] = useState(topic.legal_hold);
  const [typed, setTyped] = useState("");
  const from = (text: string, unit: number) => (text === "" ? null : Math.round(Number(text) * unit));
  const wanted = {
    retention_us: from(hours, 3.6e9),
    retention_bytes: from(mebibytes, 1 << 20),
    compaction_delay_us: from(compaction, 3.6e9),
    deduplication_count: from(remembered, 1),
    deletion_grace_us: from(grace, 3.6e9),
    summary_headers: summarized.trim() === "" ? null : summarized,
    legal_hold: isHeld,
  };
  const isLess = (name: "retention_us" | "retention_bytes" | "deletion_grace_us" | "compaction_delay_us") => (wanted[name] ?? Infinity) < (topic[name] ?? Infinity);
  const removes =
    isLess("retention_us") || isLess("retention_bytes") || isLess("deletion_grace_us") || isLess("compaction_delay_us") || (topic.legal_hold && !isHeld);
  const change = async () => {
    const differing = Object.entries(wanted).filter(([name, value]) => value !== topic[name as keyof typeof wanted]);
    const changes = Object.fromEntries(differing.map(([name, value]) => [name, typeof value === "boolean" ? Number(value) : value])); // flags travel as numbers
    if (Object.keys(changes).length === 0) return;
    await call("PUT", `/open${topicPath(topic.stream, topic.name)}`, { body: { changes } });
    await topics.refresh();
  };
  const number = { type: "number", min: "0", step: "any" } as const;
  return (
    <Dialog title="Options of the topic" action="Change" isDangerous={removes} isReady={!removes || isTyped(typed, fullName(topic))} onAct={change} onClose={onClose}>
      <p class="notice">An empty field sets no limit.</p>
      <Field label="Keep messages for (hours)">
        <input {...number} value={hours} onInput={(event) => setHours(event.currentTarget.value)} />
      </Field>
      <Field label="Keep at most (MiB)">
        <input {...number} value={mebibytes} onInput={(event) => setMebibytes(event.currentTarget.value)} />
      </Field>
      <Field label="Compaction: keep deletions for (hours)" about="Empty: no compaction. Otherwise, only the last message of each key is kept.">
        <input {...number} value={compaction} onInput={(event) => setCompaction(event.currentTarget.value)} />
      </Field>
      <Field label="Deduplication: ids to remember" about="Empty: repeated ids are stored.">
        <input type="number" min="1" step="1" value={remembered} onInput={(event) => setRemembered(event.currentTarget.value)} />
      </Field>
      <Field label="Remove marked messages within (hours)" about="Until then, the messages can be restored. Empty: they are kept.">
        <input {...number} value={grace} onInput={(event) => setGrace(event.currentTarget.value)} />
      </Field>
      <Field label="Summarized headers" about="At most 8 names, separated by commas. Filters on these headers skip segments without a match.">
        <input value={summarized} onInput={(event) => setSummarized(event.currentTarget.value)} />
      </Field>
      <label class="check">
        <input type="checkbox" checked={isHeld} onChange={(event) => setHeld(event.currentTarget.checked)} /> Legal hold: nothing is removed
      </label>
      {removes && (
        <>
          <p class="notice warn">This change removes messages, or allows their removal. A removal cannot be undone.</p>
          <ConfirmName name={fullName(topic)} typed={typed} onType={setTyped} />
        </>
      )}
    </Dialog>
  );
}
