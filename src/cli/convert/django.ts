import { CommandError } from '../command.ts';
import { fieldsOf, type OpenList } from './export-file.ts';
import { spoken, type System } from './system.ts';

/** `manage.py dumpdata auth.user`, also with `--format jsonl`, or of a model that extends AbstractUser. */
export const django: System = {
  what: "Django's `manage.py dumpdata auth.user`",
  list: null,
  isLines: false,
  split: 'dump with --format jsonl (Django 3.2 or later)',
  isAccount: ({ model, fields }) => isModel(model) && 'password' in fieldsOf(fields),

  async open(_, list) {
    await refuseSeveralModels(list);
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
        factor: undefined,
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

/** An app such as django-simple-history keeps old passwords in a model beside that of the users. @throws CommandError */
async function refuseSeveralModels(list: OpenList): Promise<void> {
  const models = new Set<string>();
  for await (const { object } of list.all())
    if (object && django.isAccount(object)) models.add(String(object.model));
  if (models.size > 1)
    throw new CommandError(
      `several models have passwords, ${[...models].join(' and ')}: dump the one that AUTH_USER_MODEL names alone, ` +
        'with `manage.py dumpdata MODEL --natural-foreign`',
    );
}
