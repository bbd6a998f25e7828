import { falseSignOuts, NETWORKS, untilFound } from './measure.ts';
import { RULES, type Rule } from './rules.ts';
import { THIEVES, type Kind } from './thief.ts';

// `npm run simulate`: the two tables of docs/rotation.md.
const REFRESHES = 20_000;
const THEFTS = 40;

function table(title: string, rows: string[][]): void {
  const head = [title, ...RULES.map(({ name }) => name)];
  const line = (cells: string[]) => `| ${cells.join(' | ')} |\n`;
  process.stdout.write(line(head) + line(head.map(() => '---')) + rows.map(line).join('') + '\n');
}

function found(rule: Rule, kind: Kind, client: string): string {
  const results = Array.from({ length: THEFTS }, (_, index) => untilFound(rule, { kind, client }, index + 1));
  const times = results.flatMap(({ seconds }) => (seconds === null ? [] : [seconds])).sort((a, b) => a - b);
  const never = THEFTS - times.length;
  if (times.length === 0) return 'never';
  const median = inWords(times[times.length >> 1] ?? 0);
  return `${median} (${inWords(times.at(-1) ?? 0)})${never > 0 ? `, ${never} of ${THEFTS} never` : ''}`;
}

function inWords(seconds: number): string {
  if (seconds === 0) return 'at once';
  return seconds < 60 ? `${seconds.toFixed(0)} s` : `${(seconds / 60).toFixed(1)} min`;
}

table(
  'false sign-outs per 1,000 refreshes',
  NETWORKS.map((network) => [
    network.name,
    ...RULES.map(({ rule }) => falseSignOuts(rule, network, REFRESHES).perThousand.toFixed(2)),
  ]),
);
table(
  'time until the thief is found: median (longest)',
  THIEVES.flatMap((kind) =>
    [
      ['elsewhere', 'from another client'],
      ['home', "from the owner's client"],
    ].map(([client = '', where = '']) => [
      `${kind}, ${where}`,
      ...RULES.map(({ rule }) => found(rule, kind, client)),
    ]),
  ),
);
