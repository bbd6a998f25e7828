import { canonicalAddress } from '../../domain/address.ts';
import { skeletonOf } from '../../domain/users/confusables.ts';
import type { NewNames } from '../../domain/users/new-names.ts';
import { parseExternalId } from '../../domain/identifiers.ts';
import { parseRoles } from '../../domain/roles.ts';
import { toBase32 } from '../../domain/factors/totp.ts';
import { makeReadTotpSecret } from '../../infra/crypto/factor-keys.ts';
import { makeReadHash } from '../../infra/crypto/new-stored-hash.ts';
import { accountSettings } from '../account-settings.ts';
import { UsageError } from '../arguments.ts';
import type { Command } from '../command.ts';
import type { FileHandle } from 'node:fs/promises';
import { withFile } from '../input-file.ts';
import { writeLines } from '../output-file.ts';
import { auth0 } from './auth0.ts';
import { django } from './django.ts';
import { isObject, listIn, openList } from './export-file.ts';
import { firebase } from './firebase.ts';
import { keycloak } from './keycloak.ts';
import { makeReport, type Report } from './report.ts';
import { supabase } from './supabase.ts';
import type { SourceAccount, System } from './system.ts';
import { wordpress } from './wordpress.ts';

export const SYSTEMS: Readonly<Record<string, System>> = {
  keycloak,
  auth0,
  firebase,
  django,
  wordpress,
  supabase,
};

/** `latchkey user convert --from SYSTEM IN [OUT]`: another system's export as what `user import` reads. */
export const convertUsers: Command = async ({ env, words: [input = '', output], values, stopped }) => {
  const { from, with: withPath, 'drop-factors': dropsFactors } = values;
  const system = systemOf(from, withPath);
  const { newNames, cost } = accountSettings(env);
  // HASH_MEMORY is the import's to compare: more of it lets these hashes in.
  const readHash = makeReadHash(cost, Infinity);
  const report = makeReport();
  const { factorList } = system;
  const toLine = makeToLine({ newNames, readHash, now: Date.now(), dropsFactors, factorList, report });

  async function* lines(file: FileHandle, withFile: FileHandle | undefined): AsyncGenerator<string> {
    const list = await openList(file, input, system, guess);
    const read = await system.open(withFile, list);
    for await (const { object, place, problem } of list.accounts()) {
      report.at(place);
      if (!object) {
        report.leftOut(problem);
        continue;
      }
      const account = read(object);
      const line = 'leftOut' in account ? report.leftOut(account.leftOut) : toLine(account);
      if (line) yield `${JSON.stringify(line)}\n`;
    }
  }

  const convert = (file: FileHandle, hashes?: FileHandle) => writeLines(lines(file, hashes), output, stopped);
  await withFile(input, (file) =>
    withPath === undefined ? convert(file) : withFile(withPath, (hashes) => convert(file, hashes)),
  );
  return {
    result: report.result(),
    text: report.text(),
    hasOutput: output === undefined,
    isWell: report.isWell(),
  };
};

/** @throws UsageError */
function systemOf(name: string | undefined, withPath: string | undefined): System {
  const system = name !== undefined && Object.hasOwn(SYSTEMS, name) ? SYSTEMS[name] : undefined;
  if (!system) throw new UsageError(`--from names the system: ${Object.keys(SYSTEMS).join(', ')}`);
  if (withPath !== undefined && !system.with) throw new UsageError(`--from ${name} takes no --with`);
  if (withPath === undefined && system.with?.isRequired)
    throw new UsageError(`--from ${name} needs --with FILE: ${system.with.what}`);
  return system;
}

/** The system whose export, or account, a value is. */
function guess(value: unknown): string | null {
  const found = Object.entries(SYSTEMS).find(([, system]) => {
    const [first = value] = listIn(value, system) ?? [];
    return isObject(first) && system.isAccount(first);
  });
  return found?.[0] ?? null;
}

const NO_ADDRESS = 'has no e-mail address';
const NO_FACTOR =
  'its second factor cannot come, so it would open by its password alone: --drop-factors takes it';
const ONE_FACTOR = 'has several second factors, of which only the first app that makes codes comes';
const DROPPED_FACTOR = 'its second factor stays behind, so it opens by its password alone';
const UNKNOWN_FACTOR =
  'the export does not say whether it has a second factor; if it had one, it opens by its password alone now';
/** Why the command does not succeed although it has written the account. */
const unknownFactor = (list: string) =>
  `${UNKNOWN_FACTOR}. See who has one before you import (${list}), or give --drop-factors`;

interface Conversion {
  newNames: NewNames;
  readHash: ReturnType<typeof makeReadHash>;
  /** Milliseconds since 1970. */
  now: number;
  dropsFactors: boolean;
  factorList: string | undefined;
  report: Report;
}

/** Reads a secret as the import will, which has the service's FACTOR_KEYS. */
const readTotpSecret = makeReadTotpSecret({ canSeal: true });

