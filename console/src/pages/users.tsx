// Users and what they are allowed to do: one row a user, one column a right.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { call } from "../data/api";
import { plural, time } from "../data/format";
import { Resource, useResource } from "../data/resource";
import type { Rights } from "../data/rights";
import { GLOBAL_RIGHTS, type GlobalRight, type Permissions, type Stream, type StreamRights, type User } from "../data/types";
import { Head, Text, Waiting } from "../parts/basics";
import { ConfirmByName, Dialog, Field } from "../parts/dialog";
import { Table } from "../parts/table";

const NO_RIGHTS = Object.fromEntries(GLOBAL_RIGHTS.map((name) => [name, false])) as Record<GlobalRight, boolean>;
const words = (name: string): string => name.replaceAll("_", " ");

async function load(signal: AbortSignal): Promise<User[]> {
  const users = await call<User[]>("GET", "/users", { signal });
  const found: User[] = [];
  for (const user of users) found.push((await call<User | null>("GET", `/users/${user.id}`, { signal })) ?? user);
  return found;
}

export function Users({ rights, ownId }: { rights: Rights; ownId: number }): JSX.Element {
  const resource = useMemo(() => new Resource(load, 15_000), []);
  const known = useResource(resource);
  const [streams, setStreams] = useState<Stream[]>([]);
  const [asked, setAsked] = useState<{ what: "create" | "rights" | "delete" | "password"; user: User | null } | null>(null);
  useEffect(() => {
    call<Stream[]>("GET", "/streams").then(setStreams, () => setStreams([]));
  }, []);
  if (known.value === null) return <Waiting of={known} />;
  const close = () => setAsked(null);
  const nameOf = (id: string) => streams.find((stream) => String(stream.id) === id)?.name ?? `stream ${id}`;
  const setStatus = async (user: User) => {
    await call("PUT", `/users/${user.id}`, { body: { status: user.status === "active" ? "inactive" : "active" } }).catch(() => null);
    await resource.refresh();
  };
  return (
    <>
      <Head title="Users" of={known}>
        {rights.manageUsers && (
          <button type="button" class="primary" onClick={() => setAsked({ what: "create", user: null })}>
            Create user …
          </button>
        )}
      </Head>
      <Table
        label="Users"
        rows={known.value}
        rowKey={(user) => String(user.id)}
        filterBy={(user) => user.username}
        columns={[
          {
            name: "User",
            sort: (user) => user.username,
            show: (user) => (
              <span class="stack" data-row tabIndex={-1}>
                <span>
                  <Text>{user.username}</Text>
                  {user.status !== "active" && <span class="badge warn">inactive</span>}
                </span>
                <small>since {time(user.created_at).slice(0, 10)}</small>
              </span>
            ),
          },
          ...GLOBAL_RIGHTS.map((name) => ({
            name: words(name),
            isTick: true,
            show: (user: User) =>
              user.permissions?.global?.[name] ? (
                <span class="yes">
                  ✓<span class="hidden">yes</span>
                </span>
              ) : (
                <span class="no">
                  ·<span class="hidden">no</span>
                </span>
              ),
          })),
          {
            name: "for streams",
            show: (user) => {
              const own = Object.entries(user.permissions?.streams ?? {});
              if (own.length === 0) return <span class="muted">–</span>;
              return (
                <details>
                  <summary>{plural(own.length, "stream")}</summary>
                  <ul class="rights">
                    {own.map(([id, given]) => (
                      <li key={id}>
                        <strong>
                          <Text>{nameOf(id)}</Text>
                        </strong>{" "}
                        {spell(given)}
                      </li>
                    ))}
                  </ul>
                </details>
              );
            },
          },
          {
            name: "Actions",
            isUntitled: true,
            isPinned: true,
            show: (user) => (
              <span class="row-actions">
                {rights.manageUsers && (
                  <button type="button" class="small" onClick={() => setAsked({ what: "rights", user })}>
                    Rights …
                  </button>
                )}
                {user.id === ownId && (
                  <button type="button" class="small" onClick={() => setAsked({ what: "password", user })}>
                    Password …
                  </button>
                )}
                {rights.manageUsers && user.id !== ownId && user.id !== 1 && (
                  <>
                    <button type="button" class="small" onClick={() => void setStatus(user)}>
                      {user.status === "active" ? "Deactivate" : "Activate"}
                    </button>
                    <button type="button" class="small danger-quiet" onClick={() => setAsked({ what: "delete", user })}>
                      Delete …
                    </button>
                  </>
                )}
              </span>
            ),
          },
        ]}
      />
      <p class="muted">Deactivating a user ends the user's sessions and access tokens immediately.</p>
      {asked?.what === "create" && <CreateUser onDone={resource.refresh} onClose={close} />}
      {asked?.what === "rights" && asked.user && <EditRights user={asked.user} streams={streams} onDone={resource.refresh} onClose={close} />}
      {asked?.what === "password" && asked.user && <ChangePassword user={asked.user} onClose={close} />}
      {asked?.what === "delete" && asked.user && (
        <ConfirmByName
          title="Delete the user"
          name={asked.user.username}
          action="Delete"
          onAct={async () => {
            await call("DELETE", `/users/${asked.user?.id}`);
            await resource.refresh();
          }}
          onClose={close}
        >
          <p>The user's sessions end, and the user's tokens are removed. Messages are kept.</p>
        </ConfirmByName>
      )}
    </>
  );
}

