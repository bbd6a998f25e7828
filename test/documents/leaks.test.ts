import { test } from 'tap';
import { createLimited, createLongLived, signUp } from '../support/client.ts';
import { readDocument } from '../support/documents.ts';
import { aFactor, firstStep } from '../support/factors.ts';
import { KEYS, withKeys } from '../support/keys.ts';

/** The expressions of docs/leaks.md, by the id of the rule. */
const RULES = Object.fromEntries(
  [...readDocument('docs/leaks.md').matchAll(/^id = "([\w-]+)"\n.*\nregex = '''(.+)'''$/gm)].map(
    ([, id = '', pattern = '']) => [id, new RegExp(pattern, 'g')],
  ),
);

test('the scanners’ rules find limited, long-lived and login tokens of each algorithm, and no others', async (t) => {
  for (const algorithm of Object.keys(KEYS) as (keyof typeof KEYS)[]) {
    const { target } = await withKeys(t, algorithm);
    const pair = await signUp(target);
    const { access_token: access, refresh_token: refresh } = pair;
    const { token: limited } = await createLimited(target, access);
    const { longlived_token: llt } = await createLongLived(target, access);
    await aFactor(target, pair);
    const login = await firstStep(target, pair.user.username);
    const text = ['', `ACCESS=${access}`, `LIMITED="${limited}"`, refresh, `Bearer ${llt}`, login, ''].join(
      '\n',
    );
    const found = Object.entries(RULES).map(([id, rule]) => [id, text.match(rule)]);
    t.strictSame(
      found,
      [
        ['latchkey-limited-token', [limited]],
        ['latchkey-long-lived-token', [llt]],
        ['latchkey-login-token', [login]],
      ],
      algorithm,
    );
  }
});
