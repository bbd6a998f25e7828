import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { text as textOf } from 'node:stream/consumers';
import { loadSettings } from '../config/config.ts';
import type { ServiceTrust, PublicJwks } from '../domain/services/assertion.ts';
import { makeServiceRegistry, type ServiceRegistry, type Credentials } from '../domain/services/registry.ts';
import { isAudience } from '../domain/audience.ts';
import { parseRoles } from '../domain/roles.ts';
import { parseRights, type Right } from '../domain/rights.ts';
import {
  MAX_TRUSTS,
  parseServiceName,
  TrustRefusedError,
  TwoSecretsError,
  type RegisteredService,
} from '../domain/services/registered-service.ts';
import { discoveryUrl } from '../infra/issuers/issuer-url.ts';
import { parseJwks } from '../infra/issuers/jwks.ts';
import { makeServiceStore } from '../infra/postgres/service-store.ts';
import { UsageError, type Values } from './arguments.ts';
import { CommandError, isoOrNull, type Command, type Outcome } from './command.ts';
import { withPostgres } from './database.ts';

export interface ClientCommand {
  action: 'list' | (typeof NAMED)[number] | 'again' | 'finish';
  /** Empty for `list`. */
  name: string;
  /** For `create` and `allow`; `create` has defaults. */
  rights?: readonly Right[];
  /** For `create` and `roles`. */
  roles?: readonly string[];
  /** For `create`. */
  audience?: string;
  /** For `trust` and `untrust`. */
  pair?: ServiceTrust;
  /** For `trust`: the file of the issuer's keys. */
  jwks?: string;
}

/** Actions on a client that the command names. */
const NAMED = [
  ...(['create', 'allow', 'roles', 'rotate', 'trust', 'untrust'] as const),
  ...(['disable', 'enable', 'end-tokens', 'delete'] as const),
] as const;

/** `latchkey client …`. Replicas see new clients and secrets at once, and other changes within seconds. */
export const run: Command = async ({ env, words, values }) => {
  const command = parseClientCommand(words, values);
  if (typeof command === 'string') throw new UsageError(command);
  if (command.audience !== undefined && command.audience === loadSettings(env, 'AUDIENCE').AUDIENCE)
    throw new UsageError(
      `${command.audience} is AUDIENCE, which all tokens are for; choose another audience`,
    );
  if (command.action === 'trust') checkIssuer(command, loadSettings(env, 'ISSUER').ISSUER);
  const keys = command.jwks === undefined ? null : await readKeys(command.jwks);
  return withPostgres(env, ({ prisma }) => {
    const clock = { now: () => Date.now() };
    const registry = makeServiceRegistry({ store: makeServiceStore(prisma), randomBytes, clock });
    return ACTIONS[command.action](registry, command, keys);
  });
};

/**
 * Reads `list`, `create NAME [--may RIGHTS] [--audience AUDIENCE] [--roles ROLES]`, `allow NAME RIGHTS`,
 * `roles NAME ROLES`, `rotate NAME [--again|--finish]`, `trust NAME --issuer ISSUER --subject SUBJECT [--jwks FILE]`,
 * `untrust NAME --issuer ISSUER --subject SUBJECT`, and the other actions with a name alone.
 * @returns an error message for any other arguments.
 */
export function parseClientCommand(
  words: readonly string[],
  values: Pick<Values, 'again' | 'finish' | 'may' | 'audience' | 'roles' | 'issuer' | 'subject' | 'jwks'>,
): ClientCommand | string {
  const { again, finish, may, audience, roles, issuer, subject, jwks } = values;
  const [action = '', rawName, ...rest] = words;
  if (audience !== undefined && !isAudience(audience))
    return 'an audience has 1 to 64 letters, digits, ".", "_", ":" and "-", and begins with a letter or digit';
  if (again && finish) return 'use either --again or --finish, not both';
  if (action === 'list' && rawName === undefined) return { action, name: '' };
  const named = NAMED.find((each) => each === action);
  if (!named) return `client needs list, ${NAMED.join(', ')}, and a name`;
  const list = LISTS[named];
  if (rest.length !== (list === undefined ? 0 : 1))
    return list === undefined ? 'give one name only' : `client ${named} needs a name and a list of ${list}`;
  if (rawName === undefined) return `client ${action} needs a name`;
  const name = parseServiceName(rawName);
  if (name === null) return 'a client has a name of 1 to 64 printable characters';
  if (named === 'trust' || named === 'untrust') {
    const isGiven = [issuer, subject].every((text) => text !== undefined && PRINTABLE.test(text));
    if (!isGiven)
      return `client ${named} needs --issuer and --subject, each of 1 to 512 printable characters`;
    const pair = { issuer: issuer ?? '', subject: subject ?? '' };
    return { action: named, name, pair, ...(jwks !== undefined && { jwks }) };
  }
  const rights = rightsOf(named === 'allow' ? rest[0] : may);
  if (typeof rights === 'string') return rights;
  const parsed = parseRoles(rolesOf(named === 'roles' ? rest[0] : roles));
  if (!parsed.ok) return `roles ${parsed.message}`;
  return {
    action: finish ? 'finish' : again ? 'again' : named,
    name,
    ...(rights && { rights }),
    ...(parsed.value.length > 0 && { roles: parsed.value }),
    ...(audience !== undefined && { audience }),
  };
}