function spell(given: StreamRights): string {
  const own = Object.entries(given).filter(([name, value]) => name !== "topics" && value === true);
  const topics = Object.keys(given.topics ?? {}).length;
  return [...own.map(([name]) => words(name)), ...(topics ? [`rights for ${plural(topics, "topic")}`] : [])].join(", ") || "nothing";
}

interface RightsFieldsProps {
  given: Record<GlobalRight, boolean>;
  onChange: (given: Record<GlobalRight, boolean>) => void;
}

function RightsFields({ given, onChange }: RightsFieldsProps): JSX.Element {
  return (
    <fieldset class="checks">
      <legend>Rights everywhere</legend>
      {GLOBAL_RIGHTS.map((name) => (
        <label key={name}>
          <input type="checkbox" checked={given[name]} onChange={(event) => onChange({ ...given, [name]: event.currentTarget.checked })} />
          {words(name)}
        </label>
      ))}
    </fieldset>
  );
}

const STREAM_RIGHTS = ["manage_stream", "read_stream", "manage_topics", "read_topics", "poll_messages", "send_messages"] as const;

interface EditProps {
  user: User;
  streams: Stream[];
  onDone: () => Promise<void>;
  onClose: () => void;
}

function EditRights({ user, streams, onDone, onClose }: EditProps): JSX.Element {
  const [given, setGiven] = useState({ ...NO_RIGHTS, ...user.permissions?.global });
  const [own, setOwn] = useState<Record<string, StreamRights>>(user.permissions?.streams ?? {});
  const save = async () => {
    const kept = Object.entries(own).filter(([, rights]) => STREAM_RIGHTS.some((name) => rights[name]) || Object.keys(rights.topics ?? {}).length > 0);
    const permissions: Permissions = { global: given, streams: kept.length ? Object.fromEntries(kept) : null };
    await call("PUT", `/users/${user.id}/permissions`, { body: { permissions } });
    await onDone();
  };
  const none: StreamRights = { manage_stream: false, read_stream: false, manage_topics: false, read_topics: false, poll_messages: false, send_messages: false, topics: null };
  return (
    <Dialog title={`Rights of ${user.username}`} action="Save" onAct={save} onClose={onClose}>
      <RightsFields given={given} onChange={setGiven} />
      {streams.map((stream) => {
        const rights = own[stream.id] ?? none;
        return (
          <fieldset key={stream.id} class="checks">
            <legend>
              Stream <Text>{stream.name}</Text>
            </legend>
            {STREAM_RIGHTS.map((name) => (
              <label key={name}>
                <input
                  type="checkbox"
                  checked={rights[name]}
                  onChange={(event) => setOwn({ ...own, [stream.id]: { ...rights, [name]: event.currentTarget.checked } })}
                />
                {words(name)}
              </label>
            ))}
          </fieldset>
        );
      })}
    </Dialog>
  );
}

function CreateUser({ onDone, onClose }: { onDone: () => Promise<void>; onClose: () => void }): JSX.Element {
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [given, setGiven] = useState(NO_RIGHTS);
  const create = async () => {
    await call("POST", "/users", { body: { username, password, status: "active", permissions: { global: given, streams: null } } });
    await onDone();
  };
  return (
    <Dialog title="Create a user" action="Create" isReady={username.length >= 3 && password.length >= 3} onAct={create} onClose={onClose}>
      <Field label="User name" about="3 to 50 characters.">
        <input autofocus autocomplete="off" value={username} onInput={(event) => setUsername(event.currentTarget.value)} />
      </Field>
      <Field label="Password" about="3 to 100 characters.">
        <input type="password" autocomplete="new-password" value={password} onInput={(event) => setPassword(event.currentTarget.value)} />
      </Field>
      <RightsFields given={given} onChange={setGiven} />
    </Dialog>
  );
}

function ChangePassword({ user, onClose }: { user: User; onClose: () => void }): JSX.Element {
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const change = async () => {
    await call("PUT", `/users/${user.id}/password`, { body: { current_password: current, new_password: next } });
  };
  return (
    <Dialog title={`Password of ${user.username}`} action="Change" isReady={next.length >= 3} onAct={change} onClose={onClose}>
      <p class="notice">All sessions and tokens of the user end; log in again afterwards.</p>
      <Field label="Current password">
        <input type="password" autocomplete="current-password" value={current} onInput={(event) => setCurrent(event.currentTarget.value)} />
      </Field>
      <Field label="New password">
        <input type="password" autocomplete="new-password" value={next} onInput={(event) => setNext(event.currentTarget.value)} />
      </Field>
    </Dialog>
  );
}
