import type { LightMyRequestResponse } from 'fastify';
import type { Environment } from '../../src/config/config.ts';
import { buildTestApp } from '../support/app.ts';
import {
  ALLOWED,
  anOwner,
  attempt,
  exhaust,
  HOME,
  LIMITS,
  PASSWORD,
  shape,
  stranger,
  verifications,
} from '../support/guessing.ts';
import { refused } from '../support/problem.ts';
import { workDone } from '../support/spy.ts';
import { onAStore } from '../support/stores.ts';
import '../support/watch-leaks.ts';

onAStore('guessing', async (t, env) => {
  const open = (more: Environment = {}) => buildTestApp(t, { env: { ...env, ...LIMITS, ...more } });
  const target = await open();

  await t.test('2,000 concurrent guesses from 500 addresses try no more than the limit allows', async (t) => {
    const owner = await anOwner(target);
    const moved = { ...HOME, 'x-forwarded-for': '203.0.113.200' };
    const tokens = { ...moved, authorization: `Bearer ${owner.pair.refresh_token}` };
    const answers: LightMyRequestResponse[] = [];
    const owners: LightMyRequestResponse[] = [];
    const steps = await workDone(t, async () => {
      const flood = Array.from({ length: 2000 }, async (_, i) => {
        answers.push(await attempt(target, owner.username, `guess ${i}`, stranger(i)));
      });
      for (let i = 0; i < 3; i++) {
        owners.push(await attempt(target, owner.username, PASSWORD, HOME));
        owners.push(await attempt(target, owner.username, PASSWORD, tokens));
      }
      await Promise.all(flood);
      owners.push(await attempt(target, owner.username, PASSWORD, HOME));
      owners.push(await attempt(target, owner.email, PASSWORD, tokens));
    });
    t.strictSame(
      new Set(owners.map(({ statusCode }) => statusCode)),
      new Set([200]),
      'the owner logs in throughout',
    );
    t.equal(verifications(steps), ALLOWED + owners.length, 'number of hashes tried');
    t.equal(answers.filter(({ statusCode }) => statusCode === 401).length, ALLOWED);
    const rest = answers.filter(({ statusCode }) => statusCode !== 401);
    for (const answer of rest.slice(0, 50)) refused(t, answer, 429, 'rate_limited');
    t.ok(rest.every(({ statusCode }) => statusCode === 429));
    const waits = rest.map(({ headers }) => Number(headers['retry-after']));
    const isToWait = (wait: number) => wait > 800 && wait <= 900;
    t.ok(
      waits.every((wait) => wait === 1 || isToWait(wait)),
      'refused at once while other logins are checked',
    );
    const late = await attempt(target, owner.username, 'one more', stranger(1));
    t.ok(isToWait(Number(late.headers['retry-after'])), 'until the window frees a slot');
  });

  await t.test(
    'a success does not reset the count, and a stranger with the right password stays out',
    async (t) => {
      const owner = await anOwner(target);
      await exhaust(t, target, owner.username);
      t.equal((await attempt(target, owner.username, PASSWORD, HOME)).statusCode, 200);
      refused(t, await attempt(target, owner.username, PASSWORD, stranger(0)), 429, 'rate_limited');
      refused(t, await attempt(target, owner.username, 'x', stranger(1)), 429, 'rate_limited');
    },
  );

  await t.test('right passwords are not counted', async (t) => {
    const owner = await anOwner(target);
    for (let i = 0; i < ALLOWED + 2; i++)
      t.equal((await attempt(target, owner.username, PASSWORD, stranger(i))).statusCode, 200);
    await exhaust(t, target, owner.username, (i) => stranger(300 + i));
  });

  await t.test('unknown names are counted and answered like known names', async (t) => {
    const owner = await anOwner(target);
    const names = [
      owner.username,
      'unknown-at-all',
      owner.email,
      'unknown@example.com',
      'two words',
      'a@b@c',
    ];
    const seen = new Set<string>();
    for (const name of names) {
      const answers = [];
      for (let i = 0; i < ALLOWED + 2; i++)
        answers.push(await attempt(target, name, `guess ${i}`, stranger(i)));
      seen.add(JSON.stringify(answers.map(shape)));
      t.equal(answers.filter(({ statusCode }) => statusCode === 401).length, ALLOWED, name);
    }
    t.equal(seen.size, 1, 'status, body and headers');
  });

  await t.test('known and unknown names cost the same work, within the limit and beyond it', async (t) => {
    const owner = await anOwner(target);
    for (let i = 0; i < ALLOWED + 2; i++) {
      const work = (name: string) => workDone(t, () => attempt(target, name, 'x', stranger(i)));
      t.strictSame(await work(owner.username), await work('unknown-else'));
    }
  });

  await t.test('username and e-mail address each have a limit, in any spelling', async (t) => {
    const owner = await anOwner(target);
    await exhaust(t, target, owner.username);
    const written = [owner.username.toUpperCase(), ` ${owner.username} `];
    for (const name of written)
      refused(t, await attempt(target, name, 'x', stranger(0)), 429, 'rate_limited');
    await exhaust(t, target, owner.email);
    refused(t, await attempt(target, owner.email.toUpperCase(), 'x', stranger(0)), 429, 'rate_limited');
  });

  await t.test('RATE_LIMIT_ALLOW does not lift the account limit', async (t) => {
    const lenient = await open({ RATE_LIMIT_ALLOW: '0.0.0.0/0,::/0' });
    await exhaust(t, lenient, 'unknown-here');
    refused(t, await attempt(lenient, 'unknown-here', 'x', stranger(0)), 429, 'rate_limited');
  });

  await t.test('a login that ends with 503 returns its slot', async (t) => {
    const busy = await open({ HASH_CONCURRENCY: '1', HASH_QUEUE: '0', SCRYPT_LOG_N: '14' });
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, i) => attempt(busy, 'unknown-busy', 'x', stranger(i))),
    );
    const tried = answers.filter(({ statusCode }) => statusCode === 401).length;
    t.ok(tried < answers.length, `${tried} of 8`);
    for (const answer of answers.filter(({ statusCode }) => statusCode !== 401))
      refused(t, answer, 503, 'overloaded');
    for (let i = tried; i < ALLOWED; i++)
      refused(t, await attempt(busy, 'unknown-busy', 'x', stranger(i)), 401, 'invalid_credentials');
    refused(t, await attempt(busy, 'unknown-busy', 'x', stranger(0)), 429, 'rate_limited');
  });

  await t.test('0 turns the limit off', async (t) => {
    const off = await open({ RATE_LIMIT_ACCOUNT: '0' });
    for (let i = 0; i < ALLOWED + 5; i++)
      refused(t, await attempt(off, 'unknown-off', 'x', stranger(i)), 401, 'invalid_credentials');
  });
});
