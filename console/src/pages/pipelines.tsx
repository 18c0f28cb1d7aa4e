// Replicate pipelines: what each one does, its tables, and the versions of a table's schema.
import type { JSX } from "preact";
import { byteRate, bytes, count, duration, plural, rate } from "../data/format";
import { failingCount, largestLag, pipelines, rateOf, rowsOf, shortName } from "../data/pipelines";
import { useResource } from "../data/resource";
import { link, type Place } from "../data/router";
import type { Difference, FailingTable, Pipeline, PipelineReport, PipelineTable, SchemaVersion } from "../data/types";
import { Command, Empty, Failure, Head, Missing, Text, Tile, Time, Waiting } from "../parts/basics";
import { Table } from "../parts/table";

export function PipelinesPage({ place }: { place: Place }): JSX.Element {
  const known = useResource(pipelines);
  if (known.value === null) return <Waiting of={known} />;
  const { time_us: nowUs, pipelines: all } = known.value;
  const [, index, name] = place.parts;
  const pipeline = index === undefined ? undefined : all[Number(index)];
  if (index !== undefined && !pipeline) return <Missing title="There is no such pipeline." />;
  if (pipeline && name !== undefined) {
    const table = pipeline.report?.tables.find((one) => one.table === name);
    return table ? <TablePage pipeline={pipeline} index={Number(index)} table={table} nowUs={nowUs} /> : <Missing title="The pipeline has no such table." />;
  }
  return (
    <>
      <Head title="Pipelines" of={known} />
      {all.length === 0 && (
        <Empty title="No pipeline is registered.">
          <p>When you start the server or the console, specify the checkpoints of Replicate pipelines (directories, or URIs of an object store):</p>
          <Command>headstream server --data /var/lib/shop --pipeline /data/checkpoint</Command>
        </Empty>
      )}
      {all.map((one, number) => (
        <Section key={one.checkpoint} pipeline={one} index={number} nowUs={nowUs} />
      ))}
    </>
  );
}

/** How long ago a time was, by the server's clock. */
const ago = (nowUs: number, us: number): string => `${duration(Math.max(1e6, nowUs - us))} ago`;

function State({ state }: { state: string }): JSX.Element {
  const tone = state === "running" ? "good" : state === "ended" || state === "has not run" ? "" : "bad";
  return (
    <span class={`badge ${tone}`}>
      <Text>{state}</Text>
    </span>
  );
}

function Section({ pipeline, index, nowUs }: { pipeline: Pipeline; index: number; nowUs: number }): JSX.Element {
  const { checkpoint, report, error } = pipeline;
  return (
    <section class="pipeline" aria-label={`Pipeline ${checkpoint}`}>
      <header>
        <h2>
          <Text>{shortName(checkpoint)}</Text>
        </h2>
        {report && <State state={report.state} />}
        <span class="muted wrap">
          <Text breaks>{checkpoint}</Text>
          {report?.updated_us ? `, status ${ago(nowUs, report.updated_us)}` : ""}
        </span>
      </header>
      {error !== null && <Failure error={new Error(error)} />}
      {report && <Numbers checkpoint={checkpoint} report={report} />}
      {report && <Tables report={report} index={index} nowUs={nowUs} />}
    </section>
  );
}

