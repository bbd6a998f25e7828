import { codeOf, type Insist } from './browser.ts';
import type { RevokedWatch } from './revoked-watch.ts';
import type { Tally } from './tally.ts';

interface LongLived {
  id: number;
  longlived_token: string;
}

interface Parts {
  insist: Insist;
  watch: RevokedWatch;
  tally: Tally;
  device: string;
}

/** Concurrent tokens. */
const MAX = 3;

/** Uses the long-lived tokens of one browser's user: creates, uses and deletes them. */
export function makeLongLivedUse({ insist, watch, tally, device }: Parts) {
  const tokens: LongLived[] = [];

  function drop(token: LongLived): void {
    tokens.splice(tokens.indexOf(token), 1);
  }

  return {
    /** @returns whether the access token was good enough. */
    async create(accessToken: string): Promise<boolean> {
      if (tokens.length >= MAX) return true;
      const answer = await insist(() => ({
        method: 'POST',
        path: '/api/auth/llt',
        token: accessToken,
        body: { device },
      }));
      if (answer?.status === 200) tokens.push(answer.body as LongLived);
      return answer?.status !== 401;
    },

    async use(): Promise<void> {
      const [token] = tokens;
      if (!token) return;
      const answer = await insist(() => ({
        method: 'GET',
        path: '/api/auth/verify',
        token: token.longlived_token,
      }));
      // Another tab may have deleted it meanwhile.
      if (!answer || answer.status === 200 || !tokens.includes(token)) return;
      tally.signOuts++;
      tally.problems.push(`a long-lived token was answered ${answer.status} ${codeOf(answer)}`);
      drop(token);
    },

    async remove(): Promise<void> {
      const [token] = tokens;
      if (!token) return;
      drop(token);
      const answer = await insist(() => ({
        method: 'DELETE',
        path: `/api/auth/llt/${token.id}`,
        token: token.longlived_token,
      }));
      if (answer?.status === 200) watch.add(token.longlived_token);
      else if (answer)
        tally.problems.push(`the deletion of a long-lived token was answered ${answer.status}`);
    },
  };
}
