import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { DOCS, print, reportText, type Table } from '../table.ts';
import { falseSignOuts, NETWORKS, untilFound } from './measure.ts';
import { signOutsPicture, twoDigits } from './picture.ts';
import { RULES, type Rule } from './rules.ts';
import { THIEVES, type Kind } from './thief.ts';

// `npm run simulate`: the two tables of docs/rotation.md. `--json`: one line of JSON. `--save` draws the README's picture.
const REFRESHES = 20_000;
const THEFTS = 40;

const { values: flags } = parseArgs({
  options: { json: { type: 'boolean', default: false }, save: { type: 'boolean', default: false } },
});

function secondsUntilFound(rule: Rule, kind: Kind, caller: string): (number | null)[] {
  return Array.from({ length: THEFTS }, (_, index) => untilFound(rule, { kind, caller }, index + 1).seconds);
}

function foundText(seconds: readonly (number | null)[]): string {
  const times = seconds.filter((each) => each !== null).sort((a, b) => a - b);
  const never = THEFTS - times.length;
  if (times.length === 0) return 'never';
  const median = inWords(times[times.length >> 1] ?? 0);
  return `${median} (${inWords(times.at(-1) ?? 0)})${never > 0 ? `, ${never} of ${THEFTS} never` : ''}`;
}

function inWords(seconds: number): string {
  if (seconds === 0) return 'at once';
  return seconds < 60 ? `${seconds.toFixed(0)} s` : `${(seconds / 60).toFixed(1)} min`;
}

const rules = RULES.map(({ name }) => name);
const signOuts = NETWORKS.map((network) => ({
  network: network.name,
  perThousand: RULES.map(({ rule }) => falseSignOuts(rule, network, REFRESHES).perThousand),
}));
const thieves = THIEVES.flatMap((kind) =>
  [
    ['elsewhere', 'from another client'],
    ['home', "from the owner's client"],
  ].map(([caller = '', where = '']) => ({
    thief: `${kind}, ${where}`,
    secondsUntilFound: RULES.map(({ rule }) => secondsUntilFound(rule, kind, caller)),
  })),
);
const tables: Table[] = [
  {
    title: 'False sign-outs per 1,000 refreshes',
    head: ['network', ...rules],
    rows: signOuts.map(({ network, perThousand }) => [network, ...perThousand.map(twoDigits)]),
  },
  {
    title: 'Time until the thief is found: median (longest)',
    head: ['thief', ...rules],
    rows: thieves.map(({ thief, secondsUntilFound: seconds }) => [thief, ...seconds.map(foundText)]),
  },
];
await print(flags.json, { rules, signOuts, thieves }, reportText(tables, [], ''));
if (flags.save) writeFileSync(join(DOCS, 'images/sign-outs.svg'), signOutsPicture(rules, signOuts));
