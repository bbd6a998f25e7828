import type { Observe } from '../../src/telemetry/observe.ts';

const nothing = (): void => undefined;

/** For tests that do not check metrics. */
export const UNOBSERVED: Observe = {
  audited: nothing,
  signUpRefused: nothing,
  passkeyRefused: nothing,
  refresh: nothing,
  verification: nothing,
  introspection: nothing,
  exchange: nothing,
  serviceVerification: nothing,
  serviceToken: nothing,
  assertion: nothing,
  tokenRefused: nothing,
  signatureChecked: nothing,
  readThrough: nothing,
  hashBegan: nothing,
  hashEnded: nothing,
  hashRejected: nothing,
  queueDropped: nothing,
  mail: nothing,
  feedPublished: nothing,
  feedSnapshot: nothing,
  feedEnded: nothing,
  requestBegan: nothing,
  requestEnded: nothing,
  error: nothing,
  late: nothing,
  redisAnswered: nothing,
  redisFailed: nothing,
  statementAnswered: nothing,
  connectionAcquired: nothing,
  postgresFailed: nothing,
  taskEnded: nothing,
  auditLost: nothing,
};
