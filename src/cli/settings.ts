import { ConfigError, loadSettings } from '../config/config.ts';
import { readVariable, type Environment } from '../config/environment.ts';
import { LATE } from '../domain/access-tokens/key-lifecycle.ts';
import {
  HARD_FACTS,
  differencesOf,
  type Difference,
  type Facts,
  type HardFact,
} from '../infra/installation/facts.ts';
import { makeInstallationRecord, type InstallationRecord } from '../infra/installation/record.ts';
import { UsageError } from './arguments.ts';
import { CommandError, type Command, type Outcome } from './command.ts';
import { withPostgres } from './database.ts';

/** What becomes of clients once replicas start with the new value. */
const COSTS: Record<HardFact, string> = {
  ISSUER: 'a new ISSUER signs everybody out, because every token names the old one; verifiers need it too',
  AUDIENCE:
    'a new AUDIENCE signs everybody out, because every token names the old one; verifiers need it too',
};

/** `latchkey settings accept`. */
export const run: Command = async ({ env, words, values: { retire } }) => {
  if (words.length !== 1 || words[0] !== 'accept')
    throw new UsageError('use settings accept, or settings accept --retire KID');
  return withPostgres(env, ({ prisma }) => {
    const record = makeInstallationRecord(prisma);
    return retire === undefined ? accept(env, record) : letGo(retire, record);
  });
};

/** @throws CommandError while a replica serves: it would refuse every token of one that starts with the new values. */
async function accept(env: Environment, record: InstallationRecord): Promise<Outcome> {
  const settings = ownSettings(env);
  const facts = await record.read();
  const changes = differencesOf(settings, facts);
  const lines = changes.flatMap(describe);
  const shown = changes.map(({ name, own, recorded }) => ({ setting: name, from: recorded, to: own }));
  if (changes.length > 0 && (await record.isServed())) {
    const todo = `stop every replica, wait ${LATE / 1000} s, and run it again`;
    const message = [
      ...lines,
      `A replica serves, or has within the last ${LATE / 1000} s: ${todo}. Nothing has changed`,
    ];
    throw new CommandError(message.join('\n'), { changes: shown });
  }
  for (const { name, own, recorded } of changes)
    if (!(await record.replace(name, recorded, own)))
      throw new CommandError(`${name} has just been changed by another command: run this one again`);
  const added = missingIn(facts);
  await record.add(Object.fromEntries(added.map((name) => [name, settings[name]])));
  const accepted = [...shown, ...added.map((name) => ({ setting: name, from: null, to: settings[name] }))];
  const said = accepted.map(({ setting, to }) => [setting.toLowerCase(), to] as const);
  return {
    result: { accepted },
    text: [
      ...lines,
      ...added.map((name) => `${name}: ${settings[name]} is recorded`),
      accepted.length === 0
        ? 'nothing to accept: ISSUER and AUDIENCE are on record like this'
        : 'accepted: start the replicas',
    ].join('\n'),
    audited: Object.fromEntries(said),
  };
}

/** @throws ConfigError if ISSUER is not set: its default is no value to record for others. */
function ownSettings(env: Environment): Record<HardFact, string> {
  if (readVariable(env, 'ISSUER') === undefined)
    throw new ConfigError(['ISSUER is required: set it, and AUDIENCE, as for the replicas']);
  return loadSettings(env, 'ISSUER', 'AUDIENCE');
}

function missingIn(facts: Facts): HardFact[] {
  return HARD_FACTS.filter((name) => !facts.has(name));
}

function describe({ name, own, recorded }: Difference): string[] {
  return [
    `${name}: ${recorded} becomes ${own}`,
    ...HARD_FACTS.filter((hard) => hard === name).map((hard) => COSTS[hard]),
  ];
}

/** While replicas serve: those with the key go on until they are replaced by ones without it. */
async function letGo(kid: string, record: InstallationRecord): Promise<Outcome> {
  // The text is not repeated: it may be the secret itself.
  if (!(await record.retire(kid)))
    throw new CommandError('no replica has recorded a key with this id: `/health/ready` and the log name it');
  return {
    result: { retired: kid },
    text:
      `replicas without ${kid} become ready. Roll them out: they refuse the tokens that it signed, and sign out whoever ` +
      'holds only such a refresh token',
    audited: { kid },
  };
}
