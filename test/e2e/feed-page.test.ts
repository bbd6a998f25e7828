import { test } from 'tap';
import { claimsOf } from '../support/client.ts';
import { readDocument } from '../support/documents.ts';
import { readBlocks } from '../support/markdown.ts';
import { logOutOver, signUpOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { startPythonFeedReader } from '../support/python-feed-reader.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { readyService } from '../support/service.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

const PAGE = 'docs/integrating/feed.md';

test(
  `the reader in Python of ${PAGE} enforces, confirms and leaves`,
  { skip: toolsMissing('python3') },
  async (t) => {
    const blocks = readBlocks(readDocument(PAGE)).filter(({ language }) => language === 'python');
    t.equal(blocks.length, 1);
    const { url: DATABASE_URL } = await testDatabase(t);
    const { url } = await readyService(t, { DATABASE_URL });
    const { serviceId: id, secret } = await aRegisteredService(DATABASE_URL, 'reports');
    const operator = basic(await aRegisteredService(DATABASE_URL, 'operator', ['readers']));
    const ask = async (path: string) =>
      (await (await fetch(`${url}/api/auth/revocations/${path}`, { headers: operator })).json()) as {
        done: boolean;
        counts: object;
        readers: object[];
      };

    const python = startPythonFeedReader(t, { url, id, secret });
    const { access_token: access } = await signUpOver(url);
    const { access_token: other } = await signUpOver(url);
    await until(async () => (await ask('readers')).readers.length > 0);
    await t.resolves(python.verify(access));
    t.equal(await logOutOver(url, access), 200);
    const counts = { enforced: 1, bounded: 0, pending: 0, unknown: 0 };
    const question = `enforcement?token=${String(claimsOf(access).sid)}&wait=30`;
    t.match(await ask(question), { done: true, counts });
    await t.rejects(python.verify(access), { code: 'invalid_token' });
    await t.resolves(python.verify(other));
    t.match(await ask('readers'), { readers: [{ name: 'reports', instance: null, behind: 0 }] });
    t.equal(await python.end(), '', 'it complains of nothing');
    t.strictSame((await ask('readers')).readers, []);
  },
);
