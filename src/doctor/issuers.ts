import type { Config } from '../config/config.ts';
import { fetchJwks, type IssuerError } from '../infra/issuers/fetch-jwks.ts';
import { usableKeys } from '../infra/issuers/jwks.ts';
import { makeServiceStore } from '../infra/postgres/service-store.ts';
import { makePostgres } from '../infra/postgres/client.ts';
import { fail, ok, warn, type Finding } from './finding.ts';

const FROM_HERE = 'fetched from where doctor runs: a replica elsewhere may see another network';

/** Fetches the keys of each issuer that clients trust, except those whose keys an operator gave in a file. */
export async function checkIssuers(config: Config): Promise<Finding[]> {
  const { DATABASE_URL: url, DATABASE_CA: ca, DATABASE_TIMEOUT: timeout } = config;
  if (url === undefined) return [];
  const postgres = makePostgres({ url, ca, pool: 1, timeout, observe: null });
  try {
    const issuers = await makeServiceStore(postgres.prisma).issuers();
    const fetched = [...issuers].filter(([, jwks]) => jwks === null).map(([issuer]) => issuer);
    return await Promise.all(fetched.sort().map(checkIssuer));
  } finally {
    await postgres.close();
  }
}

async function checkIssuer(issuer: string): Promise<Finding> {
  const check = `issuer ${issuer}`;
  try {
    const count = usableKeys(await fetchJwks(issuer, { fetch })).length;
    const found = `reachable, usable keys: ${count}; ${FROM_HERE}`;
    if (count > 0) return ok(check, found);
    return fail(
      check,
      found,
      'check the issuer, or give its keys with `latchkey client trust … --jwks FILE`',
    );
  } catch (error) {
    const { code, message, todo } = error as IssuerError;
    // An issuer that no network leads to is wrong everywhere.
    if (code === 'url') return fail(check, message, todo);
    return warn(check, `no keys: ${message} (${code}); ${FROM_HERE}`, todo);
  }
}
