import { createServer, type Socket } from 'node:net';
import type { Test } from 'tap';
import { listen } from '../../../support/listen.ts';
import { until } from '../../../support/until.ts';

/** A Sentinel (RESP3) that knows one master. The test can delay its answers. */
export interface FakeSentinel {
  port: number;
  /** Called before each answer that names the master. The answer waits for it. */
  asked: () => Promise<void>;
  /** Resolves once a client has subscribed. */
  subscribed(): Promise<void>;
  /** Tells all subscribers that there is another master. */
  tell(): void;
}

export async function fakeSentinel(t: Test, master: { host: string; port: string }): Promise<FakeSentinel> {
  const subscribed = new Set<Socket>();
  const array = (...words: string[]) =>
    `*${words.length}\r\n${words.map((word) => `$${word.length}\r\n${word}\r\n`).join('')}`;
  const sentinel: FakeSentinel = {
    port: 0,
    asked: () => Promise.resolve(),
    subscribed: () => until(() => subscribed.size > 0),
    tell() {
      for (const socket of subscribed)
        socket.write(array('message', '+switch-master', 'main').replace('*', '>'));
    },
  };
  const answer = async (socket: Socket, words: string[]) => {
    const [command, question] = words;
    if (command === 'subscribe') {
      subscribed.add(socket);
      return '>3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n';
    }
    if (command !== 'sentinel') return '+OK\r\n';
    if (question !== 'get-master-addr-by-name') return '*0\r\n';
    await sentinel.asked();
    return array(master.host, master.port);
  };
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('close', () => subscribed.delete(socket));
    socket.on('data', (chunk) => void reply(socket, chunk.toString()));
  });
  const reply = async (socket: Socket, text: string) => {
    for (const command of text.split(/^\*\d+\r\n/m).slice(1)) {
      const words = command.split('\r\n').filter((_, i) => i % 2 === 1);
      const out = await answer(
        socket,
        words.map((word) => word.toLowerCase()),
      );
      if (!socket.destroyed) socket.write(out);
    }
  };
  sentinel.port = Number(new URL(await listen(t, server)).port);
  return sentinel;
}
