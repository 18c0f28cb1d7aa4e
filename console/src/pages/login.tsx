// Logging in by name and password, or by a personal access token.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call } from "../data/api";
import { Failure, Tabs } from "../parts/basics";

const WAYS = ["Password", "Access token"] as const;

export function Login({ onDone, note }: { onDone: () => void; note: string | null }): JSX.Element {
  const [way, setWay] = useState<string>(WAYS[0]);
  const [username, setUsername] = useState("");
  const [secret, setSecret] = useState("");
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      if (way === WAYS[0]) await call("POST", "/users/login", { body: { username, password: secret } });
      else await call("POST", "/personal-access-tokens/login", { body: { token: secret.trim() } });
      setSecret("");
      onDone();
    } catch (refused) {
      setError(refused as Error);
      setBusy(false);
    }
  };
  return (
    <main class="login">
      <form onSubmit={(event) => void submit(event)}>
        <h1>
          <img src="./icon.svg" alt="" width={28} height={28} /> Headstream
        </h1>
        {note && <p class="notice">{note}</p>}
        <Tabs label="Log in by" names={WAYS} chosen={way} onChoose={setWay} />
        {way === WAYS[0] && (
          <label class="field">
            <span>User name</span>
            <input name="username" autocomplete="username" required autofocus value={username} onInput={(event) => setUsername(event.currentTarget.value)} />
          </label>
        )}
        <label class="field">
          <span>{way === WAYS[0] ? "Password" : "Personal access token"}</span>
          <input
            name="password"
            type="password"
            autocomplete={way === WAYS[0] ? "current-password" : "off"}
            required
            value={secret}
            onInput={(event) => setSecret(event.currentTarget.value)}
          />
        </label>
        {error && <Failure error={error} />}
        <button type="submit" class="primary" disabled={isBusy}>
          {isBusy ? "Logging in …" : "Log in"}
        </button>
      </form>
    </main>
  );
}
