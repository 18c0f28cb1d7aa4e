// Messages of a partition: scrolled from the first to the newest, searched, followed live, and looked into.
import type { JSX } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { call, topicPath } from "../data/api";
import { count, plural, time } from "../data/format";
import { fullName, messagesCount, sizeBytes, sizeText, topics } from "../data/log";
import { PartitionMessages, type Search, type SearchKind, search } from "../data/partition";
import { useResource } from "../data/resource";
import type { Rights } from "../data/rights";
import { link, type Place } from "../data/router";
import type { Browsed, Message, Partition, Topic } from "../data/types";
import { Command, Empty, Failure, Head, Missing, Text, Waiting } from "../parts/basics";
import { List } from "../parts/list";
import { family, MessageDetail, preview, StateName } from "../parts/message";
import { describeSearch, SearchField } from "../parts/search";
import { Table } from "../parts/table";

const TAIL_MS = 1000;

export function Messages({ place, rights }: { place: Place; rights: Rights }): JSX.Element {
  const known = useResource(topics);
  const [, stream, name] = place.parts;
  if (known.value === null) return <Waiting of={known} />;
  if (stream === undefined || name === undefined) return <ChooseTopic all={known.value.topics.filter((one) => rights.topic("poll", one))} />;
  const topic = known.value.topics.find((one) => one.stream === stream && one.name === name);
  if (!topic) return <Missing title="There is no such topic, or you may not see it." />;
  if (!rights.topic("poll", topic)) return <Missing title="You may not read the messages of this topic." />;
  const number = Number(place.query.get("partition") ?? topic.partitions[0]?.number ?? 1);
  const partition = topic.partitions.find((one) => one.number === number);
  if (!partition) return <Missing title={`The topic has no partition ${number}.`} />;
  return <Browser key={`${stream}/${name}/${number}/${partition.generation}`} topic={topic} partition={partition} place={place} rights={rights} />;
}

function ChooseTopic({ all }: { all: Topic[] }): JSX.Element {
  return (
    <>
      <Head title="Messages" of={topics} />
      <Table
        label="Topics"
        rows={all}
        rowKey={fullName}
        filterBy={fullName}
        sortedBy={{ name: "Topic", isDown: false }}
        empty={<Empty title="There are no topics whose messages you can read." />}
        columns={[
          {
            name: "Topic",
            sort: fullName,
            show: (topic) => (
              <a href={link(["messages", topic.stream, topic.name])}>
                <Text>{fullName(topic)}</Text>
              </a>
            ),
          },
          { name: "Partitions", isNumber: true, isMinor: true, sort: (topic) => topic.partitions.length, show: (topic) => count(topic.partitions.length) },
          { name: "Messages", isNumber: true, sort: messagesCount, show: (topic) => count(messagesCount(topic)) },
          { name: "Size", isNumber: true, sort: sizeBytes, show: (topic) => sizeText([topic]) },
        ]}
      />
    </>
  );
}

/** The search that the address of a page names. */
function givenSearch(place: Place): { kind: SearchKind; text: string } {
  const where = place.query.get("where");
  return where === null ? { kind: "contains", text: place.query.get("contains") ?? "" } : { kind: "where", text: where };
}

interface BrowserProps {
  topic: Topic;
  partition: Partition;
  place: Place;
  rights: Rights;
}

