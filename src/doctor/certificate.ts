import { fail, ok, warn, type Finding } from './finding.ts';

const DAY = 86_400_000;
/** Days before the end from which to renew it. The alert LatchkeyCertificateExpires has the same. */
const AHEAD = 30;

/** @param end when it expires, and now: ms since 1970. Null without TLS. */
export function judgeCertificate(whose: string, end: number | null, now: number): Finding[] {
  if (end === null) return [];
  const check = `certificate of ${whose}`;
  const date = new Date(end).toISOString().slice(0, 10);
  const todo = `renew it; after that day, replicas cannot connect to ${whose}`;
  if (end < now) return [fail(check, `expired on ${date}`, todo)];
  if (end < now + AHEAD * DAY) return [warn(check, `expires on ${date}`, todo)];
  return [ok(check, `expires on ${date}`)];
}
