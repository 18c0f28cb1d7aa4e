// The overview: live rates, sizes, lag and memory, and where most happens.
import type { JSX } from "preact";
import { byteRate, bytes, count, duration, plural, rate, short } from "../data/format";
import { appendRate, fullName, groups, messagesCount, overview, sizeBytes, sizeText, sum, topics } from "../data/log";
import { useResource } from "../data/resource";
import type { Rights } from "../data/rights";
import { link } from "../data/router";
import type { Group, Topic } from "../data/types";
import { Command, Empty, Head, Text, Tile, Waiting } from "../parts/basics";
import { Plot } from "../parts/plot";
import { Table } from "../parts/table";

const MOST_ROWS = 8;

export function OverviewPage({ rights }: { rights: Rights }): JSX.Element {
  const known = useResource(topics);
  const behind = useResource(groups);
  const server = useResource(overview, rights.hasServer);
  if (known.value === null) return <Waiting of={known} />;
  const all = known.value.topics;
  const stats = rights.hasServer ? server.value : null;
  const lagging = behind.value?.groups ?? [];
  const lag = sum(lagging, (group) => group.lag);
  const refused = stats ? sum(stats.transports, (one) => one.refused_requests) : 0;
  return (
    <>
      <Head title="Overview" of={known} />
      <dl class="tiles">
        <Tile label="Messages" value={short(sum(all, messagesCount))} about={sizeText(all)} />
        <Tile
          label="Topics"
          value={count(all.length)}
          about={plural(
            sum(all, (topic) => topic.partitions.length),
            "partition",
          )}
        />
        <Tile
          label="Consumer groups"
          value={count(lagging.length)}
          about={lag > 0 ? `${plural(lag, "message")} left to read` : "no messages left to read"}
          {...(lag > 0 ? { tone: "warn" as const } : {})}
        />
        {stats && (
          <>
            <Tile
              label="Connections"
              value={count(sum(stats.transports, (one) => one.connections))}
              about={stats.transports.map((one) => `${one.connections} ${one.transport}`).join(", ")}
            />
            <Tile label="Memory" value={bytes(stats.memory_bytes)} about={`of ${bytes(stats.total_memory_bytes)} in the machine`} />
            <Tile label="Running for" value={duration(stats.run_time_us)} about={`process ${stats.process_id} on ${stats.hostname}`} />
            <Tile
              label="Requests refused"
              value={short(refused)}
              about={`of ${short(sum(stats.transports, (one) => one.requests))} since the start`}
            />
          </>
        )}
      </dl>
      {all.length === 0 ? (
        <FirstRun rights={rights} />
      ) : (
        <>
          <div class="plots">
            <Plot
              title="Messages"
              spell={rate}
              lines={[
                { label: "appended", color: "--blue", value: (one) => one.appended, isRate: true },
                { label: "committed by groups", color: "--green", value: (one) => one.committed, isRate: true },
              ]}
            />
            {stats && (
              <Plot
                title="Network"
                isBytes
                spell={byteRate}
                lines={[
                  { label: "in", color: "--blue", value: (one) => one.receivedBytes, isRate: true },
                  { label: "out", color: "--green", value: (one) => one.sentBytes, isRate: true },
                ]}
              />
            )}
            <Plot title="Lag of all groups" spell={(value) => `${short(value)} msg`} lines={[{ label: "behind", color: "--orange", value: (one) => one.lag }]} />
            {stats && (
              <Plot title="Memory" isBytes spell={bytes} lines={[{ label: "resident", color: "--violet", value: (one) => one.memoryBytes }]} />
            )}
            {!stats && !rights.isKafka && (
              <Plot title="Stored" isBytes spell={bytes} lines={[{ label: "on disk", color: "--violet", value: (one) => one.storedBytes }]} />
            )}
          </div>
          <div class="halves">
            <Busiest all={all} />
            <Behind all={lagging} />
          </div>
        </>
      )}
    </>
  );
}

function Busiest({ all }: { all: Topic[] }): JSX.Element {
  const rows = [...all].sort((a, b) => (appendRate(b) ?? 0) - (appendRate(a) ?? 0) || sizeBytes(b) - sizeBytes(a)).slice(0, MOST_ROWS);
  return (
    <div>
      <h2>Busiest topics</h2>
      <Table
        label="Busiest topics"
        rows={rows}
        rowKey={fullName}
        columns={[
          {
            name: "Topic",
            show: (topic) => (
              <a href={link(["topics", topic.stream, topic.name])}>
                <Text>{fullName(topic)}</Text>
              </a>
            ),
          },
          { name: "Appended", isNumber: true, show: (topic) => rate(appendRate(topic)) },
          { name: "Messages", isNumber: true, show: (topic) => count(messagesCount(topic)) },
          { name: "Size", isNumber: true, show: (topic) => sizeText([topic]) },
        ]}
      />
    </div>
  );
}

function Behind({ all }: { all: Group[] }): JSX.Element {
  const rows = [...all].sort((a, b) => b.lag - a.lag).slice(0, MOST_ROWS);
  return (
    <div>
      <h2>Groups with the largest lag</h2>
      <Table
        label="Groups with the largest lag"
        rows={rows}
        rowKey={(group) => `${group.stream}/${group.topic}/${group.name}`}
        empty={<p class="muted none">No group has committed an offset yet.</p>}
        columns={[
          {
            name: "Group",
            show: (group) => (
              <a href={link(["groups", group.stream, group.topic, group.name])}>
                <Text>{group.name}</Text>
              </a>
            ),
          },
          { name: "Topic", show: (group) => <Text>{`${group.stream}/${group.topic}`}</Text> },
          { name: "Members", isNumber: true, show: (group) => count(group.members.length) },
          { name: "Lag", about: "Messages left to read", isNumber: true, show: (group) => count(group.lag) },
        ]}
      />
    </div>
  );
}

function FirstRun({ rights }: { rights: Rights }): JSX.Element {
  return (
    <Empty title="There are no topics yet.">
      <p>Create a topic and send a first message:</p>
      <Command>headstream topic create shop/orders</Command>
      <Command>headstream send shop/orders hello --header attempt=uint8:1</Command>
      {rights.createTopics && (
        <p>
          or <a href={link(["topics"], { create: "1" })}>create a topic here</a>.
        </p>
      )}
    </Empty>
  );
}
