import net from 'node:net';
import type { Test } from 'tap';

/**
 * `pass`; `refuse` closes every connection, old and new; `hang` holds every byte back until it passes again, like a
 * stopped process; `vanish` answers nothing on connections made until then, also afterwards, like a host that is gone;
 * a number passes everything so many milliseconds late, each way.
 */
export type Fault = 'pass' | 'refuse' | 'hang' | 'vanish' | number;

export interface FaultProxy {
  /** The given URL, by way of this proxy. */
  url: string;
  set(fault: Fault): void;
  /** Leads new connections to where the store is now. */
  retarget(url: string): void;
}

/** A proxy between the service and a store, by which a test takes the store away and gives it back. */
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
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    for (const each of pipes) each.from.destroy();
    server.close();
  });

  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as net.AddressInfo).port);
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

// Closed, not reset: Node never lets go of a socket whose reset an error overtakes, and the process would not end.
interface Pipe {
  from: net.Socket;
  set(fault: Fault): void;
}

function pipe(from: net.Socket, to: net.Socket): Pipe {
  let isGone = false;
  let delay = 0;
  // Whichever timer fires first, bytes leave in the order in which they came: timers alone do not keep it.
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