function Numbers({ checkpoint, report }: { checkpoint: string; report: PipelineReport }): JSX.Element {
  const isRunning = report.state === "running";
  const lag = largestLag(report.tables);
  const failing = failingCount(report.tables);
  const oldest = report.oldest_transaction;
  return (
    <dl class="tiles">
      <Tile label="Changes" value={isRunning ? rate(rateOf(checkpoint, "changes")) : "–"} about={report.run ? `${count(report.run.changes)} applied in this run` : "no run yet"} />
      <Tile label="Read" value={isRunning ? byteRate(rateOf(checkpoint, "bytes")) : "–"} about={report.run ? `${plural(report.run.messages, "message")}, ${bytes(report.run.bytes)} in this run` : "no run yet"} />
      <Tile label="Lag" value={lag === null ? "–" : duration(lag * 1e6)} about="of the table with the largest lag, for its newest change" />
      <Tile
        label="Waiting"
        value={count(report.waiting)}
        about={report.oldest_wait_seconds === null ? "messages" : `messages, ${bytes(report.waiting_bytes)}, the oldest for ${duration(report.oldest_wait_seconds * 1e6)}`}
        {...(report.waiting > 0 ? { tone: "warn" as const } : {})}
      />
      <Tile label="Dead letters" value={count(report.dead)} about="messages, not redriven" {...(report.dead > 0 ? { tone: "bad" as const } : {})} />
      <Tile label="Failing tables" value={count(failing)} about={`of ${plural(report.tables.length, "table")}`} {...(failing > 0 ? { tone: "bad" as const } : {})} />
      <Tile
        label="Open transactions"
        value={count(report.open_transactions)}
        about={oldest ? <Text breaks>{`the oldest for ${duration(oldest.wait_seconds * 1e6)}: ${oldest.lacks}`}</Text> : "incomplete"}
      />
    </dl>
  );
}

function Tables({ report, index, nowUs }: { report: PipelineReport; index: number; nowUs: number }): JSX.Element {
  return (
    <Table
      label="Tables"
      rows={report.tables}
      rowKey={(one) => one.table}
      filterBy={(one) => one.table}
      sortedBy={{ name: "Table", isDown: false }}
      empty={<p class="muted none">No table yet: a table appears with its first metadata or data message.</p>}
      columns={[
        {
          name: "Table",
          sort: (one) => one.table,
          show: (one) =>
            one.table ? (
              <a href={link(["pipelines", index, one.table])}>
                <Text>{one.table}</Text>
              </a>
            ) : (
              <span class="muted" data-row tabIndex={-1}>
                of unknown tables
              </span>
            ),
        },
        { name: "State", sort: (one) => (one.failing ? 0 : 1), show: (one) => <TableState table={one} nowUs={nowUs} /> },
        { name: "Inserted", about: "Rows, in this run", isNumber: true, isMinor: true, sort: (one) => one.inserted, show: (one) => count(one.inserted) },
        { name: "Updated", about: "Rows, in this run", isNumber: true, isMinor: true, sort: (one) => one.updated, show: (one) => count(one.updated) },
        { name: "Deleted", about: "Rows, in this run", isNumber: true, isMinor: true, sort: (one) => one.deleted, show: (one) => count(one.deleted) },
        { name: "Lag", about: "From the commit in the source to the table, for the newest change", isNumber: true, sort: (one) => one.lag_seconds ?? -1, show: (one) => (one.lag_seconds === null ? "–" : duration(one.lag_seconds * 1e6)) },
        { name: "Last change", about: "Commit time in the source", isNumber: true, sort: (one) => one.last_change_us ?? 0, show: (one) => (one.last_change_us === null ? "–" : <span title={String(new Date(one.last_change_us / 1000).toISOString())}>{ago(nowUs, one.last_change_us)}</span>) },
        { name: "Waiting", about: "Messages", isNumber: true, sort: (one) => one.waiting, show: (one) => count(one.waiting) },
        { name: "Dead", about: "Messages in the dead-letter topic", isNumber: true, isMinor: true, sort: (one) => one.dead, show: (one) => count(one.dead) },
        { name: "Schema", about: "Newest version", isMinor: true, show: (one) => (one.versions[0] ? <span class="nowrap">{`version ${one.versions[0].version}`}</span> : "–") },
      ]}
    />
  );
}

const retry = (failing: FailingTable, nowUs: number): string => (failing.next_us <= nowUs ? "retried now" : `retried in ${duration(Math.max(1e6, failing.next_us - nowUs))}`);

function TableState({ table, nowUs }: { table: PipelineTable; nowUs: number }): JSX.Element {
  if (table.failing) {
    return (
      <span class="stack">
        <span>
          <span class="badge bad">{table.failing.poisoned ? "poisoned" : "failing"}</span> {retry(table.failing, nowUs)}
        </span>
        <small class="wrap">
          <Text breaks>{table.failing.reason}</Text>
        </small>
      </span>
    );
  }
  if (table.waiting > 0) return <span class="badge warn">waits{table.waits_for ? ` for ${table.waits_for}` : ""}</span>;
  return rowsOf(table) > 0 ? <span class="badge good">applied</span> : <span class="muted">no changes in this run</span>;
}

