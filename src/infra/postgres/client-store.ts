import type { ClientStore } from '../../domain/clients/ports.ts';
import { RIGHTS } from '../../domain/rights.ts';
import { TwoSecretsError, type ServiceClient } from '../../domain/clients/service-client.ts';
import type { PrismaClient, ServiceClient as Row } from '../../generated/prisma/client.ts';
import { mapDatabaseErrors } from './errors.ts';

/** The registered services in PostgreSQL. */
export function makeClientStore(prisma: PrismaClient): ClientStore {
  return {
    list: () =>
      mapDatabaseErrors(async () =>
        (await prisma.serviceClient.findMany({ orderBy: { name: 'asc' } })).map(toServiceClient),
      ),

    add: ({ clientId, name, secretHash, createdAt, rights, audience }) =>
      mapDatabaseErrors(async () => {
        const data = {
          clientId,
          name,
          secretHash: new Uint8Array(secretHash),
          createdAt: new Date(createdAt),
          rights: [...rights],
          audience,
        };
        return (await prisma.serviceClient.createMany({ data, skipDuplicates: true })).count === 1;
      }),

    // One statement, so that two rotations at once do not lose a secret.
    rotate: (name, secretHash, { at, again }) =>
      mapDatabaseErrors(async () => {
        const [row] = await prisma.$queryRaw<Row[]>`
          UPDATE service_clients SET previous_hash = coalesce(previous_hash, secret_hash),
            secret_hash = ${new Uint8Array(secretHash)}, rotated_at = ${new Date(at)}
          WHERE name = ${name} AND (${again} OR previous_hash IS NULL)
          RETURNING client_id AS "clientId", name, secret_hash AS "secretHash", previous_hash AS "previousHash",
            created_at AS "createdAt", rotated_at AS "rotatedAt", rights, audience`;
        if (row) return toServiceClient(row);
        if ((await prisma.serviceClient.count({ where: { name } })) > 0) throw new TwoSecretsError();
        return null;
      }),

    finishRotation: (name) =>
      mapDatabaseErrors(async () => {
        const data = { previousHash: null };
        const [row] = await prisma.serviceClient.updateManyAndReturn({ where: { name }, data });
        return row ? toServiceClient(row) : null;
      }),

    allow: (name, rights) =>
      mapDatabaseErrors(async () => {
        const data = { rights: [...rights] };
        const [row] = await prisma.serviceClient.updateManyAndReturn({ where: { name }, data });
        return row ? toServiceClient(row) : null;
      }),

    remove: (name) =>
      mapDatabaseErrors(async () => (await prisma.serviceClient.deleteMany({ where: { name } })).count === 1),
  };
}

function toServiceClient(row: Row): ServiceClient {
  return {
    clientId: row.clientId,
    name: row.name,
    secretHash: row.secretHash,
    previousHash: row.previousHash,
    createdAt: row.createdAt.getTime(),
    rotatedAt: row.rotatedAt?.getTime() ?? null,
    rights: RIGHTS.filter((right) => row.rights.includes(right)),
    audience: row.audience,
  };
}
