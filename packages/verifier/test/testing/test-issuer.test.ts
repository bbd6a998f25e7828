import { test, type Test } from 'tap';
import { latchkeyOfVerifiersContract } from '../../../../test/contract/latchkey-of-verifiers.ts';
import { createVerifier } from '../../src/create-verifier.ts';
import { testIssuer } from '../../src/testing/main.ts';
import type { UserEvent } from '../../src/feed-message.ts';
import { until } from '../../../../test/support/until.ts';

function anIssuer(t: Test, options: Parameters<typeof testIssuer>[0] = {}) {
  const issuer = testIssuer(options);
  t.teardown(() => issuer.close());
  return issuer;
}

latchkeyOfVerifiersContract('the test issuer', (t) => {
  const issuer = anIssuer(t);
  let users = 0;
  const { options, ...rest } = issuer;
  return Promise.resolve({
    ...rest,
    issuer: options.issuer,
    fetch: options.fetch,
    client: (audience) => (audience === 'latchkey' ? options.client : issuer.clientFor(audience)),
    async aUser(roles = []) {
      await issuer.changeUser(++users, { roles });
      return users;
    },
  });
});
