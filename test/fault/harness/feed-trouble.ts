import { createVerifier, type Verifier } from '@latchkey/verifier';
import { anAccount } from '../../support/client.ts';
import { aRegisteredService, basic } from '../../support/registered-service.ts';
import { until } from '../../support/until.ts';
import { USUAL, type ObservedReplica, type ObservedSite } from './observed-site.ts';
import { expect } from './ordinary-day.ts';
import { visitor } from './visitors.ts';

interface Reader {
  /** Resolves with the first id: the reader's position. */
  position: Promise<string>;
  leave(): void;
}

/** A service that verifies locally and follows the feed of this replica correctly. */
export async function aFeedReader(site: ObservedSite, replica: ObservedReplica): Promise<Verifier> {
  const { serviceId: id, secret } = await aRegisteredService(site.postgres.url(), 'shop');
  const verifier = createVerifier({
    issuer: 'http://localhost:3000',
    url: replica.url,
    audience: 'latchkey',
    client: { id, secret },
  });
  await verifier.ready();
  return verifier;
}

/** A service that keeps reconnecting, each time after more events than the feed keeps. */
export async function trimmedReader(site: ObservedSite, replica: ObservedReplica): Promise<void> {
  const { authorization } = basic(await aRegisteredService(site.postgres.url(), 'trimmed'));
  const first = await read(replica, authorization);
  const position = await first.position;
  first.leave();
  const { signUp, ask } = visitor(replica.url, '203.0.113.64');
  for (let i = 0; i < 3; i++) {
    const { access_token: token } = await signUp(anAccount());
    expect(200, (await ask('DELETE', '/api/auth', token)).status);
  }
  await site.redis.ask('XTRIM', 'latchkey:{feed}:stream', 'MAXLEN', 1);
  for (let i = 0; i < 8; i++) {
    const again = await read(replica, authorization, position);
    if ((await again.position) === position) throw new Error('nothing was trimmed');
    again.leave();
  }
  await site.fire(USUAL, 'LatchkeyFeedReadersCut');
}

async function read({ url }: ObservedReplica, authorization: string, lastId?: string): Promise<Reader> {
  const stopping = new AbortController();
  const headers = { authorization, ...(lastId !== undefined && { 'last-event-id': lastId }) };
  let response: Response | undefined;
  // The replicas know a new client a second later.
  await until(async () => {
    response = await fetch(`${url}/api/auth/revocations`, { headers, signal: stopping.signal });
    if (response.status !== 200) await response.text();
    return response.status === 200;
  });
  return {
    position: firstId(response),
    leave: () => {
      stopping.abort();
    },
  };
}

/** Reads until the reader leaves. */
function firstId(response: Response | undefined): Promise<string> {
  return new Promise((resolve, reject) => {
    void (async () => {
      let text = '';
      const decoder = new TextDecoder();
      for await (const chunk of (response?.body ?? []) as AsyncIterable<Uint8Array>) {
        text += decoder.decode(chunk, { stream: true });
        const id = /^id: (.+)\n/m.exec(text)?.[1];
        if (id !== undefined) resolve(id);
      }
    })().catch(reject);
  });
}
