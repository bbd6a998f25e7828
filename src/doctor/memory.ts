import { memoryOf, type Config } from '../config/config.ts';
import { ok, warn, type Finding } from './finding.ts';

/** Above this share of the limit, too little is left for requests and connections. */
const FULL = 0.85;

/** Warns of too little headroom. Above the limit itself, the configuration check fails. @param limit bytes. */
export function checkMemory(config: Config, limit: number): Finding {
  const { one, needed } = memoryOf(config);
  const found =
    `${config.HASH_CONCURRENCY} hashes at once of ${mib(one)} each and the process need ${mib(needed)} ` +
    `of ${mib(limit)}`;
  if (needed <= FULL * limit) return ok('memory', found);
  return warn('memory', found, 'raise the memory limit, or lower HASH_CONCURRENCY');
}

function mib(bytes: number): string {
  return `${Math.round(bytes / 1024 ** 2)} MiB`;
}