/** @returns what makes a line that the import takes, or null of an account that is left out. */
function makeToLine({ newNames, readHash, now, dropsFactors, factorList = '', report }: Conversion) {
  const [addresses, usernames, ids] = [new Set<string>(), new Set<string>(), new Set<string>()];

  return function toLine(account: SourceAccount): object | null {
    const { email: given } = account;
    if (!isText(given)) return report.leftOut(NO_ADDRESS);
    const email = newNames.email(given);
    if (!email.ok) return report.leftOut(`email ${email.message}`);
    const secret = secretOf(account);
    if (secret === 'other' && !dropsFactors) return report.leftOut(NO_FACTOR);
    if (!isFirst(addresses, canonicalAddress(email.value)))
      return report.leftOut('email is that of an earlier account');
    for (const note of account.notes ?? []) report.note(note);
    const hash = hashOf(account);
    if (secret === 'other') report.note(DROPPED_FACTOR);
    else if (secret !== null && account.factors && account.factors.length > 1) report.note(ONE_FACTOR);
    if (account.factors === undefined && hash !== null) {
      if (dropsFactors) report.note(UNKNOWN_FACTOR);
      else report.unknownFactor(unknownFactor(factorList));
    }
    return {
      ...optional('username', usernameOf(account)),
      ...optional('name', nameOf(account, email.value)),
      email: email.value,
      ...(account.emailVerified === true && { email_verified: true }),
      password_hash: hash,
      ...optional('external_id', idOf(account)),
      ...optional('created_at', timeOf(account)),
      ...optional('roles', rolesOf(account)),
      ...(account.disabled === true && { disabled: true }),
      ...optional('totp_secret', secret === 'other' ? null : secret),
    };
  };

  function usernameOf({ username: given }: SourceAccount): string | null {
    if (given === undefined || given === null || given === '') return null;
    const problem = (message: string) => {
      report.note(`its username is left out, so its user logs in by address: ${message}`);
      return null;
    };
    if (typeof given !== 'string') return problem('must be a string');
    const parsed = newNames.username(given);
    if (!parsed.ok) return problem(parsed.message);
    return isFirst(usernames, skeletonOf(parsed.value)) ? parsed.value : problem('looks like an earlier one');
  }

  /** An address is no name, because others see names. */
  function nameOf({ names }: SourceAccount, email: string): string | null {
    const read = names
      .filter(isText)
      .filter((name) => !holds(name, email))
      .map(newNames.name);
    const parsed = read.find(({ ok }) => ok) ?? read[0];
    if (parsed?.ok === false) report.note(`its name is left out: ${parsed.message}`);
    return parsed?.ok ? parsed.value : null;
  }

  function hashOf({ passwordHash: given, withoutPassword }: SourceAccount): string | null {
    if (withoutPassword !== undefined) return report.withoutPassword(withoutPassword);
    if (given === undefined || given === null || given === '') return null;
    const read = readHash(given);
    return read.ok ? (read.value.imported?.hash ?? null) : report.withoutPassword(`its hash ${read.message}`);
  }

  function idOf({ id }: SourceAccount): string | null {
    if (typeof id === 'number' && !Number.isSafeInteger(id)) {
      report.note('its id is left out: JSON rounds a number of this size, so write it as text');
      return null;
    }
    const parsed = parseExternalId(typeof id === 'number' ? String(id) : typeof id === 'string' ? id : '');
    const problem = parsed.ok
      ? isFirst(ids, parsed.value)
        ? null
        : 'is that of an earlier account'
      : parsed.message;
    if (problem !== null) report.note(`its id is left out: ${problem}`);
    return parsed.ok && problem === null ? parsed.value : null;
  }

  function timeOf({ createdAt: given }: SourceAccount): string | null {
    if (given === undefined || given === null) return null;
    const time = typeof given === 'number' ? given : typeof given === 'string' ? Date.parse(given) : NaN;
    if (time >= 0 && time <= now) return new Date(time).toISOString();
    report.note('its time of creation is left out: it is none from 1970 until now');
    return null;
  }

  function rolesOf({ roles = [] }: SourceAccount): string[] | null {
    const taken = [...new Set(roles)].filter((role): role is string => parseRoles([role]).ok);
    const parsed = parseRoles(taken);
    if (taken.length < roles.length || !parsed.ok)
      report.note('roles are left out that have other characters than a-z, 0-9, :, _ and -, or are too many');
    return parsed.ok && taken.length > 0 ? taken : null;
  }
}

/**
 * Of several factors, Latchkey takes the first app that it can.
 * @returns the secret in base32, null if the source names no factor, or 'other' if none can come.
 */
function secretOf({ factors = [] }: SourceAccount): string | null {
  if (factors.length === 0) return null;
  const secrets = factors.filter((factor) => factor !== 'other').map(toBase32);
  return secrets.find((secret) => readTotpSecret(secret).ok) ?? 'other';
}

function holds(name: string, email: string): boolean {
  return name.toLowerCase().includes(email.toLowerCase());
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.trim() !== '';
}

function optional(field: string, value: unknown): object {
  return value === null ? {} : { [field]: value };
}

/** Remembers what it has seen. */
function isFirst(seen: Set<string>, value: string): boolean {
  if (seen.has(value)) return false;
  seen.add(value);
  return true;
}
