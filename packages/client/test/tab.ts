// Runs in the page: one tab of an application. It refreshes and calls, and notes what must not happen.
import { createClient, LatchkeyError, type Client } from '@latchkey/client';

interface Page {
  localStorage: Record<string, string> & {
    getItem: (key: string) => string | null;
    setItem: (key: string, value: string) => void;
    removeItem: (key: string) => void;
  };
  location: { search: string };
  addEventListener: (name: string, listener: (event: { persisted?: boolean }) => void) => void;
  tab: Tab;
}

/** What a test uses in the page. */
export interface Tab {
  client: Client;
  /** @returns the status, or the code of the error */
  call: (path: string) => Promise<number | string>;
  /** The stored access token, or ''. */
  stored: () => string;
  /** @returns 'done', or the code of the error */
  outcome: (work: Promise<unknown>) => Promise<string>;
}

/** A call of the service. */
interface Call {
  begunWith: string;
  sent: string[];
}

/** Milliseconds between two rounds of work, at most. */
const PAUSE = 20;

const page = globalThis as unknown as Page;
const { localStorage } = page;
const parameters = new URLSearchParams(page.location.search);
const calls = new Map<string, Call>();
let isQuiet = false;

/** Of a tab that ends between an answer and its storage: it never stores one. */
const dying = {
  getItem: (key: string) => localStorage.getItem(key),
  setItem() {
    note('dying');
    return new Promise(() => undefined);
  },
  removeItem: () => undefined,
};
const client = createClient({ storage: parameters.has('dies') ? dying : localStorage, fetch: send });
// Only with a listener the client hears of other tabs.
client.onChange(() => undefined);
page.addEventListener('offline', () => {
  note('offline');
});
page.addEventListener('pageshow', ({ persisted }) => {
  if (persisted === true) note('restored');
});
page.tab = { client, call, stored, outcome };
if (parameters.has('works')) void work();

/** Until this tab is signed out. */
async function work(): Promise<void> {
  while (client.session !== null) {
    await sleep(Math.random() * PAUSE);
    if (!isQuiet) await client.refresh().catch(judge);
    await call('/service');
  }
  note('signed out');
}

async function call(path: string): Promise<number | string> {
  const id = String(Math.random());
  const sent: string[] = [];
  calls.set(id, { begunWith: stored(), sent });
  try {
    const response = await client.fetch(path, { headers: { 'x-call': id } });
    // After two tries, the second one was superseded on its way.
    if (response.status === 401 && sent.length === 1 && stored() !== sent[0])
      note('refused with the older one');
    isQuiet = response.headers.has('x-quiet');
    return response.status;
  } catch (error) {
    return judge(error);
  } finally {
    calls.delete(id);
  }
}

/** The client’s way to the network. */
function send(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const token = headers.get('authorization')?.slice('Bearer '.length) ?? '';
  const { begunWith, sent } = calls.get(headers.get('x-call') ?? '') ?? {};
  if (begunWith && generationOf(token) < generationOf(begunWith)) note('sent an older one');
  sent?.push(token);
  headers.set('x-tab', parameters.get('tab') ?? '');
  return fetch(input, { ...init, headers });
}

function stored(): string {
  const key = Object.keys(localStorage).find((name) => name.startsWith('latchkey.')) ?? '';
  const pair = JSON.parse(localStorage.getItem(key) ?? '{}') as { access_token?: string };
  return pair.access_token ?? '';
}

function generationOf(token: string): number {
  const payload = (token.split('.')[1] ?? '').replace(/-/g, '+').replace(/_/g, '/');
  return (JSON.parse(atob(payload)) as { gen: number }).gen;
}

function outcome(work: Promise<unknown>): Promise<string> {
  return work.then(() => 'done', judge);
}

/** @returns the code */
function judge(error: unknown): string {
  const code = error instanceof LatchkeyError ? error.code : 'failed';
  if (code === 'storage_failed') note(code);
  return code;
}

/** Tells the test, even if the network is away. */
function note(what: string): void {
  fetch(`/note?${what}`, { method: 'POST' }).catch(() =>
    sleep(100).then(() => {
      note(what);
    }),
  );
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
