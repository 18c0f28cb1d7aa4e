// Dead letters: the topics that have them, and of one topic the reasons, the dead letters, and what is done with them.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { count, plural } from "../data/format";
import { type Action, type Chosen, countReasons, type Counted, filterOf, findDeadLetters, type Found, isDeadLetterTopic, keyOfReason, type DeadLetter, historyOf } from "../data/deadLetters";
import { fullName, messagesCount, sizeBytes, sizeText, topics } from "../data/log";
import { useResource } from "../data/resource";
import type { Decodes, Rights } from "../data/rights";
import { link, type Place } from "../data/router";
import type { DeadLetterReason, Topic } from "../data/types";
import { Empty, Failure, Head, Missing, Text, Tile, Time, Waiting } from "../parts/basics";
import { BulkDialog } from "../parts/bulk";
import { MessageDetail } from "../parts/message";
import { Table } from "../parts/table";

const MOST_OFFERED = 500;
const NONE: Found = { deadLetters: [], next: null, isRunning: true };

export function DeadLetters({ place, rights }: { place: Place; rights: Rights }): JSX.Element {
  const known = useResource(topics);
  const [, stream, name] = place.parts;
  if (known.value === null) return <Waiting of={known} />;
  const readable = known.value.topics.filter((one) => rights.topic("poll", one));
  if (stream === undefined || name === undefined) return <Choose all={readable} />;
  const topic = readable.find((one) => one.stream === stream && one.name === name);
  if (!topic) return <Missing title="There is no such topic, or you may not read its messages." />;
  const where = place.query.get("where") ?? "";
  return <TopicDeadLetters key={`${fullName(topic)} ${topic.id}`} topic={topic} where={where} canManage={rights.topic("manage", topic)} decodes={rights.decodes} />;
}

function Choose({ all }: { all: Topic[] }): JSX.Element {
  const dead = all.filter(isDeadLetterTopic);
  const others = all.filter((one) => !isDeadLetterTopic(one));
  return (
    <>
      <Head title="Dead letters" of={topics}>
        {others.length > 0 && (
          <AnotherTopic all={others} />
        )}
      </Head>
      <Table
        label="Topics"
        rows={dead}
        rowKey={fullName}
        sortedBy={{ name: "Messages", isDown: true }}
        empty={
          <Empty title="There are no dead letters.">
            <p>
              A consumer with <code>on_error</code> and <code>dead_letter="shop/orders.dead"</code> copies permanently failed messages to that topic. Topics whose names end in .dead or
              .dlq are listed here.
            </p>
          </Empty>
        }
        columns={[
          {
            name: "Topic",
            sort: fullName,
            show: (topic) => (
              <a href={link(["letters", topic.stream, topic.name])}>
                <Text>{fullName(topic)}</Text>
              </a>
            ),
          },
          { name: "Partitions", isNumber: true, isMinor: true, show: (topic) => count(topic.partitions.length) },
          { name: "Messages", about: "Including redriven and discarded dead letters that retention has not removed yet", isNumber: true, sort: messagesCount, show: (topic) => count(messagesCount(topic)) },
          { name: "Size", isNumber: true, sort: sizeBytes, show: (topic) => sizeText([topic]) },
        ]}
      />
    </>
  );
}

/** A field for the name of any topic; of very many, not all names are offered. */
function AnotherTopic({ all }: { all: Topic[] }): JSX.Element {
  const open = (name: string) => {
    const topic = all.find((one) => fullName(one) === name);
    if (topic) location.hash = link(["letters", topic.stream, topic.name]);
  };
  return (
    <>
      <input
        list="other-topics"
        aria-label="Dead letters of another topic"
        placeholder="Another topic …"
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => open(event.currentTarget.value)}
      />
      <datalist id="other-topics">
        {all.slice(0, MOST_OFFERED).map((topic) => (
          <option key={fullName(topic)} value={fullName(topic)} />
        ))}
      </datalist>
    </>
  );
}

