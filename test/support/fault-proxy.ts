import net from 'node:net';
import type { Test } from 'tap';
import { listen } from './listen.ts';

/**
 * `pass`; `refuse` closes every connection, old and new; `hang` delays every byte until `pass`, like a stopped process;
 * `vanish` silences the existing connections for good, like a lost host; a number delays every byte by that many
 * milliseconds each way.
 */
export type Fault = 'pass' | 'refuse' | 'hang' | 'vanish' | number;

export interface FaultProxy {
  /** The given URL, through this proxy. */
  url: string;
  set(fault: Fault): void;
  /** Sends new connections to the store's new address. */
  retarget(url: string): void;
}

/** A proxy between the service and a store that lets a test break and restore the connection. */
export async function faultProxy(t: Test, target: string, initial: Fault = 'pass'): Promise<FaultProxy> {
  let { hostname, port } = new URL(target);
  const pipes = new Set<Pipe>();
  let fault = initial;

  const server = net.createServer((client) => {
    if (fault === 'refuse') {
      client.destroy();
      return;
    }
    const store = net.connect(Number(port), hostname);
    const [there, back] = [pipe(client, store), pipe(store, client)];
    pipes.add(there).add(back);
    there.set(fault);
    back.set(fault);
    client.on('close', () => {
      pipes.delete(there);
      pipes.delete(back);
    });
  });
  const { port: own } = new URL(await listen(t, server));
  t.teardown(() => {
    for (const each of pipes) each.from.destroy();
  });

  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = own;
  return {
    url: url.href,
    set(next) {
      fault = next;
      for (const each of pipes) each.set(next);
    },
    retarget(to) {
      ({ hostname, port } = new URL(to));
    },
  };
}

// Closed, not reset: Node leaks a socket if an error arrives before its reset, and the process would not end.
interface Pipe {
  from: net.Socket;
  set(fault: Fault): void;
}

function pipe(from: net.Socket, to: net.Socket): Pipe {
  let isGone = false;
  let delay = 0;
  // A queue keeps the bytes in order: timers alone may fire in another one.
  const waiting: Buffer[] = [];
  const pass = (chunk: Buffer) => {
    if (delay === 0 && waiting.length === 0) {
      to.write(chunk);
      return;
    }
    waiting.push(chunk);
    setTimeout(() => to.write(waiting.shift() ?? ''), delay);
  };
  from.setNoDelay();
  from.on('data', (chunk: Buffer) => {
    if (!isGone) pass(chunk);
  });
  from.on('error', () => undefined);
  from.on('close', () => to.destroy());
  return {
    from,
    set(fault) {
      isGone ||= fault === 'vanish';
      delay = typeof fault === 'number' ? fault : 0;
      if (fault === 'refuse') from.destroy();
      else if (fault === 'hang') from.pause();
      else from.resume();
    },
  };
}
