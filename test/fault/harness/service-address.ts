import net from 'node:net';
import type { Test } from 'tap';
import { listen } from '../../support/listen.ts';
import type { Backend } from './balancer.ts';

/**
 * One address for all replicas, like a Kubernetes Service or a TCP balancer: each new connection goes to the next
 * replica, or to another if that one refuses it. After that, only the replica affects the connection.
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
    client.on('error', () => undefined);
    connect(client, backends.length);
  });
  const url = await listen(t, server);
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  return url;
}
