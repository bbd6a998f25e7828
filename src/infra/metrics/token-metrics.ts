import type { AuditEvent } from '../../domain/audit/event.ts';
import { TOKEN_REFUSALS } from '../../domain/refusal-reasons.ts';
import type { Observe } from '../../telemetry/observe.ts';
import {
  ASSERTION_OUTCOMES,
  EXCHANGE_OUTCOMES,
  INTROSPECTION_OUTCOMES,
  LOGIN_OUTCOMES,
  READ_THROUGH_OUTCOMES,
  REFRESH_OUTCOMES,
  REVOCATION_CAUSES,
  SECOND_STEP_OUTCOMES,
  SERVICE_OUTCOMES,
  SERVICE_TOKEN_OUTCOMES,
  SIGNUP_REFUSALS,
  VERIFY_OUTCOMES,
} from '../../domain/metrics/outcomes.ts';
import type { Counter } from './instruments.ts';
import { seriesOf, type Registry } from './registry.ts';

export function makeTokenMetrics(registry: Registry) {
  const count = <Value extends string>(name: string, help: string, label: string, values: readonly Value[]) =>
    seriesOf(registry.counters(name, help), label, values);

  const refreshes = count(
    'latchkey_refreshes_total',
    'Refresh tokens presented, by the row of the rotation table',
    'outcome',
    REFRESH_OUTCOMES,
  );
  const verifications = registry.counters(
    'latchkey_verifications_total',
    'Tokens checked: of users against the session store, of services against the registered clients',
  );
  const verified = {
    access: seriesOf(verifications, 'outcome', VERIFY_OUTCOMES, { type: 'access' }),
    llt: seriesOf(verifications, 'outcome', VERIFY_OUTCOMES, { type: 'llt' }),
    limited: seriesOf(verifications, 'outcome', VERIFY_OUTCOMES, { type: 'limited' }),
    exchanged: seriesOf(verifications, 'outcome', VERIFY_OUTCOMES, { type: 'exchanged' }),
  };
  const ofServices = seriesOf(verifications, 'outcome', SERVICE_OUTCOMES, { type: 'service' });
  const introspections = count(
    'latchkey_introspections_total',
    'Tokens that a registered service asked about',
    'outcome',
    INTROSPECTION_OUTCOMES,
  );
  const exchanges = count(
    'latchkey_exchanges_total',
    'Tokens for one audience, asked for in exchange for an access token',
    'outcome',
    EXCHANGE_OUTCOMES,
  );
  const serviceTokens = count(
    'latchkey_service_tokens_total',
    'Tokens that services asked for in their own name',
    'outcome',
    SERVICE_TOKEN_OUTCOMES,
  );
  const assertions = count(
    'latchkey_client_assertions_total',
    'Assertions that clients presented instead of a secret',
    'outcome',
    ASSERTION_OUTCOMES,
  );
  const refused = count(
    'latchkey_tokens_refused_total',
    'Tokens refused before the session store was asked',
    'reason',
    TOKEN_REFUSALS,
  );
  const signatureChecks = registry
    .counters('latchkey_signature_checks_total', 'Signatures checked of tokens that were not remembered')
    .with({});
  const readThroughs = count(
    'latchkey_read_throughs_total',
    'Keys that Redis did not have',
    'outcome',
    READ_THROUGH_OUTCOMES,
  );
  const signUps = count('latchkey_signups_total', 'Signups by outcome', 'outcome', [
    'success',
    ...SIGNUP_REFUSALS,
  ]);
  const secondSteps = count(
    'latchkey_second_steps_total',
    'Second steps of logins by outcome',
    'outcome',
    SECOND_STEP_OUTCOMES,
  );
  const audited = makeAudited(registry, signUps.success, secondSteps);

  return {
    audited,
    signUpRefused: (reason) => {
      signUps[reason].inc();
    },
    passkeyRefused: () => {
      secondSteps.passkey_refused.inc();
    },
    refresh: (outcome) => {
      refreshes[outcome].inc();
    },
    verification: (type, outcome) => {
      verified[type][outcome].inc();
    },
    introspection: (outcome) => {
      introspections[outcome].inc();
    },
    exchange: (outcome) => {
      exchanges[outcome].inc();
    },
    serviceVerification: (outcome) => {
      ofServices[outcome].inc();
    },
    serviceToken: (outcome) => {
      serviceTokens[outcome].inc();
    },
    assertion: (outcome) => {
      assertions[outcome].inc();
    },
    tokenRefused: (reason) => {
      refused[reason].inc();
    },
    signatureChecked: () => {
      signatureChecks.inc();
    },
    readThrough: (outcome) => {
      readThroughs[outcome].inc();
    },
  } satisfies Partial<Observe>;
}

/** Metrics that follow from audit events alone. */
function makeAudited(
  registry: Registry,
  signedUp: Counter,
  secondSteps: Record<(typeof SECOND_STEP_OUTCOMES)[number], Counter>,
): (event: AuditEvent) => void {
  const logIns = seriesOf(
    registry.counters('latchkey_logins_total', 'Logins by outcome'),
    'outcome',
    LOGIN_OUTCOMES,
  );
  const created = seriesOf(
    registry.counters('latchkey_tokens_created_total', 'Sessions, LLTs and limited tokens created'),
    'type',
    ['session', 'llt', 'limited'] as const,
  );
  const revoked = seriesOf(
    registry.counters('latchkey_tokens_revoked_total', 'Sessions, LLTs and limited tokens ended'),
    'cause',
    REVOCATION_CAUSES,
  );
  const counters: Partial<Record<AuditEvent['event'], readonly Counter[]>> = {
    'user.signed_up': [signedUp, created.session],
    'session.created': [logIns.success, created.session],
    'login.factor_asked': [secondSteps.asked],
    'factor.refused': [secondSteps.wrong],
    'llt.created': [created.llt],
    'limited.created': [created.limited],
    'session.replaced': [revoked.replaced],
    'session.reuse_detected': [revoked.reuse],
    'token.revoked': [revoked.owner],
    'token.revoked_by_client': [revoked.client],
  };
  return (event) => {
    if (event.event === 'user.logged_out') revoked.everywhere.inc(event.tokenIds.length);
    if (event.event === 'password.changed' || event.event === 'password.reset')
      revoked.password.inc(event.tokenIds.length);
    if (event.event === 'llt.ended_for_reuse') revoked.reuse_llt.inc(event.tokenIds.length);
    if (event.event === 'session.created' && event.method) secondSteps[event.method].inc();
    if (event.event === 'login.failed') logIns[event.reason].inc();
    for (const counter of counters[event.event] ?? []) counter.inc();
  };
}
