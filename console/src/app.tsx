// The frame around the pages: who is logged in, where one can go, keys, dark and light.
import type { JSX } from "preact";
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { ApiError, call, onSignedOut } from "./data/api";
import { isDeadLetterTopic } from "./data/deadLetters";
import { forgetAll, fullName, groups, topics } from "./data/log";
import { forgetPipelines, pipelines, shortName } from "./data/pipelines";
import { useResource } from "./data/resource";
import { Rights } from "./data/rights";
import { link, usePlace } from "./data/router";
import type { Session } from "./data/types";
import { Failure, Missing, Text } from "./parts/basics";
import { useKeys } from "./parts/keys";
import { type Entry, Palette } from "./parts/palette";
import { Clients } from "./pages/clients";
import { GroupPage, Groups } from "./pages/groups";
import { Help } from "./pages/help";
import { DeadLetters } from "./pages/deadLetters";
import { Login } from "./pages/login";
import { Messages } from "./pages/messages";
import { OverviewPage } from "./pages/overview";
import { PipelinesPage } from "./pages/pipelines";
import { TopicPage } from "./pages/topic";
import { Topics } from "./pages/topics";
import { Users } from "./pages/users";

const RENEWAL_MS = 5 * 60_000;

export function App(): JSX.Element {
  const [session, setSession] = useState<Session | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [isAsking, setAsking] = useState(true);
  const [note, setNote] = useState<string | null>(null);
  const ask = useCallback(async () => {
    setAsking(true);
    try {
      setSession(await call<Session>("GET", "/console/session"));
      setNote(null);
      setError(null);
    } catch (refused) {
      const isSignedOut = refused instanceof ApiError && refused.status === 401;
      setError(isSignedOut ? null : (refused as ApiError));
    }
    setAsking(false);
  }, []);
  useEffect(() => {
    void enter().then(ask);
    const signedOut = () => {
      setSession((known) => {
        if (known) setNote("Your login has ended. Log in again.");
        return null;
      });
      forgetAll();
      forgetPipelines();
    };
    onSignedOut.add(signedOut);
    return () => {
      onSignedOut.delete(signedOut);
    };
  }, [ask]);
  useEffect(() => {
    if (!session) return undefined;
    // the server renews the login in the second half of its life
    const timer = setInterval(() => void call<Session>("GET", "/console/session").then(setSession, () => null), RENEWAL_MS);
    return () => clearInterval(timer);
  }, [session === null]);
  if (error) {
    return (
      <main class="login">
        <Failure error={error}>
          <button type="button" onClick={() => void ask()}>
            Try again
          </button>
        </Failure>
      </main>
    );
  }
  if (session) return <Frame session={session} onLogout={() => setSession(null)} />;
  if (isAsking) return <main class="login" aria-busy="true" />;
  return <Login onDone={() => void ask()} note={note} />;
}

/** Exchange the one-time token in the address, of `headstream console`, for a login. */
async function enter(): Promise<void> {
  const token = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
  if (token === undefined) return;
  history.replaceState(null, "", "#/");
  await call("POST", "/personal-access-tokens/login", { body: { token } }).catch(() => null);
}

type Theme = "light" | "dark";

function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>(() => {
    const stored = localStorage.getItem("theme");
    if (stored === "light" || stored === "dark") return stored;
    return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  });
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
  }, [theme]);
  const change = () => {
    const next = theme === "dark" ? "light" : "dark";
    localStorage.setItem("theme", next);
    setTheme(next);
  };
  return [theme, change];
}

