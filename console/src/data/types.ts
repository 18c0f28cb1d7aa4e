// What the routes of the server return, as far as the console shows it. Names are those of the JSON.

export interface Partition {
  number: number;
  first_offset: number;
  end_offset: number;
  size_bytes: number;
  compacted_count: number;
  generation: number;
}

export interface Topic {
  stream: string;
  name: string;
  id: number;
  created_us: number;
  limits: string;
  fsync: string;
  retention_us: number | null;
  retention_bytes: number | null;
  compaction_delay_us: number | null;
  deduplication_count: number | null;
  summary_headers: string | null; // separated by commas
  deletion_grace_us: number | null;
  legal_hold: boolean;
  partitions: Partition[];
}

export interface Topics {
  time_us: number;
  topics: Topic[];
}

export interface GroupPartition {
  number: number;
  committed: number | null;
  first_offset: number;
  end_offset: number;
  member: number | null;
}

export interface Group {
  stream: string;
  topic: string;
  name: string;
  generation: number;
  process: number | null;
  members: { id: number; partitions: number[] }[];
  partitions: GroupPartition[];
  lag: number;
}

/** What a group has not finished in a partition. */
export interface DeliveryCounts {
  partition: number;
  pending: number;
  leased: number;
  delayed: number;
  deferred: number;
  poisoned: number;
  open_letters: number;
}

export interface Deliveries {
  now_us: number;
  paused_until_us: number; // 0: it runs
  paused_since_us: number;
  failed_attempts: number;
  last_attempts: number;
  pauses: number;
  partitions: DeliveryCounts[];
}

export interface SegmentCounts {
  segments_count: number;
  skipped_count: number;
  size_bytes: number;
  skipped_bytes: number;
}

export interface Groups {
  time_us: number;
  groups: Group[];
}

export interface Transport {
  transport: string;
  connections: number;
  refused_connections: number;
  received_bytes: number;
  sent_bytes: number;
  requests: number;
  refused_requests: number;
}

export interface Overview {
  time_us: number;
  process_id: number;
  cpu_usage: number;
  memory_bytes: number;
  total_memory_bytes: number;
  available_memory_bytes: number;
  run_time_us: number;
  messages_size_bytes: number;
  streams_count: number;
  topics_count: number;
  partitions_count: number;
  segments_count: number;
  messages_count: number;
  clients_count: number;
  groups_count: number;
  hostname: string;
  transports: Transport[];
}

export interface Cut {
  size_bytes: number;
  base64: string;
}

export interface Header {
  key: string;
  kind: string;
  value: string;
  size_bytes: number;
  is_cut: boolean;
}

export interface Message {
  offset: number;
  timestamp_us: number;
  id: string;
  state: string;
  checksum: string;
  is_intact: boolean;
  key: Cut | null;
  headers: Header[];
  payload: Cut | null;
}

export interface Browsed {
  partition_id: number;
  end_offset: number;
  next_offset: number;
  scanned_count: number;
  messages: Message[];
}

export interface StateChange {
  offset: number;
  state: string;
  reason: string;
  by: string;
  changed_us: number;
}

export const GLOBAL_RIGHTS = [
  "manage_servers",
  "read_servers",
  "manage_users",
  "read_users",
  "manage_streams",
  "read_streams",
  "manage_topics",
  "read_topics",
  "poll_messages",
  "send_messages",
] as const;
export type GlobalRight = (typeof GLOBAL_RIGHTS)[number];

export interface TopicRights {
  manage_topic: boolean;
  read_topic: boolean;
  poll_messages: boolean;
  send_messages: boolean;
}

export interface StreamRights {
  manage_stream: boolean;
  read_stream: boolean;
  manage_topics: boolean;
  read_topics: boolean;
  poll_messages: boolean;
  send_messages: boolean;
  topics: Record<string, TopicRights> | null;
}

export interface Permissions {
  global: Record<GlobalRight, boolean>;
  streams: Record<string, StreamRights> | null;
}

export interface User {
  id: number;
  created_at: number;
  status: string;
  username: string;
  permissions?: Permissions | null;
}

export interface Session {
  time_us: number;
  version: string;
  identity: string;
  user: User | null;
  decodes_avro: boolean;
  place?: string;
}

export interface Client {
  client_id: number;
  user_id: number | null;
  transport: string;
  address: string;
  consumer_groups_count: number;
}

export interface Stream {
  id: number;
  name: string;
}

export interface DeadLetterReason {
  topic: string | null;
  group: string | null;
  reason_code: string | null;
  reason: string | null;
  is_rest: boolean;
  count: number;
  most_attempts: number | null;
  first_failed_us: number | null;
  last_failed_us: number | null;
}

export interface Difference {
  change: "added" | "removed" | "changed" | "key";
  column: string | null;
  before: string | null;
  after: string | null;
}

export interface SchemaVersion {
  schema_id: string;
  version: number;
  source: string;
  task: string;
  columns: number;
  keys: string[];
  arrived_us: number;
  differences: Difference[] | null;
}

export interface FailingTable {
  table: string;
  failures: number;
  poisoned: boolean;
  since_us: number;
  next_us: number;
  reason: string;
}

export interface PipelineTable {
  table: string;
  inserted: number;
  updated: number;
  deleted: number;
  lag_seconds: number | null;
  last_change_us: number | null;
  waiting: number;
  waiting_bytes: number;
  waiting_since_us: number | null;
  waits_for: string | null;
  dead: number;
  dead_reason: string | null;
  failing: FailingTable | null;
  versions_count: number;
  versions: SchemaVersion[];
}

export interface PipelineReport {
  state: string;
  process: number | null;
  updated_us: number | null;
  run: { messages: number; bytes: number; changes: number; batches: number; seconds: number } | null;
  waiting: number;
  waiting_bytes: number;
  oldest_wait_seconds: number | null;
  parked: number;
  delayed: number;
  dead: number;
  waiting_for_loads: number;
  open_transactions: number;
  oldest_transaction: { wait_seconds: number; lacks: string } | null;
  requests: { id: number; kind: string }[];
  tables: PipelineTable[];
}

export interface Pipeline {
  checkpoint: string;
  read_us: number;
  error: string | null;
  report: PipelineReport | null;
}

export interface Pipelines {
  time_us: number;
  pipelines: Pipeline[];
}
