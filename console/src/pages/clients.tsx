// The clients that are connected over TCP and QUIC.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { call } from "../data/api";
import { bytes, count } from "../data/format";
import { overview } from "../data/log";
import { Resource, useResource } from "../data/resource";
import type { Client, User } from "../data/types";
import { Empty, Head, Text, Waiting } from "../parts/basics";
import { Table } from "../parts/table";

interface Known {
  clients: Client[];
  names: Map<number, string>;
}

async function load(signal: AbortSignal): Promise<Known> {
  const clients = await call<Client[]>("GET", "/clients", { signal });
  const users = await call<User[]>("GET", "/users", { signal }).catch(() => []); // not everybody may list them
  return { clients, names: new Map(users.map((user) => [user.id, user.username])) };
}

export function Clients(): JSX.Element {
  const resource = useMemo(() => new Resource(load, 3000), []);
  const known = useResource(resource);
  const server = useResource(overview);
  if (known.value === null) return <Waiting of={known} />;
  const { clients, names } = known.value;
  return (
    <>
      <Head title="Clients" of={known} />
      <Table
        label="Clients"
        rows={clients}
        rowKey={(client) => String(client.client_id)}
        filterBy={(client) => `${client.address} ${names.get(client.user_id ?? 0) ?? ""}`}
        empty={<Empty title="No client is connected over TCP or QUIC." />}
        columns={[
          {
            name: "Client",
            sort: (client) => client.client_id,
            show: (client) => (
              <span data-row tabIndex={-1}>
                {client.client_id}
              </span>
            ),
          },
          { name: "Address", sort: (client) => client.address, show: (client) => <span class="mono">{client.address}</span> },
          { name: "Transport", sort: (client) => client.transport, show: (client) => client.transport },
          {
            name: "User",
            sort: (client) => names.get(client.user_id ?? 0) ?? "",
            show: (client) =>
              client.user_id ? <Text>{names.get(client.user_id) ?? `user ${client.user_id}`}</Text> : <span class="muted">not logged in</span>,
          },
          { name: "Groups joined", isNumber: true, sort: (client) => client.consumer_groups_count, show: (client) => count(client.consumer_groups_count) },
        ]}
      />
      {server.value && (
        <>
          <h2>Transports</h2>
          <Table
            label="Transports"
            rows={server.value.transports}
            rowKey={(one) => one.transport}
            columns={[
              { name: "Transport", show: (one) => one.transport },
              { name: "Connections", isNumber: true, show: (one) => count(one.connections) },
              { name: "Connections refused", isNumber: true, isMinor: true, show: (one) => count(one.refused_connections) },
              { name: "Requests", isNumber: true, show: (one) => count(one.requests) },
              { name: "Requests refused", isNumber: true, show: (one) => count(one.refused_requests) },
              { name: "Received", isNumber: true, isMinor: true, show: (one) => bytes(one.received_bytes) },
              { name: "Sent", isNumber: true, isMinor: true, show: (one) => bytes(one.sent_bytes) },
            ]}
          />
          <p class="muted">Since the server started.</p>
        </>
      )}
    </>
  );
}