function Frame({ session, onLogout }: { session: Session; onLogout: () => void }): JSX.Element {
  const place = usePlace();
  const rights = useMemo(() => new Rights(session), [session]);
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  const [isHelpOpen, setHelpOpen] = useState(false);
  const [theme, changeTheme] = useTheme();
  const openPalette = useCallback(() => setPaletteOpen(true), []);
  const openHelp = useCallback(() => setHelpOpen(true), []);
  useKeys({ openPalette, openHelp });
  const page = place.parts[0] ?? "";
  const pages: [string, string][] = [
    ["", "Overview"],
    ["topics", "Topics"],
    ["messages", "Messages"],
    ["groups", "Groups"],
    ["letters", "Dead letters"],
    ...(rights.readPipelines ? [["pipelines", "Pipelines"] as [string, string]] : []),
    ...(rights.readUsers ? [["users", "Users"] as [string, string]] : []),
    ...(rights.readServer ? [["clients", "Clients"] as [string, string]] : []),
  ];
  useEffect(() => {
    const name = pages.find(([key]) => key === page)?.[1] ?? "Headstream";
    document.title = [...place.parts.slice(1).reverse(), name, "Headstream"].join(" · ");
    document.querySelector("main")?.scrollTo(0, 0);
  }, [place]);
  const logout = async () => {
    await call("DELETE", "/users/logout").catch(() => null);
    forgetAll();
    forgetPipelines();
    location.hash = link([]);
    onLogout();
  };
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.querySelector<HTMLElement>("main")?.focus(); }}>
        Skip to the page
      </a>
      <nav class="side" aria-label="Pages">
        <a class="brand" href={link([])}>
          <img src="./icon.svg" alt="" width={22} height={22} />
          <span>Headstream</span>
        </a>
        <button type="button" class="search-all" onClick={openPalette}>
          Go to … <kbd>Ctrl K</kbd>
        </button>
        <ul>
          {pages.map(([key, name]) => (
            <li key={key}>
              <a href={link(key ? [key] : [])} aria-current={page === key ? "page" : undefined}>
                {name}
              </a>
            </li>
          ))}
        </ul>
        <div class="foot">
          <div class="who">
            {session.user ? <Text>{session.user.username}</Text> : <Text>{session.place ?? "without a server"}</Text>}
            <small>version {session.version}</small>
          </div>
          <div class="buttons">
            <button type="button" class="quiet" onClick={changeTheme} aria-label={theme === "dark" ? "Light colours" : "Dark colours"}>
              {theme === "dark" ? "☀" : "☾"}
            </button>
            <button type="button" class="quiet" onClick={openHelp} aria-label="Keys">
              ?
            </button>
            <button type="button" class="quiet" onClick={() => void logout()}>
              Log out
            </button>
          </div>
        </div>
      </nav>
      <main id="main" tabIndex={-1} class={page === "messages" ? "full" : ""}>
        <Page parts={place.parts} place={place} rights={rights} session={session} />
      </main>
      {isPaletteOpen && <Finder pages={pages} hasPipelines={rights.readPipelines} theme={changeTheme} logout={() => void logout()} onClose={() => setPaletteOpen(false)} />}
      {isHelpOpen && <Help onClose={() => setHelpOpen(false)} />}
    </div>
  );
}

interface PageProps {
  parts: string[];
  place: ReturnType<typeof usePlace>;
  rights: Rights;
  session: Session;
}

function Page({ parts, place, rights, session }: PageProps): JSX.Element {
  const [name = "", ...rest] = parts;
  if (name === "") return <OverviewPage rights={rights} />;
  if (name === "topics") return rest.length === 2 ? <TopicPage place={place} rights={rights} /> : <Topics rights={rights} place={place} />;
  if (name === "messages") return <Messages place={place} rights={rights} />;
  if (name === "groups") return rest.length === 3 ? <GroupPage place={place} rights={rights} /> : <Groups />;
  if (name === "letters") return <DeadLetters place={place} rights={rights} />;
  if (name === "pipelines" && rights.readPipelines) return <PipelinesPage place={place} />;
  if (name === "users" && rights.readUsers) return <Users rights={rights} ownId={session.user?.id ?? 0} />;
  if (name === "clients" && rights.readServer) return <Clients />;
  return (
    <Missing title="There is no such page.">
      <a href={link([])}>Overview</a>
    </Missing>
  );
}

interface FinderProps {
  pages: [string, string][];
  hasPipelines: boolean;
  theme: () => void;
  logout: () => void;
  onClose: () => void;
}

function Finder({ pages, hasPipelines, theme, logout, onClose }: FinderProps): JSX.Element {
  const known = useResource(topics).value;
  const groupsKnown = useResource(groups).value;
  const pipelinesKnown = useResource(pipelines, hasPipelines).value;
  const go = (to: string) => () => {
    location.hash = to;
  };
  const entries: Entry[] = useMemo(
    () => [
      ...pages.map(([key, name]) => ({ name, about: "page", act: go(link(key ? [key] : [])) })),
      ...(known?.topics ?? []).flatMap((topic) => [
        { name: fullName(topic), about: "topic", act: go(link(["topics", topic.stream, topic.name])) },
        { name: fullName(topic), about: "messages", act: go(link(["messages", topic.stream, topic.name])) },
      ]),
      ...(groupsKnown?.groups ?? []).map((group) => ({
        name: group.name,
        about: `group of ${group.stream}/${group.topic}`,
        act: go(link(["groups", group.stream, group.topic, group.name])),
      })),
      ...(known?.topics ?? []).filter(isDeadLetterTopic).map((topic) => ({ name: fullName(topic), about: "dead letters", act: go(link(["letters", topic.stream, topic.name])) })),
      ...(pipelinesKnown?.pipelines ?? []).flatMap((one, index) =>
        (one.report?.tables ?? []).map((table) => ({ name: table.table, about: `table of ${shortName(one.checkpoint)}`, act: go(link(["pipelines", index, table.table])) })),
      ),
      { name: "Change colours", about: "dark or light", act: theme },
      { name: "Log out", about: "", act: logout },
    ],
    [known, groupsKnown, pipelinesKnown],
  );
  return <Palette entries={entries} onClose={onClose} />;
}
