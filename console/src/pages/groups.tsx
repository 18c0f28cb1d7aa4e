// Consumer groups: all of them, and one with its partitions, members and a seek that is shown before it is done.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { call, partitionPath, topicPath } from "../data/api";
import { count, duration, plural, rate } from "../data/format";
import { commitRate, groupName, groups, lagOf, sum } from "../data/log";
import { Resource, useResource } from "../data/resource";
import type { Rights } from "../data/rights";
import { link, type Place } from "../data/router";
import type { Browsed, Deliveries, DeliveryCounts, Group } from "../data/types";
import { Failure, Head, Missing, Text, Tile, Waiting } from "../parts/basics";
import { ConfirmByName, Dialog, Field } from "../parts/dialog";
import { Table } from "../parts/table";

export function Groups(): JSX.Element {
  const known = useResource(groups);
  if (known.value === null) return <Waiting of={known} />;
  return (
    <>
      <Head title="Consumer groups" of={known} />
      <GroupTable rows={known.value.groups} hasTopic />
    </>
  );
}

export function GroupTable({ rows, hasTopic }: { rows: Group[]; hasTopic: boolean }): JSX.Element {
  return (
    <Table
      label="Groups"
      rows={rows}
      rowKey={groupName}
      {...(hasTopic ? { filterBy: groupName } : {})}
      sortedBy={{ name: "Lag", isDown: true }}
      empty={<p class="muted none">No group has been created or has committed an offset.</p>}
      columns={[
        {
          name: "Group",
          sort: (group) => group.name,
          show: (group) => (
            <a href={link(["groups", group.stream, group.topic, group.name])}>
              <Text>{group.name}</Text>
            </a>
          ),
        },
        ...(hasTopic
          ? [{ name: "Topic", sort: (group: Group) => `${group.stream}/${group.topic}`, show: (group: Group) => <Text>{`${group.stream}/${group.topic}`}</Text> }]
          : []),
        { name: "Members", isNumber: true, isMinor: true, sort: (group) => group.members.length, show: (group) => count(group.members.length) },
        { name: "Committed", about: "Messages per second", isNumber: true, isMinor: true, sort: (group) => commitRate(group) ?? 0, show: (group) => rate(commitRate(group)) },
        { name: "Lag", about: "Messages left to read", isNumber: true, sort: (group) => group.lag, show: (group) => `${count(group.lag)}` },
      ]}
    />
  );
}

