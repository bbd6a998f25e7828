import { anAccount, type Pair } from '../../support/client.ts';
import type { Call } from '../../../packages/load/src/exchange.ts';
import type { Answer, Backend, Balancer } from './balancer.ts';
import type { RevokedWatch } from './revoked-watch.ts';

/**
 * One pass through all six operations, and verify, on one replica.
 * @returns the first failure; null if there is none. There are no retries.
 */
export async function sixOperations(
  balancer: Balancer,
  backend: Backend,
  watch: RevokedWatch,
): Promise<string | null> {
  const account = anAccount();
  const { username, password } = account;
  const failed: string[] = [];
  const ask = async <Body>(call: Call): Promise<Body | null> => {
    if (failed.length > 0) return null;
    const answer: Answer = await balancer.sendTo(backend, call);
    const { code = 'no problem' } = Object(answer.body) as { code?: string };
    if (answer.status !== 200) failed.push(`${call.method} ${call.path}: ${answer.status} ${code}`);
    return answer.body as Body;
  };

  await ask({ method: 'POST', path: '/api/auth/signup', body: account });
  const first = await ask<Pair>({ method: 'POST', path: '/api/auth', body: { username, password } });
  const second = await ask<Pair>({
    method: 'GET',
    path: '/api/auth/refresh',
    token: first?.refresh_token ?? '',
  });
  const token = second?.access_token ?? '';
  await ask({ method: 'GET', path: '/api/auth/verify', token });
  const longLived = await ask<{ id: number; longlived_token: string }>({
    method: 'POST',
    path: '/api/auth/llt',
    token,
    body: { device: 'pass' },
  });
  await ask({ method: 'DELETE', path: `/api/auth/llt/${longLived?.id ?? 0}`, token });
  await ask({ method: 'DELETE', path: '/api/auth', token });
  if (failed.length === 0) watch.add(token, second?.refresh_token ?? '', longLived?.longlived_token ?? '');
  return failed[0] ?? null;
}
