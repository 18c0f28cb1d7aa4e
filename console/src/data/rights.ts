// What a user is allowed to do, to show no more than that. The server decides; this only hides what it would refuse.
import type { GlobalRight, Session, StreamRights, Topic, TopicRights } from "./types";

type Of<T> = { [K in keyof T]: T[K] extends boolean ? K : never }[keyof T];

interface Needed {
  everywhere: GlobalRight[];
  stream: Of<StreamRights>[];
  topic: Of<TopicRights>[];
}

const NEEDED = {
  read: {
    everywhere: ["manage_streams", "read_streams", "manage_topics", "read_topics"],
    stream: ["manage_topics", "read_topics"],
    topic: ["manage_topic", "read_topic"],
  },
  manage: { everywhere: ["manage_streams", "manage_topics"], stream: ["manage_topics"], topic: ["manage_topic"] },
  poll: {
    everywhere: ["poll_messages"],
    stream: ["poll_messages", "read_stream", "manage_topics", "read_topics"],
    topic: ["poll_messages", "read_topic", "manage_topic"],
  },
} satisfies Record<string, Needed>;

/** What the server decodes for the user: messages of Replicate, and payloads whose Avro schema it can look up. */
export interface Decodes {
  replicate: boolean;
  avro: boolean;
}

export class Rights {
  constructor(private readonly session: Session) {}

  /** Whether there are users and clients at all: not where the log is opened without a server. */
  get hasServer(): boolean {
    return this.session.user !== null;
  }

  /** Whether the log is a Kafka cluster's, whose messages have no states and whose topics have fewer options. */
  get isKafka(): boolean {
    return this.session.place?.startsWith("kafka:") ?? false;
  }

  get readServer(): boolean {
    return this.hasServer && this.any("manage_servers", "read_servers");
  }

  /** Whether the reports of pipelines are shown: on a server to whom may read its statistics, elsewhere always. */
  get readPipelines(): boolean {
    return !this.hasServer || this.readServer;
  }

  get decodes(): Decodes {
    return { replicate: this.readPipelines, avro: this.session.decodes_avro };
  }

  get readUsers(): boolean {
    return this.hasServer && this.any("manage_users", "read_users");
  }

  get manageUsers(): boolean {
    return this.hasServer && this.any("manage_users");
  }

  get createTopics(): boolean {
    return this.any("manage_streams");
  }

  /** Whether something is allowed for a topic; by its id in any stream, because a topic does not tell its stream's id. */
  topic(what: keyof typeof NEEDED, topic: Topic): boolean {
    if (this.session.user === null) return true;
    const needed: Needed = NEEDED[what];
    if (this.any(...needed.everywhere)) return true;
    return Object.values(this.session.user.permissions?.streams ?? {}).some(
      (stream) =>
        needed.stream.some((name) => stream[name]) ||
        needed.topic.some((name) => stream.topics?.[String(topic.id)]?.[name] ?? false),
    );
  }

  private any(...names: GlobalRight[]): boolean {
    if (this.session.user === null) return true;
    const everywhere = this.session.user.permissions?.global;
    return everywhere !== undefined && names.some((name) => everywhere[name]);
  }
}