export function GroupPage({ place, rights: _ }: { place: Place; rights: Rights }): JSX.Element {
  const known = useResource(groups);
  const [asked, setAsked] = useState<"seek" | "delete" | null>(null);
  const [, stream = "", topic = "", name = ""] = place.parts;
  const path = `${topicPath(stream, topic)}/consumer-groups/${encodeURIComponent(name)}`;
  const deliveries = useMemo(() => new Resource<Deliveries>((signal) => call("GET", `${path}/deliveries`, { signal }), 2000), [path]);
  const unfinished = useResource(deliveries).value;
  if (known.value === null) return <Waiting of={known} />;
  const group = known.value.groups.find((one) => one.stream === stream && one.topic === topic && one.name === name);
  if (!group) return <Missing title="There is no such group, or you may not see it." />;
  const largest = Math.max(1, ...group.partitions.map(lagOf));
  const memberless = group.partitions.filter((one) => one.member === null).length;
  const open = new Map(unfinished?.partitions.map((one) => [one.partition, one]) ?? []);
  const failing = unfinished ? sum(unfinished.partitions, failingCount) : null;
  return (
    <>
      <Head
        title={<Text>{group.name}</Text>}
        trail={[
          ["Consumer groups", link(["groups"])],
          [`${group.stream}/${group.topic}`, link(["topics", group.stream, group.topic])],
        ]}
        of={known}
      >
        <button type="button" onClick={() => setAsked("seek")}>
          Seek …
        </button>
        <button type="button" class="danger-quiet" onClick={() => setAsked("delete")}>
          Delete …
        </button>
      </Head>
      {unfinished && unfinished.paused_until_us > 0 && <Pause group={group} state={unfinished} onResumed={() => void deliveries.refresh()} />}
      <dl class="tiles">
        <Tile label="Lag" value={count(group.lag)} about="messages left to read" {...(group.lag > 0 ? { tone: "warn" as const } : { tone: "good" as const })} />
        <Tile label="Committed" value={rate(commitRate(group))} about="messages, in the last few seconds" />
        <Tile
          label="Members"
          value={count(group.members.length)}
          about={group.process !== null ? `in process ${group.process}` : memberless ? `${plural(memberless, "partition")} without a member` : "every partition has a member"}
        />
        <Tile label="Partitions" value={count(group.partitions.length)} about={`generation ${group.generation}`} />
        {unfinished && failing !== null && (
          <Tile
            label="Failing"
            value={count(failing)}
            about={`${plural(sum(unfinished.partitions, (one) => one.poisoned), "message")} failed permanently, ${plural(sum(unfinished.partitions, (one) => one.open_letters), "open dead letter")}`}
            {...(failing > 0 ? { tone: "warn" as const } : {})}
          />
        )}
      </dl>
      <h2>Partitions</h2>
      <Table
        label="Partitions"
        rows={group.partitions}
        rowKey={(one) => String(one.number)}
        columns={[
          {
            name: "Partition",
            sort: (one) => one.number,
            show: (one) => (
              <a href={link(["messages", group.stream, group.topic], { partition: one.number, offset: Math.min(one.committed ?? one.first_offset, Math.max(one.end_offset - 1, 0)) })}>
                {one.number}
              </a>
            ),
          },
          { name: "Next to read", isNumber: true, sort: (one) => one.committed ?? -1, show: (one) => (one.committed === null ? <span class="muted">nothing committed</span> : count(one.committed)) },
          { name: "Next offset", about: "Offset of the next message", isNumber: true, sort: (one) => one.end_offset, show: (one) => count(one.end_offset) },
          { name: "Member", isNumber: true, isMinor: true, show: (one) => (one.member === null ? <span class="muted">none</span> : one.member) },
          { name: "Leased", about: "Messages leased to a worker", isNumber: true, isMinor: true, show: (one) => count(open.get(one.number)?.leased ?? 0) },
          { name: "Deferred", about: "Messages deferred by a worker", isNumber: true, isMinor: true, show: (one) => count(open.get(one.number)?.deferred ?? 0) },
          { name: "Failing", about: "Messages that wait for another attempt", isNumber: true, isMinor: true, show: (one) => count(failingCount(open.get(one.number))) },
          {
            name: "Lag",
            isNumber: true,
            sort: lagOf,
            show: (one) => (
              <span class="bar">
                <meter min={0} max={largest} value={lagOf(one)} aria-label="Share of the largest lag" />
                {count(lagOf(one))}
              </span>
            ),
          },
        ]}
      />
      {asked === "seek" && <Seek group={group} onClose={() => setAsked(null)} />}
      {asked === "delete" && (
        <ConfirmByName
          title="Delete the group"
          name={group.name}
          action="Delete"
          onAct={async () => {
            await call("DELETE", `${topicPath(group.stream, group.topic)}/consumer-groups/${encodeURIComponent(group.name)}`);
            await groups.refresh();
            location.hash = link(["groups"]);
          }}
          onClose={() => setAsked(null)}
        >
          <p>The group's committed offsets are removed. Consumers that use the name again have no committed offsets.</p>
        </ConfirmByName>
      )}
    </>
  );
}

/** Messages that have failed, and wait for another attempt. */
const failingCount = (one: DeliveryCounts | undefined): number => one?.delayed ?? 0;

interface PauseProps {
  group: Group;
  state: Deliveries;
  onResumed: () => void;
}

/** Why a group is paused, for how long still, and what ends it. */
function Pause({ group, state, onResumed }: PauseProps): JSX.Element {
  const [error, setError] = useState<Error | null>(null);
  const leftUs = state.paused_until_us - state.now_us;
  const resume = async () => {
    // a seek ends a pause, this one moves nothing
    await call("PUT", `${topicPath(group.stream, group.topic)}/consumer-groups/${encodeURIComponent(group.name)}/offsets`, { body: { offsets: {} } });
    onResumed();
  };
  useEffect(() => setError(null), [state.paused_until_us]);
  return (
    <div class="notice warn" role="status">
      <p>
        <strong>{leftUs > 0 ? `Paused for another ${duration(leftUs)}.` : "On trial: one message is delivered."}</strong>{" "}
        {count(state.failed_attempts)} of the last {plural(state.last_attempts, "attempt")} failed, {duration(Math.max(1e6, state.now_us - state.paused_since_us))} ago. The group has been paused{" "}
        {plural(state.pauses, "time")}.
      </p>
      <p>
        <button type="button" onClick={() => void resume().catch(setError)}>
          Resume
        </button>{" "}
        <span class="muted">
          {group.members.length > 0 ? `The server rejects this until the ${plural(group.members.length, "member")} of the group have stopped.` : "Consumers then continue immediately, and attempts are counted from 0."}
        </span>
      </p>
      {error && <Failure error={error} />}
    </div>
  );
}

type Target = "first" | "last" | "offset" | "time" | "back";

