import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { test } from 'tap';
import { CommandError } from '../../../src/cli/command.ts';
import { makeReadLine } from '../../../src/domain/users/import-line.ts';
import { makeNewNames } from '../../../src/domain/users/new-names.ts';
import { makeReadTotpSecret } from '../../../src/infra/crypto/factor-keys.ts';
import { makeReadHash } from '../../../src/infra/crypto/new-stored-hash.ts';
import { HOSTILE_TEXTS } from '../../fuzz/hostile.ts';
import { testScale } from '../../support/environment.ts';
import { testFolder } from '../../support/folder.ts';
import { convert, filesOf, SYSTEM_NAMES } from './exports.ts';

/** What reads a line in an import with the default settings. */
const readLine = makeReadLine({
  newNames: makeNewNames([]),
  readHash: makeReadHash({ logN: 4, r: 8, p: 1 }, Infinity),
  readTotpSecret: makeReadTotpSecret({ canSeal: true }),
  randomUsername: () => 'user-aaaaaaaaaaaa',
  now: () => Date.now(),
});

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** What a value may become. */
const REPLACEMENTS: readonly Json[] = [
  ...HOSTILE_TEXTS,
  null,
  true,
  0,
  -1,
  1e308,
  [],
  {},
  [[]],
  [{}],
  ['a', null, { type: 'otp' }],
  { __proto__: null, toString: 'x' },
  '{"value":"x","salt":"x"}',
  '$2a$10$',
];

/** Replaces the value at this place of a tree, counted in the order of a walk, or removes it. */
function replaced(tree: Json, at: number, by: Json | undefined): Json {
  let left = at % Math.max(1, sizeOf(tree));
  const walk = (value: Json): Json | undefined => {
    if (left-- === 0) return by;
    if (Array.isArray(value)) return value.map(walk).filter((each): each is Json => each !== undefined);
    if (typeof value !== 'object' || value === null) return value;
    const entries = Object.entries(value).map(([name, each]) => [name, walk(each)] as const);
    return Object.fromEntries(entries.filter((entry): entry is [string, Json] => entry[1] !== undefined));
  };
  return walk(tree) ?? null;
}

function sizeOf(value: Json): number {
  if (typeof value !== 'object' || value === null) return 1;
  return Object.values(value).reduce((sum: number, each) => sum + sizeOf(each), 1);
}

const mutation = fc.oneof(
  fc.record({
    kind: fc.constant('tree' as const),
    at: fc.nat(),
    by: fc.constantFrom(undefined, ...REPLACEMENTS),
  }),
  fc.record({
    kind: fc.constant('bytes' as const),
    at: fc.nat(),
    length: fc.nat(40),
    by: fc.uint8Array({ maxLength: 40 }),
  }),
);
type Mutation = typeof mutation extends fc.Arbitrary<infer Each> ? Each : never;

function mutated(bytes: Buffer, change: Mutation): Buffer {
  if (change.kind === 'bytes') {
    const at = change.at % (bytes.length + 1);
    return Buffer.concat([bytes.subarray(0, at), change.by, bytes.subarray(at + change.length)]);
  }
  const text = bytes.toString();
  const lines = text.split('\n');
  const index = change.at % lines.length;
  const line = lines[index] ?? '';
  // One line, if the file is of lines or an earlier mutation has broken it.
  const changed = () => changedJson(line, change) ?? line.slice(change.at % (line.length + 1));
  return Buffer.from(changedJson(text, change) ?? lines.with(index, changed()).join('\n'));
}

/** @returns null for what is no JSON. */
function changedJson(text: string, { at, by }: Extract<Mutation, { kind: 'tree' }>): string | null {
  try {
    return JSON.stringify(replaced(JSON.parse(text) as Json, at, by));
  } catch {
    return null;
  }
}

/** Every text in a file that a report must not hold. Field names and short words are no values. */
function valuesIn(text: string): string[] {
  const found = text.match(/[^\s"\\,:{}[\]]{12,}/g) ?? [];
  return [...new Set(found)].filter((value) => /[@$/=]|\d{6}/.test(value));
}

for (const system of SYSTEM_NAMES)
  test(`a mutated export of ${system} ends in a report, and import takes what was written`, async (t) => {
    const { input, withFile } = filesOf(system);
    const folder = testFolder(t);
    const [path, output, secrets] = ['in', 'out', 'with'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    const original = readFileSync(input);
    const originalWith = withFile === undefined ? undefined : readFileSync(withFile);
    const outcomes = { converted: 0, refused: 0 };
    const change = fc.record({
      isOfWith: fc.boolean(),
      changes: fc.array(mutation, { minLength: 1, maxLength: 3 }),
    });
    await fc.assert(
      fc.asyncProperty(change, async ({ isOfWith, changes }) => {
        const all = (bytes: Buffer) => changes.reduce(mutated, bytes);
        const mutatesWith = isOfWith && originalWith !== undefined;
        const bytes = mutatesWith ? original : all(original);
        writeFileSync(path, bytes);
        if (originalWith) writeFileSync(secrets, mutatesWith ? all(originalWith) : originalWith);
        const args = ['--from', system, path, output, ...(originalWith ? ['--with', secrets] : [])];
        let report: string;
        try {
          report = (await convert(args)).outcome.text;
          outcomes.converted++;
          const lines = readFileSync(output, 'utf8').split('\n').slice(0, -1);
          for (const line of lines) {
            const parsed = readLine(Buffer.from(line));
            if (!parsed.ok) throw new Error(`import refuses a line: ${parsed.problem}`);
          }
        } catch (error) {
          if (!(error instanceof CommandError)) throw error;
          report = error.message;
          outcomes.refused++;
        }
        rmSync(output, { force: true });
        const leaked = valuesIn(bytes.toString()).find((value) => report.includes(value));
        if (leaked !== undefined) throw new Error(`the report holds ${leaked}`);
      }),
      { numRuns: Math.ceil(200 * testScale) },
    );
    t.ok(outcomes.converted > 0 && outcomes.refused > 0, JSON.stringify(outcomes));
  });
