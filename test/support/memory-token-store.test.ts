import { longLivedTokensContract } from '../contract/long-lived-tokens.ts';
import { tokenStoreContract } from '../contract/token-store.ts';
import { makeMemoryTokenStore } from './memory-token-store.ts';
import { aUser } from './token.ts';

tokenStoreContract('memory', () => {
  const ada = aUser({ id: 1 });
  const bob = aUser({ id: 2, username: 'bob' });
  const tokens = makeMemoryTokenStore([ada, bob]);
  const disable = (user: { id: number }) => {
    tokens.disable(user.id);
    return Promise.resolve();
  };
  return Promise.resolve({ tokens, ada, bob, disable });
});

longLivedTokensContract('memory', () => {
  const ada = aUser({ id: 1 });
  const bob = aUser({ id: 2, username: 'bob' });
  const tokens = makeMemoryTokenStore([ada, bob]);
  return Promise.resolve({ tokens, revocations: tokens, ada, bob });
});