function Browser({ topic, partition, place, rights }: BrowserProps): JSX.Element {
  const at = { stream: topic.stream, topic: topic.name, partition: partition.number };
  const [, draw] = useState(0);
  const base = useMemo(() => partition.first_offset, []);
  const messages = useMemo(() => new PartitionMessages(at.stream, at.topic, at.partition, base, () => draw((n) => n + 1)), []);
  const [end, setEnd] = useState(partition.end_offset);
  const [isTailing, setTailing] = useState(false);
  const [chosen, setChosen] = useState<number | null>(null); // an offset
  const [goTo, setGoTo] = useState<{ index: number } | null>(null);
  const [found, setFound] = useState<Search | null>(null);
  const [problem, setProblem] = useState<Error | null>(null);
  const searching = useRef<AbortController | null>(null);
  const linked = place.query.get("offset");

  useEffect(() => () => messages.close(), [messages]);
  useEffect(() => () => searching.current?.abort(), []);
  useEffect(() => setEnd((known) => Math.max(known, partition.end_offset)), [partition.end_offset]);
  useEffect(() => {
    const offset = Number(linked);
    if (linked === null || !Number.isSafeInteger(offset)) return;
    setChosen(offset);
    setGoTo({ index: offset - base });
  }, [linked]);
  useEffect(() => {
    if (!isTailing) return undefined;
    const asking = new AbortController();
    const ask = async () => {
      try {
        const query = { kind: "last", count: 1, payload_bytes: 0 };
        setEnd((await call<Browsed>("GET", messages.path, { query, signal: asking.signal })).end_offset);
        setProblem(null);
      } catch (error) {
        if (!asking.signal.aborted) setProblem(error as Error);
      }
    };
    const timer = setInterval(() => void ask(), TAIL_MS);
    void ask();
    return () => {
      clearInterval(timer);
      asking.abort();
    };
  }, [isTailing, messages]);

  const length = found ? found.found.length : Math.max(0, end - base);
  const offsetOf = useCallback((index: number) => (found ? (found.found[index]?.offset ?? 0) : base + index), [found, base]);
  const indexOf = (offset: number) => (found ? found.found.findIndex((one) => one.offset === offset) : offset - base);
  const messageAt = (index: number): Message | null | undefined => (found ? found.found[index] : messages.at(base + index));
  const onShow = useCallback(
    (from: number, until: number) => {
      if (!found && until > from) messages.show(base + from, Math.min(base + until, end));
    },
    [found, messages, base, end],
  );
  const choose = (index: number | null) => {
    const offset = index === null ? null : offsetOf(index);
    setChosen(offset);
    setTailing(false);
    const query = { partition: at.partition, ...(found ? { [found.kind]: found.text } : {}), offset: offset ?? undefined };
    history.replaceState(null, "", link(["messages", at.stream, at.topic], query));
  };
  const onScrolled = useCallback((isAtEnd: boolean) => {
    if (!isAtEnd) setTailing(false);
  }, []);
  const startSearch = (kind: SearchKind, text: string) => {
    searching.current?.abort();
    setChosen(null);
    setTailing(false);
    // the address has the search, so that a bookmark keeps it
    history.replaceState(null, "", link(["messages", at.stream, at.topic], { partition: at.partition, [kind]: text || undefined }));
    if (!text) {
      setFound(null);
      return;
    }
    const asking = new AbortController();
    searching.current = asking;
    void search(messages.path, topicPath(at.stream, at.topic), kind, text, base, end, asking.signal, (state) => searching.current === asking && setFound(state));
  };
  const given = useMemo(() => givenSearch(place), []);
  useEffect(() => {
    if (given.text) startSearch(given.kind, given.text);
  }, []);
  const index = chosen === null ? null : indexOf(chosen);
  const shown = index === null || index < 0 ? undefined : messageAt(index);
  const error = problem ?? messages.error;
  return (
    <div class={`browser ${shown ? "with-detail" : ""}`}>
      <Head
        title="Messages"
        trail={[
          ["Topics", link(["topics"])],
          [fullName(topic), link(["topics", topic.stream, topic.name])],
        ]}
        of={topics}
      />
      <div class="tools browsing">
        <label class="inline">
          <span>Partition</span>
          <select
            value={partition.number}
            onChange={(event) => {
              location.hash = link(["messages", at.stream, at.topic], { partition: event.currentTarget.value });
            }}
          >
            {topic.partitions.map((one) => (
              <option key={one.number} value={one.number}>
                {one.number} ({plural(one.end_offset - one.first_offset - one.compacted_count, "message")})
              </option>
            ))}
          </select>
        </label>
        <Jump
          path={messages.path}
          onJump={(offset) => {
            searching.current?.abort();
            setFound(null);
            setTailing(false);
            const next = Math.min(Math.max(offset, base), Math.max(end - 1, base));
            setGoTo({ index: next - base });
            setChosen(end > base ? next : null);
          }}
          base={base}
          end={end}
          onProblem={setProblem}
        />
        <SearchField search={found} given={given} onSearch={startSearch} onStop={() => searching.current?.abort()} />
        <span class="space" />
        <button
          type="button"
          aria-pressed={isTailing}
          class={isTailing ? "live" : ""}
          onClick={() => {
            setFound(null);
            searching.current?.abort();
            setTailing(!isTailing);
          }}
        >
          {isTailing ? "❚❚ Pause" : "▶ Live tail"}
        </button>
      </div>
      {error && <Failure error={error} />}
      <div class="columns">
        <div class="pane">
          <div class="row titles" aria-hidden="true">
            <span>Offset</span>
            <span>Time</span>
            <span>Key</span>
            <span>Headers</span>
            <span>Payload</span>
          </div>
          {length === 0 ? (
            found ? (
              <Empty title={found.isRunning ? "Searching …" : found.error ? found.error.message : `No message ${found.kind === "where" ? "matches" : "contains"} “${found.text}”.`} />
            ) : (
              <Empty title="This partition has no messages.">
                {isTailing ? <p>Waiting for the first message …</p> : <Command>{`headstream send ${fullName(topic)} hello --partition ${at.partition}`}</Command>}
              </Empty>
            )
          ) : (
            <List
              label="Messages"
              length={length}
              chosen={index !== null && index >= 0 ? index : null}
              onChoose={choose}
              onShow={onShow}
              row={(number) => <Row offset={offsetOf(number)} message={messageAt(number)} />}
              rowClass={(number) => (messageAt(number)?.state ?? "")}
              isAtEnd={isTailing}
              onScrolled={onScrolled}
              goTo={goTo}
            />
          )}
          <p class="status muted" role="status">
            {found
              ? describeSearch(found)
              : `${plural(length, "offset")}, ${count(base)} to ${count(Math.max(base, end - 1))}`}
            {isTailing && " · following the end, refreshed every second"}
          </p>
        </div>
        {shown && (
          <MessageDetail
            at={at}
            message={shown}
            topic={topic}
            canManage={rights.topic("manage", topic) && !rights.isKafka}
            decodes={rights.decodes}
            onChanged={() => (found ? startSearch(found.kind, found.text) : void messages.reload(shown.offset))}
            onClose={() => choose(null)}
          />
        )}
      </div>
    </div>
  );
}