/** In a claim, a URL or an id is shown to operators and compared as it is. */
const PRINTABLE = /^[\x21-\x7e]{1,512}$/;

/** @param own ISSUER. @throws UsageError */
function checkIssuer({ pair, jwks }: ClientCommand, own: string): void {
  const { issuer = '' } = pair ?? {};
  if (issuer === own) throw new UsageError(`${issuer} is ISSUER: its own tokens do not vouch for a service`);
  const isFetched = discoveryUrl(issuer) !== null;
  if (!isFetched && issuer.startsWith('http://'))
    throw new UsageError('an issuer with http must be on loopback; use https');
  if (!isFetched && jwks === undefined)
    throw new UsageError(
      'the keys of an issuer that is no https URL cannot be fetched: give them with --jwks FILE',
    );
}

/** @param file `-` for standard input. @throws CommandError */
async function readKeys(file: string): Promise<PublicJwks> {
  const keys = parseJwks(await readText(file));
  if (typeof keys === 'string') throw new CommandError(`--jwks: ${keys}`);
  return keys;
}

async function readText(file: string): Promise<string> {
  try {
    return file === '-' ? await textOf(process.stdin) : await readFile(file, 'utf8');
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw new CommandError(`--jwks: ${file} cannot be read (${code})`);
  }
}

/** Every pod of a namespace has this account unless it is given another one. */
const SHARED_ACCOUNT = /^system:serviceaccount:[^:]+:default$/;

/** The actions that take a list besides the name. */
const LISTS: Partial<Record<string, string>> = { allow: 'rights', roles: 'roles' };

function rightsOf(list: string | undefined): Right[] | string | undefined {
  return list === undefined ? undefined : parseRights(list);
}

function rolesOf(list = ''): string[] {
  return list === '' ? [] : list.split(',');
}

const HEADING = ['name', 'client id', 'secrets', 'created', 'rotated', 'rights', 'more'].join('\t');

type Act = (registry: ServiceRegistry, command: ClientCommand, keys: PublicJwks | null) => Promise<Outcome>;

