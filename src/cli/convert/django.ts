import { CommandError } from '../command.ts';
import { fieldsOf, type JsonObject, type OpenList } from './export-file.ts';
import { spoken, type System } from './system.ts';

/** `manage.py dumpdata auth.user`, also with `--format jsonl`, or of a model that extends AbstractUser. */
export const django: System = {
  what: "Django's `manage.py dumpdata auth.user`",
  list: null,
  isLines: false,
  split: 'dump with --format jsonl (Django 3.2 or later)',
  isAccount: ({ model, fields }) => isModel(model) && 'password' in fieldsOf(fields),

  factorList: 'dump the models of otp_*, two_factor* or mfa with the users',

  async open(_, list) {
    const owners = await survey(list);
    return ({ pk, fields }) => {
      const user = fieldsOf(fields);
      const groups = Array.isArray(user.groups) ? user.groups : [];
      // A natural key is a list of one name.
      const names = groups.filter(Array.isArray).map(([name]: unknown[]) => name);
      return {
        id: pk,
        username: user.username,
        names: [spoken(user.first_name, user.last_name)],
        email: user.email,
        passwordHash: user.password,
        createdAt: user.date_joined,
        roles: names,
        disabled: user.is_active === false,
        factors: hasFactor(owners, pk, user) ? ['other'] : undefined,
        ...(names.length < groups.length && {
          notes: ['has groups that the export numbers: --natural-foreign names them, and they become roles'],
        }),
      };
    };
  },
};

/** An app and one of its models, which a message may name. */
function isModel(model: unknown): model is string {
  return typeof model === 'string' && /^[\p{L}\p{N}_]{1,100}\.[\p{L}\p{N}_]{1,100}$/u.test(model);
}

/** The models of django-otp, django-two-factor-auth, and the packages whose app is called mfa. */
const FACTOR = /^(otp_\w+|two_factor\w*|mfa)\./;

/** How the entries of factors name their users. */
interface Owners {
  keys: ReadonlySet<unknown>;
  /** Values of whichever fields make a natural key in this project. */
  names: ReadonlySet<unknown>;
}

/**
 * Reads what a user's entry does not say, because it stands in others.
 * @returns the users who have a factor, as its entries name them.
 * @throws CommandError if several models have passwords: an app such as django-simple-history keeps old ones in a model
 * of its own.
 */
async function survey(list: OpenList): Promise<Owners> {
  const models = new Set<string>();
  const owners = { keys: new Set<unknown>(), names: new Set<unknown>() };
  for await (const { object } of list.all()) {
    if (!object) continue;
    const { model, fields } = object;
    if (django.isAccount(object)) models.add(String(model));
    const { user, username, confirmed } = fieldsOf(fields);
    // A device whose first code was never typed asks for none.
    if (typeof model === 'string' && FACTOR.test(model) && confirmed !== false) {
      // With --natural-primary, users have no key either.
      if (user !== undefined && user !== null && !Array.isArray(user)) owners.keys.add(user);
      for (const name of Array.isArray(user) ? (user as unknown[]) : [username])
        if (typeof name === 'string') owners.names.add(name);
    }
  }
  if (models.size > 1)
    throw new CommandError(
      `several models have passwords, ${[...models].join(' and ')}: dump the one that AUTH_USER_MODEL names alone, ` +
        'with `manage.py dumpdata MODEL --natural-foreign`',
    );
  return owners;
}

function hasFactor({ keys, names }: Owners, key: unknown, user: JsonObject): boolean {
  return keys.has(key) || Object.values(user).some((value) => names.has(value));
}
