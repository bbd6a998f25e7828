import { test } from 'tap';
import { suspectOptions } from '../src/suspect-options.ts';
import { invalid, type VerifierError } from '../src/verifier-error.ts';

test('says once which option may be wrong, as long as no token was good', async (t) => {
  const refusals = new Map<string, VerifierError>([
    ['billing', invalid('audience', 'no', { expected: 'latchkey', found: 'billing' })],
    ['shipping', invalid('audience', 'no', { expected: 'latchkey', found: 'shipping' })],
    ['old', invalid('expired', 'no')],
    ['foreign key', invalid('unknown_key', 'no')],
    [
      'foreign',
      invalid('issuer', 'no', { expected: 'https://id.example.com', found: 'mailto:a@example.com' }),
    ],
  ]);
  const errors: VerifierError[] = [];
  const read = suspectOptions(
    (token) => {
      const refusal = refusals.get(token);
      return refusal ? Promise.reject(refusal) : Promise.resolve(token);
    },
    (error) => errors.push(error),
  );
  for (const [token, refusal] of refusals) await t.rejects(read(token), refusal, token);
  t.match(errors, [
    {
      code: 'invalid_token',
      reason: 'audience',
      expected: 'latchkey',
      found: 'billing',
      option: 'audience',
      message:
        /^no token has been good so far, check `audience`: it is latchkey, and the token is for billing$/,
    },
    { reason: 'unknown_key', option: 'url', message: /check `url`/ },
    { reason: 'issuer', option: 'issuer', message: /: it is http.*, and the token is of \(not shown\)$/ },
  ]);
  t.equal(errors.length, 3);

  errors.length = 0;
  const later = suspectOptions(
    (token) => (token === 'good' ? Promise.resolve(token) : Promise.reject(invalid('issuer', 'no'))),
    (error) => errors.push(error),
  );
  t.equal(await later('good'), 'good');
  await t.rejects(later('foreign'), { code: 'invalid_token', reason: 'issuer' });
  t.strictSame(errors, []);
});
