// suite: browser, release
import { test } from 'tap';
import { chromiumMissing } from '../../../test/support/browser.ts';
import { redisServersMissing } from '../../../test/support/redis-server.ts';
import '../../../test/support/watch-leaks.ts';
import type { Edit } from './site.ts';
import { badDays, openTabs, startWorld } from './tabs.ts';

const skip = chromiumMissing || redisServersMissing;

const REMEMBERS = 'const pair = (this.pair ??= await present());\n            return';

/** A mistake, what it shows, and where it is. */
const MISTAKES: [name: string, shows: string, ...Edit[]][] = [
  [
    ...(['the refresh token is read before a wait', 'signed out'] as const),
    ['renewal.js', 'refresh() {\n        const sent = await present();', 'refresh(sent) {'],
    ['renewal.js', 'pace.run(refresh)', 'pace.run(() => refresh(begun))'],
    ['renewal.js', 'pair.access !== begun.access && (isFresh(pair) || refreshes > 1)', 'refreshes > 0'],
  ],
  ['any 401 is the end', 'signed out', ['latchkey-error.js', ' || !error.problem', '']],
  [
    ...(['a tab remembers the pair', 'sent an older one'] as const),
    ['renewal.js', 'const pair = await present();\n            return', REMEMBERS],
  ],
  ['a call is sent once', 'refused with the older one', ['authorized.js', 'if (isOnce', 'if (true']],
];

test('bad days show a mistake in the client', { skip }, async (t) => {
  const world = await startWorld(t, 1);
  for (const [name, shows, ...edits] of MISTAKES)
    await t.test(name, async (t) => {
      const tabs = await openTabs(t, world, edits);
      tabs.site.last = shows;
      await t.rejects(badDays(world, tabs, 5, 20), { message: shows });
    });
});