interface TopicProps {
  topic: Topic;
  where: string;
  canManage: boolean;
  decodes: Decodes;
}

function TopicDeadLetters({ topic, where, canManage, decodes }: TopicProps): JSX.Element {
  const [counted, setCounted] = useState<Counted | null>(null);
  const [found, setFound] = useState<Found>(NONE);
  const [error, setError] = useState<Error | null>(null);
  const [round, setRound] = useState(0);
  const [open, setOpen] = useState<DeadLetter | null>(null);
  const [bulk, setBulk] = useState<{ action: Action; chosen: Chosen } | null>(null);
  const [text, setText] = useState(where);
  const [countedMs, setCountedMs] = useState(0);

  useEffect(() => {
    const asking = new AbortController();
    countReasons(topic, asking.signal, setCounted).then(
      () => setCountedMs(Date.now()),
      (refused: Error) => !asking.signal.aborted && setError(refused),
    );
    return () => asking.abort();
  }, [round]);
  useEffect(() => {
    const asking = new AbortController();
    setText(where);
    setFound(NONE);
    setOpen(null);
    more(NONE, asking.signal);
    return () => asking.abort();
  }, [where, round]);
  const more = (before: Found, signal: AbortSignal) => {
    findDeadLetters(topic, where, before, signal, setFound).then(
      () => setError(null),
      (refused: Error) => {
        if (signal.aborted) return;
        setError(refused);
        setFound((known) => ({ ...known, isRunning: false }));
      },
    );
  };
  const refresh = async () => {
    await topics.refresh();
    setRound((number) => number + 1);
  };
  const asked = useMemo(() => ({ value: counted, error: null, fetchedMs: countedMs, refresh }), [counted, countedMs]);
  const choose = (wanted: string) => {
    location.hash = link(["letters", topic.stream, topic.name], { where: wanted });
  };
  const act = (action: Action, chosen: Chosen) => setBulk({ action, chosen });
  const all: Chosen = { where, single: null };
  const hasDeadLetters = found.deadLetters.length > 0;
  const shown = open && found.deadLetters.find((one) => one.partition === open.partition && one.message.offset === open.message.offset);
  return (
    <div class={`letters ${shown ? "with-detail" : ""}`}>
      <Head title={<Text>{fullName(topic)}</Text>} trail={[["Dead letters", link(["letters"])]]} of={counted && !counted.isRunning ? asked : undefined}>
        <button type="button" onClick={() => void refresh()}>
          Count again
        </button>
        <a class="button" href={link(["topics", topic.stream, topic.name])}>
          Topic
        </a>
      </Head>
      {error && <Failure error={error} />}
      <dl class="tiles">
        <Tile label="Dead letters" value={counted ? count(counted.deadLetters) : "…"} about={counted?.isRunning ? `counting: ${plural(counted.scanned, "message")} read` : "neither redriven nor discarded"} />
        <Tile label="Reasons" value={counted ? count(counted.reasons.length) : "…"} about="different by topic, group and error" />
      </dl>
      <h2>Reasons</h2>
      <Reasons rows={counted?.reasons ?? []} isRunning={counted === null || counted.isRunning} where={where} canManage={canManage} onChoose={choose} onAct={act} />
      <h2>Letters</h2>
      <div class="tools">
        <form
          class="inline search"
          onSubmit={(event) => {
            event.preventDefault();
            choose(text);
          }}
        >
          <input type="search" data-filter aria-label="Filter dead letters" placeholder="hs.origin.group = 'billing'  ( / )" value={text} onInput={(event) => setText(event.currentTarget.value)} />
          <button type="submit">Filter</button>
          {where && (
            <button type="button" onClick={() => choose("")}>
              All dead letters
            </button>
          )}
        </form>
        <span class="space" />
        {canManage && (
          <>
            <button type="button" disabled={!hasDeadLetters} onClick={() => act("redrive", all)}>
              Redrive {where ? "these" : "all"} …
            </button>
            <button type="button" class="danger-quiet" disabled={!hasDeadLetters} onClick={() => act("discard", all)}>
              Discard {where ? "these" : "all"} …
            </button>
          </>
        )}
      </div>
      <div class="columns">
        <DeadLetterTable topic={topic} found={found} onOpen={setOpen} onMore={() => more(found, new AbortController().signal)} />
        {shown && (
          <MessageDetail
            key={`${shown.partition} ${shown.message.offset}`}
            at={{ stream: topic.stream, topic: topic.name, partition: shown.partition }}
            message={shown.message}
            topic={topic}
            canManage={canManage}
            decodes={decodes}
            onChanged={() => void refresh()}
            onClose={() => setOpen(null)}
          >
            <Origin letter={shown} canManage={canManage} onAct={act} />
          </MessageDetail>
        )}
      </div>
      {bulk && (
        <BulkDialog
          {...bulk}
          topic={topic}
          onClose={(isChanged) => {
            setBulk(null);
            if (isChanged) void refresh();
          }}
        />
      )}
    </div>
  );
}