function Row({ offset, message }: { offset: number; message: Message | null | undefined }): JSX.Element {
  if (!message) {
    return (
      <>
        <span class="number">{count(offset)}</span>
        <span class="muted">{message === null ? "removed by retention or compaction" : "…"}</span>
      </>
    );
  }
  const [key, payload] = [preview(message.key), preview(message.payload)];
  return (
    <>
      <span class="number">{count(message.offset)}</span>
      <span class="time">{time(message.timestamp_us)}</span>
      <span class={key.isText ? "mono" : "mono muted"}>{message.key === null ? "" : <Text>{key.text}</Text>}</span>
      <span class="chips">
        {message.state !== "available" && <StateName state={message.state} />}
        {message.headers.slice(0, 4).map((header, number) => (
          <span key={number} class={`chip ${family(header.kind)}`} title={header.kind}>
            <Text>{header.key}</Text>
            <b>
              <Text>{header.value.slice(0, 40)}</Text>
            </b>
          </span>
        ))}
        {message.headers.length > 4 && <span class="muted">+{message.headers.length - 4}</span>}
      </span>
      <span class={payload.isText ? "mono cutoff" : "mono cutoff muted"}>
        <Text>{payload.text.slice(0, 300)}</Text>
      </span>
    </>
  );
}

interface JumpProps {
  path: string;
  base: number;
  end: number;
  onJump: (offset: number) => void;
  onProblem: (error: Error | null) => void;
}

function Jump({ path, base, end, onJump, onProblem }: JumpProps): JSX.Element {
  const [to, setTo] = useState("first");
  const [value, setValue] = useState("");
  const jump = async (kind: string, text: string) => {
    onProblem(null);
    if (kind === "first") onJump(base);
    else if (kind === "last") onJump(end - 1);
    else if (kind === "offset" && /^\d+$/.test(text)) onJump(Number(text));
    else if (kind === "time" && text) {
      const us = new Date(text).getTime() * 1000;
      try {
        const found = await call<Browsed>("GET", path, { query: { kind: "timestamp", value: us, count: 1, payload_bytes: 0 } });
        if (found.messages[0]) onJump(found.messages[0].offset);
        else onProblem(new Error("There is no message at or after that time."));
      } catch (error) {
        onProblem(error as Error);
      }
    }
  };
  return (
    <form
      class="inline"
      onSubmit={(event) => {
        event.preventDefault();
        void jump(to, value);
      }}
    >
      <select
        aria-label="Go to"
        value={to}
        onChange={(event) => {
          setTo(event.currentTarget.value);
          setValue("");
          void jump(event.currentTarget.value, "");
        }}
      >
        <option value="first">First</option>
        <option value="last">Newest</option>
        <option value="offset">Offset …</option>
        <option value="time">Time …</option>
      </select>
      {to === "offset" && (
        <input
          aria-label="Offset"
          inputMode="numeric"
          pattern="\d+"
          placeholder="offset"
          size={12}
          value={value}
          onInput={(event) => setValue(event.currentTarget.value)}
        />
      )}
      {to === "time" && (
        <input aria-label="Local time" type="datetime-local" step="1" value={value} onInput={(event) => setValue(event.currentTarget.value)} />
      )}
      <button type="submit">Go</button>
    </form>
  );
}
