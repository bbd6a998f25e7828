import { fieldsOf } from './export-file.ts';
import { spoken, type System } from './system.ts';

/** `manage.py dumpdata auth.user`, also with `--format jsonl`, or of a model that extends AbstractUser. */
export const django: System = {
  what: "Django's `manage.py dumpdata auth.user`",
  list: null,
  isLines: false,
  split: 'dump with --format jsonl (Django 3.2 or later)',
  isAccount: ({ model, fields }) => typeof model === 'string' && 'password' in fieldsOf(fields),

  open: () =>
    Promise.resolve(({ pk, fields }) => {
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
        factor: undefined,
        ...(names.length < groups.length && {
          notes: ['has groups that the export numbers: --natural-foreign names them, and they become roles'],
        }),
      };
    }),
};
