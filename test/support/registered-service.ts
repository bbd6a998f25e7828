import { randomBytes } from 'node:crypto';
import type { LightMyRequestResponse } from 'fastify';
import type { Right } from '../../src/domain/rights.ts';
import { makeServiceRegistry } from '../../src/domain/services/registry.ts';
import { makeServiceStore } from '../../src/infra/postgres/service-store.ts';
import { makePostgres } from '../../src/infra/postgres/client.ts';
import { call, type Target } from './client.ts';

export interface TestService {
  serviceId: string;
  secret: string;
}

/** Does the work of `latchkey client` without a process per call. */
export async function withRegistry<Result>(
  databaseUrl: string,
  work: (registry: ReturnType<typeof makeServiceRegistry>) => Promise<Result>,
): Promise<Result> {
  const postgres = makePostgres({ url: databaseUrl, pool: 1, timeout: 5000, observe: null });
  try {
    const store = makeServiceStore(postgres.prisma);
    return await work(makeServiceRegistry({ store, randomBytes, clock: { now: () => Date.now() } }));
  } finally {
    await postgres.close();
  }
}

/** Registers a service. */
export async function aRegisteredService(
  databaseUrl: string,
  name = 'billing',
  rights?: readonly Right[],
  audience?: string,
  roles?: readonly string[],
): Promise<TestService> {
  const created = await withRegistry(databaseUrl, (registry) =>
    registry.create(name, rights, audience, roles),
  );
  if (!created) throw new Error(`the client ${name} already exists`);
  return created;
}

export function basic({ serviceId, secret }: TestService): { authorization: string } {
  return { authorization: `Basic ${Buffer.from(`${serviceId}:${secret}`).toString('base64')}` };
}

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };

/** @param form the parameters, or the raw body. */
export function postForm(
  target: Target,
  path: string,
  client: TestService | null,
  form: Record<string, string> | string | Buffer,
  headers: Record<string, string> = {},
): Promise<LightMyRequestResponse> {
  const payload =
    typeof form === 'string' || Buffer.isBuffer(form) ? form : new URLSearchParams(form).toString();
  return call(target, `POST ${path}`, {
    headers: { ...FORM, ...(client && basic(client)), ...headers },
    payload,
  });
}

export function introspect(target: Target, client: TestService | null, token: string) {
  return postForm(target, '/api/auth/introspect', client, { token });
}

export function revoke(target: Target, client: TestService | null, token: string) {
  return postForm(target, '/api/auth/revoke', client, { token });
}
