import net from 'node:net';
import type { Test } from 'tap';
import type { Backend } from './balancer.ts';

/**
 * One address for all replicas, as a Kubernetes Service or a TCP balancer gives: each new connection goes to the next
 * replica, and to another where that one refuses it. What becomes of a connection afterwards is the replica's matter.
 */
export async function startServiceAddress(t: Test, backends: readonly Backend[]): Promise<string> {
  const sockets = new Set<net.Socket>();
  let turn = 0;

  function connect(client: net.Socket, tries: number): void {
    const backend = backends[turn++ % backends.length];
    if (!backend || tries === 0) {
      client.destroy();
      return;
    }
    const { hostname, port } = new URL(backend.url);
    const there = net.connect(Number(port), hostname);
    let isConnected = false;
    there.on('connect', () => {
      isConnected = true;
      there.pipe(client);
      client.pipe(there);
    });
    there.on('error', () => {
      if (!isConnected) connect(client, tries - 1);
    });
    there.on('close', () => {
      sockets.delete(there);
      if (isConnected) client.destroy();
    });
    client.on('close', () => there.destroy());
    sockets.add(there);
  }

  const server = net.createServer((client) => {
    sockets.add(client);
    client.on('error', () => undefined);
    client.on('close', () => sockets.delete(client));
    connect(client, backends.length);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`;
}
