import type { PrismaClient } from '../generated/prisma/client.ts';
import { fillSkeletons } from '../infra/postgres/name-skeletons.ts';
import type { Outcome } from './command.ts';

/**
 * `latchkey user skeletons`: gives skeletons to the accounts of earlier releases. If accounts look alike, the operator
 * has to judge them; this is not a failure.
 * @throws AuthError `unavailable`
 */
export async function giveSkeletons(prisma: PrismaClient): Promise<Outcome> {
  const { filled, colliding } = await fillSkeletons(prisma);
  const others =
    colliding.length === 0
      ? 'no username looks like one of an older account'
      : `${colliding.length} look like an older account and got none: ids ${colliding.join(', ')}`;
  return {
    result: { filled, colliding },
    text: `${filled} accounts got a skeleton; ${others}`,
    audited: { filled, colliding: colliding.length },
  };
}