/** Where a seek would take each partition. */
async function plan(group: Group, target: Target, value: string, signal: AbortSignal, onProgress: (done: number) => void): Promise<Map<number, number>> {
  const found = new Map<number, number>();
  for (const one of group.partitions) {
    onProgress(found.size);
    const clamp = (offset: number) => Math.min(Math.max(offset, one.first_offset), one.end_offset);
    if (target === "first") found.set(one.number, one.first_offset);
    else if (target === "last") found.set(one.number, one.end_offset);
    else if (target === "offset") found.set(one.number, clamp(Number(value)));
    else if (target === "back") found.set(one.number, clamp((one.committed ?? one.first_offset) - Number(value)));
    else {
      const query = { kind: "timestamp", value: new Date(value).getTime() * 1000, count: 1, payload_bytes: 0 };
      const path = `${partitionPath(group.stream, group.topic, one.number)}/messages/browse`;
      const at = await call<Browsed>("GET", path, { query, signal });
      found.set(one.number, at.messages[0]?.offset ?? one.end_offset);
    }
  }
  return found;
}

function Seek({ group, onClose }: { group: Group; onClose: () => void }): JSX.Element {
  const [target, setTarget] = useState<Target>("first");
  const [value, setValue] = useState("");
  const [planned, setPlanned] = useState<Map<number, number> | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [planning, setPlanning] = useState<{ done: number; asking: AbortController } | null>(null);
  const needsValue = target === "offset" || target === "time" || target === "back";
  const isValid = !needsValue || (target === "time" ? !Number.isNaN(new Date(value).getTime()) : /^\d+$/.test(value));
  const preview = async () => {
    const asking = new AbortController();
    setError(null);
    try {
      setPlanned(await plan(group, target, value, asking.signal, (done) => setPlanning({ done, asking })));
    } catch (refused) {
      if (!asking.signal.aborted) setError(refused as Error);
    }
    setPlanning(null);
  };
  useEffect(() => () => planning?.asking.abort(), [planning?.asking]);
  const seek = async () => {
    const path = `${topicPath(group.stream, group.topic)}/consumer-groups/${encodeURIComponent(group.name)}/offsets`;
    await call("PUT", path, { body: { offsets: Object.fromEntries(planned ?? []) } });
    await groups.refresh();
  };
  const changed = (next: () => void) => {
    next();
    setPlanned(null);
  };
  const rows = group.partitions.map((one) => {
    const from = Math.max(one.committed ?? one.first_offset, one.first_offset);
    return { number: one.number, from, to: planned?.get(one.number) ?? from };
  });
  const again = sum(rows, (row) => Math.max(0, row.from - row.to));
  const skipped = sum(rows, (row) => Math.max(0, row.to - row.from));
  return (
    <Dialog
      title={`Seek group ${group.name}`}
      action={planned ? "Seek" : "Preview first"}
      isReady={planned !== null}
      isDangerous={skipped > 0}
      onAct={seek}
      onClose={onClose}
    >
      {group.members.length > 0 && (
        <p class="notice warn">The group has {plural(group.members.length, "member")}: the server rejects a seek until the members have stopped.</p>
      )}
      <Field label="Continue at">
        <select value={target} onChange={(event) => changed(() => setTarget(event.currentTarget.value as Target))}>
          <option value="first">the oldest message</option>
          <option value="last">the end: skip everything</option>
          <option value="time">a time …</option>
          <option value="offset">an offset …</option>
          <option value="back">a number of messages back …</option>
        </select>
      </Field>
      {needsValue && (
        <Field label={target === "time" ? "Local time" : target === "back" ? "Messages back" : "Offset"}>
          {target === "time" ? (
            <input type="datetime-local" step="1" value={value} onInput={(event) => changed(() => setValue(event.currentTarget.value))} />
          ) : (
            <input inputMode="numeric" value={value} onInput={(event) => changed(() => setValue(event.currentTarget.value))} />
          )}
        </Field>
      )}
      {planning ? (
        <p class="looking" role="status">
          {`reading partition ${count(planning.done + 1)} of ${count(group.partitions.length)} … `}
          <button type="button" onClick={() => planning.asking.abort()}>
            Stop
          </button>
        </p>
      ) : (
        <button type="button" disabled={!isValid} onClick={() => void preview()}>
          Preview
        </button>
      )}
      {error && <Failure error={error} />}
      {planned && (
        <>
          <table class="preview">
            <thead>
              <tr>
                <th class="number">Partition</th>
                <th class="number">Now</th>
                <th class="number">Then</th>
                <th class="number">Difference</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row.number}>
                  <td class="number">{row.number}</td>
                  <td class="number">{count(row.from)}</td>
                  <td class="number">{count(row.to)}</td>
                  <td class={`number ${row.to > row.from ? "bad-text" : ""}`}>{row.to === row.from ? "–" : row.to > row.from ? `+${count(row.to - row.from)}` : `−${count(row.from - row.to)}`}</td>
                </tr>
              ))}
            </tbody>
          </table>
          <p role="status">
            {again > 0 && `${plural(again, "message")} will be read again. `}
            {skipped > 0 && <strong class="bad-text">{plural(skipped, "message")} will be skipped.</strong>}
            {again === 0 && skipped === 0 && "Nothing changes."}
          </p>
        </>
      )}
    </Dialog>
  );
}
