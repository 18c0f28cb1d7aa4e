// Dialogs: forms, and the confirmation of what destroys, which asks for the name.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure, isTyped, Text } from "./basics";

interface Props {
  title: string;
  action: string;
  isDangerous?: boolean;
  isReady?: boolean;
  onAct: () => Promise<void>;
  onClose: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, action, isDangerous = false, isReady = true, onAct, onClose, children }: Props): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!isReady || isBusy) return;
    setBusy(true);
    setError(null);
    try {
      await onAct();
      onClose();
    } catch (refused) {
      setError(refused as Error);
      setBusy(false);
    }
  };
  return (
    <dialog ref={dialog} aria-labelledby="dialog-title" onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <h2 id="dialog-title">{title}</h2>
        {children}
        {error && <Failure error={error} />}
        <div class="buttons">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class={isDangerous ? "danger" : "primary"} disabled={!isReady || isBusy}>
            {isBusy ? "Working …" : action}
          </button>
        </div>
      </form>
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  name: string;
  action: string;
  children: ComponentChildren;
  onAct: () => Promise<void>;
  onClose: () => void;
}

/** Ask for the name of what is destroyed. */
export function ConfirmByName({ title, name, action, children, onAct, onClose }: ConfirmProps): JSX.Element {
  const [typed, setTyped] = useState("");
  return (
    <Dialog title={title} action={action} isDangerous isReady={isTyped(typed, name)} onAct={onAct} onClose={onClose}>
      {children}
      <ConfirmName name={name} typed={typed} onType={setTyped} />
    </Dialog>
  );
}

export function ConfirmName({ name, typed, onType }: { name: string; typed: string; onType: (typed: string) => void }): JSX.Element {
  return (
    <label>
      <span>
        To confirm, type <strong class="name-to-type"><Text>{name}</Text></strong>
      </span>
      <input autocomplete="off" spellcheck={false} value={typed} onInput={(event) => onType(event.currentTarget.value)} />
    </label>
  );
}

interface FieldProps {
  label: string;
  about?: ComponentChildren;
  children: ComponentChildren;
}

export function Field({ label, about, children }: FieldProps): JSX.Element {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
      {about && <small>{about}</small>}
    </label>
  );
}
