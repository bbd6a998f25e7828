import type { System } from './system.ts';

const FIELDS = 'ID,user_login,user_email,display_name,user_registered,roles,user_pass';

/** `wp user list --format=json` with `user_pass`. */
export const wordpress: System = {
  what: `WordPress's \`wp user list --format=json --fields=${FIELDS}\``,
  list: null,
  isLines: false,
  split: 'list a part of the users at a time (--number=100000 --offset=0)',
  isAccount: (user) => 'user_login' in user && 'user_pass' in user,

  factorList: "the plugin's table, or wp_usermeta (_two_factor_enabled_providers of the plugin Two Factor)",

  open: () =>
    Promise.resolve((user) => {
      const roles = typeof user.roles === 'string' ? user.roles.split(',').map((role) => role.trim()) : [];
      return {
        id: user.ID,
        username: user.user_login,
        names: [user.display_name],
        email: user.user_email,
        passwordHash: user.user_pass,
        createdAt: timeOf(user.user_registered),
        roles: roles.filter((role) => role !== '' && role !== ADMINISTRATOR),
        // On a network, WordPress refuses these two.
        disabled: isSet(user.spam) || isSet(user.deleted),
        factors: undefined,
        ...(roles.includes(ADMINISTRATOR) && {
          notes: ['is an administrator of WordPress, and gets no role for it'],
        }),
      };
    }),
};

const ADMINISTRATOR = 'administrator';

function isSet(flag: unknown): boolean {
  return flag === 1 || flag === '1' || flag === true;
}

/** In UTC. A user without a time has zeros. */
function timeOf(registered: unknown): unknown {
  if (typeof registered !== 'string' || registered.startsWith('0000')) return undefined;
  return `${registered.replace(' ', 'T')}Z`;
}