const ACTIONS: Record<ClientCommand['action'], Act> = {
  async create(registry, { name, rights, audience, roles }) {
    const created = await registry.create(name, rights, audience, roles);
    if (!created) {
      const what = audience === undefined ? 'this name' : 'this name or this audience';
      throw new CommandError(`a client with ${what} exists already`);
    }
    return shown(name, created);
  },
  allow: async (registry, { name, rights = [] }) =>
    changed(await registry.allow(name, rights), `may ${rights.join(', ')}; replicas know within 2 seconds`),
  roles: async (registry, { name, roles = [] }) =>
    changed(
      await registry.setRoles(name, roles),
      `${roles.length === 0 ? 'no roles' : `roles ${roles.join(', ')}`}; in tokens issued after 2 seconds`,
    ),
  trust: async (registry, { name, pair = NO_PAIR }, keys) => {
    const service = await registry.trust(name, pair, keys).catch(orTold);
    const others = keys === null ? [] : await othersTrusting(registry, name, pair.issuer);
    const lines = [`may authenticate as ${told(pair)}; replicas know at once`];
    if (others.length > 0)
      lines.push(`The keys of ${pair.issuer} are now those of the file, also for ${others.join(', ')}`);
    if (SHARED_ACCOUNT.test(pair.subject))
      lines.push(
        'warning: the pods of a namespace share the account "default"; give this service one of its own',
      );
    const { result, ...outcome } = changed(service, lines.join('\n'));
    return { ...outcome, result: { ...result, keys_also_for: others } };
  },
  untrust: async (registry, { name, pair = NO_PAIR }) =>
    changed(
      await registry.untrust(name, pair),
      `may not authenticate as ${told(pair)}; replicas know within 2 seconds`,
    ),
  disable: async (registry, { name }) =>
    changed(await registry.disable(name), 'disabled; replicas refuse it and its tokens within 2 seconds'),
  enable: async (registry, { name }) =>
    changed(await registry.enable(name), 'enabled; replicas accept it within 2 seconds'),
  'end-tokens': async (registry, { name }) =>
    changed(await registry.endTokens(name), 'replicas refuse its service tokens within 2 seconds'),
  async rotate(registry, { name }) {
    const rotated = await registry.rotate(name).catch(orTold);
    if (!rotated) throw notFound();
    return shown(name, rotated);
  },
  async again(registry, { name }) {
    const rotated = await registry.rotate(name, true);
    if (!rotated) throw notFound();
    return shown(name, rotated);
  },
  finish: async (registry, { name }) =>
    changed(await registry.finishRotation(name), 'only the newest secret is good'),
  async delete(registry, { name }) {
    if (!(await registry.remove(name))) throw notFound();
    return { result: { deleted: name }, text: `deleted ${name}` };
  },
  async list(registry) {
    const [found, issuers] = [await registry.list(), await registry.issuers()];
    const services = found.map((service) => ({
      ...described(service),
      trusts: service.trusts.map((pair) => ({ ...pair, keys_of_file: Boolean(issuers.get(pair.issuer)) })),
    }));
    const lines = services.map(({ name, client_id, secrets, created_at, rotated_at, rights, ...service }) =>
      [
        name,
        client_id,
        secrets === 1 ? '1 secret' : '2 secrets',
        created_at,
        rotated_at ?? 'never rotated',
        rights.join(','),
        ...(service.audience === null ? [] : [`audience ${service.audience}`]),
        ...(service.roles.length === 0 ? [] : [`roles ${service.roles.join(',')}`]),
        ...service.trusts.map(
          ({ keys_of_file: isOfFile, ...pair }) =>
            `trusts ${told(pair)}${isOfFile ? ' (keys of a file)' : ''}`,
        ),
        ...(service.disabled_at === null ? [] : [`disabled ${service.disabled_at}`]),
      ].join('\t'),
    );
    const text = lines.length === 0 ? 'there are no clients' : [HEADING, ...lines].join('\n');
    return { result: { clients: services }, text };
  },
};

/** The outcome of a change; the service is null if there is none of this name. */
function changed(service: RegisteredService | null, text: string): Outcome {
  if (!service) throw notFound();
  return { result: described(service), text, audited: { serviceId: service.serviceId } };
}

/** The names of the other services that trust this issuer. */
async function othersTrusting(registry: ServiceRegistry, name: string, issuer: string): Promise<string[]> {
  const trusting = (await registry.list()).filter(({ trusts }) =>
    trusts.some((pair) => pair.issuer === issuer),
  );
  return trusting.map((service) => service.name).filter((other) => other !== name);
}

/** A client with a key of its own is both. */
function told({ issuer, subject }: ServiceTrust): string {
  return issuer === subject ? `${subject}, its own issuer` : `${subject} of ${issuer}`;
}

const NO_PAIR: ServiceTrust = { issuer: '', subject: '' };

function orTold(error: unknown): never {
  if (error instanceof TrustRefusedError)
    throw new CommandError(
      error.reason === 'taken'
        ? 'another client trusts this issuer and subject already: client untrust ends that'
        : `a client trusts at most ${MAX_TRUSTS} pairs of issuer and subject`,
    );
  if (!(error instanceof TwoSecretsError)) throw error;
  throw new CommandError(
    'two secrets are good already: --finish ends the older one; --again replaces the newer one, if it was lost',
  );
}

function notFound(): CommandError {
  return new CommandError('no client has this name');
}

function shown(name: string, { serviceId, secret }: Credentials): Outcome {
  return {
    result: { name, client_id: serviceId, client_secret: secret },
    audited: { serviceId },
    text: `client_id      ${serviceId}\nclient_secret  ${secret}\nThe secret will not be shown again.`,
  };
}

function described(service: RegisteredService) {
  const {
    name,
    serviceId,
    previousHash,
    createdAt,
    rotatedAt,
    rights,
    audience,
    roles,
    version,
    disabledAt,
  } = service;
  return {
    name,
    client_id: serviceId,
    secrets: previousHash === null ? 1 : 2,
    created_at: new Date(createdAt).toISOString(),
    rotated_at: isoOrNull(rotatedAt),
    rights,
    audience,
    roles,
    version,
    disabled_at: isoOrNull(disabledAt),
    trusts: service.trusts,
  };
}
