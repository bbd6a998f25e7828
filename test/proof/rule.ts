import * as real from '../../src/domain/sessions/rotation.ts';

/** The explored rule: the functions of src/domain/sessions/rotation.ts, or a weakening of their text. */
export type Rule = Pick<typeof real, 'rotate' | 'checkAccess' | 'initialState'>;

export const realRule: Rule = real;
