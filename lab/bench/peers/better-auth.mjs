// better-auth's session check, with the bearer plugin. Prints where it serves, and the tokens of its sessions.
import { bearer } from 'better-auth/plugins/bearer';
import { serve } from './better-auth-server.mjs';

const { url, signups } = await serve({
  // A cookie cache would answer for a session that has ended.
  session: { cookieCache: { enabled: false } },
  plugins: [bearer()],
});
const access = signups.map(({ headers }) => headers.get('set-auth-token'));
console.log(JSON.stringify({ url, access, refresh: [] }));
