import { test } from 'tap';
import { anAccount } from '../support/client.ts';
import { readyService } from '../support/service.ts';
import { compileWithClient } from '../typed-client/generated-client.ts';
import { MISTAKES, PROGRAM } from '../typed-client/user-program.ts';
import '../support/watch-leaks.ts';

test('a typed client that is generated from the document', async (t) => {
  const service = await readyService(t);
  const run = await compileWithClient(t, service, PROGRAM, MISTAKES);
  t.match(await run([anAccount().username]), {
    user: Number,
    verified: 200,
    types: ['refresh', 'refresh', 'llt'],
    ended: 'logged out',
    code: 'invalid_token',
    owner: null,
  });
});
