import type { FastifyRequest } from 'fastify';
import type { Clock } from '../../domain/clock.ts';
import type { ErrorCode } from '../../domain/errors.ts';
import { addressOf, isHiddenByRelay, isPrivate } from './address.ts';
import { warnOfHidden } from './warn-of-hidden.ts';

const UNLISTED = 'A relay forwarded this request, but TRUST_PROXY does not list that relay:';
/** Also true of a relay that is listed: `Forwarded` never counts. */
const WITHOUT_HEADER = 'A relay forwarded this request without X-Forwarded-For:';

/** What a relay changes about a refusal. */
const EFFECTS: Partial<Record<ErrorCode, string>> = {
  rate_limited: 'all its users count as one.',
  refresh_overlap: 'a retry does not get the same pair again.',
};

/** What a refusal adds to its detail if a relay is a cause of it; null if none is. */
export function relayHint(code: ErrorCode, request: FastifyRequest): string | null {
  const effect = EFFECTS[code];
  // A lane is of one account, from wherever it is asked.
  if (effect === undefined || request.refusalReason === 'lane' || !isHiddenByRelay(request)) return null;
  const cause = request.headers['x-forwarded-for'] === undefined ? WITHOUT_HEADER : UNLISTED;
  return `${cause} ${effect}`;
}

/** Milliseconds after which the log names a relay again. */
const QUIET = 3_600_000;
/** Any peer can send the header, so the relays that are remembered have a limit. */
const MAX_PEERS = 64;

/** Names each relay in the log once an hour. A public address may be a client's own, so the log says only that much. */
export function makeRelayWarning(clock: Pick<Clock, 'monotonic'>) {
  const warned = new Set<string>();
  let since = clock.monotonic();
  return function warnOfRelay(request: FastifyRequest): void {
    if (clock.monotonic() - since >= QUIET) {
      warned.clear();
      since = clock.monotonic();
    }
    const address = addressOf(request);
    const peer = address && isPrivate(address) ? address.text : 'a public address';
    if (warned.has(peer) || warned.size >= MAX_PEERS) return;
    warned.add(peer);
    warnOfHidden(request, 'relay', { peer });
  };
}

export type WarnOfRelay = ReturnType<typeof makeRelayWarning>;