interface ReasonsProps {
  rows: DeadLetterReason[];
  isRunning: boolean;
  where: string;
  canManage: boolean;
  onChoose: (where: string) => void;
  onAct: (action: Action, chosen: Chosen) => void;
}

function Reasons({ rows, isRunning, where, canManage, onChoose, onAct }: ReasonsProps): JSX.Element {
  return (
    <Table
      label="Reasons"
      rows={rows}
      rowKey={keyOfReason}
      sortedBy={{ name: "Letters", isDown: true }}
      empty={isRunning ? <p class="muted none">Counting …</p> : <Empty title="There are no dead letters left." />}
      columns={[
        {
          name: "Reason",
          show: (one) => (
            <a
              href="#"
              class="reason"
              aria-current={filterOf(one) === where ? "true" : undefined}
              onClick={(event) => {
                event.preventDefault();
                onChoose(filterOf(one));
              }}
            >
              {one.is_rest ? "other reasons" : one.topic === null ? "no dead letters" : <Text breaks>{one.reason ?? "without a reason"}</Text>}
              {one.reason_code !== null && <span class="badge warn">{one.reason_code.replaceAll("_", " ")}</span>}
            </a>
          ),
        },
        { name: "Group", sort: (one) => one.group ?? "", show: (one) => (one.group === null ? <span class="muted">none</span> : <Text>{one.group}</Text>) },
        { name: "From", isMinor: true, sort: (one) => one.topic ?? "", show: (one) => (one.topic === null ? <span class="muted">–</span> : <Text>{one.topic}</Text>) },
        { name: "Letters", isNumber: true, sort: (one) => one.count, show: (one) => count(one.count) },
        { name: "Attempts", about: "Maximum of one dead letter", isNumber: true, isMinor: true, sort: (one) => one.most_attempts ?? 0, show: (one) => (one.most_attempts === null ? "–" : count(one.most_attempts)) },
        { name: "Last failed", isMinor: true, sort: (one) => one.last_failed_us ?? 0, show: (one) => (one.last_failed_us === null ? "–" : <Time us={one.last_failed_us} />) },
        {
          name: "Actions",
          isUntitled: true,
          isPinned: true,
          show: (one) =>
            canManage ? (
              <span class="row-actions">
                {one.topic !== null && (
                  <button type="button" class="small" onClick={() => onAct("redrive", { where: filterOf(one), single: null })}>
                    Redrive …
                  </button>
                )}
                <button type="button" class="small danger-quiet" onClick={() => onAct("discard", { where: filterOf(one), single: null })}>
                  Discard …
                </button>
              </span>
            ) : null,
        },
      ]}
    />
  );
}

interface DeadLetterTableProps {
  topic: Topic;
  found: Found;
  onOpen: (letter: DeadLetter) => void;
  onMore: () => void;
}