interface TableProps {
  pipeline: Pipeline;
  index: number;
  table: PipelineTable;
  nowUs: number;
}

function TablePage({ pipeline, index, table, nowUs }: TableProps): JSX.Element {
  const { failing } = table;
  return (
    <>
      <Head
        title={<Text>{table.table}</Text>}
        trail={[
          ["Pipelines", link(["pipelines"])],
          [shortName(pipeline.checkpoint), link(["pipelines"], { at: index })],
        ]}
        of={pipelines}
      />
      {failing && (
        <div class="notice bad" role="alert">
          <p>
            {plural(failing.failures, "failure")} since <Time us={failing.since_us} />; the merge is {retry(failing, nowUs)}.
          </p>
          <blockquote>
            <Text breaks>{failing.reason}</Text>
          </blockquote>
        </div>
      )}
      <dl class="tiles">
        <Tile label="Rows" value={count(rowsOf(table))} about={`${count(table.inserted)} inserted, ${count(table.updated)} updated, ${count(table.deleted)} deleted in this run`} />
        <Tile label="Lag" value={table.lag_seconds === null ? "–" : duration(table.lag_seconds * 1e6)} about="from the commit in the source to the table" />
        <Tile label="Last change" value={table.last_change_us === null ? "–" : ago(nowUs, table.last_change_us)} about={table.last_change_us === null ? "none with a commit time in this run" : <Time us={table.last_change_us} />} />
        <Tile
          label="Waiting"
          value={count(table.waiting)}
          about={table.waiting_since_us === null ? "messages" : `messages, ${bytes(table.waiting_bytes)}, the oldest from ${ago(nowUs, table.waiting_since_us)}, waiting for ${table.waits_for ?? "an unknown cause"}`}
          {...(table.waiting > 0 ? { tone: "warn" as const } : {})}
        />
        <Tile label="Dead letters" value={count(table.dead)} about={table.dead_reason === null ? "messages" : <Text breaks>{table.dead_reason}</Text>} {...(table.dead > 0 ? { tone: "bad" as const } : {})} />
      </dl>
      <h2>Versions of the schema</h2>
      <Table
        label="Versions"
        rows={table.versions}
        rowKey={(one) => one.schema_id}
        empty={<p class="muted none">The schema store has no version of this schema.</p>}
        columns={[
          { name: "Version", show: (one) => <span data-row tabIndex={-1}>{one.version}</span> },
          { name: "Arrived", show: (one) => <Time us={one.arrived_us} /> },
          { name: "Columns", isNumber: true, show: (one) => count(one.columns) },
          { name: "Key", isMinor: true, show: (one) => (one.keys.length ? <Text>{one.keys.join(", ")}</Text> : <span class="muted">none</span>) },
          { name: "Source", isMinor: true, show: (one) => <Text>{one.task ? `${one.source}, task ${one.task}` : one.source}</Text> },
          { name: "Schema id", isMinor: true, show: (one) => <span class="mono wrap"><Text breaks>{one.schema_id}</Text></span> },
          { name: "Difference from the previous version", show: (one) => <Differences of={one} /> },
        ]}
      />
      {table.versions_count > table.versions.length && <p class="muted">The newest {count(table.versions.length)} of {count(table.versions_count)}.</p>}
    </>
  );
}

function Differences({ of: { differences } }: { of: SchemaVersion }): JSX.Element {
  if (differences === null) return <span class="muted">first version</span>;
  if (differences.length === 0) return <span class="muted">none</span>;
  return (
    <ul class="differences">
      {differences.map((one, number) => (
        <li key={number} class={one.change}>
          <span class="badge">{one.change}</span> <Text>{one.column ?? ""}</Text> <span class="mono">{describe(one)}</span>
        </li>
      ))}
    </ul>
  );
}

const describe = (one: Difference): string => (one.before !== null && one.after !== null ? `${one.before} → ${one.after}` : (one.after ?? one.before ?? "none"));
