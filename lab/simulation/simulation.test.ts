import { spawnSync } from 'node:child_process';
import { test } from 'tap';
import { readDocument } from '../../test/support/documents.ts';
import { falseSignOuts, NETWORKS, untilFound } from './measure.ts';
import { signOutsPicture } from './picture.ts';
import { forkingGrace, oneTimeUse, ours } from './rules.ts';
import { THIEVES } from './thief.ts';

// A small run of `npm run simulate`; the seeds make it the same every time.
const REFRESHES = 3_000;

for (const network of NETWORKS) {
  test(`${network.name} signs no owner out`, (t) => {
    t.equal(falseSignOuts(ours(10), network, REFRESHES).signOuts, 0);
    const off = falseSignOuts(ours(0), network, REFRESHES);
    const isAlone = network.tabs === 1 && network.pages === 0;
    if (isAlone) t.equal(off.signOuts, 0, 'with the window off and one request at a time, none either');
    else
      t.ok(
        off.perThousand < (network.pages > 0 ? 10 : 3),
        `with the window off, ${off.perThousand} of 1,000 refreshes`,
      );
    const strict = falseSignOuts(oneTimeUse({ grace: 0 }), network, REFRESHES);
    t.ok(strict.perThousand > 5, `one-time use: ${strict.perThousand} of 1,000, so enough answers were lost`);
    t.end();
  });
}

test('a rule that reads, then writes, takes the requests of a page for theft', (t) => {
  const pages = NETWORKS.filter((network) => network.pages > 0);
  t.equal(pages.length, 1);
  for (const network of pages) {
    // Requests within 5 ms pass the same check, and fork the token. The next one finds it used.
    const { perThousand } = falseSignOuts(forkingGrace(0.005), network, REFRESHES);
    t.ok(perThousand > 50, `${perThousand} of 1,000 refreshes`);
  }
  t.end();
});

for (const kind of THIEVES) {
  test(`a thief that ${kind} is found`, (t) => {
    for (let seed = 1; seed <= 10; seed++) {
      const elsewhere = untilFound(ours(10), { kind, caller: 'elsewhere' }, seed);
      t.ok(elsewhere.seconds !== null && elsewhere.seconds < 1800, `elsewhere: ${elsewhere.seconds} s`);
      const closed = untilFound(ours(0), { kind, caller: 'home' }, seed);
      t.ok(closed.seconds !== null && closed.seconds < 1800, `window 0: ${closed.seconds} s`);
    }
    t.end();
  });
}

test("with the window on, a thief at the owner's address just behind the owner is not found", (t) => {
  const kind = 'refreshes just behind the owner';
  const { seconds, pairs } = untilFound(ours(10), { kind, caller: 'home' }, 1);
  t.equal(seconds, null);
  t.ok(pairs > 90, `${pairs} pairs in a day`);
  t.end();
});

test('docs/rotation.md shows what the simulation prints, and the picture of the README has its figures', (t) => {
  const script = new URL('./simulate.js', import.meta.url).pathname;
  const { stdout } = spawnSync(process.execPath, [script], { encoding: 'utf8' });
  t.ok(stdout.length > 0 && readDocument('docs/rotation.md').includes(stdout), 'docs/rotation.md');

  const [, signOuts = ''] = stdout.split('\n\n');
  const [rules = [], , ...rows] = signOuts
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()));
  const figures = rows.map(([, network = '', ...cells]) => ({
    network,
    perThousand: cells.slice(0, -1).map(Number),
  }));
  const picture = signOutsPicture(rules.slice(2, -1), figures);
  t.equal(picture.match(/class="bar/g)?.length, 12);
  t.equal(readDocument('docs/images/sign-outs.svg'), picture, 'run `npm run simulate -- --save`');
  t.end();
});
