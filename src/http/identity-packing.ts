import { ACRS, type ServiceBearer } from '../domain/principal.ts';
import type { PresentedIdentity, PresentedType } from '../domain/tokens/claims.ts';
import type { Packing } from './verified-credentials.ts';

/** What a verified token of a user says. */
export type Identity<Type extends PresentedType = PresentedType> = PresentedIdentity & {
  type: Type;
  /** Of an exchanged token: `aud`. Of a limited one: the audience before LIMITED. */
  audience?: string;
  /** Of an exchanged token: `act.sub`. */
  actor?: string;
  /** Of a limited token. */
  scopes?: readonly string[];
};

/** Their place is the number that stands for them. */
const TYPES = ['access', 'llt', 'exchanged', 'service'] as const;
const PROOFS = [null, ...ACRS] as const;

/** Names that are kept once for all tokens. They are those of services, of which there are fewer. */
const MAX_NAMES = 2 ** 12;

/** Bytes of an identity as an object, without its texts, and of each text without its characters. */
const OBJECT_BYTES = 300;
const TEXT_BYTES = 40;

/**
 * Writes an identity as numbers. Scopes cannot be written so: a user chooses them freely. Limited tokens are kept as
 * objects therefore, and so are those whose services have too many names.
 */
export function makeIdentityPacking(): Packing<Identity | ServiceBearer> {
  const names: string[] = [];
  const places = new Map<string, number>();

  function placeOf(name: string): number {
    const known = places.get(name);
    if (known !== undefined || names.length === MAX_NAMES) return known ?? NaN;
    places.set(name, names.length);
    return names.push(name) - 1;
  }

  function namesOf(first = '', second = ''): number {
    return placeOf(first) * MAX_NAMES + placeOf(second);
  }

  return {
    pack(identity, into, at) {
      const { type } = identity;
      if (type === 'limited' || type === 'refresh') return false;
      into[at] = TYPES.indexOf(type);
      into[at + 1] = identity.expiresAt ?? NaN;
      if (type === 'service') {
        into[at + 2] = identity.version;
        into[at + 6] = namesOf(identity.audience, identity.serviceId);
      } else {
        into[at] += TYPES.length * PROOFS.indexOf(identity.acr);
        into[at + 2] = identity.userId;
        into[at + 3] = identity.tokenId;
        into[at + 4] = identity.generation;
        into[at + 5] = identity.authTime ?? NaN;
        into[at + 6] = namesOf(identity.audience, identity.actor);
      }
      return !Number.isNaN(into[at + 6]);
    },
    unpack(from, at) {
      const number = (i: number) => from[at + i] ?? NaN;
      const first = names[Math.floor(number(6) / MAX_NAMES)] ?? '';
      const second = names[number(6) % MAX_NAMES] ?? '';
      const type = TYPES[number(0) % TYPES.length] ?? 'access';
      const expiresAt = orNull(number(1));
      if (type === 'service')
        return { type, serviceId: second, version: number(2), audience: first, expiresAt: expiresAt ?? 0 };
      return {
        userId: number(2),
        tokenId: number(3),
        generation: number(4),
        expiresAt,
        acr: PROOFS[Math.floor(number(0) / TYPES.length)] ?? null,
        authTime: orNull(number(5)),
        type,
        ...(type === 'exchanged' && { audience: first, actor: second }),
      };
    },
    sizeOf(identity) {
      const { type, audience = '' } = identity;
      const texts =
        type === 'service'
          ? [audience, identity.serviceId]
          : [audience, identity.actor ?? '', ...(identity.scopes ?? [])];
      return texts.reduce((sum, text) => sum + TEXT_BYTES + 2 * text.length, OBJECT_BYTES);
    },
  };
}

function orNull(value: number): number | null {
  return Number.isNaN(value) ? null : value;
}
