import Type from 'typebox';

// The fields of events, apart from event.ts, which lists events alone. `description` and `examples` appear in
// docs/audit.md.

export const Id = (description: string, example: number) =>
  Type.Integer({ minimum: 1, description, examples: [example] });

export const Count = (description: string, example: number) =>
  Type.Integer({ minimum: 0, description, examples: [example] });

export const Text = (description: string, example: string) =>
  Type.String({ minLength: 1, maxLength: 512, description, examples: [example] });

export const Flag = (description: string) => Type.Boolean({ description, examples: [true] });

export const OneOf = <Value extends string>(description: string, values: readonly [Value, ...Value[]]) =>
  Type.Enum([...values], { type: 'string', description, examples: [values[0]] });

export const USER = { userId: Id('The account', 7) };
export const TOKEN = { ...USER, tokenId: Id('The session or long-lived token', 11) };

/** An account, or the keyed hash of a name that no account has. */
export const NAMED = {
  userId: Type.Optional(USER.userId),
  nameHash: Type.Optional(
    Type.String({
      pattern: '^[\\w-]{22}$',
      description: 'Keyed hash of the name, if no account has it',
      examples: ['Zr3vJ0pXk2mWq8sT1bYc9A'],
    }),
  ),
};

export const BY = { by: Id('The session that requested it', 12) };

export const TOKEN_IDS = {
  tokenIds: Type.Array(Type.Integer({ minimum: 1 }), {
    description: 'The tokens that ended, at most the first 100',
    examples: [[11, 12]],
  }),
};

export const KEY = {
  kid: Type.String({ description: 'The key id', examples: ['Xk2mWq8sT1bYc9AZr3vJ0p'] }),
};

/** Every operator command has these. */
export const COMMAND = {
  outcome: OneOf('Whether the command did it', ['success', 'refused', 'failed']),
  reason: Type.Optional(Text('Why it was refused or failed', 'no such user')),
};
