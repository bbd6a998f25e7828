import { randomBytes } from 'node:crypto';
import { makeClientRegistry, type ClientRegistry, type Credentials } from '../domain/clients/registry.ts';
import { parseClientName, TwoSecretsError, type ServiceClient } from '../domain/clients/service-client.ts';
import { makeClientStore } from '../infra/postgres/client-store.ts';
import { makePostgres } from '../infra/postgres/client.ts';
import { UsageError, type Values } from './arguments.ts';
import { CommandError, databaseOf, type Command, type Outcome } from './command.ts';

export interface ClientCommand {
  action: 'create' | 'list' | 'rotate' | 'again' | 'finish' | 'delete';
  /** Empty for `list`. */
  name: string;
}

/** `latchkey client …`. Replicas know of it within seconds; of what was created or rotated at once. */
export const run: Command = async ({ env, words, values }) => {
  const command = parseClientCommand(words, values);
  if (typeof command === 'string') throw new UsageError(command);
  const postgres = makePostgres({ ...databaseOf(env), pool: 1 });
  try {
    const clock = { now: () => Date.now() };
    const registry = makeClientRegistry({ store: makeClientStore(postgres.prisma), randomBytes, clock });
    return await ACTIONS[command.action](registry, command.name);
  } finally {
    await postgres.close();
  }
};

/**
 * Reads `create NAME`, `list`, `rotate NAME`, `rotate NAME --again`, `rotate NAME --finish` and `delete NAME`.
 * @returns what is wrong, in words, where it is none of these.
 */
export function parseClientCommand(
  words: readonly string[],
  { again, finish }: Pick<Values, 'again' | 'finish'>,
): ClientCommand | string {
  const [action = '', rawName, ...rest] = words;
  if ((again || finish) && action !== 'rotate') return '--again and --finish belong to client rotate';
  if (again && finish) return 'rotate --again or rotate --finish';
  if (action === 'list' && rawName === undefined) return { action, name: '' };
  if ((action !== 'create' && action !== 'rotate' && action !== 'delete') || rest.length > 0)
    return 'client needs create, list, rotate or delete, and a name';
  const name = parseClientName(rawName ?? '');
  if (name === null) return 'a client has a name of 1 to 64 printable characters';
  return { action: finish ? 'finish' : again ? 'again' : action, name };
}

const ACTIONS: Record<ClientCommand['action'], (registry: ClientRegistry, name: string) => Promise<Outcome>> =
  {
    async create(registry, name) {
      const created = await registry.create(name);
      if (!created) throw new CommandError('there is a client of this name already');
      return shown(name, created);
    },
    async rotate(registry, name) {
      const rotated = await registry.rotate(name).catch(orTold);
      if (!rotated) throw notFound();
      return shown(name, rotated);
    },
    async again(registry, name) {
      const rotated = await registry.rotate(name, true);
      if (!rotated) throw notFound();
      return shown(name, rotated);
    },
    async finish(registry, name) {
      const client = await registry.finishRotation(name);
      if (!client) throw notFound();
      return { result: described(client), text: 'only the newest secret is good' };
    },
    async delete(registry, name) {
      if (!(await registry.remove(name))) throw notFound();
      return { result: { deleted: name }, text: `deleted ${name}` };
    },
    async list(registry) {
      const clients = (await registry.list()).map(described);
      const lines = clients.map(({ name, client_id, secrets, created_at, rotated_at }) =>
        [
          name,
          client_id,
          secrets === 1 ? '1 secret' : '2 secrets',
          created_at,
          rotated_at ?? 'never rotated',
        ].join('\t'),
      );
      return { result: { clients }, text: lines.length === 0 ? 'there are no clients' : lines.join('\n') };
    },
  };

function orTold(error: unknown): never {
  if (!(error instanceof TwoSecretsError)) throw error;
  throw new CommandError(
    'two secrets are good already: --finish ends the older one; --again replaces the newer one, if that was lost',
  );
}

function notFound(): CommandError {
  return new CommandError('there is no such client');
}

function shown(name: string, { clientId, secret }: Credentials): Outcome {
  return {
    result: { name, client_id: clientId, client_secret: secret },
    text: `client_id      ${clientId}\nclient_secret  ${secret}\nThe secret is shown this once.`,
  };
}

function described({ name, clientId, previousHash, createdAt, rotatedAt }: ServiceClient) {
  return {
    name,
    client_id: clientId,
    secrets: previousHash === null ? 1 : 2,
    created_at: new Date(createdAt).toISOString(),
    rotated_at: rotatedAt === null ? null : new Date(rotatedAt).toISOString(),
  };
}
