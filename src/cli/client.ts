import { randomBytes } from 'node:crypto';
import { audienceOf } from '../config/config.ts';
import { makeClientRegistry, type ClientRegistry, type Credentials } from '../domain/clients/registry.ts';
import { isAudience } from '../domain/clients/audience.ts';
import { parseRights, type Right } from '../domain/rights.ts';
import { parseClientName, TwoSecretsError, type ServiceClient } from '../domain/clients/service-client.ts';
import { makeClientStore } from '../infra/postgres/client-store.ts';
import { UsageError, type Values } from './arguments.ts';
import { CommandError, type Command, type Outcome } from './command.ts';
import { withPostgres } from './database.ts';

export interface ClientCommand {
  action: 'create' | 'list' | 'allow' | 'rotate' | 'again' | 'finish' | 'delete';
  /** Empty for `list`. */
  name: string;
  /** For `create` and `allow`; `create` has defaults. */
  rights?: readonly Right[];
  /** For `create`. */
  audience?: string;
}

/** `latchkey client …`. Replicas see new clients and secrets at once, and other changes within seconds. */
export const run: Command = async ({ env, words, values }) => {
  const command = parseClientCommand(words, values);
  if (typeof command === 'string') throw new UsageError(command);
  if (command.audience !== undefined && command.audience === audienceOf(env))
    throw new UsageError(
      `${command.audience} is AUDIENCE, which all tokens are for; choose another audience`,
    );
  return withPostgres(env, ({ prisma }) => {
    const clock = { now: () => Date.now() };
    const registry = makeClientRegistry({ store: makeClientStore(prisma), randomBytes, clock });
    return ACTIONS[command.action](registry, command);
  });
};

/**
 * Reads `create NAME [--may RIGHTS] [--audience AUDIENCE]`, `allow NAME RIGHTS`, `list`, `rotate NAME`,
 * `rotate NAME --again`, `rotate NAME --finish` and `delete NAME`.
 * @returns an error message for any other arguments.
 */
export function parseClientCommand(
  words: readonly string[],
  { again, finish, may, audience }: Pick<Values, 'again' | 'finish' | 'may' | 'audience'>,
): ClientCommand | string {
  const [action = '', rawName, ...rest] = words;
  if (audience !== undefined && !isAudience(audience))
    return 'an audience has 1 to 64 letters, digits, ".", "_", ":" and "-", and begins with a letter or digit';
  if (again && finish) return 'use either --again or --finish, not both';
  if (action === 'list' && rawName === undefined) return { action, name: '' };
  if (action !== 'create' && action !== 'rotate' && action !== 'delete' && action !== 'allow')
    return 'client needs create, list, allow, rotate or delete, and a name';
  if (rest.length !== (action === 'allow' ? 1 : 0))
    return action === 'allow' ? 'client allow needs a name and a list of rights' : 'give one name only';
  if (rawName === undefined) return `client ${action} needs a name`;
  const name = parseClientName(rawName);
  if (name === null) return 'a client has a name of 1 to 64 printable characters';
  const list = action === 'allow' ? rest[0] : may;
  const rights = list === undefined ? undefined : parseRights(list);
  if (typeof rights === 'string') return rights;
  return {
    action: finish ? 'finish' : again ? 'again' : action,
    name,
    ...(rights && { rights }),
    ...(audience !== undefined && { audience }),
  };
}

type Act = (registry: ClientRegistry, command: ClientCommand) => Promise<Outcome>;

const ACTIONS: Record<ClientCommand['action'], Act> = {
  async create(registry, { name, rights, audience }) {
    const created = await registry.create(name, rights, audience);
    if (!created) {
      const what = audience === undefined ? 'this name' : 'this name or this audience';
      throw new CommandError(`a client with ${what} exists already`);
    }
    return shown(name, created);
  },
  async allow(registry, { name, rights = [] }) {
    const client = await registry.allow(name, rights);
    if (!client) throw notFound();
    return {
      result: described(client),
      text: `may ${rights.join(', ')}; replicas know within 2 seconds`,
      audited: { clientId: client.clientId },
    };
  },
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
  async finish(registry, { name }) {
    const client = await registry.finishRotation(name);
    if (!client) throw notFound();
    return {
      result: described(client),
      text: 'only the newest secret is good',
      audited: { clientId: client.clientId },
    };
  },
  async delete(registry, { name }) {
    if (!(await registry.remove(name))) throw notFound();
    return { result: { deleted: name }, text: `deleted ${name}` };
  },
  async list(registry) {
    const clients = (await registry.list()).map(described);
    const lines = clients.map(({ name, client_id, secrets, created_at, rotated_at, rights, audience }) =>
      [
        name,
        client_id,
        secrets === 1 ? '1 secret' : '2 secrets',
        created_at,
        rotated_at ?? 'never rotated',
        rights.join(','),
        ...(audience === null ? [] : [`audience ${audience}`]),
      ].join('\t'),
    );
    return { result: { clients }, text: lines.length === 0 ? 'there are no clients' : lines.join('\n') };
  },
};

function orTold(error: unknown): never {
  if (!(error instanceof TwoSecretsError)) throw error;
  throw new CommandError(
    'two secrets are good already: --finish ends the older one; --again replaces the newer one, if it was lost',
  );
}

function notFound(): CommandError {
  return new CommandError('no client has this name');
}

function shown(name: string, { clientId, secret }: Credentials): Outcome {
  return {
    result: { name, client_id: clientId, client_secret: secret },
    audited: { clientId },
    text: `client_id      ${clientId}\nclient_secret  ${secret}\nThe secret will not be shown again.`,
  };
}

function described({ name, clientId, previousHash, createdAt, rotatedAt, rights, audience }: ServiceClient) {
  return {
    name,
    client_id: clientId,
    secrets: previousHash === null ? 1 : 2,
    created_at: new Date(createdAt).toISOString(),
    rotated_at: rotatedAt === null ? null : new Date(rotatedAt).toISOString(),
    rights,
    audience,
  };
}
