import type { ServiceStore } from '../../domain/services/ports.ts';
import { rightsAmong } from '../../domain/rights.ts';
import type { PublicJwks } from '../../domain/services/assertion.ts';
import {
  MAX_TRUSTS,
  TrustRefusedError,
  TwoSecretsError,
  type RegisteredService,
} from '../../domain/services/registered-service.ts';
import type { Prisma, PrismaClient } from '../../generated/prisma/client.ts';
import { IS_STANDBY, mapDatabaseErrors, refuseStandby, readPrimary } from './errors.ts';

const include = { trusts: { select: { issuer: true, subject: true } } } as const;
type Row = Prisma.RegisteredServiceGetPayload<{ include: typeof include }>;

interface IssuerRow {
  isStandby: boolean;
  issuer: string | null;
  jwks: PublicJwks | null;
}

/** The registered services in PostgreSQL. */
export function makeServiceStore(prisma: PrismaClient): ServiceStore {
  /** @returns null if no service has this name and fits `where`. */
  const update = (
    name: string,
    data: Prisma.RegisteredServiceUpdateManyMutationInput,
    where: Prisma.RegisteredServiceWhereInput = {},
  ) =>
    mapDatabaseErrors(async () => {
      const [row] = await prisma.registeredService.updateManyAndReturn({ where: { ...where, name }, data });
      return row ? find(name) : null;
    });

  async function find(name: string): Promise<RegisteredService | null> {
    const row = await prisma.registeredService.findUnique({ where: { name }, include });
    return row && toService(row);
  }

  return {
    list: () =>
      mapDatabaseErrors(async () => {
        const read = prisma.registeredService.findMany({ orderBy: { name: 'asc' }, include });
        return (await readPrimary(prisma, read)).map(toService);
      }),

    add: ({ serviceId, name, secretHash, createdAt, rights, audience, roles }) =>
      mapDatabaseErrors(async () => {
        const data = {
          serviceId,
          name,
          secretHash: new Uint8Array(secretHash),
          createdAt: new Date(createdAt),
          rights: [...rights],
          audience,
          roles: [...roles],
        };
        return (await prisma.registeredService.createMany({ data, skipDuplicates: true })).count === 1;
      }),

    // One statement, so that two rotations at once do not lose a secret.
    rotate: (name, secretHash, { at, again }) =>
      mapDatabaseErrors(async () => {
        const rotated = await prisma.$executeRaw`
          UPDATE service_clients SET previous_hash = coalesce(previous_hash, secret_hash),
            secret_hash = ${new Uint8Array(secretHash)}, rotated_at = ${new Date(at)}
          WHERE name = ${name} AND (${again} OR previous_hash IS NULL)`;
        const service = await find(name);
        if (service && rotated === 0) throw new TwoSecretsError();
        return service;
      }),

    finishRotation: (name) => update(name, { previousHash: null }),
    allow: (name, rights) => update(name, { rights: [...rights] }),
    setRoles: (name, roles) => update(name, { roles: [...roles] }),
    endTokens: (name) => update(name, { version: { increment: 1 } }),
    async disable(name, at) {
      const data = { disabledAt: new Date(at), version: { increment: 1 } };
      return (await update(name, data, { disabledAt: null })) ?? mapDatabaseErrors(() => find(name));
    },
    enable: (name) => update(name, { disabledAt: null }),

    trust: (name, { issuer, subject }, jwks) =>
      mapDatabaseErrors(() =>
        prisma.$transaction(async (tx) => {
          const [service] = await tx.$queryRaw<{ id: string }[]>`
            SELECT client_id AS id FROM service_clients WHERE name = ${name} FOR UPDATE`;
          if (!service) return null;
          const others = await tx.serviceTrust.count({
            where: { serviceId: service.id, NOT: { issuer, subject } },
          });
          if (others >= MAX_TRUSTS) throw new TrustRefusedError('full');
          await tx.serviceTrust.createMany({
            data: { issuer, subject, serviceId: service.id },
            skipDuplicates: true,
          });
          const trust = await tx.serviceTrust.findUnique({ where: { issuer_subject: { issuer, subject } } });
          if (trust?.serviceId !== service.id) throw new TrustRefusedError('taken');
          if (jwks) {
            const keys = { jwks: jwks as unknown as Prisma.InputJsonObject };
            await tx.issuerKeys.upsert({ where: { issuer }, create: { issuer, ...keys }, update: keys });
          }
          return toService(await tx.registeredService.findUniqueOrThrow({ where: { name }, include }));
        }),
      ),

    untrust: (name, trust) =>
      mapDatabaseErrors(() =>
        prisma.$transaction(async (tx) => {
          await tx.serviceTrust.deleteMany({ where: { ...trust, service: { name } } });
          await dropUntrusted(tx);
          const row = await tx.registeredService.findUnique({ where: { name }, include });
          return row && toService(row);
        }),
      ),

    issuers: () =>
      mapDatabaseErrors(async () => {
        const rows = await prisma.$queryRaw<IssuerRow[]>`
          SELECT ${IS_STANDBY}, found.* FROM (SELECT) AS one LEFT JOIN (
            SELECT DISTINCT ON (issuer) issuer, jwks FROM client_trusts LEFT JOIN issuer_keys USING (issuer)
          ) AS found ON true`;
        const found = refuseStandby(rows);
        return new Map(found.flatMap(({ issuer, jwks }) => (issuer === null ? [] : [[issuer, jwks]])));
      }),

    remove: (name) =>
      mapDatabaseErrors(() =>
        prisma.$transaction(async (tx) => {
          const { count } = await tx.registeredService.deleteMany({ where: { name } });
          await dropUntrusted(tx);
          return count === 1;
        }),
      ),
  };
}

/** The keys of a file must not wait for the next service that trusts their issuer, perhaps by its discovery. */
async function dropUntrusted(tx: Prisma.TransactionClient): Promise<void> {
  await tx.$executeRaw`
    DELETE FROM issuer_keys AS keys
    WHERE NOT EXISTS (SELECT FROM client_trusts AS trusts WHERE trusts.issuer = keys.issuer)`;
}

function toService(row: Row): RegisteredService {
  return {
    serviceId: row.serviceId,
    name: row.name,
    secretHash: row.secretHash,
    previousHash: row.previousHash,
    createdAt: row.createdAt.getTime(),
    rotatedAt: row.rotatedAt?.getTime() ?? null,
    rights: rightsAmong(row.rights),
    audience: row.audience,
    roles: row.roles,
    version: row.version,
    disabledAt: row.disabledAt?.getTime() ?? null,
    trusts: row.trusts,
  };
}
