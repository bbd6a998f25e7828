import http from 'node:http';
import type { Test } from 'tap';

/** An event as received. */
export interface ServerSentEvent {
  event: string;
  id?: string;
  data: Record<string, unknown>;
}

export interface FeedConnection {
  status: number;
  headers: http.IncomingHttpHeaders;
  /** The body if the answer is not a stream. */
  body: string;
}

/** A service that reads the feed by the protocol, over a socket. */
export interface FeedClient {
  /** All received events, in order, over all connections. */
  events: ServerSentEvent[];
  /** The id that it resumes from. */
  lastId(): string | undefined;
  /** The latest answer; null before the first. */
  answer(): FeedConnection | null;
  /** The number of connections so far. */
  connections: () => number;
  isConnected(): boolean;
  /** Whether it would refuse a token. */
  knows(tokenId: number, userId?: number): boolean;
  /** Ends the connection. A reader with `comesBack` reconnects. */
  cut(): void;
  /** Stops reading without closing the connection. */
  stall(): void;
  stop(): void;
}

interface FeedClientOptions {
  /** Returns the URL. Called before each connection. */
  url: () => string;
  authorization: string;
  lastEventId?: string;
  /** The id of its process. */
  reader?: string;
  /** Reconnects when a connection has ended. */
  comesBack?: boolean;
  onEvent?: (event: ServerSentEvent) => void;
}

/** Milliseconds before it reconnects: less than the server's `retry`, because a test has many faults. */
const PAUSE = 100;

export function aFeedClient(t: Test, options: FeedClientOptions): FeedClient {
  const events: ServerSentEvent[] = [];
  const tokens = new Set<number>();
  const marks = new Map<number, number>();
  let lastId = options.lastEventId;
  let answer: FeedConnection | null = null;
  let connections = 0;
  let isConnected = false;
  let isStopped = false;
  let request: http.ClientRequest | null = null;
  let incoming: http.IncomingMessage | null = null;

  function take(block: string): void {
    const fields = new Map(
      block.split('\n').map((line) => {
        const [name = '', ...rest] = line.split(': ');
        return [name, rest.join(': ')] as const;
      }),
    );
    const data = fields.get('data');
    if (data === undefined) return;
    const id = fields.get('id');
    const event: ServerSentEvent = {
      event: fields.get('event') ?? 'message',
      ...(id !== undefined && { id }),
      data: JSON.parse(data) as Record<string, unknown>,
    };
    learn(event);
    lastId = id ?? lastId;
    events.push(event);
    options.onEvent?.(event);
  }

  function learn({ event, data }: ServerSentEvent): void {
    if (event === 'revoked') tokens.add(data.token as number);
    const users = event === 'user_revoked' ? [data] : event === 'snapshot' ? data.users : [];
    for (const { user, before } of users as { user: number; before: number }[]) {
      marks.set(user, Math.max(before, marks.get(user) ?? 0));
    }
    if (event === 'snapshot') for (const token of data.tokens as number[]) tokens.add(token);
  }

  function connect(): void {
    if (isStopped) return;
    connections++;
    const headers = {
      authorization: options.authorization,
      ...(lastId !== undefined && { 'last-event-id': lastId }),
      ...(options.reader !== undefined && { 'x-latchkey-reader': options.reader }),
    };
    let isOver = false;
    const over = () => {
      if (isOver) return;
      isOver = true;
      isConnected = false;
      if (options.comesBack) setTimeout(connect, PAUSE);
    };
    request = http.get(`${options.url()}/api/auth/revocations`, { headers, agent: false }, (response) => {
      incoming = response;
      const isStream = response.headers['content-type'] === 'text/event-stream';
      const connection = { status: response.statusCode ?? 0, headers: response.headers, body: '' };
      answer = connection;
      isConnected = isStream;
      let rest = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        if (!isStream) {
          connection.body += chunk;
          return;
        }
        const blocks = (rest + chunk).split('\n\n');
        rest = blocks.pop() ?? '';
        blocks.forEach(take);
      });
      response.on('close', over).on('error', over);
    });
    // A replica that hangs or was stopped sends nothing. A heartbeat is due every second.
    request.setTimeout(5000, () => request?.destroy());
    request.on('error', over);
  }

  const stop = () => {
    isStopped = true;
    request?.destroy();
  };
  t.teardown(stop);
  connect();
  return {
    events,
    lastId: () => lastId,
    answer: () => answer,
    connections: () => connections,
    isConnected: () => isConnected,
    knows: (tokenId, userId) =>
      tokens.has(tokenId) || (userId !== undefined && tokenId <= (marks.get(userId) ?? 0)),
    cut: () => request?.destroy(),
    stall: () => incoming?.pause(),
    stop,
  };
}