function DeadLetterTable({ topic, found, onOpen, onMore }: DeadLetterTableProps): JSX.Element {
  const hasPartitions = topic.partitions.length > 1;
  return (
    <div>
      <Table
        label="Letters"
        rows={found.deadLetters}
        rowKey={(one) => `${one.partition} ${one.message.offset}`}
        empty={found.isRunning ? <p class="muted none">Searching …</p> : <p class="muted none">No dead letter matches.</p>}
        columns={[
          {
            name: hasPartitions ? "Partition : offset" : "Offset",
            show: (one) => (
              <button type="button" class="link" data-row aria-label={`Dead letter at offset ${one.message.offset} of partition ${one.partition}`} onClick={() => onOpen(one)}>
                {hasPartitions ? `${one.partition} : ` : ""}
                {count(one.message.offset)}
              </button>
            ),
          },
          { name: "Appended", isMinor: true, show: (one) => <Time us={one.message.timestamp_us} /> },
          { name: "From", isMinor: true, show: (one) => <OriginName history={historyOf(one.message)} /> },
          { name: "Group", show: (one) => <Text>{historyOf(one.message)["origin.group"] ?? ""}</Text> },
          { name: "Attempts", isNumber: true, isMinor: true, show: (one) => historyOf(one.message)["attempts"] ?? "–" },
          { name: "Reason", show: (one) => <Text breaks>{historyOf(one.message)["reason"] ?? ""}</Text> },
        ]}
      />
      {found.next && !found.isRunning && (
        <button type="button" class="more" onClick={onMore}>
          Load more
        </button>
      )}
    </div>
  );
}

function OriginName({ history }: { history: Record<string, string> }): JSX.Element {
  const { "origin.topic": topic, "origin.partition": partition, "origin.offset": offset } = history;
  if (topic === undefined) return <span class="muted">–</span>;
  const name = `${topic}/${partition}/${offset}`;
  const at = topic.indexOf("/");
  if (at < 0) return <Text>{name}</Text>;
  return (
    <a href={link(["messages", topic.slice(0, at), topic.slice(at + 1)], { partition, offset })}>
      <Text>{name}</Text>
    </a>
  );
}

/** Where a dead letter comes from, and what became of it there. */
function Origin({ letter, canManage, onAct }: { letter: DeadLetter; canManage: boolean; onAct: (action: Action, chosen: Chosen) => void }): JSX.Element {
  const history = historyOf(letter.message);
  const single = { partition: letter.partition, offset: letter.message.offset };
  const at = (name: string) => (/^\d+$/.test(history[name] ?? "") ? <Time us={Number(history[name])} /> : <span class="muted">unknown</span>);
  return (
    <>
      <dl class="facts origin">
        <dt>Origin</dt>
        <dd class="wrap">
          <OriginName history={history} />
        </dd>
        <dt>Failed in</dt>
        <dd>
          {history["origin.group"] === undefined ? <span class="muted">no group</span> : <Text>{history["origin.group"]}</Text>}
          {history["attempts"] !== undefined && ` after ${plural(Number(history["attempts"]), "attempt")}`}
          {history["redrives"] !== undefined && `, redriven ${plural(Number(history["redrives"]), "time")} before`}
        </dd>
        <dt>First error</dt>
        <dd class="wrap">
          <Text breaks>{history["first_error"] ?? "unknown"}</Text> <small class="muted">{at("first_failed")}</small>
        </dd>
        <dt>Last error</dt>
        <dd class="wrap">
          <Text breaks>{history["reason"] ?? "unknown"}</Text> <small class="muted">{at("last_failed")}</small>
        </dd>
      </dl>
      {canManage && (
        <p class="row-actions">
          <button type="button" onClick={() => onAct("redrive", { where: "", single })}>
            Redrive this dead letter …
          </button>
          <button type="button" class="danger-quiet" onClick={() => onAct("discard", { where: "", single })}>
            Discard this dead letter …
          </button>
        </p>
      )}
    </>
  );
}
