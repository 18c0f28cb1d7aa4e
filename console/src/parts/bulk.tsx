// Redriving and discarding dead letters: counted first, then done part after part, with its progress, and stopped on request.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { count, plural } from "../data/format";
import { type Action, actOnDeadLetters, type Chosen, type Progress } from "../data/deadLetters";
import { fullName } from "../data/log";
import type { Topic } from "../data/types";
import { Failure, isTyped, Text } from "./basics";
import { Field } from "./dialog";

const NOTHING: Progress = { matched: 0, done: 0, resumed: 0, foreign: 0, part: 0 };
type Step = "counting" | "ready" | "working" | "done" | "stopped";

interface Props {
  action: Action;
  topic: Topic;
  chosen: Chosen;
  onClose: (isChanged: boolean) => void;
}

export function BulkDialog({ action, topic, chosen, onClose }: Props): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const stopped = useRef(false);
  const [step, setStep] = useState<Step>("counting");
  const [counted, setCounted] = useState(NOTHING);
  const [progress, setProgress] = useState(NOTHING);
  const [error, setError] = useState<Error | null>(null);
  const [typed, setTyped] = useState("");
  const [rate, setRate] = useState("");
  const isRedrive = action === "redrive";
  const name = fullName(topic);
  const run = async (isDry: boolean) => {
    setError(null);
    const perSecond = rate ? Number(rate) : null;
    await actOnDeadLetters({ action, topic, chosen, isDry, perSecond }, () => stopped.current, isDry ? setCounted : setProgress);
  };
  useEffect(() => {
    dialog.current?.showModal();
    run(true).then(
      () => setStep("ready"),
      (refused: Error) => setError(refused),
    );
    return () => {
      stopped.current = true;
    };
  }, []);
  const start = async (event: Event) => {
    event.preventDefault();
    if (step !== "ready" || !isReady) return;
    setStep("working");
    try {
      await run(false);
      setStep(stopped.current ? "stopped" : "done");
    } catch (refused) {
      setError(refused as Error);
      setStep("stopped");
    }
  };
  const sendable = counted.matched - counted.foreign;
  const isReady = (isRedrive ? sendable > 0 : counted.matched > 0) && (isRedrive || isTyped(typed, name)) && (rate === "" || Number(rate) >= 1);
  const close = () => onClose(progress.done + progress.resumed > 0);
  const done = isRedrive ? "sent back" : "discarded";
  const isOver = step === "done" || step === "stopped";
  return (
    <dialog
      ref={dialog}
      aria-labelledby="bulk-title"
      onCancel={(event) => {
        if (step === "working") event.preventDefault();
      }}
      onClose={close}
    >
      <form onSubmit={(event) => void start(event)}>
        <h2 id="bulk-title">{isRedrive ? "Redrive dead letters" : "Discard dead letters"}</h2>
        <p>
          {isRedrive
            ? "Each dead letter is sent back once, to its original topic and partition. All groups of that topic receive the message."
            : "The dead letters are marked for deletion: consumers skip them, and retention removes them."}
        </p>
        <dl class="facts">
          <dt>Topic</dt>
          <dd class="mono">
            <Text>{name}</Text>
          </dd>
          <dt>Which</dt>
          <dd class="mono wrap">
            {chosen.single ? `partition ${chosen.single.partition}, offset ${chosen.single.offset}` : chosen.where ? <Text breaks>{chosen.where}</Text> : "all"}
          </dd>
          <dt>Dry run</dt>
          <dd>
            <span role="status">
            {step === "counting" ? `counting … ${count(counted.matched)}` : plural(counted.matched, "dead letter")}
            {counted.foreign > 0 && `, of which ${count(counted.foreign)} have no original topic and are kept`}
            </span>
          </dd>
        </dl>
        {isRedrive && !isOver && (
          <Field label="Dead letters per second, at most" about="Empty: no limit.">
            <input inputMode="numeric" pattern="[0-9]*" disabled={step === "working"} value={rate} onInput={(event) => setRate(event.currentTarget.value)} />
          </Field>
        )}
        {!isRedrive && !isOver && (
          <label class="confirm">
            <span>
              To confirm, type <strong class="name-to-type"><Text>{name}</Text></strong>
            </span>
            <input autocomplete="off" spellcheck={false} disabled={step === "working"} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
          </label>
        )}
        {(step === "working" || isOver) && (
          <div class="progress" role="status">
            <progress max={1} value={step === "done" ? 1 : progress.part} aria-label="Progress" />
            <p>
              {step === "done" ? "Done: " : step === "stopped" ? "Stopped: " : ""}
              {plural(progress.done, "dead letter")} {done}
              {progress.resumed > 0 && `, ${count(progress.resumed)} of an interrupted redrive finished`}
              {step === "working" && ` of ${count(isRedrive ? sendable : counted.matched)}`}.
              {step === "stopped" && " The finished part is kept; start again to continue."}
            </p>
          </div>
        )}
        {error && <Failure error={error} />}
        <div class="buttons">
          {isOver ? (
            <button type="button" class="primary" onClick={() => dialog.current?.close()}>
              Close
            </button>
          ) : (
            <>
              <button
                type="button"
                onClick={() => {
                  stopped.current = true;
                  if (step !== "working") dialog.current?.close();
                }}
              >
                {step === "working" ? "Stop" : "Cancel"}
              </button>
              <button type="submit" class={isRedrive ? "primary" : "danger"} disabled={step !== "ready" || !isReady}>
                {step === "working" ? "Working …" : isRedrive ? "Redrive" : "Discard"}
              </button>
            </>
          )}
        </div>
      </form>
    </dialog>
  );
}
